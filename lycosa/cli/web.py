"""`lycosa web`: serve a synthetic web on loopback, for experiments.

The web is a function of the options (`lycosa.lab.webs`): the same options give the same bytes. It can
be crawled in three ways: by a crawler that can be told how to resolve names (ours, with
`--write-config` or `--write-resolve`); by any crawler that can use a proxy, since the server takes
requests for all of its hosts on each of its addresses; and with `--flat` by any crawler at all, because
hosts are then called by their addresses.

`--wide PAGES` serves another web (`lycosa.lab.webs.wide`): many small pages with long lists of links and no
oddities, computed on request, to fill frontiers.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from lycosa.cli.amounts import counted
from lycosa.errors import ConfigError, StorageError
from lycosa.lab.webs.options import KINDS, PRESETS, WebOptions, for_this_machine, preset
from lycosa.lab.webs.server import WebServer
from lycosa.lab.webs.serving import serve
from lycosa.lab.webs.truth import lines
from lycosa.lab.webs.web import Web
from lycosa.lab.webs.wide import WideOptions, WideServer, WideWeb

HELP = "serve a synthetic web on loopback"
EPILOG = "kinds of oddities:\n" + "\n".join(f"  {name:<11} {text}" for name, text in KINDS.items())
PORT = 8123
_NOT_WIDE = (
    "preset",
    "small",
    "pages",
    "page_bytes",
    "faults",
    "without",
    "traps",
    "every_trap",
    "flat",
    "log",
)
"""Options that do not apply to a wide web: it has no oddities, no access log, and no presets."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.add_argument(
        "--preset", choices=sorted(PRESETS), default=None, help="where the other options start from (demo)"
    )
    parser.add_argument("--small", action="store_true", help="the same as --preset tiny")
    parser.add_argument(
        "--wide", type=int, metavar="PAGES", help="another web: so many small pages with long lists of links"
    )
    parser.add_argument("--domains", type=int, metavar="N", help="of a wide web's hosts (64)")
    parser.add_argument("--hosts", type=int, metavar="N")
    parser.add_argument("--pages", type=int, metavar="N", help="ordinary pages, over all hosts")
    parser.add_argument("--seed", type=int, metavar="N", help="another number, another web")
    parser.add_argument("--page-bytes", type=int, metavar="N", help="mean size of an ordinary page")
    parser.add_argument("--links", type=int, metavar="N", help="median number of links on a page")
    parser.add_argument("--port", type=int, default=PORT, metavar="P", help=f"0: any free one ({PORT})")
    parser.add_argument(
        "--faults", action=argparse.BooleanOptionalAction, default=None, help="all oddities, or none"
    )
    parser.add_argument(
        "--without", action="append", default=[], metavar="KIND", help="leave a kind of oddity out"
    )
    parser.add_argument(
        "--traps", action="store_true", help="add calendars, session ids and deeper paths without end"
    )
    parser.add_argument(
        "--every-trap",
        action="store_true",
        help="and hosts in paths, escaped &, repeated parameters, answers for anything, facets, farms of hosts",
    )
    parser.add_argument("--flat", action="store_true", help="call hosts by address: no names to resolve")
    parser.add_argument("--single-address", action="store_true", help="all hosts at 127.0.0.1 (so on macOS)")
    parser.add_argument("--all-seeds", action="store_true", help="every home page is a seed")
    parser.add_argument("--seeds-only", action="store_true", help="print the seeds and stop")
    parser.add_argument("--write-config", type=Path, metavar="FILE", help="write a crawl.toml for this web")
    parser.add_argument(
        "--write-resolve", type=Path, metavar="FILE", help="write `address host` lines, as in /etc/hosts"
    )
    parser.add_argument("--truth", type=Path, metavar="FILE", help="write what must be fetched, JSON lines")
    parser.add_argument("--log", type=Path, metavar="FILE", help="at the end, write every access, JSON lines")


def options_of(args: argparse.Namespace) -> WebOptions:
    """The web that the command line asks for."""
    changes = {
        name: value
        for name in ("hosts", "pages", "seed", "page_bytes", "links", "port")
        if (value := getattr(args, name)) is not None
    }
    start = preset("tiny" if args.small else args.preset or "demo")
    kinds = start.kinds
    if args.faults is not None:
        kinds = tuple(KINDS) if args.faults else ()
    for kind in args.without:
        if kind not in KINDS:
            raise ConfigError(f"no kind {kind!r} of oddity; known: {', '.join(KINDS)}")
    options = msgspec.structs.asdict(start) | changes
    options |= {
        "kinds": tuple(kind for kind in kinds if kind not in args.without),
        "traps": args.traps,
        "every_trap": args.every_trap,
        "flat": args.flat,
        "addresses": "single" if args.single_address else start.addresses,
    }
    return for_this_machine(WebOptions(**options))


def wide_options_of(args: argparse.Namespace) -> WideOptions:
    """The wide web that the command line asks for."""
    for name in _NOT_WIDE:
        if getattr(args, name):
            raise ConfigError(f"--{name.replace('_', '-')} means nothing with --wide")
    given = {name: value for name in ("links", "seed") if (value := getattr(args, name)) is not None}
    hosts = args.hosts if args.hosts is not None else min(WideOptions().hosts, args.wide)
    domains = args.domains if args.domains is not None else min(WideOptions().domains, hosts)
    single = args.single_address or for_this_machine(WebOptions()).addresses == "single"
    return WideOptions(pages=args.wide, hosts=hosts, domains=domains, port=args.port, single=single, **given)


