"""`lycosa lab`: experiments of the papers, on any graph; and clusters in trouble, simulated.

    lycosa lab list, run, report
                                the papers' tables and figures beside ours: `lycosa.cli.lab_run`
    lycosa lab sydney GRAPH     how long do the queues of a crawl get, under which rule? After Castillo, Nelli and
                                Panconesi, "Crawling the Web with Limited Memory"
    lycosa lab freshness        how fresh is a collection that is refetched, under which policy?
                                `lycosa.cli.lab_freshness`
    lycosa lab partition DIR    how to spread a search index over nodes? `lycosa.cli.lab_partition`
    lycosa lab predict          when will a crawl end, and which limit binds? `lycosa.cli.lab_predict`
    lycosa lab plan             machines, memory, disk and days of a crawl of any size. `lycosa.cli.lab_plan`
    lycosa lab tune             what would other options have achieved in a crawl? `lycosa.cli.lab_tune`
    lycosa lab simulate         does a cluster stay correct, whatever happens to it? `lycosa.cli.lab_simulate`

GRAPH is the name of a BV graph (with or without its `.graph`), or a directory with a link graph: that of a crawl,
after `lycosa graph build`. Nothing is fetched: simulating a crawl of a million pages takes about a second.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib.util
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lycosa.cli import lab_freshness, lab_partition, lab_plan, lab_predict, lab_run, lab_simulate, lab_tune
from lycosa.cli.amounts import counted
from lycosa.cli.streams import replacing
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles, scratch

if TYPE_CHECKING:
    from lycosa.lab.experiments.sydney import Row, Rule, Subject, Trace

HELP = "run experiments: the papers' tables and figures, predictions, plans, simulated clusters"
EPILOG = """\
examples:
  lycosa lab list                                  the papers' experiments
  lycosa lab run caching --synthetic 1M --plot figures/
  lycosa lab run caching --graph cnr-2000 --keep results/
  lycosa lab report results/                       one page of all results
  lycosa lab sydney cnr-2000                       any BV graph
  lycosa lab sydney crawl/ --plot sydney.png       the pages of a crawl, after lycosa graph build
  lycosa lab sydney cnr-2000 --t 16,4 --budget 2,10 --json
  lycosa lab freshness --plot freshness.png        policies for coming back, beside the optimum
  lycosa lab partition crawl/                      its search index over nodes, by documents and by terms; tiers
  lycosa lab predict --crawl crawl/ --wait 2       the crawl once more, with another wait: when will it end?
  lycosa lab predict --synthetic 10k --agents 2 --link 2MB
  lycosa lab plan --pages 10G --agents 200         machines, memory, disk, days; what breaks first
  lycosa lab tune --crawl crawl/                   what other options would have given it
  lycosa lab simulate --seed 7                     a cluster, a web and all that happens to them, from one number
  lycosa lab simulate --seed 7 --trace http://h1.test/
  lycosa lab simulate --seeds 1-100
