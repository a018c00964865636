"""`lycosa lab list`, `run` and `report`: the papers' experiments, their numbers beside ours.

    lycosa lab list                  what can be run
    lycosa lab run NAME --graph G    on a BV graph; or --crawl DIR: on a crawl; or --synthetic 1M: on a web drawn
    lycosa lab report DIR            one page of the results that `--keep DIR` has saved

`--json` prints one object: definitions, every number with the paper's and a verdict, the points of every figure.
`--plot DIR` writes the figures as SVG. `--policy FILE.py:NAME` compares an order, a scorer or a cache of the user's
with the paper's (scheduling, caching).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from lycosa.cli import amounts
from lycosa.cli.streams import replacing
from lycosa.errors import ConfigError, LycosaError, StorageError
from lycosa.files import DiskFiles

if TYPE_CHECKING:
    from lycosa.lab.experiments.result import Result
    from lycosa.lab.experiments.web import Web

Told = Callable[[str], None]
_PAGE = 100
"""Bytes that a page of a synthetic web takes at least: a dozen links of four bytes, and what is known of it."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only these verbs have."""
    group = parser.add_argument_group("run, report")
    group.add_argument("--graph", dest="on_graph", type=Path, metavar="G", help="a BV graph to run on")
    group.add_argument(
        "--crawl", type=Path, metavar="DIR", help="a crawl to run on, after lycosa graph build"
    )
    group.add_argument("--synthetic", type=_count, metavar="N", help="a random web of N pages (1M)")
    group.add_argument(
        "--like",
        type=Path,
        metavar="G",
        help="--synthetic: draw a web like this one, a BV graph or a crawl with a link graph",
    )
    group.add_argument(
        "--policy",
        metavar="FILE.py:NAME",
        help="run scheduling, caching: an order, a scorer or a cache of your own, beside the paper's",
    )
    group.add_argument("--keep", type=Path, metavar="DIR", help="keep the result here, for lycosa lab report")
    group.add_argument(
        "--to", type=Path, metavar="FILE", help="report: the page, HTML or .md (report.html in DIR)"
    )


