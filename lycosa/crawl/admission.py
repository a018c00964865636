"""Admission: the way of a record's links from its log to the frontier.

Links take this path (Manning et al. §20.2.1, Figure 20.2): only followed kinds; certainly known links are dropped
(most are); scope; then, by the registered domain, to this shard's seen set and frontier, or into the outbox for
another shard. Links of other shards always leave at once: whether there is room for them is for their owner to
decide.

If there is not room for all of a record's own links (`lycosa.frontier.sydney` decides that), they are offered
in the record's fixed pseudo-random order until *t* of them are new or await an answer; the rest is
left behind, as the record's position and a cursor:

    under a host    the links of the record to that host, in their order, from the cursor on
    OTHERS          the links of the record to hosts other than its own, likewise

The rest for the page's own host goes under that host, and so do links to any host that has its maximum of URLs
waiting. A link left behind was *not* offered: it is in no store and no cache, and is found again by
reading the record, which a thread does unless it is in memory (`coming`). Coming back offers links from the cursor
on until again *t* are new; the entry is removed when no link remains. A link may be behind several cursors, or
both pending and behind one: the seen set ensures that it comes out once.

Cursors count all links of their group, whether or not they are followed, known or in scope: these properties
change, the order does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import compress, repeat
from operator import not_
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh32_intdigest

from lycosa.clock import Clock
from lycosa.crawl.config import Options
from lycosa.crawl.exchange import Outbox, Row, pack_hint, unpack_hint
from lycosa.crawl.link_store import LinkStore
from lycosa.crawl.splitting import Splitter
from lycosa.frontier import Entry, Frontier, LeftBehind, Order, Room, Sampler, Sighting
from lycosa.frontier.sydney.left_behind import OTHERS
from lycosa.frontier.sydney.room import ALL, PER_URL, permuted
from lycosa.log.log import Log
from lycosa.records import Before, Fetched, LinkKind, Links, Received, Record, Robots, Seeded, Waiting
from lycosa.seen.protocol import Keys
from lycosa.url.key import Keyer
from lycosa.url.parts import host_of
from lycosa.url.scope import Scope

REDIRECT = int(LinkKind.REDIRECT)
LEAST = 8
"""Minimum of links that a record gives when its shard has nothing else to do, however full the memory is."""
ANSWERS = 500
"""URLs answered by the store that are put into the frontier before the event loop runs again."""
_RECORDS = 8
"""Records left behind that are read before the event loop runs again: each takes some hundreds of microseconds."""
_OUTSIDE = 4096
"""Links outside the scope that a shard remembers: menus and footers lead to the same few from every page."""
_waiting: Callable[[tuple[Any, ...]], Waiting] = partial(tuple.__new__, Waiting)
"""Makes a `Waiting` from all its fields, in a third of the time."""
RETURNS = 64
"""A record of very many links gives so many at a time that this many returns to it suffice, about."""


class Found(NamedTuple):
    """The links that a record brings, each with its depth and the number of consecutive redirects that led to
    it."""

    links: Links
    depth: int
    hops: int  # consecutive redirects that led to the page
    source: str = ""  # the URL of the page; "" if there is none
    depths: Sequence[int] | None = None  # of received links: each has its own
    each_hops: bytes = b""
    hints: Sequence[int] = ()

    def depth_of(self, row: int) -> int:
        return self.depth if self.depths is None else self.depths[row]

    def hops_of(self, row: int) -> int:
        if self.depths is not None:
            return self.each_hops[row]
        return self.hops + 1 if self.links.kinds[row] == REDIRECT else 0


def found_in(record: Record) -> Found | None:
    """The links that a record brings; None for records that bring none."""
    if isinstance(record, Fetched):
        depth = record.depth if 300 <= record.status < 400 else record.depth + 1
        return Found(record.links, depth, record.hops, record.url)
    if isinstance(record, Robots | Seeded):
        return Found(record.links, 0, 0)
    if isinstance(record, Received):
        return Found(record.links, 0, 0, "", record.depths, record.hops, record.hints)
    return None


class LinkRules(NamedTuple):
    """Which links are followed, according to the present options."""

    scope: Scope
    follow: NDArray[np.bool_]  # by the byte of `Links.kinds`
    max_hops: int
    outside: set[int]
    """Keys of links that this scope excludes at any depth: the last ones found, at most `_OUTSIDE`."""


class Offer(NamedTuple):
    """The links of a record that are followed and in scope: their rows, and what would become pending."""

    found: Found
    keys: Keys  # of all links of the record
    hosts: Keys
    rows: list[int]  # of this shard's own links
    items: list[Waiting]
    leaving: list[tuple[int, int, Waiting]]  # links of other shards: the owner, and the row

    @property
    def links(self) -> int:
        return len(self.rows) + len(self.leaving)


class Shared(NamedTuple):
    """What all shards of an agent share."""

    order: Order
    keyer: Keyer
    splitter: Splitter
    sampler: Sampler
    room: Room
    clock: Clock
    scope_of: Callable[[Options], Scope]
    noted: Callable[[Record], None] | None = None
    """Called with every record that is appended, before its links are given levels."""
    low_rank: Callable[[int], bool] | None = None
    """Whether the page of a key is known to have a low rank."""


class Admission:
    """Brings a shard's links into its frontier; see the module."""

    def __init__(
        self,
        number: int,
        *,
        log: Log,
        links: LinkStore,
        frontier: Frontier,
        left: LeftBehind,
        outbox: Outbox,
        shared: Shared,
        tells_domains: bool = False,
    ) -> None:
        """`tells_domains`: other shards need to know which domain a link came from."""
        self._number = number
        self._log = log
        self._links = links
        self._frontier = frontier
        self._left = left
        self._outbox = outbox
        self._order = shared.order
        self._keyer = shared.keyer
        self._splitter = shared.splitter
        self._sampler = shared.sampler
        self._room = shared.room
        self._low_rank = shared.low_rank
        self._tells_domains = tells_domains
        self._source = ("", 0)  # the last page looked up, and its domain's hash
        self._others_next = True
        self.rules: LinkRules | None = None
        self._answered: deque[tuple[int, bytes]] = deque()
        self.coming: tuple[int, Entry] | None = None
        """An entry just removed from those left behind, and its queue: its record is being fetched from the log."""
        self.dropped = 0
        """Links for which there was no room, in the modes that drop them."""
        self.returns = 0
        """Number of returns to records left behind."""

    # -- new links

    def offer(self, found: Found, position: int, *, foreign: bool = True) -> None:
        """Offer the links of the record at `position`; those of other shards go into the outbox, if `foreign`."""
        if not found.links.kinds:
            return
        keys, hosts = self._keyer.scan(found.links.urls)
        rows = self._wanted(found, keys).nonzero()[0]
        if found.depths is None:
            rows = self.not_outside(keys, rows)
        if len(rows):
            offer = self.sift_rows(found, keys, hosts, rows, foreign)
            self._send([offer], position)
            self.admit(offer, position)

    def sift(self, found: Found) -> Offer | None:
        """The links of a record that are followed and in scope, known or not; None if there are none.

        May run in a thread: it reads nothing that the loop changes, except the rules, which are replaced as a
        whole.
        """
        if not found.links.kinds:
            return None
        keys, hosts = self._keyer.scan(found.links.urls)
        rows = np.arange(len(keys)) if found.depths is not None else np.flatnonzero(self._followed(found))
        offer = self.sift_rows(found, keys, hosts, rows, True)
        return offer if offer.links else None

    def offer_again(self, offers: Sequence[tuple[int, Offer]], sent_at: int) -> None:
        """Offer links of the records at these positions that were sifted before; those of other shards as found at
        `sent_at`."""
        self._send([offer for _, offer in offers], sent_at)
        mine = [(position, offer) for position, offer in offers if offer.rows]
        if not mine:
            return
        known = self._links.received.certain(np.concatenate([offer.keys[offer.rows] for _, offer in mine]))
        at = 0
        for position, offer in mine:
            new = np.flatnonzero(~known[at : at + len(offer.rows)]).tolist()
            at += len(offer.rows)
            rows, items = [offer.rows[row] for row in new], [offer.items[row] for row in new]
            self.admit(offer._replace(rows=rows, items=items), position)

    def admit(self, offer: Offer, position: int) -> None:
        """Admit as many of a record's own links as there is room for."""
        if not offer.rows:
            return
        fill = self._room.fill
        found = offer.found
        low = bool(self._low_rank and found.source and self._low_rank(self._keyer.key(found.source)))
        t = self._sampler.of_page(fill, found.source, len(found.links), low)
        t = min(t, self._room.urls_left(1.0)) if self._room.may_grow(self._number) else 0
        if t >= len(offer.rows) and self._room.urls_left(0.5) >= len(offer.rows):
            self._put_new(offer)
        else:
            own = self._keyer.host_hash(host_of(found.source)) if found.source else 0
            self._walk(offer, position, t, lambda host: own if host == own else OTHERS, own)
        self.tell_room()

    def _wanted(self, found: Found, keys: Keys) -> NDArray[np.bool_]:
        """Which links are followed and not certainly known."""
        assert self.rules is not None, "the log begins with Configured"
        if found.depths is not None:
            return ~self._links.received.certain(keys)  # the sender has decided that they are followed
        wanted = self._followed(found)
        wanted &= ~self._links.found.certain(keys)
        return wanted

    def _followed(self, found: Found) -> NDArray[np.bool_]:
        assert self.rules is not None
        followed: NDArray[np.bool_] = self.rules.follow.take(np.frombuffer(found.links.kinds, np.uint8))
        return followed

    def not_outside(self, keys: Keys, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Those of the given rows that are not known to be outside the scope at any depth."""
        assert self.rules is not None
        outside = self.rules.outside
        if not outside or not len(rows):
            return rows
        chosen: list[int] = keys[rows].tolist()
        if outside.isdisjoint(chosen):
            return rows
        return rows[list(map(not_, map(outside.__contains__, chosen)))]

    def sift_rows(
        self, found: Found, keys: Keys, hosts: Keys, rows: NDArray[np.intp], foreign: bool
    ) -> Offer:
        """The given links that are in scope."""
        assert self.rules is not None
        scope, max_hops, shard_of_url = self.rules.scope, self.rules.max_hops, self._splitter.shard_of_url
        lines = found.links.urls.decode("ascii").split("\n")
        chosen: list[int] = rows.tolist()
        urls = list(map(lines.__getitem__, chosen))
        near, its = hosts[rows].tolist(), keys[rows].tolist()
        depths = found.depths  # present for received links: those are ours
        if depths is None:
            within = scope.all_inside(urls, found.depth)
            if False in within and not scope.too_deep(found.depth):
                self._remember([row for row, inside in zip(chosen, within, strict=True) if not inside], keys)
            if False in within:
                chosen, urls, near, its = (list(compress(of, within)) for of in (chosen, urls, near, its))
                within = [True] * len(chosen)
            if REDIRECT not in found.links.kinds and all(
                shard_of_url(host, urls[near.index(host)]) == self._number for host in set(near)
            ):  # the usual case: the same as below, without looking at each
                same = (repeat(found.depth), repeat(0), repeat(0), repeat(Before.NEVER))
                return Offer(
                    found, keys, hosts, chosen, list(map(_waiting, zip(urls, its, *same, strict=False))), []
                )
        else:
            within = [scope.inside(url, depths[row]) for row, url in zip(chosen, urls, strict=True)]
        mine: list[int] = []
        items: list[Waiting] = []
        leaving: list[tuple[int, int, Waiting]] = []
        for row, url, host, key, inside in zip(chosen, urls, near, its, within, strict=True):
            if not inside or (hops := found.hops_of(row)) > max_hops:
                continue
            owner = shard_of_url(host, url) if depths is None else self._number
            if owner == self._number:
                mine.append(row)
                items.append(Waiting(url, key, found.depth_of(row), hops))
            elif foreign:
                leaving.append((owner, row, Waiting(url, key, found.depth_of(row), hops)))
        return Offer(found, keys, hosts, mine, items, leaving)

    def _remember(self, rows: list[int], keys: Keys) -> None:
        """Remember links that are outside the scope for any page, so that they need not be judged again."""
        assert self.rules is not None
        outside = self.rules.outside
        if len(outside) + len(rows) > _OUTSIDE:
            outside.clear()
        outside.update(keys[rows[:_OUTSIDE]].tolist())

    def _send(self, offers: Sequence[Offer], at: int) -> None:
        """Pass the links of other shards to the outbox, as found at a position of the log."""
        leaving = [pair for offer in offers for pair in self.leaving(offer, at)]
        if leaving:
            keys = np.array([item.key for offer in offers for _, _, item in offer.leaving], np.uint64)
            self._outbox.add(keys, leaving)

    def leaving(self, offer: Offer, at: int) -> list[tuple[int, Row]]:
        """The links of other shards for the outbox, as found at a position of the log: owner and row."""
        found, kinds = offer.found, offer.found.links.kinds
        return [
            (owner, Row(at, item.url, kinds[row], item.depth, item.hops, self.hint(found, row, item)))
            for owner, row, item in offer.leaving
        ]

    @property
    def is_sighted(self) -> bool:
        """Whether the order looks at pages: it is then called on the loop only, as it may be the operator's
        code."""
        return self._order.sighted

    def hint(self, found: Found, row: int, item: Waiting) -> int:
        """What the owner of a link is to be told besides the link."""
        sighted = self._order.sighted
        if not found.source or not (sighted or self._tells_domains):
            return 0
        source, told = self._source
        if source != found.source:
            domain = self._splitter.domains.domain(host_of(found.source))
            told = xxh32_intdigest(domain.encode("utf-8", "surrogatepass")) or 1
            self._source = (found.source, told)  # replaced as a whole: a thread may read it, too
        level = self._order.levels([item], self._sighting(found, [row]))[0] if sighted else None
        return pack_hint(told, level)

    # -- bounded by the room

    def _walk(self, offer: Offer, position: int, t: int, queue_of: Callable[[int], int], own: int) -> None:
        """Offer links in the record's order until `t` are new or await an answer; leave the rest behind."""
        place = np.empty(len(offer.keys), np.intp)
        place[permuted(offer.keys, position)] = np.arange(len(offer.keys))
        rows = np.array(offer.rows, np.intp)
        order = np.argsort(place[rows]).tolist()
        hosts = offer.hosts[rows].tolist()
        cap = self._sampler.cap(self._room.fill)
        waiting: dict[int, int] = {}
        rest: dict[int, int] = {}  # queue -> the place of the first link that remains for it
        remaining = 0
        taken, at = 0, 0
        while taken < t and at < len(order):
            chunk: list[int] = []
            while at < len(order) and taken + len(chunk) < t:
                index = order[at]
                at += 1
                host = hosts[index]
                if cap < ALL:
                    held = waiting.get(host)
                    if held is None:
                        held = self._frontier.queued(host_of(offer.items[index].url))
                    waiting[host] = held + 1
                    if held >= cap:
                        rest.setdefault(host, int(place[rows[index]]))
                        remaining += 1
                        continue
                chunk.append(index)
            if chunk:
                taken += self._put_new(offer, chunk)
        for index in order[at:]:
            rest.setdefault(queue_of(hosts[index]), int(place[rows[index]]))
            remaining += 1
        if not self._sampler.keeps(self._room.fill):
            self.dropped += remaining
            return
        for queue, first in rest.items():
            group = offer.hosts == np.uint64(queue) if queue else offer.hosts != np.uint64(own)
            cursor = int(np.count_nonzero(place[group] < first))
            self._left.push(queue, Entry(position, cursor))

    def _put_new(self, offer: Offer, chunk: Sequence[int] | None = None) -> int:
        """Offer links to the store, all of them or a chunk in its order; new ones become pending.

        Returns how many are new or await an answer.
        """
        found, items, rows = offer.found, offer.items, offer.rows
        if chunk is not None:
            items, rows = [items[index] for index in chunk], [rows[index] for index in chunk]
        keys = offer.keys.take(rows)
        sighting = self._sighting(found, rows)
        seen = self._links.found if found.depths is None else self._links.received
        told = [unpack_hint(found.hints[row])[1] for row in rows] if found.hints else None
        answer = seen.offer(keys, _Payloads(items, self._order, sighting, told))
        if len(answer.new):
            if len(answer.new) < len(items):
                new: list[int] = answer.new.tolist()
                items = list(map(items.__getitem__, new))
                told = [told[row] for row in new] if told else None
                if sighting is not None:
                    sighting = sighting._replace(texts=[sighting.texts[row] for row in new])
            self.put(items, sighting, told)
        return len(answer.new) + len(answer.waiting)

    def put(
        self,
        items: Sequence[Waiting],
        sighting: Sighting | None = None,
        told: Sequence[int | None] | None = None,
    ) -> None:
        """Make URLs pending, each at the level that was told, or else at the one that the order gives it."""
        if items:
            self._frontier.put(items, _levels(self._order, items, sighting, told))

    def answered(self, answers: Iterable[tuple[int, bytes]]) -> None:
        """The store has answered that these are new: they will be put into the frontier."""
        self._answered.extend(answers)

    def put_answered(self, most: int | None = None) -> bool:
        """Put answered URLs (`most`, or all) into the frontier; returns whether there are more.

        Their levels were computed when they were offered. A merge may answer for tens of thousands at once, too
        many for one turn of the event loop.
        """
        count = len(self._answered) if most is None else min(most, len(self._answered))
        rows = [_unpack(*self._answered.popleft()) for _ in range(count)]
        if rows:
            self._frontier.put([item for item, _ in rows], [level for _, level in rows])
        self.tell_room()
        return bool(self._answered)

    def _sighting(self, found: Found, rows: Sequence[int]) -> Sighting | None:
        if not self._order.sighted or not found.source:
            return None
        texts = found.links.texts.decode("utf-8", "replace").split("\n") if found.links.texts else None
        chosen = [texts[row] for row in rows] if texts else [""] * len(rows)
        return Sighting(found.source, self._keyer.key(found.source), len(found.links), chosen)

    def tell_room(self) -> None:
        """Report how much memory this shard's frontier uses now, including awaited answers."""
        held = self._frontier.nbytes if self._room.is_tight else None
        awaited = self._links.found.waiting + len(self._answered)
        self._room.tell(self._number, self._frontier.used + PER_URL * awaited, held)

    # -- return to records left behind

    def replenish(self) -> bool:
        """Return to some records left behind, if the shard is low; returns whether there is more to do at once.

        A record that is not in memory is `coming`: the caller has it fetched, and calls again.
        """
        if self.coming is not None:
            queue, entry = self.coming
            if not self._log.holds(entry.position):
                return False
            self.coming = None
            self.tell_room()
            starving = not self._frontier.pending and not self._links.found.waiting
            self._return(queue, entry, LEAST if starving else 0)
        return self._replenish() if len(self._left) else False

    def _replenish(self) -> bool:
        self.tell_room()
        queue: int | None = None
        for _ in range(_RECORDS):
            starving = not self._frontier.pending and not self._links.found.waiting
            low = self._sampler.is_low(self._room.fill, self._frontier.pending)
            if not starving and not (low and self._room.may_grow(self._number)):
                return False
            # Several entries of one queue in a row: their records are close together in the log.
            if queue is None or not self._left.count(queue):
                queue = self._next_queue()
            if queue is None:
                return False
            if not self._come_back(queue, LEAST if starving else 0):
                return False
        return True

    def replenish_host(self, host: str) -> None:
        """A visit has ended: return to records left behind for the host, if it has few URLs left."""
        if not len(self._left) or self.coming is not None:
            return
        queue = self._keyer.host_hash(host)
        for _ in range(_RECORDS):
            if not self._left.count(queue):
                return
            self.tell_room()
            low = self._sampler.host_is_low(self._room.fill, self._frontier.queued(host))
            if not (low and self._room.may_grow(self._number)) or not self._come_back(queue, 0):
                return

    def _next_queue(self) -> int | None:
        """The next queue: that of others and those of hosts take turns."""
        self._others_next = not self._others_next
        if self._others_next and self._left.count(OTHERS):
            return OTHERS
        queue = self._left.next_queue()
        return queue if queue is not None else (OTHERS if self._left.count(OTHERS) else None)

    def _come_back(self, queue: int, least: int) -> bool:
        """Return to the first entry of a queue; False if its record must be fetched first."""
        entry = self._left.pop(queue)
        if entry is None:
            return True
        if not self._log.holds(entry.position):
            self.coming = queue, entry
            return False
        self._return(queue, entry, least)
        return True

    def _return(self, queue: int, entry: Entry, least: int) -> None:
        self.returns += 1
        found = found_in(self._log.read(entry.position))
        assert found is not None, "only records with links are left behind"
        own = self._keyer.host_hash(host_of(found.source)) if found.source else 0
        keys, hosts = self._keyer.scan(found.links.urls)
        rows = _group(keys, hosts, entry.position, queue, own)[entry.cursor :]
        rows = rows[self._wanted(found, keys)[rows]]
        offer = self.sift_rows(found, keys, hosts, rows, False)
        if offer.rows:
            t = self._sampler.back(self._room.fill) if self._room.may_grow(self._number) else 0
            t = max(t, min(t, 1) * (len(keys) // RETURNS), least)
            self._walk(offer, entry.position, t, lambda _: queue, own)
        self.tell_room()

    def behind(self) -> Iterator[str]:
        """Every URL behind a cursor, known or not: for tests and for `explain`."""
        for queue, entry in [*([self.coming] if self.coming else []), *self._left.entries()]:
            found = found_in(self._log.read(entry.position))
            assert found is not None
            own = self._keyer.host_hash(host_of(found.source)) if found.source else 0
            keys, hosts = self._keyer.scan(found.links.urls)
            urls = found.links.urls.split(b"\n")
            for row in _group(keys, hosts, entry.position, queue, own)[entry.cursor :].tolist():
                yield urls[row].decode("ascii")


def _levels(
    order: Order,
    items: Sequence[Waiting],
    sighting: Sighting | None,
    told: Sequence[int | None] | None,
) -> list[int]:
    levels = order.levels(items, sighting)
    if told is None:
        return levels
    return [level if known is None else known for level, known in zip(levels, told, strict=True)]


def _group(keys: Keys, hosts: Keys, position: int, queue: int, own: int) -> NDArray[np.intp]:
    """The rows that an entry of that queue covers, in their order."""
    order = permuted(keys, position)
    member = hosts == np.uint64(queue) if queue else hosts != np.uint64(own)
    found: NDArray[np.intp] = order[member[order]]
    return found


class _Payloads(Sequence[bytes]):
    """What a store keeps of a URL until it has answered: built only on access."""

    def __init__(
        self,
        items: Sequence[Waiting],
        order: Order,
        sighting: Sighting | None,
        told: Sequence[int | None] | None,
    ) -> None:
        self._items = items
        self._order = order
        self._sighting = sighting
        self._told = told

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, row: int) -> bytes: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[bytes]: ...
    def __getitem__(self, row: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(row, slice):
            return [self[index] for index in range(*row.indices(len(self._items)))]
        item, sighting = self._items[row], self._sighting
        if sighting is not None:
            sighting = sighting._replace(texts=[sighting.texts[row]])
        (level,) = _levels(self._order, [item], sighting, [self._told[row]] if self._told else None)
        return f"{item.depth} {item.hops} {level} {item.url}".encode("ascii")


def _unpack(key: int, payload: bytes) -> tuple[Waiting, int]:
    """Decode a payload that the store kept: depth, hops, level and URL, separated by spaces."""
    depth, hops, level, url = payload.decode("ascii").split(" ", 3)
    return Waiting(url, key, int(depth), int(hops)), int(level)
