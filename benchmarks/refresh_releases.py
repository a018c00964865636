"""A real change: documentation of two Debian releases, served one after the other to a continuous crawl.

    python benchmarks/refresh_releases.py [--cache .bench]

The packages are those of `PAIRS`, of bookworm and of trixie; both are downloaded (`apt-get download`, with separate
package lists below the cache directory: the system's are not touched) and unpacked, once. A server on loopback has
one host per pair. It serves the older tree until every page that its links reach was fetched; then, from one
request to the next, the newer one. `lycosa crawl --continuous` (the command, in a separate process) refetches
every page about twice per minute.

The crawl must then have found the following, by the histories of its log (`lycosa.pages.summary`):

    changed     pages in both trees, with different main texts of the two files; exactly one change was seen
    same        pages in both trees, with equal main texts; no change was seen, however often they were refetched
    gone        pages of the older tree only: 404
    new         pages that the links of the newer tree reach, and that the older one did not have

What the trees' links reach is computed here from the files, by two regular expressions. Whether two files have the
same content is decided in three ways: by the words that count (`content_words`: plain Python, no digest), which
must agree exactly; by the main text that is indexed and shown (`main_text`), by words; and by all text between
tags. The last two are counted for comparison: they define content differently (for reasons see
`lycosa.content.change`).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

from lycosa.ask.reading import CrawlReader
from lycosa.content.change import content_words
from lycosa.content.main_text import main_text
from lycosa.pages.summary import Summary, joined, of_fetch
from lycosa.records import Fetched

OLD, NEW = "bookworm", "trixie"


class Pair(NamedTuple):
    """A package of both releases: the served part of each, and the page with which the crawl begins."""

    old: str
    old_root: str
    new: str
    new_root: str
    seed: str


PAIRS = (
    Pair(
        *("postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html"),
        *("postgresql-doc-17", "usr/share/doc/postgresql-doc-17/html", "index.html"),
    ),
    Pair(
        *("python3.11-doc", "usr/share/doc/python3.11/html"),
        *("python3.13-doc", "usr/share/doc/python3.13/html", "contents.html"),
    ),
    Pair(
        *("debian-reference-en", "usr/share/debian-reference"),
        *("debian-reference-en", "usr/share/doc/debian-reference-common/docs", "index.en.html"),
    ),
)
_PAGE = (".html", ".htm")
_LONGEST = 3600.0


# -- the packages


def unpacked(release: str, package: str, cache: Path) -> Path:
    """The directory of a package of a release, which is downloaded if need be."""
    place = cache / "releases" / release / package
    if place.is_dir():
        return place
    base = cache.absolute() / "releases" / release / "apt"
    for part in ("lists/partial", "archives/partial", "debs"):
        (base / part).mkdir(parents=True, exist_ok=True)
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (base / "sources.list").write_text(
        f"deb [signed-by={keys}] http://deb.debian.org/debian {release} main\n"
    )
    settings = {
        "Dir::Etc::sourcelist": base / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": base / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": base,
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    if not list(base.glob("lists/*Packages*")):
        subprocess.run(["apt-get", *options, "-q", "update"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["apt-get", *options, "-q", "download", package], cwd=base / "debs", check=True)
    deb = next((base / "debs").glob(f"{package}_*.deb"))
    draft = place.with_suffix(".part")
    shutil.rmtree(draft, ignore_errors=True)
    subprocess.run(["dpkg-deb", "-x", str(deb), str(draft)], check=True)
    return draft.rename(place)


# -- the files


_LINK = re.compile(r"""(?is)<!--.*?-->|<script\b.*?</script>|<(?:a|area|link|i?frame)\b([^>]*)>""")
_HREF = re.compile(r"""(?is)(?:^|\s)(?:href|src)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_NOT_FOLLOWED = re.compile(r"""(?is)\brel\s*=\s*["'][^"']*\b(?:stylesheet|icon|nofollow)""")


