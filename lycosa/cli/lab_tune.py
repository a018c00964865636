"""`lycosa lab tune`: what other options would have achieved in a crawl, and the TOML to use.

    lycosa lab tune --crawl DIR

See `lycosa.lab.tune`. Options of `lycosa lab predict` change the baseline.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lycosa.cli import amounts, lab_predict
from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from lycosa.lab.tune import Trial, Tuned

Told = Callable[[str], None]


def run(args: argparse.Namespace, tell: Told, done: Callable[[], None]) -> int:
    from lycosa.lab.costs import Costs, given
    from lycosa.lab.tune import tune

    if args.crawl is None:
        raise ConfigError("give the crawl: --crawl DIR")
    web, options = lab_predict.recorded(args.crawl, tell)
    made = tune(web, lab_predict.wanted_of(args, options), tell, given(args.cost, Costs()))
    done()
    if args.json:
        rows = [_row(trial) for trial in (made.baseline, *made.trials, made.proposed)]
        answer = {"trials": rows, "hits": made.hits, "options": made.options, "cache": made.cache}
        print(json.dumps({"web": web.name, "recorded": web.recorded, **answer}))
    else:
        _print(made)
    return 0


def _row(trial: Trial) -> dict[str, Any]:
    made = trial.predicted
    return {
        "what": trial.what,
        "value": trial.value,
        "seconds": made.seconds,
        "pages_per_second": made.pages / max(made.seconds, 1e-9),
        "to_90": made.to_90,
        "rank": trial.rank,
        "memory": made.memory,
        "most_waiting": made.most_waiting,
        "binding": made.binding,
    }


def _print(made: Tuned) -> None:
    web = made.baseline.predicted.web
    print(
        f"{web.name}: {amounts.counted(len(web.pages), 'page')}; it took {amounts.show_duration(web.recorded)}"
    )
    titles = ["", "", "time", "pages/s", "nine of ten", "rank", "waiting", "binds"]
    table = [titles]
    trials = [made.baseline, *made.trials]
    if made.proposed is not made.baseline:
        trials.append(made.proposed)
    for trial in trials:
        row = _row(trial)
        table.append(
            [
                trial.what,
                str(trial.value),
                amounts.show_duration(row["seconds"]),
                f"{row['pages_per_second']:.3g}",
                amounts.show_duration(row["to_90"]),
                f"{row['rank']:.3f}",
                f"{row['most_waiting']:,}",
                row["binding"],
            ]
        )
    widths = [max(len(line[i]) for line in table) for i in range(len(titles))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if made.hits:
        shown = ", ".join(f"{entries:,}: {share:.1%}" for entries, share in made.hits.items())
        print(f"\nhits of the URL cache by its entries: {shown}")
    if made.options:
        gain = 1 - made.proposed.seconds / max(made.baseline.seconds, 1e-9)
        print(f"\nproposed, {gain:.0%} less time and rank {made.proposed.rank:.3f}; for crawl.toml:\n")
        print(toml(made.options))
    else:
        print("\nnothing that was tried is better: leave the options as they are")


def toml(options: dict[str, Any]) -> str:
    """Options in the form of crawl.toml."""
    lines = [f"{name} = {_value(value)}" for name, value in options.items() if not isinstance(value, dict)]
    for room, values in options.items():
        if isinstance(values, dict):
            lines += ["", f"[{room}]", *(f"{name} = {_value(value)}" for name, value in values.items())]
    return "\n".join(lines).strip()


def _value(value: Any) -> str:
    return json.dumps(value)
