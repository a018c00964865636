"""A crawl in bounded memory: a million pages with a frontier of 1 MB, and the same web with Scrapy.

    python benchmarks/bounded.py                some half an hour
    python benchmarks/bounded.py --quick        20,000 pages and a minute of Scrapy, to see that it works
    python benchmarks/bounded.py --write        also writes docs/benchmarks/bounded.md and bounded.png
    python benchmarks/bounded.py --again --write    the same from the samples of the last run, without running

The wide web (`lycosa web --wide`, see `lycosa.lab.webs.wide`) is served by a process on one core; the crawler runs
on the other. Its pages have long lists of links, so that a breadth-first queue without bounds would soon hold
nearly all of them; its maximum length is computed from the web itself.

    lycosa      `lycosa crawl` with frontier.memory of 1 MB, log, archive, robots and all, to its end. The process
                runs in a control group with a limit of 400 MB if one can be made (which also counts the page
                cache, but the kernel reclaims that); in any case its resident memory is sampled every second, and
                its peak is the kernel's own (VmHWM). Afterwards the log is read and every fetched URL compared with
                the truth.
    scrapy      with the settings that its documentation recommends for broad crawls, for a limited number of
                minutes (see `bounded_scrapy`); its memory over time

A few pages are crawled in advance to compile the kernels: compiling takes more memory than any crawl.
Samples are kept in the cache directory (bounded.json).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bounded_group import Group, make_group
from crawl import cores, scrapy_python
from crawl_site import pin

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
OUT = PROJECT / "docs" / "benchmarks"
LIMIT = 400_000_000
LYCOSA = [sys.executable, "-m", "lycosa.cli.main"]

Numbers = dict[str, float]
Found = dict[str, Any]


# -- the web


@contextmanager
def served(args: argparse.Namespace, place: Path, core: int | None) -> Iterator[tuple[Path, Path]]:
    """Serves the wide web in a separate process; returns its crawl.toml and its hosts file."""
    config, hosts = place / "web.toml", place / "hosts"
    command = [*LYCOSA, "web", "--wide", str(args.pages), "--hosts", str(args.hosts), "--port", "0"]
    command += ["--write-config", str(config), "--write-resolve", str(hosts)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: pin(core)
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith("Ctrl-C"):
                    break
            else:
                raise SystemExit("the web's server did not start")
            yield config, hosts
        finally:
            process.terminate()


def web_of(args: argparse.Namespace, seed: str) -> Any:
    """The web being served, for the truth about it."""
    from urllib.parse import urlsplit

    from lycosa.lab.webs.wide import WideOptions, WideWeb

    port = urlsplit(seed).port or 80
    domains = min(WideOptions().domains, args.hosts)
    return WideWeb(WideOptions(pages=args.pages, hosts=args.hosts, domains=domains, port=port))


# -- watching a process


def memory_of(pid: int) -> tuple[int, int]:
    """Resident bytes of a process, now and at their peak; zeros if it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0, 0
    rows = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    if "VmRSS" not in rows:  # it has ended but was not waited for
        return 0, 0
    return int(rows["VmRSS"].split()[0]) * 1024, int(rows["VmHWM"].split()[0]) * 1024


def watch(
    process: subprocess.Popen[bytes], numbers: Callable[[], Numbers], seconds: float, most: float, name: str
) -> tuple[list[Numbers], str]:
    """Samples of a process, one per second, until it ends or exceeds a limit; and which of these happened.

    The last sample's peak is the kernel's at the end of the process: it includes what lies between samples.
    """
    samples: list[Numbers] = []
    try:
        return samples, _watch(process, samples, numbers, seconds, most, name)
    except BaseException:
        process.kill()
        process.wait()
        raise


def _watch(
    process: subprocess.Popen[bytes],
    samples: list[Numbers],
    numbers: Callable[[], Numbers],
    seconds: float,
    most: float,
    name: str,
) -> str:
    began, told = time.monotonic(), 0.0
    end = "ended"
    while (usage := ended(process)) is None:
        at = time.monotonic() - began
        rss, peak = memory_of(process.pid)
        if rss:
            samples.append({"at": round(at, 2), "rss": rss, "peak": peak} | numbers())
        if end == "ended" and (at > seconds or rss > most):
            end = "time" if at > seconds else "memory"
            process.terminate()
        if at > seconds + 60:
            process.kill()
        if at - told >= 30 and samples:
            told = at
            last = samples[-1]
            print(
                f"  {name} {at:6,.0f} s  {last.get('pages', 0):10,.0f} pages  {rss / 1e6:7,.0f} MB"
                f"  {last.get('pending', 0):10,.0f} pending",
                flush=True,
            )
        time.sleep(max(0.0, 1.0 - (time.monotonic() - began - at)))
    if samples:
        samples[-1] |= numbers()
        samples[-1]["peak"] = max(samples[-1]["peak"], usage.ru_maxrss * 1024)
    return end


