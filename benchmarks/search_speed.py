"""The search index's speed: from WARC to a committed index, by part, compared with bare tantivy; and queries.

    python -m benchmarks.search_speed WORK STEP ... [--html DIRECTORY ...] [--pages 100000] [--short 5000000]

WORK keeps the results of each step, so that steps can be run on different days:

    crawl       files of the HTML directories (unpacked documentation packages), sampled with a fixed seed and
                written as by a crawl of them: log with links, WARC
    spread      needs the crawl: its index, and its pages spread over 1, 4 and 16 shards by a hash of their ids
    short       the synthetic pages, in 4 shards
    indexing    measures `lycosa index` of the crawl, or of a smaller one with `--indexed` pages, by part
    queries     measures queries of 1, 4 and 16 shards, and snippets; needs `spread`
    synthetic   measures queries of the synthetic pages; needs `short`
    write       replaces the tables of docs/benchmarks/search.md by the latest measurements

**Indexing** is measured in CPU time of all threads, tantivy's included: the time on one core, even on a machine
with other load. The parts do not overlap. Bare tantivy is given the same pages' texts, extracted in advance: url
(one term), title and body through its English stemmer, with positions, url and title stored; one thread, one
commit.

**Queries.** One, two and three words that are adjacent in titles of the pages, drawn with a fixed seed; each is
asked once, with ten results and their snippets. Shards of one machine are read as one index, as in `lycosa search`;
16 of them are also queried one by one, as in a cluster, but in one process. Times are wall-clock times,
without cached answers; CPU is also given. **Synthetic** pages are twenty words drawn from 100,000, of five
letters each, by Zipf's law.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tantivy

from lycosa.archive.writer import Archive, ArchiveOptions
from lycosa.ask import indexing as indexing_module
from lycosa.ask.indexing import DIRECTORY, Indexing, shard_path
from lycosa.ask.reading import CrawlReader
from lycosa.clock import SystemClock
from lycosa.crawl import manifest as manifests
from lycosa.files import DiskFiles
from lycosa.index import writer as writer_module
from lycosa.index.reader import ShardReader
from lycosa.index.schema import Page
from lycosa.index.search import Asked, Search
from lycosa.index.snippets import finder, snippet
from lycosa.index.writer import ShardWriter
from lycosa.log.log import Log
from lycosa.page.fingerprint import digest
from lycosa.page.registry import read_page
from lycosa.records import Fetched, Link, LinkKind, Links, Timing
from lycosa.url.canonical import canonicalise

DOC = Path(__file__).resolve().parent.parent / "docs/benchmarks/search.md"
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"
SHARDS = (1, 4, 16)
QUERIES = 200
WORDS = 100_000
AT_ONCE = 1_000
ABOUT = "speed.json"


# -- a crawl of files


def files_of(directories: Iterable[Path], most: int) -> list[tuple[Path, str]]:
    """A sample of the files, each with its address."""
    found = sorted(
        (path, f"http://docs.test/{path.relative_to(directory.parent).as_posix()}")
        for directory in directories
        for path in directory.rglob("*.html")
        if path.is_file() and not path.is_symlink()
    )
    random.Random(1).shuffle(found)
    return found[:most]


def crawled(paths: Iterable[tuple[Path, str]], into: Path) -> int:
    """Write files as a crawl of one shard would; returns bytes of HTML."""
    files = DiskFiles(into)
    manifests.create(files, 1_700_000_000_000, 1, hash_seed=5)
    log = Log(files.within(f"{manifests.shard_directory(0)}/log"), 64 << 20)
    archive = Archive(files.within("archive"), ArchiveOptions(), SystemClock(), crawl="speed")
    size = 0
    for number, (path, address) in enumerate(paths):
        body = path.read_bytes()
        size += len(body)
        url = canonicalise(address) or ""
        page = read_page(body, "text/html", url)
        links = []
        for href, kind, text in zip(page.hrefs, page.kinds, page.texts, strict=True):
            target = canonicalise(href, url)
            if target is not None and kind & 0x7F == LinkKind.ANCHOR:
                links.append(Link(target, LinkKind.ANCHOR, False, text))
        stored = archive.store(
            url=url,
            at=1_700_000_000_000 + number,
            request_head=b"GET / HTTP/1.1\r\nHost: docs.test\r\n\r\n",
            head=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
            body=body,
        )
        log.append(
            Fetched(
                at=1_700_000_000_000 + number,
                url=url,
                depth=1,
                hops=0,
                attempt=0,
                status=200,
                type=page.type,
                charset=page.charset,
                size=len(body),
                length=len(body),
                digest=digest(body),
                timing=Timing(),
                address="",
                links=Links.pack(links),
                title=page.title,
                stored=stored,
            )
        )
        if not number % 500:
            archive.sync()
            log.commit()
    archive.close()
    log.commit()
    log.close()
    return size


# -- indexing, by part


class Parts:
    """CPU seconds of functions, each without those of others that it calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._stack: list[float] = []

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            begun = time.thread_time()
            self._stack.append(0.0)
            try:
                return function(*args, **more)
            finally:
                took = time.thread_time() - begun
                inner = self._stack.pop()
                self.seconds[name] = self.seconds.get(name, 0.0) + took - inner
                if self._stack:
                    self._stack[-1] += took

        return call

    @contextlib.contextmanager
    def patched(self, places: dict[str, tuple[Any, str]]) -> Iterator[None]:
        kept = {name: getattr(*place) for name, place in places.items()}
        for name, (owner, attribute) in places.items():
            setattr(owner, attribute, self.timed(name, kept[name]))
        try:
            yield
        finally:
            for name, (owner, attribute) in places.items():
                setattr(owner, attribute, kept[name])