def crawl_toml(web: Web | WideWeb, seeds: list[str]) -> str:
    """A crawl.toml that lets Lycosa crawl this web: seeds, loopback allowed, names resolved."""
    rows = ["seeds = ["]
    rows += [f'  "{seed}",' for seed in seeds]
    rows += ["]", "public = false", 'allow = ["127.0.0.0/8"]', ""]
    rows += ["[scope]", 'mode = "any"', ""]
    if isinstance(web, WideWeb):  # made for its size: no waits for a million pages
        rows += [
            "[politeness]",
            "wait = 0.0",
            "factor = 0.0",
            "address_wait = 0.0",
            "pages_per_visit = 100",
            "",
        ]
    rows += ["[dns]", "resolve = ["]
    rows += [f'  "{name}:{address}",' for name, address in web.resolve().items()]
    return "\n".join([*rows, "]"]) + "\n"


def hosts_lines(web: Web | WideWeb) -> str:
    """Lines for /etc/hosts, and for `lycosa crawl --resolve-file`."""
    return "".join(f"{address}\t{name}\n" for name, address in web.resolve().items())


def truth_lines(web: Web | WideWeb) -> Iterable[bytes]:
    """The truth about the web for a correct crawler, as JSON lines."""
    if isinstance(web, Web):
        return lines(web.truth())
    return (b'{"url":"%s","verdict":"must"}\n' % url.encode("ascii") for url in web.urls())


def _write(path: Path, data: Iterable[bytes]) -> None:
    try:
        with path.open("wb") as file:
            file.writelines(data)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None


def _write_files(web: Web | WideWeb, seeds: list[str], args: argparse.Namespace) -> None:
    if args.write_config:
        _write(args.write_config, [crawl_toml(web, seeds).encode()])
    if args.write_resolve:
        _write(args.write_resolve, [hosts_lines(web).encode()])
    if args.truth:
        _write(args.truth, truth_lines(web))


def _introduce(web: Web | WideWeb, seeds: list[str], args: argparse.Namespace) -> None:
    options = web.options
    if isinstance(web, WideWeb):
        print(
            f"{counted(options.hosts, 'host')}, {counted(options.pages, 'page')} of"
            f" {counted(options.links, 'link')} each; no oddities"
        )
    else:
        oddities = ", ".join(web.options.kinds) or "none"
        print(
            f"{counted(options.hosts, 'host')}, {counted(options.pages, 'ordinary page')}; oddities: {oddities}"
        )
        if web.left_out:
            print(f"left out for want of hosts: {', '.join(web.left_out)}")
        if web.options.traps or web.options.every_trap:
            print("this web has traps without end: limit the crawl (pages, or pages per site)")
    print(f"at {web.addresses[0]}" + (f" ... {web.addresses[-1]}" if web.addresses[1:] else ""), end="")
    print(f", port {options.port}\n")
    print("seeds:")
    for seed in seeds[:5]:
        print(f"  {seed}")
    if seeds[5:]:
        print(f"  and {len(seeds) - 5} more: lycosa web --seeds-only --all-seeds")
    proxy = f"http://{web.addresses[0]}:{options.port}"
    print("\nwith Lycosa:")
    config = args.write_config or "web.toml"
    if not args.write_config:
        print(f"  lycosa web ... --write-config {config}      (seeds, and how names resolve)")
    print(f"  lycosa crawl --config {config} --into DIR")
    print("with Scrapy, or anything else:")
    if isinstance(web, Web) and web.options.flat:
        print(f"  just start at {seeds[0]}")
    else:
        print(f"  this server is a proxy for its names:  http_proxy={proxy} scrapy crawl ...")
        flat = ", or serve with --flat" if isinstance(web, Web) else ""
        print(f"  or put the lines of --write-resolve into /etc/hosts{flat}")
    print("\nCtrl-C stops.", flush=True)


async def _serve(web: Web, args: argparse.Namespace) -> WebServer:
    ready: asyncio.Future[WebServer] = asyncio.get_running_loop().create_future()
    failed: list[Exception] = []
    stop = asyncio.Event()

    def started(done: asyncio.Future[WebServer]) -> None:
        served = done.result().web
        seeds = served.seeds(args.all_seeds)
        try:
            _write_files(served, seeds, args)
            _introduce(served, seeds, args)
        except (StorageError, BrokenPipeError) as error:
            failed.append(error)
            stop.set()

    ready.add_done_callback(started)
    server = await serve(web, stop, ready)
    if failed:
        raise failed[0]
    return server


async def _serve_wide(web: WideWeb, args: argparse.Namespace) -> WideServer:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with WideServer(web) as server:
        seeds = server.web.seeds(args.all_seeds)
        _write_files(server.web, seeds, args)
        _introduce(server.web, seeds, args)
        await stop.wait()
    return server


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    web = Web(options_of(args)) if args.wide is None else WideWeb(wide_options_of(args))
    if args.wide is None and args.domains is not None:
        raise ConfigError("--domains is for a wide web: give --wide as well")
    if args.seeds_only:
        if not web.options.port:
            raise ConfigError("seeds need a port: give --port a number other than 0")
        seeds = web.seeds(args.all_seeds)
        _write_files(web, seeds, args)
        sys.stdout.write("".join(seed + "\n" for seed in seeds))
        return 0
    if isinstance(web, WideWeb):
        wide = asyncio.run(_serve_wide(web, args))
        print(f"\n{counted(wide.requests, 'request')} over {counted(wide.connections, 'connection')}")
        return 0
    server = asyncio.run(_serve(web, args))
    if args.log:
        _write(args.log, server.log.lines())
    connections = len(server.log.connections)
    print(f"\n{counted(server.requests, 'request')} over {counted(connections, 'connection')}")
    return 0
