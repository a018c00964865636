"""`lycosa lab predict`: predicts a crawl. When will it end, what will it cost, which limit binds?

    lycosa lab predict --crawl DIR          the crawl of DIR again: its pages, times, robots files, options
    lycosa lab predict --synthetic 10k      a web drawn from a seed

`--visits`, `--wait`, `--pages-per-visit`, `--order` and `--agents` are those of a crawl; `--link` is its
bandwidth, `--errors` the share of requests that fail. See `lycosa.lab.predict`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lycosa.cli import amounts
from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from lycosa.lab.predict import Predicted, Wanted
    from lycosa.lab.predict_web import PredictedWeb

Told = Callable[[str], None]
_KEPT = ("visits", "politeness", "frontier", "retry", "robots")
"""Options of a recorded crawl that its prediction uses."""
_HELPS = {
    "bandwidth": "a faster link would shorten it (--link)",
    "processor": "more agents would shorten it (--agents)",
    "visits": "more visits would shorten it (--visits)",
    "politeness": "more visits, agents or bandwidth would not shorten it; a shorter wait or more pages per visit"
    " might, if the sites permit it (--wait, --pages-per-visit)",
    "discovery": "no limit of the crawl would shorten it: it waits for the next links",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this verb has."""
    group = parser.add_argument_group("predict, tune")
    group.add_argument("--visits", type=int, metavar="N", help="visits at a time (the crawl's, or 256)")
    group.add_argument(
        "--wait", type=float, metavar="SECONDS", help="between visits of a host (the crawl's, or 1)"
    )
    group.add_argument("--pages-per-visit", type=int, metavar="N", help="pages per visit (the crawl's, or 8)")
    group.add_argument("--order", metavar="ORDER", help="order of the frontier (the crawl's, or depth)")
    group.add_argument(
        "--link",
        type=amounts.size,
        default=0,
        metavar="BYTES",
        help="bytes per second of all agents together (no limit)",
    )
    group.add_argument(
        "--errors", type=float, default=0.0, metavar="SHARE", help="share of requests that fail (0)"
    )
    group.add_argument(
        "--cost",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="predict, plan: use this cost instead of the measured one",
    )


def wanted_of(args: argparse.Namespace, options: dict[str, Any]) -> Wanted:
    """The crawl that the command line asks for, over the options of a recorded one."""
    from lycosa.frontier.options import ORDERS
    from lycosa.lab.predict import Wanted

    if args.order not in (None, *ORDERS):
        raise ConfigError(f"--order is one of {', '.join(ORDERS)}, not {args.order!r}")
    if not 0 <= args.errors < 1:
        raise ConfigError("--errors must be at least 0 and below 1")
    for name in ("agents", "pages"):
        if getattr(args, name) < 0:
            raise ConfigError(f"--{name} must be at least 0")
    return Wanted(
        agents=args.agents or 1,
        visits=args.visits,
        wait=args.wait,
        pages_per_visit=args.pages_per_visit,
        order=args.order,
        link=float(args.link),
        errors=args.errors,
        pages=args.pages,
        seed=args.seed,
        options=options,
    )


def recorded(directory: Path, tell: Told) -> tuple[PredictedWeb, dict[str, Any]]:
    """The web that a crawl has met, and its options."""
    from lycosa.ask.reading import CrawlReader
    from lycosa.crawl.config import encode_options
    from lycosa.lab.predict_web import from_records

    crawl = CrawlReader(directory)
    tell(f"reading the log of {directory}")
    web = from_records(directory.resolve().name, (record for _, _, record in crawl.records(by_time=True)))
    options = crawl.options()
    held = {} if options is None else json.loads(encode_options(options))
    kept = {name: held[name] for name in _KEPT if name in held}
    kept.get("frontier", {}).pop("scorer", None)  # code is not run unasked
    return web, kept


def run(args: argparse.Namespace, tell: Told, done: Callable[[], None]) -> int:
    from lycosa.lab.costs import Costs, given
    from lycosa.lab.experiments.web import from_synthetic
    from lycosa.lab.predict import predict, prepare
    from lycosa.lab.predict_web import from_web

    if (args.crawl is None) == (args.synthetic is None):
        raise ConfigError("give what is to be crawled: --crawl DIR or --synthetic N")
    options: dict[str, Any] = {}
    if args.crawl is not None:
        web, options = recorded(args.crawl, tell)
    else:
        wanted_of(args, options)  # errors are reported before a web is drawn
        web = from_web(from_synthetic(args.synthetic, args.seed, tell))
    tell(f"crawling {len(web.pages):,} pages on a virtual clock")
    wanted, costs = wanted_of(args, options), given(args.cost, Costs())
    prepare(wanted)
    made = predict(web, wanted, costs)
    done()
    print(json.dumps(as_json(made)) if args.json else "\n".join(lines(made)))
    return 0


def as_json(made: Predicted) -> dict[str, Any]:
    row = {
        one.name: getattr(made, one.name)
        for one in dataclasses.fields(made)
        if one.name not in ("order", "times")
    }
    row["web"] = {
        "name": made.web.name,
        "pages": len(made.web.pages),
        "hosts": len(made.web.sites),
        **made.web.notes,
    }
    row["wanted"] = made.wanted.table()
    if made.web.recorded:
        row["recorded"] = made.web.recorded
    return {**row, "binding": made.binding, "speed": made.speed}


def lines(made: Predicted) -> list[str]:
    """The prediction as text."""
    web, wanted = made.web, made.wanted
    bound = ", ".join(f"{name} {share:.0%}" for name, share in _ranked(made.bound))
    end = f"{made.last_host} is last, with {amounts.counted(made.last_host_pages, 'page')}"
    rows = [
        ("it takes", f"{_span(made.seconds)}; nine tenths of the pages after {_span(made.to_90)}"),
        (
            "pages",
            f"{made.pages:,} in {made.requests:,} requests, {made.pages / max(made.seconds, 1e-9):.3g} per second",
        ),
        ("what binds", bound),
        ("", _HELPS[made.binding]),
        ("the end", f"{end}; {made.hosts_at_90:,} of {made.hosts:,} hosts had pages left at nine tenths"),
        ("traffic", amounts.show_size(made.traffic)),
        (
            "disk",
            f"archive {amounts.show_size(made.archive)}, log {amounts.show_size(made.log)}, "
            f"state {amounts.show_size(made.state)}",
        ),
        ("memory", f"{amounts.show_size(made.memory)}, at most {made.most_waiting:,} URLs waiting"),
        ("CPU of the crawl", f"{_span(made.cpu)} on {amounts.counted(wanted.agents, 'agent')}"),
        (
            "this prediction",
            f"{_span(made.simulated_cpu)} of CPU: {made.speed:,.0f} simulated seconds in each",
        ),
    ]
    if web.recorded and not wanted.pages:
        off = made.seconds / web.recorded - 1
        rows.insert(1, ("recorded", f"{_span(web.recorded)}: the prediction is {off:+.0%}"))
    head = (
        f"{web.name}: {amounts.counted(len(web.pages), 'page')} on {amounts.counted(len(web.sites), 'host')}"
    )
    return [head, *(f"{name.ljust(17)} {text}" for name, text in rows)]


def _ranked(bound: dict[str, float]) -> list[tuple[str, float]]:
    found = sorted(bound.items(), key=lambda item: -item[1])
    return [(name, share) for name, share in found if share >= 0.005] or found[:1]


def _span(seconds: float) -> str:
    """A time formatted for people."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {left} s"
