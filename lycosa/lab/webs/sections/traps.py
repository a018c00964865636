"""Traps: endless places, each a host of its own.

    calendar    /calendar/2024-05/ links to the month before and the month after, for ever
    sessions    /shop/item-3.html?sid=... : every page hands out new session ids to the same few items
    deeper      /deep/a/b/a/ : every page links two directories further down
    joined      /news/www.partner.test/www.partner.test/ : links to other hosts that lack their scheme
    escaped     /list/?page=1&amp;amp;sort=a : every page escapes its ampersands once more
    repeated    /cart/?add=1&add=2&add=1 : every page adds a parameter to its own address
    anything    /help/qwertzui.html : an answer for every address, "nothing found", with more such links
    facets      /find/?color=red&size=2 : every choice and order of filters over the same items (real pages)
    farm        h123.NAME/ : any number of hosts, all alike, that link to each other

A crawler gets out by limits (pages per site, depth), by rules for session ids, or by noticing that nothing new
comes, so the truth has bounds here, not sets. `steps` is the least number of links from the entry to an address: a
crawl of depth d can fetch none with more than d - 1 steps, because the entry is linked from the home page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

from lycosa.lab.webs.answers import Answer, Only, Request, html, leaf
from lycosa.lab.webs.dice import roll
from lycosa.lab.webs.plan import Host
from lycosa.lab.webs.sheet import Sheet
from lycosa.lab.webs.words import words_of

ENTRIES = {
    "calendar": "/calendar/2024-05/",
    "sessions": "/shop/",
    "deeper": "/deep/",
    "joined": "/news/",
    "escaped": "/list/?page=1",
    "repeated": "/cart/",
    "anything": "/help/",
    "facets": "/find/",
    "farm": "/farm/",
}
ITEMS = 5
FARMED = "farmed"
"""The role of all hosts of a farm but the first."""

_MONTH = re.compile(r"/calendar/(\d{4,6})-(\d\d)/")
_ITEM = re.compile(r"/shop/item-(\d)\.html\?sid=([0-9a-f]{3})[0-9a-f]{12}")
_DEEP = re.compile(r"/deep/(?:[ab]/)*")
_JOINED = re.compile(r"/news/(?:www\.(?:partner|friend)\.test/)*")
_LIST = re.compile(r"/list/\?page=\d+(?:&((?:amp;)*)sort=[ab])?")
_CART = re.compile(r"/cart/(?:\?add=\d(?:&add=\d)*)?")
_HELP = re.compile(r"/help/(?:[a-z]{8}\.html)?")
_FIND = re.compile(r"/find/(?:\?(\w+=\w+(?:&\w+=\w+)*))?")
_START = 2024 * 12 + 4
_MISSING = Answer(404, (("Content-Type", "text/html"),), b"<p>No such page.</p>", lasting=True)

FACETS = {
    "color": ("red", "green", "blue", "white"),
    "size": ("small", "medium", "large"),
    "brand": ("acme", "bolt", "cord"),
    "sort": ("price", "name", "date"),
}
_GOODS = list(product(FACETS["color"], FACETS["size"], FACETS["brand"]))
"""The items of facets: one for each choice of the first three."""


def steps(role: str, path: str) -> int | None:
    """The least number of links from the entry; None if the address is not part of the trap."""
    match role:
        case "calendar":
            if (month := _MONTH.fullmatch(path)) and 1 <= int(month[2]) <= 12:
                return abs(int(month[1]) * 12 + int(month[2]) - 1 - _START)
            return None
        case "sessions":
            if path == ENTRIES["sessions"]:
                return 0
            item = _ITEM.fullmatch(path)
            return int(item[2], 16) if item and int(item[1]) < ITEMS else None
        case "deeper":
            return path.count("/") - 2 if _DEEP.fullmatch(path) else None
        case "joined":
            return path.count("/") - 2 if _JOINED.fullmatch(path) else None
        case "escaped":
            found = _LIST.fullmatch(path)
            return None if found is None else 0 if found[1] is None else 1 + found[1].count("amp;")
        case "repeated":
            return path.count("add=") if _CART.fullmatch(path) else None
        case "anything":
            return min(len(path) - len(ENTRIES[role]), 1) if _HELP.fullmatch(path) else None
        case "facets":
            return None if (chosen := _chosen(path)) is None else len(chosen)
        case _:
            return 0 if path == ENTRIES["farm"] else None


def _chosen(path: str) -> dict[str, str] | None:
    """The filters in an address of facets; None if it is not one."""
    found = _FIND.fullmatch(path)
    if found is None:
        return None
    pairs = [each.partition("=")[::2] for each in found[1].split("&")] if found[1] else []
    chosen = dict(pairs)
    if len(chosen) < len(pairs) or any(value not in FACETS.get(name, ()) for name, value in pairs):
        return None
    return chosen


def write(sheet: Sheet) -> None:
    """Add the trap of the host's role."""
    role = sheet.place.host.role
    links_of = _Links(sheet)
    ways: dict[str, Callable[[str, int], list[str]]] = {
        "calendar": links_of.calendar,
        "sessions": links_of.sessions,
        "deeper": lambda path, far: ["a/", "b/"] if len(path) < 4000 else [],
        "joined": lambda path, far: ["www.partner.test/", "www.friend.test/"] if len(path) < 4000 else [],
        "escaped": links_of.escaped,
        "repeated": links_of.repeated,
        "anything": links_of.anything,
        "facets": links_of.facets,
        "farm": lambda path, far: farm_links(sheet.place.options.seed, sheet.place.origin, "farm"),
    }

    def make(request: Request) -> Answer:
        path = request.path
        far = steps(role, path)
        if far is None:
            return _MISSING
        shown = path.replace("&", "&amp;")
        text = f"A page about trap {shown}."
        if role == "facets":
            text = " ".join(f"<p>{_about(*each)}</p>" for each in _found(path))
        elif role == "anything":
            text = (
                f"Sorry, {shown} could not be found. Perhaps one of these pages is what you were looking for."
            )
        return html(leaf(f"trap {shown}", *ways[role](path, far), text=text))

    sheet.put(ENTRIES[role], make, entry=True, only=Only.TRAP)
    if role == "facets":
        for number, each in enumerate(_GOODS):
            name = f"/find/goods-{number}.html"
            sheet.put(name, leaf(f"goods {number}", text=f"{_about(*each)} {_praise(sheet, number)}"))
    sheet.folders.append((ENTRIES[role].partition("2024")[0].partition("?")[0], make))


