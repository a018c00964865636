"""The cost of rendering compared with a plain fetch: the same pages, once as HTML and once made by scripts.

    python benchmarks/render.py [--pages 100] [--tabs 2]

A server on loopback has each page twice: as HTML with its text and links (/plain/N), and as a shell whose script
fetches the same text and links as JSON and builds them (/made/N). Both are crawled from one page to the next, with
politeness's waits off, and must give the same number of pages. Reported are seconds and CPU seconds per page, of
the crawl and of the browser, and the machine's load: on a busy machine only the CPU is meaningful.
"""

from __future__ import annotations

import argparse
import asyncio
import http.server
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import lycosa
from lycosa.ask.reading import CrawlReader
from lycosa.records import Fetched

WORDS = "the wolf spider hunts on foot and builds no web of its own " * 12
FAN = 4
SCRIPT = """
const [, , number] = location.pathname.split("/");
fetch(`/data/${number}`).then((found) => found.json()).then((page) => {
  document.title = page.title;
  for (const text of page.texts)
    document.body.append(Object.assign(document.createElement("p"), {textContent: text}));
  for (const link of page.links)
    document.body.append(Object.assign(document.createElement("a"), {href: link, textContent: link}));
});
"""


class Site(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pages: ClassVar[int] = 0

    def do_GET(self) -> None:
        kind, _, number = self.path.strip("/").partition("/")
        media, body = "text/html; charset=utf-8", ""
        if kind == "app.js":
            media, body = "text/javascript", SCRIPT
        elif kind == "made":
            body = '<!DOCTYPE html><title>shell</title><body><script src="/app.js"></script>'
        elif kind in ("plain", "data"):
            n = int(number)
            into = "plain" if kind == "plain" else "made"
            below = range(n * FAN + 1, n * FAN + 1 + FAN)
            links = [f"/{into}/{each}" for each in below if each < Site.pages]
            texts = [f"{n} {part} {WORDS}" for part in range(4)]
            if kind == "data":
                media, body = (
                    "application/json",
                    json.dumps({"title": f"page {n}", "texts": texts, "links": links}),
                )
            else:
                rows = "".join(f"<p>{text}</p>" for text in texts)
                rows += "".join(f'<a href="{link}">{link}</a>' for link in links)
                body = f"<!DOCTYPE html><title>page {n}</title><body>{rows}"
        data = body.encode()
        self.send_response(200 if data else 404)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


def serve(pages: int) -> None:
    Site.pages = pages
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


def note_cpu(known: dict[str, float]) -> None:
    """Note the CPU seconds of the browsers started by us: each leads a session of its own."""
    tick, rows = os.sysconf("SC_CLK_TCK"), {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        rows[stat.parent.name] = name, rest.split()
    ours = {pid for pid, (_, row) in rows.items() if int(row[1]) == os.getpid() and row[3] == pid}
    for name, row in rows.values():
        if row[3] in ours:
            known[name] = (int(row[11]) + int(row[12])) / tick


async def crawl(port: int, kind: str, options: dict[str, Any]) -> tuple[float, float, float, int]:
    """Seconds, our CPU, the browser's CPU, pages."""
    known: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        began, cpu = time.monotonic(), time.process_time()
        made = lycosa.Crawl(
            [f"http://127.0.0.1:{port}/{kind}/0"],
            into=place,
            public=False,
            allow=["127.0.0.0/8"],
            politeness={"wait": 0.0, "factor": 0.0, "address_wait": 0.0, "pages_per_visit": 1000},
            render=options,
        )
        task = asyncio.ensure_future(made.wait())
        while not task.done():
            await asyncio.wait((task,), timeout=0.5)
            note_cpu(known)
        await task
        took, ours = time.monotonic() - began, time.process_time() - cpu
        rows = [row for _, _, row in CrawlReader(Path(place)).records() if isinstance(row, Fetched)]
        problems = [row.rendered.problem for row in rows if row.rendered and row.rendered.problem]
        assert not problems, problems[:3]
        assert {row.status for row in rows} == {200}
        return took, ours, sum(known.values()), len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--tabs", type=int, default=2)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.pages)
        return
    command = [sys.executable, __file__, "--serve", "--pages", str(args.pages)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {args.pages} pages")
        for kind, options in (("plain", {}), ("made", {"when": "auto", "tabs": args.tabs})):
            took, ours, browser, pages = asyncio.run(crawl(port, kind, options))
            assert pages == args.pages, (pages, args.pages)
            print(
                f"{kind:6} {took / pages * 1000:8.1f} ms a page, CPU {ours / pages * 1000:7.1f} ms of the crawl"
                f" and {browser / pages * 1000:7.1f} ms of the browser"
            )
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
