"""A shard: its log and the folds over it.

Live, a record is appended and applied in one step (`append`). After a restart the same `apply` runs over the
log's tail (`replay`), on top of the newest snapshot. The folds end in an *equivalent* state: every in-scope link
that the log holds is exactly one of done, pending, waiting in the store, or deferred; or, if none of these, behind
a cursor: that of a record left behind, or that of another shard to which it is under way. Replay differs only in
this: no URL was taken by a visit, so a `Fetched`, `Skipped` or `Deferred` withdraws its URL from
wherever the earlier records put it, and marks it known.

`admission` describes how links get from a record into the frontier, or are left behind; those of other shards go
into the outbox, which is delivered when the record they came from is committed (see `exchange`).

Scope is judged when a link is found and again when its URL is taken, so a narrower scope takes effect at once; a
wider one (a `Configured` with another scope) makes the shard read its log again, in a pass while the crawl runs
(see `rescoping`). Links that the pass has not reached are behind its cursor (`changes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from lycosa.content.joins import Joins
from lycosa.content.yields import Yields
from lycosa.crawl.admission import Admission, LinkRules, Offer, Shared, found_in
from lycosa.crawl.budgets import Budgets
from lycosa.crawl.config import FollowOptions, Options, decode_options
from lycosa.crawl.exchange import Outbox, unpack_hint
from lycosa.crawl.link_store import LinkStore
from lycosa.crawl.sites import SiteTable
from lycosa.crawl.totals import Totals
from lycosa.frontier import (
    Calendar,
    Entry,
    Frontier,
    LeftBehind,
    PolitenessOptions,
    wait_after,
)
from lycosa.log.log import Log
from lycosa.pages.plain import PlainPages
from lycosa.pages.protocol import PageTable
from lycosa.pages.summary import DUPLICATE, content_of, of_fetch, of_loss
from lycosa.records import (
    NOFOLLOW,
    Before,
    Configured,
    Deferred,
    Duplicates,
    Fetched,
    Learned,
    LinkKind,
    Lost,
    Received,
    Record,
    Reread,
    Robots,
    Skipped,
    Stored,
    Waiting,
    Why,
)
from lycosa.seen.protocol import Merge, Seen
from lycosa.state import Durable, Filed, keeps_files
from lycosa.url.parts import host_of, site_of
from lycosa.url.scope import Scope

REDIRECT = int(LinkKind.REDIRECT)
_ASKED = frozenset((Why.FAILED, Why.RETRY, Why.BUSY, Why.ADDRESS))
"""Reasons for skipping or deferring a URL that imply that its host was reached."""
_AT_ONCE = 1_000
_TRICKLE = 64
"""URLs that come back from the calendar to a shard without any, however full the memory is."""
_LOOK = 6 * 3_600_000
"""Milliseconds: a page that is due later than this is judged again halfway."""


class Change(msgspec.Struct, array_like=True):
    """A change of scope, and the progress of the pass over the records before it."""

    position: int
    """The position of the Configured."""
    links: int = 0
    """Links of the records before this position were judged again."""
    skips: int = 0
    """URLs that were skipped by policy before this position, and had no later record, were brought back if in
    scope."""

    @property
    def is_over(self) -> bool:
        return self.links >= self.position and self.skips >= self.position


class ContentIndex:
    """Which contents were fetched before, by 64-bit digest: partitioned by the digest, not by host.

    The same content occurs on any host, so its digests cannot be split like URLs (Manning et al. §20.2.1);
    partition *d mod n* is kept, and snapshotted, with shard *d mod n*. After a crash between the snapshots
    of two shards a digest may be missing: then a duplicate stays unmarked, but nothing is lost.

    An agent has the partitions of its own shards; those of others are asked through the exchange.
    """

    def __init__(self, stores: Sequence[Seen] = (), total: int | None = None) -> None:
        self.stores: dict[int, Seen] = dict(enumerate(stores))
        self.total = len(stores) if total is None else total
        """Number of partitions of the whole crawl: one per shard."""
        self._asked = np.empty(1, np.uint64)

    def owner(self, digest: int) -> int:
        """The shard whose partition a digest is in."""
        return digest % self.total

    def knows(self, digest: int) -> bool:
        """Whether the content is known to have been fetched before; False for another agent's digest."""
        store = self.stores.get(digest % self.total)
        self._asked[0] = digest
        return store is not None and bool(store.certain(self._asked)[0])

    def mark(self, digest: int) -> None:
        """Note a digest, if its partition is here."""
        store = self.stores.get(digest % self.total)
        if store is not None:
            self._asked[0] = digest
            store.mark(self._asked)

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
        table[kind] = follow = options.follows(kind)
        table[kind | NOFOLLOW] = follow and options.nofollow
    return table


