"""Where compiled code is kept: both Numba's cache of single kernels, and their image.

Numba keeps compiled kernels in the first of these places that can be written:

1. `$NUMBA_CACHE_DIR`; beside the sources (`__pycache__`); the user's cache directory. Numba looks there by itself,
   and raises if it can use none of them.
2. `$CACHE_DIRECTORY` and `$STATE_DIRECTORY`, which systemd gives to a unit that may write nowhere else.
3. A temporary directory that only this user can write, the same for all of the user's processes.
4. Nowhere: every process compiles for itself.

A crawl's directory is never used: to load compiled code is to run it, and a crawl may come from somebody else.
Code that was compiled beside the sources while they were writable (when a container image was built, say) is copied
to the place first: Numba uses no directory that it cannot write.

An image (`lycosa.compiled.image`) is read from the first of the same places that has one, also from a read-only
place.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

_NAME = "lycosa-kernels"
_advice = "set NUMBA_CACHE_DIR to a directory of your own to do it only once"


class Keeping:
    """The choice of a place for compiled code when Numba finds none by itself."""

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        temporary: Callable[[], str] = tempfile.gettempdir,
        writable: Callable[[Path], bool] = lambda path: os.access(path, os.W_OK | os.X_OK),
        package: Path = Path(__file__).parent.parent,
    ) -> None:
        self._environ = environ
        self._temporary = temporary
        self._writable = writable
        self._package = package
        self.chosen = False
        """Whether a place was chosen for Numba."""
        self.path: Path | None = None
        self.lasting = False
        """Whether the place should still exist at the next start."""

    def choose(self) -> None:
        """Find a place, and bring there what was compiled before; `path` is None if there is none."""
        self.chosen = True
        self._find()
        if self.path is not None:
            with suppress(OSError):  # then it is compiled
                for sources in self._package.rglob("__pycache__"):
                    self._bring(sources, self.path)

    def _find(self) -> None:
        for name in ("CACHE_DIRECTORY", "STATE_DIRECTORY"):
            for text in filter(None, self._environ.get(name, "").split(":")):
                if self._may_have(Path(text, _NAME)):
                    self.lasting = True
                    return
        with suppress(OSError):  # also: no temporary directory at all
            if self._may_have(Path(self._temporary(), f"{_NAME}-{os.geteuid()}")):
                return
            # Somebody else owns a directory of that name: make another, which child processes share.
            self.path = Path(tempfile.mkdtemp(prefix=f"{_NAME}-", dir=self._temporary()))
            atexit.register(shutil.rmtree, self.path, ignore_errors=True)

    def _may_have(self, path: Path) -> bool:
        """Create the directory if need be; returns whether only we can write it."""
        with suppress(OSError):
            path.mkdir(mode=0o700, exist_ok=True)
            found = path.lstat()
            ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
            if ours and self._writable(path):
                self.path = path
                return True
        return False

    def _bring(self, kept: Path, place: Path) -> None:
        """Copy compiled code to where Numba looks for it: a directory is copied whole or not at all."""
        from numba.core import caching

        found = [path for path in kept.iterdir() if path.suffix in (".nbi", ".nbc")]
        named = caching._CacheLocator.get_suitable_cache_subpath  # after the directory of a source file
        target = place / named(str(kept.parent / "any.py"))  # type: ignore[no-untyped-call]
        if not found or target.exists():
            return
        part = Path(tempfile.mkdtemp(dir=place))
        try:
            for path in found:
                shutil.copyfile(path, part / path.name)
            part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def places(self) -> Iterator[Path]:
        """The directories that may have an image, whether they exist or not, best first."""
        if own := self._environ.get("NUMBA_CACHE_DIR"):
            yield Path(own)
        yield self._package / "__pycache__"
        if home := self._environ.get("XDG_CACHE_HOME") or self._environ.get("HOME"):
            yield Path(home, *(() if self._environ.get("XDG_CACHE_HOME") else (".cache",)), "lycosa")
        for name in ("CACHE_DIRECTORY", "STATE_DIRECTORY"):
            yield from (Path(text, _NAME) for text in self._environ.get(name, "").split(":") if text)
        with suppress(OSError):
            yield Path(self._temporary(), f"{_NAME}-{os.geteuid()}")

    def trusted(self, path: Path) -> bool:
        """Whether only we and root, or those who can run code here anyway, can write to the directory.

        Whoever can write to the package can change the program; from `$NUMBA_CACHE_DIR` Numba loads code, too.
        """
        own = self._environ.get("NUMBA_CACHE_DIR")
        if path == self._package / "__pycache__" or (own and path == Path(own)):
            return True
        try:
            found = path.lstat()
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022

    @property
    def warning(self) -> str:
        """A warning about the place; "" for one that stays."""
        if not self.chosen or self.lasting:
            return ""
        if self.path is None:
            return f"; no directory can be written, so every process does this: {_advice}"
        return f"; kept in {self.path}, which may not stay: {_advice}"
