"""Expansion of a query from its first results (RM3), and pages similar to a page.

RM3 (Abdul-Jaleel et al., TREC 2004): the best pages of the plain query, weighted by their scores, give a model of
the topic: how likely each term is in them. The best terms of that model are added to the query, with a total
weight of `share` relative to the query's own terms. Terms are weighted by their idf, like all others; a
term must be in at least two of the pages (if there are so many), so that no single page dominates the query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from lycosa.index.broker import Broker, Ranked
from lycosa.index.plan import All, AnyOf, Plan
from lycosa.index.query import Dates, Filter, Node
from lycosa.index.reader import Clause
from lycosa.index.schema import Page
from lycosa.index.words import STEMMED, terms_of


class Expansion(msgspec.Struct, frozen=True):
    """The parameters of an expansion."""

    pages: int = 10
    terms: int = 30
    share: float = 0.5


def _vector(page: Page, default: str) -> Counter[str]:
    language = page.language or default
    text = page.text if page.text.startswith(page.title) else f"{page.title}\n{page.text}"
    return Counter(terms_of(text, language if language in STEMMED else "").split())


def model(broker: Broker, rows: Sequence[Ranked]) -> dict[str, float]:
    """How likely each term is in pages that are weighted by their scores."""
    total = sum(row.score for row in rows)
    likely: dict[str, float] = {}
    pages: Counter[str] = Counter()
    for row, page in zip(rows, broker.pages(rows), strict=True):
        vector = _vector(page, broker.language)
        length = sum(vector.values())
        pages.update(vector.keys())
        for term, count in vector.items():
            likely[term] = likely.get(term, 0.0) + row.score / total * count / length
    least = min(2, len(rows))
    return {term: value for term, value in likely.items() if pages[term] >= least}


def rm3(broker: Broker, plan: Plan, options: Expansion = Expansion()) -> Plan:  # noqa: B008 - frozen
    """The plan with terms of its best pages added; the plan itself if there are none."""
    rows = [row for row in broker.top(plan, options.pages) if row.score > 0]
    if not rows:
        return plan
    found = model(broker, rows)
    statistics = broker.statistics
    weighed = {term: value * statistics.idf("body", term) for term, value in found.items()}
    chosen = sorted(weighed, key=lambda term: (-weighed[term], term))[: options.terms]
    if not chosen:
        return plan
    own = sum(clause.boost for clause in plan.scored if clause.field == "body") or 1.0
    mass = sum(found[term] for term in chosen)
    scale = own * options.share / (1 - options.share) / mass
    return _with(plan, {term: found[term] * scale for term in chosen})


def _with(plan: Plan, boosts: dict[str, float]) -> Plan:
    scored = [*plan.scored]
    known = {(clause.field, clause.terms): at for at, clause in enumerate(scored)}
    words = plan.words()
    added = []
    for term, boost in boosts.items():
        at = known.get(("body", (term,)))
        if at is not None:
            for same in next(numbers for numbers in words if at in numbers):
                scored[same] = scored[same]._replace(boost=scored[same].boost + boost)
        else:
            added.append(Clause("body", (term,), boost))
    shift = len(added)
    first = len(scored)

    def moved(part: object) -> object:
        if isinstance(part, AnyOf):
            return AnyOf(tuple(n if n < first else n + shift for n in part.clauses))
        if isinstance(part, All):
            return All(*(tuple(map(moved, each)) for each in (part.must, part.should, part.never)))  # type: ignore[arg-type]
        return part

    condition = moved(plan.condition)
    assert isinstance(condition, All)
    if plan.simple:
        more = tuple(AnyOf((first + at,)) for at in range(shift))
        condition = msgspec.structs.replace(condition, should=(*condition.should, *more))
    return Plan((*scored, *added), plan.unscored, condition, plan.simple)


_LIKE_TERMS = 25


def like(broker: Broker, page: Page, filters: Sequence[Node] = ()) -> Plan:
    """A plan for pages similar to one: its most specific terms, by how often it has them and how few pages do."""
    statistics = broker.statistics
    vector = _vector(page, broker.language)
    telling = {
        term: count * statistics.idf("body", term)
        for term, count in vector.items()
        if len(term) > 1 and statistics.df("body", term) > 1
    }
    chosen = sorted(telling, key=lambda term: (-telling[term], term))[:_LIKE_TERMS]
    most = max(telling.values(), default=1.0)
    clauses = tuple(Clause("body", (term,), telling[term] / most) for term in chosen)
    must = tuple(node for node in filters if isinstance(node, Filter | Dates))
    condition = All(must, tuple(AnyOf((at,)) for at in range(len(clauses))))
    return Plan(clauses, (), condition, bool(clauses) and not must)