class Shard:
    """One share of the domains, with everything known about them."""

    def __init__(
        self,
        number: int,
        *,
        log: Log,
        links: LinkStore,
        frontier: Frontier,
        calendar: Calendar,
        revisits: Calendar,
        content: ContentIndex,
        content_store: Seen,
        left: LeftBehind,
        shared: Shared,
        sites: SiteTable | None = None,
        pages: PageTable | None = None,
        budgets: Budgets | None = None,
        yields: Yields | None = None,
    ) -> None:
        """Without `sites` or `pages` that table is only in RAM; without `budgets` there are none."""
        self.number = number
        self.log = log
        self.links = links
        self.frontier = frontier
        self.calendar = calendar
        self.revisits = revisits
        """Pages that a continuous crawl will fetch again; unused in other crawls."""
        self.unscheduled: list[int] = [0]
        """The start and the end, in the log, of fetches whose pages have no due time; without an end: they
        continue."""
        self.content_store = content_store
        self.sites = SiteTable() if sites is None else sites
        self.pages = PlainPages() if pages is None else pages
        self.budgets = Budgets(0, 0, lambda _: "") if budgets is None else budgets
        self.yields = Yields() if yields is None else yields
        self.joins = Joins()
        self.totals = Totals()
        self.outbox = Outbox(links.sent)
        self.cursors: dict[int, int] = {}
        """By sender: links it logged before this position have been received."""
        self.answers: dict[int, int] = {}
        """By shard that was asked about contents: its answers to our log before this position have come."""
        self.replies: list[tuple[int, int, list[int]]] | None = None
        """Answers to other agents: the position of the question here, the asker, and those of its fetches whose
        content was known. None: nobody would send them."""
        self.received = 0
        """In a cluster: the sequence of this shard's exchange up to which its links are in the log."""
        self.archive_ends: dict[str, int] = {}
        """For each archive file that this shard's records point into: the end of the last one."""
        self.options: bytes = b""
        self._politeness = PolitenessOptions()
        self.configured = 0
        """The position of the last Configured; 0 also if that is before the snapshot."""
        self.continuous = False
        """Whether the crawl is continuous: pages are fetched again."""
        self.content = content
        self.left = left
        self.keyer = shared.keyer
        self.splitter = shared.splitter
        self.admission = Admission(
            number,
            log=log,
            links=links,
            frontier=frontier,
            left=left,
            outbox=self.outbox,
            shared=shared,
            tells_domains=self.budgets.by_domain,
        )
        self._noted = shared.noted
        self._room = shared.room
        self._scope_of = shared.scope_of
        self._clock = shared.clock
        self._scope_text: bytes = b""
        self.changes: list[Change] = []
        """Changes of scope that brought something back, and the last one."""
        self.settled: set[int] | None = None
        """While set: keys of URLs that got a record since."""

    @property
    def rules(self) -> LinkRules:
        """Which links are followed."""
        assert self.admission.rules is not None, "the log begins with Configured"
        return self.admission.rules

    @property
    def scope(self) -> Scope:
        return self.rules.scope

    # -- new records

    def append(self, record: Record, *, again: bool = False) -> int:
        """Log a record of something that happens now, and apply it. `again`: a Fetched with a content that its page
        had before."""
        position = self.log.append(record)
        if self._noted is not None:
            self._noted(record)
        self._apply(record, position, live=True, again=again)
        return position

    def append_apart(self, record: Skipped | Deferred) -> int:
        """Log a record about a URL that no visit has taken: the URL is removed from wherever it waits."""
        self.leave(record.url, live=False)
        self.settle_withdrawn()
        return self.append(record)

    def replay(self, start: int) -> int:
        """Apply what the log has from `start` on, record by record; returns how many.

        `lycosa.crawl.replay` does the same faster for the usual log; this is the plain way, and the only one
        for a tail in which the scope changes.
        """
        count = 0
        for position, record in self.log.reader.scan(start):
            self._apply(record, position, live=False)
            count += 1
        self.settle_withdrawn()
        return count

    def settle_withdrawn(self) -> None:
        """Finish withdrawing the URLs that single records have withdrawn."""
        for fold in (self.frontier, self.calendar, self.revisits):
            fold.settle_withdrawn()

    def _apply(self, record: Record, position: int, live: bool, again: bool = False) -> None:
        if isinstance(record, Fetched | Skipped) or (isinstance(record, Deferred) and record.url):
            self.leave(record.url, live)
        if isinstance(record, Deferred):
            self.defer(record, live)
        again = again or (isinstance(record, Fetched) and self.has_again(record))
        self.learn(record, position)
        if isinstance(record, Lost):
            self._take_back(record, position)
        if isinstance(record, Fetched) and record.digest:
            if (owner := self.content.owner(record.digest)) in self.content.stores:
                self.content.mark(record.digest)
            elif live and not record.duplicate and not again:
                self.outbox.ask(owner, position, record.digest)
        self.offer_links(record, position)

    def learn(self, record: Record, position: int) -> None:
        """Apply what a record tells besides the state of URLs: totals, sites, cursors, options."""
        self.totals.apply(record)
        if (found := _reached(record)) and (host := self.sites.peek(found)) is not None:
            host.dns_failures = 0
        if isinstance(record, Fetched):
            if record.before is Before.NEVER and self.yields.is_on:
                self.yields.note_fetch(record.url, record.gain, *self.novelty_of(record.url))
            if self.joins.is_active:
                is_first = record.before is Before.NEVER
                self.joins.note_fetch(record.url, record.status, is_first, self.has_page)
            self._count_fetch(record)
            self._spend(record)
            self.note_page(record, position)
        elif isinstance(record, Received):
            self._note_received(record)
            if not self.log.is_doubtful(position):  # else links before it may be lost, and are sent again
                self.cursors[record.sender] = max(self.cursors.get(record.sender, 0), record.cursor)
            self.received = max(self.received, record.sequence)
            if record.digests:
                self._heed(record, position)
        elif isinstance(record, Duplicates):
            self.answers[record.owner] = max(self.answers.get(record.owner, 0), record.cursor)
        elif isinstance(record, Robots):
            self._learn_robots(record, position)
        elif isinstance(record, Skipped):
            if record.why is Why.TRAP:
                self.yields.note_held(record.detail.partition(" ")[0])
            elif record.why is Why.VARIANT:
                self.joins.note_held(record.detail.partition(" ")[0])
        elif isinstance(record, Learned):
            if record.what == "rule":
                self.joins.note_learned(record.subject, record.holds, record.why, position)
            else:
                self.yields.note_learned(record.subject, record.holds, record.why, record.examples, position)
        elif isinstance(record, Configured):
            self._configure(record, position)

    @property
    def returning(self) -> int:
        """The position before which URLs were skipped for findings that no longer hold, and are to come back; 0:
        none."""
        return max(self.yields.returning, self.joins.returning)

    def returned(self, position: int) -> None:
        """Note that the URLs skipped before a position have come back."""
        for fold in (self.yields, self.joins):
            if fold.returning <= position:
                fold.returning = 0

    def has_page(self, url: str) -> bool:
        """Whether a URL was fetched successfully."""
        found = self.pages.find(self.keyer.key(url))
        return found is not None and found.status == 2 and found.position > 0

    def novelty_of(self, url: str) -> tuple[str, bool]:
        """If nothing of a URL's site was fetched yet: its domain, and True; else "" and False."""
        site = self.sites.peek(site_of(url))
        if site is not None and site.pages:
            return "", False
        return self.splitter.domains.domain(host_of(url)), True

    def _heed(self, record: Received, position: int) -> None:
        """Note contents that another agent fetched; known ones are answered, if replies are sent."""
        keys = np.frombuffer(record.digests, "<u8").astype(np.uint64)
        new = set(self.content_store.offer(keys, [b""] * len(keys)).new.tolist())
        known = [at for row, at in enumerate(record.asked) if at >= 0 and row not in new]
        if known and self.replies is not None:
            self.replies.append((position, record.sender, known))

    # -- the effects of each record

    def _take_back(self, record: Lost, position: int) -> None:
        """The bytes of a fetch are gone: if it was the last valid one of its page, the URL is pending again."""
        if not record.remains:
            site = self.sites.get(site_of(record.url))
            site.pages = max(site.pages - 1, 0)
        if self.note_page(record, position):
            key, before = self.keyer.key(record.url), Before.PAGE if record.remains else Before.LOST
            self.admission.put([Waiting(record.url, key, record.depth, record.hops, before=before)])

    def note_page(self, record: Fetched | Lost, position: int) -> bool:
        """Enter a fetch or a loss into the page table; False for a loss that leaves the table unchanged."""
        key = self.keyer.key(record.url)
        if isinstance(record, Fetched):
            self.pages.note(key, of_fetch(record, position))
            return True
        found = self.pages.find(key)
        had = 0 if found is None else found.position
        # A failed fetch has no place in the table; if there is no other, the page must be fetched nevertheless.
        if had == record.position or (not record.remains and had < record.position):
            self.pages.note(key, of_loss(record, position))
            return True
        return False

    def has_again(self, record: Fetched) -> bool:
        """Whether a fetch found the same content as the last one of the same URL."""
        if record.before is Before.NEVER:
            return False
        found = self.pages.find(self.keyer.key(record.url))
        return found is not None and bool(found.fetches) and found.content == content_of(record)

    def is_duplicate(self, record: Fetched) -> bool:
        """Whether the content of a fetch, which is known, is known from another URL."""
        if not self.has_again(record):
            return True
        found = self.pages.find(self.keyer.key(record.url))
        return found is not None and bool(found.flags & DUPLICATE)

    def leave(self, url: str, live: bool) -> None:
        """The URL has its record: it is known, and nowhere pending."""
        key = self.keyer.key(url)
        if self.settled is not None:
            self.settled.add(key)
        if live:
            self.frontier.done(key)
            return
        self.frontier.withdraw(url, key)
        if len(self.calendar):
            self.calendar.withdraw(url)
        if len(self.revisits):
            self.revisits.withdraw(url)
        self.links.found.mark(np.array([key], np.uint64))

    def _count_fetch(self, record: Fetched) -> None:
        site = self.sites.get(site_of(record.url))
        site.pages += record.before is not Before.PAGE
        site.last_ms = record.timing.total
        site.asked = True
        self._remember_end(record.stored)

    def _spend(self, record: Fetched) -> None:
        """Count a page in the budgets, at its first fetch, and its links for the domains that it links to."""
        host = host_of(record.url)
        if record.before is Before.NEVER:
            self.budgets.note_fetch(host)
        if self.budgets.by_domain and record.links.kinds:
            _, hosts = self.keyer.scan(record.links.urls)
            followed = self.rules.follow[np.frombuffer(record.links.kinds, np.uint8)]
            self.budgets.note_links(self.splitter.domains.domain(host), hosts, record.links.urls, followed)

    def _note_received(self, record: Received) -> None:
        if self.budgets.by_domain and record.hints:
            _, hosts = self.keyer.scan(record.links.urls)
            sources = np.array([unpack_hint(hint)[0] for hint in record.hints], np.uint64)
            self.budgets.note_received(sources, hosts, record.links.urls)

    def _remember_end(self, stored: Stored | None) -> None:
        if stored is not None:
            end = stored.offset + stored.length
            if end > self.archive_ends.get(stored.file, 0):
                self.archive_ends[stored.file] = end

    def listen(self) -> None:
        """Collect replies to other agents from now on: they will be sent."""
        self.replies = []

    def settle(self, urls: Sequence[str], *, withdraw: bool) -> None:
        """Mark URLs as known whose records follow in the log; `withdraw`: they may be pending or wait for a
        time."""
        keys, _ = self.keyer.scan("\n".join(urls).encode("ascii"))
        if withdraw:
            for url, key in zip(urls, keys.tolist(), strict=True):
                self.frontier.withdraw(url, key)
                self.calendar.withdraw(url)
                self.revisits.withdraw(url)
        self.links.received.mark(keys)

    def know_contents(self, digests: Sequence[int]) -> None:
        """Mark contents that the log has; those of other agents' partitions are ignored."""
        self.content.mark_all(digests)

    def take_replies(self, before: int) -> list[tuple[int, int, list[int]]]:
        """Remove and return the replies to questions that were logged before a position."""
        rows = self.replies or []
        self.replies = [row for row in rows if row[0] >= before]
        return [row for row in rows if row[0] < before]

    def note_settled(self, on: bool) -> None:
        """Start or stop noting the URLs that get a record."""
        self.settled = set() if on else None

    def scheduled(self, position: int | None) -> None:
        """Pages fetched before a position have due times now; None: all that had none have one."""
        self.unscheduled = [] if position is None else [position, *self.unscheduled[1:]]

    def forget_archive_ends(self) -> None:
        """The archive files that the records so far point into are safe elsewhere, and need not be known here."""
        self.archive_ends.clear()

    def defer(self, record: Deferred, live: bool) -> None:
        """The URL, which has been removed from the frontier, or the site waits for its time."""
        seconds = max(record.due / 1000 - self._clock.wall(), 0.0)
        if not record.url:
            host = host_of(record.site + "/")
            self.sites.get(host).dns_failures = record.attempt
            self.frontier.hold(host, self._clock.monotonic() + seconds)
            return
        if record.why is Why.BUSY and not live:
            # The site asked for a pause; live, the visit itself takes care of that.
            self.frontier.hold(host_of(record.url), self._clock.monotonic() + seconds)
        self.sites.get(site_of(record.url)).asked = True
        if record.why is Why.REFRESH:
            self.revisits.add(_looked_at(record))
            return
        self.calendar.add(record)

    def _learn_robots(self, record: Robots, position: int) -> None:
        site = self.sites.get(record.site)
        site.asked = True
        self._remember_end(record.stored)
        if record.unreachable:
            site.robots_failures += 1
            site.robots_retry = record.expires
            return
        site.robots_failures = 0
        site.crawl_delay = record.delay
        host = host_of(record.site + "/")
        if record.delay or self.sites.peek(host) is not None:
            self.sites.get(host).crawl_delay = record.delay
        site.robots_position = position
        site.robots_expires = record.expires

    def _configure(self, record: Configured, position: int) -> None:
        before = self._scope_text
        self.configured = position
        self._adopt(record.options, position)
        if self.continuous and len(self.unscheduled) == 1:
            self.unscheduled.append(position)
        elif not self.continuous and len(self.unscheduled) != 1:
            # From the previous record on: a crash may have left it as a Fetched without its due time.
            self.unscheduled = [*self.unscheduled[:1], max(position - 1, 0)][:1]
        if before not in (b"", self._scope_text):
            # Every record before it is read again, and left behind again if necessary.
            self.changes = [*(change for change in self.changes if change.skips), Change(position)]
            self.left.clear()
            self.admission.coming = None

    def _adopt(self, encoded: bytes, position: int) -> None:
        options = decode_options(encoded)
        self._politeness = options.politeness
        self.yields.configure(options.traps, position)
        self.joins.configure(options.variants, position)
        self.options = encoded
        self.continuous = options.refresh.continuous
        follow = options.follow
        self.admission.rules = LinkRules(
            self._scope_of(options), followed_kinds(follow), follow.redirects, outside=set()
        )
        self._scope_text = msgspec.json.encode(
            (
                options.scope,
                options.follow,
                (options.near, *options.near_files),
                options.allow,
                options.robots.obey,
                _bounds(options),
            )
        )

    @property
    def rescoping(self) -> Change | None:
        """The last change of scope, if records before it are still to be read again."""
        return self.changes[-1] if self.changes and not self.changes[-1].is_over else None

    def scope_at(self, configured: Configured) -> Scope:
        """The scope defined by a Configured of the log."""
        return self._scope_of(decode_options(configured.options))

    def judge_again(self, change: Change, stop: int, offers: Sequence[tuple[int, Offer]], at: int) -> None:
        """Offer the links of records from the change's cursor up to `stop` that are in the new scope."""
        sent_at = self.log.end
        if any(offer.leaving for _, offer in offers):
            self.append(Reread(at, change.position, change.links, stop))
        self.admission.offer_again(offers, sent_at)
        change.links = stop

    def bring_back(self, change: Change, stop: int, items: Sequence[Waiting]) -> None:
        """Make URLs pending that were skipped before `stop` and are in the new scope."""
        self.admission.put(items)
        self.admission.tell_room()
        change.skips = stop

    def knows(self, url: str) -> bool:
        """Whether a URL is certainly known here."""
        return bool(self.links.found.certain(np.array([self.keyer.key(url)], np.uint64))[0])

    def offer_links(self, record: Record, position: int) -> None:
        """Offer the links that a record brings."""
        found = found_in(record)
        if found is not None:
            self.admission.offer(found, position)

    # -- snapshots

    @property
    def parts(self) -> dict[str, Durable]:
        """Everything that a snapshot holds, by name; a part's files are in the directory of that name."""
        return {
            "shard": self,
            "totals": self.totals,
            "sites": self.sites,
            "pages": self.pages,
            "seen": self.links.found,
            "content": self.content_store,
            "frontier": self.frontier,
            "calendar": self.calendar,
            "revisits": self.revisits,
            "left": self.left,
            "budgets": self.budgets,
            "yields": self.yields,
            "joins": self.joins,
        }

    @property
    def filed(self) -> dict[str, Filed]:
        """Those parts that keep files."""
        return {name: part for name, part in self.parts.items() if keeps_files(part)}

    def freeze(self) -> Iterator[bytes]:
        self.admission.put_answered()  # before the first part is frozen: no part holds these URLs any more
        small = _Small(self.cursors, self.archive_ends, self.options, list(self.changes), self.answers)
        small.received = self.received
        small.unscheduled = list(self.unscheduled)
        if self.admission.coming is not None:
            small.coming = [self.admission.coming[0], *self.admission.coming[1]]
        return iter([msgspec.msgpack.encode(small)])

    def thaw(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            read = _decode_small(piece)
            self.cursors, self.archive_ends = read.cursors, read.archive_ends
            self.changes = _changes(read.changes)
            self.answers = read.answers
            self.received = read.received
            self.unscheduled = list(read.unscheduled)
            if read.coming:
                queue, position, cursor = read.coming
                self.admission.coming = queue, Entry(position, cursor)
            if read.options:
                self._adopt(read.options, 0)

    # -- pending and deferred URLs

    def is_over_budget(self, host: str) -> bool:
        """Whether a host whose visit begins has used up more budgets than at the last check."""
        return self.budgets.active and self.frontier.demote(host, self.budgets.class_of(host))

    def merged(self, merge: Merge) -> None:
        """A merge of the store has run: the new URLs are to be put into the frontier (`put_answered`)."""
        self.admission.answered(self.links.found.apply(merge))

    def has_work(self, until: int) -> bool:
        """Whether anything is left to do, now or before a time (in milliseconds)."""
        if self.frontier.pending or self.links.found.waiting or len(self.outbox) or len(self.left):
            return True
        if (
            self.continuous
            or self.rescoping is not None
            or self.admission.coming is not None
            or self.returning
        ):
            return True
        due = self.calendar.next_due()
        return due is not None and due <= until

    def claim(self, host: str, now: float) -> bool:
        """Take a host's turn for a visit to another host (`Hosts`); returns whether it was available."""
        return self.frontier.claim(host, now)

    def end(self, host: str, ready: float) -> None:
        """End a claimed turn; its host may be asked again at `ready`, or later if one of its sites
        has a Crawl-delay, which the holder of the turn does not know."""
        self.frontier.end(host, self._rested(host, ready))

    def rest(self, host: str, ready: float) -> None:
        """The same of a turn that was granted elsewhere, before the shard was here."""
        self.frontier.hold(host, self._rested(host, ready))

    def _rested(self, host: str, ready: float) -> float:
        own = self.sites.peek(host)
        if own is None or not own.crawl_delay:
            return ready
        return max(ready, self._clock.monotonic() + wait_after(self._politeness, own.crawl_delay, None, 0.0))

    def hold_all(self, politeness: PolitenessOptions) -> None:
        """After an unclean stop, treat every host as asked just now: the last process may have asked it."""
        now = self._clock.monotonic()
        self.frontier.hold_all(now + politeness.wait)
        for name, site in self.sites.asked():
            wait = wait_after(politeness, site.crawl_delay, None, site.last_ms / 1000)
            if wait > politeness.wait:
                self.frontier.hold(host_of(name + "/"), now + wait)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for due URLs, and the shard has other URLs."""
        return self._room.fill >= 1.0 and self.frontier.pending > 0

    def room_for_due(self) -> int:
        """How many known URLs may become pending again now."""
        return min(max(self._room.urls_left(1.0), 0 if self.frontier.pending else _TRICKLE), _AT_ONCE)

    def pages_due(self, now_ms: int, most: int) -> list[Deferred]:
        """Remove and return at most `most` pages that are due. Each must be put off, or come back."""
        return self.revisits.due(now_ms, most)

    def put_off(self, page: Deferred) -> None:
        """Let a page that was due wait for another time."""
        self.revisits.add(page)

    def come_back(self, pages: Sequence[Waiting]) -> None:
        """Make due pages pending."""
        self.frontier.put(pages, [0] * len(pages))

    def release_due(self, now_ms: int) -> None:
        """Put due URLs back into the frontier, without consulting the seen set: as many as there is room for."""
        first = self.calendar.next_due()
        if first is None or first > now_ms:
            return
        most = self.room_for_due()
        if not most:
            return
        key = self.keyer.key
        due = self.calendar.due(now_ms, most)
        self.admission.put(
            [Waiting(row.url, key(row.url), row.depth, row.hops, row.attempt, row.before) for row in due]
        )


def _reached(record: Record) -> str:
    """The host that was reached, according to a record of a request to it; "" if none was."""
    if isinstance(record, Robots):
        return host_of(record.site + "/")
    if isinstance(record, Fetched) or (isinstance(record, Skipped | Deferred) and record.why in _ASKED):
        return host_of(record.url)
    return ""


def _looked_at(record: Deferred) -> Deferred:
    """A page's entry for the calendar: it comes up halfway to its due time, to be judged at the prices of then."""
    wait = record.due - record.at
    return record if wait < _LOOK else msgspec.structs.replace(record, due=record.at + wait // 2)


class _Small(msgspec.Struct, array_like=True):
    """What a snapshot holds of the shard itself."""

    cursors: dict[int, int]
    archive_ends: dict[str, int]
    options: bytes
    changes: list[Change | int]  # a number: from a version that read everything again at once
    answers: dict[int, int] = {}
    received: int = 0
    unused: dict[str, int] = {}  # older snapshots have lost pages here
    coming: list[int] = []  # of the entry that is being fetched: queue, position, cursor
    unscheduled: list[int] = msgspec.field(default_factory=lambda: [0])


def _changes(read: list[Change | int]) -> list[Change]:
    """For an older snapshot the links of the last change are offered once more: their progress is unknown."""
    changes = [Change(row, row, row) if isinstance(row, int) else row for row in read]
    if read and isinstance(read[-1], int):
        changes[-1].links = 0
    return changes


def _bounds(options: Options) -> dict[str, tuple[int | None, int | None]]:
    """The limits in the settings of single sites that decide which URLs are fetched."""
    found = {host: (table.depth, table.pages) for host, table in options.site.items()}
    return {host: bounds for host, bounds in found.items() if bounds != (None, None)}


# Made at import: msgspec crashes where two threads are the first to decode a struct, as when shards recover.
_decode_small = msgspec.msgpack.Decoder(_Small).decode
