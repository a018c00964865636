"""A scheduler and duplicate filter for Scrapy whose requests survive `kill -9`: settings.py

    SCHEDULER = "lycosa.scrapy.Scheduler"
    LYCOSA_DIR = "crawls/quotes"               where its files are; a run in the same directory continues
    LYCOSA_WAIT = 1.0                          seconds between two requests to a host (DOWNLOAD_DELAY); None:
                                               hosts are not held back, Scrapy's downloader alone decides
    LYCOSA_PENDING = 200_000                   requests in memory; others wait in the log

Run the same command again after a kill. A request counts as done when Scrapy has finished it: its callback has
ended, its items have passed the pipelines, and what it yielded is in the log. One that was under way at the kill is
made again, with its callback, errback, headers, body, cookies and meta. Items are in LYCOSA_DIR/items.jsonl, each
once (`lycosa.scrapy.kept`); the project's feeds and pipelines run as usual, and see items of repeated pages again.

Requests are compared by the project's own fingerprints (REQUEST_FINGERPRINTER_CLASS), of which 64 bits are kept.
`dont_filter` is obeyed, except for start requests of a resumed run: Scrapy sets it on all of them, and they were
made before. Priorities are levels, higher first; within one, first in, first out.

Robots rules are handled by Scrapy (ROBOTSTXT_OBEY), in its downloader.

A request that cannot be serialised (its callback is not a method of the spider, its meta cannot be pickled) is kept
in memory, with a warning, and is lost in a kill. Requests are pickled, as in Scrapy's own JOBDIR: do not use
directories of requests from strangers.

Scrapy does not report when it has finished a request. It keeps those under way in its engine's slot, so that set is
inspected whenever the engine calls the scheduler.
"""

from __future__ import annotations

import logging
import pickle
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from itemadapter import ItemAdapter
from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.request import request_from_dict
from twisted.internet.task import LoopingCall

from lycosa.ask.json_form import safe
from lycosa.clock import SystemClock
from lycosa.errors import ConfigError
from lycosa.files import DirectoryLock, DiskFiles
from lycosa.scrapy.kept import Store, Taken

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response

_COMMIT = 0.9
"""Seconds between commits: what a kill can lose, and what is then repeated."""
_MIDDLE = 128
_log = logging.getLogger(__name__)


class Scheduler(BaseScheduler):  # type: ignore[misc]  # Scrapy's classes are untyped here
    """See the module's text."""

    def __init__(self, crawler: Crawler, directory: str, wait: float | None, most: int) -> None:
        self._crawler = crawler
        self._directory = Path(directory)
        self._wait = wait
        self._most = most
        self._memory: deque[Request] = deque()  # requests that cannot be serialised
        self._under_way: dict[Request, tuple[Taken | None, list[bytes]]] = {}
        self._wake: Any = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Scheduler:
        settings = crawler.settings
        directory = settings.get("LYCOSA_DIR")
        if not directory:
            raise ConfigError("lycosa.scrapy.Scheduler needs a directory: set LYCOSA_DIR")
        wait = settings.get("LYCOSA_WAIT", settings.getfloat("DOWNLOAD_DELAY"))
        return cls(
            crawler,
            directory,
            None if wait is None else float(wait),
            settings.getint("LYCOSA_PENDING", 200_000),
        )

    def open(self, spider: Spider) -> None:
        self._spider = spider
        self._lock = DirectoryLock(self._directory)
        self._store = Store(DiskFiles(self._directory), SystemClock(), wait=self._wait, most=self._most)
        if (archive := getattr(self._crawler, "lycosa_archive", None)) is not None:
            self._store.first = archive.commit  # a page that is done is in the archive
        self._resumed = self._store.known > 0
        if self._resumed:
            _log.info("going on in %s: %d requests scheduled", self._directory, self._store.pending)
        self._crawler.signals.connect(self._keep_item, signals.item_scraped)
        self._commits = LoopingCall(self._commit)
        self._commits.start(_COMMIT, now=False)

    def close(self, reason: str) -> None:
        if self._commits.running:
            self._commits.stop()
        if self._wake is not None and self._wake.active():
            self._wake.cancel()
        self._settle()
        self._store.close()
        self._lock.release()

    # -- the engine's questions

    def has_pending_requests(self) -> bool:
        self._settle()
        return bool(self._memory) or self._store.pending > 0

    def enqueue_request(self, request: Request) -> bool:
        key = int.from_bytes(self._crawler.request_fingerprinter.fingerprint(request)[:8], "big")
        if self._is_known_start(request, key):
            return False
        try:
            body = pickle.dumps(request.to_dict(spider=self._spider), protocol=4)
        except Exception as error:  # whatever the project's objects raise
            return self._keep_in_memory(request, key, error)
        level = min(max(_MIDDLE - request.priority, 0), 255)
        if not self._store.add(key, request.url, body, level=level, anyway=request.dont_filter):
            self._count("dupefilter/filtered")
            return False
        self._count("scheduler/enqueued")
        self._count("scheduler/enqueued/disk")
        return True

    def next_request(self) -> Request | None:
        self._settle()
        taken: Taken | None = None
        if self._memory:
            request = self._memory.popleft()
        else:
            taken = self._store.take()
            if taken is None:
                self._ask_again()
                return None
            request = request_from_dict(pickle.loads(taken.body), spider=self._spider)
        self._under_way[request] = (taken, [])
        self._count("scheduler/dequeued")
        return request

    def __len__(self) -> int:
        return len(self._memory) + self._store.pending

    # -- inside

    def _is_known_start(self, request: Request, key: int) -> bool:
        """Whether it is a start request that an earlier run made; retries and redirects are not."""
        meta = request.meta
        if not self._resumed or not meta.get("is_start_request"):
            return False
        if meta.get("retry_times") or meta.get("redirect_times"):
            return False
        return self._store.knows(key)

    def _keep_in_memory(self, request: Request, key: int, error: Exception) -> bool:
        if not request.dont_filter and self._store.knows(key):
            self._count("dupefilter/filtered")
            return False
        _log.warning("%s cannot be written and would not survive a kill: %s", request, error)
        self._count("scheduler/unserializable")
        self._count("scheduler/enqueued")
        self._memory.append(request)
        return True

    def _keep_item(self, item: Any, response: Response, spider: Spider) -> None:
        """An item has passed the pipelines: it counts when its page is done."""
        line = safe(msgspec.json.encode(ItemAdapter(item).asdict(), enc_hook=str))
        request = None if response is None else response.request
        if request in self._under_way:
            self._under_way[request][1].append(line)
        else:
            self._store.keep([line])

    def _settle(self) -> None:
        """Mark requests that Scrapy has finished as done."""
        slot = self._slot()
        going = slot.inprogress if slot is not None else ()
        for request in [request for request in self._under_way if request not in going]:
            taken, items = self._under_way.pop(request)
            if taken is None:
                self._store.keep(items)
            else:
                self._store.done(taken, items)

    def _commit(self) -> None:
        self._settle()
        self._store.commit()

    def _ask_again(self) -> None:
        """If hosts must wait, let the engine ask when the first may be asked, not at its next heartbeat."""
        seconds = self._store.next_ready()
        slot = self._slot()
        if seconds is None or slot is None or (self._wake is not None and self._wake.active()):
            return
        from twisted.internet import reactor

        self._wake = reactor.callLater(max(seconds, 0.01), slot.nextcall.schedule)

    def _slot(self) -> Any:
        engine = self._crawler.engine
        return None if engine is None else getattr(engine, "_slot", None) or getattr(engine, "slot", None)

    def _count(self, name: str) -> None:
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value(name)
