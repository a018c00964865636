"""The size of a page: in the log, in the archive, in the seen set, in the exchange between shards.

    python benchmarks/cluster_sizes.py              half a minute; the figures used in docs/operating.md

Debian's documentation packages (see README.md here) are crawled by one agent; then the files in the crawl's
directory are measured. Sizes do not depend on the load of the machine. Crossing links are counted as if every shard
belonged to another agent; the hosts here are addresses, each its own domain.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from crawl_site import site

import lycosa
from lycosa.ask.reading import CrawlReader
from lycosa.crawl.admission import found_in
from lycosa.records import Fetched

CACHE = Path(__file__).resolve().parent.parent / ".bench"


def size(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


async def crawl(seeds: list[str], into: Path, pages: int) -> float:
    """Crawl so many pages; returns the number of URLs in the seen sets."""
    made = lycosa.Crawl(
        seeds,
        into=into,
        agents=1,
        public=False,
        allow=["127.0.0.0/8"],
        scope={"mode": "any"},
        politeness={"wait": 0.0, "factor": 0.0, "address_wait": 0.0, "pages_per_visit": 1_000_000},
        limits={"pages": pages},
    )
    await made.start()
    await made.wait()
    return float(made.status().meters.get("seen.urls", 0.0))


def weigh(into: Path, seen: float) -> None:
    reader = CrawlReader(into)
    pages = body = links = 0
    crossing: set[bytes] = set()
    crossed = 0
    for shard, _, record in reader.records():
        if not isinstance(record, Fetched):
            continue
        pages += 1
        body += record.length
        found = found_in(record)
        if found is None or not found.links.kinds:
            continue
        urls = found.links.urls
        _, hosts = reader.keyer.scan(urls)
        for url, host in zip(urls.decode("ascii").split("\n"), hosts.tolist(), strict=True):
            links += 1
            if reader.splitter.shard_of_url(host, url) != shard:
                crossed += 1
                crossing.add(url.encode())
    print(
        f"pages                      {pages:,}, {body / pages:,.0f} bytes and {links / pages:.1f} links each"
    )
    for name, place in (("log", "shards/*/log"), ("snapshots", "shards/*/snapshots"), ("archive", "archive")):
        total = sum(size(path) for path in into.glob(place))
        print(f"{name:<26} {total / pages:,.0f} bytes a page")
    print(f"URLs seen                  {seen / pages:.1f} a page")
    print(
        f"links to other shards      {crossed / pages:.2f} a page, {len(crossing) / pages:.2f} of them distinct"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=10_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lycosa-sizes-") as place, site(CACHE, None) as found:
        into = Path(place, "crawl")
        seen = asyncio.run(crawl(found.seeds("http"), into, args.pages))
        weigh(into, seen)


if __name__ == "__main__":
    main()