def hrefs(page: str) -> list[str]:
    """The links of a page that a crawl follows, by two regular expressions."""
    tags = [found[1] for found in _LINK.finditer(page) if found[1] and not _NOT_FOLLOWED.search(found[1])]
    found = [_HREF.search(tag) for tag in tags]
    return [unescape(row[1] or row[2] or "").strip() for row in found if row is not None]


class Tree:
    """The files of one release of a package, by path."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._links: dict[str, list[str]] = {}

    def read(self, path: str) -> bytes | None:
        """The file of a URL's path."""
        place = self.root / unquote(path).lstrip("/")
        return place.read_bytes() if place.is_file() else None

    def _linked(self, path: str) -> list[str]:
        if path not in self._links:
            found = {
                href.partition("#")[0] for href in hrefs((self.read(path) or b"").decode("utf-8", "replace"))
            }
            parts = [urlsplit(urljoin(f"http://x.test{path}", href)) for href in found if href]
            self._links[path] = [part.path for part in parts if part.netloc == "x.test" and not part.query]
        return self._links[path]

    def reached(self, starts: set[str]) -> set[str]:
        """The pages that links lead to, from those of `starts` that are there."""
        found: set[str] = set()
        waiting = [path for path in starts if self.read(path) is not None]
        while waiting:
            path = waiting.pop()
            if path in found or not path.endswith(_PAGE) or self.read(path) is None:
                continue
            found.add(path)
            waiting += self._linked(path)
        return found


def words(page: bytes) -> list[str]:
    """The words of all text between tags."""
    text = page.decode("utf-8", "replace")
    text = re.sub(r"(?is)<(script|style|head)\b.*?</\1>|<!--.*?-->|<[^>]*>", " ", text)
    return re.findall(r"\w+", text)


# -- the server


class Site:
    """One host per pair; which release it serves, and the requests for it."""

    def __init__(self, trees: list[tuple[Tree, Tree]]) -> None:
        self.trees = trees
        self.newer = False
        self.asked: list[list[set[str]]] = [[set(), set()] for _ in trees]  # paths, by pair and release

    def answer(self, host: int, path: str) -> tuple[int, bytes]:
        """The status and body of a path, now."""
        newer = self.newer
        body = self.trees[host][newer].read(path)
        self.asked[host][newer].add(path)
        return (200, body) if body is not None else (404, b"not found")


@contextmanager
def served(site: Site) -> Iterator[int]:
    """The port, the same at 127.0.0.1, 127.0.0.2 and so on."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            host = int(self.connection.getsockname()[0].rpartition(".")[2]) - 1
            status, body = site.answer(host, self.path.partition("?")[0])
            tag = f'"{hash(body) & (1 << 64) - 1:x}"'
            if status == 200 and self.headers.get("If-None-Match") == tag:
                status, body = 304, b""
            self.send_response(status)
            if status < 400:
                self.send_header("ETag", tag)
            if status != 304:
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()


def crawl(
    site: Site, port: int, seeds: list[str], into: Path, wanted: list[tuple[set[str], set[str]]]
) -> float:
    """Crawl until both releases were seen; returns the time at which the newer one was put in place."""
    settings = {
        "public": "false",
        "allow": '["127.0.0.0/8"]',
        "politeness.wait": 0.0,
        "politeness.factor": 0.0,
        "politeness.address_wait": 0.0,
        "politeness.pages_per_visit": 1000,
        "refresh.policy": "uniform",
        "refresh.per_page": 2880.0,
        "refresh.shortest": 5.0,
    }
    options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = [
        "-m",
        "lycosa.cli.main",
        "crawl",
        *seeds,
        "--continuous",
        "--into",
        str(into),
        "--quiet",
        *options,
    ]
    process = subprocess.Popen([sys.executable, *command])
    end = time.monotonic() + _LONGEST
    try:
        for newer in (False, True):
            site.newer = newer
            if newer:
                switched = time.time()
            while any(want[newer] - asked[newer] for want, asked in zip(wanted, site.asked, strict=True)):
                if process.poll() is not None or time.monotonic() > end:
                    left = [
                        want[newer] - asked[newer] for want, asked in zip(wanted, site.asked, strict=True)
                    ]
                    raise SystemExit(f"not asked for: {[sorted(part)[:5] for part in left]}")
                time.sleep(0.5)
            time.sleep(3.0)  # the last answers are committed
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    return switched


def histories(into: Path) -> dict[str, Summary]:
    """The history of each page according to the log."""
    found: dict[str, Summary] = {}
    for _, position, record in CrawlReader(into).records():
        if isinstance(record, Fetched):
            new = of_fetch(record, position)
            found[record.url] = joined(found[record.url], new) if record.url in found else new
    return found


def verdict(summary: Summary, switched: float) -> str:
    """The crawl's findings about a page."""
    if summary.first >= switched:
        return (
            "new" if summary.status in (2, 3) and not summary.changes else f"new, {summary.changes} changes"
        )
    if summary.status == 4:
        return "gone" if summary.changes == 1 else f"gone, {summary.changes} changes"
    return {0: "same", 1: "changed"}.get(summary.changes, f"{summary.changes} changes")


