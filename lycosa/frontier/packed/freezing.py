"""The snapshot of a `PackedFrontier`: its bytes, and the iterator that makes them while the crawl goes on.

    snapshot = head, piece*, fronts
    head     = [version, longest URL]                                         MessagePack
    piece    = n, words (n x f64), bytes                                      n: u64; little-endian
    words    = (host | queue | run)*
    host     = 0, wait seconds, place, length of the name, class     the name is next in the bytes
    queue    = 1, level, URLs, URLs to skip                   of the host before
    run      = 2, length                                      bytes of the queue before
    fronts   = {name: [[level, URL]*]}                        MessagePack: URLs in flight and put back

Pieces are made by a kernel from descriptors of hosts and the blocks they point to (`freeze_kernels.py`), a
quarter of a megabyte at a time, in about a millisecond.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

import msgspec
import numpy as np

from lycosa.frontier.packed import freeze_kernels
from lycosa.frontier.packed.store import Store
from lycosa.records import Waiting

VERSION = 2
PIECE = 1 << 18
COUNT = struct.Struct("<Q")

Fronts = dict[str, list[tuple[int, Waiting]]]
"""By host: the URLs outside the queues, with their levels, in the order in which they come out."""


class Head(msgspec.Struct, array_like=True):
    """The first piece. The longest URL says how much room decoding needs."""

    version: int
    longest: int


class Freeze:
    """The pieces of a frozen frontier; closing it, or coming to its end, calls `over`, once."""

    def __init__(self, store: Store, fronts: Fronts, now: float, over: Callable[[], None]) -> None:
        self._store = store
        self._fronts = fronts
        self._now = now
        self._over: Callable[[], None] | None = over
        self._head: Head | None = Head(VERSION, store.longest)
        self._state = np.zeros(freeze_kernels.EMIT_STATES, np.int64)
        self._state[freeze_kernels.LAST_SLOT] = store.fields.slots
        self._state[freeze_kernels.WRITING] = -1
        self._words = np.zeros(PIECE // 16, np.float64)
        self._out = np.zeros(PIECE, np.uint8)

    def __iter__(self) -> Freeze:
        return self

    def __next__(self) -> bytes:
        if self._over is None:
            raise StopIteration
        if self._head is not None:
            head, self._head = self._head, None
            return msgspec.msgpack.encode(head)
        self._store.reserve_freeze(1)
        n, size = freeze_kernels.emit(self._store.c, self._state, self._words, self._out, self._now)
        if n:
            return COUNT.pack(n) + self._words[:n].tobytes() + self._out[:size].tobytes()
        self.close()
        return msgspec.msgpack.encode(self._fronts)

    def close(self) -> None:
        """End the freeze, finished or not."""
        over, self._over = self._over, None
        if over is not None:
            over()

    def __del__(self) -> None:
        self.close()


def with_last(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each piece, and whether it is the last."""
    iterator = iter(pieces)
    for piece in iterator:
        for after in iterator:
            yield piece, False
            piece = after
        yield piece, True
