"""Fast replay: the tail of a shard's log in two passes and in batches, with the same result as the plain way.

`Shard.replay` applies record by record: each page found is put into the frontier, and withdrawn again when its
`Fetched` comes. Nearly all of that work cancels out. So

1. the first pass reads only the heads of the records and marks every URL that has a `Fetched`, `Skipped` or
   `Deferred` in the tail as known; those that the snapshot has pending or deferred are withdrawn;
2. the second pass folds the records and offers their links in batches: marked URLs are not new, and those that are
   new are pending at the end as well.

A URL that was deferred is added to the calendar by its last `Deferred`, unless a `Fetched` or `Skipped` follows it.
Links of other shards are ignored: the exchange finds those under way, from the cursors.

The tests check both ways against the same invariant, at every prefix of a log. A tail that takes pages back is
replayed the plain way. If the scope changes, links before the change are judged by the old scope or the new one:
all of them are read again after recovery (`rescoping`), from where the pass was at the snapshot.

Links for other shards are read back from the log (`LinkPass`) by the exchange that delivers them: at a start, from
the receivers' cursors (`catch_up`, within an agent); while the crawl runs, for a receiver that could not be sent
to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from lycosa.crawl.admission import Found, found_in
from lycosa.crawl.exchange import Row, receiving
from lycosa.crawl.shard import Shard
from lycosa.files import Files
from lycosa.log.log_pass import RECORDS, LogPass
from lycosa.records import (
    Configured,
    Deferred,
    DeferredHead,
    Fetched,
    LostHead,
    Received,
    Record,
    Reread,
    Robots,
    Seeded,
    UrlHead,
    decode_head,
)
from lycosa.seen.protocol import Keys

_HEADS = 4_096
_LINKS = 20_000


def replay(shard: Shard, start: int) -> int:
    """Bring a shard from the state at `start` to the end of its log; returns how many records that took."""
    deferred = _mark_settled(shard, start)
    if deferred is None:
        return shard.replay(start)
    batch = _Batch(shard)
    count = 0
    for position, record in shard.log.reader.scan(start):
        count += 1
        if isinstance(record, Configured):
            batch.offer()
        shard.learn(record, position)
        batch.add_links_of(record, position)
        if isinstance(record, Fetched):
            if record.digest:
                batch.digests.append(record.digest)
        elif isinstance(record, Received):
            shard.offer_links(record, position)
        elif isinstance(record, Deferred) and (not record.url or deferred.get(record.url) == position):
            shard.defer(record, live=False)
    batch.offer()
    shard.settle_withdrawn()
    return count


def _heads(shard: Shard, start: int) -> Iterable[tuple[int, object]]:
    for position, row in shard.log.reader.scan_encoded(start):
        try:
            yield position, decode_head(row)
        except msgspec.MsgspecError:
            return  # the second pass decodes it as a whole, and reports the error


def _mark_settled(shard: Shard, start: int) -> dict[str, int] | None:
    """The first pass; returns positions of the Deferred records that are in force at the end, by URL.

    None if the tail takes pages back. URLs marked by then have their records later in the tail, so the plain way
    ends in the same state.
    """
    deferred: dict[str, int] = {}
    urls: list[str] = []
    withdraw = start > 0 and (
        shard.frontier.pending > 0 or len(shard.calendar) > 0 or len(shard.revisits) > 0
    )

    def mark() -> None:
        shard.settle(urls, withdraw=withdraw)
        urls.clear()

    for position, head in _heads(shard, start):
        if type(head) is LostHead:
            return None
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


class LinkPass:
    """A pass over a shard's log for links of other shards, from a position on, in slices that a thread may read.

    A Reread repeats the links of its range: its records follow as if they were at its position, without the
    digests, which were sent with the records themselves.
    """

    def __init__(self, files: Files, start: int = 0) -> None:
        self._files = files
        self._reading = LogPass(files, start)
        self._again = LogPass(files)

    @property
    def position(self) -> int:
        """The position before which everything was returned."""
        return self._reading.position

    def take(self, stop: int, most: int = RECORDS) -> list[tuple[int, Record]]:
        """The next records before `stop`, about `most`: a Reread is never split."""
        rows: list[tuple[int, Record]] = []
        while len(rows) < most and self.position < stop:
            for position, record in self._reading.take_records(stop, most - len(rows)):
                rows.append((position, record))
                if isinstance(record, Reread):
                    rows += ((position, each) for each in self._range(record))
        return rows

    def _range(self, reread: Reread) -> Iterator[Record]:
        if self._again.position != reread.start:
            self._again = LogPass(self._files, reread.start)
        while rows := self._again.take_records(reread.stop):
            for _, record in rows:
                if isinstance(record, Fetched):
                    yield msgspec.structs.replace(record, digest=0)
                elif isinstance(record, Seeded | Robots):
                    yield record


class ReadBack(NamedTuple):
    """What a part of a shard's log has for other shards, by their number."""

    rows: dict[int, list[Row]]
    digests: dict[int, list[tuple[int, int]]]
    """Position and digest of contents fetched."""


