"""Traps compared with limits alone and with Scrapy: the wasted fetches of each on one embedded web with every trap.

    python benchmarks/traps_beside.py [--hosts 24] [--pages 300] [--python SCRAPY_PYTHON] [--write FILE]

    traps by yield      the crawl with `--traps on`
    limits alone        without: depth and pages of a site are limited, so that nothing real is cut off (the
                        largest real site), in addition to the limits of paths that always apply
    Scrapy              its defaults (no limit of depth, URLs of 2,083 characters), a spider that follows every
                        link; stopped after as many responses as the first crawl fetched URLs

The web is answered within each process, without sockets. SCRAPY_PYTHON is a Python with Scrapy and Lycosa's
dependencies; without it, Scrapy is left out. *Wasted* and *missed* are those of `lycosa.lab.experiments.traps`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from lycosa.crawl.agent import End
from lycosa.lab.experiments import traps
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.webs import Web
from lycosa.lab.webs.answers import Request as Asked
from lycosa.url.parts import host_of, path_of, site_of


def judged(web: Web, fetched: set[str]) -> tuple[int, int, int]:
    """The number of URLs fetched, of those wasted, and of real ones missed."""
    truth = web.truth()
    real = {url for url in truth.must if truth.expected[url].statuses != (0,)}
    return len(fetched), len(truth.wasted(fetched)), len(real - fetched)


def limits(web: Web, depth: int) -> dict[str, Any]:
    """Limits that cut off nothing real."""
    sizes = Counter(map(site_of, web.truth().must))
    return {"mode": "any", "max_depth": depth, "max_pages_per_site": max(sizes.values()) + 1}


def scrapy_urls(hosts: int, pages: int, most: int) -> list[str]:
    """The URLs that a spider with Scrapy's defaults fetches; in a separate process."""
    import scrapy
    from scrapy.crawler import CrawlerProcess
    from scrapy.http import HtmlResponse, Response
    from scrapy.linkextractors import LinkExtractor

    web = traps.web_of(hosts, pages)
    seen: list[str] = []

    class Handler:
        """Answers from the web."""

        lazy = False

        def __init__(self, crawler: Any) -> None:
            pass

        @classmethod
        def from_crawler(cls, crawler: Any) -> Handler:
            return cls(crawler)

        async def download_request(self, request: Any) -> Any:
            seen.append(request.url)
            host = web.host(host_of(request.url))
            if host is None:
                raise OSError("no such host")
            answer = web.respond(host, Asked(path=path_of(request.url), attempt=0))
            if not answer.status:
                raise OSError("the connection was reset")
            headers = {name: value for name, value in answer.headers if name.lower() != "content-encoding"}
            kind = next((value for name, value in answer.headers if name.lower() == "content-type"), "")
            made = HtmlResponse if "html" in kind else Response
            return made(request.url, status=answer.status, headers=headers, body=answer.body)

        async def close(self) -> None:
            pass

    class Spider(scrapy.Spider):
        name = "every-link"
        start_urls = web.seeds()
        links = LinkExtractor()

        def parse(self, response: Any) -> Any:
            if isinstance(response, HtmlResponse):
                for link in self.links.extract_links(response):
                    yield response.follow(link.url)

    process = CrawlerProcess(
        {
            "LOG_LEVEL": "ERROR",
            "DOWNLOAD_HANDLERS": {"http": Handler, "https": Handler},
            "CLOSESPIDER_PAGECOUNT": most,
            "RETRY_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    process.crawl(Spider)
    process.start()
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=24)
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--depths", type=int, nargs="+", default=[10, 20], help="limits of depth")
    parser.add_argument("--most", type=int, default=4000, help="pages after which limits alone are given up")
    parser.add_argument("--python", type=Path)
    parser.add_argument("--scrapy", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.scrapy:
        print(json.dumps(scrapy_urls(args.hosts, args.pages, args.scrapy)))
        return
    web = traps.web_of(args.hosts, args.pages)
    real = len(web.truth().must)
    print(f"{args.hosts} hosts, {real:,} real URLs\n")
    print("| crawler | fetched | wasted | of the fetches | missed |\n|---|---|---|---|---|")

    def row(name: str, fetched: int, wasted: int, missed: int) -> None:
        print(
            f"| {name} | {fetched:,} | {wasted:,} | {wasted / max(fetched, 1):.1%} | {missed:,} |", flush=True
        )

    ours = traps.crawl(FaultyFiles(), web, {"traps": {"quarantine": True}})
    row("Lycosa, traps by yield", ours.fetched, sum(ours.wasted.values()), len(ours.missed))
    if args.python is not None:
        command = [str(args.python), __file__, "--hosts", str(args.hosts), "--pages", str(args.pages)]
        done = subprocess.run(
            [*command, "--scrapy", str(ours.fetched)], capture_output=True, text=True, check=False
        )
        if done.returncode or not done.stdout.strip():
            sys.exit(f"Scrapy failed:\n{done.stderr[-2000:]}")
        urls = {url.partition("#")[0] for url in json.loads(done.stdout.splitlines()[-1])}
        row("Scrapy's defaults, stopped at as many responses", *judged(web, urls))
    for depth in args.depths:
        off = {
            "traps": {"quarantine": False},
            "scope": limits(web, depth),
            "limits": {"pages": args.most},
        }
        alone = traps.crawl(FaultyFiles(), web, off)
        more = ", given up" if alone.end is End.LIMIT else ""
        row(
            f"Lycosa, {depth} links deep and {off['scope']['max_pages_per_site']} pages a site at most{more}",
            *(alone.fetched, sum(alone.wasted.values()), len(alone.missed)),
        )


if __name__ == "__main__":
    main()
