"""`lycosa lab plan`: machines, memory, disk, servers and days of a crawl of any size, from measured costs.

    lycosa lab plan --pages 10G --agents 200
    lycosa lab plan --pages 1G --within 30                 how many agents does it take?
    lycosa lab plan --measure DIR --pages 100M --agents 8  with the costs of one of your crawls
    lycosa lab plan --measure DIR --check OTHER            how accurate is it for a finished crawl?

See `lycosa.lab.plan` and `lycosa.lab.costs`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.cli import amounts
from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from lycosa.lab.costs import Costs
    from lycosa.lab.plan import Checked, Outlook, Plan


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this verb has."""
    group = parser.add_argument_group("plan")
    group.add_argument(
        "--within", type=float, metavar="DAYS", help="calculate the number of agents needed for so many days"
    )
    group.add_argument(
        "--hosts",
        type=amounts.size,
        default=0,
        metavar="N",
        help="number of hosts (a hundredth of the pages)",
    )
    group.add_argument(
        "--largest", type=amounts.size, default=0, metavar="N", help="pages of the largest host"
    )
    group.add_argument("--per-machine", type=int, default=4, metavar="N", help="agents per machine (4)")
    group.add_argument(
        "--machine-memory",
        type=amounts.size,
        default=16 * 10**9,
        metavar="BYTES",
        help="memory of a machine (16GB)",
    )
    group.add_argument(
        "--machine-disk",
        type=amounts.size,
        default=4 * 10**12,
        metavar="BYTES",
        help="disk of a machine (4TB)",
    )
    group.add_argument("--measure", type=Path, metavar="DIR", help="measure the costs on a crawl")
    group.add_argument("--check", type=Path, metavar="DIR", help="calculate an existing crawl, and compare")


def run(args: argparse.Namespace) -> int:
    from lycosa.lab.costs import Costs, Measured, given, measured
    from lycosa.lab.plan import Plan, agents_for, check, outlook

    costs = Costs()
    if args.measure is not None:
        costs, _ = measured(args.measure, costs)
    costs = given(args.cost, costs)
    if args.check is not None:
        crawl = Measured.of(args.check)
        rows = check(crawl, costs)
        _print_check(crawl.name, rows, args.json)
        return 0
    if not args.pages:
        raise ConfigError("give the number of pages: --pages 10G")
    if bool(args.agents) == (args.within is not None):
        raise ConfigError("give one of --agents N and --within DAYS")
    fixed = {
        "hosts": args.hosts,
        "largest": args.largest,
        "per_machine": args.per_machine,
        "machine_memory": float(args.machine_memory),
        "machine_disk": float(args.machine_disk),
    }
    said = {"visits": args.visits, "wait": args.wait, "pages_per_visit": args.pages_per_visit}
    said["link"] = float(args.link) if args.link else None
    plan: Plan = Plan(
        pages=args.pages,
        agents=args.agents or 1,
        **fixed,
        **{name: value for name, value in said.items() if value is not None},
    )
    if args.within is not None:
        plan = replace(plan, agents=agents_for(plan, costs, args.within))
    made = outlook(plan, costs)
    if args.json:
        print(json.dumps(_as_json(made)))
    else:
        _print(made)
    return 0


def _as_json(made: Outlook) -> dict[str, object]:
    return {
        "plan": asdict(made.plan),
        "days": made.days,
        "binding": made.binding,
        "machines": made.machines,
        "servers": made.servers,
        "rates": made.rates,
        "used": made.used,
        "cpu": made.cpu,
        "memory": made.memory,
        "held": made.held,
        "disk": made.disk,
        "parts": made.parts,
        "traffic": made.traffic,
        "messages": made.messages,
        "costs": [
            dict(zip(("name", "value", "unit", "what", "where"), row, strict=True))
            for row in made.costs.rows()
        ],
    }


def _print(made: Outlook) -> None:
    plan = made.plan
    rate = plan.pages / made.seconds
    parts = ", ".join(f"{name} {amounts.show_size(size)}" for name, size in made.parts.items())
    held = ", ".join(f"{name} {amounts.show_size(size)}" for name, size in made.held.items())
    rows = [
        ("days", f"{made.days:.3g}, at {rate:,.3g} pages per second, limited by {made.binding}"),
        (
            "machines",
            f"{made.machines:,} with {min(plan.per_machine, plan.agents)} agents each; "
            f"{made.servers} servers of the engine",
        ),
        ("memory", f"{amounts.show_size(made.memory)} per agent: {held}"),
        ("disk", f"{amounts.show_size(made.disk)}: {parts}"),
        ("", f"{amounts.show_size(made.disk / made.machines)} per machine, without copies"),
        (
            "traffic",
            f"{amounts.show_size(made.traffic)}, {amounts.show_size(made.traffic / made.seconds)} per second",
        ),
        ("messages", f"{made.messages:,.3g} per second to the engine"),
        ("CPU", f"{made.cpu / 86_400:,.3g} days of a core"),
    ]
    print(f"{plan.pages:,} pages, {amounts.counted(plan.agents, 'agent')}")
    for name, text in rows:
        print(f"{name.ljust(9)} {text}")
    print("\nutilization at that speed, the scarcest resource first")
    for name, share in made.breaks_first:
        note = "  TOO MUCH" if share > 1.0001 else ""
        most = f"up to {made.rates[name]:,.3g} pages per second" if name in made.rates else ""
        print(f"  {name.ljust(20)} {share:7.1%}  {most}{note}".rstrip())
    _print_costs(made.costs)


def _print_costs(costs: Costs) -> None:
    print("\ncosts (--cost NAME=VALUE sets one, --measure DIR uses those of a crawl)")
    for name, value, unit, what, where in costs.rows():
        print(f"  {name.ljust(15)} {value:>12,.6g} {unit.ljust(14)} {what} [{where}]")


def _print_check(name: str, rows: list[Checked], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"crawl": name, "rows": [{**asdict(row), "error": row.error} for row in rows]}))
        return
    print(f"{name}: calculated and measured")
    for row in rows:
        shown = [
            amounts.show_size(v) if row.unit == "B" else f"{v:,.4g} {row.unit}"
            for v in (row.calculated, row.measured)
        ]
        print(f"  {row.what.ljust(9)} {shown[0].rjust(12)} {shown[1].rjust(12)}  {row.error:+.1%}")
