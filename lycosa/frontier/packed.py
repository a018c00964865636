"""`PackedFrontier`: tens of millions of waiting URLs in flat arrays.

It does what `PlainFrontier` does, call by call (the tests hold one against the other), in a few tens of
bytes a URL: queues are front-coded in chains of blocks (`queue_kernels.py`), hosts are rows of a table with
heaps of times over them (`host_kernels.py`). Python holds only what is small: URLs in flight, URLs put back,
hosts whose visit is under way. The key of a URL is not kept: it is computed again when the URL is taken.

A URL is ASCII, has at most `MAX_URL` bytes, and is pending at most once.

Freezing costs no copy and no pause. Queues are append-only byte streams, so the cut of a host is a
descriptor of a hundred bytes, written when the host is first touched after the freeze began, or when its
turn comes. Until the freeze is over, blocks that were used up are kept apart (in *limbo*) instead of being
used again.

The bytes of a snapshot are in `packed_snapshot.py`.

Withdrawals are for replay, where a URL to withdraw is nearly always the first of its level: hosts are asked
for one URL at a time, in the order of their queues, and the log has them in that order. Such a one is dropped
at once. Others are remembered by key and skipped when they are met; `settle_withdrawn` looks for them, taking
a host's URLs out and in again, some 5 us each.

With a ranked order, hosts whose time has come move to a heap of ranks kept in Python objects: some 300 bytes
for each host that is *ready*.
"""

from __future__ import annotations

import heapq
import struct
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from lycosa.clock import Clock
from lycosa.errors import LocalError, StorageError
from lycosa.frontier import freeze_kernels, host_kernels, queue_kernels, visit_kernels
from lycosa.frontier.orders import LEVELS, DepthOrder, Order, Ranking
from lycosa.frontier.packed_snapshot import COUNT, VERSION, Freeze, Fronts, Head, with_last
from lycosa.frontier.store import (
    ACTIVE,
    BATCH,
    BEGUN,
    EPOCH,
    FREE,
    FROZEN,
    GARBAGE,
    HEAP,
    HOSTS,
    NAMES,
    QUEUED,
    RANKED,
    SIDE,
    Store,
    grow,
    new_store,
    reserve,
    reserve_freeze,
)
from lycosa.records import Waiting
from lycosa.url.parts import host_of

MAX_URL = 65_535
NEVER = float("-inf")


class _Flown(NamedTuple):
    slot: int
    level: int
    waiting: Waiting


