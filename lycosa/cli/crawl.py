"""`lycosa crawl`: crawl into a directory; the same command goes on where the last one stopped."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lycosa.cli.amounts import duration, rate, size
from lycosa.cli.streams import stop_signals
from lycosa.errors import ConfigError, LycosaError
from lycosa.frontier.options import ADMITS, ORDERS

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
"""Options that run code here, read a file of this machine, or send everything through one host: what each is, and
how it is said."""
_FEW = 3
"""So many seeds that are out of scope are named."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "lycosa crawl SEED ... --into DIR [option ...]"  # a mistake must not print forty options
    add = parser.add_argument
    add("seeds", nargs="*", metavar="SEED", help="URLs or hosts to start from")
    add("--into", type=Path, metavar="DIR", help="the crawl's directory; created if missing")
    add("--config", type=Path, metavar="FILE", help="a crawl.toml with seeds and options")
    add(
        "--seeds",
        dest="seed_file",
        metavar="FILE",
        help="file with more seeds, one per line; - for standard input",
    )

    who = parser.add_argument_group("who asks")
    who.add_argument("--user-agent", metavar="TEXT", help="must name a contact: a URL or a mail address")
    who.add_argument("--private", action="store_true", help="a web of your own: no contact is required")
    who.add_argument("--header", action="append", metavar="'NAME: VALUE'", help="sent to every site")
    who.add_argument("--cookie", action="append", metavar="NAME=VALUE", help="sent to every site")
    who.add_argument("--cookie-file", metavar="FILE", help="cookies per domain, in Netscape format")
    who.add_argument(
        "--auth",
        action="append",
        metavar="HOST[:PORT]=USER:PASSWORD",
        help="HTTP Basic credentials, sent over https only; http://HOST=... for plain http",
    )
    who.add_argument(
        "--proxy",
        action="append",
        metavar="URL",
        help="http://, https:// or socks5h://; several form a pool, with one proxy per host",
    )

    what = parser.add_argument_group("what is fetched")
    what.add_argument(
        "--scope", choices=("host", "site", "domain", "any"), help="how far to go from the seeds (host)"
    )
    for name, about in (
        ("include-host", "also crawl this host"),
        ("include-domain", "also crawl this domain, with all below it"),
        ("include-path", "only paths that begin so"),
        ("include", "only URLs that match this regular expression"),
        ("exclude-host", "never this host"),
        ("exclude-domain", "never this domain, nor any below it"),
        ("exclude-path", "never paths that begin so"),
        ("exclude", "never URLs that match this regular expression"),
    ):
        what.add_argument(f"--{name}", action="append", metavar="TEXT", help=about)
    what.add_argument(
        "--blocklist",
        action="append",
        type=Path,
        metavar="FILE",
        help="file of hosts that are never contacted",
    )
    what.add_argument("--max-depth", type=int, metavar="N", help="maximum number of links from a seed")
    what.add_argument("--max-pages-per-site", type=int, metavar="N")
    what.add_argument("--requisites", action="store_true", help="also fetch images, scripts and styles")
    what.add_argument("--no-sitemaps", action="store_true", help="do not follow sitemaps named in robots.txt")
    what.add_argument(
        "--traps",
        choices=("on", "off"),
        help="quarantine URL patterns that produce nothing new (off)",
    )
    what.add_argument(
        "--release",
        action="append",
        metavar="PATTERN",
        help="exempt a pattern, as shown by lycosa report, from quarantine, and fetch its skipped URLs",
    )
    what.add_argument(
        "--url-rules",
        choices=("apply", "propose"),
        help="apply: learn which URLs lead to the same page and skip them; propose: leave it to lycosa"
        " duplicates (propose)",
    )
    what.add_argument(
        "--render",
        metavar="WHEN",
        help="pages that Chromium renders: auto (those that are empty without scripts), always, never, or a"
        " regular expression (never)",
    )
    what.add_argument(
        "--browser", metavar="PATH", help="path of the Chromium to render with (default: the system's)"
    )
    what.add_argument("--rules", metavar="A,B", help="additional URL rules, by name (see lycosa url --help)")

    what.add_argument(
        "--refetch",
        action="append",
        metavar="failed|URL|PATTERN",
        help="fetch again what failed, this URL, or what matches a regular expression",
    )

    much = parser.add_argument_group("how much")
    much.add_argument("--max-pages", type=int, metavar="N", help="end after N pages (of all runs together)")
    much.add_argument("--max-bytes", type=size, metavar="SIZE", help="end after so many bytes, such as 10GB")
    much.add_argument("--max-time", type=duration, metavar="TIME", help="end this run after 30m, 2h, 7d")
    much.add_argument(
        "--continuous",
        action="store_true",
        help="fetch pages again when they may have changed; the crawl does not end by itself",
    )
    much.add_argument(
        "--fetches",
        type=rate,
        metavar="N/d",
        help="with --continuous: fetches per day (or N/h, N/s), known and new pages together",
    )
    much.add_argument("--bandwidth", type=size, metavar="SIZE", help="bytes per second, such as 2MB")
    much.add_argument("--visits", type=int, metavar="N", help="hosts visited at a time (256)")
    much.add_argument("--wait", type=duration, metavar="TIME", help="wait between two visits of a host (1s)")
    much.add_argument("--pages-per-visit", type=int, metavar="N", help="pages over one connection (8)")
    much.add_argument(
        "--own-site",
        action="store_true",
        help="your own site, as fast as one connection goes: --wait 0 --pages-per-visit 1000, politeness.factor=0"
        " and address_wait=0 unless given otherwise; robots.txt is obeyed; not with --scope any",
    )

    order = parser.add_argument_group("in which order, in how much memory")
    order.add_argument("--order", choices=ORDERS, help="which URLs are fetched first (depth)")
    order.add_argument(
        "--oracle", metavar="FILE", help="ranks for --order optimal: lines of a rank and a URL"
    )
    order.add_argument(
        "--scorer", metavar="FILE.py:FUNCTION", help="your own score(url, depth, text, source)"
    )
    order.add_argument(
        "--batch", type=int, metavar="K", help="pages between two calculations of ranks (10000)"
    )
    order.add_argument(
        "--memory", type=size, metavar="SIZE", help="memory of the frontier, such as 64MB (256MB)"
    )
    order.add_argument(
        "--sample",
        type=_sample,
        metavar="T",
        help="number of new links of a page that enter at once: adaptive, inf or a number",
    )
    order.add_argument("--admit", choices=ADMITS, help="treatment of the other links (adaptive)")
    order.add_argument(
        "--host-budget", type=int, metavar="N", help="pages of a host after which other hosts take precedence"
    )
    order.add_argument("--domain-budget", type=int, metavar="N", help="the same per domain")

    net = parser.add_argument_group("network")
    net.add_argument("--allow", action="append", metavar="NETWORK", help="permit a private network")
    net.add_argument(
        "--only-network",
        action="append",
        metavar="NETWORK",
        help="connect to no address outside of it; may be repeated",
    )
    net.add_argument(
        "--resolve", action="append", metavar="HOST:ADDRESS", help="use this address instead of DNS"
    )
    net.add_argument("--resolve-file", type=Path, metavar="FILE", help="file with lines of: address host ...")
    net.add_argument("--insecure", action="store_true", help="do not verify TLS certificates")

    more = parser.add_argument_group("more")
    more.add_argument(
        "--extract",
        metavar="FILE.py:FUNCTION",
        help="call this function on each page, in a separate process; see lycosa extract",
    )
    more.add_argument(
        "--extract-to",
        type=Path,
        metavar="FILE",
        help="output: rows.jsonl or rows.parquet (DIR/extract/rows.jsonl)",
    )
    more.add_argument("--no-archive", action="store_true", help="write no WARC files")
    more.add_argument(
        "--agents",
        type=int,
        metavar="N",
        help="number of crawling processes (one per core, if there is work for them)",
    )
    more.add_argument(
        "--shards",
        type=int,
        metavar="N",
        help="number of shards of a new crawl; cannot be changed later (16)",
    )
    more.add_argument(
        "--splitter",
        choices=("domain", "host", "region"),
        help="of a new crawl: the unit that is kept in one shard (domain)",
    )
    more.add_argument(
        "--region",
        action="append",
        metavar="NAME=SUFFIX,...",
        help="domains that share a part of the shards (--splitter region)",
    )
    more.add_argument("--set", action="append", metavar="OPTION=VALUE", help="set any option of crawl.toml")
    more.add_argument("--json", action="store_true", help="print progress as JSON lines on standard output")
    more.add_argument("--serve", action="store_true", help="show the crawl in a browser while it runs")
    more.add_argument("--quiet", action="store_true", help="print only the summary")


