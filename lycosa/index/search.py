"""An answer to a query: ranked results, folded copies, snippets, and a suggestion for misspelled words.

    searcher = Search(readers)
    answer = searcher.search("wolf spider site:example.org", Asked(count=10))

**Folding.** A page whose content (digest) equals that of a better one, or whose text is nearly the same (sketches
that differ in at most `NEAR` bits, or the same cluster, where clusters have been made), is not a result of its
own: it is listed with the better one. So are the copies that the index keeps without text. A result also tells
how many other pages of the crawl its cluster has. **At most n per host**: further pages are skipped.
In both cases more of the ranking is read until there are enough results or no more pages.

**Remote shards.** One that does not answer in time is left out, and named in the answer; numbers are then those
of the others together. **Cache.** The last answers are cached, keyed by everything they depend on: the shards
that answered, their commits, the ranks. A commit anywhere invalidates them.

**Suggestion.** If a word of the query is in no page, or in hardly any compared with a word of similar spelling,
the query with that other word in its place is suggested.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from lycosa.index.broker import Broker, Each, Ranked, no_ranks
from lycosa.index.expand import Expansion, like, rm3
from lycosa.index.plan import Plan, Weights
from lycosa.index.query import Query, filters_of, parse
from lycosa.index.ranks import StaticRanks
from lycosa.index.reader import MOST_COPIES, Shard, SilentError, StaleError, Totals
from lycosa.index.schema import Page
from lycosa.index.snippets import Snippet, finder, snippet
from lycosa.index.suggest import completions, suggestion

NEAR = 3
"""Most bits in which the sketches of near copies differ."""
_KEPT = 200
"""Most answers in the cache."""
_STALE = 3
"""How often a query is repeated because a commit is gone."""
_DEEPEST = 20_000
"""Most documents of the ranking that are read for one answer."""


T = TypeVar("T")
Like = tuple[int, int, int]
"""The properties by which pages are folded: digest, sketch, and the representative of the cluster."""


class Clusters(Protocol):
    """Clusters of near duplicates. All answers are of one table, `made`, until `reload` finds a newer one."""

    made: int

    def reload(self) -> None: ...
    def leaders(self, ids: Sequence[int]) -> list[int]:
        """The representative of each page's cluster; 0 for a page that is alone."""
        ...

    def others(self, identity: int) -> int:
        """How many pages besides this one are in its cluster."""
        ...


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a search."""

    count: int = 10
    skip: int = 0
    """Results to skip before the first one."""
    per_host: int = 0
    """Most results per host; 0 for any number."""
    fold: bool = True
    """Whether copies are folded into one result."""
    expand: bool = False
    """Whether the query is expanded by its first results (RM3)."""
    rank_weight: float = 0.2
    """The weight of the static rank: a page of rank 1 has its score times 1 + this."""
    filters: tuple[tuple[str, str], ...] = ()
    """Filters in addition to the query: names of `query.FILTERS` and values."""
    weights: Weights = Weights()
    expansion: Expansion = Expansion()


class Result(msgspec.Struct, frozen=True):
    """A page that matches."""

    url: str
    title: str
    score: float
    snippet: Snippet
    host: str
    language: str
    type: str
    date: int
    at: int
    depth: int
    rank: float
    id: int
    others: tuple[str, ...] = ()
    """Other URLs with the same or nearly the same content."""
    alike: int = 0
    """Near duplicates in the crawl, whether or not they match; also 0 if no clusters were made."""


class Answer(msgspec.Struct, frozen=True):
    """The results and their numbers."""

    query: str
    total: int
    """Documents that match, before folding."""
    results: tuple[Result, ...]
    pages: int
    """Pages in the index."""
    milliseconds: float
    suggestion: str = ""
    notes: tuple[str, ...] = ()
    missing: tuple[int, ...] = ()
    """Shards that did not answer."""
    ranked: int = 0
    """When the ranks of pages were made, in milliseconds; newer pages have none. 0: no page has one."""


class Suggested(msgspec.Struct, frozen=True):
    """Suggestions while a query is being typed."""

    query: str
    completions: tuple[str, ...]
    """The text with its last word completed."""
    suggestion: str
    """The text with its last word corrected; "" if that can be completed."""


class Search:
    """Searches shards as one index."""

    def __init__(
        self,
        readers: Sequence[Shard],
        *,
        ranks: StaticRanks | None = None,
        clusters: Clusters | None = None,
        language: str = "en",
        missing: Sequence[int] = (),
        each: Each = map,
    ) -> None:
        """`missing`: shards that cannot be queried at all. `each`: calls a function for every shard, in parallel if
        they are remote."""
        self._readers = readers
        self._ranks = ranks
        self._clusters = clusters
        self._language = language
        self._missing = tuple(missing)
        self._each = each
        self._made: tuple[object, Broker] | None = None
        self._silent: dict[int, SilentError] = {}
        self._cache: OrderedDict[object, Answer] = OrderedDict()

    def broker(self, asked: Asked) -> Broker:
        """The broker of the newest commits of the shards that answer."""
        reached = list(self._each(self._reached, self._readers))
        readers = [reader for reader, there in zip(self._readers, reached, strict=True) if there]
        if self._ranks is not None:
            self._ranks.reload()
        if self._clusters is not None:
            self._clusters.reload()
        key = asked.weights, asked.rank_weight, self._commits(readers)
        if self._made is None or self._made[0] != key:
            made = Broker(
                readers,
                weights=asked.weights,
                ranks=self._ranks or no_ranks,
                rank_weight=asked.rank_weight if self._ranks else 0.0,
                language=self._language,
                each=self._each,
            )
            self._made = key, made
        return self._made[1]

    def _reached(self, reader: Shard) -> bool:
        """Whether a shard answers; loads its newest commit."""
        if reader.shard in self._silent:
            return False
        try:
            reader.reload()
        except SilentError as error:
            self._silent[reader.shard] = error
            return False
        return True

    def _commits(self, readers: Sequence[Shard]) -> object:
        """Everything on which an answer depends: shards, their commits, ranks, clusters."""
        ranks = self._ranks.made if self._ranks is not None else 0
        clusters = self._clusters.made if self._clusters is not None else 0
        return tuple((reader.shard, reader.stamp) for reader in readers), ranks, clusters

    def _asking(self, asked: Asked, work: Callable[[Broker], T]) -> T:
        """Query the shards. One that does not answer is left out; if a commit is gone, the query is repeated."""
        self._silent = {}
        for _ in range(len(self._readers) + _STALE):
            broker = self.broker(asked)
            try:
                return work(broker)
            except SilentError as error:
                self._silent[error.shard] = error
            except StaleError:
                pass
        return work(self.broker(asked))

    def _kept(self, asked: Asked, question: object, work: Callable[[Broker], Answer]) -> Answer:
        """The same, or the cached answer if nothing has been committed since."""
        begun = time.perf_counter()

        def cached(broker: Broker) -> Answer:
            key = question, asked, self._commits(broker.readers), tuple(sorted(self._silent))
            answer = self._cache.get(key)
            if answer is None:
                answer = self._cache[key] = work(broker)
                if len(self._cache) > _KEPT:
                    self._cache.popitem(last=False)
            self._cache.move_to_end(key)
            return answer

        answer = self._asking(asked, cached)
        return msgspec.structs.replace(answer, milliseconds=(time.perf_counter() - begun) * 1000)

    def search(self, text: str, asked: Asked | None = None) -> Answer:
        """The answer to a query; takes any text."""
        asked = asked or Asked()

        def work(broker: Broker) -> Answer:
            query = parse(text, asked.filters)
            plan = broker.plan(query)
            if asked.expand:
                plan = rm3(broker, plan, asked.expansion)
            return self._answer(broker, query, plan, asked)

        return self._kept(asked, text, work)

    def like(self, page: Page, asked: Asked | None = None) -> Answer | None:
        """Pages similar to one of the index (to its original, if it is a copy); None if it has no text."""
        asked = asked or Asked()
        if page.copy:
            found = self._asking(asked, lambda broker: _with(broker, "digest", page.digest))
            page = next((each for each in found if not each.copy), page)
        if page.copy:
            return None

        def work(broker: Broker) -> Answer:
            query = parse("", asked.filters)
            return self._answer(broker, query, like(broker, page, query.tree.must), asked, but=page)

        return self._kept(asked, (page.id, page.position), work)

    def suggest(self, text: str) -> Suggested:
        """Completions of the last word, and a correction of misspelled ones."""

        def work(broker: Broker) -> Suggested:
            words = tuple(completions(broker, text))
            return Suggested(text, words, "" if words else suggestion(broker, parse(text)))

        return self._asking(Asked(), work)

    def kinds(self) -> Totals:
        """The values by which can be filtered, with counts."""
        return self._asking(Asked(), lambda broker: broker.statistics.totals)

    def page(self, url: str) -> Page | None:
        """The index's entry for a URL."""
        found = self._asking(Asked(), lambda broker: _with(broker, "url", url))
        return found[0] if found else None

    def _answer(
        self, broker: Broker, query: Query, plan: Plan, asked: Asked, but: Page | None = None
    ) -> Answer:
        empty = not plan.scored and not plan.condition.must and not plan.condition.never
        chosen, total = ([], 0) if empty else self._chosen(broker, plan, asked, but)
        terms = {term for clause in plan.scored for term in clause.terms}
        if asked.expand:  # the query's own words are marked, not those added
            terms = {term for clause in broker.plan(query).scored for term in clause.terms}
        found = finder(terms)
        results = []
        shown_rows = chosen[asked.skip :]
        pages = broker.pages([row for row, _ in shown_rows])
        copied = broker.copies(pages)
        for (row, others), page in zip(shown_rows, pages, strict=True):
            shown = snippet(page.text, terms, page.language or self._language, found, page.title)
            copies = [copy.url for copy in copied.get(page.digest, ()) if copy.id != page.id][:MOST_COPIES]
            results.append(
                Result(
                    page.url,
                    page.title,
                    row.score,
                    shown,
                    page.host,
                    page.language,
                    page.type,
                    page.date,
                    page.at,
                    page.depth,
                    broker.rank_of(row.id),
                    page.id,
                    tuple(dict.fromkeys([*others, *copies])),
                    self._clusters.others(page.id) if self._clusters is not None else 0,
                )
            )
        meant = suggestion(broker, query) if not empty and but is None else ""
        return Answer(
            query.text,
            total,
            tuple(results),
            broker.statistics.totals.pages,
            0.0,
            meant,
            (
                *query.notes,
                *(() if total or but else _absent(broker, query, empty)),
                *(str(self._silent[shard]) for shard in sorted(self._silent)),
            ),
            tuple(sorted({*self._missing, *self._silent})),
            self._ranks.made if self._ranks is not None else 0,
        )

    def _chosen(
        self, broker: Broker, plan: Plan, asked: Asked, but: Page | None
    ) -> tuple[list[tuple[Ranked, list[str]]], int]:
        """The rows of the results, each with the URLs that are folded into it; and how many documents match."""
        wanted = asked.skip + asked.count
        depth = wanted + 5 if not (asked.per_host or but) else 4 * wanted
        while True:
            rows, total = broker.found(plan, depth)
            ended = len(rows) < depth or depth >= _DEEPEST
            chosen = self._folded(broker, rows, asked, but)
            if ended or len(chosen) >= wanted:
                return chosen[:wanted], total
            depth *= 4

    def _folded(
        self, broker: Broker, rows: Sequence[Ranked], asked: Asked, but: Page | None
    ) -> list[tuple[Ranked, list[str]]]:
        if not rows:
            return []
        digests, sketches = broker.columns("digest", rows), broker.columns("sketch", rows)
        leaders = self._leaders([row.id for row in rows])
        chosen: list[tuple[Ranked, list[str]]] = []
        kept: list[Like] = []
        if but is not None:
            kept.append((but.digest, but.sketch, self._leaders([but.id])[0]))
            chosen.append((Ranked(0.0, but.id, -1, None), []))
        hosts: dict[str, int] = {}
        for row, digest, sketch, leader in zip(rows, digests, sketches, leaders, strict=True):
            if but is not None and row.id == but.id:
                continue
            if asked.fold and (at := _same(kept, digest, sketch, leader)) is not None:
                others = chosen[at][1]
                if len(others) < 20:
                    others.append(broker.page(row).url)
                continue
            if asked.per_host:
                host = broker.page(row).host
                hosts[host] = hosts.get(host, 0) + 1
                if hosts[host] > asked.per_host:
                    continue
            chosen.append((row, []))
            kept.append((digest, sketch, leader))
        return chosen[1:] if but is not None else chosen

    def _leaders(self, ids: Sequence[int]) -> list[int]:
        return self._clusters.leaders(ids) if self._clusters is not None else [0] * len(ids)


def _absent(broker: Broker, query: Query, empty: bool) -> list[str]:
    """Why a query finds nothing, if known: it has no words, or filters that no page meets."""
    totals = broker.statistics.totals
    notes = ["there is no word to search for"] if empty and not query.notes else []
    for found in filters_of(query.tree):
        if totals.pages and not broker.statistics.df(found.name, found.value):
            known = {"lang": totals.languages, "type": totals.types}.get(found.name, {})
            most = sorted(filter(None, known), key=lambda name: (-known[name], name))[:8]
            there = f"; there are {', '.join(most)}" if most else ""
            notes.append(f"no page has {found.name}:{found.value}{there}")
    return list(dict.fromkeys(notes))


def _with(broker: Broker, field: str, value: str | int) -> list[Page]:
    """Documents of all shards by an exact value."""
    return [page for reader in broker.readers for page in reader.with_term(field, value, 20)]


def _same(kept: Sequence[Like], digest: int, sketch: int, leader: int) -> int | None:
    for at, (other, near, above) in enumerate(kept):
        if (digest and digest == other) or (sketch and near and (sketch ^ near).bit_count() <= NEAR):
            return at
        if leader and leader == above:
            return at
    return None