def ended(process: subprocess.Popen[bytes]) -> resource.struct_rusage | None:
    """The resource usage of a process, once it has ended."""
    pid, status, usage = os.wait4(process.pid, os.WNOHANG)
    if not pid:
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage


def read_json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found


# -- the contestants


def crawl_command(args: argparse.Namespace, config: Path, into: Path, memory: int) -> list[str]:
    command = [*LYCOSA, "crawl", "--config", str(config), "--into", str(into), "--quiet", "--agents", "1"]
    command += ["--set", f"frontier.memory={memory}"]
    for text in args.set:
        command += ["--set", text]
    return command + ([] if args.archive else ["--no-archive"])


def lycosa(
    args: argparse.Namespace, config: Path, place: Path, core: int | None, group: Group | None, memory: int
) -> Found:
    """A crawl of the whole web."""
    into = place / "crawl"
    command = crawl_command(args, config, into, memory)
    if group is not None:
        command = group.command(command)
    errors = place / "errors"
    with errors.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, preexec_fn=lambda: pin(core))

    def numbers() -> Numbers:
        status = read_json(into / "status.json")
        meters = status.get("meters", {})
        names = ("pages", "pending", "left_behind", "visits")
        return {name: status.get(name, 0) for name in names} | {
            "frontier": meters.get("frontier.bytes", 0),
            "seen": meters.get("seen.urls", 0),
        }

    began = time.monotonic()
    samples, end = watch(process, numbers, args.lycosa_minutes * 60, float("inf"), "lycosa")
    seconds = time.monotonic() - began
    said = errors.read_text(errors="replace").strip().splitlines()
    found: Found = {
        "samples": samples,
        "end": end,
        "code": process.returncode,
        "seconds": seconds,
        "said": said[-3:],
        "state": read_json(into / "status.json").get("state", ""),
        "memory": memory,
        "group": group.read() if group is not None else None,
    }
    if process.returncode:
        print("  lycosa failed:", *said[-20:], sep="\n  ")
    return found | coverage(args, into, seed_of(config))


def coverage(args: argparse.Namespace, into: Path, seed: str) -> Found:
    """The URLs fetched according to the crawl's log, compared with the truth."""
    from lycosa.ask.reading import CrawlReader
    from lycosa.errors import ConfigError
    from lycosa.records import Fetched

    print("  reading the log ...", flush=True)
    try:
        crawl = CrawlReader(into)
    except ConfigError as error:
        return {"exact": False, "fetched": 0, "repeated": 0, "foreign": 0, "examples": [str(error)]}
    odd = 0

    def fetched() -> Iterator[str]:
        nonlocal odd
        for _, _, record in crawl.records():
            if isinstance(record, Fetched):
                odd += record.status != 200
                yield record.url

    found = web_of(args, seed).check(fetched())
    return {
        "exact": found.exact and not odd,
        "fetched": found.fetched,
        "repeated": found.repeated,
        "foreign": found.foreign,
        "not_200": odd,
        "examples": found.examples,
        "log_bytes": _size_of(into, "shards/*/log/*"),
        "left_bytes": _size_of(into, "shards/*/left/*"),
        "archive_bytes": _size_of(into, "archive/*"),
    }


def _size_of(place: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in place.glob(pattern))


def scrapy(
    args: argparse.Namespace, config: Path, hosts: Path, place: Path, core: int | None
) -> Found | None:
    """Scrapy on the same web, for a limited time."""
    python = scrapy_python(args.cache)
    if python is None:
        return None
    status = place / "scrapy.json"
    task = {"seeds": [seed_of(config)], "hosts": str(hosts), "status": str(status), "core": core}
    errors = place / "scrapy-errors"
    with errors.open("wb") as sink:
        command = [str(python), str(HERE / "bounded_scrapy.py"), json.dumps(task)]
        process = subprocess.Popen(command, stdout=sink, stderr=sink)

    def numbers() -> Numbers:
        found = read_json(status)
        return {name: found.get(name, 0) for name in ("pages", "pending", "seen", "failed")}

    began = time.monotonic()
    samples, end = watch(process, numbers, args.minutes * 60, args.scrapy_memory * 1e9, "scrapy")
    last = read_json(status)
    if not last.get("pages"):
        print("  scrapy failed:", *errors.read_text(errors="replace").splitlines()[-20:], sep="\n  ")
        return None
    return {
        "samples": samples,
        "end": end,
        "seconds": time.monotonic() - began,
        "version": last["version"],
        "state": last["state"],
    }


