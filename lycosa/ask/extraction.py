"""Extraction: calls the operator's function for each page of a crawl and writes its rows to files, exactly once.

    with Extraction(crawl, "quotes.py:quotes", Path("quotes.jsonl")) as extraction:
        extraction.round()             everything committed that was not extracted yet

**Which pages.** The function is called once for each fetch that brought content: an answer 2xx with a body in the
archive. A refetch that found the page unchanged is left out; one that found it changed is included, and its rows
are added to the older ones. Duplicates of other pages are included. A fetch that is taken back later (`Lost`: a
machine of a cluster died) leaves its rows, and a note among the failures; the page is fetched and extracted again.

**Once.** The place in the crawl's logs and the marks of the output files (`extract_rows`) are one small file, which
is replaced atomically after the rows are durable:

    TO.extract/place.json := {"crawl": id, "function": text, "shards": [[start, next, end]*], "rows": mark,
                              "failed": mark, "called": N, "made": N}
    TO.extract/failed.jsonl := {"url", "shard", "position", "why", "detail"}*

After a kill at any moment the output is cut back to its mark, and pages after the place are processed again: the
files contain each page's rows exactly once. The rows of one page are never split.

**Isolated.** The function runs in a process of its own (`extract_child`). A page for which it raises, takes longer
than `seconds` (the process is killed), or ends its process is noted among the failures and skipped.

One instance at a time: a lock in TO.extract is held.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import msgspec

from lycosa.ask.extract_child import receive, send
from lycosa.ask.extract_rows import JsonLines, Row, Sink, sink_for
from lycosa.ask.follower import Follower, Place
from lycosa.ask.reading import CrawlReader
from lycosa.errors import ConfigError, StorageError
from lycosa.files import DirectoryLock, DiskFiles, write_whole
from lycosa.records import Before, Fetched, Lost, encode

SUFFIX = ".extract"
_PLACE = "place.json"
_FAILED = "failed.jsonl"
_HELD = 16 << 20
"""Bytes of rows after which they are committed."""
_START = 120.0
"""Seconds that loading the function may take."""

Told = Callable[[str, int], None]


class _State(msgspec.Struct):
    """The place file."""

    crawl: str
    function: str
    shards: list[Place] = []
    rows: int = 0
    failed: int = 0
    called: int = 0
    made: int = 0


class Round(msgspec.Struct):
    """What a round did."""

    pages: int = 0
    rows: int = 0
    failed: int = 0


class Extraction:
    """Extracts rows from a crawl's pages and keeps the files up to date."""

    def __init__(
        self,
        crawl: CrawlReader,
        function: str,
        to: Path,
        *,
        seconds: float = 30.0,
        anew: bool = False,
        told: Told = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
        caller: Calling | None = None,
        schema: Any = None,
        columns: Sequence[str] = (),
    ) -> None:
        """`caller`: called instead of the operator's function, for every fetch; `schema`, `columns`: those of its
        rows."""
        self._crawl = crawl
        self._told = told
        self._clock = clock
        self._sink: Sink = sink_for(to, schema, columns)
        self._files = DiskFiles(to.with_name(to.name + SUFFIX))
        self._lock = DirectoryLock(self._files.root)
        self._caller: Calling = caller or Caller(crawl.directory, function, seconds)
        self._every = caller is not None
        self._failures = JsonLines(self._files.root / _FAILED)
        self.done = Round()
        try:
            if anew:
                self._files.remove(_PLACE)
            elif not self._files.exists(_PLACE) and to.exists() and (not to.is_dir() or any(to.iterdir())):
                raise ConfigError(f"{to} is there, and not from an extraction: choose another, or add --anew")
            self._state = self._read(function)
            self._caller.start()
            self._sink.restore(self._state.rows)
            self._failures.restore(self._state.failed)
        except BaseException:
            self.__exit__()
            raise
        self._committed = clock()

    def _read(self, function: str) -> _State:
        if not self._files.exists(_PLACE):
            return _State(self._crawl.crawl, function)
        path = self._files.path(_PLACE)
        try:
            found = _decode_state(self._files.read(_PLACE))
        except msgspec.MsgspecError as error:
            raise StorageError(f"{path} is damaged ({error}): start again with --anew") from None
        if found.crawl != self._crawl.crawl:
            raise ConfigError(
                f"{path} is of another crawl ({found.crawl}): choose another file, or add --anew"
            )
        if found.function.rpartition(":")[2] != function.rpartition(":")[2]:
            raise ConfigError(
                f"{path} is of another function ({found.function}): choose another file, or add --anew"
            )
        return found

    def __enter__(self) -> Extraction:
        return self

    def __exit__(self, *_: object) -> None:
        self._caller.close()
        self._sink.close()
        self._failures.close()
        self._lock.release()

    @property
    def called(self) -> int:
        """Pages that the function was called with, in all runs."""
        return self._state.called

    @property
    def made(self) -> int:
        """Rows, in all runs."""
        return self._state.made

    def round(self, *, last: bool = True) -> Round:
        """Extract what is new. If not `last`, rows may wait for a later round."""
        self.done = Round()
        follower = Follower(self._crawl, self._state.shards, settled=True)
        for number, (shard, position, record) in enumerate(follower.read(), 1):
            if isinstance(record, Fetched) and (self._every or _is_wanted(record)):
                self._page(shard, position, record)
            elif isinstance(record, Lost):
                self._fail(record.url, shard, record.position, "taken back", "its rows are still there")
            if self._is_time():
                self._commit(follower)
            if not number & 0xFF:
                self._told("extracting", number)
        if last or self._is_time():
            self._commit(follower)
        else:
            self._state.shards = follower.places
        return self.done

    def _is_time(self) -> bool:
        return self._sink.held > _HELD or self._clock() - self._committed > self._sink.linger

    def _page(self, shard: int, position: int, record: Fetched) -> None:
        kind, *rest = self._caller.ask(shard, position, record)
        self._state.called += 1
        self.done.pages += 1
        if kind != "rows":
            self._fail(record.url, shard, position, kind, rest[0])
            return
        rows: list[Row] = rest[0]
        for row in rows if not self._every else ():
            row.setdefault("at", datetime.fromtimestamp(record.at / 1000, UTC))
        self._sink.add(rows)
        self._state.made += len(rows)
        self.done.rows += len(rows)

    def _fail(self, url: str, shard: int, position: int, why: str, detail: str) -> None:
        row = {"url": url, "shard": shard, "position": position, "why": why, "detail": detail}
        self._failures.add([row])
        self.done.failed += 1

    def _commit(self, follower: Follower) -> None:
        state = self._state
        state.rows, state.failed = self._sink.commit(), self._failures.commit()
        state.shards = follower.places
        write_whole(self._files, _PLACE, msgspec.json.encode(state))
        self._committed = self._clock()


