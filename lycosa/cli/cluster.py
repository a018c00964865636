"""`lycosa cluster`: make, start, pause, stop, watch and list crawls of a cluster; add seeds; fetch the results.

Each action has its own flags, and refuses those of others.

`status --json` prints one document:

    crawl, id, shared, shards_total, replicas     which crawl
    state                          "created", "running", "paused", "stopped", "finished", "limit" or "damaged"
    pages, bytes, links, duplicates, statuses, skipped, pending, left_behind, deferred               all shards
    visits, rate                   under way, and pages per second, as reported by the holders of the shards
    backlog                        messages in the exchange that were not received yet
    page_limit
    agents                         [{"id", "age", "shards": [n], "about": {...}}]   living agents
    silent                         [{"id", "age", "shards": [n], "said"}]   agents silent for less than an hour
    foreign                        [text]   objects skipped because they are not ours
    shards                         [{"shard", "holder", "epoch", "idle", "pages", "pending", "left_behind",
                                     "deferred", "visits", "rate", "end", "committed", "sent", "received",
                                     "backlog", "age"}]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lycosa.cli import crawl_flags, reaching
from lycosa.cli.amounts import counted, duration, show_count, show_duration, show_size, size
from lycosa.cli.crawl import splitter_of, take_structure
from lycosa.cli.streams import printable
from lycosa.cli.usage import Parser
from lycosa.errors import ConfigError, LocalError
from lycosa.files import process_of

if TYPE_CHECKING:
    from lycosa.cluster.operating import Operator

HELP = "create, start, pause, stop, watch, list, seed and fetch the crawls of a cluster"
EPILOG = """\
actions (lycosa cluster ACTION --help says what each takes):
  create NAME SEED ... --shared PLACE [options of lycosa crawl]   make the crawl; nothing is fetched yet
  start NAME             its agents begin (lycosa agent), or go on
  pause NAME             no more fetches; agents keep their shards
  stop NAME              agents save everything and end
  seed NAME URL ...      more seeds, at any time; a finished crawl goes on with them
  control NAME ACT ...   what lycosa control does: set KEY=VALUE, site HOST hold, pause, go-on, ...
  status NAME            [--json] [--watch: until the crawl ends]
  list                   the crawls of these servers
  fetch NAME --into DIR  logs and archives as a crawl's directory, for report, explain, log, export, graph;
                         also while it runs
  search NAME QUERY      in all shards that somebody answers for: agents with --index, and answer
  answer NAME --index DIR   answer for the shards whose index is in a directory (fetch it, then lycosa index)
  remove NAME --yes      all of the crawl from the servers (shared storage is left alone)

examples:
  lycosa cluster create web https://example.org/ --cluster nats://n1:4222 --shared /mnt/crawls \\
      --user-agent 'mybot/1.0 (+https://example.org/bot)' --shards 64
  lycosa cluster start web --cluster nats://n1:4222
  lycosa cluster status web --cluster nats://n1:4222 --watch
  lycosa cluster fetch web --cluster nats://n1:4222 --into crawls/web && lycosa report crawls/web
