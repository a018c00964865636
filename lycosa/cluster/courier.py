"""The courier: copies an agent's sealed archive files to shared storage, and only those parts that are valid.

`bring` is called periodically (`snapshot.archive_seconds`, `archive_bytes`), and between a snapshot and its
checkpoint: the archive's last file is sealed, the records of all its exchanges are committed, and then the file is
copied and its local copy removed. So an archive on shared storage holds exactly exchanges whose records are in the
log. Files not yet copied are lost with the agent's disk, and their pages fetched again.

Files in *doubt*, those of an earlier process and those that held pages of a shard that we lost, are first checked
against the logs of all shards (`losses`).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping

from lycosa.archive.writer import Archive
from lycosa.cluster.storage import Missing, Storage, put_archive
from lycosa.files import Files

_SUFFIX = ".warc.gz"


class Courier:
    """Moves an agent's archive files to shared storage."""

    def __init__(
        self,
        archive: Archive | None,
        files: Files,
        storage: Storage,
        crawl: str,
        valid_ends: Callable[[], Awaitable[Mapping[str, int]]],
    ) -> None:
        """`files`: the archive's directory. `valid_ends`: asks for the valid ends of all files that the logs
        name."""
        self._archive = archive
        self._files = files
        self._storage = storage
        self._crawl = crawl
        self._valid_ends = valid_ends
        self._doubtful: set[str] = set()
        self._busy = asyncio.Lock()

    def had(self, name: str) -> int:
        """The number of leading bytes of an archive file that are available; 0: none. Thread-safe.

        A local file in doubt does not count: a check under way may find that no log points into it, or not so
        far, if it read the logs before our last append arrived there. An answer given here must stay true.
        """
        growing = self._archive.growing if self._archive is not None else []
        if name in growing or (name not in self._doubtful and self._files.exists(name)):
            return sys.maxsize
        try:
            return self._storage.size(f"{self._crawl}/archive/{name}")
        except Missing:
            return 0

    def waiting(self) -> int:
        """Bytes of archive that exist only on this disk."""
        names = [name for name in self._files.list("") if name.endswith(_SUFFIX)]
        return sum(self._files.size(name) for name in names)

    async def doubt_all(self) -> None:
        """All files that are here now may hold pages that are no longer ours, or that were never committed."""
        if self._archive is not None:
            await asyncio.to_thread(self._archive.seal)
        self._doubtful |= set(self._here())

    async def bring(self, commit: Callable[[], Awaitable[None]] | None = None) -> None:
        """Seal, commit, copy; see the module."""
        async with self._busy:
            if self._archive is not None:
                await asyncio.to_thread(self._archive.seal)
            if commit is not None:
                await commit()
            # Read after the commit: a file that fell into doubt during it is in the list by now.
            here = self._here()
            doubted = self._doubtful & set(here)
            ends: Mapping[str, int] = await self._valid_ends() if doubted else {}
            for name in here:
                if name in self._doubtful and name not in doubted:
                    continue  # doubted after the logs were read, so they do not cover it: the next call does
                if name in doubted and await asyncio.to_thread(self._is_there, name):
                    self._drop(name)
                    continue
                if name in doubted and not self._mend(name, ends.get(name, 0)):
                    continue
                await asyncio.to_thread(put_archive, self._storage, self._crawl, self._files, name)
                self._drop(name)

    def _here(self) -> list[str]:
        growing = set(self._archive.growing) if self._archive is not None else set()
        return [name for name in self._files.list("") if name.endswith(_SUFFIX) and name not in growing]

    def _mend(self, name: str, end: int) -> bool:
        """Cut a file to its valid part; False if there is none, and the file was removed."""
        if not end or self._files.size(name) < end:
            self._drop(name)
            return False
        self._files.truncate(name, end)
        return True

    def _is_there(self, name: str) -> bool:
        """Whether a file was copied before: a disk that lost its last writes may show it again. Checkpoints rely on
        files already copied, and the logs that a file in doubt is checked against begin after the checkpoints."""
        try:
            return self._storage.size(f"{self._crawl}/archive/{name}") > 0
        except Missing:
            return False

    def _drop(self, name: str) -> None:
        self._files.remove(name)
        self._doubtful.discard(name)
