"""A shard: its log and the folds over it.

Live, a record is appended and applied in one step (`append`). After a restart the same `apply` runs over the
log's tail (`replay`), on top of the newest snapshot. The folds end in an *equivalent* state: every in-scope link
that the log holds is exactly one of done, pending, waiting in the store, or deferred (or still on its way to
another shard, behind that shard's cursor). What replay does differently is only this: nothing was taken, so a
`Fetched`, `Skipped` or `Deferred` withdraws its URL from wherever the earlier records put it, and marks it known.

Links take this path (Manning et al. §20.2.1, Figure 20.2): followed kinds only; those certainly known drop out
(most); scope; then, by the registered domain, to this shard's seen set and frontier, or into the outbox for
another shard. The outbox is delivered when the record it came from is committed (see `exchange`).

Scope is judged when a link is found and again when its URL is taken, so a narrower scope acts at once; a wider
one (a `Configured` with another scope) makes the shard read its log again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from lycosa.clock import Clock
from lycosa.crawl.config import FollowOptions, Options, decode_options
from lycosa.crawl.exchange import Outbox
from lycosa.crawl.sites import SiteTable
from lycosa.crawl.splitting import Splitter
from lycosa.crawl.totals import Totals
from lycosa.frontier.calendar import Calendar
from lycosa.frontier.orders import Order
from lycosa.frontier.protocol import Frontier
from lycosa.log.log import Log
from lycosa.records import (
    FIRST_REQUISITE,
    NOFOLLOW,
    Configured,
    Deferred,
    Duplicates,
    Fetched,
    LinkKind,
    Links,
    Received,
    Record,
    Robots,
    Seeded,
    Skipped,
    Stored,
    Waiting,
    Why,
)
from lycosa.seen.cache import Cache
from lycosa.seen.protocol import Keys, Merge, Merging, Seen
from lycosa.state import Durable
from lycosa.url.key import Keyer
from lycosa.url.parts import host_of, site_of
from lycosa.url.scope import Scope

REDIRECT = int(LinkKind.REDIRECT)
_BY_POLICY = frozenset((Why.SCOPE, Why.BLOCKED, Why.ADDRESS, Why.SCHEME, Why.SITE_LIMIT, Why.ROBOTS))
"""Skips that other options may undo."""


class ContentIndex:
    """Which contents were fetched before, by 64-bit digest: partitioned by the digest, not by host.

    The same content turns up on any host, so its digests cannot be split like URLs (Manning et al. §20.2.1);
    partition *d mod n* is kept, and snapshotted, with shard *d mod n*. After a crash between the snapshots
    of two shards a digest may be missing: then a duplicate goes unmarked, and nothing else.

    An agent has the partitions of its own shards; those of others are asked through the exchange.
    """

    def __init__(self, stores: Sequence[Seen] = (), total: int | None = None) -> None:
        self.stores: dict[int, Seen] = dict(enumerate(stores))
        self.total = len(stores) if total is None else total
        """Partitions of the whole crawl: one a shard."""

    def owner(self, digest: int) -> int:
        """The shard whose partition a digest is in."""
        return digest % self.total

    def knows(self, digest: int) -> bool:
        """Whether the content is known to have been fetched before; False for another agent's digest."""
        store = self.stores.get(digest % self.total)
        return store is not None and bool(store.certain(np.array([digest], np.uint64))[0])

    def mark(self, digest: int) -> None:
        """Note a digest, if it is of a partition that is here."""
        store = self.stores.get(digest % self.total)
        if store is not None:
            store.mark(np.array([digest], np.uint64))

    def mark_all(self, digests: Sequence[int]) -> None:
        """Mark many at once."""
        keys = np.array(digests, np.uint64)
        owners = keys % np.uint64(self.total)
        for number, store in self.stores.items():
            mine = keys[owners == number]
            if len(mine):
                store.mark(mine)


def followed_kinds(options: FollowOptions) -> NDArray[np.bool_]:
    """For each byte of `Links.kinds`, whether such a link is followed."""
    table = np.zeros(256, np.bool_)
    for kind in LinkKind:
        follow = kind != LinkKind.FORM and (kind < FIRST_REQUISITE or options.requisites)
        if kind == LinkKind.SITEMAP and not options.sitemaps:
            follow = False
        table[kind] = follow
        table[kind | NOFOLLOW] = follow and options.nofollow
    return table