def main() -> int:
    """Crawl, and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, default=Path(".bench"))
    args = parser.parse_args()
    trees = [
        (
            Tree(unpacked(OLD, pair.old, args.cache) / pair.old_root),
            Tree(unpacked(NEW, pair.new, args.cache) / pair.new_root),
        )
        for pair in PAIRS
    ]
    wanted: list[tuple[set[str], set[str]]] = []
    for pair, (old, new) in zip(PAIRS, trees, strict=True):
        first = old.reached({f"/{pair.seed}"})
        wanted.append((first, new.reached(first | {f"/{pair.seed}"}) | first))
    site = Site(trees)
    with tempfile.TemporaryDirectory() as scratch, served(site) as port:
        into = Path(scratch) / "crawl"
        hosts = [f"http://127.0.0.{n}:{port}" for n in range(1, len(PAIRS) + 1)]
        seeds = [f"{host}/{pair.seed}" for host, pair in zip(hosts, PAIRS, strict=True)]
        switched = crawl(site, port, seeds, into, wanted)
        found = histories(into)
    wrong = 0
    for host, pair, (old, new), (before, after) in zip(hosts, PAIRS, trees, wanted, strict=True):
        counts: Counter[tuple[str, str]] = Counter()
        others: Counter[str] = Counter()
        for path in sorted(before | after):
            pages = old.read(path) if path in before else None, new.read(path)
            if pages[0] is None or pages[1] is None:
                expected = "gone" if pages[1] is None else "new"
            else:
                differ = sorted(content_words(pages[0])) != sorted(content_words(pages[1]))
                expected = "changed" if differ else "same"
                texts = [main_text(page).text.split() for page in pages if page is not None]
                others["main text differs"] += texts[0] != texts[1]
                others["... and no word that counts does"] += texts[0] != texts[1] and not differ
                others["a word that counts differs and main text does not"] += differ and texts[0] == texts[1]
                others["any word differs"] += words(pages[0]) != words(pages[1])
                others["bytes differ"] += pages[0] != pages[1]
            summary = found.get(host + path)
            said = verdict(summary, switched) if summary else "never fetched"
            counts[expected, said] += 1
            if expected != said:
                wrong += 1
                print(f"  {path}: {expected} by the files, {said} by the crawl")
        print(f"{pair.old} -> {pair.new}: {len(before)} pages, then {len(after)} known")
        for (expected, said), count in sorted(counts.items()):
            print(f"  {expected:<8} by the files, {said:<8} by the crawl: {count:,}")
        print("  of pages in both:", ", ".join(f"{name} {count:,}" for name, count in others.items()))
    print(f"{wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
