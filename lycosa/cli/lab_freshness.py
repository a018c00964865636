"""`lycosa lab freshness`: policies for refetching pages, on a web with known rates; see the experiment itself."""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from lycosa.cli.amounts import counted
from lycosa.cli.streams import replacing
from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from lycosa.lab.experiments.freshness import Table


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this experiment has."""
    group = parser.add_argument_group("freshness")
    group.add_argument("--web", type=int, default=4_000, metavar="N", help="pages of the web (4000)")
    group.add_argument("--on-sites", type=int, default=80, metavar="N", help="number of sites (80)")
    group.add_argument("--days", type=int, default=30, metavar="N", help="days to measure (30)")
    group.add_argument(
        "--warm", type=int, default=0, metavar="N", help="days of revisits before the measured ones (0)"
    )
    group.add_argument(
        "--rates",
        type=_rates,
        default=[0.1, 0.3, 1.0],
        metavar="X,X…",
        help="fetches per page and day (0.1,0.3,1)",
    )


def _rates(text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < each < 1e6 for each in found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 0.1,0.3,1")
    return found


def run(args: argparse.Namespace, tell: Callable[[str], None], done: Callable[[], None]) -> int:
    from lycosa.lab.experiments.freshness import experiment, make_web

    for name in ("web", "on_sites", "days"):
        if getattr(args, name) < 1:
            raise ConfigError(f"--{name.replace('_', '-')} must be at least 1")
    if args.warm < 0:
        raise ConfigError("--warm must be at least 0")
    if args.plot is not None and importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("plots need matplotlib: pip install 'lycosa[lab]'")
    web = make_web(args.web, args.on_sites, args.seed)
    tables = experiment(web, args.rates, seed=args.seed + 1, days=args.days, warm=args.warm, tell=tell)
    done()
    if args.json:
        for table in tables:
            for row in table.rows:
                print(json.dumps({**row._asdict(), "optimum": table.optimum}))
    else:
        print(
            f"{counted(args.web, 'page')} on {counted(args.on_sites, 'site')}, {counted(args.days, 'day')}"
            f"{f' after {args.warm} others' if args.warm else ''}; freshness weighted by importance, in percent"
        )
        _print(tables)
    if args.plot is not None:
        with replacing(args.plot) as draft:
            _plot(draft, tables)
    return 0


def _print(tables: list[Table]) -> None:
    print(
        f"{'fetches a page and day':<24}{'policy':<20}{'fresh':>8}{'of optimum':>12}{'made':>8}{'estimate':>10}"
    )
    for table in tables:
        print(f"{table.budget:<24g}{'periodic optimum':<20}{100 * table.optimum:>8.1f}{'100.0':>12}")
        for row in table.rows:
            print(
                f"{'':<24}{row.policy:<20}{100 * row.fresh:>8.1f}{100 * row.fresh / table.optimum:>12.1f}"
                f"{row.fetches:>8.3f}{100 * row.error:>+10.1f}"
            )


def _plot(path: Path, tables: list[Table]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(tables), figsize=(4 * len(tables), 3.2), sharey=True, squeeze=False)
    for axis, table in zip(axes[0], tables, strict=True):
        for row in table.rows:
            axis.plot(range(1, len(row.curve) + 1), row.curve, label=row.policy, linewidth=1.2)
        axis.axhline(table.optimum, color="black", linestyle=":", linewidth=1, label="periodic optimum")
        axis.set_title(f"{table.budget:g} fetches a page and day", fontsize=9)
        axis.set_xlabel("day")
        axis.set_ylim(0, 1)
    axes[0][0].set_ylabel("fresh, weighted by importance")
    axes[0][-1].legend(fontsize=7, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, format="png", dpi=110)
