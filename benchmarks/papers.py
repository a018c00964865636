"""Every experiment of the lab at its full size, one after the other: the source of docs/reproduction.md.

    python benchmarks/papers.py results/ --graph cnr-2000          all of it
    python benchmarks/papers.py results/ --only caching            some of it
    python benchmarks/papers.py results/ --graph cnr-2000 --small  all of it in two minutes: does it run?
    python benchmarks/papers.py results/ --write                   only puts tables into docs/reproduction.md
    lycosa lab report results/                                     a page with the figures

An existing result is not made again, so a run that was stopped can be resumed. Each line shows what was run,
its CPU, its peak memory and the load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "reproduction.md"
SIZES = {
    "sydney": ("graph", "10M", "10M like"),
    "scheduling": ("graph", "1M", "10M"),
    "uniqueness": ("35M",),
    "caching": ("graph", "10M", "10M like"),
    "distribution": ("graph", "10M"),
}
"""Pages of synthetic webs; *like*: fitted to the graph."""
SMALL = {
    "sydney": ("graph", "20k", "20k like"),
    "scheduling": ("5k",),
    "uniqueness": ("350k",),
    "caching": ("graph", "5k"),
    "distribution": ("graph", "5k"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="where results are kept")
    parser.add_argument("--graph", type=Path, help="a BV graph for those that take one")
    parser.add_argument("--only", choices=sorted(SIZES), action="append", help="these experiments alone")
    parser.add_argument("--write", action="store_true", help="put the results' tables into the document")
    parser.add_argument("--small", action="store_true", help="on small webs")
    args = parser.parse_args()
    if args.write:
        DOCUMENT.write_text(with_tables(DOCUMENT.read_text(), args.results))
        return
    sizes = SMALL if args.small else SIZES
    args.results.mkdir(parents=True, exist_ok=True)
    for name in args.only or sizes:
        for size in sizes[name]:
            if ("graph" in size or "like" in size) and args.graph is None:
                continue
            mark = args.results / f".{name}.{size.replace(' ', '-')}"
            if not mark.exists():
                run(name, size, args.graph, args.results)
                mark.touch()


def with_tables(text: str, results: Path) -> str:
    """The document with each result's section replacing the existing one, or added after its experiment's."""
    from lycosa.lab.experiments.report_page import markdown
    from lycosa.lab.experiments.result import Result

    for path in sorted(results.glob("*.json")):
        section = markdown([Result.from_json(path.read_bytes())]).rstrip() + "\n"
        head = section.partition("\n")[0]
        parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
        names = [part.partition("\n")[0] for part in parts]
        if head in names:
            parts[names.index(head)] = section + "\n"
        else:
            same = [at for at, name in enumerate(names) if name.startswith(head.partition(",")[0] + ",")]
            parts.insert(same[-1] + 1 if same else len(parts), section + "\n")
        text = "".join(parts)
    return text.rstrip() + "\n"


def run(name: str, size: str, graph: Path | None, results: Path) -> None:
    """One experiment in a separate process."""
    pages, _, like = size.partition(" ")
    on = ["--graph", str(graph)] if size == "graph" else ["--synthetic", pages]
    on += ["--like", str(graph)] if like else []
    command = [
        sys.executable,
        "-m",
        "lycosa.cli.main",
        "lab",
        "run",
        name,
        *on,
        "--keep",
        str(results),
        "--json",
    ]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    code = process.returncode = os.waitstatus_to_exitcode(status)
    row = {
        "experiment": name,
        "on": size,
        "cpu": round(used.ru_utime + used.ru_stime, 1),
        "wall": round(time.monotonic() - began, 1),
        "peak_gb": round(used.ru_maxrss / 1e6, 2),
        "load": os.getloadavg()[0],
    }
    print(json.dumps(row), flush=True)
    if code:
        raise SystemExit(f"{name} ended with {code}")


if __name__ == "__main__":
    main()
