"""Traps on real pages: what a crawl with `--traps on` skips in manuals, which have none.

    python benchmarks/traps.py CACHE [--only rust,java] [--pages 5000] [--off]

CACHE has the documentation packages of benchmarks/crawl.py, unpacked. Each is a separate site, crawled from its
index page within the process, on virtual time: decisions are measured, not speed. Whatever is skipped as a
trap is wrong here. `--off`: without trap detection, to see how many pages there are.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from benchmarks.crawl_site import unpack
from lycosa.crawl.agent import build
from lycosa.crawl.config import read_options
from lycosa.fetch.protocol import Failure, Request
from lycosa.files import DiskFiles
from lycosa.lab import virtual
from lycosa.lab.network import Reply, ScriptedFetcher, ScriptedFetchers, ScriptedResolver
from lycosa.lab.virtual import VirtualClock
from lycosa.records import Fetched, Learned, Skipped, Why
from lycosa.url.parts import host_of, path_of

_TYPES = {".html": "text/html", ".css": "text/css", ".txt": "text/plain", ".js": "text/javascript"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cache", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--pages", type=int, default=0)
    parser.add_argument("--off", action="store_true")
    args = parser.parse_args()
    places = {f"{package.name}.test": place for package, place in unpack(args.cache).items()}
    roots = {f"{package.name}.test": package.root for package in unpack(args.cache)}
    if args.only:
        places = {f"{name}.test": places[f"{name}.test"] for name in args.only.split(",")}

    def script(request: Request, _: int) -> Reply | Failure:
        path = unquote(path_of(request.url).partition("?")[0])
        place = places[host_of(request.url)] / path.lstrip("/")
        if place.is_dir():
            place /= "index.html"
        if not place.is_file():
            return Reply(b"<p>Not found.</p>", 404)
        kind = _TYPES.get(place.suffix, "application/octet-stream")
        return Reply(place.read_bytes(), 200, (("Content-Type", f"{kind}; charset=utf-8"),))

    async def go(clock: VirtualClock) -> list[Any]:
        with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
            agent = build(
                DiskFiles(folder),
                read_options(
                    {
                        "public": False,
                        "allow": ["127.0.0.0/8"],
                        "politeness": {"wait": 0.01, "address_wait": 0.0},
                        "archive": {"keep": False},
                        "traps": {"quarantine": not args.off},
                        **({"limits": {"pages": args.pages}} if args.pages else {}),
                    }
                ),
                [f"http://{host}/{roots[host]}" for host in places],
                shards=4,
                hash_seed=7,
                clock=clock,
                fetchers=ScriptedFetchers(ScriptedFetcher(script, clock)),
                resolver=ScriptedResolver(dict.fromkeys(places, "127.0.0.1")),
            )
            await agent.run()
            return [record for shard in agent.shards for _, record in shard.log.reader.scan()]

    records = virtual.run(go, 0.0)
    fetched = {record.url for record in records if isinstance(record, Fetched)}
    held = {record.url for record in records if isinstance(record, Skipped) and record.why is Why.TRAP}
    print(f"{len(fetched)} fetched, {len(held)} skipped for traps, {len(held - fetched)} never fetched")
    print("by site:", dict(Counter(host_of(url) for url in fetched)))
    print("looks:", dict(Counter(record.gain for record in records if isinstance(record, Fetched))))
    for record in records:
        if isinstance(record, Learned):
            print("quarantined" if record.holds else "released", record.subject, record.why, record.examples)


if __name__ == "__main__":
    main()