def _count(text: str) -> int:
    try:
        return amounts.size(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 200k or 10M") from None


_WIDTH = 76
"""Columns of the list, without the two spaces before its text."""


def show_list() -> int:
    from lycosa.lab.experiments.register import EXPERIMENTS

    wide = max(len(entry.name) for entry in EXPERIMENTS)
    for entry in EXPERIMENTS:
        for number, line in enumerate([*wrap(entry.shows, _WIDTH - wide), *wrap(entry.paper, _WIDTH - wide)]):
            print(f"{'' if number else entry.name:{wide}}  {line}")
    return 0


def run(args: argparse.Namespace, tell: Told, done: Callable[[], None]) -> int:
    from lycosa.lab.experiments.register import find

    if args.graph is None:
        raise ConfigError("name an experiment: `lycosa lab list` prints them")
    entry = find(str(args.graph))
    given = [name for name in ("on_graph", "crawl", "synthetic") if getattr(args, name) is not None]
    if len(given) != 1:
        raise ConfigError("give what to run on: one of --graph G, --crawl DIR, --synthetic N")
    if args.like is not None and args.synthetic is None:
        raise ConfigError("--like is what a --synthetic web is to be like")
    for name in ("plot", "keep"):
        place: Path | None = getattr(args, name)
        if place is not None and place.exists() and not place.is_dir():
            raise ConfigError(f"--{name} is a directory, and {place} is a file")
        if place is not None:
            _make(place)  # before the run: its result would be lost
    module = entry.load_policy() if args.policy else entry.load()
    result: Result
    if args.policy:
        result = _with_policy(module, args, tell)
    elif hasattr(module, "run_alone"):
        if args.synthetic is None or args.like is not None:
            raise ConfigError(f"{entry.name} draws its own URLs: say how many with --synthetic N alone")
        result = module.run_alone(args.synthetic, args.seed, tell)
    else:
        result = _apart(lambda: module.run(_web(args, tell), tell))
    done()
    if args.json:
        print(json.dumps(result.as_json()))
    else:
        _print(result)
    if args.plot is not None:
        _plot(args.plot, result)
    if args.keep is not None:
        _write(
            args.keep, f"{result.experiment}.{result.web['name']}.json", json.dumps(result.as_json()) + "\n"
        )
    return 0


def _apart(work: Callable[[], Result]) -> Result:
    """Run it in a thread: signals wait for a kernel in the main thread, and one takes minutes on a large web."""
    done: Future[Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done.result()


def _with_policy(module: Any, args: argparse.Namespace, tell: Told) -> Result:
    """Run a policy of the user's; if its code fails, the failing line is named."""
    from lycosa.plugins import load_named

    policy = load_named(args.policy, "--policy")
    place, _, name = args.policy.rpartition(":")
    web = _web(args, tell)
    try:
        return _apart(lambda: module.run_policy(web, policy, name, tell))
    except LycosaError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        file = place if place.endswith(".py") else getattr(sys.modules.get(place), "__file__", None) or place
        own = Path(file).expanduser().resolve()
        his = [frame.lineno for frame in frames if Path(frame.filename).resolve() == own]
        if not his:
            raise
        raise ConfigError(f"--policy: {place}, line {his[-1]}: {type(error).__name__}: {error}") from None


def _web(args: argparse.Namespace, tell: Told) -> Web:
    from lycosa.lab.experiments.web import from_synthetic

    if args.synthetic is not None:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if args.synthetic * _PAGE > memory:
            raise ConfigError(
                f"--synthetic: {args.synthetic:,} pages take at least {amounts.show_size(args.synthetic * _PAGE)} "
                f"of memory, and this machine has {amounts.show_size(memory)}"
            )
        like: Path | None = args.like
        if like is None:
            return from_synthetic(args.synthetic, args.seed, tell)
        model = (_of_crawl if like.is_dir() else _of_graph)(like, args.seed, tell)
        return from_synthetic(args.synthetic, args.seed, tell, model)
    if args.on_graph is not None:
        return _of_graph(args.on_graph, args.seed, tell)
    return _of_crawl(args.crawl, args.seed, tell)


def _of_graph(path: Path, seed: int, tell: Told) -> Web:
    from lycosa.graph.bv import BVGraph
    from lycosa.lab.experiments.web import from_graph

    name = re.sub(r"\.(graph|properties|offsets)$", "", path.name)
    if not (path.parent / f"{name}.properties").exists():
        raise ConfigError(f"{path} is not a BV graph: there is no {name}.properties")
    return from_graph(BVGraph.open(DiskFiles(path.parent), name), name, seed, tell)


def _of_crawl(directory: Path, seed: int, tell: Told) -> Web:
    from lycosa.graph.store import GraphStore
    from lycosa.lab.experiments.web import from_store

    for place in (directory / "graph", directory):
        if (place / "graph.json").exists():
            store = GraphStore.open(DiskFiles(place))
            name = directory.resolve().name
            return from_store(store, name, seed, tell, _measured(directory, tell), _own(directory))
    raise ConfigError(f"{directory} has no link graph: `lycosa graph build` makes that of a crawl")


def _measured(directory: Path, tell: Told) -> dict[str, tuple[int, float, float, int]]:
    """Sizes and times of the fetches in a crawl's log; nothing for a graph without a crawl."""
    from lycosa.ask.reading import CrawlReader
    from lycosa.records import Fetched

    found: dict[str, tuple[int, float, float, int]] = {}
    try:
        crawl = CrawlReader(directory)
    except ConfigError:
        return found
    for number, (_, _, record) in enumerate(crawl.records()):
        if isinstance(record, Fetched):
            timing = record.timing
            since = found[record.url][3] if record.url in found else record.at
            found[record.url] = (record.size, timing.first_byte / 1000, timing.total / 1000, since)
        if not number & 0xFFFF:
            tell(f"reading the log, {number:,} records")
    return found


def _own(directory: Path) -> dict[str, Any]:
    """The crawl's own parameters, in terms of the scheduling experiment; nothing if there is no crawl."""
    from lycosa.ask.reading import CrawlReader

    try:
        options = CrawlReader(directory).options()
    except ConfigError:
        options = None
    if options is None:
        return {}
    order = options.frontier.order
    return {
        "order": order if order in ("depth", "length", "batch", "partial") else "depth",
        "r": options.visits,
        "c": options.politeness.pages_per_visit,
        "w": options.politeness.wait,
        "between": options.frontier.batch,
    }


def _print(result: Result) -> None:
    from lycosa.lab.experiments.result import table

    web = result.web
    size = f"{web['pages']:,} pages, {web['links']:,} links" if "links" in web else f"{web['pages']:,} URLs"
    print(f"{result.experiment}: {result.paper}\n{result.claim}\n\n{web['name']}: {size}")
    for name, text in result.definitions.items():
        print(f"  {name}: {text}")
    print()
    rows = table(result.lines)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.rjust(width) if 2 <= i <= 4 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
    whys = dict.fromkeys(line.why for line in result.lines if line.why)
    for why in whys:
        print(f"\n{why}")


def _plot(place: Path, result: Result) -> None:
    from lycosa.lab.experiments.drawing import svg

    for figure in result.figures:
        name = re.sub(r"[^a-z0-9]+", "-", figure.name.lower()).strip("-")
        _write(place, f"{result.experiment}-{name}.svg", svg(figure))


def _make(place: Path) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make {place}: {error.strerror}") from None


def _write(place: Path, name: str, text: str) -> None:
    with replacing(place / name) as draft:
        draft.write_text(text, encoding="utf-8")


def report(args: argparse.Namespace) -> int:
    from lycosa.lab.experiments.register import EXPERIMENTS
    from lycosa.lab.experiments.report_page import markdown, page
    from lycosa.lab.experiments.result import Result

    place: Path | None = args.graph
    if place is None or not place.is_dir():
        raise ConfigError("give the directory of the results, as given to `lycosa lab run --keep`")
    order = [entry.name for entry in EXPERIMENTS]
    found: list[Result] = []
    for path in sorted(place.glob("*.json")):
        try:
            kept = Result.from_json(path.read_bytes())
        except (ValueError, KeyError, TypeError, OSError):
            raise ConfigError(f"{path} is not a result of `lycosa lab run --keep`") from None
        found.append(kept)
    if not found:
        raise ConfigError(f"{place} holds no results: `lycosa lab run NAME --keep {place}` makes them")
    found.sort(key=lambda one: order.index(one.experiment) if one.experiment in order else len(order))
    to: Path = args.to or place / "report.html"
    with replacing(to) as draft:
        draft.write_text(markdown(found) if to.suffix == ".md" else page(found), encoding="utf-8")
    print(f"{to}: {len(found)} results")
    return 0
