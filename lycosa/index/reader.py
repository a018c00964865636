"""One shard's index, for searching: statistics, candidates, and the data for scoring them exactly.

tantivy finds what matches and scores it with the shard's own statistics. A broker needs scores by the statistics of
all shards. This is made possible by:

- `df` counts live documents (tantivy's own count includes deleted ones until their segment is merged; it is used
  while no page is deleted), and the lengths of fields are summed over live documents from their columns. So these
  numbers do not depend on merges.
- tantivy's own N and average lengths, which do include deleted documents, are read from its explanation of the
  marker, which has one known term in each field. With them the score that it gives to a term is known (BM25, k1 =
  1.2, b = 0.75), and a boost turns its idf into the global one.
- `occurrences` returns how often a clause occurs in a document, and how long the field is (rounded as tantivy
  stores lengths, in one byte): from these a score can be recomputed with the global average. For a few documents
  it reads tantivy's explanation. For many it has tantivy score all matches of the clause, and solves for tf.
- `top` scores every match. tantivy's usual search skips blocks by their best score, computed with the averages at
  the time of writing; across segments that is approximate. Weighting by a column switches the skipping off; the
  column is 0, and tantivy's factor for it is log2(2 + 0) = 1.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

import msgspec
import numpy as np
import tantivy
from numpy.typing import NDArray

from lycosa.errors import ConfigError, LycosaError, StorageError
from lycosa.index.near import Vocabulary
from lycosa.index.query import Dates, Filter
from lycosa.index.schema import MARK, TEXTS, VERSION, Page, decode_page
from lycosa.index.united import together
from lycosa.index.writer import Marker, markers_of, opened

P = ParamSpec("P")
R = TypeVar("R")

K1 = 1.2
B = 0.75
"""tantivy's constants."""

_EXPLAINED = 25
"""Explaining one document costs as much as scoring so many matches."""
_LETTER = 100_000
"""Most terms with the same first letter that are compared for similar spelling, the most frequent ones."""
_VALUES = 1000
"""Most languages, or types, that are counted."""
_SURE = 500
"""Up to this tf, solving for it from 32-bit scores is exact."""
_FOUND = re.compile(r'"value": ([0-9.eE+-]+),\s*"description": "(freq|dl), ')
MOST_COPIES = 20
_OCCUR = {"must": tantivy.Occur.Must, "should": tantivy.Occur.Should, "never": tantivy.Occur.MustNot}


class SilentError(LycosaError):
    """A remote shard did not answer."""

    def __init__(self, shard: int, seconds: float, why: str = "") -> None:
        """`why`: what another process knows about it."""
        super().__init__(why or f"shard {shard} did not answer in {seconds:g} s")
        self.shard = shard


class StaleError(LycosaError):
    """A remote shard has a newer commit and no longer has the one that was queried: query again."""


class Clause(NamedTuple):
    """A term, or consecutive terms, in a field; `boost` is the weight of the query and the field.

    `alike`: the terms that the same words have in each of several languages, including these; () if only one.
    """

    field: str
    terms: tuple[str, ...]
    boost: float = 1.0
    slop: int = 0
    alike: tuple[tuple[str, ...], ...] = ()


class Totals(msgspec.Struct, frozen=True):
    """A shard's counts: live pages, terms in each field, pages by language and by type (`html`, `pdf`)."""

    pages: int
    terms: dict[str, int]
    languages: dict[str, int]
    types: dict[str, int] = {}


class Hit(NamedTuple):
    """A candidate: tantivy's score, its address, and its id."""

    score: float
    address: Any
    id: int


class Hits(NamedTuple):
    """The best candidates, and how many documents match."""

    rows: list[Hit]
    total: int


class Occurrences(NamedTuple):
    """How often a clause occurs in each of some documents (0: not at all), and the length of its field there."""

    tf: NDArray[np.float64]
    length: NDArray[np.float64]

    @staticmethod
    def none(count: int) -> Occurrences:
        return Occurrences(np.zeros(count), np.zeros(count))


def _length_table() -> NDArray[np.int64]:
    """The lengths that tantivy's byte can hold (like Lucene's SmallFloat): exact up to 40, then 8 per doubling."""
    values = list(range(24))
    for code in range(256 - 24):
        shift = (code >> 3) - 1
        values.append(24 + (code & 7 if shift < 0 else ((code & 7) | 8) << shift))
    return np.array(values, np.int64)


LENGTHS = _length_table()


def idf(documents: int, containing: int) -> float:
    """BM25's idf, as in tantivy."""
    return math.log(1.0 + (documents - containing + 0.5) / (containing + 0.5))


