"""`PlainFrontier`: the frontier as one would explain it, and the oracle of every other one.

A dictionary of hosts; each has a deque of URLs per level, the time from which it may be asked again and
its place in a heap of times. Nothing is packed: some 500 bytes a URL, so it serves tests and small crawls.

What the protocol leaves open is decided here, and binds the others:

- Hosts are given in the order of (rank,) ready time, place. The *place* is a number that grows; a host gets
  one whenever it enters the heap: at the first put, at the end of its visit, when a URL is put back.
- A host enters the heap no earlier than the latest time `begin` was called with. So a host that was idle for
  long goes behind the hosts that already wait, and an idle host whose time is past can be forgotten.
- `put_back` puts first in the queue of the URL's level; of two, the one put back last comes first.
- URLs in flight are frozen at the head of their queues in the order in which they were taken, and a host
  whose visit is under way as if it had not begun.
- `withdraw` acts on what is pending at the call: a URL that is put afterwards comes out.
- Calls out of turn (`take` or `end` of a host that has not begun, `put_back` of a URL that is not in flight)
  are bugs of the caller and raise `LocalError`. `done` of a URL not in flight is ignored: after a withdrawal
  nothing is left to do.

`hold_all` is the one addition to the protocol: after an unclean stop nobody knows which hosts were asked in
the last moments, so all of them wait.

    snapshot = head, host*          each a piece of MessagePack
    head     = [version]
    host     = [name, wait seconds, place, [[level, [[url, key, depth, hops, attempt]*]]*]]

A place of -1 says that the host is not in the heap: a visit is under way, or it has a wait and no URLs.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

import msgspec

from lycosa.clock import Clock
from lycosa.errors import LocalError, StorageError
from lycosa.frontier.orders import DepthOrder, Order, Ranking
from lycosa.records import Waiting
from lycosa.url.parts import host_of

VERSION = 1
NEVER = float("-inf")


class _Head(msgspec.Struct, array_like=True):
    version: int


class _HostPiece(msgspec.Struct, array_like=True):
    name: str
    wait: float
    place: int
    queues: list[tuple[int, list[Waiting]]]


class _Host:
    """What is known of a host: its queues, its time, its place, and whether a visit is under way."""

    __slots__ = ("begun", "flying", "name", "place", "queues", "ready")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: dict[int, deque[Waiting]] = {}
        self.ready = NEVER
        self.place = -1  # the place of its valid entry in the heap; -1: it is not there
        self.begun = False
        self.flying: list[tuple[Waiting, int]] = []  # (URL, level), as they were taken

    @property
    def queued(self) -> int:
        return sum(len(queue) for queue in self.queues.values())

    @property
    def level(self) -> int:
        return min(self.queues)


class PlainFrontier:
    """The readable frontier; see the module's docstring and `lycosa.frontier.protocol`."""

    def __init__(self, clock: Clock, order: Order | None = None) -> None:
        self._clock = clock
        self._order: Order = order or DepthOrder()
        self._hosts: dict[str, _Host] = {}
        self._heap: list[tuple[float, int, str]] = []  # (ready, place, host); stale entries are skipped
        self._idle: list[tuple[float, str]] = []  # (ready, host) of hosts without URLs
        self._flying: dict[int, list[_Host]] = {}  # key -> hosts of the URLs in flight
        self._places = count()
        self._now = NEVER
        self._floor = NEVER

    # -- URLs in

    def put(self, items: Sequence[Waiting], levels: Sequence[int]) -> None:
        for waiting, level in zip(items, levels, strict=True):
            host = self._host(host_of(waiting.url))
            host.queues.setdefault(level, deque()).append(waiting)
            self._enter(host)

    def put_back(self, waiting: Waiting) -> None:
        level = self._land(waiting.key, waiting)
        if level is None:
            raise LocalError(f"{waiting.url} was put back but is not in flight")
        host = self._host(host_of(waiting.url))
        host.queues.setdefault(level, deque()).appendleft(waiting)
        self._enter(host)

    # -- visits

    def begin(self, now: float) -> str | None:
        self._now = max(self._now, now)
        self._forget_idle()
        if now < self._floor:
            return None
        ranked = self._order.ranking is not Ranking.TIME
        name = self._best(now) if ranked else self._longest_ready(now)
        if name is not None:
            host = self._hosts[name]
            host.begun, host.place = True, -1
        return name

    def claim(self, host: str, now: float) -> bool:
        self._now = max(self._now, now)
        known = self._hosts.get(host)
        if now < self._floor or (known is not None and (known.begun or known.ready > now)):
            return False
        state = self._host(host)
        state.begun, state.place = True, -1
        return True

    def _longest_ready(self, now: float) -> str | None:
        top = self._top()
        if top is None or top[0] > now:
            return None
        return heapq.heappop(self._heap)[2]

    def _best(self, now: float) -> str | None:
        ready = (h for h in self._hosts.values() if h.place >= 0 and h.ready <= now)
        rank = self._order.rank
        best = min(ready, key=lambda h: (rank(h.name, h.queued, h.level), h.ready, h.place), default=None)
        return None if best is None else best.name

    def take(self, host: str) -> Waiting | None:
        state = self._begun(host)
        if not state.queues:
            return None
        level = state.level
        queue = state.queues[level]
        waiting = queue.popleft()
        if not queue:
            del state.queues[level]
        state.flying.append((waiting, level))
        self._flying.setdefault(waiting.key, []).append(state)
        return waiting

    def done(self, key: int) -> None:
        self._land(key, None)

    def end(self, host: str, ready: float) -> None:
        state = self._begun(host)
        state.begun = False
        state.ready = max(state.ready, ready)
        self._enter(state)

    def hold(self, host: str, ready: float) -> None:
        state = self._host(host)
        if ready > state.ready:
            state.ready = ready
            if state.place >= 0:  # its entry is stale now: same place, later time
                heapq.heappush(self._heap, (ready, state.place, host))
        self._enter(state)

    def hold_all(self, ready: float) -> None:
        """Begin no host at all before `ready`."""
        self._floor = max(self._floor, ready)

    def next_ready(self) -> float | None:
        top = self._top()
        return None if top is None else max(top[0], self._floor)

    # -- replay

    def withdraw(self, url: str, key: int) -> None:
        host = self._hosts.get(host_of(url))
        if host is None:
            return
        for level, queue in list(host.queues.items()):
            left = deque(waiting for waiting in queue if waiting.url != url)
            if left:
                host.queues[level] = left
            else:
                del host.queues[level]
        while any(waiting.url == url for waiting, _ in host.flying):
            flown = next(waiting for waiting, _ in host.flying if waiting.url == url)
            self._land(key, flown)
        if not host.queues and host.place >= 0:
            host.place = -1
        self._enter(host)

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
        return sum(1 for host in self._hosts.values() if host.queues or host.flying)

    @property
    def nbytes(self) -> int:
        """An estimate; this frontier is not for those who count bytes."""
        return 500 * self.pending + 1000 * len(self._hosts)

    # -- snapshots

    def freeze(self) -> Iterator[bytes]:
        now = self._clock.monotonic()
        encode = msgspec.msgpack.encode
        pieces = [encode(_Head(VERSION))]
        for host in self._hosts.values():
            queues: dict[int, list[Waiting]] = {}
            for waiting, level in host.flying:
                queues.setdefault(level, []).append(waiting)
            for level, queue in host.queues.items():
                queues.setdefault(level, []).extend(queue)
            wait = max(host.ready - now, 0.0)
            pieces.append(encode(_HostPiece(host.name, wait, host.place, sorted(queues.items()))))
        return iter(pieces)

    def files(self) -> list[str]:
        return []

    def settle(self) -> None:
        """No files, nothing to settle."""

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
            host.queues = {level: deque(queue) for level, queue in row.queues}
            self._enter(host)

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

    def _enter(self, host: _Host) -> None:
        """Give the host its entry in a heap, if it should have one and has none."""
        if host.begun or host.place >= 0:
            return
        if host.queues:
            host.ready = max(host.ready, self._now)
            host.place = next(self._places)
            heapq.heappush(self._heap, (host.ready, host.place, host.name))
        elif not host.flying:
            heapq.heappush(self._idle, (host.ready, host.name))

    def _top(self) -> tuple[float, int, str] | None:
        """The earliest valid entry of the heap; stale ones above it are dropped."""
        while self._heap:
            ready, place, name = self._heap[0]
            host = self._hosts.get(name)
            if host is not None and host.place == place and host.ready == ready:
                return self._heap[0]
            heapq.heappop(self._heap)
        return None

    def _land(self, key: int, waiting: Waiting | None) -> int | None:
        """Take one URL of that key (that very one, if given) out of flight; its level, None if not there."""
        for host in self._flying.get(key, ()):
            for index, (flown, level) in enumerate(host.flying):
                if flown.key == key and (waiting is None or flown == waiting):
                    del host.flying[index]
                    self._flying[key].remove(host)
                    if not self._flying[key]:
                        del self._flying[key]
                    self._enter(host)
                    return level
        return None

    def _forget_idle(self) -> None:
        while self._idle and self._idle[0][0] <= self._now:
            _, name = heapq.heappop(self._idle)
            host = self._hosts.get(name)
            if host is not None and not (host.queues or host.flying or host.begun):
                if host.ready <= self._now:
                    del self._hosts[name]
                else:
                    heapq.heappush(self._idle, (host.ready, name))
