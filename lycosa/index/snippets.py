"""Snippets: the part of a page's text that shows why it was found, with the words of the query marked.

A text is searched for the beginnings of the terms, with string search (a regular expression for all of them took
twice as long); only the words found are stemmed and compared. The best passage is the one with the most distinct
terms, then the most occurrences, then the first; the first one with all terms is taken. A page that was found by
its title, address or anchors alone shows the beginning of its text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from lycosa.index.words import is_unspaced, terms_of

WIDTH = 240
"""Characters of a snippet, approximately."""
_SEARCHED = 60_000
"""Most characters of a text that are searched."""
_FIRST = 2_000
"""Characters of the part that is searched first. The rest is searched only if no passage there has all terms."""
_BEFORE = 60
"""Most characters shown before the first word."""
_BEGIN = 3
_ENDING = 4
"""Letters at the end of a term that the word may lack: stemmers change endings. At least `_BEGIN` are the same."""
_MOST_HITS = 500
_WORD = re.compile(r"[^\W_]+")


def _plain(code: int) -> str:
    letter = chr(code)
    base = unicodedata.normalize("NFKD", letter)[0].lower()
    return base if len(base) == 1 else letter


_BASE = {
    chr(code): base
    for first, last in ((0xC0, 0x250), (0x370, 0x530), (0x1E00, 0x2000))
    for code in range(first, last)
    if (base := _plain(code)) != chr(code)
}
"""Letters without their accents, one to one, so that positions do not change."""


class Snippet(msgspec.Struct, frozen=True):
    """A passage of text and the parts to mark, as pairs of start and end."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()


class Finder(NamedTuple):
    """Finds words that may match one of some terms, in a text in lower case."""

    starts: tuple[str, ...]
    """The beginnings of the words."""
    pairs: tuple[str, ...]
    """Terms of scripts without spaces; these overlap."""


def finder(terms: Collection[str]) -> Finder:
    pairs = {term for term in terms if is_unspaced(term)}
    starts = {term[: max(_BEGIN, len(term) - _ENDING)] for term in terms if term not in pairs}
    starts = {start for start in starts if not any(start[:size] in starts for size in range(1, len(start)))}
    return Finder(tuple(sorted(starts)), tuple(sorted(pairs)))


def snippet(text: str, terms: Collection[str], language: str, found: Finder, skip: str = "") -> Snippet:
    """The best passage of a text; `found` is `finder(terms)`.

    A first line that equals `skip` (the title), or part of it, is left out: the reader has seen it.
    """
    line = text.partition("\n")[0]
    start = len(line) if line in skip and len(line) < len(text) else 0
    text = text[start : start + _SEARCHED].lstrip()
    hits: list[tuple[int, int, str]] = []
    known: dict[str, str] = {}
    best = seen = 0
    for end in _ends(text):
        hits += _hits(text, seen, end, terms, language, found, known)
        seen = end
        if len(hits) >= _MOST_HITS:
            del hits[_MOST_HITS:]
            best, _ = _best(hits, len(terms))
            break
        best, all_there = _best(hits, len(terms))
        if all_there:
            break
    return _cut(text, max(0, hits[best][0] - _BEFORE) if hits else 0, hits)


def _ends(text: str) -> Iterator[int]:
    """Where the parts of a text end: with a line or a word, each after four times as much as the one before."""
    end = _FIRST
    while end < len(text):
        end = max(text.rfind("\n", end // 2, end), text.rfind(" ", end // 2, end)) + 1 or end
        yield end
        end *= 4
    yield len(text)


def _best(hits: list[tuple[int, int, str]], count: int) -> tuple[int, bool]:
    """The hit that begins the best passage, and whether that has all of so many terms."""
    best, best_value = 0, (0, 0)
    inside: dict[str, int] = {}
    end = 0
    for at, (first, _, term) in enumerate(hits):
        while end < len(hits) and hits[end][1] <= first + WIDTH - _BEFORE:
            name = hits[end][2]
            inside[name] = inside.get(name, 0) + 1
            end += 1
        if (value := (len(inside), end - at)) > best_value:
            best, best_value = at, value
            if len(inside) == count:
                break
        if end > at:
            inside[term] -= 1
            if not inside[term]:
                del inside[term]
        else:  # a word longer than a snippet
            end = at + 1
    return best, best_value[0] == count


def _hits(
    text: str,
    start: int,
    end: int,
    terms: Collection[str],
    language: str,
    found: Finder,
    known: dict[str, str],
) -> list[tuple[int, int, str]]:
    """The query's words in a part of a text. `known`: the terms of words met before, or "" if they are none."""
    lower = text[start:end].lower()
    if len(lower) != end - start:  # the lower case of some letters is two characters
        lower = "".join(small if len(small := letter.lower()) == 1 else letter for letter in text[start:end])
    if not lower.isascii():
        for letter in set(lower).intersection(_BASE):  # few of them; `translate` would process every letter
            lower = lower.replace(letter, _BASE[letter])
    hits = {
        (start + at, start + at + len(pair), pair)
        for pair in found.pairs
        for at in islice(_places(lower, pair), _MOST_HITS)
    }
    for begin in found.starts:
        most = len(hits) + _MOST_HITS
        for at in _places(lower, begin):
            if at and lower[at - 1].isalnum():
                continue
            if (match := _WORD.match(lower, at)) is None:
                continue
            first, last = start + at, start + match.end()
            word = text[first:last]
            term = known.get(word)
            if term is None:
                made = terms_of(word, language)
                term = known[word] = made if made in terms else ""
            if term:
                hits.add((first, last, term))
                if len(hits) >= most:
                    break
    return sorted(hits)[:_MOST_HITS]


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _cut(text: str, start: int, hits: list[tuple[int, int, str]]) -> Snippet:
    if start:
        # Start at a line or a word that begins nearby.
        line = text.rfind("\n", start, start + 60)
        space = text.find(" ", start, start + 20)
        start = (
            line + 1
            if line >= 0 and not any(line > hit[0] >= start for hit in hits)
            else max(start, space + 1)
        )
    end = min(len(text), start + WIDTH)
    if end < len(text):  # at the end of a word, but not before a word of the query
        least = max([start + WIDTH // 2, *(hit[1] for hit in hits if hit[1] <= end)])
        space = max(text.rfind(" ", least, end), text.rfind("\n", least, end))
        end = space if space > 0 else end
    marks = [(first - start, last - start) for first, last, _ in hits if start <= first and last <= end]
    merged: list[tuple[int, int]] = []
    for first, last in marks:
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    head, tail = ("… " if start else ""), (" …" if end < len(text) else "")
    shown = text[start:end].replace("\n", " ")
    return Snippet(
        f"{head}{shown}{tail}", tuple((first + len(head), last + len(head)) for first, last in merged)
    )
