"""How should an index be spread over nodes: by documents, or by terms? And what do tiers save, and lose?

Manning, Raghavan and Schütze (*Introduction to Information Retrieval*, §20.3) say: partitioning by terms allows
greater concurrency, but "multi-word queries require the sending of long postings lists between sets of nodes for
merging, and the cost of this can outweigh the greater concurrency"; its balance is "governed not by an a priori
analysis of relative term frequencies, but rather by the distribution of query terms". Here both are counted, with
the same pages and the same queries; no time is measured.

    by host, by URL     a node has the documents of a share of the hosts, or of the URLs: every node is asked, each
                        reads its own postings of the words, and sends its best k (`RESULT` bytes each)
    by term             a node has the whole postings of a share of the terms, by hash: the nodes of the query's
                        terms are asked, one after the other, the shortest postings first. Each adds its postings to
                        the scores that it was sent, and sends all of them on (`PARTIAL` bytes each); the last sends
                        the best k
    by term, balanced   terms are given to nodes so that their loads were equal for the first half of the queries

Everything is measured on the second half of the queries. *busiest*: the postings that the busiest node reads over
all queries, relative to the mean node's. *path*: the postings that are read one after the other for a query when
nodes work in parallel; it decides how long a query takes. *a page's nodes*: how many nodes a new page changes.

**Tiers** (§20.3, §7.2.1): the pages of the highest rank are an index of their own; the others are asked only if
fewer than k pages of it match, by any of the words or by all of them. *read*: postings read, relative to reading
all. *lost*: results missing from the best k.

Scores are BM25 (k1 1.2, b 0.75) over the text, times 1 + `rank_weight` · rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

RESULT = 16
"""Bytes of a result: id and score."""
PARTIAL = 8
"""Bytes of a page's score on its way from node to node."""
_K1, _B = 1.2, 0.75

Numbers = NDArray[np.int64]


class Document(NamedTuple):
    """A page: its terms in any order, repeats included."""

    url: str
    host: str
    terms: Sequence[str]
    rank: float


class Row(NamedTuple):
    """What a scheme costs per query, on average."""

    scheme: str
    nodes: int
    words: str
    """Which queries: of one word, of several."""
    queries: int
    asked: float
    read: float
    path: float
    shipped: float
    """Bytes between nodes."""
    busiest: float
    page_nodes: float


class Tier(NamedTuple):
    """What tiers save and lose."""

    share: float
    """Share of the pages in the high tier."""
    rule: str
    enough: float
    """Share of the queries for which the high tier was enough."""
    read: float
    lost: float


class Corpus:
    """Pages with an inverted index."""

    def __init__(self, documents: Iterable[Document]) -> None:
        held: dict[str, tuple[list[int], list[int]]] = {}
        lengths, ranks, hosts, urls = [], [], [], []
        self.terms: list[tuple[str, ...]] = []
        for number, document in enumerate(documents):
            counts = Counter(document.terms)
            for term, count in counts.items():
                docs, tfs = held.setdefault(term, ([], []))
                docs.append(number)
                tfs.append(count)
            lengths.append(len(document.terms))
            ranks.append(document.rank)
            hosts.append(_hash(document.host))
            urls.append(_hash(document.url))
            self.terms.append(tuple(counts))
        self.count = len(lengths)
        self.ranks = np.array(ranks, np.float64)
        self.hosts, self.urls = np.array(hosts, np.uint64), np.array(urls, np.uint64)
        self.postings = {
            term: (np.array(docs, np.int64), np.array(tfs, np.float64)) for term, (docs, tfs) in held.items()
        }
        length = np.array(lengths, np.float64)
        self._norm = _K1 * (1 - _B + _B * length / max(length.mean() if self.count else 1.0, 1.0))

    def docs(self, term: str) -> Numbers:
        return self.postings[term][0]

    def best(
        self, query: Sequence[str], k: int, rank_weight: float, only: NDArray[np.bool_] | None = None
    ) -> Numbers:
        """The best pages for a query (optionally of some pages only), best first, ties by number."""
        score = np.zeros(self.count)
        for term in query:
            docs, tf = self.postings[term]
            rare = np.log(1 + (self.count - len(docs) + 0.5) / (len(docs) + 0.5))
            score[docs] += rare * (_K1 + 1) * tf / (tf + self._norm[docs])
        if only is not None:
            score[~only] = 0.0
        found = np.flatnonzero(score)
        order = np.lexsort((found, -(score * (1 + rank_weight * self.ranks))[found]))
        return found[order[:k]]


def _hash(text: str) -> int:
    return int(xxhash.xxh3_64_intdigest(text.encode("utf-8", "replace"), 7))


def _union(corpus: Corpus, terms: Iterable[str]) -> Numbers:
    return np.unique(np.concatenate([np.zeros(0, np.int64), *(corpus.docs(term) for term in terms)]))


