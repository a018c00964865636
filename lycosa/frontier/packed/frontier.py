"""`PackedFrontier`: tens of millions of waiting URLs in flat arrays.

Every call does the same as in `PlainFrontier` (the tests compare the two), in a few tens of bytes per URL: queues
are front-coded in chains of blocks (`queue_kernels.py`), hosts are rows of a table (`table_kernels.py`) with heaps
over them (`heap_kernels.py`). Only small sets are Python objects: URLs in flight, URLs put back, hosts whose visit
is under way. The key of a URL is not kept: it is computed again when the URL is taken.

A URL is ASCII, has at most `MAX_URL` bytes, and is pending at most once.

Freezing costs no copy and no pause. Queues are append-only byte streams, so the cut of a host is a
descriptor of a hundred bytes, written when the host is first touched after the freeze began, or when its
turn comes. Until the freeze is over, blocks that were used up are kept apart (in *limbo*) instead of being
used again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from lycosa.clock import Clock
from lycosa.errors import LocalError, StorageError
from lycosa.frontier.checking import checked
from lycosa.frontier.orders.order import DepthOrder, Order, winner
from lycosa.frontier.packed import checking, freeze_kernels, host_kernels, table_kernels
from lycosa.frontier.packed.freezing import COUNT, VERSION, Freeze, Fronts, Head, with_last
from lycosa.frontier.packed.outside import PER_URL, Flown
from lycosa.frontier.packed.queues import MAX_URL, NEVER, PackedQueues
from lycosa.frontier.packed.relevelling import Relevelling
from lycosa.frontier.packed.store import BEGUN, FREE
from lycosa.frontier.packed.withdrawals import Withdrawals
from lycosa.frontier.protocol import HostLine, Levels
from lycosa.records import Waiting
from lycosa.url.parts import host_of

__all__ = ["MAX_URL", "PackedFrontier"]

_PER_VISIT = 200


@checked(
    lambda frontier: frontier.pending + frontier._queues.fields.live,
    "put", "put_back", "begin", "claim", "take", "done", "end", "hold", "demote", "withdraw",
    "settle_withdrawn", "freeze", "thaw",
)  # fmt: skip
class PackedFrontier:
    """The frontier that crawls use; see the module's docstring and `lycosa.frontier.protocol`."""

    def __init__(
        self, clock: Clock, order: Order | None = None, seed: int = 0, *, back_queues: int = 0
    ) -> None:
        """`seed` is that of the keys (`lycosa.url.key.Keyer`): keys are computed again at every take.
        0 back queues: as many as there are hosts."""
        self._clock = clock
        self._order: Order = order or DepthOrder()
        self._queues = PackedQueues(self._order, seed, back_queues)
        self._outside = self._queues.outside
        self._withdrawals = Withdrawals(self._queues, self._gather)
        self._relevelling: Relevelling | None = None
        self._floor = NEVER
        self._begun: dict[str, int] = {}
        self._takes = 0

    # -- URLs in

    def put(self, items: Sequence[Waiting], levels: Sequence[int]) -> None:
        if self._withdrawals:
            self._withdrawals.before_put(items)
        self._queues.put(items, levels)

    def put_back(self, waiting: Waiting) -> None:
        flown = self._outside.land(waiting.key, waiting)
        if flown is None:
            raise LocalError(f"{waiting.url} was put back but is not in flight")
        self._outside.give_back(flown)
        self._queues.settle(flown.slot)

    # -- visits

    def begin(self, now: float) -> str | None:
        queues = self._queues
        queues.now = max(queues.now, now)
        if queues.now < self._floor:
            host_kernels.pass_time(queues.c, queues.now)
            return None
        begun = queues.begin()
        if begun is None:
            return None
        name, slot = begun
        self._begun[name] = slot
        queues.visited.add(slot)
        return name

    def claim(self, host: str, now: float) -> bool:
        queues = self._queues
        queues.now = max(queues.now, now)
        if queues.now < self._floor:
            host_kernels.pass_time(queues.c, queues.now)
            return False
        slot = queues.add(host)
        queues.before_change(1)
        if not host_kernels.claim(queues.c, queues.now, slot):
            return False
        self._begun[host] = slot
        queues.visited.add(slot)
        queues.perhaps_empty.add(slot)
        return True

    def take(self, host: str) -> Waiting | None:
        slot = self._begun.get(host)
        if slot is None:
            raise LocalError(f"no visit of {host!r} is under way")
        waiting = self._take(slot, self._takes if self._order.bias else -1)
        if waiting is None:
            return None
        self._takes += 1
        if self._relevelling is not None:
            self._relevelling.refill(slot)
        return waiting

    def _take(self, slot: int, number: int) -> Waiting | None:
        queues, outside = self._queues, self._outside
        if slot in outside.back:
            levels = [*outside.back[slot], *queues.levels(slot)]
            level = min(levels) if number < 0 else winner(queues.name(slot), number, levels)
            if level in outside.back[slot]:
                waiting = outside.take(slot, level)
                outside.fly(Flown(slot, level, waiting))
                queues.perhaps_empty.add(slot)
                queues.settle(slot)
                return waiting
        while True:
            taken = queues.take(slot, number)
            if taken is None:
                return None
            if not taken.more:
                queues.perhaps_empty.add(slot)
            elif slot not in outside.back:
                queues.perhaps_empty.discard(slot)
            if self._withdrawals and self._withdrawals.has(slot, taken.waiting.key):
                self._withdrawals.skipped(slot)
                if self._relevelling is not None:
                    self._relevelling.refill(slot)
                continue
            outside.fly(Flown(slot, taken.level, taken.waiting))
            return taken.waiting

    def done(self, key: int) -> None:
        flown = self._outside.land(key)
        if flown is None or self._outside.is_flying(flown.slot):
            return
        if flown.slot in self._queues.visited and flown.slot not in self._queues.perhaps_empty:
            return  # it has more URLs; the end of its visit will note that none is in flight
        self._queues.settle(flown.slot)

    def end(self, host: str, ready: float) -> None:
        slot = self._begun.pop(host, None)
        if slot is None:
            raise LocalError(f"no visit of {host!r} is under way")
        self._queues.visited.discard(slot)
        self._queues.perhaps_empty.discard(slot)
        self._queues.end(slot, float(ready))

    def hold(self, host: str, ready: float) -> None:
        self._queues.hold(self._queues.add(host), float(ready))

    def hold_all(self, ready: float) -> None:
        self._floor = max(self._floor, ready)

    def next_ready(self) -> float | None:
        ready = float(host_kernels.next_ready(self._queues.c))
        return None if ready == float("inf") else max(ready, self._floor)

    # -- what the crawl has learnt

    def queued(self, host: str) -> int:
        return int(table_kernels.queued_of(self._queues.c, host.encode("ascii")))

    def longest(self, most: int) -> list[HostLine]:
        rows = self._queues.store.rows()
        queued = np.where(rows["where"] == FREE, 0, rows["queued"] + rows["back"])
        slots = np.flatnonzero(queued)
        if len(slots) > most:
            slots = slots[np.argpartition(-queued[slots], most)[:most]]
        return sorted(
            (
                HostLine(
                    self._queues.name(slot),
                    int(queued[slot]),
                    max(float(rows[slot]["ready"]), self._floor),
                    bool(rows[slot]["where"] == BEGUN),
                    int(rows[slot]["tier"]),
                )
                for slot in slots.tolist()
            ),
            key=lambda row: (-row.queued, row.host),
        )

    def demote(self, host: str, to: int) -> bool:
        if not 0 <= to <= 255:
            raise LocalError(f"the class of a host is 0 to 255, not {to}")
        self._queues.before_change(1)
        return bool(host_kernels.set_class(self._queues.c, self._queues.now, host.encode("ascii"), to))

    def relevel(self, levels: Levels) -> Iterator[int]:
        if self._relevelling is not None or self._queues.frozen:
            raise LocalError("a relevelling or a freeze of the frontier is under way already")
        relevelling = self._relevelling = Relevelling(self._queues, levels)
        try:
            while not relevelling.is_over:
                yield relevelling.step()
        finally:
            relevelling.finish()
            self._relevelling = None

    def _gather(self, slot: int) -> None:
        if self._relevelling is not None:
            self._relevelling.finish(slot)

    # -- replay

    def withdraw(self, url: str, key: int) -> None:
        slot = self._queues.find(host_of(url))
        if slot >= 0:
            self._withdrawals.withdraw(slot, url, key)

    def settle_withdrawn(self) -> None:
        self._withdrawals.settle()

    # -- counts

    def check(self) -> None:
        """Raise `BrokenError` if an invariant (`checking.py`) does not hold; reads everything."""
        checking.check(self._queues, self._begun.values())

    @property
    def pending(self) -> int:
        return self._queues.fields.queued + len(self._outside)

    @property
    def in_flight(self) -> int:
        return self._outside.in_flight

    @property
    def hosts(self) -> int:
        return self._queues.fields.active

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays and, roughly, of the Python objects."""
        return self._queues.nbytes + self._objects()

    @property
    def used(self) -> int:
        return self._queues.used + self._objects()

    def _objects(self) -> int:
        held = PER_URL * len(self._outside) + _PER_VISIT * len(self._begun) + self._withdrawals.nbytes
        return held if self._relevelling is None else held + self._relevelling.nbytes

    # -- snapshots

    def freeze(self) -> Iterator[bytes]:
        queues = self._queues
        if queues.frozen or self._relevelling is not None:
            raise LocalError("a freeze or a relevelling of the frontier is under way already")
        fronts: Fronts = {}
        for flown in self._outside.rows():
            fronts.setdefault(queues.name(flown.slot), []).append((flown.level, flown.waiting))
        queues.fields.epoch += 1
        queues.fields.frozen = 1
        queues.fields.side_words = 0
        queues.frozen = True
        return Freeze(queues.store, fronts, self._clock.monotonic(), queues.end_freeze)

    def files(self) -> list[str]:
        return []

    def settle(self) -> None:
        """Nothing to do: there are no files."""

    def reads(self, first: bytes) -> bool:
        try:
            return _decode_head(first).version == VERSION
        except msgspec.MsgspecError:
            return True  # it is damaged, as `thaw` will say

    def thaw(self, pieces: Iterable[bytes]) -> None:
        queues = self._queues
        if queues.fields.slots:
            raise LocalError("only a fresh frontier can be thawed")
        now = self._clock.monotonic()
        queues.now = max(queues.now, now)
        try:
            self._load(with_last(pieces), now)
            # Places are given anew in the order of the old ones, those without one first and by name, so that
            # ties of ready times fall as before.
            places = queues.store.rows()["place"]
            order = np.argsort(places, kind="stable")
            first = sorted(order[: int((places < 0).sum())].tolist(), key=queues.name)
            order[: len(first)] = first
            if not freeze_kernels.settle_all(queues.c, order, now):
                raise ValueError("a queue is not sound")
        except (msgspec.MsgspecError, struct.error, ValueError, StopIteration) as error:
            raise StorageError(f"the snapshot's frontier is not readable: {error}") from None
        queues.rank_all()

    def _load(self, pieces: Iterator[tuple[bytes, bool]], now: float) -> None:
        queues = self._queues
        head = _decode_head(next(pieces)[0])
        if head.version != VERSION:
            raise StorageError(f"the snapshot's frontier has version {head.version}, not {VERSION}")
        if not 0 <= head.longest <= MAX_URL:
            raise ValueError(f"a longest URL of {head.longest} bytes")
        queues.make_ready(head.longest)
        state = np.zeros(freeze_kernels.LOAD_STATES, np.int64)
        state[[freeze_kernels.SLOT, freeze_kernels.ROW]] = -1
        for piece, last in pieces:
            if last:
                self._load_fronts(piece)
                return
            (n,) = COUNT.unpack_from(piece)
            if n > len(piece):
                raise ValueError(f"a piece of {n} words")
            words = np.frombuffer(piece, np.float64, n, COUNT.size)
            data = piece[COUNT.size + 8 * n :]
            state[[freeze_kernels.WORDS, freeze_kernels.BYTES]] = 0
            while (how := freeze_kernels.load(queues.c, words, data, state, now)) == freeze_kernels.NO_ROOM:
                queues.store.make_room(
                    int(state[freeze_kernels.NEED_TEXT]), int(state[freeze_kernels.NEED_NAME])
                )
            if how == freeze_kernels.UNSOUND:
                raise ValueError("a piece is not sound")
        raise ValueError("its last piece is missing")

    def _load_fronts(self, piece: bytes) -> None:
        queues = self._queues
        fronts = _decode_fronts(piece)
        for name, rows in fronts.items():
            slot = queues.find(name)
            if slot < 0 or not rows:
                raise ValueError(f"{name} has URLs in flight but is not there")
            for level, waiting in rows:
                if not 0 <= level <= 255 or len(waiting.url) > MAX_URL or host_of(waiting.url) != name:
                    raise ValueError(f"{waiting.url} was in flight but is not sound")
                queues.make_ready(len(waiting.url))
                self._outside.give_back(Flown(slot, level, waiting), first=False)
            host_kernels.set_back(queues.c, slot, *self._outside.of(slot)[1:])


# Made at import: msgspec crashes where two threads are the first to decode a struct, as when shards recover.
_decode_head = msgspec.msgpack.Decoder(Head).decode


# Made at import: msgspec crashes where two threads are the first to decode a struct, as when shards recover.
_decode_fronts = msgspec.msgpack.Decoder(Fronts).decode