"""
_SAID = {
    "create": "make a crawl; nothing is fetched yet",
    "start": "have the agents of a crawl begin, or go on",
    "pause": "no more fetches; agents keep their shards",
    "stop": "have the agents of a crawl save everything and end",
    "seed": "give a crawl more seeds; a finished one goes on with them",
    "control": "change a crawl while it runs: the acts of lycosa control",
    "status": "show how a crawl goes",
    "list": "show the crawls of these servers",
    "fetch": "bring logs and archives into a directory, for report, explain, log, export and graph",
    "answer": "answer searches for the shards whose index is in a directory (fetch it, then lycosa index)",
    "search": "search a crawl, wherever its shards are answered for",
    "remove": "remove all of a crawl from the servers (shared storage is left alone)",
}
_USAGE = {
    "create": "NAME SEED ... --shared PLACE [option ...]",
    "seed": "NAME URL ... [option ...]",
    "control": "NAME ACT [WORD ...] [option ...]",
    "list": "[option ...]",
    "fetch": "NAME --into DIR [option ...]",
    "answer": "NAME --index DIR [option ...]",
    "search": "NAME QUERY [option ...]",
    "remove": "NAME --yes [option ...]",
}


def choose(parser: argparse.ArgumentParser, args: list[str]) -> tuple[argparse.ArgumentParser, list[str]]:
    """The parser of the action that is named, and the arguments that it is to parse."""
    parser.usage = "lycosa cluster ACTION [NAME] [option ...]"
    if not args or args[0] not in _SAID:
        parser.add_argument("action", choices=tuple(_SAID), metavar="ACTION", help="see below")
        return parser, args
    action = args[0]
    chosen = Parser(
        prog=f"lycosa cluster {action}",
        description=_SAID[action],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    configure(chosen, action)
    chosen.usage = f"lycosa cluster {action} {_USAGE.get(action, 'NAME [option ...]')}"
    chosen.set_defaults(action=action)
    return chosen, args[1:]


def configure(parser: argparse.ArgumentParser, action: str) -> None:
    """The flags of one action."""
    add = parser.add_argument
    if action != "list":
        add("name", metavar="NAME", help="the crawl's name: letters, digits and hyphens")
    if action == "create":
        own = parser.add_argument_group("the cluster's crawl")
        own.add_argument(
            "--shared",
            metavar="PLACE",
            help="shared storage: a directory all agents mount, s3://BUCKET/PREFIX, or nats (the servers)",
        )
        own.add_argument(
            "--replicas",
            type=int,
            choices=(1, 3, 5),
            help="copies kept by the servers (3; with one server 1)",
        )
        own.add_argument(
            "--lease", type=duration, metavar="TIME", help="time after which a dead agent is replaced (30s)"
        )
        own.add_argument(
            "--log-bytes", type=size, metavar="SIZE", help="size of each shard's log on the servers (256MiB)"
        )
        own.add_argument(
            "--exchange-bytes",
            type=size,
            metavar="SIZE",
            help="size of the links in transit per shard (256MiB)",
        )
        crawl_flags.configure(parser)
    elif action == "seed":
        add("seeds", nargs="*", default=[], metavar="URL", help="URLs (or hosts)")
        add(
            "--seeds",
            dest="seed_file",
            metavar="FILE",
            help="file with more URLs, one per line; - for standard input",
        )
    elif action == "control":
        from lycosa.crawl.acts import WHATS

        add("act", choices=WHATS, metavar="ACT", help="see lycosa control --help")
        add("words", nargs="*", default=[], metavar="WORD", help="arguments of the act")
        add("--who", default="", metavar="NAME", help="name for the log (default: user@machine)")
    elif action in ("status", "list"):
        add("--json", action="store_true", help="print one JSON document (with --watch: one per second)")
        if action == "status":
            add("--watch", action="store_true", help="update the status until the crawl ends")
    elif action == "fetch":
        add("--into", type=Path, metavar="DIR", help="a new directory, or that of an earlier fetch")
    elif action == "answer":
        add("--index", type=Path, metavar="DIR", help="a directory of the crawl, with an index")
        add(
            "--replica",
            metavar="NAME",
            help="name of this index, if others answer for the same shards (default: random)",
        )
    elif action == "search":
        add("words", nargs="+", metavar="QUERY", help="as for lycosa search")
        parser.set_defaults(minus_words=True)
        add(
            "--deadline",
            type=duration,
            default=0.5,
            metavar="TIME",
            help="time limit for the answer of each shard (0.5s)",
        )
        add("--count", type=int, default=10, metavar="N", help="number of results (10)")
        add("--skip", type=int, default=0, metavar="N", help="number of results to skip")
        add("--json", action="store_true", help="JSON lines: the answer, then its results")
    elif action == "remove":
        add("--yes", action="store_true", help="confirm the removal")
    reaching.add_flags(parser)


def run(args: argparse.Namespace) -> int:
    options = reaching.connection(args)
    if args.action == "list":
        return asyncio.run(_list(args, options))
    return asyncio.run(_with_operator(args, options, _ACTIONS[args.action]))


async def _list(args: argparse.Namespace, options: Any) -> int:
    import msgspec

    from lycosa.cluster.operating import Operator
    from lycosa.engine.nats.engine import every_crawl

    async with every_crawl(options) as engines:
        found = await Operator.crawls(engines)
    if args.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
        return 0
    if not found:
        print("there are no crawls on these servers: lycosa cluster create makes one")
        return 0
    print(
        f"{'crawl':<24} {'state':<9} {'pages':>13} {'pages/s':>9} {'pending':>13} {'shards':>7} {'agents':>7}"
    )
    for row in found:
        if "pages" not in row:
            print(f"{row['crawl']:<24} {row['state']:<9}")
            continue
        print(
            f"{row['crawl']:<24} {row['state']:<9} {row['pages']:>13,} {row['rate']:>9,.1f} {row['pending']:>13,}"
            f" {row['shards_total']:>7,} {row['agents']:>7,}"
        )
    return 0


async def _with_operator(
    args: argparse.Namespace, options: Any, act: Callable[[Operator, argparse.Namespace], Awaitable[int]]
) -> int:
    from lycosa.cluster.operating import Operator
    from lycosa.cluster.storage.opening import open_storage
    from lycosa.engine.nats.engine import NatsEngine

    engine = await NatsEngine.open(options, args.name)
    operator = Operator(engine, partial(open_storage, connection=options))
    try:
        return await act(operator, args)
    except LocalError as error:
        if operator.denied:
            raise ConfigError(f"{operator.denied} ({error})") from None
        raise
    finally:
        await operator.close()


async def _create(operator: Operator, args: argparse.Namespace) -> int:
    from lycosa.crawl.config import read_options, read_toml

    given: dict[str, Any] = {}
    seeds: list[str] = []
    if args.config is not None:
        given, seeds = read_toml(args.config)
        given.pop("into", None)
    for name in ("shared", "replicas", "lease"):
        if (value := given.pop(name, None)) is not None and getattr(args, name) is None:
            setattr(args, name, value)
    if args.shared is None:
        raise ConfigError(
            "give the shared storage: --shared DIR (a directory that all agents mount), "
            "--shared s3://BUCKET/PREFIX, or --shared nats (the servers themselves)"
        )
    seeds += args.seeds
    if args.seed_file is not None:
        seeds += crawl_flags.read_seeds(args.seed_file)
    crawl_flags.apply_flags(given, args)
    for text in args.set or []:
        crawl_flags.set_option(given, text)
    take_structure(given, args)
    if args.agents is not None:
        raise ConfigError("agents are started one by one: lycosa agent (as many as you like)")
    more: dict[str, Any] = {}
    for name in ("replicas", "lease", "log_bytes", "exchange_bytes"):
        if getattr(args, name) is not None:
            more[name] = getattr(args, name)
    refused = await operator.create(
        read_options(given),
        seeds,
        shared=args.shared,
        shards=args.shards,
        splitter=splitter_of(args),
        **more,
    )
    _say_refused(refused)
    print(f"created {args.name}: lycosa cluster start {args.name} begins it, lycosa agent joins it")
    return 0


async def _seed(operator: Operator, args: argparse.Namespace) -> int:
    seeds = list(args.seeds)
    if args.seed_file is not None:
        seeds += crawl_flags.read_seeds(args.seed_file)
    if not seeds:
        raise ConfigError("give at least one URL")
    refused = await operator.seed(seeds)
    _say_refused(refused)
    print(f"{counted(len(seeds) - len(refused), 'seed')} given to {args.name}")
    return 0


async def _control(operator: Operator, args: argparse.Namespace) -> int:
    from lycosa.crawl.steering import new_act

    _say_refused(await operator.act(new_act(args.act, tuple(args.words), args.who)))
    print(printable(f"{' '.join((args.act, *args.words[:3]))}: the agents of {args.name} take it up"))
    return 0


def _say_refused(refused: list[tuple[str, str]]) -> None:
    for url, rule in refused[:3]:
        print(f"note: the seed {printable(url)} is out of scope: {printable(rule)}", file=sys.stderr)


async def _start(operator: Operator, args: argparse.Namespace) -> int:
    await operator.start()
    print(f"{args.name} runs: agents join it with lycosa agent --crawl {args.name}")
    return 0


async def _pause(operator: Operator, args: argparse.Namespace) -> int:
    await operator.pause()
    print(f"{args.name} is paused: lycosa cluster start {args.name} goes on")
    return 0


async def _stop(operator: Operator, args: argparse.Namespace) -> int:
    await operator.stop()
    print(f"{args.name} stops: its agents save everything and end")
    return 0


async def _status(operator: Operator, args: argparse.Namespace) -> int:
    import msgspec

    from lycosa.ask.json_form import safe
    from lycosa.cluster.outcomes import Damaged
    from lycosa.engine.protocol import Unavailable

    shown = silent = False
    while True:
        try:
            found = await operator.status()
        except Unavailable as error:
            if not (args.watch and shown) or isinstance(error, Damaged):
                raise
            if not silent:  # a server died, or a leader is being elected: the client reconnects by itself
                print(f"note: {error}; trying again ...", file=sys.stderr, flush=True)
            silent = True
            await asyncio.sleep(1.0)
            continue
        shown, silent = True, False
        if args.json:
            document = safe(msgspec.json.encode(found))
            if not args.watch:
                document = msgspec.json.format(document)
            sys.stdout.write(document.decode() + "\n")
        else:
            clear = "\x1b[H\x1b[2J" if args.watch and sys.stdout.isatty() else ""
            print(clear + "\n".join(printable(line) for line in _lines(found)))
        sys.stdout.flush()
        over = found["state"] in ("finished", "limit", "stopped") and not found["agents"]
        if not args.watch or over:
            return 0
        await asyncio.sleep(1.0)


def _lines(found: dict[str, Any]) -> list[str]:
    """The status as text."""
    limit = f" of {show_count(found['page_limit'])}" if found["page_limit"] else ""
    lines = [
        f"{found['crawl']}: {found['state']}, {counted(len(found['agents']), 'agent')},"
        f" {counted(found['shards_total'], 'shard')} ({found['shards_held']} held),"
        f" {counted(found['replicas'], 'copy', 'copies')}, shared {found['shared']}",
        f"pages {show_count(found['pages'])}{limit}, {found['rate']:,.1f}/s   {show_size(found['bytes'])}"
        f"   links {show_count(found['links'])}   duplicates {show_count(found['duplicates'])}",
        f"pending {show_count(found['pending'])}   left behind {show_count(found['left_behind'])}"
        f"   deferred {show_count(found['deferred'])}   visits {show_count(found['visits'])}"
        f"   exchange backlog {show_count(found['backlog'])}",
    ]
    if found["lost"]:
        lines.append(
            f"lost and to be fetched again: {counted(found['lost'], 'page')} whose archive bytes are gone"
        )
    for row in found["silent"]:
        then = row["said"] or (
            f"others take its shards {', '.join(map(str, row['shards']))} when its lease is over"
            if row["shards"]
            else "it held no shards"
        )
        lines.append(f"agent {row['id']} has not been heard of for {show_duration(row['age'])}: {then}")
    lines += [f"passed over: {text}" for text in found["foreign"]]
    for agent in found["agents"]:
        shards = ", ".join(map(str, agent["shards"])) or "none yet"
        lines.append(f"  agent {agent['id']}: shards {shards}")
    lines.append("  shard  epoch  holder                pages     pending   behind  backlog  heard")
    for row in found["shards"]:
        heard = "-" if row["age"] is None else show_duration(row["age"])
        lines.append(
            f"  {row['shard']:>5}  {row['epoch']:>5}  {row['holder'] or '-':<20}  {row['pages']:>6,}"
            f"  {row['pending']:>9,}  {row['left_behind']:>7,}  {row['backlog']:>7,}  {heard}"
        )
    return lines


async def _fetch(operator: Operator, args: argparse.Namespace) -> int:
    if args.into is None:
        raise ConfigError("give a new directory: --into DIR")
    if (process := process_of(args.into)) is not None:
        raise ConfigError(
            f"{args.into} is kept current by process {process} (lycosa serve): it has what there is"
        )
    began = time.monotonic()
    found = await operator.fetch(
        args.into.absolute(), told=lambda text: print(text, file=sys.stderr, flush=True)
    )
    print(
        f"{counted(found.records, 'record')} of {counted(found.shards, 'shard')},"
        f" {counted(found.archives, 'archive file')}"
        f" ({show_size(found.bytes)}) in {show_duration(time.monotonic() - began)}"
    )
    if found.running:
        print(
            "note: agents still crawl or save; fetch again, into the same directory, for more",
            file=sys.stderr,
        )
    if found.missing:
        then = (
            "are not on shared storage yet"
            if found.running
            else "were not saved by their agents: run the crawl again to have them fetched again"
        )
        print(f"note: the archive bytes of {counted(found.missing, 'page')} {then}", file=sys.stderr)
    print(f"look at it: lycosa report {args.into}    lycosa explain {args.into} URL")
    return 0


async def _answer(operator: Operator, args: argparse.Namespace) -> int:
    import secrets

    if args.index is None:
        raise ConfigError("give the index: --index DIR, after lycosa cluster fetch and lycosa index")

    def answered(shards: list[int]) -> None:
        print(f"answering for shard {', '.join(map(str, shards))} of {args.name}; Ctrl-C ends it", flush=True)

    with contextlib.suppress(asyncio.CancelledError):
        await operator.answer_searches(args.index, args.replica or secrets.token_hex(8), answered)
    return 0


async def _search(operator: Operator, args: argparse.Namespace) -> int:
    from lycosa.cli import search as search_verb
    from lycosa.index.search import Asked

    if args.count < 1 or args.skip < 0 or not 0 < args.deadline <= 600:
        raise ConfigError("--count takes 1 or more, --skip 0 or more, --deadline more than 0 and 10m at most")
    text, asked = " ".join(args.words), Asked(count=args.count, skip=args.skip)
    answer = await operator.search(args.deadline, lambda search: search.search(text, asked))
    search_verb.show(answer, args.skip, as_json=args.json)
    return 0 if answer.results else 1


async def _remove(operator: Operator, args: argparse.Namespace) -> int:
    if not args.yes:
        raise ConfigError(f"this removes logs and exchange of {args.name} from the servers: add --yes")
    left = await operator.remove()
    print(f"{args.name} is gone from the servers; what is on shared storage ({left}) is yours to remove")
    return 0


_ACTIONS: dict[str, Callable[[Any, argparse.Namespace], Awaitable[int]]] = {
    "create": _create,
    "seed": _seed,
    "control": _control,
    "start": _start,
    "pause": _pause,
    "stop": _stop,
    "status": _status,
    "fetch": _fetch,
    "answer": _answer,
    "search": _search,
    "remove": _remove,
}
