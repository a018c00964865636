"""Turns a query's tree into clauses (what is scored) and conditions (what must match), the same for every shard.

A word is searched for in all text fields; the score of a page is the sum over clauses

    score = Σ  boost · weight(field) · idf · (k1 + 1) · tf / (tf + k1 · (1 − b + b · length / average))
with the idf of a term by how many pages have it in their body (or in the field, if more): a word that is rare in
titles only is not rare. A word that occurs twice in the query counts twice. Every clause that is not under a minus
counts where it occurs, whatever the conditions around it.

Words are stemmed as in the index: for each language that has at least a hundredth of the pages (or is requested by
`lang:`) the word's term in that language is a clause. Nearly always that is one term; if there are several, they
count as one (`Clause.alike`). If no page's text has a word in any of these, languages with fewer pages in which
it does occur are added; adding them always would bring terms that mean something else.

A word typed without accents also stands for its spellings with them that more pages have (`accents`); they count as
one word, too. Of a phrase, each word is replaced by the most frequent of these.

Function words (the, of, which) are left out of a query that has others, unless they are required by a plus, or are
in a phrase or a place. They are those of one language: of most pages', unless the query has two or more of another.

A prefix, or a word with `~`, stands for terms of the vocabulary, looked up in all shards and the same for each:
the `MOST_EXPANDED` terms that are in the most pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec

from lycosa.index.query import Dates, Filter, Group, Node, Phrase, Query, Word
from lycosa.index.reader import Clause
from lycosa.index.schema import TEXTS, address_terms
from lycosa.index.words import (
    STEMMED,
    base_language,
    fold,
    is_function_word,
    is_unspaced,
    plain_terms,
    runs_of,
)

MOST_EXPANDED = 30
Expand = Callable[[str, str, int], list[str]]
"""Maps (field, start of a term, or term; distance, 0 for a prefix) to terms."""
Respell = Callable[[str, str], Sequence[str]]
"""Maps (word, language) to the terms of its other spellings that more pages have, the most frequent first."""


class Weights(msgspec.Struct, frozen=True):
    """The weight of an occurrence in each field, and BM25's constants (k1 > 0, 0 < b < 1)."""

    body: float = 1.0
    title: float = 0.5
    headings: float = 0.1
    anchors: float = 0.4
    address: float = 0.1
    k1: float = 1.2
    b: float = 0.75


class AnyOf(msgspec.Struct, frozen=True):
    """A condition: at least one of these clauses, by their numbers."""

    clauses: tuple[int, ...]


class All(msgspec.Struct, frozen=True):
    """A condition: all of `must`, none of `never`, one of `should` unless other words must match."""

    must: tuple[Condition, ...] = ()
    should: tuple[Condition, ...] = ()
    never: tuple[Condition, ...] = ()


Condition = AnyOf | All | Filter | Dates


class Plan(msgspec.Struct, frozen=True):
    """The query that is sent to every shard."""

    scored: tuple[Clause, ...]
    unscored: tuple[Clause, ...]
    """Clauses under a minus. Conditions number them after the scored ones."""
    condition: All
    simple: bool
    """Whether any scored clause suffices, so that the condition need not be checked."""

    def words(self) -> list[list[int]]:
        """The numbers of the scored clauses, grouped if they are one word in several languages."""
        groups: dict[object, list[int]] = {}
        for number, clause in enumerate(self.scored):
            key = (clause.field, clause.alike, clause.boost, clause.slop) if clause.alike else number
            groups.setdefault(key, []).append(number)
        return list(groups.values())