PARTS: dict[str, tuple[Any, str]] = {
    "anchor texts": (Indexing, "_gather"),
    "bodies from the archive": (indexing_module, "body_of"),
    "main text and language": (indexing_module, "read_text"),
    "sketch": (indexing_module, "sketch"),
    "terms and document": (writer_module, "document"),
    "is it there": (ShardWriter, "find"),
    "handed to tantivy": (ShardWriter, "put"),
    "commits": (ShardWriter, "commit"),
}


def index_rows(crawl: Path, about: dict[str, int]) -> list[str]:
    """Rows of the table of indexing."""
    parts = Parts()
    shutil.rmtree(crawl / DIRECTORY, ignore_errors=True)
    reader = CrawlReader(crawl)
    begun = time.process_time()
    here = time.thread_time()
    with parts.patched(PARTS), Indexing(reader) as indexing:
        indexing.round()
    total, own = time.process_time() - begun, time.thread_time() - here
    bare = bare_tantivy(pages_of(crawl))
    count, mega = about["pages"], about["bytes"] / 1e6
    rows = [
        "| | CPU s | ms a page | pages/s | MB of HTML/s |",
        "|---|---|---|---|---|",
        row("lycosa index, in all", total, count, mega),
    ]
    for name, seconds in sorted(parts.seconds.items(), key=lambda pair: -pair[1]):
        rows.append(row(f"– {name}", seconds, count, mega))
    rows.append(row("– the rest of its thread", own - sum(parts.seconds.values()), count, mega))
    rows.append(row("– tantivy's threads", total - own, count, mega))
    rows.append(row("bare tantivy, text given", bare, count, mega))
    rows.append(row("lycosa index without main text and archive", total - _given(parts), count, mega))
    rows.append(
        f"\nIn multiples of bare tantivy: {total / bare:.1f} in all, {(total - _given(parts)) / bare:.1f} without."
    )
    return rows


def _given(parts: Parts) -> float:
    """The input of bare tantivy."""
    return sum(parts.seconds.get(name, 0.0) for name in ("bodies from the archive", "main text and language"))


def row(name: str, seconds: float, count: int, mega: float) -> str:
    seconds = max(seconds, 1e-9)
    speed = f"{count / seconds:,.0f} | {mega / seconds:,.1f}"
    return f"| {name} | {seconds:.2f} | {1000 * seconds / count:.3f} | {speed} |"


def pages_of(crawl: Path) -> Iterator[Page]:
    """The pages of a crawl's index, a thousand at a time in memory."""
    reader = ShardReader(shard_path(crawl, 0), 0)
    term = tantivy.Query.term_query(reader.schema, "kind", "page", "basic")
    found = reader.searcher.search(term, 10_000_000, count=False).hits
    for first in range(0, len(found), AT_ONCE):
        yield from reader.pages([address for _, address in found[first : first + AT_ONCE]])


