"""The cost of the web interface: the time of each answer on a large crawl, and what an open page costs the crawl.

    python benchmarks/serve.py [--pages 1000000] [--sites 100000] [--at DIR] [--no-graph] [--no-crawl] [--write]
    python benchmarks/serve.py --quick

The crawl is generated with the production log, manifest, snapshots and history, without fetching: sites of a power
law, twenty links on each page, robots files, skips, redirects and errors. It is made once and kept in `--at` (which
may also be a crawl of your own; one that has an index is searched, too). The times of answers need only its log.

1. *Answers.* `lycosa serve` is started on it, and the page reads the log for its folds, once (reported separately).
   Then each page and endpoint is requested: the first time, and the median of some more, with the server's CPU.
2. *First paint*, in Chromium if there is one, by the browser's own clock, of each page.
3. *A crawl with an open page.* A small web on loopback is crawled, without and with `lycosa serve` and Chromium on
   the first page, in turn. Reported are the CPU per page of the crawl's processes, and the server's CPU. A busy
   machine makes caches cold, so only the ratio of adjacent runs counts.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tests.serve.browser drives Chromium

import msgspec
import numpy as np

from lycosa.crawl import manifest as manifests
from lycosa.crawl.config import Options, encode_options
from lycosa.crawl.history import History
from lycosa.crawl.splitting import Splitter
from lycosa.crawl.status import STATUS, Ahead, Status
from lycosa.crawl.totals import Totals, summed
from lycosa.files import DiskFiles
from lycosa.lab.webs import WebOptions, serving
from lycosa.log.log import Log
from lycosa.log.snapshot import SnapshotWriter
from lycosa.records import (
    Before,
    Configured,
    Fetched,
    Links,
    Record,
    Robots,
    RobotsState,
    Seeded,
    Skipped,
    Timing,
    Why,
)
from lycosa.url.parts import host_of
from lycosa.url.scope import ScopeOptions
from tests.serve.browser import CHROMIUM, Browser

COMMAND = [sys.executable, "-m", "lycosa.cli.main"]
START = 1_790_000_000_000
RATE = 120
"""The apparent speed of the generated crawl, in pages per second."""
LINKS = 20
COMMIT = 4_000
ROUNDS = 7
SLOW = 0.2


# -- a large crawl


class Web:
    """Sites of a power law; a page's links by its number."""

    def __init__(self, pages: int, sites: int) -> None:
        weights = 1.0 / np.arange(1, sites + 1) ** 0.8
        sizes = np.maximum((weights * (pages / weights.sum())).astype(np.int64), 1)
        self.first = np.concatenate([[0], np.cumsum(sizes)])
        self.sizes = sizes
        self.names = [f"http://www.site{number}.example" for number in range(sites)]
        self.random = Random(7)

    @property
    def pages(self) -> int:
        return int(self.first[-1])

    def url(self, site: int, page: int) -> str:
        return f"{self.names[site]}/" + (f"docs/{page % 17}/page-{page}.html" if page else "")

    def links(self, site: int) -> list[str]:
        size, draw = int(self.sizes[site]), self.random.random
        own = [self.url(site, int(draw() * size)) for _ in range(LINKS - 4)]
        others = [self.names[int(len(self.names) * draw() ** 3)] + "/" for _ in range(3)]
        return [f"{self.names[site]}/", *own, *others]