"""

_CRAWLED = "agents cost crawl errors link order pages pages_per_visit seed synthetic visits wait"
_TAKES = {
    "list": "",
    "run": "graph crawl keep like on_graph plot policy seed synthetic",
    "report": "graph to",
    "sydney": "graph budget plot repeat seed shallow start t through",
    "predict": _CRAWLED,
    "plan": "agents check cost hosts largest link machine_disk machine_memory measure pages pages_per_visit"
    " per_machine visits wait within",
    "tune": _CRAWLED,
    "simulate": "agents pages seed seeds shards trace",
    "freshness": "days on_sites plot rates seed warm web",
    "partition": "graph most nodes queries seed",
}
"""What each takes, besides --json: `graph` is the NAME."""
WHATS = tuple(_TAKES)
_PATIENCE = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=WHATS,
        metavar="WHAT",
        help=f"{', '.join(WHATS[:-1])} or {WHATS[-1]}",
    )
    parser.add_argument(
        "graph",
        metavar="NAME",
        type=Path,
        nargs="?",
        help="run: the experiment; report: where results are; sydney: a BV graph, or a directory with a link graph",
    )
    parser.add_argument(
        "--start",
        type=_numbers,
        default=[],
        metavar="N,N…",
        help="nodes to start from (the best one found, or seeds)",
    )
    parser.add_argument(
        "--t",
        type=_numbers,
        default=[64, 32, 16, 8],
        metavar="N,N…",
        help="links of a page at a time (64,32,16,8)",
    )
    parser.add_argument(
        "--budget",
        type=_numbers,
        default=[3, 5, 7],
        metavar="N,N…",
        help="budgets, percent of the pages (3,5,7)",
    )
    parser.add_argument(
        "--shallow",
        type=int,
        default=0,
        metavar="N",
        help="pages less deep than this are sampled (the median depth)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of all random choices (0)")
    parser.add_argument(
        "--repeat", type=int, default=1, metavar="N", help="crawl N times with different samples (1)"
    )
    parser.add_argument(
        "--through",
        action="store_true",
        help="also crawl with a real shard, and compare; takes minutes",
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    lab_simulate.add_options(parser)
    lab_freshness.add_options(parser)
    lab_partition.add_options(parser)
    lab_run.add_options(parser)
    lab_predict.add_options(parser)
    lab_plan.add_options(parser)
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE.png",
        help="curves, as a picture (needs lycosa[lab]); run: a directory for figures as SVG",
    )


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 16,8") from None


class _Teller:
    """Shows progress on standard error: nothing for the first two seconds."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PATIENCE
        self._open = False

    def __call__(self, what: str) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now if sys.stderr.isatty() else now + _PATIENCE
        self._open = sys.stderr.isatty()
        sys.stderr.write(f"\r\x1b[Klycosa lab: {what} ..." if self._open else f"lycosa lab: {what} ...\n")
        sys.stderr.flush()

    def done(self) -> None:
        if self._open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        self._open = False


def _refuse_foreign(args: argparse.Namespace) -> None:
    """Refuse options of the others: --pages with freshness would be ignored, and the whole web run through."""
    parser = argparse.ArgumentParser()
    configure(parser)
    takes = {"what", "json", *_TAKES[args.what].split()}
    for name, default in vars(parser.parse_args([args.what])).items():
        if name in takes or getattr(args, name) == default:
            continue
        if name == "graph":
            raise ConfigError(f"{args.what} takes no name: {args.graph}")
        of = ", ".join(what for what, names in _TAKES.items() if name in names.split())
        flag = "--graph" if name == "on_graph" else f"--{name.replace('_', '-')}"
        raise ConfigError(f"{args.what} has no {flag}: it is an option of {of}")


def run(args: argparse.Namespace) -> int:
    _refuse_foreign(args)
    args.pages = args.pages or 0  # its default tells only whether it was given
    tell = _Teller()
    if args.what == "simulate":
        return lab_simulate.run(args, tell, tell.done)
    if args.what == "partition":
        return lab_partition.run(args)
    if args.what == "freshness":
        return lab_freshness.run(args, tell, tell.done)
    if args.what == "list":
        return lab_run.show_list()
    if args.what == "report":
        return lab_run.report(args)
    if args.what == "tune":
        return lab_tune.run(args, tell, tell.done)
    if args.what == "plan":
        return lab_plan.run(args)
    if args.what == "predict":
        return lab_predict.run(args, tell, tell.done)
    if args.what == "run":
        return lab_run.run(args, tell, tell.done)
    if args.graph is None:
        raise ConfigError("give a graph: a BV graph, or a directory with a link graph")
    return _sydney(args)