def _alike(several: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """The terms of words in several languages; () if they are the same in all."""
    found = tuple(dict.fromkeys(map(tuple, several)))
    return found if len(found) > 1 else ()


class _Planner:
    def __init__(
        self,
        languages: Sequence[str],
        weights: Weights,
        expand: Expand,
        respell: Respell,
        spoken: str | None = None,
    ) -> None:
        """`spoken`: the language whose function words are ignored; None: no word is ignored."""
        self._languages = languages
        self._spoken = spoken
        self._weights = weights
        self._expand = expand
        self._respell = respell
        self.clauses: dict[Clause, int] = {}
        self.positive: dict[int, int] = {}
        """Clauses that are scored, and how often the query has them."""

    def _add(self, clause: Clause, negative: bool) -> int:
        number = self.clauses.setdefault(clause, len(self.clauses))
        if not negative:
            self.positive[number] = self.positive.get(number, 0) + 1
        return number

    def _fields(self, place: str) -> list[tuple[str, float]]:
        if place:
            return [(place, 1.0)]
        return [(name, getattr(self._weights, name)) for name in TEXTS]

    def _terms(self, text: str, place: str) -> list[list[str]]:
        """The terms of a text in each language of the query; only lists that differ."""
        if place == "address":
            return [address_terms(f"x://{text}")[0].split()]
        found: list[list[str]] = []
        for language in self._languages:
            terms = plain_terms(text, language).split()
            if terms and terms not in found:
                found.append(terms)
        return found

    def _respelled(self, words: Sequence[str], place: str) -> list[list[str]]:
        """The terms of one word with other spellings, or of several words, each in its most frequent one."""
        found: list[list[str]] = []
        for language in () if place == "address" else self._languages:
            several = [self._respell(word, language) for word in words]
            if len(several) == 1:
                found += [[term] for term in several[0]]
            elif any(several):
                rows = [
                    list(terms[:1]) or plain_terms(word, language).split()
                    for word, terms in zip(words, several, strict=True)
                ]
                found.append([term for row in rows for term in row])
        return found

    def word(self, node: Word, negative: bool) -> Condition | None:
        if node.prefix or node.distance:
            return self._expanded(node, negative)
        runs = runs_of(node.text)
        parts: list[Condition] = []
        for run in runs:
            if len(run) == 1 and is_unspaced(run):  # contained in the pairs that begin with it
                pairs = self._expanded(Word(run, node.place, prefix=True), negative)
                if pairs is not None:
                    parts.append(pairs)
                continue
            each: dict[int, list[int]] = {}
            found = self._terms(run, node.place)
            found += [terms for terms in self._respelled([run], node.place) if terms not in found]
            for terms in found:
                for at, term in enumerate(terms):
                    alike = _alike([[other[at]] for other in found if len(other) > at])
                    for field, weight in self._fields(node.place):
                        if weight:
                            each.setdefault(at, []).append(
                                self._add(Clause(field, (term,), weight, 0, alike), negative)
                            )
            parts += [AnyOf(tuple(dict.fromkeys(numbers))) for numbers in each.values()]
        if len(parts) <= 1:
            return parts[0] if parts else None
        return All(must=tuple(parts))

    def _says_nothing(self, word: Word) -> bool:
        if self._spoken is None or word.place or word.prefix or word.distance:
            return False
        return is_function_word(word.text, self._spoken)

    def _expanded(self, node: Word, negative: bool) -> Condition | None:
        field = node.place or "body"
        starts = [fold(node.text)]
        if node.distance:
            starts = [terms[0] for terms in self._terms(node.text, node.place) if len(terms) == 1]
        numbers = [
            self._add(Clause(field, (term,)), negative)
            for start in dict.fromkeys(starts)
            for term in self._expand(field, start, node.distance)
        ]
        return AnyOf(tuple(dict.fromkeys(numbers)))

    def phrase(self, node: Phrase, negative: bool) -> Condition | None:
        """With slop, each pair of neighbours must be near (for more words tantivy's answer depends on the
        index)."""
        parts: dict[int, list[int]] = {}
        several = self._terms(node.text, node.place)
        several += [
            terms for terms in self._respelled(runs_of(node.text), node.place) if terms not in several
        ]
        for terms in several:
            loose = node.slop and len(terms) > 1
            rows = list(pairwise(terms)) if loose else [tuple(terms)]
            same = [other for other in several if len(other) == len(terms)]
            for at, row in enumerate(rows):
                alike = _alike([other[at : at + 2] if loose else other for other in same])
                for field, weight in self._fields(node.place):
                    if weight:
                        clause = Clause(field, row, weight, node.slop if loose else 0, alike)
                        parts.setdefault(at, []).append(self._add(clause, negative))
        found = [AnyOf(tuple(dict.fromkeys(numbers))) for numbers in parts.values()]
        if len(found) > 1:
            return All(must=tuple(found))
        return found[0] if found else None

    def node(self, node: Node, negative: bool) -> Condition | None:
        if isinstance(node, Word):
            return self.word(node, negative)
        if isinstance(node, Phrase):
            return self.phrase(node, negative)
        if isinstance(node, Group):
            return self.group(node, negative)
        return node

    def group(self, group: Group, negative: bool = False) -> All:
        must = [found for part in group.must if (found := self.node(part, negative)) is not None]
        should: list[Condition] = []
        for part in group.should:
            if isinstance(part, Word) and self._says_nothing(part):
                continue
            found = self.node(part, negative)
            # A plain word with several terms (e-mail) may match by any of them.
            if isinstance(found, All) and isinstance(part, Word):
                should += found.must
            elif found is not None:
                should.append(found)
        never = [found for part in group.never if (found := self.node(part, True)) is not None]
        return All(tuple(must), tuple(should), tuple(never))


def languages_of(query: Query, counts: dict[str, int], default: str) -> tuple[list[str], list[str]]:
    """The languages in which the words of a query are stemmed, and those with few pages, for words that the first
    lack."""
    asked = [base_language(language) for language in query.languages]
    if any(language in STEMMED for language in asked):
        return [language for language in asked if language in STEMMED], []
    total = sum(counts.values())
    known = {language: count for language, count in counts.items() if language in STEMMED}
    known[default] = known.get(default, 0) + counts.get("", 0)
    order = sorted(known, key=lambda name: (-known[name], name))
    chosen = [name for name in order if known[name] * 100 >= max(total, 1)] or [default]
    return chosen, [name for name in order if known[name] and name not in chosen]


def _spoken(query: Query, languages: Sequence[str]) -> str:
    """The language of most pages, unless the query has more function words, and at least two, of another."""
    words = query.words
    counts = {name: sum(is_function_word(word, name) for word in words) for name in languages}
    best = max(languages, key=lambda name: counts[name])
    return best if counts[best] > max(1, counts[languages[0]]) else languages[0]


def plan(query: Query, languages: Sequence[str], weights: Weights, expand: Expand, respell: Respell) -> Plan:
    """The plan of a query."""
    planner = _Planner(languages, weights, expand, respell, spoken=_spoken(query, languages))
    condition = planner.group(query.tree)
    if not planner.positive:
        planner = _Planner(languages, weights, expand, respell)
        condition = planner.group(query.tree)
    # Scored clauses first, in the order of the query, so that sums are computed in the same order everywhere.
    order = sorted(planner.clauses.values(), key=lambda number: (number not in planner.positive, number))
    moved = {number: at for at, number in enumerate(order)}
    by_number = list(planner.clauses)
    scored = tuple(
        by_number[number]._replace(boost=by_number[number].boost * planner.positive[number])
        for number in order
        if number in planner.positive
    )
    unscored = tuple(by_number[number] for number in order if number not in planner.positive)
    condition = _renumbered(condition, moved)
    simple = (
        not condition.must and not condition.never and all(isinstance(c, AnyOf) for c in condition.should)
    )
    return Plan(scored, unscored, condition, simple and bool(condition.should))


def _renumbered(condition: All, moved: dict[int, int]) -> All:
    def each(part: Condition) -> Condition:
        if isinstance(part, AnyOf):
            return AnyOf(tuple(moved[number] for number in part.clauses))
        return _renumbered(part, moved) if isinstance(part, All) else part

    return All(*(tuple(map(each, parts)) for parts in (condition.must, condition.should, condition.never)))
