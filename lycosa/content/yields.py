"""Traps by yield: finding patterns of URLs whose pages give nothing new. A fold over the log, with a memory limit.

A trap is endless, and gives nothing new: each of its pages leads to more of them. Many real pages give nothing new
either (a manual of a thousand functions that differ in a name), but they have an end: some index leads to them, and
they lead back. So a page is *barren* for a pattern if it had nothing new and linked to a URL of that pattern which
had not been met before. A page that had nothing new and led nowhere has *ended*.

Every fetch counts in the patterns of its URL (`patterns`) as new, barren or ended: the `gain` of its record says
which, or that the page was not examined (no *look*). A pattern is quarantined after `patience` barren looks without
any that gave something new between them, and at most as many that ended; half as many are enough for a pattern
with a query or a date, a third for one that looks like a trap by itself, and a whole site takes twice as many. Most
pages of a calendar are days, which lead nowhere; a month leads to thirty. So a pattern that looks like a trap is
also quarantined if twice `patience` looks in a row found nothing, barren or ended, a few of them barren
(one for `FEW_LEAD` of the patience), and these led to as many URLs of the pattern as there were looks: it grows
faster than it is fetched. A pattern that gave something new before is given two more looks for each time it did
(`EARNED`, up to `CREDIT`). Of the patterns of a URL the finest is quarantined first, and the pages that it explains
no longer count against the coarser ones.

    quarantine      a Learned record, with the evidence; from then on its URLs are skipped, with a record each
    test            after 4, 8, 16, 32 ... of them one is fetched after all
    form            a URL whose form (itself without ids of sessions or visits) was not fetched yet is fetched, too,
                    until half the patience of these gave nothing new
    release         two tests in a row that gave something new: a Learned record; URLs that were skipped come back

The hosts of a domain are a pattern, too (`*.a.test`): only the first page of a site counts there, as new if it is
new in the domain, and only sites of which nothing was fetched are skipped. That is what stops a farm of hosts.

**Which pages are examined.** A look costs as much as reading the page, and a page that leads to no unknown URL of
its site does not belong to a trap, so nearly always only pages that lead on are examined: of a pattern the third
page and the next ones (from the sixth on, if nothing about it looks like a trap) until there were `LOOKS`, then one
in `SAMPLE`. The first of them is examined wherever it leads, so that it is known whether the pattern gives
anything. An ordinary pattern is no longer examined once it has `YOUNG` pages, except for one page in `SAMPLE`, and
in twice as many for each `OFTEN` times that it gave something new, up to `RARELY` times. Once a look was barren,
all pages that lead on are examined, and one that does not counts as ended, whatever its text. From half the
patience on every page is examined, and in a pattern that looks like a trap from the first barren one on: nothing
new is overlooked just before a quarantine.

**Leading to news.** A page that has nothing new and leads to unknown URLs of another pattern that gives new things
(`proves`) is not barren: the results of a search lead to the pages that were searched. That pattern must have new
content itself, on one in `PROVING` of its pages: two forms that lead to each other prove nothing.

The table has at most `rows` patterns; those not met for longest are dropped first. An operator may release patterns
for good (`TrapOptions.release`): their URLs are never held, and count in no pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final

import msgspec
from xxhash import xxh3_64_intdigest

from lycosa.content.options import TrapOptions
from lycosa.content.patterns import Level, Pattern, hosts_of, patterns_of, without_ids

ROWS: Final = 1 << 16
"""Patterns that all shards of a crawl together keep."""
LOOKS: Final = 4
SAMPLE: Final = 8
OFTEN: Final = 4
RARELY: Final = 3
PLAIN: Final = 5
YOUNG: Final = 24
EARNED: Final = 2
CREDIT: Final = 200
PAYS: Final = 2
"""Tests in a row that must give something new for a release: after a restart the first may only look new."""
_EXAMPLES = 3
_PIECE = 2_000

(
    NOT_JUDGED,
    NOTHING,
    ON_SITE,
    NEW,
    NOTHING_IN_FOLDER,
    NOTHING_IN_FIRST,
    NOTHING_ON_SITE,
    ENDED,
    LED,
    SILENT,
) = range(10)
"""The gain of a fetch: not examined; nothing new on its site; new there, but not in its domain; new. `NOTHING`: the
page led to unknown URLs of its finest pattern, and the similar ones to some of a coarser pattern; `ENDED`: to none;
`LED`: to some of another pattern, which gives new things. `SILENT`: it has too little text to tell. For a barren
page, the bits from the fifth on are the number of unknown URLs to which it led."""
KINDS: Final = 16
FEW_LEAD: Final = 4
"""A growing pattern is quarantined when one in so many looks of its patience was barren."""
FORMS: Final = 1 << 16
"""URLs without ids that a shard remembers, of all patterns."""
FEW_FORMS: Final = 2
"""More forms than this are real pages behind ids, and not a coincidence."""
PROVING: Final = 4
"""A pattern gives new things if one in so many of its examined pages had new content."""
_BARREN = {
    NOTHING: Level.FINE,
    NOTHING_IN_FOLDER: Level.FOLDER,
    NOTHING_IN_FIRST: Level.FIRST,
    NOTHING_ON_SITE: Level.SITE,
}


def nothing_new(url: str, unknown: Iterable[str]) -> int:
    """The gain of a page that had nothing new and links to these URLs, which were not met before."""
    own = [pattern.text for pattern in patterns_of(url)]
    levels = [pattern.level for pattern in patterns_of(url)]
    shared = [
        own.index(pattern.text) for each in unknown for pattern in patterns_of(each) if pattern.text in own
    ]
    if not shared:
        return ENDED
    finest = levels[min(shared)]
    gain = next(gain for gain, level in _BARREN.items() if level >= finest)
    return gain + KINDS * shared.count(min(shared))


class Look(IntEnum):
    """Whether a page should be examined."""

    NO = 0
    IF_IT_LEADS_ON = 1  # only if it links to URLs of its site that were not met before
    OR_IT_ENDED = 2  # only if it does; else it has ended
    YES = 3


class Row(msgspec.Struct, array_like=True):
    """What is known of a pattern."""

    level: Level
    pages: int = 0
    looked: int = 0
    barren: int = 0  # looks in a row that found nothing new
    quarantined: bool = False
    held: int = 0  # URLs skipped since it was quarantined
    tests: int = 0
    paid: int = 0  # tests in a row that gave something new
    examples: list[str] = []
    why: str = ""
    gains: int = 0  # looks that found something new
    ended: int = 0  # looks since the last of them that found nothing, and led to nothing of the kind
    led: int = 0  # URLs of the pattern that the barren ones led to
    said: int = 0  # of `gains`, pages that said something new themselves
    forms: set[int] = set()  # URLs without ids that were fetched since a look was barren
    idle: int = 0  # tests in a row of a form that had not been fetched, and that gave nothing new


def _is_sampled(pattern: Pattern, row: Row, key: int) -> bool:
    """Whether a page is one of those that are looked at: of an ordinary pattern that gave much, fewer are."""
    suspicion = pattern.suspicion
    if row.looked < LOOKS and (suspicion or row.pages < YOUNG):
        return True
    return not key % (SAMPLE if suspicion else SAMPLE << min(row.gains // OFTEN, RARELY))


class Verdict(msgspec.Struct, frozen=True):
    """A quarantine or release of a pattern that is to be logged."""

    pattern: str
    holds: bool
    pages: int
    why: str
    examples: list[str]


class Yields:
    """The patterns of one shard."""

    def __init__(self, rows: int = ROWS) -> None:
        self._most = max(rows, 64)
        self._rows: dict[str, Row] = {}
        self._options = TrapOptions()
        self._released: frozenset[str] = frozenset()
        self._quarantined: set[str] = set()
        self._forms = 0
        self._due: dict[str, bool] = {}
        """Patterns for which a record is due, and whether they are to be quarantined."""
        self.returning = 0
        """URLs of patterns that are no longer quarantined, which were skipped before this position, must come back;
        0: none."""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def quarantined(self) -> list[str]:
        return sorted(self._quarantined)

    @property
    def is_on(self) -> bool:
        """Whether the options have traps detected."""
        return self._options.quarantine

    @property
    def is_active(self) -> bool:
        """Whether any pattern is quarantined."""
        return bool(self._quarantined) and self._options.quarantine

    def row(self, pattern: str) -> Row | None:
        return self._rows.get(pattern)

    # -- questions

    def wants(self, url: str, key: int, domain: str, is_first: bool) -> Look:
        """Whether the yield of a fetch should be examined. `is_first`: it is the first page of its site."""
        if not self._options.quarantine:
            return Look.NO
        found = Look.NO
        for pattern in self._patterns(url, domain, is_first):
            row = self._rows.get(pattern.text)
            if row is None:
                continue
            if row.quarantined:
                return Look.YES
            if row.barren:
                if (
                    pattern.level is Level.HOSTS
                    or pattern.suspicion
                    or 2 * row.barren >= self._patience(pattern, row)
                ):
                    return Look.YES
                found = Look.OR_IT_ENDED
            elif pattern.level is Level.SITE or row.pages < 2 or not _is_sampled(pattern, row, key):
                continue
            elif pattern.level is Level.HOSTS:
                return Look.YES
            elif (suspicion := pattern.suspicion) or row.pages >= PLAIN:
                if not row.looked and (suspicion or pattern.level <= Level.FOLDER):
                    return Look.YES  # so that it is known whether the pattern gives anything (`proves`)
                found = max(found, Look.IF_IT_LEADS_ON)
        return found

    def holds(self, url: str, domain: str, is_first: bool) -> str | None:
        """The quarantined pattern of a URL, if it has one."""
        if not self.is_active:
            return None
        for pattern in self._patterns(url, domain, is_first):
            if pattern.text in self._quarantined:
                return pattern.text
        return None

    def tests(self, pattern: str, url: str) -> bool:
        """Whether a URL of a quarantined pattern should be fetched as a test."""
        row = self._rows[pattern]
        if row.paid > 0 or row.held >= 4 << min(row.tests, 40):
            return True
        if 2 * row.idle >= self._options.patience:
            return False
        form = without_ids(url)
        return form != url and self._forms < FORMS and _hash(form) not in row.forms

    def proves(self, url: str, source: str) -> bool:
        """Whether a link leads to a pattern other than that of the page `source`, and one that gives new things."""
        own = {pattern.text for pattern in patterns_of(source) if pattern.level <= Level.FOLDER}
        found = [pattern.text for pattern in patterns_of(url)]
        if self._quarantined and not self._quarantined.isdisjoint(found):
            return False
        for pattern in patterns_of(url):
            row = self._rows.get(pattern.text) if pattern.level <= Level.FOLDER else None
            if row is not None and row.looked and not row.barren:
                return pattern.text not in own and PROVING * row.said >= row.looked
        return False

    def _patterns(self, url: str, domain: str, is_first: bool) -> tuple[Pattern, ...]:
        """The patterns that a URL counts in: none if the operator has released one of them."""
        found = patterns_of(url)
        if is_first:
            found = (*found, hosts_of(domain))
        if self._released and any(pattern.text in self._released for pattern in found):
            return ()
        return found

    # -- records

    def configure(self, options: TrapOptions, position: int) -> None:
        """Set the options, as in the Configured at a position."""
        before = self._options
        self._options, self._released = options, frozenset(options.release)
        for text in self._quarantined & self._released:
            self._free(text)
        for text in self._released:
            self._due.pop(text, None)
        loosened = before.quarantine > options.quarantine or set(options.release) - set(before.release)
        if loosened and position:
            self.returning = position

    def note_fetch(self, url: str, gain: int, domain: str, is_first: bool) -> None:
        """Note that a page was fetched for the first time."""
        for pattern in self._patterns(url, domain, is_first):
            row = self._touch(pattern)
            row.pages += 1
            if gain:
                self._look(pattern, row, url, gain)
            if row.quarantined:
                return  # a test: it says nothing of the coarser patterns

    def _look(self, pattern: Pattern, row: Row, url: str, gain: int) -> None:
        gain, led = gain % KINDS, gain // KINDS
        is_form = (row.barren > 0 or row.quarantined) and self._note_form(row, url)
        is_said = gain == NEW or (gain == ON_SITE and row.level is not Level.HOSTS)
        is_news = is_said or gain == LED
        row.looked += 1
        if gain == SILENT:
            return
        if row.quarantined and is_form:
            row.idle = 0 if is_news else row.idle + 1
            return  # other URLs of the pattern may be as barren as before
        if row.quarantined:
            row.tests += 1
            row.paid = row.paid + 1 if is_news else 0
            if row.paid >= PAYS:
                self._due[pattern.text] = False
            return
        if is_news:
            row.gains += 1
            row.said += is_said
            row.barren = row.ended = row.led = 0
            row.examples = []
            self._due.pop(pattern.text, None)
            return
        if gain == ENDED or _BARREN.get(gain, Level.HOSTS) > row.level:
            row.ended += 1
        else:
            row.barren += 1
            row.led += led
            row.examples = [*row.examples[-_EXAMPLES + 1 :], url]
        if self._is_spent(pattern, row):
            self._due[pattern.text] = True

    def _note_form(self, row: Row, url: str) -> bool:
        """Note a URL's form; returns whether the URL has an id and is the first of its form."""
        form = without_ids(url)
        if form == url or self._forms >= FORMS or (value := _hash(form)) in row.forms:
            return False
        row.forms.add(value)
        self._forms += 1
        return True

    def _is_spent(self, pattern: Pattern, row: Row) -> bool:
        """Whether a pattern should be quarantined."""
        patience, looks = self._patience(pattern, row), row.barren + row.ended
        if row.barren >= patience and row.barren >= row.ended:
            return True
        is_growing = row.led >= looks and FEW_LEAD * row.barren >= patience
        return bool(pattern.suspicion) and is_growing and looks >= 2 * patience

    def _patience(self, pattern: Pattern, row: Row) -> int:
        """How many barren looks are enough."""
        patience = self._options.patience
        if pattern.level is Level.HOSTS:
            patience //= 2
        else:
            patience = patience // (pattern.suspicion + 1) * (2 if pattern.level is Level.SITE else 1)
        # Where new forms are fetched anyway, nothing is lost by an early quarantine.
        return patience if len(row.forms) > FEW_FORMS else patience + min(EARNED * row.gains, CREDIT)

    def note_held(self, pattern: str) -> None:
        """Note that a URL of a quarantined pattern was skipped."""
        row = self._rows.get(pattern)
        if row is not None:
            row.held += 1

    def note_learned(self, pattern: str, holds: bool, why: str, examples: list[str], position: int) -> None:
        """Note that a pattern was quarantined, or released."""
        self._due.pop(pattern, None)
        level = Level.HOSTS if pattern.startswith("*.") else _level(pattern, examples)
        row = self._touch(Pattern(level, pattern))
        if not holds:
            self._free(pattern)
            self.returning = position
            return
        row.quarantined, row.held, row.tests, row.paid, row.idle = True, 0, 0, 0, 0
        row.why, row.examples = why, list(examples)
        self._quarantined.add(pattern)
        for coarser in patterns_of(examples[-1]) if examples else ():
            other = self._rows.get(coarser.text)
            if other is not None and coarser.level > level and not other.quarantined:
                other.barren, other.ended, other.led, other.examples = 0, 0, 0, []
                self._due.pop(coarser.text, None)

    def _free(self, pattern: str) -> None:
        row = self._rows[pattern]
        row.quarantined, row.barren, row.ended, row.led = False, 0, 0, 0
        row.paid, row.why, row.examples = 0, "", []
        self._quarantined.discard(pattern)

    def _touch(self, pattern: Pattern) -> Row:
        text, rows = pattern.text, self._rows
        row = rows.get(text)
        if row is None:
            row = Row(pattern.level)
            while len(rows) >= self._most:
                self._forget_one()
        elif 2 * len(rows) < self._most:  # no need yet to know which was met last
            return row
        else:
            del rows[text]
        rows[text] = row
        return row

    def _forget_one(self) -> None:
        text = next(iter(self._rows))
        row = self._rows.pop(text)
        self._due.pop(text, None)
        self._forms -= len(row.forms)
        if row.quarantined and 2 * len(self._quarantined) <= self._most:
            self._rows[text] = row
            self._forms += len(row.forms)
        else:
            self._quarantined.discard(text)

    # -- what is due

    def due(self) -> list[Verdict]:
        """What is to be logged now: of the patterns of a URL only the finest, since it may explain the others."""
        if not self._due or not self._options.quarantine:
            return []
        verdicts = []
        for text, holds in sorted(self._due.items(), key=lambda row: self._rows[row[0]].level)[:1]:
            row = self._rows[text]
            why = (
                f"{row.barren} pages gave nothing new but URLs of their kind, of {row.pages} fetched"
                if holds
                else f"{row.paid} tests in a row gave something new, of {row.tests}; {row.held} URLs were skipped"
            )
            verdicts.append(Verdict(text, holds, row.pages, why, list(row.examples)))
        return verdicts

    # -- Durable

    def freeze(self) -> Iterator[bytes]:
        rows = list(self._rows.items())
        pieces = [
            msgspec.msgpack.encode((self.returning, rows[at : at + _PIECE]))
            for at in range(0, max(len(rows), self.returning > 0), _PIECE)
        ]
        return iter(pieces)

    def files(self) -> list[str]:
        return []

    def settle(self) -> None:
        """Nothing to do: there are no files."""

    def thaw(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self.returning, rows = _decode_rows(piece)
            self._rows.update(rows)
        self._forms = sum(len(row.forms) for row in self._rows.values())
        self._quarantined = {text for text, row in self._rows.items() if row.quarantined}
        for text, row in self._rows.items():
            if row.quarantined and row.paid >= PAYS:
                self._due[text] = False
            elif not row.quarantined and self._is_spent(Pattern(row.level, text), row):
                self._due[text] = True


def _hash(form: str) -> int:
    return xxh3_64_intdigest(form.encode("utf-8", "surrogatepass"))


def _level(pattern: str, examples: list[str]) -> Level:
    for example in examples:
        for each in patterns_of(example):
            if each.text == pattern:
                return each.level
    return Level.FINE


# Made at import: msgspec crashes where two threads are the first to decode a struct, as when shards recover.
_decode_rows = msgspec.msgpack.Decoder(tuple[int, list[tuple[str, Row]]]).decode
