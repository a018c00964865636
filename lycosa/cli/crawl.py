"""`lycosa crawl`: crawl into a directory; the same command continues where the last run stopped."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lycosa.cli.crawl_flags import apply_flags, configure, pairs, place_of, read_seeds, set_option
from lycosa.cli.streams import stop_signals
from lycosa.errors import ConfigError, LycosaError

__all__ = ["EPILOG", "HELP", "configure", "gather", "run", "splitter_of", "take_structure"]

if TYPE_CHECKING:
    from lycosa.ask.follower import Place
    from lycosa.cli.extract import Beside

HELP = "crawl from seeds into a directory; run it again to resume"
EPILOG = """\
examples:
  lycosa crawl https://example.org/ --into crawls/example \\
      --user-agent 'mybot/1.0 (+https://example.org/bot)' --max-pages 1000
  lycosa crawl --config crawl.toml
  lycosa crawl http://intranet/ --into crawls/intranet --private --allow 10.0.0.0/8 --own-site

Every option can be set in crawl.toml; --set table.option=value sets any of them here.
Ctrl-C (or SIGTERM, or a terminal or reader that goes away) stops cleanly within seconds, exit code 0; the same
command resumes.
A second Ctrl-C ends at once, exit code 130; that loses the last second and costs the next start a moment.
"""


_CONSENT = {
    "frontier.scorer": ("the scorer", "--scorer "),
    "frontier.oracle": ("the ranks in", "--oracle "),
    "fetch.cookie_file": ("the cookies in", "--cookie-file "),
    "fetch.ca_file": ("the certificates in", "--set fetch.ca_file="),
    "fetch.proxy": ("the proxy", "--proxy "),
    "render.browser": ("the browser", "--browser "),
}
"""Options that run code here, read a file of this machine, or send all traffic through one host: with a description
and the flag that gives consent."""
_FEW = 3
"""The number of out-of-scope seeds that are named."""


def run(args: argparse.Namespace) -> int:
    given, seeds, into = gather(args)
    take_structure(given, args)
    if args.refetch:
        _refetch(given, into, args)
    return asyncio.run(_crawl(given, seeds, into, args))


def take_structure(given: dict[str, Any], args: argparse.Namespace) -> None:
    """Agents, shards and splitter may stand in the file too, but are not options of the crawl: the first may
    differ from run to run, the others never change."""
    for name in ("agents", "shards", "splitter"):
        value = given.pop(name, None)
        if getattr(args, name) is None:
            setattr(args, name, value)
    regions = given.pop("regions", None)
    if args.region:
        named = pairs(args.region, "=", "--region NAME=SUFFIX,...") or {}
        regions = {name: text.split(",") for name, text in named.items()}
    for name in ("agents", "shards"):
        if not isinstance(getattr(args, name), int | None) or isinstance(getattr(args, name), bool):
            raise ConfigError(f"{name} is a number, not {getattr(args, name)!r}")
    args.regions = regions


def splitter_of(args: argparse.Namespace) -> Any:
    """The splitter of a new crawl, if one was given."""
    from lycosa import options
    from lycosa.crawl.splitting import SplitterOptions

    if args.splitter is None and args.regions is None:
        return None
    by = args.splitter or "region"
    return options.read(SplitterOptions, {"by": by, "regions": args.regions or {}}, "splitter")


def gather(args: argparse.Namespace) -> tuple[dict[str, Any], list[str], Path]:
    """Options, seeds and directory from the file and the command line; the latter wins."""
    from lycosa.crawl.config import for_own_site, read_toml

    given: dict[str, Any] = {}
    seeds: list[str] = []
    into = args.into
    if args.config is not None:
        given, seeds = read_toml(args.config)
        named = given.pop("into", None)
        if into is None and named is not None:
            into = args.config.parent / str(named)
    if into is None:
        raise ConfigError("give the crawl's directory: --into DIR (a new one, or that of a crawl to resume)")
    seeds += args.seeds
    if args.seed_file is not None:
        seeds += read_seeds(args.seed_file)
    apply_flags(given, args)
    for text in args.set or []:
        set_option(given, text)
    exists, said = (into / "crawl.json").exists(), given
    if exists and not seeds:
        given = _going_on(given, into)
    if args.release:
        _release(given, args.release, _options_of(into) if exists else None)
    if args.own_site:
        before = _options_of(into) if exists else None
        for_own_site(given, [*seeds, *(before.near if before else ())], anew=given is said)
    if not seeds and not exists:
        raise ConfigError(f"{into} has no crawl to resume: give at least one seed")
    return given, seeds, into


def _going_on(given: dict[str, Any], into: Path) -> dict[str, Any]:
    """If only the directory was given, the crawl continues with the options of its log.

    The directory may come from somebody else: options in `_CONSENT` are taken only if this command names them,
    too, with the same value.
    """
    import msgspec

    from lycosa.fetch.secrets import is_place

    said = {place: value for table in given for place, value in _values(given[table], table)}
    if not said.keys() <= _CONSENT.keys():
        return given
    options = _options_of(into)
    if options is None:
        return given
    found: dict[str, Any] = msgspec.to_builtins(options)
    values = dict(row for table in found for row in _values(found[table], table))
    if any(values[place] != value for place, value in said.items()):
        return given
    wanted = [place for place in _CONSENT if values[place] and place not in said]
    places = [host for host, text in options.fetch.auth.items() if is_place(text)]
    if hosts := sorted({*places, *(host for host, table in options.site.items() if table.login)}):
        raise ConfigError(
            f"the crawl in {into} logs in at {hosts[0]} with secrets of yours, which its log alone must not have:"
            " if that is meant, start it with the --config that says so"
        )
    if not wanted:
        return found
    names = ", ".join(f"{_CONSENT[place][0]} {values[place]!r}" for place in wanted)
    pool = values["fetch.proxy"].replace(" ", " --proxy ")
    shown = {**values, "fetch.proxy": pool}
    flags = " ".join(_CONSENT[place][1] + shown[place] for place in wanted)
    raise ConfigError(
        f"the crawl in {into} wants what its log alone must not have on this machine, {names}: if that is meant, "
        f"say so with {flags}; if not, give the options that it is to go on with"
    )


def _refetch(given: dict[str, Any], into: Path, args: argparse.Namespace) -> None:
    """Have finished URLs fetched once more: this is written to the log, where the crawl finds it."""
    from lycosa.cli.streams import Progress
    from lycosa.clock import SystemClock
    from lycosa.crawl.config import read_options
    from lycosa.crawl.refetching import Wish, refetch
    from lycosa.files import DirectoryLock, DiskFiles
    from lycosa.url.rules import Rules

    wish = Wish(args.refetch, Rules.named(read_options(given).rules))
    if not (into / "crawl.json").exists():
        raise ConfigError(f"--refetch: {into} has no crawl yet")
    lock = DirectoryLock(into)
    try:
        with Progress("crawl") as told:
            count = refetch(DiskFiles(into), wish, SystemClock(), told)
    finally:
        lock.release()
    if not args.json:
        print(f"{count:,} URL{'' if count == 1 else 's'} to fetch once more", file=sys.stderr)


def _release(given: dict[str, Any], patterns: list[str], before: Any) -> None:
    """Add patterns to those released before."""
    from lycosa.content.patterns import is_pattern

    for pattern in patterns:
        if not is_pattern(pattern):
            raise ConfigError(
                f"{pattern!r} is not a pattern: write it as lycosa report does, like http://example.org/shop/**?*"
            )
    place, name = place_of(given, "traps.release")
    known = [*(before.traps.release if before is not None else ()), *place.get(name, ())]
    place[name] = list(dict.fromkeys([*known, *patterns]))


def _values(value: Any, place: str) -> list[tuple[str, Any]]:
    """The options in a table, with their full names; any other value as it is."""
    if not isinstance(value, dict):
        return [(place, value)]
    return [(f"{place}.{name}", each) for name, each in value.items()]


def _options_of(into: Path) -> Any:
    """The options at the end of a crawl's log; None if it has none."""
    from lycosa.ask.reading import CrawlReader

    return CrawlReader(into).options()


