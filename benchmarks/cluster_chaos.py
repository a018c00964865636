"""Exactly-once crawling in a cluster whose agents are killed, stopped, wiped and added while it crawls.

    python benchmarks/cluster_chaos.py                      24 events, some eight minutes; Linux
    python benchmarks/cluster_chaos.py --seed 7             repeats the run of that seed
    python benchmarks/cluster_chaos.py --write              also writes docs/benchmarks/cluster-chaos.md

Prints its seed, every event with its time, and the verdict; exits with 1 if anything is wrong. For the run and its
judgement see `lycosa/lab/chaos.py`, `lycosa/lab/chaos_verdict.py`.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

import msgspec

from lycosa.errors import ConfigError
from lycosa.lab.chaos import WEB, Ran, Storm, run
from lycosa.version import VERSION

PROJECT = Path(__file__).resolve().parent.parent
RESULTS = PROJECT / "docs" / "benchmarks" / "cluster-chaos.md"
SHOWN = 40


def verdict(storm: Storm, ran: Ran) -> list[str]:
    found = ran.verdict
    lines = [
        f"{found.pages:,} pages committed, each once, in {found.archives} archive files;"
        f" {ran.seconds:.0f} s with {storm.events} events",
        f"{found.requests:,} requests; {found.repeated:,} for pages that had been answered before: fetched and not"
        f" committed, or lost",
        f"{found.lost:,} pages taken back because their archive bytes died with a disk, and fetched again",
        f"{found.excused} connections of stopped agents were still open, idle, when another came to their host",
    ]
    if found.right:
        lines.append(
            "verdict: RIGHT. Fetched set and statuses are the web's own truth; nothing lost, no page twice;"
        )
        lines.append("archives whole (warcio reads them); no politeness violation seen by the web's servers")
    else:
        lines[0] = lines[0].replace(", each once,", "")
        kinds = Counter(fault.partition(" ")[0].strip(":") for fault in found.faults)
        counts = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        lines.append(f"verdict: WRONG, {len(found.faults)} faults ({counts}):")
        lines += [f"  {fault}" for fault in found.faults[:SHOWN]]
    return lines


def page(storm: Storm, ran: Ran) -> str:
    web = storm.web
    return "\n".join(
        [
            "# A storm over a cluster",
            "",
            "Written by `benchmarks/cluster_chaos.py --write`. Times are seconds from when the crawl was at work.",
            "",
            f"Seed {storm.seed}; {storm.servers} servers, {storm.agents} agents at first, {storm.shards} shards,"
            f" a lease of {storm.lease:g} s;",
            f"a web of {web.hosts} hosts and {web.pages:,} ordinary pages with every oddity but traps, a wait of"
            f" {storm.wait:g} s a host, no limits.",
            f"lycosa {VERSION}, Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores.",
            "",
            "```",
            *ran.happened,
            "```",
            "",
            *[f"- {line}" if not line.startswith(" ") else f"  {line}" for line in verdict(storm, ran)],
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="of the events; drawn if not given")
    parser.add_argument("--events", type=int, default=24)
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--servers", type=int, default=3, choices=(1, 3, 5))
    parser.add_argument("--shards", type=int, default=12)
    parser.add_argument("--lease", type=float, default=10.0)
    parser.add_argument("--hosts", type=int, default=WEB.hosts)
    parser.add_argument("--pages", type=int, default=WEB.pages)
    parser.add_argument("--seconds", type=float, default=900.0, help="the watchdog's")
    parser.add_argument("--keep", type=Path, help="a directory for logs, archives and what the agents said")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    storm = Storm(
        seed=seed,
        events=args.events,
        agents=args.agents,
        servers=args.servers,
        shards=args.shards,
        lease=args.lease,
        seconds=args.seconds,
        web=msgspec.structs.replace(WEB, hosts=args.hosts, pages=args.pages),
    )
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="lycosa-chaos-") as folder:
        place = args.keep or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        try:
            ran = run(storm, place, lambda line: print(line, flush=True))
        except ConfigError as error:
            sys.exit(f"cluster_chaos.py: {error}")
    print("\n".join(verdict(storm, ran)))
    if args.write:
        RESULTS.write_text(page(storm, ran), encoding="utf-8")
    return 0 if ran.verdict.right else 1


if __name__ == "__main__":
    sys.exit(main())
