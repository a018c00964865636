"""Rescoping: the pass over a shard's log after a change of scope, in slices while the crawl runs.

Every link of the records before the change is judged once more, as if found now; then URLs that were skipped under
the old options, and are in the new scope, become pending again. Reading, decoding and judging are done in a thread;
the loop receives portions of at most `_LINKS` links that are in scope, and applies each as a whole:

    links       Reread(start, stop) is logged if the portion has links of other shards, which count as found there;
                own links are offered to the shard as those of any record; `Change.links` moves to `stop`
    skips       first the log's heads are read, to find the URLs whose last record is a skip by policy; then these
                records, in their order: each URL is put into the frontier as there is room, `Change.skips` moves

Durability. The two cursors are in the shard's snapshot; later steps are repeated, which does no harm: links that
were offered are known, a URL that has a record since its skip is not brought back, and receivers recognise repeated
links. Links of others are durable with their Reread: senders and recovery find them from the receivers' cursors
(`lycosa.crawl.replay`), wherever the pass was interrupted. So the pass may end at any await.

A URL that an earlier change brought back, and that has no record since, is pending now: a skip before the cursor of
such a change is left alone if that change's scope had the URL.

Another change during a pass begins anew: the portions that were judged by the old scope are dropped.
Only committed records are read; the pass waits for the commit of those just before the change.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from lycosa.clock import Clock, milliseconds
from lycosa.crawl.admission import Offer, found_in
from lycosa.crawl.shard import Change, Shard
from lycosa.log.log_pass import LogPass
from lycosa.log.reader import LogReader, decoded
from lycosa.records import Configured, Skipped, UrlHead, Waiting, Why, decode_head, has_tag, tag_of
from lycosa.url.scope import Scope

_RECORDS = 400
"""Records in one slice of links."""
_LINKS = 500
"""Links that the loop applies at once: if all are new, in some five milliseconds."""
_HEADS = 20_000
_HEADS_BYTES = 16 << 20
"""Records whose heads are read in one slice."""
_BY_POLICY = frozenset((Why.SCOPE, Why.BLOCKED, Why.ADDRESS, Why.SCHEME, Why.SITE_LIMIT, Why.ROBOTS))
"""Reasons of skips that other options may undo."""
_SKIPPED = tag_of(Skipped)


class Portion(NamedTuple):
    """What the loop applies at once: records up to `stop`, those with links in scope."""

    stop: int
    offers: list[tuple[int, Offer]]


class Rescoping:
    """The pass over one shard's log after one change; its state in memory can be rebuilt from the cursors."""

    def __init__(self, shard: Shard, change: Change, clock: Clock) -> None:
        self.change = change
        self.shard = shard
        self._clock = clock
        self._files = shard.log.reader.files
        self._reading = LogPass(self._files, change.links)
        self._end = 0
        self._last: dict[int, int] = {}
        """By key: the position of a skip by policy that is the last record of its URL, as far as was read."""
        self._returning: LogPass | None = None
        self._last_one = -1
        self._earlier: list[tuple[int, Scope]] = []

    @property
    def is_wanted(self) -> bool:
        """Whether the change is still the last one, and something is left to do."""
        return self.shard.rescoping is self.change

    async def step(self) -> bool:
        """Do a slice of the pass; False: it waits for a commit, or for room."""
        if self.change.links < self.change.position:
            return await self._judge_links()
        if self.shard.settled is None:
            self.shard.note_settled(True)  # later records are noted from here on; earlier ones are read
            self._end, self._reading = self.shard.log.end, LogPass(self._files)
        if self._reading.position < self._end:
            if self.shard.log.committed < self._end:
                return False
            await asyncio.to_thread(self._find_skips)
            return True
        return await self._bring_back()

    def close(self) -> None:
        """The pass is finished or abandoned."""
        self.shard.note_settled(False)

    # -- links

    async def _judge_links(self) -> bool:
        stop = min(self.change.position, self.shard.log.committed)
        if self._reading.position >= stop:
            return False
        for portion in await asyncio.to_thread(self._sift, stop):
            if not self.is_wanted:
                break
            self.shard.judge_again(self.change, portion.stop, portion.offers, milliseconds(self._clock))
            await asyncio.sleep(0)
        return True

    def _sift(self, stop: int) -> list[Portion]:
        """In a thread: the next slice of records, cut into portions."""
        portions: list[Portion] = []
        offers: list[tuple[int, Offer]] = []
        links = 0
        for position, row in self._reading.take(stop, _RECORDS):
            found = found_in(decoded(position, row))
            offer = None if found is None else self.shard.admission.sift(found)
            if offer is None:
                continue
            if links and links + offer.links > _LINKS:
                portions.append(Portion(position, offers))
                offers, links = [], 0
            offers.append((position, offer))
            links += offer.links
        return [*portions, Portion(self._reading.position, offers)]

    # -- skips

    def _find_skips(self) -> None:
        """In a thread: find the skips by policy that are the last records of their URLs, and are to be brought
        back."""
        last, key, scope = self._last, self.shard.keyer.key, self.shard.scope
        for position, row in self._reading.take(self._end, _HEADS, _HEADS_BYTES):
            head = decode_head(row)
            if not isinstance(head, UrlHead) or not head.url:
                continue
            record = None
            if self.change.skips <= position < self.change.position and has_tag(row, _SKIPPED):
                record = decoded(position, row)
            if (
                isinstance(record, Skipped)
                and record.why in _BY_POLICY
                and scope.inside(record.url, record.depth)
            ):
                last[key(head.url)] = position
            elif last:
                last.pop(key(head.url), None)

    async def _bring_back(self) -> bool:
        shard, change = self.shard, self.change
        most = shard.room_for_due() if self._last else 1
        if not most:
            return False
        stop, items = await asyncio.to_thread(self._read_skips, most)
        if self.is_wanted:
            assert shard.settled is not None
            shard.bring_back(change, stop, [item for item in items if item.key not in shard.settled])
        return True

    def _read_skips(self, most: int) -> tuple[int, list[Waiting]]:
        """In a thread: at most `most` URLs to bring back, and the position up to which these are all."""
        if self._returning is None:
            self._returning = LogPass(self._files, min(self._last.values(), default=0))
            self._last_one = max(self._last.values(), default=-1)
            self._earlier = self._earlier_scopes()
        reading, items, looked = self._returning, list[Waiting](), 0
        while reading.position <= self._last_one and len(items) < most and looked < _HEADS:
            rows = reading.take(self._last_one + 1, most - len(items))
            looked += len(rows)
            for position, row in rows:
                if not has_tag(row, _SKIPPED):
                    continue
                record = decoded(position, row)
                assert isinstance(record, Skipped)
                key = self.shard.keyer.key(record.url)
                if self._last.get(key) == position and not self._is_pending(record, position):
                    items.append(Waiting(record.url, key, record.depth))
        return (reading.position if reading.position <= self._last_one else self.change.position), items

    def _is_pending(self, record: Skipped, position: int) -> bool:
        """Whether an earlier change has brought back a URL that has no record since."""
        inside = (
            scope.inside(record.url, record.depth) for skips, scope in self._earlier if position < skips
        )
        return any(inside)

    def _earlier_scopes(self) -> list[tuple[int, Scope]]:
        reader = LogReader(self._files)  # the shard's own one belongs to the loop
        found = []
        for change in reversed(self.shard.changes[:-1]):
            record = reader.read(change.position)
            assert isinstance(record, Configured)
            found.append((change.skips, self.shard.scope_at(record)))
        return found
