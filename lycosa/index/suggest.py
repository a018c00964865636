"""What the reader may have meant: a word that hardly any page has, beside one that is spelled nearly the same and
that many have.

The index knows terms, not words. The word that is shown for a term is the most frequent word of that term on the
page that has it first.
"""

from __future__ import annotations

from collections import Counter

from lycosa.index.broker import Broker, within
from lycosa.index.plan import All, AnyOf, Plan
from lycosa.index.query import Query
from lycosa.index.reader import Clause
from lycosa.index.words import is_unspaced, runs_of, terms_of

_RARER = 20
"""How many times more pages the suggested word is in."""
_MOST_WORDS = 8
"""A longer query is a text, and not looked at."""


def suggestion(broker: Broker, query: Query) -> str:
    """The query with misspelled words replaced; "" if there is nothing to suggest."""
    words = [run for text in query.words for run in runs_of(text)]
    if len(words) > _MOST_WORDS:
        return ""
    languages = broker.languages(query)
    better = query.text
    for word in words:
        if len(word) < 4 or is_unspaced(word) or word.isdigit():
            continue
        terms = {terms_of(word, language) for language in languages}
        count = max((broker.statistics.df("body", term) for term in terms if term), default=0)
        if count * _RARER >= broker.statistics.totals.pages:
            continue  # no word is so much more frequent
        found = {
            near: broker.statistics.df("body", near)
            for term in terms
            if term
            for near in broker.expand("body", term, 1 if len(term) < 6 else 2)
            if near not in terms
        }
        best = min(found, key=lambda term: (-found[term], term), default="")
        if best and found[best] > count * _RARER:
            shown = _shown(broker, best, languages)
            if shown and within(shown, word.lower(), 2):
                better = better.replace(word, shown, 1)
    return better if better != query.text else ""


def _shown(broker: Broker, term: str, languages: list[str]) -> str:
    clause = Clause("body", (term,))
    rows = broker.top(Plan((clause,), (), All(should=(AnyOf((0,)),)), True), 1)
    if not rows:
        return ""
    page = broker.page(rows[0])
    language = page.language or languages[0]
    words = Counter(
        run.lower()
        for run in runs_of(f"{page.title}\n{page.text[:50_000]}")
        if terms_of(run, language) == term
    )
    return min(words, key=lambda word: (-words[word], word), default="")
