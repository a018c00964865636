"""Common handling of the verbs' streams: outputs that may be closed, progress, safe text, atomic files.

`own` replaces the process's standard streams by its own ones, so that every verb handles a failing output in the
same way, whatever it writes with (print, rich, `sys.stdout.buffer`):

- *standard output is closed* (the reader of a pipe has ended, the terminal is closed): `OutputClosedError`, which
  ends the verb silently and with code 0: the reader has had enough (`| head`);
- *standard output cannot be written* (a full disk): `OutputFailedError`, one line and code 3;
- *standard error cannot be written*: further messages are dropped, and the verb goes on.

A signal that ends the process (SIGTERM, SIGHUP) raises `Terminated` at the current instruction, so that drafts and
temporary directories are removed; verbs that can stop cleanly (crawl, agent) handle the signals themselves.

A stream that was closed from the start (`>&-`) is replaced by a null device. Characters that the locale's encoding
lacks are written as similar ASCII, or else as escapes (`\\u2192`).
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, TextIO

from lycosa.errors import ConfigError, StorageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_PATIENCE = 2.0
_LINE = 10.0
_BUFFER = 1 << 16
_LIKE = str.maketrans(
    {
        **dict.fromkeys("·•", "-"),
        **dict.fromkeys("–—─━╸╺", "-"),
        **dict.fromkeys("‘’", "'"),
        **dict.fromkeys("“”", '"'),
        **dict(zip("▁▂▃▄▅▆▇█", "_.,-=+*#", strict=True)),
        **dict.fromkeys("▏▎▍▌▋▊▉│┃", "|"),
        "…": "...",
        "→": "->",
        "←": "<-",
        "×": "x",
        "≥": ">=",
        "≤": "<=",
        "≈": "~",
    }
)
"""ASCII replacements of our own symbols and lines."""


class OutputClosedError(Exception):
    """The reader of standard output is gone."""


class OutputFailedError(StorageError):
    """Standard output cannot be written."""


class Terminated(KeyboardInterrupt):
    """A signal asked this process to end. (An event loop lets only exceptions of this kind through at once.)"""

    def __init__(self, number: int) -> None:
        self.number = number


class Outlet(io.RawIOBase):
    """A standard stream of the process, which handles every failure in the same way (see above)."""

    def __init__(self, number: int, name: str) -> None:
        self._number = number
        self.name = name
        self._raises = number == 1
        self._terminal = os.isatty(number)
        self.left = False
        """Whether its reader is gone."""

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return self._terminal

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        while True:
            try:
                return os.write(self._number, data)
            except BlockingIOError:  # the file was made non-blocking, as by a parent that shares it
                select.select((), (self._number,), ())
            except OSError as error:
                self.left = error.errno == errno.EPIPE
                if not self._raises:
                    return memoryview(data).nbytes
                if self.left or (self._terminal and error.errno == errno.EIO):
                    raise OutputClosedError from None
                raise OutputFailedError(f"cannot write to {self.name}: {error.strerror}") from None

    def mute(self) -> None:
        """From now on drop what fails: data left in buffers must not fail again at the exit."""
        self._raises = False

    def deserted(self) -> bool:
        """Whether its reader is gone, checked without writing."""
        poll = select.poll()
        poll.register(self._number, 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _looks_like(error: UnicodeError) -> tuple[str | bytes, int]:
    """The replacement for characters that an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_LIKE)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


codecs.register_error("lycosa.like", _looks_like)


def own() -> None:
    """Replace this process's standard streams: for the program, not for users of the library."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # or the next file that is opened would get its number
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    for number, name in ((1, "stdout"), (2, "stderr")):
        old = getattr(sys, name)
        if old is not None:
            old.flush()
        outlet = Outlet(number, "standard output" if number == 1 else "standard error")
        new = io.TextIOWrapper(
            io.BufferedWriter(outlet, _BUFFER),
            encoding=getattr(old, "encoding", None) or "utf-8",
            errors="lycosa.like",
            line_buffering=number == 2 or outlet.isatty(),
            write_through=getattr(old, "write_through", False),
        )
        setattr(sys, name, new)


def _terminate(number: int, _: FrameType | None) -> NoReturn:
    raise Terminated(number)


def take_signals() -> None:
    """Let the signals that end a process raise an exception, unless they are ignored (nohup)."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)


def stop_signals() -> list[signal.Signals]:
    """The signals on which verbs that can stop cleanly do so."""
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


def outlet(stream: TextIO) -> Outlet | None:
    """The `Outlet` behind a stream, if it is one of ours."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, Outlet) else None


class Progress:
    """Shows how far a long read is: nothing for two seconds, then a line that is updated in place.

    If standard error is not a terminal, a line every ten seconds.
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


@contextmanager
def announced(name: str, what: str, patience: float = _PATIENCE) -> Iterator[None]:
    """For work without progress: after two seconds, shows a line that says what is under way."""
    timer = threading.Timer(
        patience, lambda: print(f"lycosa {name}: {what} ...", file=sys.stderr, flush=True)
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def printable(text: str) -> str:
    """Text for a terminal: characters that could move its cursor, or change its direction, are escaped.

    Every verb shows text of strangers through this; what it writes as JSON passes through `json_form.safe`.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def message(text: str) -> dict[str, object]:
    """A text message as values for programs: time, level, and the text."""
    level = "warning" if text.startswith("note: ") else "info"
    return {"at": time.time(), "level": level, "note": text}


def write_found(data: bytes) -> None:
    """Write bytes from the web to standard output: unchanged, but to a terminal as text that is safe for it."""
    if sys.stdout.isatty():
        for line in data.decode("utf-8", "replace").splitlines():
            sys.stdout.write("\t".join(printable(cell) for cell in line.split("\t")) + "\n")
    else:
        sys.stdout.buffer.write(data)
    sys.stdout.flush()


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Turns system errors about an output file into one line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise StorageError(f"cannot write {path}: {error.strerror}") from None
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A draft to write to, which replaces the file if all goes well.

    Pipes and devices are written directly.
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