def run(args: argparse.Namespace) -> int:
    given, seeds, into = gather(args)
    _take_structure(given, args)
    if args.refetch:
        _refetch(given, into, args)
    return asyncio.run(_crawl(given, seeds, into, args))


def _take_structure(given: dict[str, Any], args: argparse.Namespace) -> None:
    """Agents, shards and splitter may stand in the file too, but are no options of the crawl: the first may differ
    from run to run, the others never change."""
    for name in ("agents", "shards", "splitter"):
        value = given.pop(name, None)
        if getattr(args, name) is None:
            setattr(args, name, value)
    regions = given.pop("regions", None)
    if args.region:
        pairs = _pairs(args.region, "=", "--region NAME=SUFFIX,...") or {}
        regions = {name: text.split(",") for name, text in pairs.items()}
    for name in ("agents", "shards"):
        if not isinstance(getattr(args, name), int | None) or isinstance(getattr(args, name), bool):
            raise ConfigError(f"{name} is a number, not {getattr(args, name)!r}")
    args.regions = regions


def _splitter(args: argparse.Namespace) -> Any:
    """How a new crawl is to be split, if anything was said of it."""
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
    _apply_flags(given, args)
    for text in args.set or []:
        _set(given, text)
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
    """If nothing was said but where, the crawl goes on with the options of its log.

    The directory may be somebody else's: of the options in `_CONSENT` only those are taken that this command
    names, too, with the same value.
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
    """Have what is done with be fetched once more; the crawl then finds it in its log."""
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
    """Have patterns be released, besides those that were before."""
    from lycosa.content.patterns import is_pattern

    for pattern in patterns:
        if not is_pattern(pattern):
            raise ConfigError(
                f"{pattern!r} is not a pattern: write it as lycosa report does, like http://example.org/shop/**?*"
            )
    place, name = _place(given, "traps.release")
    known = [*(before.traps.release if before is not None else ()), *place.get(name, ())]
    place[name] = list(dict.fromkeys([*known, *patterns]))


def _values(value: Any, place: str) -> list[tuple[str, Any]]:
    """The options of a table, by their full names; of anything else, itself."""
    if not isinstance(value, dict):
        return [(place, value)]
    return [(f"{place}.{name}", each) for name, each in value.items()]


def _options_of(into: Path) -> Any:
    """The options that the log of a crawl ends with; None if it has none."""
    from lycosa.ask.reading import CrawlReader

    return CrawlReader(into).options()


def _end_of(into: Path) -> list[Place]:
    """Where the logs of a crawl end, which is where its next run begins."""
    from lycosa.ask.reading import CrawlReader

    try:
        return CrawlReader(into).end()
    except LycosaError:
        return []  # what is wrong is told by the start


def read_seeds(name: str) -> list[str]:
    """Seeds of a file, one a line; empty lines and those that begin with # do not count."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the seeds in {name}: {error.strerror}") from None
    lines = (line.strip() for line in data.decode("utf-8", "replace").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _apply_flags(given: dict[str, Any], args: argparse.Namespace) -> None:
    def put(where: str, value: Any) -> None:
        if value is None or value is False:
            return
        place, name = _place(given, where)
        if isinstance(value, list) and isinstance(place.get(name), list):
            value = place[name] + value
        place[name] = value

    def put_off(where: str, flag: bool) -> None:
        """A flag whose option is then false."""
        if flag:
            place, name = _place(given, where)
            place[name] = False

    put_off("public", args.private)
    put("fetch.user_agent", args.user_agent)
    put("fetch.headers", args.header)
    put("fetch.cookies", args.cookie)
    put("fetch.cookie_file", args.cookie_file)
    put("fetch.auth", _pairs(args.auth, "=", "--auth HOST=USER:PASSWORD"))
    put("fetch.proxy", " ".join(args.proxy) if args.proxy else None)
    put("fetch.bandwidth", args.bandwidth)
    put_off("fetch.verify_tls", args.insecure)
    put("scope.mode", args.scope)
    put("scope.include_hosts", args.include_host)
    put("scope.include_domains", args.include_domain)
    put("scope.include_paths", args.include_path)
    put("scope.include_patterns", args.include)
    put("scope.exclude_hosts", args.exclude_host)
    put("scope.exclude_domains", args.exclude_domain)
    put("scope.exclude_paths", args.exclude_path)
    put("scope.exclude_patterns", args.exclude)
    put("scope.max_depth", args.max_depth)
    put("scope.max_pages_per_site", args.max_pages_per_site)
    for path in args.blocklist or []:
        put("scope.blocklist", list(_blocklist(path)))
    put("follow.requisites", args.requisites)
    put("render.when", args.render)
    put("render.browser", args.browser)
    put_off("follow.sitemaps", args.no_sitemaps)
    if args.traps is not None:
        place, name = _place(given, "traps.quarantine")
        place[name] = args.traps == "on"
    if args.url_rules is not None:
        place, name = _place(given, "variants.apply")
        place[name] = args.url_rules == "apply"
    put("rules", args.rules.split(",") if args.rules else None)
    put("limits.pages", args.max_pages)
    put("limits.bytes", args.max_bytes)
    put("limits.seconds", args.max_time)
    put("refresh.continuous", args.continuous)
    put("refresh.fetches", args.fetches)
    put("visits", args.visits)
    put("politeness.wait", args.wait)
    put("politeness.pages_per_visit", args.pages_per_visit)
    put("frontier.order", args.order)
    put("frontier.oracle", _absolute(args.oracle))
    put("frontier.scorer", args.scorer)
    put("frontier.batch", args.batch)
    put("frontier.memory", args.memory)
    if args.sample is not None:
        put("frontier.admit", "adaptive" if args.sample < 0 else "sample")
        place, name = _place(given, "frontier.sample")
        place[name] = max(args.sample, 0)
    put("frontier.admit", args.admit)
    put("frontier.host_budget", args.host_budget)
    put("frontier.domain_budget", args.domain_budget)
    put("allow", args.allow)
    put("only_networks", args.only_network)
    put("dns.resolve", args.resolve)
    if args.resolve_file is not None:
        put("dns.resolve", read_resolve(args.resolve_file))
    put_off("archive.keep", args.no_archive)


def _sample(text: str) -> int:
    """-1: adaptive; 0: no bound; else how many."""
    if text in ("adaptive", "inf"):
        return -1 if text == "adaptive" else 0
    if text.isdigit() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not adaptive, inf or a number of links")


def _absolute(path: str | None) -> str | None:
    """A file that later runs, from other directories, must find again."""
    return None if path is None else str(Path(path).absolute())


def _place(given: dict[str, Any], where: str) -> tuple[dict[str, Any], str]:
    """The table that an option is in, made if need be, and the option's own name."""
    *tables, name = where.split(".")
    place: Any = given
    for table in tables:
        place = place.setdefault(table, {})
        if not isinstance(place, dict):
            raise ConfigError(f"option {table!r} is a table of options, not {place!r}")
    return place, name


def _pairs(given: list[str] | None, mark: str, form: str) -> dict[str, str] | None:
    if not given:
        return None
    pairs = {}
    for text in given:
        name, found, value = text.partition(mark)
        if not found or not name or not value:
            raise ConfigError(f"{text!r} is not of the form {form}")
        pairs[name] = value
    return pairs


def _blocklist(path: Path) -> tuple[str, ...]:
    from lycosa.url.blocklist import read_blocklist

    try:
        return read_blocklist(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"cannot read the blocklist {path}: {error.strerror}") from None


def read_resolve(path: Path) -> list[str]:
    """A hosts file (an address, then the names it stands for) as overrides."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"cannot read {path}: it is not UTF-8 text") from None
    overrides = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if len(words) == 1:
            raise ConfigError(f"{path} line {number}: an address, then one or more hosts")
        overrides += [f"{name}:{words[0]}" for name in words[1:]]
    return overrides


def _set(given: dict[str, Any], text: str) -> None:
    """`table.option=value`; the value as TOML, or else as plain text."""
    import tomllib

    name, found, value = text.partition("=")
    if not found:
        raise ConfigError(f"--set takes option=value, not {text!r}")
    try:
        read: Any = tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        read = value
    place, last = _place(given, name.strip())
    place[last] = read


async def _crawl(given: dict[str, Any], seeds: list[str], into: Path, args: argparse.Namespace) -> int:
    from lycosa.cli.ending import judge, summary
    from lycosa.cli.screen import Screen, choose_mode
    from lycosa.cli.serve import Beside
    from lycosa.cluster.api import Crawl

    extraction = _beside(args, into)
    resumed = (into / "crawl.json").exists()
    began = _end_of(into) if resumed else []
    split = _splitter(args)
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
    """What is extracted beside the crawl."""
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
    # Nothing is lost but what was not committed, half a second at most: the next start recovers the crawl.
    screen.__exit__()
    print("lycosa crawl: ended at once; run the same command to resume", file=sys.stderr, flush=True)
    os._exit(130)
