"""Crawls that never happened: directories with a manifest, logs and an archive, written record by record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lycosa.archive.writer import Archive, ArchiveOptions
from lycosa.ask.reading import CrawlReader
from lycosa.clock import ManualClock
from lycosa.crawl import manifest as manifests
from lycosa.crawl.config import Options, encode_options
from lycosa.crawl.splitting import Splitter
from lycosa.files import DiskFiles
from lycosa.log.log import Log
from lycosa.page.fingerprint import digest
from lycosa.records import (
    NO_LINKS,
    Configured,
    Deferred,
    Fetched,
    Link,
    LinkKind,
    Links,
    Record,
    Robots,
    Seeded,
    Skipped,
    Stored,
    Timing,
    Why,
)
from lycosa.url.parts import host_of, site_of
from lycosa.url.scope import ScopeOptions

BEGIN = 1_700_000_000_000
"""2023-11-14T22:13:20Z"""


def anchors(*targets: str | tuple[str, str]) -> Links:
    """Links by URL, or by URL and text."""
    rows = [(row, f"to {row}") if isinstance(row, str) else row for row in targets]
    return Links.pack(Link(url, LinkKind.ANCHOR, False, text) for url, text in rows)


class MadeCrawl:
    """A crawl whose records are made up. Each record is a second later than the one before."""

    def __init__(self, directory: Path, shards: int = 3, segment_bytes: int = 64 << 20) -> None:
        self.directory = directory
        self.files = DiskFiles(directory)
        self.manifest = manifests.create(self.files, BEGIN, shards, hash_seed=5)
        self._splitter = Splitter(shards, manifests.domains_of(self.files))
        self.logs = [
            Log(self.files.within(f"{manifests.shard_directory(number)}/log"), segment_bytes)
            for number in range(shards)
        ]
        self.archive = Archive(self.files.within("archive"), ArchiveOptions(), ManualClock(), crawl="made")
        self.at = BEGIN
        self.pages: dict[tuple[int, int], Fetched] = {}
        """All that `fetch` made, by shard and position."""

    def shard_of(self, url: str) -> int:
        return self._splitter.shard_of(host_of(url))

    def tick(self, ms: int = 1000) -> int:
        self.at += ms
        return self.at

    def log(self, record: Record, shard: int) -> tuple[int, int]:
        return shard, self.logs[shard].append(record)

    def configure(self, options: Options | None = None) -> None:
        options = options or Options(public=False, scope=ScopeOptions(mode="any"), near=("http://a.test/",))
        for shard in range(len(self.logs)):
            self.log(Configured(self.at, encode_options(options)), shard)

    def seed(self, *urls: str) -> None:
        for url in urls:
            links = Links.pack([Link(url, LinkKind.SEED, False, "")])
            self.log(Seeded(self.tick(), links), self.shard_of(url))

    def fetch(
        self,
        url: str,
        status: int = 200,
        links: Links = NO_LINKS,
        body: bytes = b"",
        headers: Sequence[str] = (),
        sent: bytes | None = None,
        keep: bool = False,
        **fields: Any,
    ) -> tuple[int, int]:
        """A Fetched record; with `keep` its exchange is in the archive, with body `sent` (or as it is)."""
        stored: Stored | None = None
        sent = body if sent is None else sent
        if keep:
            lines = [f"HTTP/1.1 {status} X", "Content-Type: text/html; charset=utf-8", *headers]
            stored = self.archive.store(
                url=url,
                at=self.at,
                request_head=f"GET / HTTP/1.1\r\nHost: {host_of(url)}\r\n\r\n".encode(),
                head="\r\n".join([*lines, "", ""]).encode(),
                body=sent,
            )
        known: dict[str, Any] = {
            "at": self.tick(),
            "url": url,
            "depth": 0,
            "hops": 0,
            "attempt": 0,
            "status": status,
            "type": "text/html",
            "charset": "utf-8",
            "size": len(sent),
            "length": len(body),
            "digest": digest(body),
            "timing": Timing(1, 2, 10, 20),
            "address": "127.0.0.1",
            "links": links,
            "stored": stored,
        }
        record = Fetched(**{**known, **fields})
        place = self.log(record, self.shard_of(url))
        self.pages[place] = record
        return place

    def redirect(self, url: str, target: str, status: int = 301) -> tuple[int, int]:
        return self.fetch(url, status, Links.pack([Link(target, LinkKind.REDIRECT, False, "")]), type="")

    def skip(self, url: str, why: Why, detail: str = "") -> tuple[int, int]:
        return self.log(Skipped(self.tick(), url, 1, why, detail), self.shard_of(url))

    def defer(self, url: str, why: Why, due: int, detail: str = "", attempt: int = 1) -> tuple[int, int]:
        record = Deferred(self.tick(), url, site_of(url), 1, 0, attempt, why, due, detail)
        return self.log(record, self.shard_of(url))

    def robots(
        self, site: str, body: bytes, status: int = 200, links: Links = NO_LINKS, detail: str = ""
    ) -> tuple[int, int]:
        record = Robots(self.tick(), site, status, body, self.at + 86_400_000, links, detail=detail)
        return self.log(record, self.shard_of(site + "/"))

    def commit(self) -> None:
        self.archive.sync()
        for log in self.logs:
            log.commit()

    def close(self) -> None:
        self.commit()
        self.archive.close()
        for log in self.logs:
            log.close()

    def reader(self) -> CrawlReader:
        self.commit()
        return CrawlReader(self.directory)


def small(directory: Path) -> MadeCrawl:
    """A crawl with some of everything, as the verbs' tests want it; committed and closed."""
    crawl = MadeCrawl(directory)
    crawl.configure()
    crawl.seed("http://a.test/")
    crawl.robots("http://a.test", b"User-agent: *\nDisallow: /private\n")
    links = anchors(
        "http://a.test/1", ("http://a.test/gone", "a dead page"), "http://b.test/", "http://a.test/old"
    )
    body = b"<title>Home</title><p>The home page of a site that was never there, in some words.</p>"
    crawl.fetch("http://a.test/", 200, links, body, keep=True, title="Home")
    crawl.fetch("http://a.test/1", 200, anchors("http://a.test/gone"), b"<p>one</p>", depth=1, keep=True)
    crawl.fetch("http://a.test/gone", 404, body=b"none", depth=1, keep=True)
    crawl.redirect("http://a.test/old", "http://a.test/1")
    crawl.skip("http://a.test/private/x", Why.ROBOTS, "line 2: Disallow: /private")
    crawl.robots("http://b.test", b"", 404, detail="status 404")
    crawl.fetch("http://b.test/", 200, anchors("http://a.test/"), b"<p>one</p>", depth=1, duplicate=True)
    crawl.skip("http://b.test/slow", Why.FAILED, "timeout: no first byte in 30 s")
    crawl.defer("http://b.test/busy", Why.BUSY, crawl.at + 240_000, "status 503")
    crawl.close()
    return crawl
