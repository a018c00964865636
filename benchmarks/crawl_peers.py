"""Compiled crawlers as contestants of the crawl benchmark: wget2 and the crate `spider`.

    wget2       recursive, robots.txt obeyed, every page a file; keeps no state, so it cannot resume after a kill
    spider      a small program using the crate (`spider/`), robots.txt obeyed; keeps nothing

Each runs as a separate process on the contestants' core and is measured from outside: CPU by `wait4`, from its
start, which costs it some milliseconds. Both walk the site from the same seeds in an order of their own. spider
stops at its share of pages per host; wget2 has no such limit and is told to end when so many files are there.
Pages of wget2 are its files; what it fetched without keeping a file (robots.txt) is not counted.

A contestant whose program is missing is left out: wget2 is Debian's package of that name, spider is built by
`cargo` into the cache at its first use (some minutes).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from crawl_site import pin
from crawl_worker import Result

HERE = Path(__file__).resolve().parent
_LOOK = 0.2
_LONGEST = 300.0


class Peer(NamedTuple):
    """An available program."""

    name: str
    program: str


def peers(cache: Path) -> list[Peer]:
    """The programs that are available here."""
    found = []
    if (program := shutil.which("wget2")) is not None:
        found.append(Peer("wget2", program))
    else:
        print("wget2 is left out: apt-get install wget2")
    if (built := _spider(cache)) is not None:
        found.append(Peer("spider", str(built)))
    return found


def _spider(cache: Path) -> Path | None:
    target = cache / "spider"
    program = target / "release" / "spider-contestant"
    if program.exists():
        return program
    cargo = shutil.which("cargo") or shutil.which("cargo", path=str(Path.home() / ".cargo" / "bin"))
    if cargo is None:
        print("spider is left out: there is no cargo")
        return None
    print("building spider (once, some minutes) ...", flush=True)
    command = [cargo, "build", "--release", "--quiet", "--target-dir", str(target)]
    if subprocess.run(command, cwd=HERE / "spider", check=False).returncode:
        print("spider is left out: it cannot be built")
        return None
    return program


def run(peer: Peer, seeds: list[str], pages: int, into: Path, core: int | None) -> Result:
    """One run."""
    into.mkdir(parents=True, exist_ok=True)
    command = [peer.program, str(pages), *seeds] if peer.name == "spider" else _wget2(peer.program, seeds)
    began = time.perf_counter()
    with (into / "output").open("wb") as output:
        process = subprocess.Popen(command, cwd=into, stdout=output, stderr=subprocess.DEVNULL)
    pin(core, process.pid)
    told = False
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        late = time.perf_counter() - began > _LONGEST
        if not told and (late or (peer.name == "wget2" and sum(1 for _ in _files(into)) >= pages)):
            os.kill(process.pid, signal.SIGTERM)  # not by `process`, which would reap it
            told = True
        time.sleep(_LOOK)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if peer.name == "spider":
        found = json.loads((into / "output").read_bytes().splitlines()[-1])
        count, size = found["pages"], found["bytes"]
    else:
        sizes = [path.stat().st_size for path in _files(into)]
        count, size = len(sizes), sum(sizes)
    return Result(
        pages=count,
        seconds=seconds,
        user=usage.ru_utime,
        system=usage.ru_stime,
        bytes=size,
        links=0,
        rss_peak=usage.ru_maxrss * 1024,
    )


def _wget2(program: str, seeds: list[str]) -> list[str]:
    quiet = ["--quiet", "--config=/dev/null", "--tries=1"]
    which = ["--recursive", "--level=0", "--robots=on", "--accept-regex=(/|[.]html?)([?].*)?$"]
    return [program, *quiet, *which, "--max-threads=16", *seeds]


def _files(into: Path) -> Iterator[Path]:
    """What wget2 has written: a directory per host."""
    for place, _, names in os.walk(into):
        if place != str(into):
            yield from (Path(place, name) for name in names)
