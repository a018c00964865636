"""Content seen: what a crawl does with what `lycosa.content` learns from the pages it fetched.

    judged      before a fetch is logged: whether the page gave anything new, if somebody wants to know (`gain`)
    learn       after it: what was learned thereby is logged, too (`Learned`)
    holds       before a URL is fetched: whether what was learned speaks against it
    bring_back  what was learned holds no more: URLs that were skipped for it are deferred until now, each logged

All decisions are those of folds (`lycosa.content.yields`) over the log. Only the memory of what was said before
(`lycosa.content.news`) is not in the log: it is a cache, and what it found is in the record of the fetch.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from lycosa.clock import Clock, milliseconds
from lycosa.content.news import Memory, Said
from lycosa.content.yields import NEW, NOTHING, ON_SITE
from lycosa.crawl.harvest import REDIRECTS, Crop
from lycosa.crawl.shard import Shard
from lycosa.log.log_pass import LogPass
from lycosa.log.reader import decoded
from lycosa.records import (
    Before,
    Deferred,
    Fetched,
    Learned,
    LinkKind,
    Skipped,
    UrlHead,
    Waiting,
    Why,
    decode_head,
    has_tag,
    tag_of,
)
from lycosa.url.parts import site_of

_TEXT = frozenset(("text/html", "application/xhtml+xml", "text/plain"))
_LARGE = 1 << 18
"""Bytes of a page that is not looked at: it would hold the loop."""
_MEDIA = frozenset((LinkKind.IMAGE, LinkKind.MEDIA, LinkKind.OBJECT))
_MOST_MEDIA = 50
_LINKS = 40
"""Unknown links of a page that are asked about."""
_HEADS = 20_000
_HEADS_BYTES = 16 << 20
_AT_ONCE = 200
_SKIPPED = tag_of(Skipped)


class ContentSeen:
    """What an agent's visits ask about contents."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._memories: WeakKeyDictionary[Shard, Memory] = WeakKeyDictionary()

    # -- after a fetch

    def judged(self, shard: Shard, crop: Crop) -> Crop:
        """The crop of a fetch, with what it gained if that is wanted."""
        record = crop.record
        if record.before is not Before.NEVER or not shard.yields.is_on:
            return crop
        domain, is_first = shard.novelty_of(record.url)
        if not shard.yields.wants(record.url, shard.keyer.key(record.url), domain, is_first):
            return crop
        gain = self._gain(shard, crop, domain, is_first)
        return crop._replace(record=msgspec.structs.replace(record, gain=gain)) if gain else crop

    def _gain(self, shard: Shard, crop: Crop, domain: str, is_first: bool) -> int:
        record = crop.record
        if record.status >= 400:
            # A broken link is worth knowing of; an error page that leads to more of its kind is a trap.
            return NOTHING if _unknown(shard, record) else 0
        if record.status in REDIRECTS and record.links.kinds:
            said = Said.by_digest(xxh3_64_intdigest(record.links.urls))
        elif record.status >= 300 or len(crop.response.decoded) >= _LARGE or record.type.endswith("xml"):
            return 0
        elif record.type in _TEXT:
            media = [link.url for link in record.links if link.kind in _MEDIA] if _pictured(record) else []
            said = Said.by_text(crop.response.decoded, record.charset, record.url, media[:_MOST_MEDIA])
        else:
            said = Said.by_digest(record.digest)
        if not said.is_telling:
            return 0
        memory = self._memories.get(shard)
        if memory is None:
            memory = self._memories[shard] = Memory()
        on_site = memory.is_news(said, site_of(record.url))
        if is_first:
            in_domain = memory.is_news(said, domain)
            return NEW if in_domain else ON_SITE
        return NEW if on_site or self._leads_on(shard, record) else NOTHING

    @staticmethod
    def _leads_on(shard: Shard, record: Fetched) -> bool:
        """Whether a page without news links to unknown URLs that are likely to have some."""
        return any(shard.yields.proves(url, record.url) for url in _unknown(shard, record))

    def learn(self, shard: Shard) -> None:
        """Log what the last fetches taught."""
        at = milliseconds(self._clock)
        while due := shard.yields.due():
            for row in due:
                shard.append(Learned(at, "trap", row.pattern, row.holds, row.pages, row.why, row.examples))

    # -- before a fetch

    def holds(self, shard: Shard, waiting: Waiting) -> str:
        """Why a URL is not fetched; "" if it may be."""
        if waiting.before is not Before.NEVER or not waiting.depth or not shard.yields.is_active:
            return ""
        pattern = shard.yields.holds(waiting.url, *shard.novelty_of(waiting.url))
        if pattern is None or shard.yields.tests(pattern):
            return ""
        row = shard.yields.row(pattern)
        assert row is not None
        return f"{pattern} is quarantined: {row.why}"

    # -- what was held comes back

    async def bring_back(self, shard: Shard) -> None:
        """Defer, until now, all URLs that were skipped for a pattern that is not quarantined any more."""
        stop, end, files = shard.yields.returning, shard.log.committed, shard.log.reader.files
        reading, last = LogPass(files), dict[int, Skipped]()
        while reading.position < end:
            await asyncio.to_thread(_find, shard, reading, end, stop, last)
        at = milliseconds(self._clock)
        waiting = list(last.values())
        for start in range(0, len(waiting), _AT_ONCE):
            for record in waiting[start : start + _AT_ONCE]:
                if shard.yields.holds(record.url, *shard.novelty_of(record.url)) is None:
                    shard.append_apart(
                        Deferred(
                            *(at, record.url, site_of(record.url), record.depth, 0, 0, Why.TRAP, at),
                            f"released: {record.detail}"[:300],
                        )
                    )
            await asyncio.sleep(0)
        if shard.yields.returning == stop:
            shard.yields.returning = 0


def _find(shard: Shard, reading: LogPass, end: int, stop: int, last: dict[int, Skipped]) -> None:
    """In a thread: skips of traps before `stop` that are the last records of their URLs, as far as was read."""
    for position, row in reading.take(end, _HEADS, _HEADS_BYTES):
        head = decode_head(row)
        if not isinstance(head, UrlHead) or not head.url:
            continue
        key = shard.keyer.key(head.url)
        record = decoded(position, row) if position < stop and has_tag(row, _SKIPPED) else None
        if isinstance(record, Skipped) and record.why is Why.TRAP:
            last[key] = record
        elif last:
            last.pop(key, None)


def _unknown(shard: Shard, record: Fetched) -> list[str]:
    """Some of the followed links of a page that were not met before."""
    if not record.links.kinds:
        return []
    keys, _ = shard.keyer.scan(record.links.urls)
    followed = shard.rules.follow[np.frombuffer(record.links.kinds, np.uint8)]
    rows = np.flatnonzero(followed & ~shard.links.found.certain(keys))[:_LINKS].tolist()
    urls = record.links.urls.split(b"\n") if rows else []
    return [urls[row].decode("ascii") for row in rows]


def _pictured(record: Fetched) -> bool:
    return any(kind & 0x7F in _MEDIA for kind in record.links.kinds)
