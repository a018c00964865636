"""Lifetimes: when the files of a fold become durable, and when they are removed (compare LevelDB's VersionSet).

A fold that keeps files has them in one `FileSet`. A file is needed while

    used       the fold reads it or appends to it
    kept       one of the snapshots that are kept names it
    pending    a freeze named it that is under way or has failed: its snapshot may be on disk nevertheless

and is removed when none of these holds. `Lifetimes` decides that, without I/O. The order of events:

    use(name)      a file was begun                          drop(name)    the fold no longer needs it
    cut(sizes)     a freeze names these files with their current sizes; `settle` makes them durable up to there
    keep(names)    a snapshot was sealed (or recovery has read the existing ones): the kept snapshots name these
    thawed(sizes)  the fold was rebuilt from a snapshot that names these

Guarantees:

- a file that a sealed snapshot names, or may name, stays until `keep` is called with snapshots that do not name it;
  so after a crash at any instant every file of the newest two snapshots is there;
- a file that the fold uses stays, named or not;
- a file that is no longer needed is removed by the call that ends the last need.

Recovery removes files that no kept snapshot names (`remove_unnamed`) before folds are thawed: they were begun
later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from lycosa.files import Files


class Lifetimes:
    """Which files are needed, and which are not. Decisions only: every call returns the names to remove."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.kept: set[str] = set()
        self.pending: set[str] = set()
        self.newest: set[str] = set()
        """The files that the newest freeze names; they are pending until the next freeze."""
        self._there: set[str] = set()

    def use(self, name: str) -> None:
        self.used.add(name)
        self._there.add(name)

    def drop(self, name: str) -> list[str]:
        self.used.discard(name)
        if name in self.kept or name in self.pending:
            return []
        self._there.discard(name)
        return [name]

    def cut(self, names: Iterable[str]) -> None:
        self.newest = set(names)
        self.pending |= self.newest
        self._there |= self.newest

    def keep(self, names: Iterable[str]) -> list[str]:
        self.kept = set(names)
        self.pending = set(self.newest)
        self._there |= self.kept
        gone = self._there - self.used - self.kept - self.pending
        self._there -= gone
        return sorted(gone)


class FileSet:
    """The files of a fold; see the module's docstring. Stores in one directory share one `FileSet`, each by its
    name."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._lifetimes = Lifetimes()
        self._cuts: dict[str, dict[str, int]] = {}  # by store: the files of the last freeze, with their sizes
        self._synced: dict[str, int] = {}

    def use(self, name: str, *, durable: bool = False) -> None:
        """A file was begun; `durable`: it is already written in full and synced."""
        self._lifetimes.use(name)
        if durable:
            self._synced[name] = 1 << 62

    def drop(self, name: str) -> None:
        """The fold does not need a file any more."""
        if self.retire(name):
            self._files.remove(name)

    def retire(self, name: str) -> bool:
        """As `drop`, but the caller removes the file: returns True if nothing else needs it."""
        gone = self._lifetimes.drop(name)
        for each in gone:
            self._synced.pop(each, None)
        return bool(gone)

    def cut(self, sizes: Mapping[str, int], store: str = "") -> None:
        """A freeze begins that names these files, up to these sizes."""
        self._cuts[store] = dict(sizes)
        self._lifetimes.cut(self.names())

    def names(self) -> list[str]:
        """The files of the last freeze."""
        return sorted(name for sizes in self._cuts.values() for name in sizes)

    def settle(self) -> None:
        """Make the files of the last freeze durable, up to the sizes that it gave, and their names.

        Syncing a second handle writes back the whole file, whoever wrote it, so this may run in a thread while
        the owner of the files goes on appending. A `settle` that failed is repeated by the next one.
        """
        cut = {name: size for sizes in list(self._cuts.values()) for name, size in sizes.items()}
        stale = {name: size for name, size in cut.items() if self._synced.get(name, 0) < size}
        for name in stale:
            handle = self._files.append(name)
            try:
                handle.sync()
            finally:
                handle.close()
        if cut:
            self._files.sync_dir("")
        self._synced.update(stale)

    def thawed(self, sizes: Mapping[str, int], store: str = "") -> None:
        """The fold was rebuilt from a snapshot that names these files: it uses them, durable up to these sizes."""
        for name in sizes:
            self._lifetimes.use(name)
        self.cut(sizes, store)
        self._synced.update(sizes)

    def keep(self, names: Collection[str]) -> list[str]:
        """The kept snapshots name these files; returns the names of the removed ones."""
        gone = self._lifetimes.keep(names)
        for name in gone:
            self._files.remove(name)
            self._synced.pop(name, None)
        return gone


def remove_unnamed(files: Files, names: Collection[str]) -> None:
    """Recovery: remove the files that no kept snapshot names."""
    for name in files.list(""):
        if name not in names:
            files.remove(name)
