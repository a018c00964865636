"""`PlainFrontier`: the simplest frontier, and the reference for every other one.

A dictionary of hosts; each has a deque of URLs per level, the time from which it may be asked again, and its
place. Nothing is packed and everything is searched for: some 500 bytes per URL, and the time of `begin` grows with
the number of hosts. So it is for tests and small crawls.

What the protocol leaves open is decided here, and binds the others:

- The *place* is a number that grows; a host gets one whenever it starts to wait: at the first put, at the end of
  its visit, when a URL is put back to a host without URLs.
- A host starts to wait no earlier than the latest time that the frontier was given. So a host that was idle for
  long goes behind the hosts that already wait, and one that has neither URLs nor a wait is forgotten.
- `put_back` puts a URL first in the queue of its level; of two, the one put back last comes first.
- URLs in flight are frozen at the head of their queues in the order in which they were taken, and a host
  whose visit is under way as if the visit had not begun.
- `withdraw` acts on the URLs pending at the call: a URL that is put afterwards comes out.
- `relevel` processes one host after the other. URLs put meanwhile to the host at hand come before those of its
  URLs that are still set aside; URLs put back come first in their new levels, too.
- Calls out of turn (`take` or `end` of a host that has not begun, `put_back` of a URL that is not in flight)
  are bugs of the caller and raise `LocalError`. `done` of a URL not in flight is ignored: after a withdrawal
  nothing is left to do.

    snapshot = head, host*          each a piece of MessagePack
    head     = [version]
    host     = [name, wait seconds, place, class, [[level, [[url, key, depth, hops, attempt]*]]*]]

A place of -1 says that the host does not wait with URLs: a visit is under way, or it has a wait and no URLs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

import msgspec
from xxhash import xxh64_intdigest

from lycosa.clock import Clock
from lycosa.errors import LocalError, StorageError
from lycosa.frontier.orders.order import DepthOrder, Order, winner
from lycosa.frontier.protocol import STEP, HostLine, Levels
from lycosa.records import Waiting
from lycosa.url.parts import host_of

VERSION = 2
NEVER = float("-inf")

Queues = dict[int, deque[Waiting]]
"""By level; none is empty."""


class _Head(msgspec.Struct, array_like=True):
    version: int


class _HostPiece(msgspec.Struct, array_like=True):
    name: str
    wait: float
    place: int
    tier: int
    queues: list[tuple[int, list[Waiting]]]


class _Host:
    """A host: its queues, its time, its place, its class, and whether it is in play or visited."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: Queues = {}
        self.back: Queues = {}  # URLs put back: they come before those in the queues
        self.aside: deque[tuple[int, Waiting]] = deque()  # (old level, URL) that wait for their new levels
        self.flying: list[tuple[Waiting, int]] = []  # (URL, level), as they were taken
        self.ready = NEVER
        self.place = -1  # -1: it does not wait with URLs
        self.tier = 0
        self.playing = False
        self.begun = False

    @property
    def queued(self) -> int:
        return len(self.aside) + sum(len(q) for queues in (self.back, self.queues) for q in queues.values())

    @property
    def levels(self) -> list[int]:
        return [*self.back, *self.queues]


