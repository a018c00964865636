"""What verbs share about their streams: progress on standard error, safe text, whole files."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from lycosa.errors import ConfigError, StorageError

_PATIENCE = 2.0
_LINE = 10.0


class Progress:
    """Says how far a long reading is: nothing for two seconds, then a line that is written over.

    Where standard error is no terminal, a line every ten seconds.
    """

    def __init__(
        self, name: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._stream = stream or sys.stderr
        self._clock = clock
        self._what = ""
        self._started = clock()
        self._next = self._started + _PATIENCE
        self._open = False

    def __call__(self, what: str, count: int) -> None:
        now = self._clock()
        if what != self._what:
            self._what, self._started = what, now
        if now < self._next:
            return
        since = now - self._started
        speed = f" ({count / since:,.0f}/s)" if since > 0.5 else ""
        line = f"lycosa {self._name}: {what}: {count:,} records{speed}"
        if self._stream.isatty():
            self._stream.write(f"\r\x1b[K{line}")
            self._open = True
            self._next = now + 0.25
        else:
            self._stream.write(line + "\n")
            self._next = now + _LINE
        self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def printable(text: str) -> str:
    """Text for a terminal: what could move its cursor, or turn its direction, is escaped.

    Every verb shows what strangers wrote through this; what it writes as JSON passes `json_form.safe`.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def write_found(data: bytes) -> None:
    """Bytes from the web on standard output: as they are, but to a terminal as text that is safe for it."""
    if sys.stdout.isatty():
        for line in data.decode("utf-8", "replace").splitlines():
            sys.stdout.write("\t".join(printable(cell) for cell in line.split("\t")) + "\n")
    else:
        sys.stdout.buffer.write(data)
    sys.stdout.flush()


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Turn the system's errors about an output file into one line."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise StorageError(f"cannot write {path}: {error.strerror}") from None
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A draft to write to, which becomes the file when all went well.

    Pipes and devices are their own draft.
    """
    with writing(path):
        if path.exists() and not path.is_file():
            if path.is_dir():
                raise ConfigError(f"cannot write {path}: it is a directory")
            yield path
            return
        draft = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            yield draft
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
