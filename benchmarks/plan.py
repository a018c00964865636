"""How accurate is `lycosa lab plan`? Crawls of growing size, each calculated with the costs of the one before.

    python benchmarks/plan.py DIR                      1,000 to 1,000,000 pages of `lycosa web --wide`
    python benchmarks/plan.py DIR --sizes 1000,10000   some of them

A finished crawl in DIR is not made again. The last lines are the table of docs/lab.md: calculated over measured.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

LYCOSA = [sys.executable, "-m", "lycosa"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("place", type=Path, metavar="DIR", help="where the crawls are kept")
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    args = parser.parse_args()
    sizes = [int(size) for size in args.sizes.split(",")]
    args.place.mkdir(parents=True, exist_ok=True)
    table: dict[str, list[str]] = {}
    for at, size in enumerate(sizes):
        made = args.place / str(size)
        if not (args.place / f"{size}.done").exists():
            shutil.rmtree(made, ignore_errors=True)
            crawl(size, made)
            (args.place / f"{size}.done").touch()
        if at:
            for row in checked(args.place / str(sizes[at - 1]), made):
                print(f"{size:,}", json.dumps(row), flush=True)
                table.setdefault(row["what"], []).append(f"{row['error']:+.1%}")
    print("| calculated over measured | " + " | ".join(f"{size:,} pages" for size in sizes[1:]) + " |")
    print("|---|" + "---:|" * (len(sizes) - 1))
    for what, errors in table.items():
        print(f"| {what} | " + " | ".join(errors) + " |")


def crawl(size: int, made: Path) -> None:
    """Serve a web of that many pages, and crawl all of it."""
    config = made.with_suffix(".toml")
    serve = [*LYCOSA, "web", "--wide", str(size), "--hosts", "64", "--port", "0"]
    server = subprocess.Popen([*serve, "--write-config", str(config)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        while "Ctrl-C" not in server.stdout.readline():
            if server.poll() is not None:
                raise SystemExit("the web could not be served")
        log = made.with_suffix(".log")
        with log.open("w") as out:
            command = [*LYCOSA, "crawl", "--config", str(config), "--into", str(made)]
            subprocess.run(command, check=True, stdout=out, stderr=out)
    finally:
        server.terminate()
        server.wait()


def checked(small: Path, large: Path) -> list[dict[str, float | str]]:
    command = [*LYCOSA, "lab", "plan", "--measure", str(small), "--check", str(large), "--json"]
    rows: list[dict[str, float | str]] = json.loads(subprocess.check_output(command))["rows"]
    return rows


if __name__ == "__main__":
    main()
