"""Scrapy as a contestant of the crawl benchmark; runs with the Python of its own environment, without Lycosa.

    .bench/scrapy/bin/python benchmarks/crawl_scrapy.py TASK    (JSON; the result is the last line, JSON)

Its fastest settings for a broad crawl, as far as we know them: every middleware and extension that does not
fetch or follow is removed (cookies, retries, referers, authorisation, proxies, statistics, throttling,
consoles, memory watch), robots.txt is not requested, logging is off, queues are in memory, nothing is stored.
Each page's links are extracted by Scrapy's own extractor on lxml, and all that are in scope are followed.
What remains is fetching, parsing, the duplicate filter and the queue. Redirects are followed. The pages
crawled are counted by us, not by a statistics collector.

In tests on this site (three interleaved rounds on a machine that was not quiet, CPU per page, medians): 8, 16,
32, 64 and 100 requests at a time, asyncio's own loop instead of uvloop, and the experimental handler on
aiohttp lie between 8.0 and 8.9 ms with ranges that overlap, so none can be called faster; the epoll reactor
takes 10.4 ms. Used: 16 requests, uvloop, the default handler.

The pages. Scrapy is too slow to be given as many pages as the others, and the first pages of a crawl are
larger and have more links than the rest. So its start requests are a sample of the pages that Lycosa fetched, drawn
over the whole crawl, and only these are fetched (see `Gated`). Every link found on them is made a request,
filtered and queued, but not fetched: measuring ends with the last page of the sample. So it has the same
mean page as the others.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from typing import Any

_BEGAN = time.monotonic()

import scrapy  # noqa: E402
from scrapy.core.scheduler import Scheduler  # noqa: E402
from scrapy.crawler import CrawlerProcess  # noqa: E402
from scrapy.linkextractors import LinkExtractor  # noqa: E402

_OFF: dict[str, dict[str, None]] = {
    "DOWNLOADER_MIDDLEWARES": {
        f"scrapy.downloadermiddlewares.{name}": None
        for name in (
            "offsite.OffsiteMiddleware",
            "robotstxt.RobotsTxtMiddleware",
            "httpauth.HttpAuthMiddleware",
            "retry.RetryMiddleware",
            "redirect.MetaRefreshMiddleware",
            "cookies.CookiesMiddleware",
            "httpproxy.HttpProxyMiddleware",
            "stats.DownloaderStats",
            "httpcache.HttpCacheMiddleware",
        )
    },
    "SPIDER_MIDDLEWARES": {
        f"scrapy.spidermiddlewares.{name}": None
        for name in (
            "httperror.HttpErrorMiddleware",  # a 404 is a page here, as for the others
            "referer.RefererMiddleware",
            "urllength.UrlLengthMiddleware",
        )
    },
    "EXTENSIONS": {
        f"scrapy.extensions.{name}": None
        for name in (
            "corestats.CoreStats",
            "logcount.LogCount",
            "telnet.TelnetConsole",
            "memusage.MemoryUsage",
            "logstats.LogStats",
            "spiderstate.SpiderState",
            "throttle.AutoThrottle",
            "feedexport.FeedExporter",
            "closespider.CloseSpider",
            "memdebug.MemoryDebugger",
            "remote_control.RemoteControl",
        )
    },
}


def _known(names: dict[str, None]) -> dict[str, None]:
    """Those that this version of Scrapy has: the list differs between versions."""
    from importlib.util import find_spec

    return {name: None for name in names if find_spec(name.rpartition(".")[0]) is not None}


def settings(task: dict[str, Any]) -> dict[str, Any]:
    """Scrapy's settings."""
    chosen: dict[str, Any] = {name: _known(names) for name, names in _OFF.items()}
    chosen |= {
        "CONCURRENT_REQUESTS": task.get("concurrency", 16),
        "CONCURRENT_REQUESTS_PER_DOMAIN": 100,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "COOKIES_ENABLED": False,
        "RETRY_ENABLED": False,
        "AUTOTHROTTLE_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_ENABLED": False,
        "LOG_LEVEL": "ERROR",
        "STATS_DUMP": False,
        "SCHEDULER": Gated,
        "DEPTH_PRIORITY": 1,
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
        "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
        "REACTOR_THREADPOOL_MAXSIZE": 20,
        "WARN_ON_GENERATOR_RETURN_VALUE": False,
        "USER_AGENT": "bench",
        "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    }
    if task.get("uvloop", True):
        chosen["ASYNCIO_EVENT_LOOP"] = "uvloop.Loop"
    if task.get("reactor"):
        chosen["TWISTED_REACTOR"] = task["reactor"]
        chosen.pop("ASYNCIO_EVENT_LOOP", None)
    if task.get("handler") == "aiohttp":
        from scrapy.core.downloader.handlers._aiohttp import AiohttpDownloadHandler

        class Lazy(AiohttpDownloadHandler):
            lazy = True

        chosen["DOWNLOAD_HANDLERS"] = {"http": Lazy, "https": Lazy}
    return chosen | task.get("settings", {})


def _usage() -> tuple[float, float, float]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), usage.ru_utime, usage.ru_stime