def _sydney(args: argparse.Namespace) -> int:
    from lycosa.lab.experiments.sydney import experiment, median_row, reshuffled, rules

    for name, value, least in (
        ("t", min(args.t), 1),
        ("budget", min(args.budget), 1),
        ("repeat", args.repeat, 1),
        ("shallow", args.shallow, 0),
        ("seed", args.seed, 0),
    ):
        if value < least:
            raise ConfigError(f"--{name} must be at least {least}")
    if args.plot is not None and importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("plots need matplotlib: pip install 'lycosa[lab]'")
    if args.plot is not None and args.plot.is_dir():
        raise ConfigError(f"cannot write {args.plot}: it is a directory")
    tell = _Teller()
    subject = _subject(args, tell)
    shallow = args.shallow or _middle(subject)
    samples = sorted(set(args.t), reverse=True)
    chosen = rules(samples, [share / 100 for share in sorted(set(args.budget))], shallow)
    runs: dict[str, tuple[Rule, Trace]] = {}
    rows: dict[str, list[Row]] = {}
    for rule, trace, row in experiment(subject, chosen, lambda rule: tell(f"crawling, {rule.name}")):
        runs[rule.name] = (rule, trace)
        rows[rule.name] = [row]
    explored = len(runs["breadth-first"][1].order)
    for number in range(1, args.repeat):
        tell(f"crawling again, {number + 1} of {args.repeat}")
        for rule, _, row in experiment(reshuffled(subject, number), chosen):
            rows[rule.name].append(row)
    head = {
        "graph": _name(args.graph),
        "nodes": subject.lists.count,
        "arcs": len(subject.lists.nodes),
        "start": subject.sources.tolist(),
        "explored": explored,
        "shallow": shallow,
        "seed": args.seed,
        "repeat": args.repeat,
    }
    if args.plot is not None:
        from lycosa.lab.experiments.sydney_plot import plot

        tell("drawing")
        title = f"{head['graph']}: {counted(explored, 'page')} from {_start(head)}"
        with replacing(args.plot) as draft:
            plot(draft, title, subject, runs)
    tell.done()
    if args.json:
        print(json.dumps(head))
        for rule in chosen:
            made = rows[rule.name]
            more = {"peaks": [row.peak for row in made], "coverages": [row.coverage for row in made]}
            print(json.dumps({**median_row(made)._asdict(), **more, "paper": _paper(rule)}))
    else:
        _print(head, chosen, rows)
    ours = [rule for rule in chosen if rule.mode]
    return _through(args, subject, ours, explored, tell) if args.through else 0


def _subject(args: argparse.Namespace, tell: _Teller) -> Subject:
    from lycosa.graph.bv import BVGraph
    from lycosa.graph.store import GraphStore
    from lycosa.lab.experiments.sydney_subject import from_numbers, from_store

    path: Path = args.graph
    if path.is_dir():
        for directory in (path / "graph", path):
            if (directory / "graph.json").exists():
                return from_store(GraphStore.open(DiskFiles(directory)), args.start, args.seed, tell)
        raise ConfigError(f"{path} has no link graph: `lycosa graph build` makes that of a crawl")
    name = _name(path)
    if not (path.parent / f"{name}.properties").exists():
        raise ConfigError(
            f"{path} is not a graph: neither a directory with one nor a BV graph ({name}.properties)"
        )
    return from_numbers(BVGraph.open(DiskFiles(path.parent), name), args.start, args.seed, tell)


def _name(path: Path) -> str:
    """The name of a BV graph: its files' name without their endings."""
    name = path.resolve().name if path.is_dir() else path.name
    for ending in (".graph", ".properties", ".offsets"):
        name = name.removesuffix(ending)
    return name


