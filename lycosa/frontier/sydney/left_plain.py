"""Left-behind entries in plain Python: the reference against which the packed store is tested.

    snapshot = [[[queue, [[position, cursor]*]]*], [queue*]]      MessagePack; then the queues the round still owes

It has no files and is not for crawls: RAM grows with the entries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator

import msgspec

from lycosa.errors import StorageError
from lycosa.frontier.sydney.left_behind import OTHERS, Entry


class PlainLeftBehind:
    """A dict of deques; see `lycosa.frontier.sydney.left_behind`."""

    def __init__(self) -> None:
        self._queues: dict[int, deque[Entry]] = {}
        self._owed: dict[int, None] = {}  # queues that the round has not named yet, as an ordered set

    def push(self, queue: int, entry: Entry) -> None:
        self._queues.setdefault(queue, deque()).append(entry)

    def pop(self, queue: int) -> Entry | None:
        entries = self._queues.get(queue)
        if entries is None:
            return None
        entry = entries.popleft()
        if not entries:
            del self._queues[queue]
            self._owed.pop(queue, None)
        return entry

    def count(self, queue: int) -> int:
        return len(self._queues.get(queue, ()))

    def next_queue(self) -> int | None:
        if not self._owed:
            self._owed = dict.fromkeys(queue for queue in self._queues if queue != OTHERS)
        for queue in self._owed:
            del self._owed[queue]
            return queue
        return None

    def entries(self) -> Iterator[tuple[int, Entry]]:
        for queue, entries in self._queues.items():
            for entry in entries:
                yield queue, entry

    def clear(self) -> None:
        self._queues.clear()
        self._owed.clear()

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    @property
    def nbytes(self) -> int:
        return 400 * len(self._queues) + 120 * len(self)

    def freeze(self) -> Iterator[bytes]:
        queues = [(queue, list(entries)) for queue, entries in self._queues.items()]
        return iter([msgspec.msgpack.encode((queues, list(self._owed)))])

    def files(self) -> list[str]:
        return []

    def keep(self, named: Collection[str]) -> list[str]:
        return []

    def settle(self) -> None:
        """Nothing to do: there are no files."""

    def thaw(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            try:
                queues, owed = msgspec.msgpack.decode(
                    piece, type=tuple[list[tuple[int, list[Entry]]], list[int]]
                )
            except msgspec.MsgspecError as error:
                raise StorageError(f"what the snapshot left behind is not readable: {error}") from None
            self._queues = {queue: deque(entries) for queue, entries in queues}
            self._owed = dict.fromkeys(owed)
