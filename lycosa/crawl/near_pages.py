"""Near duplicates during a crawl: whether a page nearly equals an earlier one, decided before its links are
followed.

    earlier     after a page was parsed: the URL of an earlier page that it nearly equals; "" if there is none
    note        after its fetch was logged: later pages are compared with it

Nearness is decided as for clusters (`lycosa.content.clusters.near`). The verdict is in the record of the fetch
(`Fetched.like`), and the links are marked there as not to be followed, so a replay needs no index. The index of
sketches is a cache, in files of the agent with a memory limit. If a crash loses part of it, a page may be expanded
although it is like another: an error that loses nothing. A place in the index names a record, which is read before
it is trusted: a record that was lost with the tail of a log, or is in another agent's shard by now, makes no
duplicates.

A page that has changed is compared again, and its former content leaves the index. Seeds are always
expanded. A near duplicate is hidden from later pages, so that the first page stands for all.

The cost per page is main text and sketch, some 250 µs for 22 KB, and a lookup; so it is done, in a thread, only if
the operator asks for it (`duplicates.alike`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from lycosa.content.alike import AlikeIndex
from lycosa.content.clusters import FEW, LIKE, near
from lycosa.content.documents import HTML, PLAIN, text_of
from lycosa.content.sketches import Sketch, sketch
from lycosa.crawl.shard import Shard
from lycosa.files import Files
from lycosa.page.protocol import Page
from lycosa.records import Fetched, Waiting

POSITIONS: Final = 48
"""Bits of a place that are the position; those above them are the number of the shard."""
MEMORY: Final = 16 << 20
_LARGE = 1 << 20
"""Bytes of a page that is not examined."""
_SAVED = 20_000
_WAITING = 1_000


class NearPages:
    """Finds near duplicates for one agent."""

    def __init__(self, files: Files, shard_of: Callable[[int], Shard | None]) -> None:
        """`shard_of`: the shard of a number, if it is here."""
        self._index = AlikeIndex(files, MEMORY)
        self._shard_of = shard_of
        self._lock = asyncio.Lock()
        self._sketches: dict[int, tuple[Sketch, bool]] = {}
        self._added = 0

    async def earlier(self, shard: Shard, waiting: Waiting, page: Page, body: bytes) -> str:
        """The URL of the page that a newly parsed page nearly equals; "" if there is none."""
        if page.type not in HTML | PLAIN or len(body) >= _LARGE:
            return ""
        key = shard.keyer.key(waiting.url)
        async with self._lock:
            found, places = await asyncio.to_thread(self._look, key, body, page)
        if found is None:
            return ""
        like = ""
        for place in places if waiting.depth else ():
            if like := await self._page_at(place):
                break
        if len(self._sketches) < _WAITING:
            self._sketches[key] = found, bool(like)
        return like

    async def note(self, shard: Shard, record: Fetched, position: int) -> None:
        """A fetch was logged."""
        key = shard.keyer.key(record.url)
        known = self._sketches.pop(key, None)
        if known is None:
            if record.status >= 300 and record.status != 304:
                async with self._lock:
                    await asyncio.to_thread(self._index.remove, key)
            return
        async with self._lock:
            await asyncio.to_thread(self._add, key, *known, shard.number << POSITIONS | position)

    def close(self) -> None:
        """Save the index for the next run."""
        self._index.save()

    def _look(self, key: int, body: bytes, page: Page) -> tuple[Sketch | None, list[int]]:
        """The sketch of a page, and the places of those that nearly equal it; None if it has too little text."""
        text = text_of(body, page.type, page.charset)
        if len(text.split()) < FEW:
            return None, []
        found = sketch(text)
        rows = self._index.find(found, LIKE)
        return found, [
            row.place for row in rows if row.key != key and near(key, row.key, row.similarity, row.distance)
        ]

    def _add(self, key: int, found: Sketch, hidden: bool, place: int) -> None:
        self._index.add(key, found, place, hidden=hidden)
        self._added += 1
        if not self._added % _SAVED:
            self._index.save()

    async def _page_at(self, place: int) -> str:
        """The URL of the page whose fetch is there; "" if there is none."""
        shard, position = self._shard_of(place >> POSITIONS), place & (1 << POSITIONS) - 1
        if shard is None or position >= shard.log.end:
            return ""
        if not shard.log.holds(position):
            shard.log.keep(await asyncio.to_thread(shard.log.fetch, position))
        record = shard.log.read(position)
        if not isinstance(record, Fetched):
            return ""
        known = shard.pages.find(shard.keyer.key(record.url))
        return record.url if known is not None and known.status == 2 and known.position else ""
