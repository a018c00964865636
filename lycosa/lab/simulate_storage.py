"""Shared storage in memory: what simulated agents save, with the errors that a simulation asks for."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from lycosa.cluster.storage import Away, Missing
from lycosa.cluster.storage.protocol import demand_name, pieces_of
from lycosa.files import Files


class Mishap(Enum):
    """A failure of a call."""

    NONE = 0
    REFUSED = 1
    """It has no effect, and the caller gets an error."""
    UNHEARD = 2
    """It has its effect, but the caller gets an error."""


class MemoryStorage:
    """See `lycosa.cluster.storage.Storage`."""

    def __init__(
        self, objects: dict[str, bytes] | None = None, mishap: Callable[[], Mishap] = lambda: Mishap.NONE
    ) -> None:
        """`objects`: shared by all users of the storage."""
        self.objects = {} if objects is None else objects
        self._mishap = mishap

    def put_file(self, name: str, source: Files, local: str, size: int | None = None) -> None:
        self.put(name, b"".join(pieces_of(source, local, size)))

    def get_file(self, name: str, target: Files, local: str) -> None:
        data = self.get(name)
        out = target.create(local)
        try:
            out.write(data)
            out.sync()
        finally:
            out.close()

    def put(self, name: str, data: bytes) -> None:
        self._change(lambda: self.objects.__setitem__(demand_name(name), bytes(data)))

    def get(self, name: str) -> bytes:
        self._look()
        found = self.objects.get(name)
        if found is None:
            raise Missing(f"there is no {name} on shared storage")
        return found

    def read_at(self, name: str, offset: int, length: int) -> bytes:
        return self.get(name)[offset : offset + length]

    def size(self, name: str) -> int:
        return len(self.get(name))

    def exists(self, name: str) -> bool:
        self._look()
        return name in self.objects

    def list(self, directory: str) -> list[str]:
        self._look()
        start = f"{directory}/" if directory else ""
        return sorted(
            {name[len(start) :].partition("/")[0] for name in self.objects if name.startswith(start)}
        )

    def sizes(self, directory: str) -> dict[str, int]:
        start = f"{directory}/" if directory else ""
        names = [name for name in self.list(directory) if start + name in self.objects]
        return {name: len(self.objects[start + name]) for name in names}

    def remove(self, name: str) -> None:
        self._change(lambda: self.objects.pop(name, None))

    def remove_all(self, directory: str) -> None:
        def act() -> None:
            for name in [name for name in self.objects if name.startswith(f"{directory}/")]:
                del self.objects[name]

        self._change(act)

    def close(self) -> None:
        """Does nothing: there is nothing to close."""

    def _look(self) -> None:
        if self._mishap() is not Mishap.NONE:
            raise Away("shared storage does not answer")

    def _change(self, act: Callable[[], object]) -> None:
        mishap = self._mishap()
        if mishap is not Mishap.REFUSED:
            act()
        if mishap is not Mishap.NONE:
            raise Away("shared storage does not answer")
