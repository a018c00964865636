"""`lycosa frontier`: a frontier service for other crawlers, with URLFrontier's gRPC interface."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from lycosa.urlfrontier.service import Server

HELP = "serve a durable frontier to other crawlers through URLFrontier's gRPC interface"
EPILOG = """\
examples:
  lycosa frontier queues/
  lycosa frontier queues/ --port 7072 --delay 2

URLs are put, taken and counted by the calls of crawler-commons/url-frontier, as StormCrawler makes them. They are
in DIR/urls, durable when they are acknowledged; after a kill the same command goes on.
The interface has no passwords: it listens on this machine alone unless --public says otherwise.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="directory of its files; created if missing")
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="the address to listen on")
    add("--port", type=int, default=7071, help="port to listen on (7071); 0: any free port")
    add(
        "--delay",
        type=int,
        default=1,
        metavar="SECONDS",
        help="minimum time between two answers of a queue (1)",
    )
    add("--public", action="store_true", help="listen on an address that others can reach")


def run(args: argparse.Namespace) -> int:
    try:
        from lycosa.urlfrontier.service import Server
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a frontier for others needs the extra ({error}): pip install 'lycosa[urlfrontier]'"
        ) from None
    from lycosa.clock import SystemClock
    from lycosa.files import DirectoryLock, DiskFiles
    from lycosa.urlfrontier.store import Store

    if args.delay < 0 or not 0 <= args.port < 65536:
        raise ConfigError("--delay must be at least 0, and --port at most 65535")
    if not args.public and not _is_here(args.host):
        raise ConfigError(
            f"{args.host} can be reached by others, and the interface has no passwords: --public"
        )
    lock = DirectoryLock(args.directory)
    try:
        store = Store(DiskFiles(args.directory), SystemClock(), delay=args.delay)
        asyncio.run(_serve(Server(store, time.time), args))
        store.close()
    finally:
        lock.release()
    return 0


async def _serve(server: Server, args: argparse.Namespace) -> None:
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    host = f"[{args.host}]" if ":" in args.host else args.host
    try:
        port = await server.start(f"{host}:{args.port}")
    except RuntimeError as error:
        raise ConfigError(f"cannot listen on {host}:{args.port}: choose another --port ({error})") from None
    print(f"lycosa frontier: listening on {host}:{port}", file=sys.stderr, flush=True)
    await end.wait()
    await server.stop()


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
