"""Ordinary pages: their addresses, their links, their text.

Nothing is stored. Page *i* of a host is a function of the seed, the host and *i*, so that a web of
a million pages costs no more memory than one of ten.

Addresses have three styles, one per host, and can be parsed: the page's number is in them, in hex.

    style 0     /word/1f3-word-word.html
    style 1     /word/1f3/word-word/
    style 2     /word.php?word=word&id=1f3        (hence &amp; in hrefs)
    page 0      /

Links of page *i*, in a host of *n* pages:

- navigation: the same few pages on every page of the host;
- the tree: children 8i+1 ... 8i+8, which makes every page reachable from page 0;
- copied: half of the rest is taken from its *prototype*, an earlier page of the host: *i* with its
  last non-zero hex digit set to zero. Chains of prototypes are therefore as short as the number has
  digits, and neighbours share theirs: the copying model of Kleinberg, Kumar, Raghavan, Rajagopalan
  and Tomkins (1999), which gives common neighbourhoods and in-degrees with a heavy tail, in a
  form that needs no history;
- fresh: near by, or anywhere in the host with a preference for low numbers; across hosts by popularity
  (the host of rank r in proportion to 1/r), mostly to home pages.

The number of links is log-normal around `options.links`, and every 64th page has a Pareto tail on
top. `options.local_share` of them stay on the host: the share is kept per page, by drawing the
number of links across hosts so that its mean is right, because navigation and tree are always
local.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from lycosa.lab.webs.changes import Version
from lycosa.lab.webs.dice import WHOLE, roll, rolls
from lycosa.lab.webs.options import WebOptions
from lycosa.lab.webs.plan import Host
from lycosa.lab.webs.words import words_of

FANOUT = 8
MOST_LINKS = 3000
ASSETS = ("/assets/style.css", "/assets/site.js", "/assets/logo.png")
"""Requisites that ordinary pages embed."""

_MIX = 0x9E3779B97F4A7C15
_PARETO = 1.6


def _log_normal(median: float, sigma: float) -> list[int]:
    """Quantiles, so that a draw is an index: no logarithm whose last bit could differ between machines."""
    normal = NormalDist()
    return [max(1, round(median * math.exp(sigma * normal.inv_cdf((k + 0.5) / 1024)))) for k in range(1024)]


class Pages:
    """The ordinary pages of a web."""

    def __init__(self, options: WebOptions, hosts: tuple[Host, ...], origins: list[str]) -> None:
        self._options = options
        self._seed = options.seed
        self._hosts = hosts
        self._origins = origins
        self._words = words_of(options.seed)
        self._degrees = _log_normal(options.links, 0.7)
        self._tail = [
            min(MOST_LINKS, int(2 * options.links * (1 - k / 256) ** (-1 / _PARETO))) for k in range(256)
        ]
        # exp(-sigma**2 / 2): the median that gives the wanted mean.
        self._bytes = _log_normal(options.page_bytes * math.exp(-0.18), 0.6)
        self._popular = _permutation(len(hosts), options.seed)
        self._lists = lru_cache(maxsize=4096)(self._draw)

    # addresses

    def path(self, host: Host, page: int) -> str:
        """The address of the page."""
        if page == 0:
            return "/"
        mixed = (page * _MIX + host.salt) % WHOLE
        words = self._words.words
        first, second = words[mixed >> 20 & 511], words[mixed >> 30 & 511]
        folder = words[(page >> 5) + host.salt & 511]
        if host.style == 0:
            return f"/{folder}/{page:x}-{first}-{second}.html"
        if host.style == 1:
            return f"/{folder}/{page:x}/{first}-{second}/"
        return f"/{folder}.php?{first}={second}&id={page:x}"

    def page(self, host: Host, path: str) -> int | None:
        """The page at that address; None if there is none."""
        if path == "/":
            return 0
        if host.style == 2:
            digits = path.rpartition("=")[2]
        else:
            digits = path.split("/", 3)[2] if path.count("/") > 1 else ""
            digits = digits.partition("-")[0]
        if not 0 < len(digits) <= 12:
            return None
        try:
            page = int(digits, 16)
        except ValueError:
            return None
        return page if 0 < page < host.size and self.path(host, page) == path else None

    # links

    def links(self, host: Host, page: int) -> tuple[list[int], list[tuple[int, int]]]:
        """The page's links in order: pages of its own host; and (host, page) elsewhere."""
        content = self._hosts[host.content]
        local, away = self._lists(content.number, page)
        return [*self._fixed(content, page), *local], list(away)

    def _fixed(self, host: Host, page: int) -> list[int]:
        navigation = range(min(host.size, 4 + host.salt % 6))
        first = page * FANOUT + 1
        return [*navigation, *range(first, min(first + FANOUT, host.size))]

    def _draw(self, index: int, page: int) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        """Links beyond navigation and tree. Recursive through prototypes, at most 16 deep."""
        host = self._hosts[index]
        size = host.size
        head = roll(self._seed, "degree", index, page)
        degree = self._degrees[head & 1023]
        if head >> 10 & 63 == 0:
            degree = max(degree, self._tail[head >> 16 & 255])
        share = self._options.local_share if len(self._hosts) > 1 else 1.0
        fixed = len(self._fixed(host, page))
        local = max(fixed, round(degree * share)) - fixed
        wanted = (fixed + local) * (1 - share) / share
        away = int(wanted) + ((head >> 24 & 0xFFFF) < (wanted - int(wanted)) * 65536)
        locals_before: tuple[int, ...] = ()
        aways_before: tuple[tuple[int, int], ...] = ()
        if page:
            locals_before, aways_before = self._lists(index, _prototype(page))
        numbers = rolls(local + away, self._seed, "links", index, page)
        locals_: list[int] = []
        for number in numbers[:local]:
            if number & 1 and locals_before:
                locals_.append(locals_before[(number >> 1) % len(locals_before)])
            elif number & 6 == 0:  # near by
                locals_.append((page + (number >> 8) % 33 - 16) % size)
            else:
                part = (number >> 8 & 0xFFFFFF) / 0x1000000
                locals_.append(int(size * part * part))
        aways: list[tuple[int, int]] = []
        for number in numbers[local:]:
            if number & 1 and aways_before:
                aways.append(aways_before[(number >> 1) % len(aways_before)])
            else:
                aways.append(self._elsewhere(index, number))
        return tuple(locals_), tuple(aways)

    def _elsewhere(self, index: int, number: int) -> tuple[int, int]:
        count = len(self._hosts)
        # Log-uniform over 1 ... count: rank r in proportion to 1/r.
        rank = int((count + 1) ** ((number >> 8 & 0xFFFFFF) / 0x1000000)) - 1
        other = self._popular[min(rank, count - 1)]
        if other == index:
            other = (other + 1) % count
        if number >> 1 & 3 < 2:
            return other, 0
        part = (number >> 32 & 0xFFFFFF) / 0x1000000
        return other, int(self._hosts[other].size * part * part * part)

    # text

    def render(self, host: Host, page: int, version: Version, extra: tuple[str, ...] = ()) -> bytes:
        """The page as HTML in UTF-8. `extra` are further hrefs on it, besides its own links."""
        content = self._hosts[host.content]
        seed, index = self._seed, content.number
        path = self.path(content, page)
        local, away = self.links(content, page)
        fixed = len(self._fixed(content, page))
        head = roll(seed, "dress", index, page)
        first, second = self._words.pair(head)
        title = f"{first} {second} {page:x}".capitalize()
        up = "../" * (path.partition("?")[0].count("/") - 1) or "./"
        origin = self._origins[index]
        anchors = [
            self._anchor(content, target, head >> (n % 40), up, origin) for n, target in enumerate(local)
        ]
        for n, (other, target) in enumerate(away):
            theirs = self._hosts[other]
            there = self._origins[other] + self.path(theirs, target).replace("&", "&amp;")
            if head >> (n % 40) & 7 == 1:
                there = there.partition(":")[2]
            anchors.append(f'<a href="{there}">{self._words.words[target + other & 511]}</a> ')
        anchors += [f'<a href="{href}">{n}</a> ' for n, href in enumerate(extra)]
        size = self._bytes[head >> 40 & 1023]
        spent = sum(map(len, anchors)) + 420
        count = max(2, int((size - spent) / self._words.mean))
        text = self._words.text(count, seed, "text", index, page, version.tag)
        parts = [
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
            f'<link rel="stylesheet" href="{ASSETS[0]}"><script src="{ASSETS[1]}"></script></head>',
            f'<body><img src="{ASSETS[2]}" alt=""><nav>{"".join(anchors[:fixed])}</nav><h1>{title}</h1>',
            f"<p>Version {version.tag}: „{first}“ — {second}.</p>",
        ]
        rest = anchors[fixed:]
        paragraphs = max(1, (count + 3) // 4)
        step = -(-len(rest) // paragraphs)
        for n in range(paragraphs):
            parts.append("<p>")
            parts += text[4 * n : 4 * n + 4]
            parts += rest[step * n : step * (n + 1)]
            parts.append("</p>\n")
        parts.append("</body></html>\n")
        return "".join(parts).encode()

    def _anchor(self, host: Host, target: int, number: int, up: str, origin: str) -> str:
        """A link within the host, spelled in one of several equivalent ways."""
        path = self.path(host, target)
        if host.style == 2:
            path = path.replace("&", "&amp;")
        way = number & 15
        if way == 0:
            path = up + path[1:]
        elif way == 1 and not host.twin:
            path = origin + path
        elif way == 2:
            path = f"{path}#s{target & 7}"
        elif way == 3:
            path = "/./.." + path
        return f'<a href="{path}">{self._words.words[target + host.salt & 511]}</a> '


def _prototype(page: int) -> int:
    """The page with its last non-zero hex digit set to zero: earlier, and reached in few steps."""
    shift = 0
    while page >> shift & 15 == 0:
        shift += 4
    return page >> (shift + 4) << (shift + 4)


def _permutation(count: int, seed: int) -> list[int]:
    """Hosts by popularity, which is independent of size."""
    return sorted(range(count), key=lambda k: roll(seed, "popularity", k))