def _about(color: str, size: str, brand: str) -> str:
    return f"The {color} one of {brand}, in a {size} size, with everything that belongs to it"


def _praise(sheet: Sheet, number: int) -> str:
    seed = sheet.place.options.seed
    return "".join(words_of(seed).text(4, seed, "goods", sheet.place.host.number, number))


def _found(path: str) -> list[tuple[str, str, str]]:
    """The items matching the filters of an address: the first six of them."""
    chosen = _chosen(path) or {}
    wanted = [chosen.get(name) for name in ("color", "size", "brand")]
    rows = [each for each in _GOODS if all(b in (None, a) for a, b in zip(each, wanted, strict=True))]
    if (order := chosen.get("sort")) is not None:
        rows.sort(key=lambda each: roll(0, order, *each))
    return rows[:6]


class _Links:
    """The links of a page of each trap."""

    def __init__(self, sheet: Sheet) -> None:
        self._seed, self._index = sheet.place.options.seed, sheet.place.host.number

    def calendar(self, path: str, far: int) -> list[str]:
        found = _MONTH.fullmatch(path)
        assert found is not None
        number = int(found[1]) * 12 + int(found[2]) - 1
        near = [each for each in (number - 1, number + 1) if 12000 < each < 11_999_001]
        return [f"/calendar/{each // 12}-{each % 12 + 1:02}/" for each in near]

    def sessions(self, path: str, far: int) -> list[str]:
        def item(number: int) -> str:
            mixed = roll(self._seed, "session", self._index, number, path) >> 16
            return f"/shop/item-{number}.html?sid={min(far + 1, 4095):03x}{mixed:012x}"

        return [item(number) for number in range(ITEMS)]

    def escaped(self, path: str, far: int) -> list[str]:
        page = path.partition("page=")[2].partition("&")[0]
        # In HTML: each `&amp;` of the address is written with both ampersands escaped.
        more = "amp;" * far
        sorts = [f"/list/?page={page}&amp;{more}sort={each}" for each in "ab"]
        return sorts if far < 500 else []

    def repeated(self, path: str, far: int) -> list[str]:
        mark = "&amp;" if far else "?"
        shown = path.replace("&", "&amp;")
        return [f"{shown}{mark}add={number}" for number in range(1, 4)] if far < 500 else []

    def anything(self, path: str, far: int) -> list[str]:
        def name(number: int) -> str:
            left = roll(self._seed, "anything", self._index, path, number)
            letters = (chr(97 + (left >> 5 * at) % 26) for at in range(8))
            return f"/help/{''.join(letters)}.html"

        return [name(number) for number in range(4)]

    def facets(self, path: str, far: int) -> list[str]:
        chosen = _chosen(path) or {}
        goods = [f"/find/goods-{_GOODS.index(each)}.html" for each in _found(path)]
        more = []
        for name, values in FACETS.items():
            if name not in chosen:
                for value in values:
                    pairs = [*(f"{each}={chosen[each]}" for each in chosen), f"{name}={value}"]
                    more.append("/find/?" + "&amp;".join(pairs))
        return goods + more


def farm_links(seed: int, origin: str, name: str) -> list[str]:
    """The other hosts of a farm that one of them links to."""
    scheme, _, rest = origin.partition("://")
    return [f"{scheme}://h{roll(seed, 'farm', name, number) % 10**9}.{rest}/" for number in range(4)]


def farmed(seed: int, host: Host, origin: str, path: str) -> Answer:
    """The page of a host of a farm; it has only this one."""
    if path != "/":
        return _MISSING
    text = "Cheap offers of every kind, the best of all prices, and many more of our pages to see."
    return html(leaf("best offers", *farm_links(seed, origin, host.name), text=text))