class PlainFrontier:
    """The reference frontier; see the module's docstring and `lycosa.frontier.protocol`."""

    def __init__(
        self, clock: Clock, order: Order | None = None, *, back_queues: int = 0, seed: int = 0
    ) -> None:
        """`seed` is that of the keys; only a relevelling by host needs it."""
        self._clock = clock
        self._seed = seed
        self._order: Order = order or DepthOrder()
        self._back_queues = back_queues
        self._hosts: dict[str, _Host] = {}
        self._flying: dict[int, list[_Host]] = {}  # key -> hosts of the URLs in flight
        self._places = count()
        self._takes = 0
        self._now = NEVER
        self._floor = NEVER
        self._levels: dict[int, int] | None = None  # of a relevelling under way, by key
        self._other = -1
        self._by_host = False
        self._at_hand: _Host | None = None

    # -- URLs in

    def put(self, items: Sequence[Waiting], levels: Sequence[int]) -> None:
        for waiting, level in zip(items, levels, strict=True):
            host = self._host(host_of(waiting.url))
            host.queues.setdefault(level, deque()).append(waiting)
            self._settle(host)

    def put_back(self, waiting: Waiting) -> None:
        landed = self._land(waiting.key, waiting)
        if landed is None:
            raise LocalError(f"{waiting.url} was put back but is not in flight")
        host, level = landed
        host.back.setdefault(level, deque()).appendleft(waiting)
        self._settle(host)

    # -- visits

    def begin(self, now: float) -> str | None:
        self._pass_to(now)
        if self._now < self._floor:
            return None
        ready = [h for h in self._hosts.values() if h.place >= 0 and h.playing and h.ready <= self._now]
        for host in sorted(self._front(), key=lambda h: (*self._rank(h), h.place)):
            if ready and self._playing >= self._back_queues:
                break
            host.playing = True
            ready.append(host)
        if not ready:
            return None
        best = min(ready, key=lambda h: (*self._rank(h), h.ready, h.place))
        best.begun, best.place = True, -1
        return best.name

    def _front(self) -> list[_Host]:
        """Hosts in front whose time has come."""
        return [h for h in self._hosts.values() if h.place >= 0 and not h.playing and h.ready <= self._now]

    def _rank(self, host: _Host) -> tuple[int, float]:
        return host.tier, self._order.rank(host.name, host.queued, min(host.levels))

    @property
    def _playing(self) -> int:
        return sum(host.playing for host in self._hosts.values())

    def claim(self, host: str, now: float) -> bool:
        self._pass_to(now)
        known = self._hosts.get(host)
        if self._now < self._floor or (known is not None and (known.begun or known.ready > self._now)):
            return False
        state = self._host(host)
        state.begun, state.playing, state.place = True, True, -1
        return True

    def take(self, host: str) -> Waiting | None:
        state = self._begun(host)
        if not state.levels:
            return None
        level = winner(host, self._takes, state.levels) if self._order.bias else min(state.levels)
        self._takes += 1
        waiting = _pop(state.back if level in state.back else state.queues, level)
        state.flying.append((waiting, level))
        self._flying.setdefault(waiting.key, []).append(state)
        if state is self._at_hand and not state.levels:
            self._move(STEP)
        return waiting

    def done(self, key: int) -> None:
        landed = self._land(key, None)
        if landed is not None:
            self._settle(landed[0])

    def end(self, host: str, ready: float) -> None:
        state = self._begun(host)
        state.begun = False
        state.ready = max(state.ready, ready)
        if state.levels and self._back_queues:
            mine = self._rank(state)
            better = any(self._rank(other) < mine for other in self._front())
            state.playing = not better and self._playing <= self._back_queues
        self._settle(state)

    def hold(self, host: str, ready: float) -> None:
        state = self._host(host)
        state.ready = max(state.ready, ready)
        self._settle(state)

    def hold_all(self, ready: float) -> None:
        self._floor = max(self._floor, ready)

    def next_ready(self) -> float | None:
        first = min((host.ready for host in self._hosts.values() if host.place >= 0), default=None)
        return None if first is None else max(first, self._floor)

    # -- what the crawl has learnt

    def queued(self, host: str) -> int:
        return self._hosts[host].queued if host in self._hosts else 0

    def longest(self, most: int) -> list[HostLine]:
        rows = [
            HostLine(h.name, h.queued, max(h.ready, self._floor), h.begun, h.tier)
            for h in self._hosts.values()
            if h.queued
        ]
        return sorted(rows, key=lambda row: (-row.queued, row.host))[:most]

    def demote(self, host: str, to: int) -> bool:
        if not 0 <= to <= 255:
            raise LocalError(f"the class of a host is 0 to 255, not {to}")
        known = self._hosts.get(host)
        if known is None:
            return False
        higher = to > known.tier
        known.tier = to
        return higher

    def relevel(self, levels: Levels) -> Iterator[int]:
        if self._levels is not None:
            raise LocalError("a relevelling of the frontier is under way already")
        self._levels = dict(zip(levels.keys.tolist(), levels.levels.tolist(), strict=True))
        self._other = levels.other
        self._by_host = levels.by_host
        try:
            hosts = self._to_relevel()
            host: _Host | None
            while True:
                moved = self._move(STEP)
                while moved < STEP and (host := next(hosts, None)) is not None:
                    moved += self._detach(host)
                    moved += self._move(STEP - moved)
                if moved:
                    yield moved
                else:
                    return
        finally:
            self._finish(self._at_hand)
            self._levels = None

    def _to_relevel(self) -> Iterator[_Host]:
        """The hosts, one after the other, without those that are forgotten before their turn."""
        for name in list(self._hosts):
            if name in self._hosts:
                yield self._hosts[name]

    def _level(self, waiting: Waiting, old: int) -> int:
        assert self._levels is not None
        key = waiting.key
        if self._by_host:
            key = xxh64_intdigest(host_of(waiting.url).encode("ascii"), self._seed) & 0xFFFF0000FFFFFFFF
        return self._levels.get(key, old if self._other < 0 else self._other)

    def _detach(self, host: _Host) -> int:
        """Set a host's queues aside, and give URLs outside them new levels; returns how many were put back."""
        host.flying = [(waiting, self._level(waiting, level)) for waiting, level in host.flying]
        back = [(level, waiting) for level, queue in sorted(host.back.items()) for waiting in queue]
        host.back = {}
        for level, waiting in back:
            host.back.setdefault(self._level(waiting, level), deque()).append(waiting)
        host.aside.extend((level, waiting) for level, q in sorted(host.queues.items()) for waiting in q)
        host.queues = {}
        self._at_hand = host
        return len(back)

    def _move(self, limit: int) -> int:
        """Give up to `limit` URLs of the host at hand their new levels; returns how many."""
        host = self._at_hand
        if host is None:
            return 0
        moved = 0
        while host.aside and moved < limit:
            level, waiting = host.aside.popleft()
            host.queues.setdefault(self._level(waiting, level), deque()).append(waiting)
            moved += 1
        if not host.aside:
            self._at_hand = None
        return moved

    def _finish(self, host: _Host | None) -> None:
        """If this host is at hand, move the rest of its URLs."""
        if host is not None and host is self._at_hand:
            self._move(len(host.aside))

    # -- replay

    def withdraw(self, url: str, key: int) -> None:
        host = self._hosts.get(host_of(url))
        if host is None:
            return
        self._finish(host)
        for queues in (host.back, host.queues):
            for level, queue in list(queues.items()):
                queues[level] = deque(waiting for waiting in queue if waiting.url != url)
                if not queues[level]:
                    del queues[level]
        for flown in [waiting for waiting, _ in host.flying if waiting.url == url]:
            self._land(key, flown)
        self._settle(host)

    def settle_withdrawn(self) -> None:
        """Nothing to do: `withdraw` acted at once."""

    # -- counts

    @property
    def pending(self) -> int:
        return sum(host.queued + len(host.flying) for host in self._hosts.values())

    @property
    def in_flight(self) -> int:
        return sum(len(hosts) for hosts in self._flying.values())

    @property
    def hosts(self) -> int:
        return sum(1 for host in self._hosts.values() if host.queued or host.flying)

    @property
    def nbytes(self) -> int:
        """A rough estimate of the bytes held."""
        return 500 * self.pending + 1000 * len(self._hosts)

    @property
    def used(self) -> int:
        return self.nbytes

    # -- snapshots

    def freeze(self) -> Iterator[bytes]:
        if self._levels is not None:
            raise LocalError("a relevelling of the frontier is under way")
        now = self._clock.monotonic()
        encode = msgspec.msgpack.encode
        pieces = [encode(_Head(VERSION))]
        for host in self._hosts.values():
            queues: dict[int, list[Waiting]] = {}
            for waiting, level in host.flying:
                queues.setdefault(level, []).append(waiting)
            for level, queue in [*host.back.items(), *host.queues.items()]:
                queues.setdefault(level, []).extend(queue)
            wait = max(host.ready - now, 0.0)
            rows = sorted(queues.items())
            pieces.append(encode(_HostPiece(host.name, wait, host.place, host.tier, rows)))
        return iter(pieces)

    def files(self) -> list[str]:
        return []

    def settle(self) -> None:
        """Nothing to do: there are no files."""

    def reads(self, first: bytes) -> bool:
        try:
            return msgspec.msgpack.decode(first, type=_Head).version == VERSION
        except msgspec.MsgspecError:
            return True  # it is damaged, as `thaw` will say

    def thaw(self, pieces: Iterable[bytes]) -> None:
        now = self._clock.monotonic()
        self._now = max(self._now, now)
        rows: list[_HostPiece] = []
        for index, piece in enumerate(pieces):
            try:
                if index:
                    rows.append(msgspec.msgpack.decode(piece, type=_HostPiece))
                    continue
                head = msgspec.msgpack.decode(piece, type=_Head)
            except msgspec.MsgspecError as error:
                raise StorageError(f"the snapshot's frontier is not readable: {error}") from None
            if head.version != VERSION:
                raise StorageError(f"the snapshot's frontier has version {head.version}, not {VERSION}")
        # Places are given anew in the order of the old ones, so that ties of ready times fall as before.
        # Hosts without one come first: they had their turn, and the turn was interrupted.
        rows.sort(key=lambda row: (row.place, row.name))
        for row in rows:
            host = self._host(row.name)
            host.ready = now + row.wait
            host.tier = row.tier
            host.queues = {level: deque(queue) for level, queue in row.queues}
            self._settle(host)

    # -- inside

    def _host(self, name: str) -> _Host:
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host(name)
        return host

    def _begun(self, name: str) -> _Host:
        host = self._hosts.get(name)
        if host is None or not host.begun:
            raise LocalError(f"no visit of {name!r} is under way")
        return host

    def _pass_to(self, now: float) -> None:
        """Advance the time, and forget hosts that had only a wait when it is over."""
        self._now = max(self._now, now)
        for host in list(self._hosts.values()):
            self._settle(host)

    def _settle(self, host: _Host) -> None:
        """Update a changed host: it starts to wait, or stops, or is forgotten."""
        if host.begun:
            return
        if host.queued:
            if host.place < 0:
                host.ready = max(host.ready, self._now)
                host.place = next(self._places)
                host.playing = host.playing or self._back_queues == 0
            return
        host.place = -1
        host.playing = False
        if not host.flying and host.ready <= self._now:
            del self._hosts[host.name]

    def _land(self, key: int, waiting: Waiting | None) -> tuple[_Host, int] | None:
        """Remove one URL of that key (`waiting` itself, if given) from those in flight; its host and level."""
        for host in self._flying.get(key, ()):
            for index, (flown, level) in enumerate(host.flying):
                if flown.key == key and (waiting is None or flown == waiting):
                    del host.flying[index]
                    self._flying[key].remove(host)
                    if not self._flying[key]:
                        del self._flying[key]
                    return host, level
        return None


def _pop(queues: Queues, level: int) -> Waiting:
    waiting = queues[level].popleft()
    if not queues[level]:
        del queues[level]
    return waiting
