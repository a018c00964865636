"""`lycosa agent`: one agent of a cluster's crawl; any number of them may run, on any machine."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from lycosa.ask.json_form import safe
from lycosa.cli import reaching
from lycosa.cli.amounts import show_time
from lycosa.cli.streams import message, stop_signals

HELP = "run one agent of a cluster's crawl until the crawl ends"
EPILOG = """\
examples:
  lycosa agent --cluster nats://n1:4222,nats://n2:4222,nats://n3:4222 --crawl web --work /var/lib/lycosa/web
  lycosa agent --cluster tls://n1:4222 --ca ca.pem --creds agent.creds --crawl web --work work

The agent takes its share of the crawl's shards, and gives back what others should have. It ends with code 0
when the crawl is finished, has reached its limit, or is stopped (lycosa cluster stop). Ctrl-C or SIGTERM hand
all shards over, code 0; a second one ends at once, code 130, and the others wait for the leases.
With --index it also keeps the search index of the shards that it holds, in a process beside it, and answers
for them (lycosa cluster search NAME WORDS); when the crawl is over it goes on answering, until Ctrl-C.
It listens nowhere. Its --work directory is its own, holds nothing that is not elsewhere too but the last
half minute of archive, and may be deleted while it is away.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "lycosa agent --cluster URL --crawl NAME --work DIR [option ...]"
    add = parser.add_argument
    add("--crawl", required=True, metavar="NAME", help="the crawl's name (see lycosa cluster create)")
    add(
        "--work",
        required=True,
        type=Path,
        metavar="DIR",
        help="a directory for this agent alone; created if missing",
    )
    add(
        "--shared",
        default="",
        metavar="PLACE",
        help="place of the shared storage on this machine, if different from creation",
    )
    add(
        "--name",
        metavar="TEXT",
        help="name of the agent in status and archive names (default: the host's name)",
    )
    add("--scorer", metavar="FILE.py:FUNCTION", help="permit this scorer to be loaded if the crawl names it")
    add(
        "--index",
        action="store_true",
        help="maintain the search index of the agent's shards, and answer queries",
    )
    add("--json", action="store_true", help="messages as JSON lines on standard output, with time and level")
    add("--quiet", action="store_true", help="print only errors")
    reaching.add_flags(parser)


def run(args: argparse.Namespace) -> int:
    options = reaching.connection(args)
    return asyncio.run(_agent(args, options, _quiet if args.quiet else _as_json if args.json else _say))


async def _agent(args: argparse.Namespace, options: Any, say: Any) -> int:
    from lycosa.cli.index_process import IndexProcess, Setup
    from lycosa.cluster.machine import OwnMachine
    from lycosa.cluster.member import Member
    from lycosa.cluster.metering import answer_meters
    from lycosa.cluster.shared_keeping import SharedHome
    from lycosa.cluster.storage.opening import open_storage
    from lycosa.engine.nats.engine import NatsEngine

    index: IndexProcess | None = None

    async def reach(name: str) -> NatsEngine:
        engine = await NatsEngine.open(options, args.crawl, name)
        await answer_meters(engine, member)
        return engine

    member = Member(
        reach,
        OwnMachine(args.work.absolute()),
        SharedHome(partial(open_storage, connection=options), args.shared),
        name=args.name or "",
        scorer=args.scorer or "",
        told=say,
        holding=lambda shards: index.hold(shards) if index is not None else None,
    )
    if args.index:
        setup = Setup(
            connection=options,
            crawl=args.crawl,
            work=str(args.work.absolute()),
            shared=args.shared,
            agent=member.id,
        )
        index = IndexProcess(setup, say)
    loop = asyncio.get_running_loop()
    leaving = asyncio.Event()
    for number in stop_signals():
        loop.add_signal_handler(number, _interrupted, member, leaving, say)
    try:
        if index is not None:
            index.start()
        end = await member.run()
        say(f"agent {member.id}: {end}")
        if index is not None and member.finished and not leaving.is_set():
            say(f"agent {member.id}: goes on answering searches; Ctrl-C ends it")
            await leaving.wait()
    finally:
        if index is not None:
            await index.stop()
    return 0


def _interrupted(member: Any, leaving: asyncio.Event, say: Any) -> None:
    leaving.set()
    first = member.leave()
    if first and member.finished:
        return
    if first:
        say("leaving: shards are handed over (a few seconds; again to end at once) ...")
        return
    print("lycosa agent: ended at once; others take over when its leases end", file=sys.stderr, flush=True)
    os._exit(130)


def _say(text: str) -> None:
    print(f"{show_time(time.time())} {text}", file=sys.stderr, flush=True)


def _as_json(text: str) -> None:
    print(safe(msgspec.json.encode(message(text))).decode(), flush=True)


def _quiet(text: str) -> None:
    """Discards the text."""