def make(directory: Path, pages: int, sites: int) -> None:
    """Write the crawl's directory."""
    web = Web(pages, sites)
    directory.mkdir(parents=True)
    files = DiskFiles(directory)
    manifest = manifests.create(files, START)
    splitter = Splitter(manifest.shards, manifests.domains_of(files))
    shards = [splitter.shard_of(host_of(name + "/")) for name in web.names]
    options = encode_options(Options(public=False, scope=ScopeOptions(mode="any")))
    made = [_Shard(directory, number, options) for number in range(manifest.shards)]
    made[shards[0]].add(Seeded(START, Links(web.url(0, 0).encode(), b"\x09")))
    order = np.random.default_rng(7).permutation(web.pages)
    sites_of = np.searchsorted(web.first, order, side="right") - 1
    known: set[int] = set()
    for number, (page, site) in enumerate(zip(order.tolist(), sites_of.tolist(), strict=True)):
        at, shard = START + number * 1000 // RATE, made[shards[site]]
        if site not in known:
            known.add(site)
            body = b"User-agent: *\nDisallow: /private/\nCrawl-delay: 1\n"
            shard.add(Robots(at, web.names[site], 200, body, at + 86_400_000, state=RobotsState.READ))
        shard.add(_fetched(web, number, site, page - int(web.first[site]), at))
        if number % 50 == 0:
            url = f"{web.names[site]}/private/{page}"
            shard.add(Skipped(at, url, 3, Why.ROBOTS, "line 2: Disallow: /private/"))
    totals = summed([shard.end() for shard in made])
    _history(directory, totals, number * 1000 // RATE)


def _fetched(web: Web, number: int, site: int, page: int, at: int) -> Fetched:
    urls = web.links(site)
    status = 200 if number % 20 else (404, 301, 500)[number // 20 % 3]
    return Fetched(
        *(at, web.url(site, page), 3 if page else 1, 0, 0, status, "text/html", "utf-8", 6_000, 22_000),
        *(number + 1, Timing(1, 2, 30 + number % 90, 40 + number % 160), "192.0.2.1"),
        Links("\n".join(urls).encode(), b"\0" * len(urls)),
        title=f"Page {page} of site {site}",
        before=Before.NEVER,
    )


class _Shard:
    """The log of one shard, and the contents of its snapshot."""

    def __init__(self, directory: Path, number: int, options: bytes) -> None:
        self._files = DiskFiles(directory / manifests.shard_directory(number))
        for part in ("log", "snapshots"):
            (directory / manifests.shard_directory(number) / part).mkdir(parents=True)
        self._log = Log(self._files.within("log"))
        self._options = options
        self._waiting = 0
        self._totals = Totals()
        self.add(Configured(START, options))

    def add(self, record: Record) -> None:
        self._log.append(record)
        self._totals.apply(record)
        self._waiting += 1
        if self._waiting >= COMMIT:
            self._log.commit()
            self._waiting = 0

    def end(self) -> Totals:
        self._log.commit()
        writer = SnapshotWriter(self._files.within("snapshots"), self._log.committed)
        writer.add("shard", msgspec.msgpack.encode([{}, {}, self._options]))
        for piece in self._totals.freeze():
            writer.add("totals", piece)
        writer.seal({"clean": True})
        self._log.close()
        return self._totals


def _history(directory: Path, totals: Totals, span: int) -> None:
    """Writes status.json and the history, as the process of such a crawl would."""
    history = History(directory)
    steps = 3_000
    for step in range(steps + 1):
        share = step / steps
        status = Status(
            at=(START + span * share) / 1000,
            pid=1,
            state="running" if step < steps else "stopped",
            elapsed=span * share / 1000,
            pages=int(totals.pages * share),
            pages_run=int(totals.pages * share),
            bytes=int(totals.size * share),
            links=int(totals.links * share),
            duplicates=0,
            statuses={f"{kind}xx": int(n * share) for kind, n in sorted(totals.statuses.items())},
            skipped={why: int(n * share) for why, n in totals.skipped.items()},
            errors={"timeout": int(900 * share)},
            pending=int(400_000 * share * (1.1 - share)),
            left_behind=int(30_000 * share * (1.1 - share)),
            deferred=200,
            visits=256,
            hosts=9_000,
            rss=600_000_000 + int(200_000_000 * share),
            memory_limit=8_000_000_000,
            page_limit=0,
            fetches=int(totals.fetched * share),
            meters={"frontier.used": 2e8, "frontier.limit": 2.56e8},
            ahead=[Ahead(host="www.site0.example", queued=9_000, wait=1.5, why="politeness")],
        )
        history.add(msgspec.json.encode(status), status.at, last=step == steps)
    (directory / STATUS).write_bytes(msgspec.json.encode(status))


# -- asking


class Server:
    """`lycosa serve` of a directory."""

    def __init__(self, directory: Path) -> None:
        words = [*COMMAND, "serve", str(directory)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdout is not None
        self.link = self.process.stdout.readline().decode().strip()
        self.base, _, self.token = self.link.partition("/?token=")

    def ask(self, path: str) -> tuple[int, bytes]:
        """One request, on a connection of its own."""
        connection = http.client.HTTPConnection(urlsplit(self.base).netloc, timeout=600)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        return json.loads(self.ask(path)[1])

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


@contextmanager
def served(directory: Path) -> Iterator[Server]:
    server = Server(directory)
    try:
        yield server
    finally:
        server.end()


def paths(server: Server) -> dict[str, str]:
    """The paths to request; with the largest site, one in the middle, and a page of it."""
    largest = server.json("/api/sites")["sites"][0]["site"]
    count = server.json("/api/sites")["count"]
    middle = server.json(f"/api/sites?page={count // 200}")["sites"][0]["site"]
    links = server.json(f"/api/links?u={quote(middle + '/', safe='')}").get("out", [])
    deep = next((url for url in links if url.startswith(middle) and url != middle + "/"), middle + "/")
    site, url, home = (quote(text, safe="") for text in (middle, deep, largest + "/"))
    both = {
        "sites": "sites",
        "sites by errors": "sites?sort=errors",
        "sites found": "sites?q=ite77",
        "sites, last": f"sites?page={max((count - 1) // 100, 0)}",
    }
    one = quote(largest, safe="")
    return {
        "now": "/",
        "now, its charts": "/part/now",
        **{name: f"/{path}" for name, path in both.items()},
        "site": f"/site?s={site}",
        "site, the largest": f"/site?s={one}",
        "url": f"/url?u={url}",
        "url, most linked": f"/url?u={home}",
        "search": "/search?q=page",
        "graph": "/graph",
        "graph, a host": f"/graph?host={urlsplit(largest).hostname}",
        "report": "/report",
        "lab": "/lab",
        "control": "/control",
        "/api/status": "/api/status",
        "/api/history": "/api/history",
        "/api/sites": "/api/sites",
        "/api/site": f"/api/site?s={site}",
        "/api/explain": f"/api/explain?u={url}",
        "/api/search": "/api/search?q=page",
        "/api/graph": "/api/graph",
        "/api/links": f"/api/links?u={url}",
        "/api/control": "/api/control",
        "/metrics": "/metrics",
        "/ready": "/ready",
    }


def answers(server: Server, tell: Callable[[str], None]) -> dict[str, str]:
    """Times of every answer; returns the paths requested."""
    began, cpu = time.monotonic(), server.cpu()
    while server.json("/api/sites")["behind"]:
        time.sleep(0.05)
    tell(
        f"\nreading the log for the folds of the page: {time.monotonic() - began:.1f} s, {server.cpu() - cpu:.1f} s"
        " of a core; once, then what is new\n"
    )
    asked = paths(server)
    tell(f"| {'answer':<18} | status | kB | first, ms | median, ms | CPU, ms |")
    tell("|---|---|---|---|---|---|")
    for name, path in asked.items():
        times, sizes = [], 0
        for round_ in range(ROUNDS + 1):
            if round_ == 1:
                while b" data-waits" in server.ask(path)[1]:  # the first answer said that it is being made
                    time.sleep(0.2)
                cpu = server.cpu()
            began = time.monotonic()
            status, body = server.ask(path)
            times.append(time.monotonic() - began)
            sizes = len(body)
        spent = (server.cpu() - cpu) / ROUNDS
        middle = statistics.median(times[1:])
        mark = " **slow**" if middle > SLOW or times[0] > SLOW else ""
        tell(
            f"| {name:<18} | {status} | {sizes / 1000:,.1f} | {times[0] * 1000:,.0f} | {middle * 1000:,.1f} |"
            f" {spent * 1000:,.0f}{mark} |"
        )
    return asked


def paints(server: Server, asked: dict[str, str], tell: Callable[[str], None]) -> None:
    """The time at which Chromium first shows something of each page."""
    if CHROMIUM is None:
        tell("\nfirst paint: not measured, since there is no Chromium")
        return
    tell("\n| page | first paint, ms | all there, ms |\n|---|---|---|")
    script = (
        "new Promise((done) => { const look = () => {"
        " const at = performance.getEntriesByName('first-contentful-paint');"
        " const all = performance.getEntriesByType('navigation')[0];"
        " at.length && all.domComplete ? done([at[0].startTime, all.domComplete])"
        " : setTimeout(look, 20) }; look() })"
    )
    with Browser() as browser:
        browser.enter(server.link)
        for name, path in asked.items():
            if path.startswith("/api") or path in ("/part/now", "/metrics", "/ready"):
                continue
            found = []
            for _ in range(5):
                browser.open(server.base + path)
                found.append(browser.js(script))
            first, whole = (statistics.median(row[at] for row in found) for at in (0, 1))
            tell(f"| {name} | {first:,.0f} | {whole:,.0f} |")


# -- a crawl with a page open


def beside(pages: int, rounds: int, tell: Callable[[str], None]) -> None:
    """The CPU of a crawl with and without an open page, in turn."""
    web = WebOptions(hosts=60, pages=pages * 2, page_bytes=12_000, links=30, local_share=0.6, kinds=())
    ratios, rows = [], []
    with serving(web) as site, tempfile.TemporaryDirectory() as place:
        for number in range(rounds):
            found = {}
            for watched in (False, True) if number % 2 == 0 else (True, False):
                into = Path(place) / f"crawl-{number}-{watched}"
                found[watched] = _crawl(site.web, into, pages, watched)
                shutil.rmtree(into)
            ratios.append(found[True][0] / found[False][0])
            rows.append((found[False][0], found[True][0], found[True][1]))
    tell("\n| round | CPU of the crawl, ms a page | with a page open | the server beside it, % of a core |")
    tell("|---|---|---|---|")
    for number, (alone, with_page, server) in enumerate(rows):
        tell(f"| {number + 1} | {alone * 1000:.3f} | {with_page * 1000:.3f} | {server * 100:.1f} |")
    tell(f"\nmedian ratio: {statistics.median(ratios):.4f} (each: {', '.join(f'{r:.3f}' for r in ratios)})")


def _crawl(web: Any, into: Path, pages: int, watched: bool) -> tuple[float, float]:
    """CPU seconds per page of the crawl's processes; and the share of a core that the server took."""
    words = [*COMMAND, "crawl", *web.seeds(), "--into", str(into), "--private", "--allow", "127.0.0.0/8"]
    words += ["--scope", "any", "--max-pages", str(pages), "--agents", "1", "--quiet"]
    for name, address in web.resolve().items():
        words += ["--resolve", f"{name}:{address}"]
    words += [
        "--set",
        "politeness.wait=0.3",
        "--set",
        "politeness.factor=0",
        "--set",
        "politeness.address_wait=0",
    ]
    crawl = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    share = 0.0
    server: Server | None = None
    browser: Browser | None = None
    try:
        if watched:
            while not (into / STATUS).exists() and crawl.poll() is None:
                time.sleep(0.05)
            server = Server(into)
            if CHROMIUM is not None:
                browser = Browser()
                browser.enter(server.link)
            looked, cpu = time.monotonic(), server.cpu()
        _, status, used = os.wait4(crawl.pid, 0)
        crawl.returncode = os.waitstatus_to_exitcode(status)
        if server is not None:
            share = (server.cpu() - cpu) / (time.monotonic() - looked)
    finally:
        if browser is not None:
            browser.__exit__(None, None, None)
        if server is not None:
            server.end()
    assert crawl.returncode == 0, "the crawl did not end well"
    done = json.loads((into / STATUS).read_bytes())["pages"]
    return (used.ru_utime + used.ru_stime) / done, share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--sites", type=int, default=100_000)
    parser.add_argument("--at", type=Path, help="where the crawl is kept; a temporary directory")
    parser.add_argument(
        "--no-graph", action="store_true", help="do not build the link graph of a crawl made here"
    )
    parser.add_argument("--no-answers", action="store_true")
    parser.add_argument("--no-crawl", action="store_true")
    parser.add_argument("--crawl-pages", type=int, default=6_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a small one, to see that it works")
    parser.add_argument("--write", action="store_true", help="also write docs/benchmarks/serve.md")
    args = parser.parse_args()
    if args.quick:
        args.pages, args.sites, args.crawl_pages, args.rounds = 20_000, 2_000, 500, 2
    lines: list[str] = []

    def tell(text: str) -> None:
        print(text, flush=True)
        lines.append(text)

    load = os.getloadavg()[0]
    tell(f"{os.cpu_count()} cores, load {load:.1f}" + (": **not quiet**" if load > 0.5 else ""))
    with tempfile.TemporaryDirectory() as place:
        if not args.no_answers:
            at = args.at or Path(place) / "crawl"
            if not (at / manifests.NAME).exists():
                began = time.monotonic()
                make(at, args.pages, args.sites)
                tell(
                    f"made a crawl of {args.pages:,} pages, {args.sites:,} sites"
                    f" in {time.monotonic() - began:.0f} s"
                )
                if not args.no_graph:
                    began = time.monotonic()
                    subprocess.run(
                        [*COMMAND, "graph", "build", str(at)], check=True, stdout=subprocess.DEVNULL
                    )
                    tell(f"built its graph in {time.monotonic() - began:.0f} s")
            with served(at) as server:
                asked = answers(server, tell)
                paints(server, asked, tell)
        if not args.no_crawl:
            beside(args.crawl_pages, args.rounds, tell)
    if args.write:
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
        Path("docs/benchmarks/serve.md").write_text(
            f"# The page\n\n`benchmarks/serve.py` wrote this.\n\n{text}\n"
        )


if __name__ == "__main__":
    main()
