"""Variants: rules about which URLs of a site lead to the same page, and the evidence for them.

A rule is text without blanks, `KIND[:VALUE]@PLACE`, with the VALUE percent-encoded:

    param:sid@http://a.test/shop/       the parameter `sid` does not matter, for pages of that folder
    query@http://a.test/shop/           no parameter does
    segment:print@http://a.test         /print/a/b is /a/b: the first segment of that name can be left out; a file
                                        (index.html) is left out at the end, and its folder stays
    slash@http://a.test                 /a/ is /a
    case@http://a.test                  /A is /a
    site:http://a.test@http://www.a.test    every page of the second site is that of the first: a mirror, with or
                                        without www, http or https

`form_of(rule, url)` is the URL rewritten by the rule; URLs of one form lead to the same page, if the rule is right.

**Evidence.** Each page that is fetched is compared with one that was fetched before and has the same form by some
rule. They *agree* if their main texts are the same word by word (a word of letters and digits, twelve or more of
them, that stands in the page's own URL is left out: session ids are echoed), the URLs of their pictures are, and
all links of one of them, in their forms, are links of the other. They *disagree* if even their content digests
differ, which ignore dates, counters and the order of blocks. Anything else is no evidence, and neither are pages of
less than `FEW` words.

A rule is *sure* after `SUPPORT` agreements, of which one form gives at most `EACH`, and no disagreement. It is
worth a *proposal* from `PROPOSED` agreements and a confidence of `CONFIDENT` on; the confidence is (agreements + 1)
/ (agreements + disagreements + 2).

The memory of pages is bounded and not in the log: a forgotten page gives no evidence, which loses nothing. Plain
tables, no I/O; the crawl's side is `lycosa.crawl.content_seen`, and rules are applied by `lycosa.content.joins`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from lycosa.content import change_kernels, news_kernels
from lycosa.content.block_kernels import END, START
from lycosa.content.blocks import Blocks, octets
from lycosa.url.parts import host_of, site_of

SUPPORT: Final = 8
EACH: Final = 4
PROPOSED: Final = 4
CONFIDENT: Final = 0.8
FEW: Final = 12
LINKS: Final = 100
"""Links of a page that are compared; a page with more gives no evidence unless its links are the same."""
_NAMES = 6
"""The most parameters, and the most segments, of a URL for which rules are tried."""
_FORMS = 64
_MIRRORS = 4
_EXAMPLES = 2
_WORD = re.compile(rb"[0-9a-z\x80-\xff]+")
_ID = re.compile(rb"(?=[0-9]*[a-z])(?=[a-z]*[0-9])[0-9a-z]{12,}")
_LETTERS = re.compile("[a-zA-Z]")


class Rule(NamedTuple):
    """A rule, taken apart."""

    kind: str
    value: str
    place: str

    @property
    def text(self) -> str:
        value = ":" + quote(self.value, safe=":/") if self.value else ""
        return f"{self.kind}{value}@{self.place}"


@lru_cache(4096)
def parse(text: str) -> Rule:
    """The rule of a text."""
    head, _, place = text.partition("@")
    kind, _, value = head.partition(":")
    return Rule(kind, unquote(value), place)


def form_of(rule: Rule, url: str) -> str | None:
    """A URL rewritten by a rule; None if the rule does not apply to it."""
    kind, value, place = rule
    if kind in ("param", "query"):
        path, mark, query = url.partition("?")
        if path[: path.rindex("/") + 1] != place:
            return None
        if not mark or kind == "query":
            return path
        kept = [each for each in query.split("&") if each.partition("=")[0] != value]
        return f"{path}?{'&'.join(kept)}" if kept else path
    site = site_of(url)
    if kind == "site":
        return value + url[len(site) :] if site == place else url if site == value else None
    if site != place:
        return None
    path, mark, query = url.partition("?")
    rest = mark + query
    if kind == "slash":
        return f"{site}/{path[len(site) + 1 :].rstrip('/')}{rest}"
    if kind == "case":
        return site + path[len(site) :].lower() + rest
    segments = path[len(site) + 1 :].split("/")
    if kind == "segment" and value in segments:
        at = segments.index(value)
        left = [*segments[:at], ""] if at == len(segments) - 1 else segments[:at] + segments[at + 1 :]
        return f"{site}/{'/'.join(left)}{rest}"
    return url


def candidates(url: str) -> Iterator[Rule]:
    """Rules by which a URL could be a variant of another one, but for those of sites."""
    site = site_of(url)
    path, mark, query = url.partition("?")
    if mark:
        folder = path[: path.rindex("/") + 1]
        names = list(dict.fromkeys(each.partition("=")[0] for each in query.split("&") if each))
        for name in names[:_NAMES]:
            if name:
                yield Rule("param", name, folder)
        if len(names) > 1:
            yield Rule("query", "", folder)
    parts = path[len(site) + 1 :].split("/")
    for part in list(dict.fromkeys(parts))[:_NAMES]:
        if _LETTERS.search(part):
            yield Rule("segment", part, site)
    if path.endswith("/") and len(parts) > 1:
        yield Rule("slash", "", site)
    if path[len(site) :] != path[len(site) :].lower():
        yield Rule("case", "", site)


def mirror(one: str, other: str) -> Rule:
    """The rule that two sites are the same; the https one, then the one with the shorter name, stands for both."""
    first, second = sorted(
        (one, other), key=lambda site: (not site.startswith("https:"), len(host_of(site + "/")), site)
    )
    return Rule("site", first, second)


class Page(msgspec.Struct, frozen=True):
    """What is kept of a page for comparisons."""

    url: str
    text: int
    """A digest of its words, independent of the order of blocks, and of its pictures."""
    content: int
    """The digest of its content."""
    links: bytes
    """URLs, one a line."""
    more: int
    """A digest of the links beyond the limit."""
    words: int


def page_of(url: str, body: bytes, charset: str, links: Sequence[str], media: Sequence[str] = ()) -> Page:
    """A page by its bytes, the links that a crawl would follow, and its pictures."""
    blocks = Blocks(octets(body, charset))
    chosen = np.empty(len(blocks), np.bool_)
    change_kernels.choose(blocks.rows, blocks.elements, chosen)
    hashes, counts = np.zeros(len(blocks), np.uint64), np.zeros(len(blocks), np.int64)
    names = change_kernels.NO_NAMES
    news_kernels.hashes(blocks.octets, blocks.rows, chosen, names, hashes, hashes, counts)
    said = blocks.octets.tobytes().lower()
    ids = set(_ID.findall(url.lower().encode("ascii", "ignore")))
    total = words = 0
    for start, end in blocks.rows[chosen][:, [START, END]].tolist():
        found = [word for word in _WORD.findall(said[start:end]) if word not in ids]
        words += len(found)
        total += xxh3_64_intdigest(b" ".join(found)) if found else 0
    total += sum(xxh3_64_intdigest(each.encode()) for each in media)
    known = sorted(set(links))
    return Page(
        url,
        total & (1 << 64) - 1,
        int(hashes.sum()),
        "\n".join(known[:LINKS]).encode(),
        xxh3_64_intdigest("\n".join(known[LINKS:]).encode()) if len(known) > LINKS else 0,
        words,
    )


def agrees(rule: Rule, one: Page, other: Page) -> bool | None:
    """Whether two pages of one form are the same page; None if that cannot be told."""
    if min(one.words, other.words) < FEW:
        return None
    if one.text != other.text:
        return None if one.content == other.content else False
    if one.more != other.more:
        return None
    a, b = (_forms(rule, page) for page in (one, other))
    return True if a <= b or b <= a else None


def _forms(rule: Rule, page: Page) -> set[str]:
    own = site_of(page.url)
    urls = page.links.decode().split("\n") if page.links else []
    return {_bare(form_of(rule, url) or url, own, rule) for url in urls}


def _bare(url: str, own: str, rule: Rule) -> str:
    """A link for the comparison: a page may pass a parameter that does not matter on to its links."""
    if rule.kind == "param" and "?" in url and url.startswith(own + "/"):
        path, _, query = url.partition("?")
        kept = [each for each in query.split("&") if each.partition("=")[0] != rule.value]
        return f"{path}?{'&'.join(kept)}" if kept else path
    return url


class Support(msgspec.Struct):
    """The evidence for a rule."""

    agreed: int = 0
    disagreed: int = 0
    examples: list[str] = []
    """Two URLs that agreed last, or that did not."""
    forms: dict[str, int] = {}

    @property
    def confidence(self) -> float:
        return (self.agreed + 1) / (self.agreed + self.disagreed + 2)

    @property
    def is_sure(self) -> bool:
        return self.agreed >= SUPPORT and not self.disagreed

    @property
    def is_worth_telling(self) -> bool:
        return self.agreed >= PROPOSED and self.confidence >= CONFIDENT

    def note(self, form: str, agreed: bool, examples: list[str]) -> bool:
        """Add a comparison; returns whether it counts."""
        if not agreed:
            self.disagreed += 1
            self.examples = examples
            return True
        if self.forms.get(form, 0) >= EACH or (form not in self.forms and len(self.forms) >= _FORMS):
            return False
        self.forms[form] = self.forms.get(form, 0) + 1
        self.agreed += 1
        if not self.disagreed:
            self.examples = examples
        return True


class Verdict(NamedTuple):
    """The result of comparing two pages of one form."""

    rule: str
    agreed: bool
    support: Support


class Evidence:
    """Compares pages as they come. `room`: pages that are remembered, and rules that are counted."""

    def __init__(self, room: int = 4096) -> None:
        self._room = room
        self._pages: OrderedDict[str, Page] = OrderedDict()
        self.rules: OrderedDict[str, Support] = OrderedDict()
        self._mirrors: dict[str, list[str]] = {}

    def meet(self, page: Page, active: Iterable[str] = ()) -> list[Verdict]:
        """Compare a fetched page: the verdicts about rules, and about the `active` ones that concern it."""
        if page.words < FEW:
            return []
        url, site = page.url, site_of(page.url)
        found: list[Verdict] = []
        seen: set[str] = set()
        known = {parse(text) for text in active}
        known |= {mirror(site, other) for other in self._mirrors.get(site, ())}
        for rule in (*candidates(url), *known):
            if rule.text in seen:
                continue
            seen.add(rule.text)
            form = form_of(rule, url)
            if form is None:
                continue
            group = f"{rule.text} {form}"
            other = (self._pages.get(form) if form != url else None) or self._pages.get(group)
            if other is None and rule.kind == "site" and form == url:
                other = self._pages.get(rule.place + url[len(rule.value) :])
            if other is not None and other.url != url:
                self._compare(rule, form, page, other, found)
            if rule.kind in ("param", "query", "case") or rule in known:
                self._keep(group, page)
        self._look_elsewhere(page, site, seen, found)
        self._keep(url, page)
        return found

    def _look_elsewhere(self, page: Page, site: str, seen: set[str], found: list[Verdict]) -> None:
        """Look for another site that has the same page at the same path."""
        rest = page.url[len(site) :]
        same = f"{page.text:x} {rest}"
        other = self._pages.get(same)
        if other is None:
            self._keep(same, page)
            return
        elsewhere = site_of(other.url)
        rule = mirror(site, elsewhere)
        if elsewhere == site or rule.text in seen:
            return
        for one, two in ((site, elsewhere), (elsewhere, site)):
            partners = self._mirrors.setdefault(one, [])
            if two not in partners and len(partners) < _MIRRORS:
                partners.append(two)
        form = form_of(rule, page.url)
        assert form is not None
        self._compare(rule, form, page, other, found)

    def _compare(self, rule: Rule, form: str, page: Page, other: Page, found: list[Verdict]) -> None:
        agreed = agrees(rule, page, other)
        if agreed is None:
            return
        support = self.rules.get(rule.text)
        if support is None:
            while len(self.rules) >= self._room:
                self.rules.popitem(last=False)
            support = self.rules[rule.text] = Support()
        if support.note(form, agreed, [other.url, page.url][:_EXAMPLES]):
            found.append(Verdict(rule.text, agreed, support))

    def _keep(self, name: str, page: Page) -> None:
        """The first page of a name stays, as long as there is room."""
        if name not in self._pages:
            self._pages[name] = page
            while len(self._pages) > 4 * self._room:
                self._pages.popitem(last=False)

    def compared(self) -> list[tuple[str, Support]]:
        """Rules with some agreeing pages, also wrong rules, those with the most support first."""
        rows = [(text, row) for text, row in self.rules.items() if row.agreed]
        return sorted(rows, key=lambda row: (-row[1].agreed, row[0]))

    def proposals(self) -> list[tuple[str, Support]]:
        """Rules that are worth proposing, those with the most support first."""
        return [(text, row) for text, row in self.compared() if row.is_worth_telling]
