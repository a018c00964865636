"""The archive of an agent: appends exchanges to WARC files, and returns the place of each.

    name = prefix "-" YYYYMMDDhhmmss "-" serial "-" crawl [ "." agent ] ".warc.gz"
                                                            serial: five digits or more, growing
    file = warcinfo *( [request] (response / revisit) / resource / page )  each a gzip member
    page = *( [request] response ) [conversion] [request] response         never split
                                                rendered: its scripts' requests, the document, the page itself

A file has its final name from its first byte (no ".open" suffix): places in the log name it, and the log, not the
name, says which part of it counts. A new file is begun before an exchange that would not fit into `rotate_bytes`;
an exchange is never split.

Two threads. `store` runs on the event loop: it frames, compresses, assigns a place and keeps the bytes in
memory; it touches no file. `sync` runs in the thread of the commit loop: it writes what is kept, syncs the
files and, if one was made, their directory. Everything stored before `sync` was called is durable when it
returns, so log records may point at it. Only if more than `buffer_bytes` are kept does `store` itself write
them out (without syncing), to bound the memory.

Recovery. After a crash a file may hold bytes that no committed record points at, torn records among them. `recover`
is given the end of each file as the log knows it, cuts each file to that end, removes files the log does not name,
and continues with the last file. So no file holds a torn record once the crawl runs again, and an exchange that was
not committed is fetched and stored anew, once. Files with other names are left alone.

A file that is shorter than the log says is refused, unless a repair has noted that its end, or all of it, is lost
(`missing.json`); then it stays as it is, and nothing is added to it.

Several agents write into one directory, each into files that carry its name, and a named agent cuts and
removes only those: `cut_files` does it for all of them, before any agent stores.

After a disk error the archive refuses further work: only recovery can tell what was written.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from lycosa.archive import warc
from lycosa.archive.reader import Exchange, Located, read_exchange, scan
from lycosa.clock import Clock, milliseconds
from lycosa.errors import ConfigError, DiskFullError, StorageError
from lycosa.files import Appender, Files
from lycosa.records import Stored
from lycosa.version import VERSION

SUFFIX = ".warc.gz"
HTML = "text/html; charset=utf-8"
"""The media type of a rendered document."""
MISSING = "missing.json"
"""Lists files that the log points into and that a repair found missing or cut: how many bytes are left of each."""
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._]*\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._]*-\d{14}-(\d{5,})-[A-Za-z0-9][A-Za-z0-9._]*\.warc\.gz\Z")


class ArchiveOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the archive is kept."""

    keep: bool = True  # False: fetch and log only
    prefix: str = "lycosa"
    rotate_bytes: int = 1_000_000_000  # largest size of a file, unless one exchange is larger
    buffer_bytes: int = 32 << 20  # largest number of bytes stored and not yet written
    level: int = warc.LEVEL  # ISA-L's level of compression, 0 to 3
    block_digests: bool = False  # a second SHA-1 on every record, for readers that verify heads too
    requests: bool = True  # keep request records too


class Part(NamedTuple):
    """An exchange caused by a page's scripts."""

    url: str
    at: int
    request_head: bytes
    head: bytes
    body: bytes
    address: str
    truncated: str


class Recovered(NamedTuple):
    """What `recover` did."""

    cut: dict[str, int]  # by file: bytes beyond the log's end, which were removed
    removed: list[str]


class _File:
    """A file that is being written: `size` bytes were stored, `written` of them can be read."""

    __slots__ = ("appender", "dirty", "name", "pending", "size", "written")

    def __init__(self, name: str, size: int = 0) -> None:
        self.name = name
        self.size = size
        self.written = size
        self.pending: list[bytes] = []
        self.appender: Appender | None = None
        self.dirty = False


