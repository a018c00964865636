"""Archive bytes that were lost with a machine: which pages they held, and how much of a file that came back is
valid.

An agent's archive files reach shared storage at its checkpoints, and no checkpoint is saved before all files that
its records point into are there. So only records *after* a shard's newest checkpoint can point at lost bytes.
Two questions follow.

- A new holder asks of its shard's log: which pages after the checkpoint point at bytes that are neither on
  shared storage nor here (`lost_pages`)? They are logged as `Lost`, and fetched again.
- An agent that comes back to its own disk, or lost a shard while it lived, asks of its files: up to where do valid
  records of any shard point into them (`valid_ends`)? A file without any valid record is removed; another
  is cut there and put on shared storage.

A file that holds exchanges of two shards, one of which was lost, keeps the bytes of both, although no
record points at the lost ones any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

import msgspec

from lycosa.cluster.storage import ShardStorage
from lycosa.cluster.tail import pieces
from lycosa.crawl.wholeness import highest
from lycosa.engine.protocol import Stream
from lycosa.errors import StorageError
from lycosa.log import blocks
from lycosa.log.reader import SEGMENT_HEAD
from lycosa.records import Before, Duplicates, Fetched, Lost, Record, Robots, decode


def lost_pages(records: Iterable[tuple[int, Record]], had: Callable[[str], int], at: int) -> list[Lost]:
    """What a new holder logs: the fetches of these records (after the checkpoint) whose bytes are gone.

    `had`: the number of leading bytes of an archive file that are available. A file may end before the page: when
    its holder died, the file was cut to what the logs knew of it before the page's record, still under way,
    arrived. A page with another valid fetch, earlier or later, remains a page.
    """
    gone: dict[int, Lost] = {}
    known: dict[str, int] = {}
    valid: dict[str, int] = {}  # by URL: the number of valid fetches, including those before these records
    for position, record in records:
        if isinstance(record, Fetched):
            earlier = valid.get(record.url, int(record.before is Before.PAGE))
            valid[record.url] = earlier + 1
        if isinstance(record, Fetched) and record.stored is not None:
            name = record.stored.file
            if name not in known:
                known[name] = had(name)
            if known[name] < record.stored.offset + record.stored.length:
                gone[position] = Lost(
                    at,
                    record.url,
                    record.depth,
                    record.hops,
                    name,
                    position,
                    record.status,
                    record.size,
                    len(record.links),
                    record.digest,
                    record.duplicate,
                )
        elif isinstance(record, Lost):
            gone.pop(record.position, None)
            valid[record.url] = valid.get(record.url, int(record.remains) + 1) - 1
        elif isinstance(record, Duplicates):
            for late in record.positions:
                if late in gone:
                    lost = gone[late]
                    gone[late] = msgspec.structs.replace(lost, duplicate=True)
    found = []
    for lost in gone.values():
        valid[lost.url] -= 1
        found.append(msgspec.structs.replace(lost, remains=valid[lost.url] > 0))
    return found


def valid_ends(records: Iterable[tuple[int, Record]]) -> dict[str, int]:
    """For each archive file that these records of one shard point into: the end of the last exchange still
    valid."""
    found: dict[int, tuple[str, int]] = {}
    for position, record in records:
        if isinstance(record, Fetched | Robots) and record.stored is not None:
            found[position] = (record.stored.file, record.stored.offset + record.stored.length)
        elif isinstance(record, Lost):
            found.pop(record.position, None)
    return highest({name: end} for name, end in found.values())


def records_of(data: bytes) -> Iterator[tuple[int, Record]]:
    """The records of whole blocks."""
    at = 0
    while at < len(data):
        head = blocks.head_of(data, at)
        rows = blocks.unpack(data[at : at + head.size], head) if head is not None else None
        if head is None or rows is None:
            raise StorageError(f"blocks of a log are damaged at byte {at}")
        for position, row in enumerate(rows, head.first):
            yield position, decode(row)
        at += head.size


async def since_checkpoint(stream: Stream, storage: ShardStorage) -> list[tuple[int, Record]]:
    """The records after the newest checkpoint of a shard that another agent may hold; `stream`: its tail."""
    checkpoint = await asyncio.to_thread(storage.newest)
    start = checkpoint.position if checkpoint is not None else 0
    tail: list[tuple[int, Record]] = []
    async for piece in pieces(stream):
        tail += [row for row in records_of(piece.data) if row[0] >= start]
    begin = tail[0][0] if tail else None
    sealed: list[tuple[int, Record]] = []
    firsts = await asyncio.to_thread(storage.segments)
    for number, first in enumerate(firsts):
        following = firsts[number + 1] if number + 1 < len(firsts) else None
        if (following is not None and following <= start) or (begin is not None and first >= begin):
            continue
        data = (await asyncio.to_thread(storage.segment, first))[SEGMENT_HEAD:]
        sealed += [row for row in records_of(data) if row[0] >= start and (begin is None or row[0] < begin)]
    return sealed + tail