def _is_wanted(record: Fetched) -> bool:
    """Whether a fetch brought content to extract from."""
    if not 200 <= record.status < 300 or record.stored is None:
        return False
    return record.body is None or record.before is not Before.PAGE  # a revisit of content that we had


class Calling(Protocol):
    """Makes rows from a fetch."""

    def start(self) -> None: ...
    def ask(self, shard: int, position: int, record: Fetched) -> list[Any]:
        """["rows", rows], or why there are none and details: "error", "time", "ended"."""
        ...

    def close(self) -> None: ...


class Caller:
    """Calls the function in a child process, which is restarted when it has ended or was killed."""

    def __init__(self, directory: Path, function: str, seconds: float) -> None:
        self._words = [sys.executable, "-m", "lycosa.ask.extract_child", str(directory), function]
        self._words.append(str(seconds))
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Load the function; `ConfigError` if there is none."""
        path = os.pathsep.join(each for each in sys.path if each)  # so that the child finds the same modules
        self._child = subprocess.Popen(
            self._words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        answer = self._answer(_START)
        if answer is None or answer[0] != "ready":
            self.close()
            detail = "its process ended" if answer is None else answer[1]
            raise ConfigError(
                detail if detail.startswith("extract:") else f"extract: cannot be loaded: {detail}"
            )

    def ask(self, shard: int, position: int, record: Fetched) -> list[Any]:
        """["rows", rows], or why there are none and details: "error", "time", "ended"."""
        if self._child is None:
            self.start()
        assert self._child is not None
        try:
            send(cast(BinaryIO, self._child.stdin), [shard, position, encode(record)])
            answer = self._answer(self._seconds)
        except BrokenPipeError:
            answer = None
        if answer is None:
            code = self._child.wait()
            self.close()
            return ["ended", f"its process ended ({f'signal {-code}' if code < 0 else f'code {code}'})"]
        if answer[0] == "time":
            self.close()
        return answer

    def _answer(self, seconds: float) -> list[Any] | None:
        """The child's answer; None if it has ended."""
        assert self._child is not None
        out = cast(BinaryIO, self._child.stdout)
        until = time.monotonic() + seconds
        waited = not select.select([out], [], [], seconds)[0]
        if waited:
            return ["time", f"no answer in {seconds:g} s"]
        try:
            answer = receive(_Patient(out, until))
        except TimeoutError:
            return ["time", f"no answer in {seconds:g} s"]
        except msgspec.MsgspecError as error:
            return ["error", f"its answer cannot be read: {error}", ""]
        return cast("list[Any] | None", answer)

    def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()


class _Patient:
    """Reads from a pipe until a deadline."""

    def __init__(self, pipe: BinaryIO, until: float) -> None:
        self._fd = pipe.fileno()
        self._until = until

    def read(self, count: int) -> bytes:
        parts = []
        while count:
            left = self._until - time.monotonic()
            if left <= 0 or not select.select([self._fd], [], [], left)[0]:
                raise TimeoutError
            part = os.read(self._fd, count)
            if not part:
                break
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


# Made at import: msgspec crashes where two threads are the first to decode a struct that holds others.
_decode_state = msgspec.json.Decoder(_State).decode
