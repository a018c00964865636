"""Traps: places without an end, each a host of its own.

    calendar    /calendar/2024-05/ links to the month before and the month after, for ever
    sessions    /shop/item-3.html?sid=... : every page hands out new session ids to the same few items
    deeper      /deep/a/b/a/ : every page links two directories further down

A crawler gets out by limits (pages per site, depth) or by rules for session ids, so the truth has
bounds here, not sets. `steps` says how far from the entry an address is at least: a crawl of depth
d can hold none with more than d - 1 steps, because the entry stands on the home page.
"""

from __future__ import annotations

import re

from lycosa.lab.webs.answers import Answer, Only, Request, html, leaf
from lycosa.lab.webs.dice import roll
from lycosa.lab.webs.sheet import Sheet

ENTRIES = {"calendar": "/calendar/2024-05/", "sessions": "/shop/", "deeper": "/deep/"}
ITEMS = 5

_MONTH = re.compile(r"/calendar/(\d{4,6})-(\d\d)/")
_ITEM = re.compile(r"/shop/item-(\d)\.html\?sid=([0-9a-f]{3})[0-9a-f]{12}")
_DEEP = re.compile(r"/deep/(?:[ab]/)*")
_START = 2024 * 12 + 4
_MISSING = Answer(404, (("Content-Type", "text/html"),), b"<p>No such page.</p>", lasting=True)


def steps(role: str, path: str) -> int | None:
    """How many links from the entry, at least; None if the address is not of the trap."""
    if role == "calendar":
        if (month := _MONTH.fullmatch(path)) and 1 <= int(month[2]) <= 12:
            return abs(int(month[1]) * 12 + int(month[2]) - 1 - _START)
        return None
    if role == "sessions":
        if path == ENTRIES["sessions"]:
            return 0
        item = _ITEM.fullmatch(path)
        return int(item[2], 16) if item and int(item[1]) < ITEMS else None
    return path.count("/") - 2 if _DEEP.fullmatch(path) else None


def write(sheet: Sheet) -> None:
    """Add the trap of the host's role."""
    role = sheet.place.host.role
    seed, index = sheet.place.options.seed, sheet.place.host.number

    def month(number: int) -> str:
        return f"/calendar/{number // 12}-{number % 12 + 1:02}/"

    def item(number: int, depth: int, key: str) -> str:
        mixed = roll(seed, "session", index, number, key) >> 16
        return f"/shop/item-{number}.html?sid={min(depth, 4095):03x}{mixed:012x}"

    def make(request: Request) -> Answer:
        path = request.path
        far = steps(role, path)
        if far is None:
            return _MISSING
        if role == "calendar":
            found = _MONTH.fullmatch(path)
            assert found is not None
            number = int(found[1]) * 12 + int(found[2]) - 1
            links = [month(number - 1)] if number > 12000 else []
            links += [month(number + 1)] if number < 11_999_000 else []
        elif role == "sessions":
            links = [item(n, far + 1, path) for n in range(ITEMS)]
        else:
            links = ["a/", "b/"] if len(path) < 4000 else []
        return html(leaf(f"trap {path}", *links))

    sheet.put(ENTRIES[role], make, entry=True, only=Only.TRAP)
    sheet.folders.append((ENTRIES[role].partition("2024")[0], make))