class PackedFrontier:
    """The frontier for large crawls; see the module's docstring and `lycosa.frontier.protocol`."""

    def __init__(self, clock: Clock, order: Order | None = None, seed: int = 0) -> None:
        """`seed` is that of the keys (`lycosa.url.key.Keyer`): keys are computed again at every take."""
        self._clock = clock
        self._order: Order = order or DepthOrder()
        self._s: Store = new_store(seed)
        self._out = np.zeros(0, np.uint8)
        self._now = NEVER
        self._floor = NEVER
        self._begun: dict[str, int] = {}
        self._visited: set[int] = set()  # the slots of the same
        self._empty: set[int] = set()  # those whose queues were seen empty
        self._flying: dict[int, list[_Flown]] = {}  # by key
        self._flown: dict[int, list[_Flown]] = {}  # by slot, as they were taken
        self._front: dict[int, dict[int, deque[Waiting]]] = {}  # slot, level -> URLs put back
        self._fronts = 0
        self._in_flight = 0
        self._withdrawn: dict[int, set[int]] = {}  # slot -> keys
        self._ranked: dict[int, tuple[float, float, int]] = {}  # slot -> rank, ready, place
        self._ranks: list[tuple[float, float, int, int]] = []  # the same and the slot; stale ones are skipped
        self._freezing = False

    # -- URLs in

    def put(self, items: Sequence[Waiting], levels: Sequence[int]) -> None:
        if len(items) != len(levels):
            raise LocalError(f"{len(items)} URLs were put with {len(levels)} levels")
        for at in range(0, len(items), BATCH):
            self._put(items[at : at + BATCH], levels[at : at + BATCH])

    def _put(self, items: Sequence[Waiting], levels: Sequence[int]) -> None:
        s = self._s
        if self._withdrawn:
            self._settle_hosts_of(items)
        lengths = [len(waiting.url) for waiting in items]
        longest = max(lengths)
        if longest > MAX_URL:
            raise LocalError(f"a URL of {longest} bytes was put; the limit is {MAX_URL}")
        data = "".join([waiting.url for waiting in items]).encode("ascii")
        if min(levels) < 0 or max(levels) >= LEVELS:
            raise LocalError(f"levels are 0 to {LEVELS - 1}, not {min(levels)} to {max(levels)}")
        flat: list[int] = []
        for waiting, level in zip(items, levels, strict=True):
            flat += (level, waiting.depth, waiting.hops, waiting.attempt)
        if min(flat) < 0:
            raise LocalError("no number of a URL is below 0")
        metas = np.array(flat, np.int64).reshape(-1, 4)
        reserve(s, len(items), len(data), longest)
        if longest > len(self._out):
            grow(self._out, 2 * longest)
        visit_kernels.put(s, np.frombuffer(data, np.uint8), np.cumsum(lengths), metas, self._now)
        if self._ranked:
            for slot in set(s.slots[: len(items)].tolist()):
                self._rank_again(slot)

    def put_back(self, waiting: Waiting) -> None:
        flown = self._land(waiting.key, waiting)
        if flown is None:
            raise LocalError(f"{waiting.url} was put back but is not in flight")
        queues = self._front.setdefault(flown.slot, {})
        queues.setdefault(flown.level, deque()).appendleft(waiting)
        self._fronts += 1
        self._settle(flown.slot)

    # -- visits

    def begin(self, now: float) -> str | None:
        s = self._s
        self._now = max(self._now, now)
        if now < self._floor:
            return None
        if self._order.ranking is not Ranking.TIME:
            slot = self._best(now)
            if slot < 0:
                return None
            name = self._name(slot)
        else:
            self._before_change(16)
            slot, length = host_kernels.begin(s, now, BEGUN, self._out)
            if slot < 0:
                return None
            name = self._out[:length].tobytes().decode("ascii")
        self._begun[name] = slot
        self._visited.add(slot)
        return name

    def claim(self, host: str, now: float) -> bool:
        self._now = max(self._now, now)
        if now < self._floor:
            return False
        slot = self._add(host)
        self._before_change(1)
        if not host_kernels.claim(self._s, now, slot):
            return False
        self._rank_again(slot)
        self._begun[host] = slot
        self._visited.add(slot)
        self._empty.add(slot)  # perhaps: then `done` looks
        return True

    def take(self, host: str) -> Waiting | None:
        slot = self._begun.get(host)
        if slot is None:
            raise LocalError(f"no visit of {host!r} is under way")
        if self._front and (flown := self._take_front(slot)) is not None:
            self._fly(flown)
            self._settle(slot)
            return flown.waiting
        s = self._s
        while True:
            self._before_change(1)
            size, level, key, depth, hops, attempt, left = visit_kernels.take(s, slot, self._out)
            if size < 0:
                return None
            if not left:
                self._empty.add(slot)
            if self._withdrawn and key in self._withdrawn.get(slot, ()):
                self._settle(slot)
                continue
            url = self._out[:size].tobytes().decode("ascii")
            waiting = Waiting(url, key, depth, hops, attempt)
            self._fly(_Flown(slot, level, waiting))
            return waiting

    def _take_front(self, slot: int) -> _Flown | None:
        """The first URL put back, unless the queues have one of a lower level."""
        queues = self._front.get(slot)
        if not queues:
            return None
        level = min(queues)
        if 0 <= int(visit_kernels.level_of(self._s, slot)) < level:
            return None
        waiting = queues[level].popleft()
        if not queues[level]:
            del queues[level]
            if not queues:
                del self._front[slot]
        self._fronts -= 1
        self._empty.add(slot)  # perhaps: then `done` looks
        return _Flown(slot, level, waiting)

    def _fly(self, flown: _Flown) -> None:
        self._flying.setdefault(flown.waiting.key, []).append(flown)
        self._flown.setdefault(flown.slot, []).append(flown)
        self._in_flight += 1

    def done(self, key: int) -> None:
        flown = self._land(key, None)
        if flown is None or flown.slot in self._flown:
            return
        if flown.slot in self._visited and flown.slot not in self._empty:
            return  # it has more URLs, and the end of its visit will say that none is in flight
        self._settle(flown.slot)

    def end(self, host: str, ready: float) -> None:
        slot = self._begun.pop(host, None)
        if slot is None:
            raise LocalError(f"no visit of {host!r} is under way")
        self._visited.discard(slot)
        self._empty.discard(slot)
        self._before_change(1)
        flying, front = int(slot in self._flown), int(slot in self._front)
        host_kernels.end(self._s, self._now, slot, float(ready), flying, front)
        self._compact_names()

    def hold(self, host: str, ready: float) -> None:
        slot = self._add(host)
        self._before_change(1)
        host_kernels.set_ready(self._s, self._now, slot, float(ready))
        self._rank_again(slot)

    def hold_all(self, ready: float) -> None:
        """Begin no host at all before `ready`."""
        self._floor = max(self._floor, ready)

    def next_ready(self) -> float | None:
        s = self._s
        while self._ranks and self._ranked.get(self._ranks[0][3]) != self._ranks[0][:3]:
            heapq.heappop(self._ranks)
        if self._ranks:
            ready = self._ranks[0][1]
        elif s.c[HEAP]:
            ready = float(s.hosts[s.heap[0]]["ready"])
        else:
            return None
        return max(ready, self._floor)

    # -- ranked orders

    def _best(self, now: float) -> int:
        """The best ready host by the order's rank; -1 if none is ready."""
        s = self._s
        while True:
            self._before_change(16)
            slot, _ = host_kernels.begin(s, now, RANKED, self._out)
            if slot < 0:
                break
            self._rank(slot)
        while self._ranks:
            rank, ready, place, slot = heapq.heappop(self._ranks)
            if self._ranked.get(slot) == (rank, ready, place):
                del self._ranked[slot]
                self._before_change(1)
                host_kernels.begin_ranked(s, slot)
                return slot
        return -1

    def _rank(self, slot: int) -> None:
        """Have a host in the heap of ranks, as it is now."""
        row = self._s.hosts[slot]
        level = int(visit_kernels.level_of(self._s, slot))
        front = self._front.get(slot)
        queued = int(row["queued"])
        if front:
            level = min(front) if level < 0 else min(level, *front)
            queued += sum(map(len, front.values()))
        rank = self._order.rank(self._name(slot), queued, level)
        entry = (rank, float(row["ready"]), int(row["place"]))
        if self._ranked.get(slot) != entry:
            self._ranked[slot] = entry
            heapq.heappush(self._ranks, (*entry, slot))

    def _rank_again(self, slot: int) -> None:
        """A host was changed: if it is in the heap of ranks, its rank may be another, or it must leave."""
        if slot not in self._ranked:
            return
        if self._s.hosts[slot]["where"] == RANKED:
            self._rank(slot)
        else:
            del self._ranked[slot]

    # -- replay

    def withdraw(self, url: str, key: int) -> None:
        slot = self._find(host_of(url))
        if slot < 0:
            return
        for flown in [flown for flown in self._flown.get(slot, ()) if flown.waiting.url == url]:
            self._land(flown.waiting.key, flown.waiting)
        queues = self._front.get(slot, {})
        for level, queue in list(queues.items()):
            left = deque(waiting for waiting in queue if waiting.url != url)
            self._fronts -= len(queue) - len(left)
            if left:
                queues[level] = left
            else:
                del queues[level]
        if not queues:
            self._front.pop(slot, None)
        data = np.frombuffer(url.encode("ascii"), np.uint8)
        removed = 0
        while True:
            self._before_change(1)
            n = int(visit_kernels.drop_if_first(self._s, slot, data, self._out))
            removed += n
            if not n:
                break
        if slot in self._visited:
            self._empty.add(slot)  # perhaps: then `done` looks
        if not removed and self._s.hosts[slot]["queued"]:
            self._withdrawn.setdefault(slot, set()).add(key)
        self._settle(slot)

    def settle_withdrawn(self) -> None:
        for slot in list(self._withdrawn):
            self._purge(slot)

    def _settle_hosts_of(self, items: Sequence[Waiting]) -> None:
        """A URL is put again that may still have to be withdrawn: find out before the two are mixed up."""
        for waiting in items:
            slot = self._find(host_of(waiting.url))
            if waiting.key in self._withdrawn.get(slot, ()):
                self._purge(slot)

    def _purge(self, slot: int) -> None:
        """Take a host's URLs out of its queues, and put back those that were not withdrawn."""
        s = self._s
        keys = self._withdrawn.pop(slot)
        kept: list[Waiting] = []
        levels: list[int] = []
        while True:
            self._before_change(1)
            size, level, key, depth, hops, attempt, _ = visit_kernels.take(s, slot, self._out)
            if size < 0:
                break
            if key not in keys:
                url = self._out[:size].tobytes().decode("ascii")
                kept.append(Waiting(url, key, depth, hops, attempt))
                levels.append(level)
        # While it was empty the host kept its place in the heap, and counted as having URLs in flight.
        self.put(kept, levels)
        if slot in self._visited:
            self._empty.add(slot)  # perhaps: then `done` looks
        self._settle(slot)

    # -- counts

    @property
    def pending(self) -> int:
        return int(self._s.c[QUEUED]) + self._fronts + self._in_flight

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def hosts(self) -> int:
        return int(self._s.c[ACTIVE])

    @property
    def nbytes(self) -> int:
        """The arrays, and what Python's objects cost, roughly."""
        held = sum(array.nbytes for array in self._s) + self._out.nbytes
        held += 500 * (self._in_flight + self._fronts) + 300 * len(self._ranks)
        held += sum(sys.getsizeof(keys) + 32 * len(keys) for keys in self._withdrawn.values())
        return held + 200 * len(self._begun)

    # -- snapshots

    def freeze(self) -> Iterator[bytes]:
        if self._freezing:
            raise LocalError("a freeze of the frontier is under way already")
        s = self._s
        s.c[EPOCH] += 1
        s.c[FROZEN] = 1
        s.c[SIDE] = 0
        fronts: Fronts = {}
        for slot, flowns in self._flown.items():
            fronts[self._name(slot)] = [(flown.level, flown.waiting) for flown in flowns]
        for slot, queues in self._front.items():
            row = fronts.setdefault(self._name(slot), [])
            row.extend((level, waiting) for level, queue in queues.items() for waiting in queue)
        self._freezing = True
        return Freeze(lambda: self._s, fronts, self._clock.monotonic(), self._thawed)

    def files(self) -> list[str]:
        return []

    def settle(self) -> None:
        """No files, nothing to settle."""

    def thaw(self, pieces: Iterable[bytes]) -> None:
        if self._s.c[HOSTS]:
            raise LocalError("only a fresh frontier can be thawed")
        now = self._clock.monotonic()
        self._now = max(self._now, now)
        try:
            self._load(with_last(pieces), now)
        except (msgspec.MsgspecError, struct.error, ValueError, StopIteration) as error:
            raise StorageError(f"the snapshot's frontier is not readable: {error}") from None
        s = self._s
        # Places are given anew in the order of the old ones, those without one first and by name, so that
        # ties of ready times fall as before.
        rows = s.hosts[: int(s.c[HOSTS])]
        places = rows["place"]
        order = np.argsort(places, kind="stable")
        first = sorted(order[: int((places < 0).sum())].tolist(), key=self._name)
        order[: len(first)] = first
        freeze_kernels.settle_all(s, order, now)

    def _load(self, pieces: Iterator[tuple[bytes, bool]], now: float) -> None:
        s = self._s
        head = msgspec.msgpack.decode(next(pieces)[0], type=Head)
        if head.version != VERSION:
            raise StorageError(f"the snapshot's frontier has version {head.version}, not {VERSION}")
        if not 0 <= head.longest <= MAX_URL:
            raise ValueError(f"a longest URL of {head.longest} bytes")
        reserve(s, 1, 0, head.longest)
        grow(self._out, 2 * head.longest)
        state = np.array([-1, -1], np.int64)
        for piece, last in pieces:
            if last:
                self._load_fronts(piece)
                return
            (n,) = COUNT.unpack_from(piece)
            words = np.frombuffer(piece, np.float64, n, COUNT.size)
            data = np.frombuffer(piece, np.uint8, -1, COUNT.size + 8 * n)
            reserve(s, n // 2, len(data), 0)
            if not freeze_kernels.load(s, words, data, state, now):
                raise ValueError("a piece is not sound")
        raise ValueError("its last piece is missing")

    def _load_fronts(self, piece: bytes) -> None:
        fronts = msgspec.msgpack.decode(piece, type=Fronts)
        for name, rows in fronts.items():
            slot = self._find(name)
            if slot < 0:
                raise ValueError(f"{name} has URLs in flight but is not there")
            queues = self._front.setdefault(slot, {})
            for level, waiting in rows:
                queues.setdefault(level, deque()).append(waiting)
                self._fronts += 1
            if not int(self._s.hosts[slot]["queued"]):
                self._s.c[ACTIVE] += 1
            self._s.hosts[slot]["front"] = 1

    def _thawed(self) -> None:
        """The freeze is over, finished or abandoned."""
        self._freezing = False
        queue_kernels.free_limbo(self._s)
        self._s.c[SIDE] = 0
        self._s.side.resize(0, refcheck=False)
        self._s.limbo.resize(0, refcheck=False)
        self._compact_names()

    # -- inside

    def _name(self, slot: int) -> str:
        row = self._s.hosts[slot]
        at = int(row["name"])
        return self._s.names[at : at + int(row["length"])].tobytes().decode("ascii")

    def _find(self, name: str) -> int:
        data = np.frombuffer(name.encode("ascii"), np.uint8)
        return int(host_kernels.find_host(self._s, data))

    def _add(self, name: str) -> int:
        """The slot of a host, made if need be; the caller gives it a place or settles it."""
        data = np.frombuffer(name.encode("ascii"), np.uint8)
        if len(data) > MAX_URL:
            raise LocalError(f"a host's name has {len(data)} bytes; the limit is {MAX_URL}")
        reserve(self._s, 1, len(data), 0)
        return int(host_kernels.find_or_add(self._s, data, 0, len(data)))

    def _before_change(self, hosts: int) -> None:
        """Room for what a freeze must keep of so many hosts that are about to change."""
        if self._freezing:
            reserve_freeze(self._s, hosts)

    def _land(self, key: int, waiting: Waiting | None) -> _Flown | None:
        """Take one URL of that key (that very one, if given) out of flight."""
        for flown in self._flying.get(key, ()):
            if waiting is None or flown.waiting == waiting:
                _drop(self._flying, key, flown)
                _drop(self._flown, flown.slot, flown)
                self._in_flight -= 1
                return flown
        return None

    def _settle(self, slot: int) -> None:
        """Tell the host's row what is outside its queues; it may enter a heap, or be forgotten."""
        self._before_change(1)
        flying, front = int(slot in self._flown), int(slot in self._front)
        host_kernels.set_outside(self._s, self._now, slot, flying, front)
        if self._ranked:
            self._rank_again(slot)
        if self._withdrawn and self._s.hosts[slot]["where"] == FREE:
            self._withdrawn.pop(slot, None)
        self._compact_names()

    def _compact_names(self) -> None:
        s = self._s
        if s.c[GARBAGE] > 1 << 16 and s.c[GARBAGE] * 2 > s.c[NAMES] and not s.c[FROZEN]:
            fresh = np.zeros(int(s.c[NAMES] - s.c[GARBAGE]), np.uint8)
            host_kernels.compact_names(s, fresh)
            self._s = s._replace(names=fresh)


def _drop(table: dict[int, list[_Flown]], key: int, flown: _Flown) -> None:
    rows = table[key]
    for index, row in enumerate(rows):
        if row is flown:
            del rows[index]
            break
    if not rows:
        del table[key]
