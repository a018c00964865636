"""`lycosa lab partition`: an index spread over nodes by documents or by terms, and tiers; see the experiment."""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.cli.amounts import counted
from lycosa.cli.streams import announced
from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lycosa.index.reader import ShardReader
    from lycosa.index.schema import Page
    from lycosa.lab.experiments.partition import Row, Tier

_SHARES = (0.1, 0.25, 0.5)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this experiment has."""
    group = parser.add_argument_group("partition")
    group.add_argument(
        "--nodes", default="4,16,64", metavar="N,N…", help="numbers of nodes that share the index (4,16,64)"
    )
    group.add_argument(
        "--queries",
        type=Path,
        metavar="FILE",
        help="file of queries, one per line (default: random texts of links to the pages)",
    )
    group.add_argument(
        "--most", type=int, default=20_000, metavar="N", help="maximum number of pages to read (20000)"
    )


def run(args: argparse.Namespace) -> int:
    from lycosa.ask.indexing import DIRECTORY, indexed, shard_path
    from lycosa.ask.reading import CrawlReader
    from lycosa.files import DiskFiles
    from lycosa.index.ranks import RankFile
    from lycosa.index.reader import ShardReader
    from lycosa.index.schema import texts_of
    from lycosa.index.words import is_function_word, terms_of
    from lycosa.lab.experiments.partition import Corpus, Document, known, partitions, tiers

    if args.graph is None:
        raise ConfigError("usage: lycosa lab partition DIR: the directory of a crawl that was indexed")
    nodes = _numbers(args.nodes)
    crawl = CrawlReader(args.graph)
    readers = [
        ShardReader(shard_path(crawl.directory, shard), shard)
        for shard in indexed(crawl.directory, crawl.manifest.shards)
    ]
    if not readers:
        raise ConfigError(f"{args.graph} has no index: run `lycosa index {args.graph}` first")
    language = readers[0].marker.language if readers[0].marker is not None else "en"
    ranks = RankFile(DiskFiles(crawl.directory / DIRECTORY))
    anchors: list[str] = []

    def documents() -> Iterator[Document]:
        for page in _pages(readers, args.most):
            anchors.extend(text for text in page.anchors[:3] if len(text) < 100)
            terms = texts_of(page, page.language or language)["body"][0].split()
            yield Document(page.url, page.host, terms, ranks([page.id])[0])

    with announced("lab", "reading the index"):
        corpus = Corpus(documents())
        if args.queries is not None:
            try:
                texts = args.queries.read_text("utf-8", "replace").splitlines()
            except OSError as error:
                raise ConfigError(f"{args.queries} cannot be read: {error.strerror}") from None
        else:
            texts = sorted(set(anchors))
            random.Random(args.seed).shuffle(texts)
            texts = texts[:2000]
        plain = [[word for word in text.split() if not is_function_word(word, language)] for text in texts]
        queries = known(corpus, (terms_of(" ".join(words), language).split() for words in plain))
        if not queries:
            raise ConfigError("no query has a word that the pages have: give others with --queries FILE")
        rows = partitions(corpus, queries, nodes)
        found = tiers(corpus, queries[len(queries) // 2 :], _SHARES) if len(ranks) else []
    if args.json:
        for row in rows:
            print(json.dumps({"what": "partition", **row._asdict()}))
        for tier in found:
            print(json.dumps({"what": "tiers", **tier._asdict()}))
        return 0
    print(
        f"{counted(corpus.count, 'page')}, {counted(len(corpus.postings), 'term')}, {len(queries):,} queries"
    )
    _print(rows)
    if found:
        _print_tiers(found)
    else:
        print(f"no tiers: the index has no ranks yet, `lycosa index {args.graph}` makes them")
    return 0


def _numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(1 <= each <= 10_000 for each in found):
        raise ConfigError(f"--nodes {text}: give numbers such as 4,16")
    return found


def _pages(readers: list[ShardReader], most: int) -> Iterator[Page]:
    left = most
    for reader in readers:
        for hit in reader.newest(reader.everything(), max(left, 1)).rows:
            if left <= 0:
                return
            left -= 1
            yield reader.page(hit.address)


def _print(rows: list[Row]) -> None:
    print(
        f"{'nodes':>5} {'words':<8} {'scheme':<18}{'asked':>7}{'postings read':>15}{'path':>9}"
        f"{'bytes sent':>12}{'busiest':>9}{'a page':>8}"
    )
    for row in rows:
        print(
            f"{row.nodes:>5} {row.words:<8} {row.scheme:<18}{row.asked:>7.1f}{row.read:>15,.0f}{row.path:>9,.0f}"
            f"{row.shipped:>12,.0f}{row.busiest:>9.2f}{row.page_nodes:>8.1f}"
        )


def _print_tiers(rows: list[Tier]) -> None:
    print(f"\n{'high tier':>9}  {'asked alone if':<16}{'enough':>8}{'read':>8}{'lost':>8}")
    for row in rows:
        print(
            f"{100 * row.share:>8.0f}%  {row.rule:<16}{100 * row.enough:>7.1f}%{100 * row.read:>7.1f}%"
            f"{100 * row.lost:>7.1f}%"
        )