class Shard(Protocol):
    """What a broker requests of a shard, local (`ShardReader`) or remote. All answers are of one commit, `stamp`,
    until `reload` finds a newer one. A query is any object that the shard makes from clauses and filters.

    A remote one may raise `SilentError` or `StaleError` from any method.
    """

    shard: int
    stamp: object
    totals: Totals
    averages: dict[str, float]

    def reload(self) -> bool: ...
    def df(self, field: str, term: str) -> int: ...
    def dfs(self, pairs: Sequence[tuple[str, str]]) -> list[int]: ...
    def vocabulary(self, field: str, prefix: str, most: int) -> list[str]: ...
    def near(self, field: str, word: str, distance: int) -> list[str]: ...
    def counted(self, field: str, prefix: str, most: int) -> list[tuple[str, int]]: ...
    def clause(self, clause: Clause, weight: float) -> Any: ...
    def matching(self, clause: Clause) -> Any: ...
    def filter(self, node: Filter | Dates) -> Any: ...
    def everything(self) -> Any: ...
    def boolean(self, parts: Sequence[tuple[str, Any]]) -> Any: ...
    def top(self, query: Any, most: int) -> Hits: ...
    def newest(self, query: Any, most: int) -> Hits: ...
    def occurrences(self, clauses: Sequence[Clause], hits: Sequence[Hit]) -> list[Occurrences]: ...
    def pages(self, addresses: Sequence[Any]) -> list[Page]: ...
    def copies(self, digests: Sequence[int]) -> list[Page]: ...
    def column(self, name: str, addresses: list[Any]) -> list[int]: ...
    def with_term(self, field: str, value: str | int, most: int = 100) -> list[Page]: ...


def _whole(method: Callable[Concatenate[ShardReader, P], R]) -> Callable[Concatenate[ShardReader, P], R]:
    """Decorator: reports tantivy's errors about damaged files like those of any damaged file."""

    @wraps(method)
    def reading(self: ShardReader, /, *args: P.args, **named: P.kwargs) -> R:
        try:
            return method(self, *args, **named)
        except BaseException as error:
            if not isinstance(error, ValueError) and type(error).__name__ != "PanicException":
                raise  # Rust panics derive from BaseException, and the class cannot be imported
            words = f"the index in {self.path} cannot be read ({error}): build it anew with --rebuild"
            raise StorageError(words) from None

    return reading


