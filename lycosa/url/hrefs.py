"""A cache of resolved hrefs in front of the parser: most hrefs of a page were on the page before it.

Navigation repeats: a cache of 50,000 URLs was found to answer almost 80% of a crawl's links (Broder, Najork
and Wiener 2003), and within a site repeated links are spelled the same. So raw hrefs are looked up before
they are parsed, together with the part of the base on which their resolution depends:

    href                              looked up under
    http://... https://...            nothing: absolute
    //...                             the scheme of the base
    /...                              the site of the base
    ""  #...                          not at all: it is the base itself
    ?...  anything with a colon       not at all: parsed ("http:?x" below http is "?x")
    any other                         the directory of the base

This holds only for http and https bases; in `file` URLs a drive letter of the base survives even a rooted
href. Spaces and control characters around an href are cut first, as the parser does, lest " #x" be taken for a
relative path.

The memo does not tell whether a URL was seen, and holds no keys: hashing all links of a page in one kernel call
(see `lycosa.url.key`) costs less than carrying the keys along.

It is bounded by two generations: new entries go to the young one, and once that holds half the capacity it
becomes the old one and the old one is dropped; an entry hit in the old one is carried over. Thus between a
half and the whole of the capacity is remembered, the least recently used entries are dropped first, and entries
need no list pointers. A table (a site or directory) counts as `TABLE_COST` entries. The capacity is really in
bytes: an entry with long strings counts as several, one for every `ENTRY` bytes of them, and so does a table with a
long name. A page adds at most half the capacity. Hrefs longer than `MAX_HREF` are parsed each time: they are rarely
repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lycosa.meters import Meters
from lycosa.url.canonical import SCHEMES, Rules, canonicalise, schemes_from
from lycosa.url.parts import directory_of, site_of

MAX_HREF: Final = 512
TABLE_COST: Final = 4
ENTRY: Final = 250

_EDGES: Final = "".join(map(chr, range(33)))
_Table = dict[str, str | None]


class HrefMemo:
    """Resolves the hrefs of pages. `capacity` is in entries, of about `ENTRY` bytes each."""

    def __init__(
        self,
        capacity: int,
        rules: Rules,
        meters: Meters,
        schemes: frozenset[str] = SCHEMES,
    ) -> None:
        self._half = max(1, capacity // 2)
        self._rules = rules
        self._schemes = schemes
        self._young: dict[str, _Table] = {}
        self._old: dict[str, _Table] = {}
        self._size = 0
        self._old_size = 0
        self._asked = meters.counter("url.hrefs")
        self._hits = meters.counter("url.href_hits")

    def resolve(self, base: str, hrefs: Sequence[str]) -> list[str | None]:
        """The canonical form of every href of the page at `base`; None for those that have none."""
        rules, schemes = self._rules, schemes_from(base, self._schemes)
        self._asked.value += len(hrefs)
        page = canonicalise(base)
        if page is None or not page.startswith(("https://", "http://")):
            return [canonicalise(href, base, rules, schemes) for href in hrefs]
        if self._size > self._half:
            self._turn()
        site = site_of(page)
        rooted, old_rooted = self._tables(site)
        absolute, old_absolute = self._tables("")
        near: _Table | None = None
        old_near: _Table | None = None
        across: _Table | None = None
        old_across: _Table | None = None
        itself: str | None = None
        itself_known = False
        hits = added = 0
        found: list[str | None] = []
        for raw in hrefs:
            href = raw
            first = href[:1]
            if first <= " ":
                href = href.strip(_EDGES)
                first = href[:1]
            if first == "/":
                if href[1:2] == "/":
                    if across is None:
                        across, old_across = self._tables(site[: site.index(":") + 1])
                    young, old = across, old_across
                else:
                    young, old = rooted, old_rooted
            elif href.startswith(("https://", "http://")):
                young, old = absolute, old_absolute
            elif first == "#" or not first:
                if not itself_known:
                    itself, itself_known = canonicalise(page, None, rules, schemes), True
                found.append(itself)
                continue
            elif first == "?" or ":" in href:
                found.append(canonicalise(href, page, rules, schemes))
                continue
            else:
                if near is None:
                    near, old_near = self._tables(directory_of(page))
                young, old = near, old_near
            url = young.get(href, "")
            if url != "":  # no URL is empty, and None is an answer
                hits += 1
                found.append(url)
                continue
            if old is not None and (url := old.get(href, "")) != "":
                hits += 1
            else:
                url = canonicalise(href, page, rules, schemes)
            found.append(url)
            if len(href) <= MAX_HREF and added < self._half:
                young[href] = url
                added += 1 + (len(href) + len(url or "")) // ENTRY
        self._size += added
        self._hits.value += hits
        return found

    def _tables(self, name: str) -> tuple[_Table, _Table | None]:
        """The young table of that name, created if need be, and the old one."""
        table = self._young.get(name)
        if table is None:
            table = self._young[name] = {}
            self._size += TABLE_COST + len(name) // ENTRY
        return table, self._old.get(name)

    def _turn(self) -> None:
        self._old, self._old_size = self._young, self._size
        self._young, self._size = {}, 0

    def __len__(self) -> int:
        """The size in entries; one page may exceed the capacity by half of it."""
        return self._size + self._old_size
