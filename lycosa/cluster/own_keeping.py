"""Keeping shards on one machine: a shard's log is its directory, and its archive is where it was written.

Nothing is restored, and nothing has to be brought anywhere: whoever holds the shard next opens the same directory.
That is why a holder must be known to be dead before another takes its place: nothing would refuse what it still
writes. So leases of one machine do not run out (`FOREVER`), and whoever started an agent, and has seen its process
end, gives back those that it had (`lycosa.cluster.leases.end_leases`).

What the logs know of the archive, and of each other, is looked at before any agent begins (`survey`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from lycosa.archive.writer import archive_names
from lycosa.cluster.lease import Holding
from lycosa.cluster.storage import Restored
from lycosa.crawl.shard import Shard
from lycosa.files import Files
from lycosa.log.log import Batch
from lycosa.records import Lost

FOREVER = 1e9
"""Seconds of a lease that ends with its holder's process only."""


class OwnKeeper:
    """A shard in its own directory; `lycosa.cluster.keeping.Keeper`."""

    async def open(self) -> Restored:
        return Restored(0, None, 0)

    async def commit(self, batch: Batch, data: bytes | None = None) -> None:
        """It is log when it is on our own disk."""

    async def tidy(self) -> int:
        return 0

    async def save(self, position: int, about: dict[str, int] | None = None) -> None:
        """The snapshot is where it must be."""


class OwnKeeping:
    """`lycosa.cluster.keeping.Keeping` for the agents of one machine."""

    def __init__(self, archive: Files) -> None:
        """`archive`: its directory, cut to what the logs know."""
        self._archive = archive

    async def begin(self) -> dict[str, int]:
        return {name: self._archive.size(name) for name in archive_names(self._archive)}

    def keeper(self, number: int, holding: Holding) -> OwnKeeper:
        return OwnKeeper()

    def lost(self, number: int, start: int) -> list[Lost]:
        return []

    def waiting(self) -> int:
        return 0

    async def bring(self, commit: Callable[[], Awaitable[None]] | None = None) -> None:
        """It is there."""

    async def doubt(self) -> None:
        """Whoever looks at the archive next does it when we are gone."""

    def saved(self, shard: Shard) -> None:
        """Nothing is forgotten: the next start cuts the archive by what the snapshot knows of it."""

    def drop(self, number: int) -> None:
        """The directory is the shard."""


class OwnHome:
    """`lycosa.cluster.member.Home` of an agent whose crawl is in its own directory."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def open(self, crawl: str, about: object) -> None:
        """It was opened by whoever started us."""

    def prepare(self, files: Files) -> None:
        """It was made."""

    def close(self) -> None:
        """It stays."""

    def keeping(self, **_: object) -> OwnKeeping:
        return OwnKeeping(self._files.within("archive"))
