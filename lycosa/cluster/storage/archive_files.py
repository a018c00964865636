"""Archive files wherever they are: in a directory of this machine, or on shared storage."""

from __future__ import annotations

import contextlib
from pathlib import Path

from lycosa.cluster.storage.protocol import Storage
from lycosa.errors import StorageError
from lycosa.files import DiskFiles


class ArchiveFiles(DiskFiles):
    """The archive files of a directory, for reading; files that are not there are read on shared storage."""

    def __init__(self, root: Path, storage: Storage, crawl: str) -> None:
        super().__init__(root)
        self._storage = storage
        self._crawl = crawl

    def read_at(self, name: str, offset: int, length: int) -> bytes:
        if self.exists(name):
            with contextlib.suppress(StorageError):  # the file may be moved to shared storage at this moment
                return super().read_at(name, offset, length)
        return self._storage.read_at(f"{self._crawl}/archive/{name}", offset, length)
