"""How fresh the pages of a crawl are now, overall and by host, estimated from its log.

The same estimate as that of the running crawl (`lycosa.refresh.figures`). Hosts are distinguished by the first 16
bits of their keys: two hosts with the same bits count as one. Takes 44 bytes of RAM per fetch while a shard is
read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lycosa.ask.follower import Follower
from lycosa.ask.reading import CrawlReader
from lycosa.pages.rows import NO_ROWS, Rows, fold, pack
from lycosa.pages.summary import Summary, of_fetch
from lycosa.records import Fetched
from lycosa.refresh.figures import Figures, columns, figures, judged
from lycosa.refresh.options import RefreshOptions
from lycosa.url.parts import host_of

_CHUNK = 10_000


class Freshness(NamedTuple):
    """Freshness of the crawl, and of the hosts with the most pages, in descending order."""

    whole: Figures
    hosts: list[tuple[str, Figures]]


def freshness(crawl: CrawlReader, now: int, options: RefreshOptions) -> Freshness | None:
    """None if nothing was fetched."""
    names: dict[int, str] = {}
    parts: list[Rows] = [NO_ROWS]
    chunk: list[tuple[int, Summary]] = []
    for _, position, record in Follower(crawl).read():
        if isinstance(record, Fetched):
            key = crawl.keyer.key(record.url)
            names.setdefault(key >> 48, host_of(record.url))
            chunk.append((key, of_fetch(record, position)))
        if len(chunk) >= _CHUNK:
            parts.append(pack(chunk))
            chunk = []
    rows = fold(np.concatenate([*parts, pack(chunk)]))
    rows = rows[rows["fetches"] > 0]
    if not len(rows):
        return None
    given = columns(rows)
    pages = len(rows)
    _, belief, whole = judged(given, pages, options.per_page * pages / 86_400, now, options)
    hosts = []
    for number in np.unique(given.sites).tolist():
        mine = given.sites == number
        found = figures(belief[mine], given.weights[mine], given.last[mine], now)
        hosts.append((names.get(number, "?"), found))
    return Freshness(whole, sorted(hosts, key=lambda row: (-row[1].pages, row[0])))
