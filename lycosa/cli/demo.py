"""`lycosa demo`: serves a synthetic web on loopback, crawls it, reports and explains, in under a minute."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from lycosa.cli.amounts import counted

HELP = "crawl an embedded test web with live progress, then report and explain"

# Short waits suit a loopback web without other users; everything else is as in a real crawl.
OPTIONS: dict[str, Any] = {
    "public": False,
    "allow": ["127.0.0.0/8"],
    "scope": {"mode": "any"},
    "politeness": {"wait": 0.2, "address_wait": 0.02, "factor": 2.0},
    "retry": {"first": 1.0, "growth": 1.5, "most": 4.0},
    "robots": {"first_retry": 1.0},
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--into", type=Path, metavar="DIR", help="keep the crawl there (otherwise it is deleted)"
    )
    parser.add_argument("--web", default="demo", metavar="PRESET", help="tiny or demo (demo)")


def run(args: argparse.Namespace) -> int:
    from lycosa.errors import ConfigError
    from lycosa.files import scratch
    from lycosa.lab.webs import PRESETS, for_this_machine, preset, serving

    if args.web not in PRESETS:
        raise ConfigError(f"no preset {args.web!r}; there are {', '.join(sorted(PRESETS))}")
    if args.into is not None and args.into.exists() and (not args.into.is_dir() or any(args.into.iterdir())):
        raise ConfigError(f"{args.into} is not empty: the demo needs a new directory")
    kept = args.into is not None
    with nullcontext(args.into) if kept else scratch("lycosa-demo-") as into:
        print(f"1. a web of our own, made from one seed and served on loopback ({args.web})")
        with serving(for_this_machine(preset(args.web))) as served:
            web = served.web
            hosts, seeds = len(web.hosts), web.seeds()
            print(f"   {counted(hosts, 'host')} with faults of every kind; it begins at {seeds[0]}\n")
            print("2. lycosa crawls it: log, seen set, frontier, robots, archive, all as in a real crawl")
            sys.stdout.flush()  # these lines come before the progress, even in a file
            status = asyncio.run(_crawl(seeds, into, web.resolve()))
            truth = web.truth()
        right = _judge(truth, into, status)
        print("\n4. the report (lycosa report DIR)\n")
        _verb("report", str(into), "--top", "5")
        print("\n5. why was this URL not fetched? (lycosa explain DIR URL)\n")
        _verb("explain", str(into), _forbidden(into))
        if kept:
            print(f"\nthe crawl is in {into}: try lycosa status, log, report --html, export")
        else:
            print("\nkeep it next time with: lycosa demo --into DIR    crawl for real: lycosa crawl --help")
    return 0 if right else 1


async def _crawl(seeds: list[str], into: Path, table: dict[str, str]) -> Any:
    from lycosa.cli.screen import Screen, choose_mode
    from lycosa.crawl.api import Crawl

    resolve = [f"{host}:{address}" for host, address in table.items()]
    crawl = Crawl(seeds, into=into, **OPTIONS, dns={"resolve": resolve})
    with Screen(choose_mode(False, False), "lycosa demo") as screen:
        await crawl.start()
        waiter = asyncio.ensure_future(crawl.wait())
        while not waiter.done():
            screen.show(crawl.status())
            if screen.lost is not None:
                crawl.stop_soon()
            await asyncio.wait((waiter,), timeout=0.25)
        await waiter
    if screen.lost is not None:
        raise screen.lost
    return crawl.status()


def _judge(truth: Any, into: Path, status: Any) -> bool:
    """Compare what was fetched with what a correct crawler fetches."""
    from lycosa.ask.reading import CrawlReader
    from lycosa.records import Fetched, Skipped, Why

    found: dict[str, int] = {}
    for _, _, record in CrawlReader(into).records():
        if isinstance(record, Fetched):
            found[record.url] = record.status
        elif isinstance(record, Skipped) and record.why is Why.FAILED:
            found[record.url] = 0
    wrong = truth.compare(found)
    speed = status.pages_run / status.elapsed if status.elapsed else 0.0
    pages, links = counted(status.pages_run, "page"), counted(status.links, "link")
    print(f"   {pages} in {status.elapsed:.1f} s ({speed:,.0f}/s), {links}\n")
    print("3. the web knows what a correct crawler must fetch and must never ask for")
    if wrong:
        print(f"   {len(wrong)} differences, the first: {wrong[0]}")
    else:
        print(f"   all {len(truth.must):,} URLs that must be fetched were, and none of those that must not")
    return not wrong


def _forbidden(into: Path) -> str:
    """A URL that robots rules forbade."""
    from lycosa.ask.reading import CrawlReader
    from lycosa.records import Skipped, Why

    for _, _, record in CrawlReader(into).records():
        if isinstance(record, Skipped) and record.why is Why.ROBOTS:
            return record.url
    return "http://nowhere.test/"


def _verb(*args: str) -> None:
    from lycosa.cli.main import dispatch

    dispatch(list(args))