def links_found(record: Record) -> tuple[Links, int, int] | None:
    """The links that a record found, their depth, and the redirects in a row that led to the page.

    None for records that find none; Received links were found elsewhere and have depths of their own.
    """
    if isinstance(record, Fetched):
        depth = record.depth if 300 <= record.status < 400 else record.depth + 1
        return record.links, depth, record.hops
    if isinstance(record, Robots | Seeded):
        return record.links, 0, 0
    return None


class Shard:
    """One share of the domains, with everything known about them."""

    def __init__(
        self,
        number: int,
        *,
        log: Log,
        seen: Merging,
        store: Merging,
        cache: Cache,
        frontier: Frontier,
        calendar: Calendar,
        content: ContentIndex,
        content_store: Seen,
        order: Order,
        keyer: Keyer,
        splitter: Splitter,
        scope_of: Callable[[Options], Scope],
        clock: Clock,
    ) -> None:
        self.number = number
        self.log = log
        self.seen = seen
        """The uniqueness store, with the agent's URL cache before it: for links found here."""
        self.store = store
        self.frontier = frontier
        self.calendar = calendar
        self.content_store = content_store
        self.sites = SiteTable()
        self.totals = Totals()
        self.outbox = Outbox(cache)
        self.cursors: dict[int, int] = {}
        """Of each sender: links it logged before this position have been received."""
        self.answers: dict[int, int] = {}
        """Of each shard that was asked about contents: its answers to what it logged before this position came."""
        self.replies: list[tuple[int, int, list[int]]] | None = None
        """Answers to other agents: the position of the question here, who asked, and which of its fetches had a
        content that was known. None: nobody would send them."""
        self.archive_ends: dict[str, int] = {}
        """Of each archive file that this shard's records point into: the end of the last one."""
        self.options: bytes = b""
        self.content = content
        self._order = order
        self.keyer = keyer
        self.splitter = splitter
        self._scope_of = scope_of
        self._clock = clock
        self._scope: Scope | None = None
        self.follow = followed_kinds(FollowOptions())
        self.max_hops = FollowOptions().redirects
        self._scope_text: bytes = b""
        self.rescoped: list[int] = []  # positions of Configured records that changed the scope

    @property
    def scope(self) -> Scope:
        assert self._scope is not None, "the log begins with Configured"
        return self._scope

    # -- the log moves on

    def append(self, record: Record) -> int:
        """Log a record of something that happens now, and apply it."""
        position = self.log.append(record)
        self._apply(record, position, live=True)
        return position

    def replay(self, start: int) -> int:
        """Apply what the log has from `start` on, record by record; returns how many.

        `lycosa.crawl.replay` does the same faster for the usual log; this is the plain way, and the only one
        for a tail in which the scope changes.
        """
        count = 0
        for position, record in self.log.reader.scan(start):
            self._apply(record, position, live=False)
            count += 1
        self.frontier.settle_withdrawn()
        self.calendar.settle_withdrawn()
        return count

    def _apply(self, record: Record, position: int, live: bool) -> None:
        if isinstance(record, Fetched | Skipped) or (isinstance(record, Deferred) and record.url):
            self.leave(record.url, live)
        if isinstance(record, Deferred):
            self.defer(record, live)
        self.learn(record, position)
        if isinstance(record, Fetched) and record.digest:
            if (owner := self.content.owner(record.digest)) in self.content.stores:
                self.content.mark(record.digest)
            elif live:
                self.outbox.ask(owner, position, record.digest)
        if isinstance(record, Received):
            self.receive(record)
        self._offer_links(record, position)

    def learn(self, record: Record, position: int) -> None:
        """What a record tells besides where URLs are: totals, sites, cursors, options."""
        self.totals.apply(record)
        if isinstance(record, Fetched):
            self._count_fetch(record)
        elif isinstance(record, Received):
            self.cursors[record.sender] = max(self.cursors.get(record.sender, 0), record.cursor)
            if record.digests:
                self._heed(record, position)
        elif isinstance(record, Duplicates):
            self.answers[record.owner] = max(self.answers.get(record.owner, 0), record.cursor)
        elif isinstance(record, Robots):
            self._learn_robots(record, position)
        elif isinstance(record, Configured):
            self._configure(record, position)

    def _heed(self, record: Received, position: int) -> None:
        """Contents that another agent fetched: those known already are told, if somebody listens."""
        keys = np.frombuffer(record.digests, "<u8").astype(np.uint64)
        new = set(self.content_store.offer(keys, [b""] * len(keys)).new.tolist())
        known = [at for row, at in enumerate(record.asked) if at >= 0 and row not in new]
        if known and self.replies is not None:
            self.replies.append((position, record.sender, known))

    # -- what each record means

    def leave(self, url: str, live: bool) -> None:
        """The URL has had its answer: it is known, and nowhere pending."""
        key = self.keyer.key(url)
        if live:
            self.frontier.done(key)
            return
        self.frontier.withdraw(url, key)
        if len(self.calendar):
            self.calendar.withdraw(url)
        self.seen.mark(np.array([key], np.uint64))

    def _count_fetch(self, record: Fetched) -> None:
        site = self.sites.get(site_of(record.url))
        site.pages += 1
        site.last_ms = record.timing.total
        site.asked = True
        if (host := self.sites.peek(host_of(record.url))) is not None:
            host.dns_failures = 0
        self._remember_end(record.stored)

    def _remember_end(self, stored: Stored | None) -> None:
        if stored is not None:
            end = stored.offset + stored.length
            if end > self.archive_ends.get(stored.file, 0):
                self.archive_ends[stored.file] = end

    def defer(self, record: Deferred, live: bool) -> None:
        """The URL, which has left, or the site waits for its time."""
        seconds = max(record.due / 1000 - self._clock.wall(), 0.0)
        if not record.url:
            host = host_of(record.site + "/")
            self.sites.get(host).dns_failures = record.attempt
            self.frontier.hold(host, self._clock.monotonic() + seconds)
            return
        if record.why is Why.BUSY and not live:
            # The site asked to be left alone; live, the visit itself sees to that.
            self.frontier.hold(host_of(record.url), self._clock.monotonic() + seconds)
        self.sites.get(site_of(record.url)).asked = True
        self.calendar.add(record)

    def _learn_robots(self, record: Robots, position: int) -> None:
        site = self.sites.get(record.site)
        site.asked = True
        site.robots_status = record.status
        self._remember_end(record.stored)
        if record.detail.startswith("unreachable"):
            site.robots_failures += 1
            site.robots_retry = record.expires
            return
        site.robots_failures = 0
        site.crawl_delay = record.delay
        site.robots_position = position
        site.robots_expires = record.expires

    def _configure(self, record: Configured, position: int) -> None:
        before = self._scope_text
        self._adopt(record.options)
        if before not in (b"", self._scope_text):
            self.rescoped.append(position)
            self._read_again(position)

    def _adopt(self, encoded: bytes) -> None:
        options = decode_options(encoded)
        self.options = encoded
        self.follow = followed_kinds(options.follow)
        self.max_hops = options.follow.redirects
        self._scope = self._scope_of(options)
        self._scope_text = msgspec.json.encode(
            (options.scope, options.follow, options.near, options.allow, options.robots.obey)
        )

    def _read_again(self, position: int) -> None:
        """The scope changed at `position`: offer every earlier link once more, as if found there.

        Links of other shards thus get the position of the change, which their cursors are not past.
        What the old scope had excluded at take comes back if the new one does not.
        """
        excluded: dict[str, Skipped] = {}
        for _, record in self.log.reader.scan(0, min(position, self.log.committed)):
            self._offer_links(record, position)
            if isinstance(record, Received):
                self.receive(record)
            elif isinstance(record, Skipped) and record.why in _BY_POLICY:
                excluded[record.url] = record
            elif isinstance(record, Fetched | Skipped | Deferred):
                excluded.pop(record.url, None)
        back = [
            Waiting(row.url, self.keyer.key(row.url), row.depth)
            for row in excluded.values()
            if self.scope.inside(row.url, row.depth)
        ]
        for waiting in back:  # an earlier change may have brought it back already
            self.frontier.withdraw(waiting.url, waiting.key)
        self.frontier.settle_withdrawn()
        self._put(back)

    def knows(self, url: str) -> bool:
        """Whether a URL is certainly known here."""
        return bool(self.seen.certain(np.array([self.keyer.key(url)], np.uint64))[0])

    # -- links

    def _offer_links(self, record: Record, position: int) -> None:
        """Offer the links that a record holds (but for Received, whose links have depths of their own)."""
        found = links_found(record)
        if found is not None:
            self._admit(*found, position)

    def _admit(self, links: Links, depth: int, hops: int, position: int) -> None:
        if not links.kinds:
            return
        keys, hosts = self.keyer.scan(links.urls)
        wanted = self.follow[np.frombuffer(links.kinds, np.uint8)]
        wanted &= ~self.seen.certain(keys)
        rows = np.flatnonzero(wanted)
        if not len(rows):
            return
        urls = links.urls.split(b"\n")
        inside, shard_of_url = self.scope.inside, self.splitter.shard_of_url
        mine: list[int] = []
        found: list[Waiting] = []
        others: list[int] = []
        leaving: list[tuple[int, tuple[int, str, int, int, int]]] = []
        for row, host, key in zip(rows.tolist(), hosts[rows].tolist(), keys[rows].tolist(), strict=True):
            url = urls[row].decode("ascii")
            kind = links.kinds[row]
            count = hops + 1 if kind == REDIRECT else 0
            if count > self.max_hops or not inside(url, depth):
                continue
            owner = shard_of_url(host, url)
            if owner != self.number:
                others.append(row)
                leaving.append((owner, (position, url, kind, depth, count)))
            else:
                mine.append(row)
                found.append(Waiting(url, key, depth, count))
        if others:
            self.outbox.add(keys[others], leaving)
        if mine:
            self.offer(self.seen, keys[mine], found)

    def receive(self, record: Received) -> None:
        """Offer the links that another shard sent."""
        links = record.links
        if not links.kinds:
            return
        # Past the cache, to the store itself: the sender put these keys into the cache when it sent them.
        keys, _ = self.keyer.scan(links.urls)
        new = np.flatnonzero(~self.store.certain(keys)).tolist()
        urls = links.urls.split(b"\n")
        mine: list[int] = []
        found: list[Waiting] = []
        for row in new:
            url = urls[row].decode("ascii")
            if self.scope.inside(url, record.depths[row]):
                mine.append(row)
                found.append(Waiting(url, int(keys[row]), record.depths[row], record.hops[row]))
        if mine:
            self.offer(self.store, keys[mine], found)

    def offer(self, seen: Merging, keys: Keys, found: Sequence[Waiting]) -> None:
        """Offer URLs to the store (or to the cache before it); what is new is pending from now on."""
        answer = seen.offer(keys, _Payloads(found))
        if len(answer.new):
            self._put([found[row] for row in answer.new.tolist()])

    def _put(self, items: Sequence[Waiting]) -> None:
        if items:
            self.frontier.put(items, self._order.levels(items, None))

    # -- snapshots

    @property
    def parts(self) -> dict[str, Durable]:
        """Everything that a snapshot holds, by name; a part's files are in the directory of that name."""
        return {
            "shard": self,
            "totals": self.totals,
            "sites": self.sites,
            "seen": self.seen,
            "content": self.content_store,
            "frontier": self.frontier,
            "calendar": self.calendar,
        }

    def freeze(self) -> Iterator[bytes]:
        small = _Small(self.cursors, self.archive_ends, self.options, self.rescoped, self.answers)
        return iter([msgspec.msgpack.encode(small)])

    def files(self) -> list[str]:
        return []

    def settle(self) -> None:
        """Nothing of it lies in files of its own."""

    def thaw(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            read = msgspec.msgpack.decode(piece, type=_Small)
            self.cursors, self.archive_ends, self.rescoped = read.cursors, read.archive_ends, read.rescoped
            self.answers = read.answers
            if read.options:
                self._adopt(read.options)

    # -- what waits

    def merged(self, merge: Merge) -> None:
        """A merge of the store has run: what it found new goes into the frontier."""
        self._put([_waiting(key, payload) for key, payload in self.seen.apply(merge)])

    def release_due(self, now_ms: int) -> None:
        """What is due goes back into the frontier, without asking seen."""
        first = self.calendar.next_due()
        if first is None or first > now_ms:
            return
        key = self.keyer.key
        due = self.calendar.due(now_ms)
        self._put([Waiting(row.url, key(row.url), row.depth, row.hops, row.attempt) for row in due])


class _Small(msgspec.Struct, array_like=True):
    """What a snapshot holds of the shard itself."""

    cursors: dict[int, int]
    archive_ends: dict[str, int]
    options: bytes
    rescoped: list[int]
    answers: dict[int, int] = {}


class _Payloads(Sequence[bytes]):
    """What a store keeps of a URL until it has answered: made only if it asks."""

    def __init__(self, found: Sequence[Waiting]) -> None:
        self._found = found

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, row: int) -> bytes: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[bytes]: ...
    def __getitem__(self, row: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(row, slice):
            return _Payloads(self._found[row])
        waiting = self._found[row]
        return f"{waiting.depth} {waiting.hops} {waiting.url}".encode("ascii")


def _waiting(key: int, payload: bytes) -> Waiting:
    """A payload as the store kept it: depth, hops and URL, with spaces between."""
    depth, hops, url = payload.decode("ascii").split(" ", 2)
    return Waiting(url, key, int(depth), int(hops))
