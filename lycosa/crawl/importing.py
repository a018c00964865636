"""Importing: fetches by other programs as records of a crawl's log, so that the crawl continues where they ended.

    with Importer(files, clock) as importer:
        importer.warc(path)        pages with their bodies and links: as if this crawl had fetched them
        importer.cdx(path)         pages that are known as fetched, without body and links
        importer.urls(lines)       URLs to be fetched, like seeds
        await importer.fetched(waiting, response, at)       an answer that another program has just received

A page becomes the Fetched that the crawl itself would have logged: it is read by the same parsers (`harvest`), its
exchange is stored in the crawl's own archive, and its record goes to the log of its shard. All folds (seen,
frontier, links between shards) are built from the logs at the next start of the crawl. Depth is that of a seed, 0.

A new crawl begins with default options, except that its scope is relative to the URLs to be fetched. Its
next run brings its own options, and the imported links in their scope are then found by the pass over the log
that follows any change of scope.

**Once.** Archive bytes are durable before the records that name them. A page that the logs already have is skipped,
so after a kill the same command continues; several captures of one URL within one import are fetches of it.

Answers that another program hands over as they come (`fetched`) all count as fetches, also of pages that were there
before; `commit` makes them durable, and `recover` first cuts off what an earlier process left after its last
commit.

Not imported: records that are no answers (requests, metadata, dns), robots.txt, and anything but URLs of
the web. A revisit record has no body: its URL is known as fetched.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
from xxhash import xxh3_64, xxh3_64_intdigest

from lycosa.archive.foreign import Capture, captures, records
from lycosa.archive.reader import Record
from lycosa.archive.writer import Archive
from lycosa.clock import Clock, milliseconds
from lycosa.crawl import manifest as manifests
from lycosa.crawl.config import Options, canonical_seed, decode_options, encode_options, near_part, with_seeds
from lycosa.crawl.harvest import Harvester
from lycosa.crawl.near_seeds import lines_of, near_seeds
from lycosa.crawl.splitting import Splitter
from lycosa.fetch.decode import decode
from lycosa.fetch.protocol import Response, find_header
from lycosa.fetch.registry import known_schemes
from lycosa.files import Appender, Files
from lycosa.log.log import Log
from lycosa.meters import Meters
from lycosa.page.linking import Linker
from lycosa.page.protocol import Limits
from lycosa.page.registry import Parsers
from lycosa.page.scan import ScanParser
from lycosa.records import (
    NO_LINKS,
    Before,
    Configured,
    Fetched,
    Link,
    LinkKind,
    Links,
    Robots,
    RobotsState,
    Seeded,
    Timing,
    UrlHead,
    Waiting,
    decode_head,
)
from lycosa.records import Record as LogRecord
from lycosa.seen.memory import MemorySeen
from lycosa.url.canonical import SCHEMES, canonicalise
from lycosa.url.hrefs import HrefMemo
from lycosa.url.key import Keyer, Keys
from lycosa.url.memo import LinkMemo
from lycosa.url.parts import host_of, path_of, site_of
from lycosa.url.rules import Rules

_COMMIT = 500
"""Pages between commits."""
_SEEDS = 1000
_LIST = "urls"
_FEW = 1_000
"""Seeds of one list that are kept in the options (`near_seeds`)."""
_DRAFT = "seeds.part"
_STATUS = re.compile(rb"HTTP/(\d(?:\.\d)?) +(\d{3})")
_HEX = re.compile(rb"[0-9A-Fa-f]{1,16}")
_CHUNKED = re.compile(rb"^transfer-encoding[ \t]*:[^\r\n]*\r?\n", re.I | re.M)
_MEMO = 65_536
_DAY = 86_400_000


class Done(msgspec.Struct):
    """The result of an import."""

    pages: int = 0
    known: int = 0
    """Pages without a body: from indexes, and revisits."""
    urls: int = 0
    passed: int = 0
    """Pages that the crawl already had."""
    refused: int = 0
    """Lines of lists that are not URLs."""


class Importer:
    """Writes into a crawl that is not running: the caller holds its lock."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        scratch: Files,
        *,
        shards: int | None = None,
        told: Callable[[str, int], None] = lambda *_: None,
    ) -> None:
        self._clock = clock
        self._told = told
        self.done = Done()
        manifest = manifests.open_or_create(files, milliseconds(clock), shards)
        self._split = Splitter(manifest.shards, manifests.domains_of(files), manifest.splitter)
        self._keyer = Keyer(manifest.hash_seed)
        self._logs = [
            Log(files.within(f"{manifests.shard_directory(number)}/log")) for number in range(manifest.shards)
        ]
        self._files = files
        self._scratch = scratch
        self._before = MemorySeen(scratch.within("before"))
        self._seeded = MemorySeen(scratch.within("seeded"))
        self._now = MemorySeen(scratch.within("now"))
        options = self._read_logs()
        self._rules = Rules.named(options.rules)
        self._archive = Archive(files.within("archive"), options.archive, clock, crawl=manifest.crawl)
        limits = Limits(repeats=False)
        meters = Meters()
        memo = HrefMemo(_MEMO // 4, self._rules, meters, SCHEMES)
        self._harvester = Harvester(
            archive=self._archive,
            parsers=Parsers.load(limits, ScanParser(limits, deferred=True)),
            memo=memo,
            linker=Linker(
                LinkMemo(_MEMO, self._keyer), memo, self._keyer, self._rules, limits, meters, SCHEMES
            ),
            seen_content=lambda _digest: False,
            agent=options.robots.agent,
        )
        self._options = options
        self._limit = options.fetch.max_decoded_bytes
        self._uncommitted = 0

    def __enter__(self) -> Importer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._commit()
        self._harvester.close()
        for log in self._logs:
            log.close()

    def warc(self, path: Path) -> None:
        """The pages of a WARC file."""
        loop = asyncio.new_event_loop()
        try:
            for number, record in enumerate(records(path), 1):
                if record.kind in ("response", "resource", "revisit"):
                    loop.run_until_complete(self._page(record))
                if not number & 0xFF:
                    self._told(f"importing {path.name}", number)
        finally:
            self._commit()  # of a truncated file, what came before the end
            loop.close()

    def cdx(self, path: Path) -> None:
        """The pages that an index names."""
        for number, row in enumerate(captures(path), 1):
            self._capture(row)
            if not number & 0xFF:
                self._told(f"importing {path.name}", number)
        self._commit()

    def urls(self, lines: Iterable[str]) -> None:
        """URLs (or hosts) to be fetched, like seeds: the scope of later runs is relative to them, too.

        The list is never in memory: its URLs go to a scratch file while what the scope needs of them is collected,
        and are logged from there after the options that have it.
        """
        with closing(Collector(self._options, self._files, self._scratch.within("near"))) as near:
            with closing(self._scratch.create(_LIST)) as out:
                for urls in batched(self._canonical(lines), _SEEDS):
                    near.add(urls)
                    out.write("".join(f"{url}\n" for url in urls).encode())
            self._widen(near.options())
        waiting: dict[Log, list[str]] = {}
        for number, urls in enumerate(batched(lines_of(self._scratch, _LIST), _SEEDS)):
            self._told("importing URLs", number * _SEEDS)
            keys, _ = self._keyer.scan("\n".join(urls).encode())
            known = self._before.certain(keys) | self._now.certain(keys)
            unknown = np.flatnonzero(~known)
            new = unknown[self._seeded.offer(keys[unknown], [b""] * len(unknown)).new]
            self.done.passed += len(urls) - len(new)
            self.done.urls += len(new)
            for url in map(urls.__getitem__, new):
                rows = waiting.setdefault(self._log_of(url), [])
                rows.append(url)
                if len(rows) >= _SEEDS:
                    self._seed(self._log_of(url), rows)
                    rows.clear()
        for log, rows in waiting.items():
            if rows:
                self._seed(log, rows)
        self._commit()

    def _canonical(self, lines: Iterable[str]) -> Iterator[str]:
        schemes = known_schemes()
        for number, line in enumerate(lines):
            url = canonical_seed(line, self._rules, schemes)
            if url is None:
                self.done.refused += 1
            else:
                yield url
            if not number & 0xFFF:
                self._told("reading URLs", number)

    def _widen(self, options: Options) -> None:
        """Log the options if they have changed."""
        if options != self._options:
            self._options = options
            for log in self._logs:
                log.append(Configured(milliseconds(self._clock), encode_options(options)))
                self._uncommitted += 1

    def recover(self) -> None:
        """Cut the archive to what the logs know of it; to be called before the first page."""
        ends: dict[str, int] = {}
        for log in self._logs:
            for _, record in log.reader.scan():
                if isinstance(record, Fetched | Robots) and (place := record.stored) is not None:
                    ends[place.file] = max(place.offset + place.length, ends.get(place.file, 0))
        self._archive.recover(ends)

    def knows(self, url: str) -> bool:
        """Whether a canonical URL was fetched, in an earlier run or this one."""
        key = self._key(url)
        return bool(self._before.certain(key)[0] or self._now.certain(key)[0])

    async def fetched(self, waiting: Waiting, response: Response, at: int) -> None:
        """Import an answer; its URL is canonical, and `before` is determined here."""
        known = self.knows(waiting.url)
        waiting = waiting._replace(
            key=self._keyer.key(waiting.url), before=Before.PAGE if known else Before.NEVER
        )
        crop = await self._harvester.harvest(waiting, response, at)
        self._now.offer(self._key(waiting.url), (b"",))
        self.done.pages += 1
        self._append(self._log_of(waiting.url), crop.record)

    def robots(self, response: Response, at: int) -> None:
        """Import the answer to a request for robots.txt."""
        state = RobotsState.READ if response.status < 300 else RobotsState.NONE
        if response.status >= 500:
            state = RobotsState.UNREACHABLE
        body = response.decoded[: self._options.fetch.max_robots_bytes] if state is RobotsState.READ else b""
        stored = self._harvester.store(response, at)
        record = Robots(
            *(at, site_of(response.url), response.status, body, at + _DAY), stored=stored, state=state
        )
        self._append(self._log_of(response.url), record)

    def seed(self, url: str) -> None:
        """Import a canonical URL from which another program starts."""
        self._seed(self._log_of(url), [url])

    def commit(self) -> None:
        """Make everything so far durable."""
        self._commit()

    # -- inside

    def _read_logs(self) -> Options:
        """Read what the crawl has; returns the options in force."""
        options = Options()
        for log in self._logs:
            urls: list[int] = []
            for _, row in log.reader.scan_encoded():
                head = decode_head(row)
                if type(head) is UrlHead:
                    urls.append(self._keyer.key(head.url))
            if urls:
                self._before.mark(np.array(urls, np.uint64))
            for _, seeds in log.reader.find_kind(Seeded):
                self._seeded.mark(self._keyer.scan(seeds.links.urls)[0])
            for _, record in log.reader.find_kind(Configured):
                options = decode_options(record.options)
        return options

    def _seed(self, log: Log, urls: list[str]) -> None:
        rows = (Link(url, LinkKind.SEED, False, "") for url in urls)
        self._append(log, Seeded(milliseconds(self._clock), Links.pack(rows)))

    def _is_new(self, url: str) -> bool:
        return not self._before.certain(self._key(url))[0]

    def _key(self, url: str) -> Keys:
        return np.array([self._keyer.key(url)], np.uint64)

    def _wanted(self, text: str) -> tuple[str, Before] | None:
        """The URL of a page that is to be imported, and whether it came before in this import."""
        url = canonicalise(text, rules=self._rules)
        if url is None or not url.startswith(("http:", "https:")) or path_of(url) == "/robots.txt":
            return None
        if not self._is_new(url):
            self.done.passed += 1
            return None
        first = len(self._now.offer(self._key(url), (b"",)).new)
        return url, Before.NEVER if first else Before.PAGE

    async def _page(self, record: Record) -> None:
        found = self._wanted(record.url)
        if found is None:
            return
        url, before = found
        response = None if record.kind == "revisit" else _response(record, url, self._limit)
        if response is None:
            if before is Before.NEVER:
                self._know(url, self._at(record.at), 200, "")
            return
        waiting = Waiting(url, self._keyer.key(url), before=before)
        crop = await self._harvester.harvest(waiting, response, self._at(record.at))
        self.done.pages += 1
        self._append(self._log_of(url), crop.record)

    def _capture(self, row: Capture) -> None:
        found = self._wanted(row.url)
        if found is not None and found[1] is Before.NEVER:
            self._know(found[0], self._at(row.at), row.status or 200, row.type)

    def _know(self, url: str, at: int, status: int, media: str) -> None:
        """Import a page of which nothing more is known."""
        self.done.known += 1
        record = Fetched(
            at=at,
            url=url,
            depth=0,
            hops=0,
            attempt=0,
            status=status,
            type=media,
            charset="",
            size=0,
            length=0,
            digest=0,
            timing=Timing(),
            address="",
            links=NO_LINKS,
        )
        self._append(self._log_of(url), record)

    def _at(self, said: int) -> int:
        """When a page was fetched: the time in the file, unless that is in the future."""
        now = milliseconds(self._clock)
        return said if 0 < said <= now else now

    def _log_of(self, url: str) -> Log:
        return self._logs[self._split.shard_of(host_of(url))]

    def _append(self, log: Log, record: LogRecord) -> None:
        if not log.end:  # a change of scope needs earlier options
            log.append(Configured(milliseconds(self._clock), encode_options(self._options)))
        log.append(record)
        self._uncommitted += 1
        if self._uncommitted >= _COMMIT:
            self._commit()

    def _commit(self) -> None:
        if not self._uncommitted:
            return
        self._archive.sync()
        for log in self._logs:
            log.commit()
        self._uncommitted = 0


def batched(urls: Iterable[str], most: int) -> Iterator[list[str]]:
    """URLs in lists of at most `most`."""
    left = iter(urls)
    while batch := list(islice(left, most)):
        yield batch


class Collector:
    """Collects from a list of any length what the scope needs; some 20 bytes of memory for each site."""

    def __init__(self, options: Options, files: Files, scratch: Files) -> None:
        self._options = options
        self._files = files
        self._part: Callable[[str], str] = near_part(options.scope)
        self._known = MemorySeen(scratch)
        self._few: list[str] = []
        self._out: Appender | None = None
        self._hash = xxh3_64()
        for urls in batched(near_seeds(options, files), _FEW):
            self._new(urls)

    def _new(self, urls: Sequence[str]) -> list[str]:
        """Those of the URLs that the scope does not know of."""
        parts = np.fromiter(
            (xxh3_64_intdigest(self._part(url).encode()) for url in urls), np.uint64, len(urls)
        )
        return [urls[row] for row in self._known.offer(parts, [b""] * len(urls)).new]

    def add(self, urls: Sequence[str]) -> None:
        """Add canonical URLs of the list."""
        new = self._new(urls)
        if self._out is None and len(self._few) + len(new) <= _FEW:
            self._few += new
            return
        if self._out is None:
            self._out = self._files.create(_DRAFT)
            self._write(self._few)
        self._write(new)

    def _write(self, urls: Iterable[str]) -> None:
        assert self._out is not None
        data = "".join(f"{url}\n" for url in urls).encode()
        self._hash.update(data)
        self._out.write(data)

    def options(self) -> Options:
        """The options with the collected seeds, whose file is durable then."""
        if self._out is None:
            return with_seeds(self._options, self._options, self._few)
        out, self._out = self._out, None
        out.sync()
        out.close()
        name = f"seeds-{self._hash.intdigest():016x}.txt"
        self._files.rename(_DRAFT, name)
        self._files.sync_dir("")
        return msgspec.structs.replace(self._options, near_files=(*self._options.near_files, name))

    def close(self) -> None:
        """Give up what was not made durable: the list was not read to its end."""
        if self._out is not None:
            self._out.close()
            self._files.remove(_DRAFT)


def _response(record: Record, url: str, limit: int) -> Response | None:
    """The answer, as the crawl's own fetcher would return it; None if it is not HTTP."""
    if record.kind == "resource":
        media = record.fields.get("content-type", "application/octet-stream")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\n\r\n".encode("latin-1", "replace")
        body = record.block
    else:
        head, body = record.http
    line = _STATUS.match(head)
    if line is None:
        return None
    if "chunked" in (find_header(head, "transfer-encoding") or "").lower():
        body = _dechunked(body)
        head = _CHUNKED.sub(b"", head)
    encoding = find_header(head, "content-encoding") or ""
    status = int(line[2])
    return Response(
        url=url,
        status=status,
        version=line[1].decode(),
        request_head=b"",
        head=head,
        body=body,
        decoded=decode(body, encoding, limit).data,
        timing=Timing(),
        address=record.fields.get("warc-ip-address", ""),
        truncated=record.fields.get("warc-truncated", "")[:20],
        location=find_header(head, "location") if 300 <= status < 400 else None,
    )


def _dechunked(body: bytes) -> bytes:
    """A chunked body in one piece; unchanged if it is not chunked after all (some writers decode it but keep the
    header)."""
    parts: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\r\n", at)
        size = body[at:end].partition(b";")[0].strip() if 0 <= end < at + 100 else b""
        if not _HEX.fullmatch(size):
            return b"".join(parts) if parts else body
        length = int(size, 16)
        if length == 0:
            return b"".join(parts)
        parts.append(body[end + 2 : end + 2 + length])
        at = end + 2 + length + 2
