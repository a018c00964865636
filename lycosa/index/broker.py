"""The broker: queries all shards, and answers like a single index of all their pages.

**Statistics** are summed over the shards: pages, terms of each field, how many pages have a term. No number of a
single shard enters a score, so a page's score does not depend on its shard; it is computed here, in one
order, in 64 bits.

**Candidates.** A shard scores its matches with the global idf (by boost), its own average lengths and tantivy's
k1 and b. Between its tf/(tf + K'), K' = k1'(1 − b' + b'·length/average'), and ours lies a factor (tf + K')/(tf +
K), which is between 1 and K'/K whatever tf is; and K'/K is between its values for length zero and for infinite
length. So a page's exact score lies between its score there times `low` and times `high`, the least and the
greatest of 1 and these two values over the fields asked. Exact scores (from tf and length, read by
`ShardReader.occurrences`) are computed for candidates only, best first, until the k-th exact score is above
`high` times the score of anything not looked at; if a shard's list ends before that, more of it is requested. The
result is the true top k, ties by id; `_SLACK` covers the rounding of tantivy's 32-bit scores.

**One word, several terms.** Where pages are in several languages, a word has a term in each (host, hosts). For the
score these clauses count as one: they have one idf, by the pages of all of them together, and their occurrences are
summed before they are weighted. Otherwise a page in a language that does not stem a word would have a rare term,
or the word twice. tantivy's score sums them afterwards; that is larger at most by a factor of the number of terms.

**Static score.** A page's rank r, in [0, 1], multiplies its score by 1 + w·r (w: `rank_weight`); pages not looked
at are assumed to have r = 1.

A query without words to score (`site:example.org`) returns its pages newest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lycosa.index.accents import respelled
from lycosa.index.plan import MOST_EXPANDED, All, AnyOf, Condition, Plan, Weights, languages_of, plan
from lycosa.index.query import Dates, Filter, Query
from lycosa.index.reader import K1, B, Clause, Hit, Hits, Shard, Totals, idf
from lycosa.index.schema import Page
from lycosa.index.words import plain_terms

_SLACK = 1e-4
_VOCABULARY = 20_000
"""Terms of a shard's vocabulary that are examined for a prefix."""