def _middle(subject: Subject) -> int:
    """The median depth, so that half of the pages are sampled."""
    inside = sorted(subject.depths[subject.depths >= 0].tolist())
    return max(int(inside[len(inside) // 2]), 1)


def _paper(rule: Rule) -> dict[str, float]:
    """The paper's numbers for a rule, from its Tables 1 and 2."""
    from lycosa.lab.experiments.sydney import BFS, PAPER_COVERAGE, PAPER_PEAK, PAPER_RETURNED, Rule

    if rule in (BFS, Rule(f"t={rule.t}", t=rule.t)) and rule.t in PAPER_PEAK:
        return {"peak": PAPER_PEAK[rule.t], "returned": PAPER_RETURNED[rule.t]}
    if rule.budget and (rule.t, rule.budget) in PAPER_COVERAGE:
        return {"coverage": PAPER_COVERAGE[rule.t, rule.budget]}
    return {}


def _print(head: dict[str, Any], rules: Sequence[Rule], rows: dict[str, list[Row]]) -> None:
    from lycosa.lab.experiments.sydney import median_row

    print(f"{head['graph']}: {counted(head['nodes'], 'page')}, {counted(head['arcs'], 'link')}")
    explored = counted(head["explored"], "page")
    print(f"start: {_start(head)}; explored: {explored}; shallow: depth below {head['shallow']}")
    print("shares of the explored pages, in percent; in brackets what the paper has for a larger web")
    measures = list(rows[rules[0].name][0].worth)
    titles = ["rule", "coverage", "|P|+|S|", "of BFS", "|P|", "|S|", "came back", "returns"]
    titles += [f"{name} at 25 50 75" for name in measures]
    if head["repeat"] > 1:
        print(f"medians of {head['repeat']} crawls")
        titles += ["|P|+|S|: least, most", "coverage: the same"]
    table = [titles]
    for rule in rules:
        made = rows[rule.name]
        row = median_row(made)
        paper = _paper(rule)
        shown = [
            _share(row.coverage, paper.get("coverage")),
            _share(row.peak, paper.get("peak")),
            f"{100 * row.of_bfs:.0f}",
            _share(row.peak_p),
            _share(row.peak_s),
            _share(row.returned, paper.get("returned")),
            _share(row.returns),
        ]
        points = [row.worth[name][:3] for name in measures]
        worth = [" ".join("-" if x is None else f"{100 * x:.0f}" for x in three) for three in points]
        if head["repeat"] > 1:
            worth += [_spread([row.peak for row in made]), _spread([row.coverage for row in made])]
        table.append([rule.name, *shown, *worth])
    widths = [max(len(line[i]) for line in table) for i in range(len(titles))]
    for line in table:
        cells = [
            line[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
        ]
        print("  ".join(cells).rstrip())


def _start(head: dict[str, Any]) -> str:
    nodes: list[int] = head["start"]
    shown = ", ".join(str(node) for node in nodes[:8]) + (" …" if len(nodes) > 8 else "")
    return f"node {shown}" if len(nodes) == 1 else f"nodes {shown}"


def _spread(values: Sequence[float]) -> str:
    return f"{_share(min(values))} {_share(max(values))}"


def _share(value: float, paper: float | None = None) -> str:
    shown = f"{100 * value:.2f}" if value < 0.9995 else "100"
    return shown if paper is None else f"{shown} ({100 * paper:.3g})"


def _through(
    args: argparse.Namespace, subject: Subject, rules: Sequence[Rule], explored: int, tell: _Teller
) -> int:
    """Crawl through a real shard under the frontier's own rules, and report whether the kernel agrees."""
    from lycosa.lab.experiments.sydney import crawl, plan_of
    from lycosa.lab.experiments.sydney_frontier import crawl_through, keys_of

    keys = keys_of(subject.depths, args.seed)
    subject = dataclasses.replace(subject, keys=keys)
    differ = 0
    for rule in rules:
        began = time.monotonic()
        told = functools.partial(_tell_pages, tell, rule.name)
        with scratch("lycosa-lab-") as place:
            through = crawl_through(DiskFiles(place), subject, rule, explored, args.seed, told)
        row: dict[str, Any] = {
            "rule": rule.name,
            "through": "shard",
            "coverage": len(through.order) / explored,
            "peak": through.peak / explored,
            "returns": through.returns / explored,
            "seconds": round(time.monotonic() - began, 1),
        }
        trace = crawl(subject, plan_of(rule, subject, explored, through.base))
        row["as_kernel"] = through.order == trace.order.tolist() and through.peak == trace.peak
        differ += not row["as_kernel"]
        tell.done()
        text = (
            f"through a shard, {rule.name}: coverage {_share(row['coverage'])}, |P|+|S| {_share(row['peak'])}, "
            f"returns {_share(row['returns'])}, {row['seconds']:.0f} s: "
            f"{'page by page' if row['as_kernel'] else 'NOT'} as the kernel"
        )
        print(json.dumps(row) if args.json else text, flush=True)
    return 1 if differ else 0


def _tell_pages(tell: _Teller, rule: str, pages: int) -> None:
    tell(f"a shard, {rule}: {counted(pages, 'page')}")