def bare_tantivy(pages: Iterable[Page]) -> float:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("url", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("title", stored=True, tokenizer_name="en_stem", index_option="position")
    builder.add_text_field("body", tokenizer_name="en_stem", index_option="position")
    with tempfile.TemporaryDirectory(prefix="lycosa-speed-") as scratch:
        index = tantivy.Index(builder.build(), scratch)
        writer = index.writer(48 << 20, 1)
        reading = 0.0  # of this thread, which is not tantivy's
        begun = time.process_time()
        while True:
            here = time.thread_time()
            some = list(islice(pages := iter(pages), AT_ONCE))
            reading += time.thread_time() - here
            if not some:
                break
            for page in some:
                writer.add_document(tantivy.Document(url=page.url, title=page.title, body=page.text))
        writer.commit()
        writer.wait_merging_threads()
        return time.process_time() - begun - reading


# -- queries


def spread(pages: Iterable[Page], shards: int, into: Path) -> None:
    """Make an index of the pages in so many shards; an existing one is left."""
    if into.exists():
        return
    draft = into.with_suffix(".part")
    shutil.rmtree(draft, ignore_errors=True)
    writers = [ShardWriter(draft / f"{shard:02d}", "speed") for shard in range(shards)]
    for page in pages:
        writer = writers[(page.id * 0x9E3779B97F4A7C15 >> 40) % shards]
        writer.put(page, new=True)
        if writer.due:
            writer.commit([0, 0, 0])
    for writer in writers:
        writer.commit([0, 0, 0])
        writer.close()
    draft.rename(into)


def as_one(place: Path) -> list[ShardReader]:
    first, *beside = sorted(place.iterdir())
    return [ShardReader(first, 0, beside)]


def one_by_one(place: Path) -> list[ShardReader]:
    return [ShardReader(path, shard) for shard, path in enumerate(sorted(place.iterdir()))]


def drawn(titles: Iterable[str], count: int = QUERIES) -> list[str]:
    """Distinct queries, as many as titles give."""
    draw = random.Random(2)
    words = [[word for word in title.split() if word.isalnum() and len(word) > 2] for title in titles]
    words = [row for row in words if row]
    found: dict[str, None] = {}
    for _ in range(20 * count if words else 0):
        row = draw.choice(words)
        start, size = draw.randrange(len(row)), draw.choice((1, 2, 3))
        found[" ".join(row[start : start + size])] = None
        if len(found) == count:
            break
    return list(found)


def query_row(label: str, readers: list[ShardReader], queries: list[str]) -> str:
    search = Search(readers)
    for text in queries[:20]:
        search.search(text, Asked(count=9))  # not the answer that is asked for below
    wall, cpu = [], []
    for text in queries:
        begun, here = time.perf_counter(), time.process_time()
        search.search(text)
        wall.append(1000 * (time.perf_counter() - begun))
        cpu.append(1000 * (time.process_time() - here))
    return (
        f"| {label} | {at(wall, 0.5):.1f} | {at(wall, 0.99):.1f} | {at(cpu, 0.5):.1f} | {at(cpu, 0.99):.1f} |"
    )


def at(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def snippet_row(readers: list[ShardReader], queries: list[str]) -> str:
    """The time of ten snippets alone."""
    search = Search(readers)
    took = []
    for text in queries[:100]:
        answer = search.search(text)
        pages = [page for row in answer.results if (page := search.page(row.url)) is not None]
        if len(pages) < 10:
            continue
        terms = {
            term for clause in search.broker(Asked()).plan(_parsed(text)).scored for term in clause.terms
        }
        begun = time.thread_time()
        found = finder(terms)
        for page in pages:
            snippet(page.text, terms, page.language or "en", found, page.title)
        took.append(1000 * (time.thread_time() - begun))
    if not took:
        return "Ten snippets: too few pages matched to say."
    return (
        f"Ten snippets take {statistics.median(took):.2f} ms of CPU at the median, {at(took, 0.99):.2f} at the 99th"
        f" percentile, of {len(took)} queries with ten results."
    )


def _parsed(text: str) -> Any:
    from lycosa.index.query import parse

    return parse(text)


def word(number: int) -> str:
    """One of the words, the most frequent first."""
    mixed = (number + 1) * 7_368_787 % 26**5
    return "".join(chr(97 + mixed // 26**at % 26) for at in range(5))


def synthetic(count: int) -> Iterator[Page]:
    draw = np.random.default_rng(3)
    vocabulary = [word(number) for number in range(WORDS)]
    share = 1.0 / np.arange(1, WORDS + 1)
    edges = np.cumsum(share / share.sum())
    for first in range(0, count, 10_000):
        size = min(10_000, count - first)
        drawn_words = np.minimum(np.searchsorted(edges, draw.random((size, 20))), WORDS - 1)
        for number, row_words in enumerate(drawn_words.tolist(), first + 1):
            words = [vocabulary[each] for each in row_words]
            url = f"http://{number % 997}.test/{number}"
            yield Page(
                number,
                url,
                f"{number % 997}.test",
                " ".join(words[:4]),
                "",
                " ".join(words),
                language="en",
                at=number,
            )


QUERY_HEAD = ["| | p50 ms | p99 ms | CPU p50 | CPU p99 |", "|---|---|---|---|---|"]


# -- the steps


class Work:
    """A directory in which steps store what later ones need."""

    def __init__(self, place: Path, html: list[Path], pages: int, indexed: int, short: int) -> None:
        self.place = place
        self.html = html
        self.pages = pages
        self.indexed = indexed
        self.short_pages = short
        place.mkdir(parents=True, exist_ok=True)

    # making

    def crawl(self) -> None:
        for name, most in (("warm", 300), ("indexed", self.indexed), ("crawl", self.pages)):
            place = self.place / name
            if (place / ABOUT).exists():
                continue
            shutil.rmtree(place, ignore_errors=True)
            paths = files_of(self.html, most)
            said(f"{name}: {len(paths):,} files")
            size = crawled(paths, place)
            (place / ABOUT).write_text(json.dumps({"pages": len(paths), "bytes": size}))

    def spread(self) -> None:
        crawl = self.place / "crawl"
        with Indexing(
            CrawlReader(crawl), told=lambda what, at: said(f"{what} {at:,}") if not at % 8192 else None
        ) as indexing:
            indexing.round()
        for shards in SHARDS:
            said(f"spreading over {shards}")
            spread(pages_of(crawl), shards, self.place / f"spread-{shards}")

    def short(self) -> None:
        spread(synthetic(self.short_pages), 4, self.place / f"short-{self.short_pages}")

    # measuring

    def indexing(self) -> list[str]:
        with Indexing(CrawlReader(self.place / "warm"), rebuild=True) as indexing:
            indexing.round()  # compiles everything
        crawl = self.place / "indexed"
        about = json.loads((crawl / ABOUT).read_text())
        rows = index_rows(crawl, about)
        return [
            f"Indexing: {about['pages']:,} pages, {about['bytes'] / 1e6:,.0f} MB of HTML; {machine()}.",
            "",
            *rows,
        ]

    def queries(self) -> list[str]:
        about = json.loads((self.place / "crawl" / ABOUT).read_text())
        titles, size = [], 0
        for page in pages_of(self.place / "crawl"):
            titles.append(page.title)
            size += len(page.text)
        queries = drawn(titles)
        lines = [
            f"Queries: {about['pages']:,} pages, {about['bytes'] / 1e6:,.0f} MB of HTML, {size / 1e6:,.0f} MB of"
            f" text, {len(titles):,} of them with contents of their own; {len(queries)} queries; {machine()}.",
            "",
            *QUERY_HEAD,
        ]
        for shards in SHARDS:
            said(f"queries of {shards} shards")
            readers = as_one(self.place / f"spread-{shards}")
            lines.append(
                query_row(f"{len(titles):,} pages, {shards} shard{'s' * (shards > 1)}", readers, queries)
            )
        readers = one_by_one(self.place / f"spread-{SHARDS[-1]}")
        lines.append(query_row(f"{len(titles):,} pages, {SHARDS[-1]} shards one by one", readers, queries))
        return [*lines, "", snippet_row(as_one(self.place / f"spread-{SHARDS[0]}"), queries)]

    def synthetic(self) -> list[str]:
        draw = random.Random(4)
        titles = [" ".join(word(int(WORDS ** draw.random())) for _ in range(4)) for _ in range(QUERIES)]
        readers = as_one(self.place / f"short-{self.short_pages}")
        return [
            f"Synthetic: {self.short_pages:,} pages of twenty words in 4 shards; {machine()}.",
            "",
            *QUERY_HEAD,
            query_row(f"{self.short_pages:,} short pages, 4 shards", readers, drawn(titles)),
        ]

    def write(self) -> None:
        found = [self.place / f"{name}.md" for name in MEASURES]
        text = "\n\n".join(path.read_text().strip() for path in found if path.exists())
        head, _, rest = DOC.read_text().partition(BEGIN)
        DOC.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}")


MEASURES = ("indexing", "queries", "synthetic")
STEPS = ("crawl", "spread", "short", *MEASURES, "write")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("steps", nargs="+", choices=STEPS)
    parser.add_argument("--html", nargs="+", type=Path, default=[])
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--indexed", type=int, default=20_000)
    parser.add_argument("--short", type=int, default=5_000_000)
    args = parser.parse_args()
    work = Work(args.work, args.html, args.pages, args.indexed, args.short)
    for step in args.steps:
        said(step)
        lines = getattr(work, step)()
        if lines is not None:
            text = "\n".join(lines)
            print(text, flush=True)
            (args.work / f"{step}.md").write_text(text + "\n")
    return 0


def machine() -> str:
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def said(text: str) -> None:
    print(f"search_speed: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
