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

**Reading.** Reading a page (its text, its links) costs most, and few pages are ever compared. So a page keeps its
body, and is read when another one has the same form, or the same path on another site. Bodies that were not needed
are given up beyond `BODIES` bytes, the oldest first, and their pages forgotten; but of a site with active rules one
in `LATER` is read then, and remembered, so that what is tested later has something to be compared with (`knows`).

The memory of pages is bounded and not in the log: a forgotten page gives no evidence, which loses nothing. Plain
tables, no I/O; the crawl's side is `lycosa.crawl.content_seen`, and rules are applied by `lycosa.content.joins`.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from lycosa.content import change_kernels, news_kernels
from lycosa.content.blocks import Blocks, octets
from lycosa.content.fnv import fnv
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
LATER: Final = 8
BODIES: Final = 32 << 20
"""Bytes of pages that are kept until they are read."""
LEAST_ID: Final = 12
"""Letters and digits of an id."""
_ID = re.compile(rb"(?=[0-9]*[a-z])(?=[a-z]*[0-9])[0-9a-z]{%d,}" % LEAST_ID)
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


class Content(msgspec.Struct, frozen=True):
    """What a page says, as far as it is compared."""

    text: int
    """A digest of its words, independent of the order of blocks, and of its pictures."""
    digest: int
    """The digest of its content."""
    links: bytes
    """URLs, one a line."""
    more: int
    """A digest of the links beyond the limit."""
    words: int


Linked = Callable[[], tuple[Sequence[str], Sequence[str]]]
"""The links of a page that a crawl would follow, and its pictures."""


class Page:
    """A page that was fetched; it is read when it is compared for the first time."""

    __slots__ = ("_content", "_source", "url")

    def __init__(self, url: str, body: bytes, charset: str, linked: Linked) -> None:
        self.url = url
        self._source: tuple[bytes, str, Linked] | None = (body, charset, linked)
        self._content: Content | None = None

    @property
    def size(self) -> int:
        """Bytes that are kept until it is read."""
        return len(self._source[0]) if self._source is not None else 0

    @property
    def is_gone(self) -> bool:
        """Whether it was given up before it was read."""
        return self._source is None and self._content is None

    def give_up(self) -> None:
        """Free what is kept for reading."""
        self._source = None

    @property
    def content(self) -> Content:
        if self._content is None:
            assert self._source is not None, "given up"
            self._content = _read(self.url, *self._source)
            self._source = None
        return self._content

    def read(self) -> Page:
        """The page itself, read now."""
        assert self.content
        return self


def _read(url: str, body: bytes, charset: str, linked: Linked) -> Content:
    blocks = Blocks(octets(body, charset))
    chosen = np.empty(len(blocks), np.bool_)
    change_kernels.choose(blocks.rows, blocks.elements, chosen)
    ids = [fnv(each) for each in set(_ID.findall(url.lower().encode("ascii", "ignore")))]
    digest, text, words = news_kernels.said(
        blocks.octets, blocks.rows, chosen, np.array(ids, np.uint64), LEAST_ID
    )
    links, media = linked()
    pictures = sum(xxh3_64_intdigest(each.encode()) for each in media)
    known = sorted(set(links))
    return Content(
        (int(text) + pictures) & (1 << 64) - 1,
        int(digest),
        "\n".join(known[:LINKS]).encode(),
        xxh3_64_intdigest("\n".join(known[LINKS:]).encode()) if len(known) > LINKS else 0,
        int(words),
    )


def agrees(rule: Rule, one: Page, other: Page) -> bool | None:
    """Whether two pages of one form are the same page; None if that cannot be told."""
    a, b = one.content, other.content
    if min(a.words, b.words) < FEW:
        return None
    if a.text != b.text:
        return None if a.digest == b.digest else False
    if a.more != b.more:
        return None
    x, y = _forms(rule, one), _forms(rule, other)
    return True if x <= y or y <= x else None


