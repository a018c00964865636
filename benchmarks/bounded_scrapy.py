"""Scrapy on the wide web; runs with the Python of its own environment, without Lycosa.

    .bench/scrapy/bin/python benchmarks/bounded_scrapy.py TASK      (JSON)

The settings are those that Scrapy's documentation recommends for broad crawls (the downloader-aware queue, breadth
first with queues in memory, 100 requests at a time, no cookies, no retries, little logging) and otherwise those of
`crawl_scrapy`, its fastest: no middleware or extension that does not fetch or follow, robots.txt not requested,
nothing stored. Every link of every page is followed, as in `lycosa crawl`; the duplicate filter is Scrapy's own.

Names are resolved from the hosts file of `lycosa web --write-resolve`, put into Scrapy's DNS cache. Once per second
the counts are written to the file `status`: pages, requests in the queue, URLs seen.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import scrapy
from crawl_scrapy import settings
from scrapy import resolver, signals
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor

BROAD = {
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    "CONCURRENT_REQUESTS": 100,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
}


class Wide(scrapy.Spider):
    """Follows every link."""

    name = "wide"

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__()
        self.start_urls = task["seeds"]
        self._status = Path(task["status"])
        self._extractor = LinkExtractor()
        self._began = time.monotonic()
        self.pages = self.failed = self.links = 0
        self._beat: asyncio.Task[None] | None = None

    async def start(self) -> Any:
        self._beat = asyncio.get_running_loop().create_task(self._tell())
        for url in self.start_urls:
            yield scrapy.Request(url, errback=self.fail)

    def parse(self, response: Any) -> Any:
        self.pages += 1
        links = self._extractor.extract_links(response)
        self.links += len(links)
        for link in links:
            yield scrapy.Request(link.url, errback=self.fail)

    def fail(self, failure: Any) -> None:
        self.failed += 1

    def write_status(self, state: str = "running") -> None:
        """Writes the counts for the watching process."""
        engine = self.crawler.engine
        slot = engine._slot if engine is not None else None
        scheduler = slot.scheduler if slot is not None else None
        found = {
            "state": state,
            "pages": self.pages,
            "failed": self.failed,
            "links": self.links,
            "pending": len(scheduler) if scheduler is not None else 0,
            "seen": len(scheduler.df.fingerprints) if scheduler is not None else 0,
            "seconds": time.monotonic() - self._began,
            "version": scrapy.__version__,
        }
        draft = self._status.with_suffix(".part")
        draft.write_text(json.dumps(found), encoding="ascii")
        draft.replace(self._status)

    async def _tell(self) -> None:
        while True:
            self.write_status()
            await asyncio.sleep(1.0)


def main() -> None:
    task = json.loads(sys.argv[1])
    if task.get("core") is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {task["core"]})
    for line in Path(task["hosts"]).read_text(encoding="ascii").splitlines():
        address, name = line.split()
        resolver.dnscache[name] = address
    process = CrawlerProcess(settings(task) | BROAD, install_root_handler=False)
    crawler = process.create_crawler(Wide)
    crawler.signals.connect(lambda spider: spider.write_status("finished"), signals.spider_closed, weak=False)
    process.crawl(crawler, task=task)
    process.start()


if __name__ == "__main__":
    main()
