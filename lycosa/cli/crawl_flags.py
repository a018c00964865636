"""The flags of `lycosa crawl`, and the options that they set.

Every flag sets an option of crawl.toml (`lycosa.crawl.config`), or tells where and how this run is made. Options
are a tree of tables, as in TOML, so that errors are reported in one place, where the tree is read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from lycosa.cli.amounts import duration, rate, size
from lycosa.errors import ConfigError
from lycosa.frontier.options import ADMITS, ORDERS


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "lycosa crawl SEED ... --into DIR [option ...]"  # a mistake must not print forty options
    add = parser.add_argument
    add("seeds", nargs="*", default=[], metavar="SEED", help="URLs or hosts to start from")
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
        "--near-duplicates",
        choices=("expand", "leaf"),
        help="leaf: do not follow the links of a page that says nearly what an earlier page says (expand)",
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


def apply_flags(given: dict[str, Any], args: argparse.Namespace) -> None:
    def put(where: str, value: Any) -> None:
        if value is None or value is False:
            return
        place, name = place_of(given, where)
        if isinstance(value, list) and isinstance(place.get(name), list):
            value = place[name] + value
        place[name] = value

    def put_off(where: str, flag: bool) -> None:
        """Add a flag that sets its option to false."""
        if flag:
            place, name = place_of(given, where)
            place[name] = False

    put_off("public", args.private)
    put("fetch.user_agent", args.user_agent)
    put("fetch.headers", args.header)
    put("fetch.cookies", args.cookie)
    put("fetch.cookie_file", args.cookie_file)
    put("fetch.auth", pairs(args.auth, "=", "--auth HOST=USER:PASSWORD"))
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
        place, name = place_of(given, "traps.quarantine")
        place[name] = args.traps == "on"
    put("duplicates.alike", args.near_duplicates)
    if args.url_rules is not None:
        place, name = place_of(given, "variants.apply")
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
        place, name = place_of(given, "frontier.sample")
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
    """-1: adaptive; 0: no bound; else the number."""
    if text in ("adaptive", "inf"):
        return -1 if text == "adaptive" else 0
    if text.isdigit() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not adaptive, inf or a number of links")


def _absolute(path: str | None) -> str | None:
    """An absolute path, so that later runs from other directories find the file again."""
    return None if path is None else str(Path(path).absolute())


def place_of(given: dict[str, Any], where: str) -> tuple[dict[str, Any], str]:
    """The table of an option, made if need be, and the option's own name."""
    *tables, name = where.split(".")
    place: Any = given
    for table in tables:
        place = place.setdefault(table, {})
        if not isinstance(place, dict):
            raise ConfigError(f"option {table!r} is a table of options, not {place!r}")
    return place, name


def pairs(given: list[str] | None, mark: str, form: str) -> dict[str, str] | None:
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
    """A hosts file (an address, then its names) as overrides."""
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


def set_option(given: dict[str, Any], text: str) -> None:
    """Set `table.option=value`; the value is TOML, or else plain text."""
    import tomllib

    name, found, value = text.partition("=")
    if not found:
        raise ConfigError(f"--set takes option=value, not {text!r}")
    try:
        read: Any = tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        read = value
    place, last = place_of(given, name.strip())
    place[last] = read


def read_seeds(name: str) -> Iterator[str]:
    """Seeds from a file, one per line; empty lines and those that begin with # are skipped."""
    try:
        source = sys.stdin.buffer if name == "-" else Path(name).open("rb")  # noqa: SIM115 - `_lines` closes it
    except OSError as error:
        raise ConfigError(f"cannot read the seeds in {name}: {error.strerror}") from None
    return _lines(source if name != "-" else nullcontext(source))


def _lines(opened: AbstractContextManager[Iterable[bytes]]) -> Iterator[str]:
    with opened as source:
        for read in source:
            for line in read.decode("utf-8", "replace").splitlines():
                seed = line.strip().removeprefix("\ufeff")
                if seed and not seed.startswith("#"):
                    yield seed