def seed_of(config: Path) -> str:
    import tomllib

    return str(tomllib.loads(config.read_text(encoding="utf-8"))["seeds"][0])


# -- the whole


def measure(args: argparse.Namespace) -> Found:
    crawler, server = cores()
    found: Found = {
        "pages": args.pages,
        "hosts": args.hosts,
        "archive": args.archive,
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{cpu_name()}, {os.cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
        "minutes": args.minutes,
    }
    with (
        tempfile.TemporaryDirectory(prefix="run-", dir=args.cache) as name,
        served(args, Path(name), server) as (config, hosts),
    ):
        place = Path(name)
        print("a few pages, so that kernels are compiled ...", flush=True)
        warm = [*crawl_command(args, config, place / "warm", args.memory), "--max-pages", "200"]
        done = subprocess.run(warm, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"lycosa crawl failed:\n{done.stderr[-3000:]}")
        if not args.no_peak:
            print("the longest queue of an unbounded breadth-first crawl ...", flush=True)
            found["queue"] = web_of(args, seed_of(config)).peak()
        if not args.no_lycosa:
            print(f"lycosa with a frontier of {args.memory / (1 << 20):g} MB ...", flush=True)
            with make_group("lycosa-bounded", LIMIT) as (group, why):
                found["held"] = why
                found["lycosa"] = lycosa(args, config, place, crawler, group, args.memory)
            shutil.rmtree(place / "crawl", ignore_errors=True)
        if args.unbounded:
            print("lycosa with a frontier of 1 GB ...", flush=True)
            found["unbounded"] = lycosa(args, config, place, crawler, None, 1 << 30)
            shutil.rmtree(place / "crawl", ignore_errors=True)
        if not args.no_scrapy:
            print(f"scrapy for {args.minutes:g} minutes at most ...", flush=True)
            found["scrapy"] = scrapy(args, config, hosts, place, crawler)
    return found


def cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", type=int, default=1_000_000, help="of the web (1000000)")
    parser.add_argument("--hosts", type=int, default=256)
    parser.add_argument("--memory", type=int, default=1 << 20, help="bytes of the frontier (1 MB)")
    parser.add_argument("--archive", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="of lycosa crawl")
    parser.add_argument("--lycosa-minutes", type=float, default=120.0, help="for Lycosa at most (120)")
    parser.add_argument("--minutes", type=float, default=15.0, help="for Scrapy at most (15)")
    parser.add_argument("--scrapy-memory", type=float, default=8.0, help="GB at which Scrapy is stopped (8)")
    parser.add_argument("--unbounded", action="store_true", help="also Lycosa with a frontier of 1 GB")
    parser.add_argument("--no-lycosa", action="store_true")
    parser.add_argument("--no-scrapy", action="store_true")
    parser.add_argument("--no-peak", action="store_true", help="do not compute the unbounded queue")
    parser.add_argument("--quick", action="store_true", help="20,000 pages, one minute of Scrapy")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/bounded.md and .png")
    parser.add_argument("--again", action="store_true", help="report the last run again")
    parser.add_argument("--out", type=Path, default=OUT, help="where --write writes (docs/benchmarks)")
    parser.add_argument("--cache", type=Path, default=PROJECT / ".bench")
    args = parser.parse_args()
    if args.quick:
        args.pages, args.minutes = min(args.pages, 20_000), 1.0
    args.hosts = min(args.hosts, args.pages)
    if not Path("/proc/self/status").exists():
        raise SystemExit("this benchmark reads /proc: it runs on Linux only")
    args.cache.mkdir(parents=True, exist_ok=True)
    saved = args.cache / "bounded.json"
    if args.again:
        found = read_json(saved)
        if not found:
            raise SystemExit(f"{saved} has no earlier run")
    else:
        found = measure(args)
        saved.write_text(json.dumps(found), encoding="ascii")
    from bounded_report import markdown, plot, table

    rows = table(found, LIMIT)
    width = max(len(row[0]) for row in rows)
    for row in rows:
        print(f"{row[0]:{width}}  {row[1]:>34}  {row[2]}")
    if args.write:
        args.out.mkdir(parents=True, exist_ok=True)
        plot(found, LIMIT, args.out / "bounded.png")
        (args.out / "bounded.md").write_text(markdown(found, rows), encoding="utf-8")
        print(f"written: {args.out / 'bounded.md'}, {args.out / 'bounded.png'}")


if __name__ == "__main__":
    main()
