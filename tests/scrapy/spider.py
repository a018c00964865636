"""A Scrapy process for the tests: a spider of the tutorial's kind, on a site whose address comes as argument.

python -m tests.scrapy.spider SITE SCHEDULER DIRECTORY        `lycosa` or `jobdir`

It prints the URL of each page that its callback has read, with what the request carried along.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess


class QuotesSpider(scrapy.Spider):  # type: ignore[misc]
    """Lists of quotes lead to each other; each quote has a page of its own."""

    name = "quotes"

    def parse(self, response: Any, page: int = 1) -> Iterator[Any]:
        for quote in response.css("div.quote"):
            yield response.follow(
                quote.css("a::attr(href)").get(),
                callback=self.parse_quote,
                cb_kwargs={"text": quote.css("span::text").get()},
                meta={"found_on": page},
            )
        for href in response.css("li.next a::attr(href)").getall():
            yield response.follow(href, cb_kwargs={"page": page + 1})

    def parse_quote(self, response: Any, text: str) -> Iterator[Any]:
        assert text == response.css("h1::text").get(), "it is the callback's own"
        yield {"url": response.url, "text": text, "found_on": response.meta["found_on"]}


def main(site: str, scheduler: str, directory: str) -> None:
    settings: dict[str, Any] = {
        "LOG_LEVEL": "WARNING",
        "TELNETCONSOLE_ENABLED": False,
        "CONCURRENT_REQUESTS": 4,
        "DOWNLOAD_DELAY": 0,
    }
    if scheduler == "lycosa":
        settings |= {"SCHEDULER": "lycosa.scrapy.Scheduler", "LYCOSA_DIR": directory, "LYCOSA_WAIT": None}
        settings["DOWNLOADER_MIDDLEWARES"] = {"lycosa.scrapy.Archive": 950}
        settings["ROBOTSTXT_OBEY"] = True
    else:
        settings |= {"JOBDIR": directory, "FEEDS": {f"{directory}/items.jsonl": {"format": "jsonlines"}}}
    process = CrawlerProcess(settings)
    process.crawl(QuotesSpider, start_urls=[site])
    process.start()


if __name__ == "__main__":
    main(*sys.argv[1:4])
