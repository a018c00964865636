"""Which fetch of a page is the current one.

A **fetch** is an event, a **page** is a URL that has been fetched, a **version** is a distinct content of a page.
A log has every fetch. Readers of pages want the *current* one of each:

    the last fetch that no Lost takes back and that said something about the page: neither a 304, which only
    confirms what was known, nor a failure of the site (5xx, 408, 425, 429); if there is none, the last of all

All fetches of a URL are in the log of one shard, so shards are scanned separately, each at the first question about
it: of each Fetched its URL and status are decoded, and of the other records only `Lost`. That takes 17 bytes of RAM
per fetch of the shard during the scan, and one byte per record from then on. It does not depend on what records say
about earlier ones (`Fetched.before`).

What a running crawl logs after the scan is not current for any page: readers see the log as it was then.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np

from lycosa.log.reader import LogReader
from lycosa.pages.summary import is_failure
from lycosa.records import Fetched, Lost, decode, has_tag, tag_of
from lycosa.url.key import Keyer

_FETCHED, _LOST = tag_of(Fetched), tag_of(Lost)


class _Head(msgspec.Struct, frozen=True, array_like=True, tag_field="record", tag="F", gc=False):
    """The first fields of a Fetched."""

    at: int
    url: str
    depth: int
    hops: int
    attempt: int
    status: int


class Logs(Protocol):
    """What this module must know about a crawl."""

    @property
    def logs(self) -> Sequence[LogReader]: ...

    @property
    def keyer(self) -> Keyer: ...


class Versions:
    """Scans the shards of a crawl, each once."""

    def __init__(self, crawl: Logs) -> None:
        self._crawl = crawl
        self._shards: dict[int, tuple[bytes, int]] = {}

    def is_current(self, shard: int, position: int) -> bool:
        """Whether the Fetched at a position is the current fetch of its page."""
        marks, _ = self._look(shard)
        return position < len(marks) and marks[position] == 1

    def end(self, shard: int) -> int:
        """Where the log of a shard ended when it was scanned."""
        return len(self._look(shard)[0])

    def pages(self, shard: int) -> int:
        """How many pages a shard has."""
        return self._look(shard)[1]

    def _look(self, shard: int) -> tuple[bytes, int]:
        found = self._shards.get(shard)
        if found is None:
            found = self._shards[shard] = _look_through(self._crawl.logs[shard], self._crawl.keyer)
        return found


def _look_through(log: LogReader, keyer: Keyer) -> tuple[bytes, int]:
    """For each position 1 if the fetch there is the current one of its page; and how many are."""
    decoder = msgspec.msgpack.Decoder(_Head)
    lost = array("q")
    keys, positions, tells = array("Q"), array("q"), bytearray()
    end = 0
    for position, row in log.scan_encoded():
        end = position + 1
        if has_tag(row, _FETCHED):
            head = decoder.decode(row)
            keys.append(keyer.key(head.url))  # not by the kernel: loading it takes longer than most logs
            positions.append(position)
            tells.append(head.status != 304 and not is_failure(head.status))
        elif has_tag(row, _LOST):
            record = decode(row)
            assert isinstance(record, Lost)
            lost.append(record.position)
    marks = np.zeros(end, np.uint8)
    if not keys:
        return marks.tobytes(), 0
    key, place = np.frombuffer(keys, np.uint64), np.frombuffer(positions, np.int64)
    told = np.frombuffer(tells, np.uint8)
    if lost:
        valid = ~np.isin(place, np.frombuffer(lost, np.int64))
        key, place, told = key[valid], place[valid], told[valid]
    order = np.lexsort((place, told, key))
    key, place = key[order], place[order]
    last = np.append(key[1:] != key[:-1], True)[: len(key)]
    marks[place[last]] = 1
    return marks.tobytes(), int(last.sum())