Ranks = Callable[[Sequence[int]], Sequence[float]]
"""Static ranks of documents by their ids, each in [0, 1]."""


Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Calls a function for every item, in order of the items: `map`, or in parallel for remote shards."""


def no_ranks(ids: Sequence[int]) -> Sequence[float]:
    return [0.0] * len(ids)


class Ranked(NamedTuple):
    """A document of an answer."""

    score: float
    id: int
    shard: int
    address: Any


class Found(NamedTuple):
    """The best documents, and how many match."""

    rows: list[Ranked]
    total: int


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


class Statistics:
    """The statistics of all shards together."""

    def __init__(self, readers: Sequence[Shard], k1: float, b: float, each: Each = map) -> None:
        self._readers = readers
        self._each = each
        self.k1 = k1
        self.b = b
        parts = [reader.totals for reader in readers]
        self.totals = Totals(
            sum(part.pages for part in parts),
            _sum(part.terms for part in parts),
            _sum(part.languages for part in parts),
            _sum(part.types for part in parts),
        )
        self._known: dict[tuple[str, str], int] = {}

    def average(self, field: str) -> float:
        return max(self.totals.terms.get(field, 0), 1) / max(self.totals.pages, 1)

    def norm(self, field: str, length: NDArray[np.float64]) -> NDArray[np.float64]:
        """BM25's K."""
        made: NDArray[np.float64] = self.k1 * (1 - self.b + self.b * length / self.average(field))
        return made

    def bounds(self, field: str, average: float) -> tuple[float, float]:
        """tantivy's K, with a shard's average, divided by our K: for length zero, and for infinite length."""
        return K1 * (1 - B) / (self.k1 * (1 - self.b)), K1 * B * self.average(field) / (
            self.k1 * self.b * average
        )

    def df(self, field: str, term: str) -> int:
        self.learn([(field, term)])
        return self._known[field, term]

    def learn(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Load the counts of these fields and terms, by one request to each shard."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        if new:
            counts = list(self._each(lambda reader: reader.dfs(new), self._readers))
            self._known |= {pair: sum(each[at] for each in counts) for at, pair in enumerate(new)}

    def learn_all(self, clauses: Iterable[Clause]) -> None:
        """Load the counts that the weights of these clauses need."""
        self.learn(
            (field, term)
            for clause in clauses
            for terms in clause.alike or (clause.terms,)
            for term in terms
            for field in {clause.field, "body"}
        )

    def idf(self, field: str, *terms: str) -> float:
        """The idf of a term, or of several that are the same word."""
        count = sum(self.df(field, term) for term in terms)
        if field != "body":
            count = max(count, sum(self.df("body", term) for term in terms))
        return idf(self.totals.pages, min(count, self.totals.pages))

    def weight(self, clause: Clause) -> float:
        """The greatest score of a clause; one with slop has it whenever it matches."""
        each = [set(terms) for terms in zip(*(clause.alike or (clause.terms,)), strict=True)]
        rare = clause.boost * sum(self.idf(clause.field, *sorted(terms)) for terms in each)
        return rare if clause.slop else (self.k1 + 1) * rare


class Broker:
    """Shards as one index, in the state when it was made; make another to see newer commits."""

    def __init__(
        self,
        readers: Sequence[Shard],
        *,
        weights: Weights | None = None,
        ranks: Ranks = no_ranks,
        rank_weight: float = 0.0,
        language: str = "en",
        each: Each = map,
    ) -> None:
        self.readers = readers
        self.weights = weights or Weights()
        self.statistics = Statistics(readers, self.weights.k1, self.weights.b, each)
        self._each = each
        self.language = language
        self._ranks = ranks
        self._rank_weight = rank_weight

    def languages(self, query: Query) -> list[str]:
        """The languages in which the words of a query are stemmed."""
        chosen, others = languages_of(query, self.statistics.totals.languages, self.language)
        if not others:
            return chosen
        words = [
            {name: plain_terms(word, name).split() for name in (*chosen, *others)} for word in query.words
        ]
        self.statistics.learn(("body", term) for word in words for terms in word.values() for term in terms)

        def known(terms: Sequence[str]) -> bool:
            return bool(terms) and all(self.statistics.df("body", term) for term in terms)

        unknown = [word for word in words if not any(known(word[name]) for name in chosen)]
        return chosen + [name for name in others if any(known(word[name]) for word in unknown)]

    def plan(self, query: Query) -> Plan:
        return plan(query, self.languages(query), self.weights, self.expand, self.respell)

    # -- the vocabulary

    def expand(self, field: str, start: str, distance: int) -> list[str]:
        """Terms that begin with `start`, or within `distance` letters of it and with the same first letter.

        The most frequent ones.
        """
        if not start:
            return []

        def ask(reader: Shard) -> list[str]:
            if distance:
                return reader.near(field, start, distance)
            return reader.vocabulary(field, start, _VOCABULARY)

        found = {term for terms in self._each(ask, self.readers) for term in terms}
        self.statistics.learn((field, term) for term in found)
        counted = sorted((-self.statistics.df(field, term), term) for term in found)
        return [term for count, term in counted if count][:MOST_EXPANDED]

    def respell(self, word: str, language: str) -> list[str]:
        """The terms of a word's other spellings that more pages have than the word as it is typed."""
        found = respelled(word, language)
        if not found:
            return []
        own = plain_terms(word, language)
        self.statistics.learn(("body", term) for term in (own, *found))
        least = self.statistics.df("body", own)
        counted = sorted((-self.statistics.df("body", term), term) for term in found)
        return [term for count, term in counted if -count > least]

    # -- ranking

    def top(self, plan: Plan, most: int) -> list[Ranked]:
        """The best `most`, exactly."""
        return self.found(plan, most).rows

    def found(self, plan: Plan, most: int) -> Found:
        """The best `most`, and how many documents match: each shard returns both in one pass."""
        if not plan.scored:
            return self._newest(plan, most)
        self.statistics.learn_all(plan.scored)
        weights = [self.statistics.weight(clause) for clause in plan.scored]
        depth = max(2 * most, 20)
        lists = [_Candidates(self, number, plan, weights) for number in range(len(self.readers))]
        while True:
            rows: list[tuple[float, float, Hit]] = []
            unseen = 0.0
            for candidates, _ in zip(lists, self._each(methodcaller("ask", depth), lists), strict=True):
                rows += candidates.rows
                unseen = max(unseen, candidates.unseen)
            floor = sorted((row[1] for row in rows), reverse=True)[most - 1 : most]
            least = floor[0] if floor else 0.0
            found = [row for part in self._each(methodcaller("exact", least), lists) for row in part]
            found.sort(key=lambda row: (-row.score, row.id))
            found = found[:most]
            if not unseen or (len(found) == most and found[-1].score > unseen):
                return Found(found, sum(candidates.total for candidates in lists))
            depth *= 4

    def _newest(self, plan: Plan, most: int) -> Found:
        depth = max(2 * most, 20)

        def ask(reader: Shard) -> Hits:
            return reader.newest(self._matching(reader, plan), depth)

        while True:
            rows: list[Ranked] = []
            unseen: float | None = None
            total = 0
            for number, (hits, count) in enumerate(self._each(ask, self.readers)):
                total += count
                rows += [Ranked(hit.score, hit.id, number, hit.address) for hit in hits]
                if len(hits) == depth:
                    last = hits[-1].score
                    unseen = last if unseen is None else max(unseen, last)
            rows.sort(key=lambda row: (-row.score, row.id))
            rows = rows[:most]
            if unseen is None or (len(rows) == most and rows[-1].score > unseen):
                return Found([row._replace(score=0.0) for row in rows], total)
            depth *= 4

    def rank_factors(self, ids: Sequence[int]) -> list[float]:
        if not self._rank_weight:
            return [1.0] * len(ids)
        return [1.0 + self._rank_weight * rank for rank in self._ranks(ids)]

    def rank_of(self, identity: int) -> float:
        return self._ranks([identity])[0]

    @property
    def most_factor(self) -> float:
        return 1.0 + self._rank_weight

    def score(self, plan: Plan, weights: Sequence[float], shard: int, hits: Sequence[Hit]) -> list[float]:
        """The exact scores, without the factor of the rank."""
        total = np.zeros(len(hits))
        found = self.readers[shard].occurrences(plan.scored, hits)
        for numbers in plan.words():
            clause, weight = plan.scored[numbers[0]], weights[numbers[0]]
            tf = sum(found[number].tf for number in numbers)
            if clause.slop:
                total += weight * (tf > 0)
            else:
                length = np.max([found[number].length for number in numbers], axis=0)
                total += weight * tf / (tf + self.statistics.norm(clause.field, length))
        return [float(value) for value in total]

    # -- queries of a shard

    def _matching(self, reader: Shard, plan: Plan) -> Any:
        """A query for what matches, unscored."""
        return self._condition(reader, plan.condition, (*plan.scored, *plan.unscored))

    def scoring(self, reader: Shard, plan: Plan, weights: Sequence[float]) -> Any:
        """A query for what matches, scored by the clauses; None if nothing can match here."""
        made = [reader.clause(clause, weight) for clause, weight in zip(plan.scored, weights, strict=True)]
        parts = [("should", query) for query in made if query is not None]
        if plan.simple:
            return reader.boolean(parts) if parts else None
        return reader.boolean([("must", self._matching(reader, plan)), *parts])

    def _condition(self, reader: Shard, condition: Condition, clauses: Sequence[Clause]) -> Any:
        if isinstance(condition, AnyOf):
            return reader.boolean(
                [("should", reader.matching(clauses[number])) for number in condition.clauses]
            )
        if not isinstance(condition, All):
            return reader.filter(condition)
        parts = [("must", self._condition(reader, part, clauses)) for part in condition.must]
        should = [("should", self._condition(reader, part, clauses)) for part in condition.should]
        # With filters alone the words decide what matches; without words, all pages match except the excluded.
        if should and all(map(_is_filter, condition.must)):
            parts.append(("must", reader.boolean(should)))
        elif not parts:
            parts.append(("must", reader.everything()))
        parts += [("never", self._condition(reader, part, clauses)) for part in condition.never]
        return reader.boolean(parts)

    def page(self, row: Ranked) -> Page:
        return self.pages([row])[0]

    def pages(self, rows: Sequence[Ranked]) -> list[Page]:
        """The stored page of each row; one request to each shard."""
        asked = self._of_each(rows, lambda reader, own: reader.pages([row.address for row in own]))
        return [asked[row.id] for row in rows]

    def _of_each(
        self, rows: Sequence[Ranked], ask: Callable[[Shard, list[Ranked]], Sequence[Any]]
    ) -> dict[int, Any]:
        """The shards' answers about their rows, by id."""
        own: dict[int, list[Ranked]] = {}
        for row in rows:
            own.setdefault(row.shard, []).append(row)
        said = self._each(lambda shard: ask(self.readers[shard], own[shard]), list(own))
        found: dict[int, Any] = {}
        for some, values in zip(own.values(), said, strict=True):
            found |= {row.id: value for row, value in zip(some, values, strict=True)}
        return found

    def copies(self, pages: Sequence[Page]) -> dict[int, list[Page]]:
        """The copies of some pages, by digest, in the order of their ids; one request to each shard."""
        digests = sorted({page.digest for page in pages if page.digest})
        found: dict[int, list[Page]] = {}
        if digests:
            asked = self._each(lambda reader: reader.copies(digests), self.readers)
            every = [copy for copies in asked for copy in copies]
            for copy in sorted(every, key=lambda copy: copy.id):
                found.setdefault(copy.digest, []).append(copy)
        return found

    def columns(self, name: str, rows: Sequence[Ranked]) -> list[int]:
        """The values of a column for each row."""
        asked = self._of_each(rows, lambda reader, own: reader.column(name, [row.address for row in own]))
        return [asked[row.id] for row in rows]


class _Candidates:
    """The best of one shard by its own scores, with bounds on the exact ones."""

    def __init__(self, broker: Broker, shard: int, plan: Plan, weights: Sequence[float]) -> None:
        self.shard = shard
        self._broker = broker
        self._plan = plan
        self._weights = weights
        self._reader = reader = broker.readers[shard]
        self._query = broker.scoring(reader, plan, weights)
        fields = {clause.field for clause in plan.scored} & set(reader.averages)
        ratios = [1.0]
        for field in fields:
            ratios += broker.statistics.bounds(field, reader.averages[field])
        most = max(map(len, plan.words()), default=1)
        self._low, self._high = min(ratios) / most * (1 - _SLACK), max(ratios) * (1 + _SLACK)
        self._asked = 0
        self.total = 0
        """How many documents match; known after `ask`."""
        self._factors: dict[int, float] = {}
        self._exact: dict[int, float] = {}
        self.rows: list[tuple[float, float, Hit]] = []
        self.unseen = 0.0
        """The highest possible score of a document that is not among the rows."""

    def ask(self, depth: int) -> None:
        """Request the best `depth`."""
        if self._query is None or (self._asked and not self.unseen):
            return
        hits, self.total = self._reader.top(self._query, depth)
        factors = self._broker.rank_factors([hit.id for hit in hits])
        self._factors = {hit.id: factor for hit, factor in zip(hits, factors, strict=True)}
        self.rows = [
            (hit.score * self._high * factor, hit.score * self._low * factor, hit)
            for hit, factor in zip(hits, factors, strict=True)
        ]
        self._asked = depth
        self.unseen = hits[-1].score * self._high * self._broker.most_factor if len(hits) == depth else 0.0

    def exact(self, least: float) -> list[Ranked]:
        """Those whose exact score may reach `least`, with that score."""
        wanted = [hit for most, _, hit in self.rows if most >= least]
        new = [hit for hit in wanted if hit.id not in self._exact]
        scores = self._broker.score(self._plan, self._weights, self.shard, new) if new else []
        for hit, score in zip(new, scores, strict=True):
            self._exact[hit.id] = score * self._factors[hit.id]
        return [Ranked(self._exact[hit.id], hit.id, self.shard, hit.address) for hit in wanted]


def _is_filter(condition: Condition) -> bool:
    """Whether a condition is independent of words."""
    if isinstance(condition, All):
        return all(map(_is_filter, (*condition.must, *condition.should, *condition.never)))
    return isinstance(condition, Filter | Dates)
