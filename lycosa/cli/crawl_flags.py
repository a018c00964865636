"""The flags of `lycosa crawl`, and the options that they set.

Every flag sets an option of crawl.toml (`lycosa.crawl.config`), or tells where and how this run is made. Options
are a tree of tables, as in TOML, so that errors are reported in one place, where the tree is read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from lycosa.cli.amounts import duration, rate, size
from lycosa.crawl.flag_names import OPTIONS, TURNED_OFF
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


_VALUES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(TURNED_OFF, lambda _: False),
    "auth": lambda given: pairs(given, "=", "--auth HOST=USER:PASSWORD"),
    "blocklist": lambda paths: [host for path in paths for host in _blocklist(path)],
    "oracle": lambda path: str(Path(path).absolute()),  # so that runs from other directories find it again
    "proxy": " ".join,
    "resolve_file": lambda path: read_resolve(path),
    "rules": lambda text: text.split(",") if text else [],
    "sample": lambda number: max(number, 0),
    "traps": lambda text: text == "on",
    "url_rules": lambda text: text == "apply",
}
"""What an option gets, where that is not the value of its flag."""


def apply_flags(given: dict[str, Any], args: argparse.Namespace) -> None:
    """Set the options whose flags were given; lists are added to those of the file."""
    if args.sample is not None:
        place, name = place_of(given, "frontier.admit")
        place[name] = "adaptive" if args.sample < 0 else "sample"
    for flag, option in OPTIONS.items():
        value = getattr(args, flag)
        if value is None or value is False:
            continue
        value = _VALUES.get(flag, lambda value: value)(value)
        place, name = place_of(given, option)
        if isinstance(value, list) and isinstance(place.get(name), list):
            value = place[name] + value
        place[name] = value


def _sample(text: str) -> int:
    """-1: adaptive; 0: no bound; else the number."""
    if text in ("adaptive", "inf"):
        return -1 if text == "adaptive" else 0
    if text.isdigit() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not adaptive, inf or a number of links")


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
