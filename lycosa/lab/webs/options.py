"""The parameters of a web: `WebOptions`, and a few ready-made ones in `PRESETS`.

Two webs with equal options are equal byte for byte. Every oddity is a *kind* that can be left out,
by name; the list below is complete, and the module that makes each kind says what it does.
"""

from __future__ import annotations

import platform
from typing import Literal

import msgspec

from lycosa.errors import ConfigError

KINDS: dict[str, str] = {
    "robots": "robots.txt of every kind, honest and otherwise",
    "redirects": "301 to 308, chains, loops, across hosts, relative, too long",
    "statuses": "4xx and 5xx, for good or for a while, with Retry-After",
    "packing": "gzip, deflate, brotli, zstd, chunked, broken, cut short",
    "types": "content types that lie or are missing",
    "charsets": "documents in many encodings, declared in every way",
    "hrefs": "links in every element and spelling, and things that look like links",
    "directives": "meta robots, X-Robots-Tag, rel=nofollow",
    "sitemaps": "sitemaps and feeds that alone know some pages",
    "copies": "exact and near duplicates, and hosts that mirror another",
    "slow": "hosts that take their time",
    "flapping": "hosts that hang up before they answer",
    "dead": "hosts whose address refuses connections",
    "changes": "pages that change at known rates",
}


class WebOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One web. Frozen; `msgspec.structs.replace` makes a variant."""

    seed: int = 1
    hosts: int = 100
    pages: int = 3000
    """Ordinary pages, over all hosts; the oddities come on top."""
    page_bytes: int = 6000
    """Mean size of an ordinary page; one with many links is as large as they need."""
    links: int = 26
    """Median number of links on an ordinary page."""
    local_share: float = 0.81
    """Share of an ordinary page's links that stay on its host."""
    skew: float = 0.9
    """Exponent of the power law of host sizes: the k-th largest has about k**-skew of the largest."""
    kinds: tuple[str, ...] = tuple(KINDS)
    """The oddities to include."""
    traps: bool = False
    """Calendars, session ids and ever-deeper paths. They have no end: bound the crawl."""
    every_trap: bool = False
    """Besides: hosts in paths, escaped ampersands, repeated parameters, answers for anything, facets, farms."""
    scripts: bool = False
    """Pages whose text and links scripts make: for crawlers that render."""
    outside: bool = False
    """Pages whose text and links are made by scripts: for crawlers that render."""
    scheme: Literal["http", "https"] = "http"
    addresses: Literal["many", "single"] = "many"
    """`many`: loopback addresses 127.0.x.y, some shared by several hosts; `single`: 127.0.0.1 for all
    (macOS has only that one)."""
    max_addresses: int = 256
    flat: bool = False
    """Call each host by its address instead of a name, for crawlers that cannot be told how to resolve."""
    port: int = 0
    """0: the server chooses a free one."""
    slow_ms: int = 60
    crawl_delay: float = 0.5
    retry_after: int = 1
    """Seconds that 429 and 503 answers ask for."""
    failures: int = 2
    """How often a temporary failure happens before the answer comes: one less than three attempts."""
    change_share: float = 0.1
    change_rates: tuple[float, ...] = (1 / 60, 1 / 3600, 1 / 86400, 1 / 2592000)
    """Changes per second of the pages that change at all."""
    bomb_bytes: int = 0
    """Decoded size of one compressed page that unpacks to far more than its own size; 0: no such page."""

    def __post_init__(self) -> None:
        if not 1 <= self.hosts <= 200_000:
            raise ConfigError(f"hosts must be between 1 and 200000, not {self.hosts}")
        if self.pages < self.hosts:
            raise ConfigError(
                f"pages ({self.pages}) must be at least hosts ({self.hosts}): each has a home page"
            )
        if not 0 < self.local_share <= 1:
            raise ConfigError(f"local_share must be above 0 and at most 1, not {self.local_share}")
        if not 1 <= self.links <= 1000:
            raise ConfigError(f"links must be between 1 and 1000, not {self.links}")
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port must be between 0 and 65535, not {self.port}")
        if not 1 <= self.max_addresses <= 256:
            raise ConfigError(f"max_addresses must be between 1 and 256, not {self.max_addresses}")
        if self.slow_ms < 0 or self.crawl_delay < 0 or self.retry_after < 0 or self.failures < 0:
            raise ConfigError("slow_ms, crawl_delay, retry_after and failures must not be negative")
        if any(rate <= 0 for rate in self.change_rates):
            raise ConfigError("change_rates must be above 0")
        if self.flat:
            room = 1 if self.addresses == "single" else self.max_addresses
            if self.hosts > room:
                raise ConfigError(
                    f"a flat web has one address per host, and there are {room}: "
                    f"ask for at most {room} hosts, not {self.hosts}"
                )
        for kind in self.kinds:
            if kind not in KINDS:
                raise ConfigError(f"no kind {kind!r} of oddity; known: {', '.join(KINDS)}")

    def has(self, kind: str) -> bool:
        """Whether this kind of oddity is included."""
        return kind in self.kinds


PRESETS: dict[str, WebOptions] = {
    # Every kind at least once, and so small that a crawl of it takes seconds: for end-to-end tests.
    "tiny": WebOptions(hosts=40, pages=400, page_bytes=2500, slow_ms=30, crawl_delay=0.2, change_share=0.2),
    # The first impression for users: a variety of pages, a few thousand.
    "demo": WebOptions(hosts=100, pages=3000),
    # Many small hosts: a test of politeness and the host tables.
    "broad": WebOptions(hosts=5000, pages=50_000, page_bytes=4000),
    # Many small pages with long lists of links, without oddities: seen set and frontier.
    "million": WebOptions(hosts=1000, pages=1_000_000, page_bytes=2000, links=60, kinds=(), change_share=0.0),
}


def for_this_machine(options: WebOptions) -> WebOptions:
    """The options, with one address where the system has only one on loopback (all but Linux)."""
    if platform.system() == "Linux":
        return options
    return msgspec.structs.replace(options, addresses="single")


def preset(name: str) -> WebOptions:
    """The options of that name."""
    if name not in PRESETS:
        raise ConfigError(f"no preset {name!r}; known: {', '.join(PRESETS)}")
    return PRESETS[name]
