"""Persistent queues of URLs for other crawlers: a log of changes, and its folds. Independent of gRPC.

    store = Store(DiskFiles(directory), SystemClock())     recovers what was committed
    store.put(crawl, key, url, info, due)      due None: discovered, skipped if it is known; 0: done for good
    store.take(...)                            URLs that are due, of queues that may be asked now
    batch = store.cut(); store.write(batch); store.confirm(batch)       durable (`lycosa.log.log`)

A URL belongs to a queue, and a queue to a crawl. Records in the log:

    Put      [at, crawl, key, url, due, info]   info is opaque, defined by the caller; due in seconds, 0: never
    Removed  [at, crawl, key, before]           all URLs of a queue (or, key empty, of a crawl) that were made
                                                before that second; 0: all, and the queues
    Ruled    [at, crawl, key, what, value]      delay, block, limit of a queue; active, delay of all

The folds: for each URL a 64-bit key, the position of its last Put, when it is due, until when it is under way and
when it was made; for each queue a heap by due time. A URL's metadata stays in the log and is read from
there.

**Once.** A URL that was put is restored after a kill, in the state of its last Put. Takes are not logged: URLs
under way at a kill are given out again, which the interface allows for anyway (`held` expires).

**Politeness.** A queue gives nothing for `delay` seconds after it gave something, while it is blocked, while the
requested maximum of its URLs is under way, and when its limit of done URLs is reached. After a start every queue
counts as having been asked just then, so that its delay holds across a kill.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec
import xxhash

from lycosa.clock import Clock, milliseconds
from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.log.log import Batch, Log
from lycosa.records import Record

LOG = "urls"
DEFAULT = "DEFAULT"
HELD = 30.0
"""Seconds for which a URL is under way by default."""
_BLOCKS = 16
_LONGEST_KEY = 255
_TAG_FIELD = "record"


class Put(msgspec.Struct, frozen=True, array_like=True, tag_field=_TAG_FIELD, tag="P"):
    """A URL in its latest state."""

    at: int
    crawl: str
    key: str
    url: str
    due: int
    info: bytes


class Removed(msgspec.Struct, frozen=True, array_like=True, tag_field=_TAG_FIELD, tag="X"):
    """A removal of URLs."""

    at: int
    crawl: str
    key: str
    before: int


class Ruled(msgspec.Struct, frozen=True, array_like=True, tag_field=_TAG_FIELD, tag="T"):
    """A setting of a queue, or of all."""

    at: int
    crawl: str
    key: str
    what: str
    value: int


_decoder = msgspec.msgpack.Decoder(Put | Removed | Ruled)


class Entry:
    """The state of a URL in memory."""

    __slots__ = ("due", "held", "made", "position")

    def __init__(self, position: int, due: int, made: int) -> None:
        self.position = position
        self.due = due  # 0: done
        self.held = 0.0
        self.made = made


class Queue:
    """The state of a queue in memory."""

    def __init__(self, crawl: str, key: str, last: float) -> None:
        self.crawl = crawl
        self.key = key
        self.urls: dict[int, Entry] = {}
        self.heap: list[tuple[int, int, int]] = []  # due, position, fingerprint; some are outdated
        self.under_way: set[int] = set()
        self.done = 0
        self.last = last  # time at which it last gave something
        self.blocked = 0
        self.delay = -1
        self.limit = 0

    @property
    def active(self) -> int:
        """URLs that are not done."""
        return len(self.urls) - self.done

    def busy(self, now: float) -> int:
        """URLs that are under way."""
        self.under_way = {each for each in self.under_way if each in self.urls and self.urls[each].held > now}
        return len(self.under_way)


class Given(NamedTuple):
    """A URL that is given out, or listed."""

    crawl: str
    key: str
    url: str
    info: bytes
    due: int
    made: int


class Store:
    """See the module's text."""

    def __init__(self, files: Files, clock: Clock, *, delay: int = 1) -> None:
        """`delay`: seconds between two times that a queue gives something, by default."""
        self._files = files
        self._clock = clock
        self._log = Log(files.within(LOG), kept_blocks=_BLOCKS)
        self._queues: dict[tuple[str, str], Queue] = {}
        self._started = clock.wall()
        self._delay = delay
        self.active = True
        for position, row in self._log.reader.scan_encoded():
            self._fold(position, self._decoded(row))

    # -- URLs

    def put(self, crawl: str, key: str, url: str, info: bytes, due: int | None) -> bool:
        """Add a URL; False if it is skipped: discovered, and known; or without a queue."""
        key = key or queue_of(url)
        if not key or len(key) > _LONGEST_KEY or not url:
            return False
        crawl = crawl or DEFAULT
        queue = self._queues.get((crawl, key))
        if due is None:
            if queue is not None and fingerprint(url) in queue.urls:
                return False
            due = int(self._clock.wall())
        self._append(Put(milliseconds(self._clock), crawl, key, url, due, info))
        return True

    def take(
        self, crawl: str | None, key: str, most_queues: int, most_urls: int, held: float
    ) -> Iterator[Given]:
        """Due URLs of at most so many queues; `crawl` None: of any crawl, `key` empty: of any queue."""
        if not self.active or (key and crawl is None):
            return
        now = self._clock.wall()
        names = [(crawl or DEFAULT, key)] if key else list(self._queues)
        served = 0
        for name in names:
            if most_queues and served >= most_queues:
                return
            queue = self._queues.get(name)
            if queue is None or (crawl is not None and queue.crawl != (crawl or DEFAULT)):
                continue
            if not key:  # queues take turns
                self._queues[name] = self._queues.pop(name)
            found = self._due(queue, now, most_urls) if self._may_give(queue, now, most_urls) else []
            for each in found:
                queue.urls[each].held = now + (held or HELD)
                queue.under_way.add(each)
            if found:
                queue.last = now
                served += 1
            yield from [self._given(queue.urls[each]) for each in found]

    def _may_give(self, queue: Queue, now: float, most: int) -> bool:
        delay = self._delay if queue.delay < 0 else queue.delay
        if now - queue.last < delay or queue.blocked >= now or not queue.heap or queue.heap[0][0] > now:
            return False
        if queue.limit and queue.done >= queue.limit:
            return False
        return not most or queue.busy(now) < most

    def _due(self, queue: Queue, now: float, most: int) -> list[int]:
        """Fingerprints of a queue's URLs that are due and not under way, soonest first."""
        found: list[int] = []
        back: list[tuple[int, int, int]] = []
        while queue.heap and queue.heap[0][0] <= now and (not most or len(found) < most):
            row = heapq.heappop(queue.heap)
            entry = queue.urls.get(row[2])
            if entry is None or entry.position != row[1]:
                continue  # outdated
            back.append(row)
            if entry.held <= now:
                found.append(row[2])
        for row in back:
            heapq.heappush(queue.heap, row)
        return found

    def status(self, crawl: str, key: str, url: str) -> Given | None:
        """The state of a URL."""
        queue = self._queues.get((crawl or DEFAULT, key or queue_of(url)))
        entry = None if queue is None else queue.urls.get(fingerprint(url))
        return None if entry is None else self._given(entry)

    def urls(self, crawl: str, key: str) -> Iterator[Given]:
        """All URLs of a queue, or of all queues of a crawl."""
        for queue in self.queues(crawl):
            if not key or queue.key == key:
                for entry in list(queue.urls.values()):
                    yield self._given(entry)

    # -- queues

    @property
    def crawls(self) -> list[str]:
        return sorted({queue.crawl for queue in self._queues.values()})

    def queues(self, crawl: str, key: str = "") -> list[Queue]:
        """The queues of a crawl, or one of them."""
        if key:
            found = self._queues.get((crawl or DEFAULT, key))
            return [] if found is None else [found]
        return [queue for queue in self._queues.values() if queue.crawl == (crawl or DEFAULT)]

    def remove(self, crawl: str, key: str, before: int = 0) -> int:
        """Remove URLs that were made before a second, or all and their queues; returns how many."""
        queues = self.queues(crawl, key)
        if before:
            count = sum(entry.made < before for queue in queues for entry in queue.urls.values())
        else:
            count = sum(len(queue.urls) for queue in queues)
        if queues:
            self._append(Removed(milliseconds(self._clock), crawl or DEFAULT, key, before))
        return count

    def rule(self, crawl: str, key: str, what: str, value: int) -> None:
        """Set delay, block or limit of a queue; delay of all, or active."""
        if what == "active" or (what == "delay" and not key) or self.queues(crawl, key):
            self._append(Ruled(milliseconds(self._clock), crawl or DEFAULT, key, what, value))

    # -- durable

    def cut(self) -> Batch | None:
        return self._log.cut()

    def write(self, batch: Batch) -> None:
        """Write a batch; called in a thread."""
        self._log.write(batch)

    def confirm(self, batch: Batch) -> None:
        self._log.confirm(batch)

    def close(self) -> None:
        self._log.commit()
        self._log.close()

    # -- inside

    def _append(self, record: Put | Removed | Ruled) -> None:
        position = self._log.append(cast(Record, record))  # encoded like any other; read back only here
        self._fold(position, record)

    def _fold(self, position: int, record: Put | Removed | Ruled) -> None:
        name = (record.crawl, record.key)
        if isinstance(record, Put):
            queue = self._queues.get(name)
            if queue is None:
                last = 0.0 if position >= self._log.committed else self._started
                queue = self._queues[name] = Queue(record.crawl, record.key, last)
            mark = fingerprint(record.url)
            before = queue.urls.get(mark)
            queue.done += (record.due == 0) - (before is not None and before.due == 0)
            made = record.at // 1000 if before is None else before.made
            queue.urls[mark] = Entry(position, record.due, made)
            queue.under_way.discard(mark)
            if record.due:
                heapq.heappush(queue.heap, (record.due, position, mark))
        elif isinstance(record, Removed):
            for queue in self.queues(record.crawl, record.key):
                if not record.before:
                    del self._queues[queue.crawl, queue.key]
                    continue
                gone = [mark for mark, entry in queue.urls.items() if entry.made < record.before]
                for mark in gone:
                    queue.done -= queue.urls.pop(mark).due == 0
        elif record.what == "active":
            self.active = bool(record.value)
        elif record.what == "delay" and not record.key:
            self._delay = record.value
        else:
            for queue in self.queues(record.crawl, record.key):
                setattr(queue, {"block": "blocked"}.get(record.what, record.what), record.value)

    def _given(self, entry: Entry) -> Given:
        row = self._read(entry.position)
        return Given(row.crawl, row.key, row.url, row.info, entry.due, entry.made)

    def _read(self, position: int) -> Put:
        record = self._decoded(self._log.read_encoded(position))
        assert isinstance(record, Put)
        return record

    def _decoded(self, row: Any) -> Put | Removed | Ruled:
        try:
            return cast("Put | Removed | Ruled", _decoder.decode(row))
        except msgspec.MsgspecError as error:
            raise StorageError(
                f"{self._files.path(LOG)} is not a log of a frontier, or of a newer version ({error})"
            ) from None


def fingerprint(url: str) -> int:
    """64 bits of a URL."""
    return xxhash.xxh3_64_intdigest(url.encode("utf-8", "surrogatepass"))


def queue_of(url: str) -> str:
    """The queue of a URL that names none: its host."""
    rest = url.partition("://")[2]
    for mark in "/?#&":
        rest = rest.partition(mark)[0]
    host = rest.rpartition("@")[2]
    return host if host.startswith("[") else host.partition(":")[0]
