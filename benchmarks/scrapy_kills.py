"""An independent Scrapy project, killed again and again: Lycosa's scheduler compared with Scrapy's own JOBDIR.

    git clone https://github.com/scrapy/quotesbot
    python benchmarks/scrapy_kills.py --project quotesbot

The spider `toscrape-css` of scrapy/quotesbot crawls http://quotes.toscrape.com/. A copy of that site's structure is
served on loopback, as a proxy, so that the spider's code and its start URL stay unchanged: lists of ten
quotes, each leading to the next. Both have the same schedule: SIGKILL whenever so many more pages were
requested, `--kills` times; then the run may end. Counted are the pages requested, and the items that
exist at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

QUOTES = 10


class Site:
    """quotes.toscrape.com, as far as the spider looks at it, behind a proxy."""

    def __init__(self, pages: int, delay: float) -> None:
        self.pages = pages
        self.delay = delay
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                body = site.answer(urlsplit(self.path).path)
                self.send_response_only(200 if body else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Log nothing: `asked` records the requests."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]  # whoever is killed hangs up
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, path: str) -> bytes:
        if path == "/robots.txt":
            return b""
        self.asked.append(path)
        time.sleep(self.delay)
        number = int(path.strip("/").removeprefix("page/") or 1)
        rows = "".join(
            f'<div class="quote"><span class="text">“Quote {number}.{n}”</span><span>by '
            f'<small class="author">Author {n}</small></span><div class="tags">'
            f'<a class="tag" href="/tag/t{n}/">t{n}</a></div></div>'
            for n in range(QUOTES)
        )
        more = f'<li class="next"><a href="/page/{number + 1}/">Next</a></li>' if number < self.pages else ""
        return f"<!DOCTYPE html><html><body>{rows}<nav><ul>{more}</ul></nav></body></html>".encode()


def run(project: Path, site: Site, settings: list[str], every: int, kills: int, items: Path) -> int:
    """Kill the spider on schedule, then let it end. Returns how many kills there were."""
    proxy = f"http://127.0.0.1:{site.server.server_port}"
    env = {**os.environ, "http_proxy": proxy, "HTTP_PROXY": proxy, "no_proxy": ""}
    words = [sys.executable, "-m", "scrapy", "crawl", "toscrape-css", "-s", "LOG_LEVEL=ERROR", *settings]
    done = 0
    for number in range(kills + 1):
        until = len(site.asked) + every
        process = subprocess.Popen(words, cwd=project, env=env)
        while process.poll() is None and (number == kills or len(site.asked) < until):
            time.sleep(0.005)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            done += 1
        process.wait()
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--project", type=Path, required=True, help="a clone of github.com/scrapy/quotesbot")
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--every", type=int, default=20, help="pages between two kills")
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--delay", type=float, default=0.05, help="seconds that the site takes for an answer")
    args = parser.parse_args()
    wanted = {f"“Quote {page}.{n}”" for page in range(1, args.pages + 1) for n in range(QUOTES)}
    print("| | pages asked for | kills | items | distinct | missing |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("lycosa.scrapy", "JOBDIR"):
            place = Path(scratch) / name
            items = place / "items.jsonl"
            if name == "JOBDIR":
                settings = ["-s", f"JOBDIR={place}", "-o", f"{items}:jsonlines"]
            else:
                settings = ["-s", "SCHEDULER=lycosa.scrapy.Scheduler", "-s", f"LYCOSA_DIR={place}"]
                settings += ["-s", 'DOWNLOADER_MIDDLEWARES={"lycosa.scrapy.Archive": 950}']
            site = Site(args.pages, args.delay)
            kills = run(args.project, site, settings, args.every, args.kills, items)
            site.server.shutdown()
            rows = items.read_text(encoding="utf-8").splitlines() if items.exists() else []
            texts: Counter[str] = Counter()
            for row in rows:
                try:
                    texts[json.loads(row)["text"]] += 1
                except ValueError:
                    texts["(torn)"] += 1
            missing = len(wanted - texts.keys())
            print(
                f"| {name} | {len(site.asked)} of {args.pages} | {kills} | {texts.total()} | {len(texts)}"
                f" | {missing} |",
                flush=True,
            )
            if name != "JOBDIR":
                archived(place / "crawl", args.pages)


def archived(crawl: Path, pages: int) -> None:
    """The results of Lycosa's own verbs for the run."""
    words = [
        sys.executable,
        "-m",
        "lycosa.cli.main",
        "export",
        str(crawl),
        "pages",
        "--columns",
        "url,status",
    ]
    rows = [json.loads(line) for line in subprocess.run(words, capture_output=True).stdout.splitlines()]
    print(
        f"| its crawl (`lycosa export`) | {len({row['url'] for row in rows})} of {pages} | | | | |",
        flush=True,
    )


if __name__ == "__main__":
    main()
