"""Persistent requests of a Scrapy run: a log of requests made and done, and its folds. Independent of Scrapy.

    store = Store(DiskFiles(directory), SystemClock())     recovers what was committed
    store.add(request)        False: a request with that fingerprint is known
    taken = store.take()      the next one, from a host that may be asked now; None if there is none
    store.done(taken, items)  its page was processed, and the requests it led to were added before
    store.commit()            everything so far is durable, and counts

Three kinds of records are in the log (`lycosa.log`: compressed blocks with checksums, a torn tail cut at recovery):

    Asked   [at, key, url, level, body]      a request to be made; body is opaque, defined by the caller
    Done    [at, position]                   the request with the Asked at that position is finished
    Marked  [at, size]                       the size of items.jsonl as of this commit

The **seen set** (`lycosa.seen.memory`, 8 bytes per request) and the **frontier** (`lycosa.frontier.packed`, some
tens of bytes per request; hosts in a time heap, levels within a host) are folds over it, rebuilt at each start.

**Once.** A commit writes items first, then the records with the mark of the items, so that after a kill at any
moment a page that counts as done has its items in the file once, and one that does not is requested again, its
items cut off. The requests that a page leads to are in the log before the page is done: nothing is forgotten.
Requests found by a page that has to be read again are recognised by their fingerprint.

**Memory.** At most `most` requests are in the frontier. Others are *left behind*: they are in the log, after a
cursor, and are read from there when half of the frontier is finished. For each position one bit tells if it is
done.

**Politeness.** A host has at most one request under way, and then a pause of `wait` seconds; with `wait` None hosts
are not held back, and the caller is responsible for politeness.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import msgspec
import numpy as np

from lycosa.clock import Clock, milliseconds
from lycosa.errors import StorageError
from lycosa.files import Appender, Files
from lycosa.frontier import PackedFrontier
from lycosa.log.log import Log
from lycosa.records import Record, Waiting
from lycosa.seen.memory import MemorySeen
from lycosa.url.key import Keyer

LOG = "requests"
ITEMS = "items.jsonl"
_BLOCKS = 16
"""Blocks of the log that are kept in memory."""
_TAG_FIELD = "record"
_NO_HOST = re.compile(r"[^a-z0-9.\-]+")


class Asked(msgspec.Struct, frozen=True, array_like=True, tag_field=_TAG_FIELD, tag="Q"):
    """A request that is to be made."""

    at: int
    key: int
    url: str
    level: int
    body: bytes


class Done(msgspec.Struct, frozen=True, array_like=True, tag_field=_TAG_FIELD, tag="E"):
    """The request at a position is finished."""

    at: int
    position: int


class Marked(msgspec.Struct, frozen=True, array_like=True, tag_field=_TAG_FIELD, tag="M"):
    """The number of bytes of the items file that are valid."""

    at: int
    size: int


_decoder = msgspec.msgpack.Decoder(Asked | Done | Marked)


class Taken(NamedTuple):
    """A request that is under way."""

    position: int
    host: str
    key: int
    body: bytes


class Store:
    """See the module's text."""

    def __init__(self, files: Files, clock: Clock, *, wait: float | None = 0.0, most: int = 200_000) -> None:
        self._files = files
        self._clock = clock
        self._wait = wait
        self._most = most
        self._log = Log(files.within(LOG), kept_blocks=_BLOCKS)
        self._seen = MemorySeen(_emptied(files.within("seen")))
        self._keyer = Keyer(0)
        self._frontier = PackedFrontier(clock)
        self.first: Callable[[], None] = lambda: None
        """Called before each commit: makes durable what must be so before a page is done."""
        self._finished = bytearray()  # one bit per position
        self._cursor = 0  # positions from here on are left behind
        self._size = 0
        self._left = 0
        self._replay()
        self._items = self._open_items()
        self._refill()

    # -- in and out

    def add(self, key: int, url: str, body: bytes, *, level: int = 128, anyway: bool = False) -> bool:
        """Add a request; returns False if its key is known. `anyway`: add it even then."""
        found = self._seen.offer(np.array([key], np.uint64), (b"",))
        if not len(found.new) and not anyway:
            return False
        record = Asked(milliseconds(self._clock), key, url, level, body)
        position = self._append(record)
        if not self._left and self.ready < self._most:
            self._cursor = position + 1
            self._put([(position, record)])
        else:
            self._left += 1
        return True

    def knows(self, key: int) -> bool:
        """Whether a request of that key was added."""
        return bool(self._seen.certain(np.array([key], np.uint64))[0])

    def take(self) -> Taken | None:
        """The next request of a host that may be asked now."""
        if self._left and self.ready <= self._most // 2:
            self._refill()
        now = self._clock.monotonic()
        host = self._frontier.begin(now)
        if host is None:
            return None
        waiting = self._frontier.take(host)
        if waiting is None:
            self._frontier.end(host, now)
            return None
        if self._wait is None:
            self._frontier.end(host, now)
        position = int(waiting.url.rpartition("/")[2], 16)
        return Taken(position, host, waiting.key, self._read(position).body)

    def done(self, taken: Taken, items: Sequence[bytes] = ()) -> None:
        """A request is finished; `items` are lines of JSON without line ends."""
        self._append(Done(milliseconds(self._clock), taken.position))
        self._finish(taken.position)
        self.keep(items)
        self._frontier.done(taken.key)
        if self._wait is not None:
            self._frontier.end(taken.host, self._clock.monotonic() + self._wait)

    def keep(self, items: Sequence[bytes]) -> None:
        """Store items that belong to no particular page."""
        for item in items:
            self._items.write(item + b"\n")

    def commit(self) -> None:
        """Make everything durable."""
        self.first()
        if self._items.size != self._size:
            self._items.sync()
            self._size = self._items.size
            self._append(Marked(milliseconds(self._clock), self._size))
        self._log.commit()

    def close(self) -> None:
        self.commit()
        self._log.close()
        self._items.close()

    @property
    def ready(self) -> int:
        """Requests in the frontier that are not under way."""
        return self._frontier.pending - self._frontier.in_flight

    @property
    def pending(self) -> int:
        """Requests that are not under way and not done."""
        return self.ready + self._left

    @property
    def known(self) -> int:
        """The number of requests ever added."""
        return len(self._seen)

    @property
    def nbytes(self) -> int:
        """Bytes of RAM of the folds."""
        return self._seen.nbytes + self._frontier.nbytes + len(self._finished)

    def next_ready(self) -> float | None:
        """Seconds until a host may be asked; None if no host waits."""
        at = self._frontier.next_ready()
        return None if at is None else max(at - self._clock.monotonic(), 0.0)

    # -- inside

    def _append(self, record: Asked | Done | Marked) -> int:
        return self._log.append(cast(Record, record))  # encoded like any other; read back only here

    def _put(self, rows: Sequence[tuple[int, Asked]]) -> None:
        """Put requests into the frontier under a short URL: the host, and the position in the log."""
        items = []
        for position, row in rows:
            url = f"http://{_host(row.url)}/{position:x}"
            items.append(Waiting(url, self._keyer.key(url)))
        self._frontier.put(items, [row.level for _, row in rows])

    def _replay(self) -> None:
        """Rebuild the folds from the log."""
        keys: list[int] = []
        asked = 0
        for _, row in self._log.reader.scan_encoded():
            record = self._decoded(row)
            if isinstance(record, Asked):
                asked += 1
                keys.append(record.key)
                if len(keys) >= 4096:
                    self._seen.mark(np.array(keys, np.uint64))
                    keys.clear()
            elif isinstance(record, Done):
                self._finish(record.position)
                asked -= 1
            else:
                self._size = record.size
        if keys:
            self._seen.mark(np.array(keys, np.uint64))
        self._left = asked

    def _refill(self) -> None:
        """Move requests that were left behind into the frontier, as far as there is room."""
        self.commit()  # what is read must be on disk
        room = self._most - self.ready
        rows: list[tuple[int, Asked]] = []
        end = self._log.committed
        for position, row in self._log.reader.scan_encoded(self._cursor, end):
            if len(rows) >= room or not self._left:
                break
            self._cursor = position + 1
            record = self._decoded(row)
            if isinstance(record, Asked) and not self._is_finished(position):
                rows.append((position, record))
                self._left -= 1
        if not self._left:
            self._cursor = self._log.end
        self._put(rows)

    def _read(self, position: int) -> Asked:
        record = self._decoded(self._log.read_encoded(position))
        assert isinstance(record, Asked)
        return record

    def _decoded(self, row: Any) -> Asked | Done | Marked:
        try:
            return cast("Asked | Done | Marked", _decoder.decode(row))
        except msgspec.MsgspecError as error:
            raise StorageError(
                f"{self._files.path(LOG)} is not a log of requests, or of a newer version ({error})"
            ) from None

    def _finish(self, position: int) -> None:
        byte, bit = divmod(position, 8)
        if byte >= len(self._finished):
            self._finished.extend(bytes(byte + 4096 - len(self._finished)))
        self._finished[byte] |= 1 << bit

    def _is_finished(self, position: int) -> bool:
        byte, bit = divmod(position, 8)
        return byte < len(self._finished) and bool(self._finished[byte] >> bit & 1)

    def _open_items(self) -> Appender:
        """Open the items file, cutting off what is not valid."""
        size = self._files.size(ITEMS) if self._files.exists(ITEMS) else 0
        if size < self._size:
            raise StorageError(
                f"{self._files.path(ITEMS)} has {size} bytes and {self._size} were written: restore it, or put an"
                f" empty directory instead of this one to start a new crawl"
            )
        if size > self._size:
            self._files.truncate(ITEMS, self._size)
        return self._files.append(ITEMS)


def _emptied(files: Files) -> Files:
    """An emptied directory, for what is rebuilt at each start."""
    for name in files.list(""):
        files.remove(name)
    return files


def _host(url: str) -> str:
    """The host of a URL of any kind, as a name that the frontier takes."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    return _NO_HOST.sub("-", host.lower())[:253] or "none"