class Gated(Scheduler):
    """Scrapy's scheduler, restricted to requests of the sample; links wait in its queue.

    Without the restriction, links are fetched while the last large pages of the sample are still being parsed, the
    more of them the more requests run at a time, and the mean page is no longer the sample's.
    """

    def next_request(self) -> Any:
        request = super().next_request()
        if request is not None and request.meta.get("depth"):
            return None  # breadth first: no more of the sample is queued
        return request


class Broad(scrapy.Spider):
    """Follows every link in scope."""

    name = "broad"

    def __init__(self, task: dict[str, Any], totals: dict[str, Any]) -> None:
        super().__init__()
        with open(task["urls"], encoding="ascii") as lines:  # noqa: PTH123
            self.start_urls = lines.read().split()
        self._left = len(self.start_urls)
        self._totals = totals
        hosts = [url.split("/")[2] for url in task["seeds"]]  # with their ports, as the extractor compares
        self._extractor = LinkExtractor(allow_domains=hosts)

    async def start(self) -> Any:
        self._totals["began"] = _usage()
        first, *rest = (
            # Not filtered: one that another page links to must still be fetched as part of the sample.
            scrapy.Request(url, errback=self.failed, dont_filter=True)
            for url in self.start_urls
        )
        for request in rest:
            self.crawler.engine.crawl(request)  # at once: Scrapy reads yielded requests only gradually
        yield first

    def failed(self, failure: Any) -> None:
        self._totals["failed"] += 1
        self._count(failure.request)

    def _count(self, request: Any) -> None:
        totals = self._totals
        if not request.meta.get("depth"):
            self._left -= 1
        if self._left == 0:
            totals["ended"] = _usage()
            self.crawler.engine.close_spider(self, "enough")

    def parse(self, response: Any) -> Any:
        totals = self._totals
        totals["pages"] += 1
        totals["bytes"] += len(response.body)
        if isinstance(response, scrapy.http.HtmlResponse):
            links = self._extractor.extract_links(response)
            totals["links"] += len(links)
            for link in links:
                yield scrapy.Request(link.url, errback=self.failed)
        self._count(response.request)


def main() -> None:
    task = json.loads(sys.argv[1])
    if task.get("core") is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {task["core"]})
    totals: dict[str, Any] = {"pages": 0, "bytes": 0, "links": 0, "failed": 0}
    process = CrawlerProcess(settings(task), install_root_handler=False)
    process.crawl(Broad, task=task, totals=totals)
    process.start()
    began, ended = totals["began"], totals.get("ended") or _usage()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    result = {
        "pages": totals["pages"],
        "bytes": totals["bytes"],
        "links": totals["links"],
        "errors": {"failed": totals["failed"]} if totals["failed"] else {},
        "seconds": ended[0] - began[0],
        "user": ended[1] - began[1],
        "system": ended[2] - began[2],
        "rss_peak": peak,
        "startup": began[0] - _BEGAN,
        "end": f"Scrapy {scrapy.__version__}",
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
