"""Replay, fast: the tail of a shard's log in two passes and in batches, to the state of the plain way.

`Shard.replay` applies record by record: each page found is put into the frontier, and withdrawn again when its
`Fetched` comes. Nearly all of that work cancels out. So

1. the first pass reads only the heads of the records and marks every URL that has a `Fetched`, `Skipped` or
   `Deferred` in the tail as known; those that the snapshot has pending or deferred are withdrawn;
2. the second pass folds the records and offers their links in batches: what was marked is not new, and what is
   new is pending at the end as well.

A URL that was deferred is added to the calendar by its last `Deferred`, unless a `Fetched` or `Skipped` follows it.
Links of other shards are not looked at: what is on its way is found by the exchange, from the cursors.

The tests hold both ways against the same invariant, at every prefix of a log. A tail in which the scope changes
goes the plain way, since links are then judged twice.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from lycosa.crawl.shard import REDIRECT, Shard
from lycosa.records import (
    ConfiguredHead,
    Deferred,
    DeferredHead,
    Fetched,
    Links,
    Received,
    Robots,
    Seeded,
    UrlHead,
    Waiting,
    decode_head,
)
from lycosa.seen.protocol import Keys

_HEADS = 4_096
_LINKS = 20_000


def replay(shard: Shard, start: int) -> int:
    """Bring a shard from the state at `start` to the end of its log; how many records that took."""
    if _scope_changes(shard, start):
        return shard.replay(start)
    deferred = _mark_settled(shard, start)
    batch = _Batch(shard)
    count = 0
    for position, record in shard.log.reader.scan(start):
        count += 1
        shard.learn(record, position)
        if isinstance(record, Fetched):
            depth = record.depth if 300 <= record.status < 400 else record.depth + 1
            batch.add(record.links, depth, record.hops)
            if record.digest:
                batch.digests.append(record.digest)
        elif isinstance(record, Robots | Seeded):
            batch.add(record.links, 0, 0)
        elif isinstance(record, Received):
            shard.receive(record)
        elif isinstance(record, Deferred) and (not record.url or deferred.get(record.url) == position):
            shard.defer(record, live=False)
    batch.offer()
    shard.frontier.settle_withdrawn()
    shard.calendar.settle_withdrawn()
    return count


def _heads(shard: Shard, start: int) -> Iterable[tuple[int, object]]:
    for position, row in shard.log.reader.scan_encoded(start):
        try:
            yield position, decode_head(row)
        except msgspec.MsgspecError:
            return  # the second pass decodes it whole, and says what is wrong


def _scope_changes(shard: Shard, start: int) -> bool:
    """Whether the tail has a Configured besides the first of the log."""
    known = bool(shard.options)
    needle = msgspec.msgpack.encode("C")
    for _, row in shard.log.reader.scan_encoded(start, needle=needle):
        if type(decode_head(row)) is ConfiguredHead:
            if known:
                return True
            known = True
    return False


def _mark_settled(shard: Shard, start: int) -> dict[str, int]:
    """The first pass; positions of the Deferred records that hold at the end, by URL."""
    deferred: dict[str, int] = {}
    urls: list[str] = []
    withdraw = start > 0 and (shard.frontier.pending > 0 or len(shard.calendar) > 0)

    def mark() -> None:
        keys, _ = shard.keyer.scan("\n".join(urls).encode("ascii"))
        if withdraw:
            for url, key in zip(urls, keys.tolist(), strict=True):
                shard.frontier.withdraw(url, key)
                shard.calendar.withdraw(url)
        shard.store.mark(keys)
        urls.clear()

    for position, head in _heads(shard, start):
        if not isinstance(head, UrlHead) or not head.url:
            continue
        if type(head) is DeferredHead:
            deferred[head.url] = position
        elif deferred:
            deferred.pop(head.url, None)
        urls.append(head.url)
        if len(urls) >= _HEADS:
            mark()
    if urls:
        mark()
    return deferred


class _Batch:
    """Links of many records, offered at once."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self.digests: list[int] = []
        self._clear()

    def _clear(self) -> None:
        self._links: list[Links] = []
        self._from: list[tuple[int, int]] = []  # depth and hops of each record's links
        self._count = 0
        self.digests.clear()

    def add(self, links: Links, depth: int, hops: int) -> None:
        if links.kinds:
            self._links.append(links)
            self._from.append((depth, hops))
            self._count += len(links.kinds)
        if self._count >= _LINKS or len(self.digests) >= _LINKS:
            self.offer()

    def offer(self) -> None:
        """Offer all of it, in the order of the log."""
        shard = self._shard
        if self.digests:
            shard.content.mark_all(self.digests)
        if self._links:
            text = b"\n".join([links.urls for links in self._links])
            kinds = b"".join([links.kinds for links in self._links])
            keys, hosts = shard.keyer.scan(text)
            wanted = shard.follow[np.frombuffer(kinds, np.uint8)]
            wanted &= ~shard.store.certain(keys)
            rows = np.flatnonzero(wanted)
            # Of a URL that is met several times in the batch only the first meeting can be new.
            _, first = np.unique(keys[rows], return_index=True)
            rows = rows[np.sort(first)]
            if len(rows):
                ends = np.cumsum([len(links.kinds) for links in self._links])
                sources = np.searchsorted(ends, rows, side="right").tolist()
                self._admit(text.split(b"\n"), kinds, keys, hosts, rows, sources)
        self._clear()

    def _admit(
        self,
        urls: list[bytes],
        kinds: bytes,
        keys: Keys,
        hosts: Keys,
        rows: NDArray[np.intp],
        sources: list[int],
    ) -> None:
        shard = self._shard
        inside, shard_of_url, number = shard.scope.inside, shard.splitter.shard_of_url, shard.number
        mine: list[int] = []
        found: list[Waiting] = []
        columns = zip(rows.tolist(), hosts[rows].tolist(), keys[rows].tolist(), sources, strict=True)
        for row, host, key, source in columns:
            url = urls[row].decode("ascii")
            if shard_of_url(host, url) != number:
                continue
            depth, hops = self._from[source]
            count = hops + 1 if kinds[row] == REDIRECT else 0
            if count <= shard.max_hops and inside(url, depth):
                mine.append(row)
                found.append(Waiting(url, key, depth, count))
        if mine:
            shard.offer(shard.store, keys[mine], found)