class Archive:
    """WARC files below `files`; the module's docstring is the contract."""

    def __init__(
        self,
        files: Files,
        options: ArchiveOptions,
        clock: Clock,
        *,
        crawl: str,
        agent: str = "",
        info: Mapping[str, str] | None = None,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """`crawl` and `agent` go into the names, `info` into each warcinfo record (operator, user agent ...)."""
        for what, word in (("prefix", options.prefix), ("crawl id", crawl), ("agent", agent or "a")):
            if not _WORD.match(word):
                raise ConfigError(f"archive {what} {word!r}: use letters, digits, '.' and '_' only")
        if not 0 <= options.level <= 3:
            raise ConfigError(f"archive level {options.level}: use 0 to 3")
        self._files = files
        self._options = options
        self._form = warc.Form(options.level, options.block_digests)
        self._clock = clock
        self._last = f"{crawl}.{agent}" if agent else crawl
        self._own = f"-{self._last}{SUFFIX}" if agent else SUFFIX
        self._info = {
            "software": f"lycosa/{VERSION}",
            "format": "WARC File Format 1.1",
            "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
            "isPartOf": crawl,
            **(info or {}),
        }
        self._identity = warc.Series(random(10)).take
        self._lock = threading.Lock()  # guards the fields below; never held over I/O
        self._io = threading.Lock()  # held while files are written
        self._open: list[_File] = []  # in order of creation; the last one grows
        self._kept = 0  # bytes in all `pending`
        self._ended: _File | None = None  # gets no more exchanges
        self._failed: BaseException | None = None
        self._made = False  # a file was made and its directory is not yet synced
        names = [*files.list(""), *missing_marks(files)]
        self._serial = 1 + max(map(_serial, names), default=-1)

    # -- storing ----------------------------------------------------------------------------------------

    def store(
        self,
        *,
        url: str,
        at: int,
        request_head: bytes,
        head: bytes,
        body: bytes,
        address: str = "",
        truncated: str = "",
    ) -> Stored:
        """Append a request and its response. `at`: when the fetch began, in milliseconds."""
        identity = self._identity()
        answer = warc.response(
            identity, at, url, head, body, address=address, truncated=truncated, form=self._form
        )
        return self._append(self._asked(url, at, request_head, identity, address), answer)

    def store_rendered(
        self,
        parts: Sequence[Part],
        document: bytes,
        *,
        url: str,
        at: int,
        request_head: bytes,
        head: bytes,
        body: bytes,
        address: str = "",
        truncated: str = "",
    ) -> tuple[Stored | None, Stored]:
        """Append a page's request and response, and before them its rendered document and the exchanges of its
        scripts.

        The first place is that of everything before the page, including the document; None if there is nothing.
        """
        identity = self._identity()
        members: list[bytes] = []
        for part in parts:
            own = self._identity()
            members.append(self._asked(part.url, part.at, part.request_head, own, part.address))
            members.append(
                warc.response(
                    *(own, part.at, part.url, part.head, part.body),
                    address=part.address,
                    truncated=part.truncated,
                    form=self._form,
                )
            )
        before = sum(map(len, members))
        if document:
            members.append(
                warc.conversion(
                    *(self._identity(), at, url, HTML, document), source=identity, form=self._form
                )
            )
        length = sum(map(len, members))
        asked = self._asked(url, at, request_head, identity, address)
        answer = warc.response(
            identity, at, url, head, body, address=address, truncated=truncated, form=self._form
        )
        whole = self._append(b"".join([*members, asked]), answer)
        page = Stored(whole.file, whole.offset + length, whole.length - length, len(asked))
        return (Stored(whole.file, whole.offset, length, before) if length else None), page

    def store_revisit(
        self,
        *,
        url: str,
        at: int,
        request_head: bytes,
        head: bytes,
        payload: str,
        unmodified: bool,
        earlier_at: int,
        address: str = "",
    ) -> Stored:
        """Append a request and the head of its response, whose body was stored with a fetch at `earlier_at`.

        `payload`: the digest of that body ("": not known); `unmodified`: the site said that it has not changed.
        """
        identity = self._identity()
        answer = warc.revisit(
            identity,
            at,
            url,
            head,
            payload=payload,
            profile=warc.NOT_MODIFIED if unmodified else warc.IDENTICAL,
            earlier_url=url,
            earlier_at=earlier_at,
            address=address,
            form=self._form,
        )
        return self._append(self._asked(url, at, request_head, identity, address), answer)

    def store_resource(
        self, *, url: str, at: int, media_type: str, body: bytes, truncated: str = ""
    ) -> Stored:
        """Append a body that came without a protocol: that of a file."""
        return self._append(
            b"",
            warc.resource(self._identity(), at, url, media_type, body, truncated=truncated, form=self._form),
        )

    def _asked(self, url: str, at: int, head: bytes, answer: str, address: str) -> bytes:
        if not (self._options.requests and head):
            return b""
        return warc.request(
            self._identity(), at, url, head, response=answer, address=address, form=self._form
        )

    def _append(self, asked: bytes, answer: bytes) -> Stored:
        before = len(asked)
        length = before + len(answer)
        with self._lock:
            if self._failed is not None:
                self._check()
            file = self._open[-1] if self._open else None
            if file is None or file is self._ended or file.size + length > self._options.rotate_bytes:
                file = self._begin()
            offset = file.size
            file.size = offset + length
            file.pending += (asked, answer) if before else (answer,)
            self._kept = kept = self._kept + length
        if kept > self._options.buffer_bytes:
            self.flush()
        return Stored(file.name, offset, length, before)

    def _begin(self) -> _File:
        at = milliseconds(self._clock)
        stamp = datetime.fromtimestamp(at // 1000, UTC).strftime("%Y%m%d%H%M%S")
        name = f"{self._options.prefix}-{stamp}-{self._serial:05d}-{self._last}{SUFFIX}"
        self._serial += 1
        file = _File(name)
        first = warc.warcinfo(self._identity(), at, name, self._info, self._form)
        file.pending.append(first)
        file.size = len(first)
        self._kept += len(first)
        self._open.append(file)
        return file

    # -- writing ----------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Make everything stored so far durable. Thread-safe; `store` may be called meanwhile."""
        self._write_out(durable=True)

    def flush(self) -> None:
        """Hand everything stored so far to the operating system, for other readers; not durable yet."""
        self._write_out(durable=False)

    def seal(self) -> None:
        """Sync, and end the last file: the next exchange begins another. Thread-safe."""
        with self._lock:
            self._ended = ended = self._open[-1] if self._open else None
        self.sync()
        with self._io, self._lock:
            if ended is not None and ended in self._open:
                at = self._open.index(ended) + 1
                for file in self._open[:at]:
                    if file.appender is not None:
                        file.appender.close()
                        file.appender = None
                self._open = self._open[at:]

    @property
    def growing(self) -> list[str]:
        """The files that may still grow, or are not yet written."""
        with self._lock:
            return [file.name for file in self._open]

    def close(self) -> None:
        """Sync, and close the files. The archive can be used again: it continues its last file."""
        with self._lock:
            failed = self._failed
        if failed is None:
            self.sync()
        with self._io, self._lock:
            for file in self._open:
                if file.appender is not None:
                    file.appender.close()
                    file.appender = None

    def _write_out(self, durable: bool) -> None:
        with self._io:
            with self._lock:
                self._check()
                work = []
                for file in self._open:
                    work.append((file, file.pending))
                    file.pending = []
                self._kept = 0
                last = self._open[-1] if self._open else None
            try:
                for file, pending in work:
                    self._write(file, pending, durable)
                if durable and self._made:
                    self._files.sync_dir("")
                    self._made = False
            except BaseException as error:
                with self._lock:
                    self._failed = error
                raise
            if durable:
                # All files but the last are complete: `store` only ever adds to the last.
                for file, _ in work:
                    if file is not last and file.appender is not None:
                        file.appender.close()
                with self._lock:
                    self._open = self._open[len(work) - 1 :] if work else self._open

    def _write(self, file: _File, pending: list[bytes], durable: bool) -> None:
        if pending:
            if file.appender is None:
                file.appender = self._files.append(file.name)
                self._made = True
            data = b"".join(pending)
            file.appender.write(data)
            file.appender.flush()
            file.written += len(data)
            file.dirty = True
        if durable and file.dirty and file.appender is not None:
            file.appender.sync()
            file.dirty = False

    def _check(self) -> None:
        failed = self._failed
        if isinstance(failed, DiskFullError):
            raise DiskFullError(str(failed))
        if failed is not None:
            said = str(failed) or type(failed).__name__
            raise StorageError(f"the archive failed before ({said}): run the same command again")

    # -- recovery and reading ---------------------------------------------------------------------------

    def recover(self, ends: Mapping[str, int]) -> Recovered:
        """Cut every file to its end in the committed log; to be called before the first `store`.

        `ends` has, for each file that any committed record names, the largest `offset + length`.
        """
        done = cut_files(self._files, ends, self._own)
        gone = missing_marks(self._files)
        there = {name for name in self._files.list("") if name.endswith(self._own) and name not in gone}
        last = max((name for name in ends if name in there), key=_serial, default=None)
        with self._lock:
            self._open = [_File(last, ends[last])] if last is not None else []
        return done

    def read(self, stored: Stored) -> Exchange:
        """The exchange at a place; `StorageError` if it is damaged."""
        end = stored.offset + stored.length
        with self._lock:
            kept = any(file.name == stored.file and file.written < end for file in self._open)
        if kept:
            self.flush()
        return read_exchange(self._files, stored)

    def names(self) -> list[str]:
        """The existing files, oldest first, without those of which nothing is written yet."""
        return sorted((n for n in self._files.list("") if _NAME.match(n)), key=_serial)

    def scan(self) -> Iterator[Located]:
        """Every record written, file by file."""
        for name in self.names():
            yield from scan(self._files, name)


def cut_files(files: Files, ends: Mapping[str, int], own: str = SUFFIX) -> Recovered:
    """Cut every archive file whose name ends in `own` to its end in the committed logs of all shards."""
    there = [name for name in archive_names(files) if name.endswith(own)]
    gone = missing_marks(files)
    for name in sorted(name for name in ends if name.endswith(own)):
        size = files.size(name) if name in there else 0
        if size < ends[name] and name not in gone:
            raise StorageError(
                f"archive file {files.path(name)} has {size} bytes and the log knows {ends[name]} of it:"
                " restore the file, or see what lycosa repair can do"
            )
    done = Recovered({}, [])
    for name in there:
        if name not in ends:
            files.remove(name)
            done.removed.append(name)
        elif (beyond := files.size(name) - ends[name]) > 0:
            files.truncate(name, ends[name])
            done.cut[name] = beyond
    if done.removed:
        files.sync_dir("")
    return done


def archive_names(files: Files) -> list[str]:
    """The archive files in a directory, by name."""
    return [name for name in files.list("") if _NAME.match(name)]


def missing_marks(files: Files) -> dict[str, int]:
    """For each file that a repair found missing or cut: the number of bytes left."""
    if not files.exists(MISSING):
        return {}
    try:
        return msgspec.json.decode(files.read(MISSING), type=dict[str, int])
    except msgspec.MsgspecError as error:
        raise StorageError(f"{files.path(MISSING)} is damaged ({error}): restore it, or remove it") from None


def _serial(name: str) -> int:
    found = _NAME.match(name)
    return int(found.group(1)) if found else -1
