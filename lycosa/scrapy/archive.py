"""A Scrapy run as a Lycosa crawl: every answer in a WARC archive and in a log. settings.py

    DOWNLOADER_MIDDLEWARES = {"lycosa.scrapy.Archive": 950}       after 900: as the site sent it, still compressed
    LYCOSA_CRAWL = "crawls/quotes"             the crawl's directory; by default LYCOSA_DIR/crawl

Each answer to a GET is treated as in a crawl: read by the same parsers, stored in the archive, recorded with its
links, depth (from DepthMiddleware), redirects and attempts. So `lycosa report`, `explain`, `export`, `index`,
`graph` and `serve` work on the directory, while the spider runs and afterwards; and `lycosa crawl --into` can
continue where the spider ended. Start requests are seeds; robots files are robots records.

Answers become durable every 0.9 seconds: archive bytes before the records that refer to them. With
`lycosa.scrapy.Scheduler` a request is done only when its answer is in the archive; with any other scheduler a kill
loses at most the last 0.9 seconds. What an earlier run wrote after its last commit is cut off at the start.

Left out: answers from Scrapy's cache, methods other than GET, and failures without an answer, which
Scrapy retries and counts by itself. Scrapy stores headers by name: their order and case are not those sent.
"""

from __future__ import annotations

from contextlib import ExitStack
from http.client import responses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.utils.reactor import is_asyncio_reactor_installed
from twisted.internet.task import LoopingCall

from lycosa.clock import SystemClock, milliseconds
from lycosa.crawl.importing import Importer
from lycosa.errors import ConfigError
from lycosa.fetch.decode import decode
from lycosa.fetch.protocol import Response as Answer
from lycosa.files import DirectoryLock, DiskFiles, scratch
from lycosa.records import Timing, Waiting
from lycosa.url.canonical import canonicalise
from lycosa.url.parts import path_of, site_of

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Headers, Response

_COMMIT = 0.9
_LIMIT = 32 << 20


class Archive:
    """See the module's text."""

    def __init__(self, crawler: Crawler, directory: Path) -> None:
        self._crawler = crawler
        self._directory = directory
        self._clock = SystemClock()
        self._open = ExitStack()
        self._importer: Importer | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Archive:
        settings = crawler.settings
        directory = settings.get("LYCOSA_CRAWL")
        if not directory and settings.get("LYCOSA_DIR"):
            directory = Path(settings.get("LYCOSA_DIR")) / "crawl"
        if not directory:
            raise ConfigError("lycosa.scrapy.Archive needs a directory: set LYCOSA_CRAWL")
        if not is_asyncio_reactor_installed():
            raise ConfigError("lycosa.scrapy.Archive needs Scrapy's asyncio reactor, which is its default")
        made = cls(crawler, Path(directory))
        crawler.lycosa_archive = made
        crawler.signals.connect(made.spider_closed, signals.spider_closed)
        made.start()
        return made

    def start(self) -> None:
        """Open the crawl."""
        lock = DirectoryLock(self._directory)
        self._open.callback(lock.release)
        place = DiskFiles(self._open.enter_context(scratch("lycosa-scrapy-")))
        self._importer = self._open.enter_context(
            Importer(DiskFiles(self._directory), self._clock, place, shards=1)
        )
        self._importer.recover()
        self._commits = LoopingCall(self.commit)
        self._commits.start(_COMMIT, now=False)

    def spider_closed(self, spider: Spider) -> None:
        if self._commits.running:
            self._commits.stop()
        self._importer = None
        self._open.close()

    def commit(self) -> None:
        """Make everything so far durable."""
        if self._importer is not None:
            self._importer.commit()

    async def process_response(self, request: Request, response: Response, spider: Any = None) -> Response:
        if self._importer is None or request.method != "GET" or "cached" in response.flags:
            return response
        url = canonicalise(request.url)
        if url is None or not url.startswith(("http:", "https:")):
            return response
        answer, at = _answer(url, request, response), milliseconds(self._clock)
        meta = request.meta
        if path_of(url) == "/robots.txt" and meta.get("dont_obey_robotstxt"):
            self._importer.robots(answer, at)
            return response
        if meta.get("is_start_request") and not self._importer.knows(url):
            self._importer.seed(url)
        waiting = Waiting(
            *(url, 0, meta.get("depth", 0), min(meta.get("redirect_times", 0), 255)),
            attempt=meta.get("retry_times", 0),
        )
        await self._importer.fetched(waiting, answer, at)
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value("lycosa/archived")
        return response


def _answer(url: str, request: Request, response: Response) -> Answer:
    """Scrapy's response in the form of Lycosa's own fetcher."""
    lines = f"GET {path_of(url)} HTTP/1.1\r\nHost: {site_of(url).partition('://')[2]}\r\n".encode("ascii")
    if b"Host" in request.headers:
        lines = lines[: lines.index(b"\r\n") + 2]
    version = response.protocol or "HTTP/1.1"
    first = f"{version} {response.status} {responses.get(response.status, '')}".rstrip()
    total = int(1000 * float(request.meta.get("download_latency", 0.0)))
    location = response.headers.get("Location")
    coding = b",".join(response.headers.getlist("Content-Encoding")).decode("latin-1")
    return Answer(
        url=url,
        status=response.status,
        version=version,
        request_head=lines + _lines(request.headers) + b"\r\n",
        head=first.encode("latin-1") + b"\r\n" + _lines(response.headers) + b"\r\n",
        body=response.body,
        decoded=decode(response.body, coding, _LIMIT).data if coding else response.body,
        timing=Timing(total=total),
        address=str(response.ip_address or ""),
        location=location.decode("latin-1") if location and 300 <= response.status < 400 else None,
    )


def _lines(headers: Headers) -> bytes:
    """Headers as lines of a response head; no value can contain a line end."""
    rows = [(name, value) for name in headers for value in headers.getlist(name)]
    return b"".join(name + b": " + b" ".join(value.split()) + b"\r\n" for name, value in rows)