class ShardReader:
    """The index of one shard, as of its last commit; `reload` looks for a newer one."""

    def __init__(self, path: Path, shard: int = 0, beside: Sequence[Path] = ()) -> None:
        """`beside`: the indexes of other shards, read together with this one as one index (`united`)."""
        self.path = path
        self.shard = shard
        self._paths = (path, *beside)
        for each in self._paths:
            if not (each / "meta.json").exists():
                raise ConfigError(f"{each} holds no index: run `lycosa index DIR` first")
        self._index: Any = None
        self.stamp: object = None
        """Identifies the commit that is searched."""
        self.reload()

    def _opened(self) -> Any:
        for attempt in range(20):  # a merge may end between listing the files and opening them
            try:
                return together(self._paths) if len(self._paths) > 1 else opened(self.path)
            except StorageError:
                if attempt == 19:
                    raise
                time.sleep(0.05)
        raise AssertionError

    def _now(self) -> object:
        found = [(path / "meta.json").stat() for path in self._paths]
        return tuple((each.st_mtime_ns, each.st_ino) for each in found)

    @_whole
    def reload(self) -> bool:
        """Whether there was a newer commit; it is searched from now on."""
        stamp = self._now()
        if stamp == self.stamp:
            return False
        if self._index is None or len(self._paths) > 1:
            self._index = self._opened()
            self.schema = self._index.schema
        else:
            self._index.reload()
        self.searcher = self._index.searcher()
        self.stamp = stamp
        found = markers_of(self.searcher, self.schema, len(self._paths))
        if any(marker.version != VERSION for marker in found):
            raise StorageError(f"the index in {self.path} has another layout: run `lycosa index --rebuild`")
        self.marker: Marker | None = found[0] if found else None
        self._pages = tantivy.Query.term_query(self.schema, "kind", "page", "basic")
        self._df = lru_cache(maxsize=20_000)(self._count)
        self._beginning = lru_cache(maxsize=50)(self._begin)
        self._local()
        gone = self.searcher.doc_freq("kind", "marker") - len(found)
        self._whole = self._documents - gone == self.searcher.num_docs
        self.totals = self._total()
        return True

    def _total(self) -> Totals:
        if not self.searcher.num_docs:
            return Totals(0, dict.fromkeys(TEXTS, 0), {})
        sums = self.searcher.aggregate(self._pages, {name: {"sum": {"field": f"n_{name}"}} for name in TEXTS})
        return Totals(
            self.searcher.search(self._pages, 1).count,
            {name: round(sums[name]["value"] or 0) for name in TEXTS},
            self._by("lang", ["", *self.vocabulary("lang", "", _VALUES)]),
            self._by("type", [name for name in self.vocabulary("type", "", _VALUES) if "/" not in name]),
        )

    def _by(self, field: str, values: Sequence[str]) -> dict[str, int]:
        """How many pages have each value, for those values that any page still has."""
        return {value: count for value in sorted(set(values)) if (count := self._count(field, value))}

    def _local(self) -> None:
        """Read tantivy's own N and average lengths."""
        self._documents = 0
        self.averages: dict[str, float] = {}
        for name in TEXTS:
            query = tantivy.Query.term_query(self.schema, name, MARK)
            hits = self.searcher.search(query, 1, count=False).hits
            if not hits:
                continue
            told = json.loads(query.explain(self.searcher, hits[0][1]).to_json())
            counts, lengths = told["details"][1]["details"], told["details"][2]["details"]
            self._documents = round(counts[1]["value"])
            self.averages[name] = lengths[4]["value"]

    def _count(self, field: str, term: str) -> int:
        count = int(self.searcher.doc_freq(field, term))
        if not count or self._whole:
            return count
        return int(self.searcher.search(tantivy.Query.term_query(self.schema, field, term, "basic"), 1).count)

    def df(self, field: str, term: str) -> int:
        """How many live pages have the term in the field."""
        return self._df(field, term)

    def dfs(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """The same for several pairs of field and term."""
        return [self._df(field, term) for field, term in pairs]

    @_whole
    def vocabulary(self, field: str, prefix: str, most: int) -> list[str]:
        """Terms with this prefix (including those of deleted documents), the `most` most frequent first."""
        return [term for term, _ in self.counted(field, prefix, most)]

    @_whole
    def counted(self, field: str, prefix: str, most: int) -> list[tuple[str, int]]:
        """The same with the number of documents of each (including deleted ones)."""
        found = self.searcher.terms_with_prefix(field, prefix, limit=most)
        return [(term, count) for term, count in found if term != MARK]

    def near(self, field: str, word: str, distance: int) -> list[str]:
        """Terms with the first letter of a word and at most `distance` letters from it (including those of deleted
        documents)."""
        return self._beginning(field, word[:1]).near(word, distance)

    def _begin(self, field: str, letter: str) -> Vocabulary:
        return Vocabulary(self.vocabulary(field, letter, _LETTER))

    # -- queries

    def clause(self, clause: Clause, weight: float) -> Any:
        """A query whose score is `weight` times the saturation of the clause; None if no document has it here.

        With slop the score is the weight alone: how tantivy counts such a phrase depends on the rest of the index.
        """
        field = clause.field
        if not all(self.searcher.doc_freq(field, term) for term in clause.terms):
            return None
        if clause.slop:
            return tantivy.Query.const_score_query(self._plain(clause), weight)
        return tantivy.Query.boost_query(self._plain(clause), weight / self._local_weight(clause))

    def _local_weight(self, clause: Clause) -> float:
        """The greatest score that tantivy gives to the clause."""
        own = [self.searcher.doc_freq(clause.field, term) for term in clause.terms]
        return sum(idf(self._documents, count) for count in own) * (K1 + 1)

    def _plain(self, clause: Clause) -> Any:
        if len(clause.terms) == 1:
            return tantivy.Query.term_query(self.schema, clause.field, clause.terms[0])
        return tantivy.Query.phrase_query(self.schema, clause.field, list(clause.terms), clause.slop)

    def matching(self, clause: Clause) -> Any:
        """A query that matches the clause and scores nothing."""
        return tantivy.Query.const_score_query(self._plain(clause), 0.0)

    def filter(self, node: Filter | Dates) -> Any:
        """A query for a filter."""
        if isinstance(node, Dates):
            made = tantivy.Query.range_query(
                self.schema,
                "date",
                tantivy.FieldType.Integer,
                lower_bound=node.start or None,
                upper_bound=node.end - 1 if node.end else None,
            )
        else:
            made = tantivy.Query.term_query(self.schema, node.name, node.value, "basic")
        return tantivy.Query.const_score_query(made, 0.0)

    def everything(self) -> Any:
        """A query for all pages, with constant score."""
        return tantivy.Query.const_score_query(self._pages, 0.0)

    def boolean(self, parts: Sequence[tuple[str, Any]]) -> Any:
        """A combined query: each of the parts `must`, `should` or `never` match."""
        if len(parts) == 1 and parts[0][0] != "never":
            return parts[0][1]
        if not parts:
            return tantivy.Query.empty_query()
        return tantivy.Query.boolean_query([(_OCCUR[occur], query) for occur, query in parts])

    @_whole
    def top(self, query: Any, most: int) -> Hits:
        """The best by tantivy's score, exactly."""
        return self._hits(self.searcher.search(query, most, weight_by_field="zero"))

    @_whole
    def newest(self, query: Any, most: int) -> Hits:
        """The newest; the date is the score."""
        return self._hits(self.searcher.search(query, most, order_by_field="date"))

    def _hits(self, found: Any) -> Hits:
        addresses = [address for _, address in found.hits]
        ids = self.searcher.fast_field_values("id", addresses) if addresses else []
        rows = [
            Hit(score, address, identity)
            for (score, address), identity in zip(found.hits, ids, strict=True)
            if identity is not None
        ]
        return Hits(rows, found.count)

    @_whole
    def occurrences(self, clauses: Sequence[Clause], hits: Sequence[Hit]) -> list[Occurrences]:
        """For each clause and document how often the one occurs in the other, and how long the field is."""
        lengths: dict[str, NDArray[np.float64]] = {}
        found = []
        for clause in clauses:
            matches = min((self.searcher.doc_freq(clause.field, term) for term in clause.terms), default=0)
            if not matches:
                found.append(Occurrences.none(len(hits)))
            elif matches > len(hits) * _EXPLAINED:
                found.append(self._explained(clause, hits))
            else:
                if clause.field not in lengths:
                    lengths[clause.field] = self._lengths(clause.field, hits)
                found.append(self._solved(clause, hits, matches, lengths[clause.field]))
        return found

    def _explained(self, clause: Clause, hits: Sequence[Hit]) -> Occurrences:
        query = self._plain(clause)
        made = Occurrences.none(len(hits))
        for at, hit in enumerate(hits):
            try:
                told = query.explain(self.searcher, hit.address).to_json()
            except ValueError:
                continue
            values = {name: round(float(value)) for value, name in _FOUND.findall(told)}
            made.tf[at], made.length[at] = values["freq"], values["dl"]
        return made

    def _solved(
        self, clause: Clause, hits: Sequence[Hit], matches: int, lengths: NDArray[np.float64]
    ) -> Occurrences:
        """tf from the score of the clause alone: score = w * tf / (tf + norm)."""
        made = Occurrences(np.zeros(len(hits)), lengths.copy())
        rows = self.searcher.search(self._plain(clause), matches, count=False, weight_by_field="zero").hits
        if not rows:
            return made
        numbers = self.searcher.fast_field_values("id", [address for _, address in rows])
        scores = dict(zip(numbers, (score for score, _ in rows), strict=True))
        score = np.array([scores.get(hit.id, 0.0) for hit in hits])
        if clause.slop:
            made.tf[:] = score > 0
            return made
        weight = self._local_weight(clause)
        norm = K1 * (1 - B + B * lengths / self.averages[clause.field])
        tf = norm * score / np.maximum(weight - score, weight * 1e-7)
        made.tf[:] = np.rint(tf)
        for at in np.flatnonzero(tf > _SURE).tolist():
            one = self._explained(clause, [hits[at]])
            made.tf[at], made.length[at] = one.tf[0], one.length[0]
        return made

    def _lengths(self, field: str, hits: Sequence[Hit]) -> NDArray[np.float64]:
        exact = np.array(self.column(f"n_{field}", [hit.address for hit in hits]), np.int64)
        return LENGTHS[np.searchsorted(LENGTHS, exact, side="right") - 1].astype(np.float64)

    # -- documents

    def page(self, address: Any) -> Page:
        """The stored page of a document."""
        return decode_page(self.searcher.doc(address).get_first("data"))

    @_whole
    def pages(self, addresses: Sequence[Any]) -> list[Page]:
        """The stored pages of several documents."""
        return [self.page(address) for address in addresses]

    @_whole
    def copies(self, digests: Sequence[int]) -> list[Page]:
        """The copies of some contents, at most about `MOST_COPIES` of each."""
        term = tantivy.Query.term_query
        any_of = [(tantivy.Occur.Should, term(self.schema, "digest", each, "basic")) for each in digests]
        query = tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Must, term(self.schema, "kind", "copy", "basic")),
                (tantivy.Occur.Must, tantivy.Query.boolean_query(any_of)),
            ]
        )
        hits = self.searcher.search(query, MOST_COPIES * len(digests), count=False).hits
        return [self.page(address) for _, address in hits]

    def column(self, name: str, addresses: list[Any]) -> list[int]:
        """The values of a column."""
        return [int(value or 0) for value in self.searcher.fast_field_values(name, addresses)]

    @_whole
    def with_term(self, field: str, value: str | int, most: int = 100) -> list[Page]:
        """Documents by an exact value of `url`, `key` or `digest`."""
        query = tantivy.Query.term_query(self.schema, field, value, "basic")
        return [self.page(address) for _, address in self.searcher.search(query, most, count=False).hits]
