"""The cost of starting: CPU time and peak memory of commands, and of a crawl of one page.

    python benchmarks/startup.py                       some minutes
    python benchmarks/startup.py --rounds 3
    python benchmarks/startup.py --against ../other    compared with another checkout of the program, in turn

Each command runs in a separate process, once in every round; reported are the medians of user + system time, of the
peak of resident memory and of wall-clock time (which on a busy machine means little). Bytecode and kernels exist
already: a round that does not count comes first. `bare` is an interpreter that does nothing, `numpy` and
`numba` are the imports alone: the least that a start can cost, and what it would cost with the compiler. (Linux
counts this process's own memory, some 20 MB, as the minimum peak of its children.)
"""

from __future__ import annotations

import argparse
import http.server
import os
import platform
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent
PAGE = b"<title>A page</title><a href='/'>itself</a><a href='/other'>and another</a>"


class OnePage(http.server.BaseHTTPRequestHandler):
    """Serves a page and nothing else."""

    def do_GET(self) -> None:
        body = b"" if self.path == "/robots.txt" else PAGE
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Log nothing."""


def spent(command: list[str], checkout: Path, cache: Path) -> tuple[float, float, float]:
    """Seconds of CPU, peak MB and wall-clock seconds of a process."""
    environ = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONPYCACHEPREFIX": str(cache)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    null = os.open(os.devnull, os.O_RDWR)
    began = time.monotonic()
    pid = os.posix_spawn(
        command[0], command, environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, n) for n in (0, 1, 2)]
    )
    os.close(null)
    _, status, used = os.wait4(pid, 0)
    wall = time.monotonic() - began
    if status:
        sys.exit(f"{' '.join(command)} ended with status {status}")
    return (
        used.ru_utime + used.ru_stime,
        used.ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10)),
        wall,
    )


def commands(place: Path, url: str) -> dict[str, list[str]]:
    lycosa = ["-m", "lycosa.cli.main"]
    crawl = [
        *lycosa,
        "crawl",
        url,
        "--private",
        "--allow",
        "127.0.0.0/8",
        "--pages",
        "1",
        "--quiet",
        "--into",
    ]
    return {
        "bare": ["-c", "pass"],
        "import numpy": ["-c", "import numpy"],
        "import numba": ["-c", "import numba"],
        "import lycosa": ["-c", "import lycosa"],
        "crawl of one page": [*crawl, str(place / "new")],
        "lycosa --help": [*lycosa, "--help"],
        "lycosa crawl --help": [*lycosa, "crawl", "--help"],
        "lycosa status": [*lycosa, "status", str(place / "kept")],
        "lycosa log": [*lycosa, "log", str(place / "kept")],
        "lycosa explain": [*lycosa, "explain", str(place / "kept"), url],
        "lycosa report": [*lycosa, "report", str(place / "kept")],
        "lycosa url": [*lycosa, "url", url],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--against", type=Path, help="another checkout")
    args = parser.parse_args()
    checkouts = [HERE, *([args.against.resolve()] if args.against else [])]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OnePage)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found: dict[tuple[str, Path], list[tuple[float, float, float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        todo = commands(place, f"http://127.0.0.1:{server.server_port}/")
        for turn in range(args.rounds + 1):
            for name, words in todo.items():
                for number, checkout in enumerate(checkouts):
                    os.chdir(checkout)
                    shutil.rmtree(place / "new", ignore_errors=True)
                    got = spent([sys.executable, *words], checkout, place / f"bytecode{number}")
                    if turn:
                        found.setdefault((name, checkout), []).append(got)
                if name == "crawl of one page":
                    shutil.rmtree(place / "kept", ignore_errors=True)
                    (place / "new").rename(place / "kept")
    server.shutdown()
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores, load {load}")
    print(f"medians of {args.rounds} rounds: CPU s, peak MB, wall s\n")
    print("| | " + " | ".join(str(checkout) for checkout in checkouts) + " |")
    print("|---" * (len(checkouts) + 1) + "|")
    for name in todo:
        cells = []
        for checkout in checkouts:
            cpu, memory, wall = (
                statistics.median(each[n] for each in found[name, checkout]) for n in range(3)
            )
            cells.append(f"{cpu:.2f} · {memory:.0f} · {wall:.2f}")
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