def _end_of(into: Path) -> list[Place]:
    """The ends of a crawl's logs, where its next run begins."""
    from lycosa.ask.reading import CrawlReader

    try:
        return CrawlReader(into).end()
    except LycosaError:
        return []  # errors are reported when the crawl starts


async def _crawl(given: dict[str, Any], seeds: list[str], into: Path, args: argparse.Namespace) -> int:
    from lycosa.cli.ending import judge, summary
    from lycosa.cli.screen import Screen, choose_mode
    from lycosa.cli.serve import Beside
    from lycosa.cluster.api import Crawl

    extraction = _beside(args, into)
    resumed = (into / "crawl.json").exists()
    began = _end_of(into) if resumed else []
    split = splitter_of(args)
    crawl = Crawl(seeds, into=into, shards=args.shards, splitter=split, agents=args.agents, **given)
    with Screen(choose_mode(args.json, args.quiet), f"lycosa · {into}") as screen:
        await crawl.start(told=screen.note)
        if extraction is not None:
            extraction.start()
        for url, rule in crawl.refused_seeds[:_FEW]:
            screen.note(f"note: the seed {url} is out of scope: {rule}")
        team = f" with {crawl.agents} agents" if crawl.agents != 1 else ""
        screen.note(f"{'resuming' if resumed else 'crawling into'} {into}{team}")
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, _interrupted, crawl, screen)
        crawl.watch()
        waiter = asyncio.ensure_future(crawl.wait())
        page = Beside(into) if args.serve else None
        try:
            if page is not None:
                link = await asyncio.to_thread(page.link)
                print(link, file=sys.stderr, flush=True) if args.quiet else screen.note(link)
            while not waiter.done():
                screen.show(crawl.status())
                if screen.lost is not None:
                    crawl.stop_soon()
                await asyncio.wait((waiter,), timeout=1.0 if args.json else 0.25)
        finally:
            if page is not None:
                await asyncio.to_thread(page.end)
        waiter.result()
    status = crawl.status()
    if args.json:
        screen.show(status)
    if screen.lost is not None:
        raise screen.lost
    if not args.json:
        print(summary(status, crawl.options.limits, into, began), flush=True)
    failed = 0
    if extraction is not None:
        failed, line = extraction.wait()
        print(
            line or "the extraction ended early: run lycosa extract for the rest", file=sys.stderr, flush=True
        )
    return judge(status, into) or failed


def _beside(args: argparse.Namespace, into: Path) -> Beside | None:
    """The extraction that runs beside the crawl."""
    if args.extract is None:
        if args.extract_to is not None:
            raise ConfigError(
                "--extract-to says where rows go: say what makes them, --extract FILE.py:FUNCTION"
            )
        return None
    if args.no_archive:
        raise ConfigError("--extract reads pages from the archive: leave --no-archive out")
    from lycosa.cli.extract import Beside

    return Beside(into, args.extract, args.extract_to)


def _interrupted(crawl: Any, screen: Any) -> None:
    if crawl.stop_soon():
        screen.note("stopping: what is under way may finish (a few seconds; again to end at once) ...")
        return
    # Only what is not committed is lost, half a second at most: the next start recovers the crawl.
    screen.__exit__()
    print("lycosa crawl: ended at once; run the same command to resume", file=sys.stderr, flush=True)
    os._exit(130)
