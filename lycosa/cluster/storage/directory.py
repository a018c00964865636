"""Shared storage in a directory that all machines mount: write a draft, sync, rename, sync the directory.

It requires of the file system that a rename replaces its target at once, and that synced data is seen by the other
machines when they open the file next (NFS: close-to-open). A writer that was killed leaves a draft, `NAME.*.part`,
which is never read and not listed.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from lycosa.cluster.storage.protocol import DRAFT, PIECE, Missing, demand_name, pieces_of
from lycosa.errors import StorageError
from lycosa.files import Appender, DiskFiles, Files


class DirectoryStorage:
    """A mounted directory."""

    def __init__(self, root: Path | str) -> None:
        self._root = Path(root)
        self._files = DiskFiles(root)

    def put_file(self, name: str, source: Files, local: str, size: int | None = None) -> None:
        with self._draft(name) as (draft, out):
            for data in pieces_of(source, local, size):
                out.write(data)
            self._finish(draft, out, name)

    def get_file(self, name: str, target: Files, local: str) -> None:
        with self._found(name):
            source = (self._root / demand_name(name)).open("rb")
        with source:  # the open file stays the same even if the name is replaced meanwhile
            out = target.create(local)
            try:
                while data := source.read(PIECE):
                    out.write(data)
                out.sync()
            finally:
                out.close()

    def put(self, name: str, data: bytes) -> None:
        with self._draft(name) as (draft, out):
            out.write(data)
            self._finish(draft, out, name)

    def get(self, name: str) -> bytes:
        with self._found(name):
            return (self._root / demand_name(name)).read_bytes()

    def read_at(self, name: str, offset: int, length: int) -> bytes:
        with self._found(name), (self._root / demand_name(name)).open("rb") as source:
            source.seek(offset)
            return source.read(length)

    def size(self, name: str) -> int:
        with self._found(name):
            found = (self._root / demand_name(name)).stat()
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError
            return found.st_size

    def exists(self, name: str) -> bool:
        return (self._root / demand_name(name)).is_file()

    def list(self, directory: str) -> list[str]:
        demand_name(directory)
        return [name for name in self._files.list(directory) if not name.endswith(DRAFT)]

    def sizes(self, directory: str) -> dict[str, int]:
        found = {}
        for name in self.list(directory):
            with contextlib.suppress(Missing):  # removed since it was listed, or a directory
                if self.exists(f"{directory}/{name}"):
                    found[name] = self.size(f"{directory}/{name}")
        return found

    def remove(self, name: str) -> None:
        self._files.remove(demand_name(name))

    def remove_all(self, directory: str) -> None:
        shutil.rmtree(self._root / demand_name(directory), ignore_errors=True)

    def close(self) -> None:
        """There is nothing to end."""

    @contextlib.contextmanager
    def _found(self, name: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise Missing(f"there is no {name} on shared storage ({self._root / name})") from None
        except OSError as error:
            raise StorageError(f"cannot read {self._root / name}: {error.strerror or error}") from error

    @contextlib.contextmanager
    def _draft(self, name: str) -> Iterator[tuple[str, Appender]]:
        # Two agents may put the same fact at the same time; in containers they may even share name and pid.
        draft = f"{demand_name(name)}.{secrets.token_hex(8)}{DRAFT}"
        out = self._files.create(draft)
        try:
            yield draft, out
        finally:
            out.close()
            self._files.remove(draft)  # already renamed, if all went well

    def _finish(self, draft: str, out: Appender, name: str) -> None:
        out.sync()
        self._files.rename(draft, name)
        directory = name.rpartition("/")[0]
        self._files.sync_dir(directory)
        while directory:  # a new directory must itself be made durable
            directory = directory.rpartition("/")[0]
            self._files.sync_dir(directory)