def _by_documents(
    corpus: Corpus,
    queries: Sequence[Sequence[str]],
    nodes: int,
    owner: Numbers,
    scheme: str,
    words: str,
    k: int,
) -> Row:
    load = np.zeros(nodes)
    read = path = shipped = 0.0
    for query in queries:
        own = np.zeros(nodes)
        for term in query:
            own += np.bincount(owner[corpus.docs(term)], minlength=nodes)
        matches = np.bincount(owner[_union(corpus, query)], minlength=nodes)
        load += own
        read += own.sum()
        path += own.max()
        shipped += RESULT * np.minimum(matches, k).sum()
    n = max(len(queries), 1)
    return Row(
        scheme, nodes, words, len(queries), nodes, read / n, path / n, shipped / n, _busiest(load), 1.0
    )


def _by_terms(
    corpus: Corpus,
    queries: Sequence[Sequence[str]],
    nodes: int,
    node_of: Mapping[str, int],
    scheme: str,
    words: str,
    k: int,
) -> Row:
    load = np.zeros(nodes)
    asked = read = shipped = 0.0
    for query in queries:
        at: dict[int, list[str]] = {}
        for term in sorted(query, key=lambda term: (len(corpus.docs(term)), term)):
            at.setdefault(node_of[term], []).append(term)
        held = np.zeros(0, np.int64)
        for number, (node, terms) in enumerate(at.items()):
            if number:
                shipped += PARTIAL * len(held)
            held = np.union1d(held, _union(corpus, terms))
            size = sum(len(corpus.docs(term)) for term in terms)
            load[node] += size
            read += size
        shipped += RESULT * min(len(held), k)
        asked += len(at)
    n = max(len(queries), 1)
    changed = [len({node_of[term] for term in terms}) for terms in corpus.terms]
    page = float(np.mean(changed)) if changed else 0.0
    return Row(
        scheme, nodes, words, len(queries), asked / n, read / n, read / n, shipped / n, _busiest(load), page
    )


def _busiest(load: NDArray[np.float64]) -> float:
    return float(load.max() / load.mean()) if load.sum() else 1.0


def balanced(corpus: Corpus, queries: Iterable[Sequence[str]], nodes: int) -> dict[str, int]:
    """Maps terms to nodes: those most read by queries first, each to the node with the least to read so far."""
    weights: Counter[str] = Counter()
    for query in queries:
        for term in query:
            weights[term] += len(corpus.docs(term))
    found = {term: _hash(term) % nodes for term in corpus.postings}
    load = [0] * nodes
    for term, weight in sorted(weights.items(), key=lambda pair: (-pair[1], pair[0])):
        node = load.index(min(load))
        load[node] += weight
        found[term] = node
    return found


def known(corpus: Corpus, queries: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """The queries, each with its distinct terms that occur on some page; those without any are left out."""
    rows = (tuple(dict.fromkeys(term for term in query if term in corpus.postings)) for query in queries)
    return [row for row in rows if row]


def partitions(
    corpus: Corpus, queries: Sequence[Sequence[str]], nodes: Sequence[int], k: int = 10
) -> list[Row]:
    """Every scheme on every number of nodes, for queries of one word and of several."""
    half = len(queries) // 2
    before, measured = queries[:half], queries[half:]
    groups = {
        "one": [query for query in measured if len(query) == 1],
        "several": [query for query in measured if len(query) > 1],
    }
    rows = []
    for count in nodes:
        hashed = {term: _hash(term) % count for term in corpus.postings}
        even = balanced(corpus, before, count)
        hosts = (corpus.hosts % np.uint64(count)).astype(np.int64)
        urls = (corpus.urls % np.uint64(count)).astype(np.int64)
        for words, some in groups.items():
            if not some:
                continue
            rows += [
                _by_documents(corpus, some, count, hosts, "by host", words, k),
                _by_documents(corpus, some, count, urls, "by URL", words, k),
                _by_terms(corpus, some, count, hashed, "by term", words, k),
                _by_terms(corpus, some, count, even, "by term, balanced", words, k),
            ]
    return rows


def tiers(
    corpus: Corpus,
    queries: Sequence[Sequence[str]],
    shares: Sequence[float],
    k: int = 10,
    rank_weight: float = 0.2,
) -> list[Tier]:
    """The results of a high tier with each share of the pages, by rank."""
    order = np.lexsort((np.arange(corpus.count), -corpus.ranks))
    full = [corpus.best(query, k, rank_weight) for query in queries]
    rows = []
    for share in shares:
        high = np.zeros(corpus.count, np.bool_)
        high[order[: max(1, round(share * corpus.count))]] = True
        for rule in ("any word", "all words"):
            enough = read = total = lost = wanted = 0
            for query, truth in zip(queries, full, strict=True):
                inside = [docs[high[docs]] for docs in (corpus.docs(term) for term in query)]
                matching = inside[0]
                for docs in inside[1:]:
                    join = np.union1d if rule == "any word" else np.intersect1d
                    matching = join(matching, docs)
                everything = sum(len(corpus.docs(term)) for term in query)
                total += everything
                wanted += len(truth)
                if len(matching) >= k:
                    enough += 1
                    read += sum(map(len, inside))
                    lost += len(np.setdiff1d(truth, corpus.best(query, k, rank_weight, high)))
                else:
                    read += everything
            n = max(len(queries), 1)
            rows.append(Tier(share, rule, enough / n, read / max(total, 1), lost / max(wanted, 1)))
    return rows
