"""Joins: how a crawl applies the rules about variants of URLs (`variants`) that it has learned. A fold over the
log.

    applied     a Learned record, with the evidence. From then on a URL is held (skipped) if another URL of its form
                was fetched successfully since, or the form itself is a page; each with a record that names the rule
    test        after 4, 8, 16 and then every 32 held URLs one is fetched after all, and compared: the first whose
                page is still remembered, or any after four times as many
    withdrawn   after one comparison that disagrees: a Learned record; held URLs come back. The rule is not learned
                again

A URL that is its own form is never held, so that the page itself is fetched and not only one of its variants. For a
held URL there is always a page with the same form that *was* fetched: if there is none, the URL is fetched.

Of each fetched form 64 bits are kept, at most `FORMS` of them; further forms are not known, so that their URLs are
fetched, which loses nothing. A rule's subject has no blanks, so the detail of a Skipped begins with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from xxhash import xxh3_64_intdigest

from lycosa.content.options import VariantOptions
from lycosa.content.variants import form_of, parse
from lycosa.url.parts import site_of

FORMS: Final = 1 << 16
"""Forms that a shard keeps."""
SELDOM: Final = 32
"""The most URLs held between two tests: so many wrong ones are not noticed in a third of all cases."""
_PIECE = 4_000


class Row(msgspec.Struct, array_like=True):
    """A rule that was learned."""

    holds: bool
    held: int = 0
    tests: int = 0
    since: int = 0
    """URLs held since the last test."""
    why: str = ""
    forms: list[int] = []
    """For reading and writing only; in memory they are a set."""


class Joins:
    """The rules of one shard."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._forms: dict[str, set[int]] = {}
        self._by_site: dict[str, list[str]] = {}
        self._options = VariantOptions()
        self._count = 0
        self.returning = 0
        """URLs held before this position by rules that no longer hold must come back; 0: none."""

    @property
    def is_on(self) -> bool:
        """Whether the options have rules applied."""
        return self._options.apply

    @property
    def is_active(self) -> bool:
        """Whether any rule is applied."""
        return bool(self._forms) and self._options.apply

    def row(self, rule: str) -> Row | None:
        return self._rows.get(rule)

    def knows(self, rule: str) -> bool:
        """Whether a rule was learned before, even if it was withdrawn."""
        return rule in self._rows

    def of(self, url: str) -> list[str]:
        """The rules that apply to the site of a URL."""
        return self._by_site.get(site_of(url), [])

    # -- questions

    def holds(self, url: str, is_page: Callable[[str], bool]) -> tuple[str, str] | None:
        """The rule and the form for which a URL is not fetched. `is_page`: whether a URL was fetched
        successfully."""
        if not self.is_active:
            return None
        for text in self.of(url):
            form = form_of(parse(text), url)
            if form is None or form == url:
                continue
            if _hash(form) in self._forms[text] or is_page(form):
                return text, form
        return None

    def tests(self, rule: str, is_known: bool) -> bool:
        """Whether a URL that a rule holds should be fetched as a test. `is_known`: it can be compared."""
        row = self._rows[rule]
        return row.since >= min(4 << min(row.tests, 8), SELDOM) * (1 if is_known else 4)

    # -- records

    def configure(self, options: VariantOptions, position: int) -> None:
        """Set the options, as in the Configured at a position."""
        before, self._options = self._options, options
        if before.apply and not options.apply and position:
            self.returning = position

    def note_fetch(self, url: str, status: int, is_first: bool, is_page: Callable[[str], bool]) -> None:
        """Note that a page was fetched; `is_first`: for the first time."""
        for text in self.of(url) if 200 <= status < 300 else ():
            form = form_of(parse(text), url)
            if form is None:
                continue
            forms, value = self._forms[text], _hash(form)
            if is_first and form != url and (value in forms or is_page(form)):
                row = self._rows[text]
                row.tests, row.since = row.tests + 1, 0
            if value not in forms and self._count < FORMS:
                forms.add(value)
                self._count += 1

    def note_held(self, rule: str) -> None:
        """Note that a URL was skipped for a rule."""
        row = self._rows.get(rule)
        if row is not None:
            row.held, row.since = row.held + 1, row.since + 1

    def note_learned(self, rule: str, holds: bool, why: str, position: int) -> None:
        """Note that a rule was learned, or withdrawn."""
        row = self._rows.setdefault(rule, Row(holds))
        row.holds, row.why = holds, why
        if holds:
            self._apply(rule, set())
        elif rule in self._forms:
            self._count -= len(self._forms.pop(rule))
            for site in _sites(rule):
                self._by_site[site].remove(rule)
            self.returning = position

    def _apply(self, rule: str, forms: set[int]) -> None:
        if rule not in self._forms:
            self._forms[rule] = forms
            self._count += len(forms)
            for site in _sites(rule):
                self._by_site.setdefault(site, []).append(rule)

    # -- Durable

    def freeze(self) -> Iterator[bytes]:
        rows = list(self._rows.items())
        parts = [rows] if rows or self.returning else []
        for text, forms in self._forms.items():
            known = sorted(forms)
            parts += [
                [(text, Row(True, forms=known[at : at + _PIECE]))] for at in range(0, len(known), _PIECE)
            ]
        pieces = [msgspec.msgpack.encode((self.returning, part)) for part in parts]
        return iter(pieces)

    def files(self) -> list[str]:
        return []

    def settle(self) -> None:
        """Nothing to do: there are no files."""

    def thaw(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self.returning, rows = msgspec.msgpack.decode(piece, type=tuple[int, list[tuple[str, Row]]])
            for text, row in rows:
                if row.forms:
                    self._forms[text].update(row.forms)
                    self._count += len(row.forms)
                    continue
                self._rows[text] = row
                if row.holds:
                    self._apply(text, set())


def _sites(rule: str) -> set[str]:
    """The sites whose URLs a rule is about."""
    found = parse(rule)
    if found.kind == "site":
        return {found.place, found.value}
    return {site_of(found.place if found.kind in ("param", "query") else found.place + "/")}


def _hash(form: str) -> int:
    return xxh3_64_intdigest(form.encode("utf-8", "surrogatepass"))
