"""Temporary."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from lycosa.files import Files
from lycosa.frontier.left_behind import OTHERS, Entry


class PackedLeftBehind:
    def __init__(self, files: Files) -> None:
        self._q: dict[int, deque[Entry]] = {}
        self._round: list[int] = []

    def push(self, queue: int, entry: Entry) -> None:
        self._q.setdefault(queue, deque()).append(entry)

    def pop(self, queue: int) -> Entry | None:
        rows = self._q.get(queue)
        if not rows:
            return None
        entry = rows.popleft()
        if not rows:
            del self._q[queue]
        return entry

    def count(self, queue: int) -> int:
        return len(self._q.get(queue, ()))

    def next_queue(self) -> int | None:
        while True:
            if not self._round:
                self._round = [queue for queue in self._q if queue != OTHERS]
                if not self._round:
                    return None
            queue = self._round.pop()
            if queue in self._q:
                return queue

    def entries(self) -> Iterator[tuple[int, Entry]]:
        for queue, rows in self._q.items():
            for row in rows:
                yield queue, row

    def clear(self) -> None:
        self._q.clear()

    def __len__(self) -> int:
        return sum(map(len, self._q.values()))

    @property
    def nbytes(self) -> int:
        return 0

    def freeze(self) -> Iterator[bytes]:
        return iter([msgspec.msgpack.encode(list(self.entries()))])

    def files(self) -> list[str]:
        return []

    def settle(self) -> None:
        """Nothing."""

    def thaw(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            for queue, entry in msgspec.msgpack.decode(piece, type=list[tuple[int, Entry]]):
                self.push(queue, entry)