def _forms(rule: Rule, page: Page) -> set[str]:
    own, links = site_of(page.url), page.content.links
    urls = links.decode().split("\n") if links else []
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
    """Compares pages as they come. `room`: pages that are remembered, and rules that are counted. `strict`: a rule
    that is not sure is of no interest, so that no more pages are read for it once it was wrong."""

    def __init__(self, room: int = 4096, *, strict: bool = False, bodies: int = BODIES) -> None:
        self._room = room
        self._strict = strict
        self._pages: OrderedDict[str, Page] = OrderedDict()
        self._unread: deque[tuple[Page, int, bool]] = deque()
        self._room_left = bodies
        self.rules: OrderedDict[str, Support] = OrderedDict()
        self._mirrors: dict[str, list[str]] = {}

    def meet(self, page: Page, active: Sequence[str] = ()) -> list[Verdict]:
        """Compare a fetched page: the verdicts about rules, and about the `active` ones that concern it."""
        url, site = page.url, site_of(page.url)
        found: list[Verdict] = []
        seen: set[str] = set()
        known = {parse(text) for text in active}
        known |= {mirror(site, other) for other in self._mirrors.get(site, ())}
        for rule in (*candidates(url), *known):
            text = rule.text
            if text in seen:
                continue
            seen.add(text)
            form = form_of(rule, url)
            if form is None:
                continue
            if self._strict and rule not in known and (row := self.rules.get(text)) and row.disagreed:
                continue
            group = f"{text} {form}"
            other = (self._find(form) if form != url else None) or self._find(group)
            if other is None and rule.kind == "site" and form == url:
                other = self._find(rule.place + url[len(rule.value) :])
            if other is not None and other.url != url:
                self._compare(rule, form, page, other, found)
            if rule.kind in ("param", "query", "case") or rule in known:
                self._keep(group, page)
        self._look_elsewhere(page, site, seen, found)
        self._keep(url, page)
        self._hold(page, bool(active))
        return found

    def knows(self, rule: str, form: str) -> bool:
        """Whether a page with a form is remembered."""
        pages = (self._pages.get(form), self._pages.get(f"{rule} {form}"))
        return any(page is not None and not page.is_gone for page in pages)

    def _look_elsewhere(self, page: Page, site: str, seen: set[str], found: list[Verdict]) -> None:
        """Look for another site that has the same page at the same path."""
        rest = page.url[len(site) :]
        first = self._pages.get(rest)
        if first is not None and mirror(site, site_of(first.url)).text in seen:
            return  # compared above
        other = self._find(rest)
        if other is None:
            self._keep(rest, page)
            return
        if other.content.text != page.content.text:
            same = f"{page.content.text:x} {rest}"
            other = self._find(same)
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

    def _find(self, name: str) -> Page | None:
        """The page of a name, if it can be compared."""
        page = self._pages.get(name)
        if page is None:
            return None
        if page.is_gone or page.content.words < FEW:
            del self._pages[name]
            return None
        return page

    def _keep(self, name: str, page: Page) -> None:
        """The first page of a name stays, as long as there is room."""
        old = self._pages.get(name)
        if old is not None:
            if not old.is_gone:
                return
            del self._pages[name]
        self._pages[name] = page
        while len(self._pages) > 4 * self._room:
            self._pages.popitem(last=False)

    def _hold(self, page: Page, is_tested: bool) -> None:
        """Count a page's body; give up the oldest ones for which there is no room."""
        if size := page.size:
            self._unread.append((page, size, is_tested))
            self._room_left -= size
        while self._room_left < 0:
            oldest, size, is_tested = self._unread.popleft()
            self._room_left += size
            if is_tested and not xxh3_64_intdigest(oldest.url.encode()) % LATER:
                oldest.read()
            else:
                oldest.give_up()

    def compared(self) -> list[tuple[str, Support]]:
        """Rules with some agreeing pages, also wrong rules, those with the most support first."""
        rows = [(text, row) for text, row in self.rules.items() if row.agreed]
        return sorted(rows, key=lambda row: (-row[1].agreed, row[0]))

    def proposals(self) -> list[tuple[str, Support]]:
        """Rules that are worth proposing, those with the most support first."""
        return [(text, row) for text, row in self.compared() if row.is_worth_telling]
