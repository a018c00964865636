"""`make bench-seen`: the uniqueness stores and the URL cache, measured. Writes `docs/benchmarks/seen.*`.

    python benchmarks/seen.py                       everything, about an hour and 8 GB of disk
    python benchmarks/seen.py --quick               the same at small sizes, some minutes
    python benchmarks/seen.py --only cache          only the simulation, the rivals or the cache

For all rivals: pip install lmdb rocksdict scrapy. Missing ones are named in the table.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def simulation(args: argparse.Namespace, place: Path) -> dict[str, Any]:
    from lycosa.lab.experiments.uniqueness_cycles import URL_BYTES, simulate

    rows = []
    for millions in args.sizes:
        rows += simulate(
            round(millions * 1e6),
            place / "simulation",
            ranges=args.ranges,
            memory=args.memory,
            drum_cycles=args.drum_cycles,
            say=say,
        )
    return {"ranges": args.ranges, "memory": args.memory, "url_bytes": URL_BYTES, "rows": rows}


def rivals(args: argparse.Namespace, place: Path) -> list[dict[str, Any]]:
    from seen_rivals import NAMES, write_stream

    rows = []
    stream = place / "stream.npy"
    write_stream(stream, args.urls, args.urls * 4)
    for name in NAMES:
        with tempfile.TemporaryDirectory(dir=place) as where:
            command = [
                sys.executable, str(HERE / "seen_rivals.py"),
                name, str(stream), str(args.cap), where,
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            rows.append({"rival": name, "missing": done.stderr.strip().splitlines()[-1]})
        else:
            rows.append(json.loads(done.stdout))
        say(f"{name}: {rows[-1]}")
    return rows


def caches(args: argparse.Namespace) -> dict[str, Any]:
    from seen_caches import misses, speeds, trace

    keys = trace(args.probes)
    rows = speeds(keys)
    for row in rows:
        say(f"{row['cache']}: {row['probes_per_second'] / 1e6:.1f}M probes/s at {row['entries']:,}")
    orders = range(6, 21, 2)
    return {"speeds": rows, "orders": list(orders), "misses": misses(keys[: args.probes // 2], orders)}


def report(result: dict[str, Any], out: Path) -> None:
    """The tables as Markdown, and the plots."""
    from lycosa.seen import cost_model

    lines = [
        "# Uniqueness: measurements",
        "",
        "Made by `make bench-seen` (`benchmarks/seen.py`); "
        "`lycosa/lab/experiments/uniqueness_stream.py` states the streams.",
        f"Machine: {result['machine']}. Time: {result['when']}.",
        "",
    ]
    if "simulation" in result:
        sim = result["simulation"]
        lines += [
            "## Crawl simulation (VEUNIQ slides)",
            "",
            f"Cycles of 100,000 crawled and 900,000 extracted URLs, {sim['ranges']} ranges, payloads of "
            f"{sim['url_bytes']} bytes, {sim['memory'] >> 20} MiB of RAM for the store; syncs included.",
            "",
            "| stored | store | s per 1M | slowest | MB read | MB written | overhead | model "
            "| RAM, MB | disk B/URL |",
            "|--:|:--|--:|--:|--:|--:|--:|--:|--:|--:|",
        ]
        lines += [
            f"| {row['size'] / 1e6:,.0f}M | {row['store']} | {row['seconds']:.2f} | {row['slowest']:.2f} "
            f"| {row['read_per_cycle'] / 1e6:,.0f} | {row['written_per_cycle'] / 1e6:,.0f} "
            f"| {row['overhead']:.2f} | {row['model']:.2f} | {row['ram'] / 1e6:,.0f} "
            f"| {row['disk_bytes_per_url']:.2f} |"
            for row in sim["rows"]
        ]
        lines += [
            "",
            "The slides have, at 350M stored, 82.85 s for DRUM and 9.26 s for VEUNIQ (2011, disks).",
            "Overhead: bytes read and written for each byte of URL; model: `lycosa.seen.cost_model`.",
            "",
            "![seconds per cycle](seen-simulation.png)",
            "",
            "### The cost model's table",
            "",
            "Formulas in `lycosa/seen/cost_model.py`; the slides' figure in parentheses.",
            "",
            "| n | N | "
            + " | ".join(f"DRUM {r >> 30} GB | VEUNIQ {r >> 30} GB" for r in cost_model.RAM)
            + " |",
            "|--:|--:|" + "--:|" * 8,
        ]
        ours = cost_model.table()
        lines += [
            f"| {n / 1e9:g}e9 | {ranges:,} | "
            + " | ".join(f"{a:.2f} ({b:.2f})" for a, b in zip(ours[n], theirs, strict=True))
            + " |"
            for n, (ranges, theirs) in cost_model.TABLE.items()
        ]
        lines.append("")
        plot_simulation(sim["rows"], out)
    if "rivals" in result:
        lines += [
            "## Against what people use instead",
            "",
            f"{result['urls']:,} links in batches of 60, memory cap {result['cap'] >> 20} MiB, "
            "one process each.",
            "",
            "| store | checks/s | unique | lost | RAM B/URL | disk B/URL | |",
            "|:--|--:|--:|--:|--:|--:|:--|",
        ]
        for row in result["rivals"]:
            if "missing" in row:
                lines.append(f"| {row['rival']} | | | | | | not measured: {row['missing']} |")
                continue
            note = f"over the cap after {row['offered']:,}" if row["stopped_by_cap"] else ""
            lines.append(
                f"| {row['rival']} | {row['checks_per_second']:,.0f} | {row['unique']:,} | {row['lost']:,} "
                f"| {row['ram_per_url']:.1f} | {row['disk_per_url']:.1f} | {note} |"
            )
        lines.append("")
    if "cache" in result:
        lines += [
            "## The URL cache",
            "",
            "| cache | entries | probes/s | bits/entry | hit rate |",
            "|:--|--:|--:|--:|--:|",
        ]
        lines += [
            f"| {row['cache']} | {row['entries']:,} | {row['probes_per_second'] / 1e6:.1f}M "
            f"| {row['bits_per_entry']:.2f} | {row['hit_rate']:.3f} |"
            for row in result["cache"]["speeds"]
        ]
        lines += ["", "![miss rate by size](seen-cache.png)", ""]
        plot_cache(result["cache"], out)
    (out / "seen.md").write_text("\n".join(lines), encoding="utf-8")


def plot_simulation(rows: list[dict[str, Any]], out: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4))
    axes = figure.add_subplot()
    for store in dict.fromkeys(row["store"] for row in rows):
        points = [(row["size"] / 1e6, row["seconds"]) for row in rows if row["store"] == store]
        axes.plot(*zip(*points, strict=True), marker="o", label=store)
    axes.set(xlabel="URLs stored, millions", ylabel="seconds per 1M URLs", yscale="log")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(out / "seen-simulation.png", dpi=120, bbox_inches="tight")


def plot_cache(cache: dict[str, Any], out: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4))
    axes = figure.add_subplot()
    for name, rates in cache["misses"].items():
        axes.plot(cache["orders"], rates, marker=".", label=name)
    axes.set(xlabel="cache size, log2 of entries", ylabel="miss rate", ylim=(0, 1))
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(out / "seen-cache.png", dpi=120, bbox_inches="tight")


def machine() -> str:
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return f"{name}, {platform.system()}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=["simulation", "rivals", "cache"])
    parser.add_argument(
        "--sizes", type=float, nargs="+", default=[10, 50, 100, 200, 350], help="millions stored"
    )
    parser.add_argument("--ranges", type=int, default=64, help="N, repositories of VEUNIQ")
    parser.add_argument("--memory", type=int, default=384 << 20, help="bytes of RAM for a store")
    parser.add_argument("--drum-cycles", type=int, default=4, help="timed cycles of DRUM; 0: leave it out")
    parser.add_argument("--urls", type=int, default=20_000_000, help="links offered to the rivals")
    parser.add_argument("--cap", type=int, default=256 << 20, help="bytes of RAM for a rival")
    parser.add_argument("--probes", type=int, default=20_000_000, help="probes of the caches")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--place", type=Path, help="where to work (a temporary directory)")
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "benchmarks")
    args = parser.parse_args()
    if args.quick:
        args.sizes, args.ranges, args.drum_cycles = [1, 4], 8, 2
        args.urls, args.cap, args.probes = 600_000, 16 << 20, 1_000_000
    args.out.mkdir(parents=True, exist_ok=True)
    kept = args.out / "seen.json"
    result = json.loads(kept.read_text()) if args.only and kept.exists() else {}
    result |= {"machine": machine(), "when": time.strftime("%Y-%m-%d")}
    with tempfile.TemporaryDirectory(dir=args.place, prefix="lycosa-seen-") as where:
        place = Path(where)
        if args.only in (None, "simulation"):
            result["simulation"] = simulation(args, place)
        if args.only in (None, "rivals"):
            result["rivals"] = rivals(args, place)
            result |= {"urls": args.urls, "cap": args.cap}  # of this part alone: the others may be older
        if args.only in (None, "cache"):
            result["cache"] = caches(args)
    kept.write_text(json.dumps(result, indent=1), encoding="utf-8")
    report(result, args.out)
    say(f"written: {args.out / 'seen.md'}")


if __name__ == "__main__":
    main()