def read_back(
    shard: Shard,
    records: Iterable[tuple[int, Record]],
    owners: Collection[int],
) -> ReadBack:
    """Collect what records of a shard's log have for the shards `owners`.

    The agent's URL cache is not consulted: it may hold a link because it was found in the very record that is read.
    """
    found = ReadBack({}, {})

    def keep(leaving: list[tuple[int, Row]]) -> None:
        for owner, row in leaving:
            if owner in owners:
                found.rows.setdefault(owner, []).append(row)

    batch = _Batch(shard, keep)
    for at, record in records:
        batch.add_links_of(record, at)
        # Contents already known as duplicates when they were fetched need not be asked about.
        if isinstance(record, Fetched) and record.digest and not record.duplicate:
            owner = shard.content.owner(record.digest)
            if owner in owners:
                found.digests.setdefault(owner, []).append((at, record.digest))
    batch.offer()
    return found


async def read_back_apart(shard: Shard, reading: LinkPass, stop: int, owners: Collection[int]) -> ReadBack:
    """What the next records before `stop` have for the shards `owners`, read and judged in a thread."""
    if shard.admission.is_sighted:
        return read_back(shard, await asyncio.to_thread(reading.take, stop), owners)
    return await asyncio.to_thread(lambda: read_back(shard, reading.take(stop), owners))


async def catch_up(sender: Shard, receivers: Sequence[Shard], stop: int, at: int) -> int:
    """Deliver what a shard's log has before `stop` for others, from their cursors on; returns the number read.

    It works in slices, each with the cursors at its end: an interrupted one is continued from there. Nothing that
    was found later may be delivered before this has ended.
    """
    number = sender.number
    cursors = {receiver.number: receiver.cursors.get(number, 0) for receiver in receivers}
    reading = LinkPass(sender.log.reader.files, min(cursors.values(), default=stop))
    start = reading.position
    while reading.position < stop:
        found = await read_back_apart(sender, reading, stop, cursors)
        for receiver in receivers:
            rows = found.rows.get(receiver.number, [])
            rows = [row for row in rows if row.at >= cursors[receiver.number]]
            for _ in receiving(receiver, number, reading.position, rows, at) if rows else ():
                await asyncio.sleep(0)
    return max(stop - start, 0)


class _Batch:
    """Links of many records, looked up together and offered in the order of the log: the shard's own to its store,
    or those of others to `send`.

    The records take the same path as live ones (`Admission`), each with the links that are still to be judged:
    without those certainly known, and those that an earlier record of the batch has brought in. A link that was too
    deep in an earlier record, or behind too many redirects, is judged again.
    """

    def __init__(self, shard: Shard, send: Callable[[list[tuple[int, Row]]], None] | None = None) -> None:
        self._shard = shard
        self._send = send
        self.digests: list[int] = []
        self._clear()

    def _clear(self) -> None:
        self._found: list[tuple[int, Found]] = []
        self._count = 0
        self.digests.clear()

    def add_links_of(self, record: Record, position: int) -> None:
        """Add the links that a record found (not those that were received)."""
        found = found_in(record)
        if found is not None and found.depths is None and found.links.kinds:
            self._found.append((position, found))
            self._count += len(found.links)
        if self._count >= _LINKS or len(self.digests) >= _LINKS:
            self.offer()

    def offer(self) -> None:
        """Offer the whole batch, in the order of the log."""
        shard = self._shard
        if self.digests:
            shard.know_contents(self.digests)
        if self._found:
            keys, hosts = shard.keyer.scan(b"\n".join([found.links.urls for _, found in self._found]))
            kinds = b"".join([found.links.kinds for _, found in self._found])
            wanted = shard.rules.follow[np.frombuffer(kinds, np.uint8)]
            if self._send is None:
                wanted &= ~shard.links.received.certain(keys)
            self._offer_each(keys, hosts, np.flatnonzero(wanted))
        self._clear()

    def _offer_each(self, keys: Keys, hosts: Keys, rows: NDArray[np.intp]) -> None:
        admission = self._shard.admission
        lengths = [len(found.links) for _, found in self._found]
        ends = np.cumsum(lengths)
        bounds = np.searchsorted(rows, ends).tolist()
        settled: set[int] = set()
        before = 0
        for (position, found), length, end, bound in zip(
            self._found, lengths, ends.tolist(), bounds, strict=True
        ):
            mine, before = rows[before:bound], bound
            mine = admission.not_outside(keys, mine)
            if len(mine) and settled:
                mine = mine[[key not in settled for key in keys[mine].tolist()]]
            if not len(mine):
                continue
            start = end - length
            offer = admission.sift_rows(
                found, keys[start:end], hosts[start:end], mine - start, self._send is not None
            )
            if self._send is not None:
                self._send(admission.leaving(offer, position))
                settled.update(item.key for _, _, item in offer.leaving)
                continue
            dropped = admission.dropped
            admission.admit(offer, position)
            if admission.dropped == dropped:
                settled.update(item.key for item in offer.items)
