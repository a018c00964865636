"""Frames: the messages between shards, as values; `links` encodes them as bytes.

    frame   := msgpack array, the first element its kind

    L  links        sender receiver start end urls kinds at depths hops digests fetched asked hints
    A  answers      owner asker position positions

Links are all that shard `sender` found for shard `receiver` in the records from `start` up to `end` of its log:
URLs joined by newlines, and for each its kind, its record's position minus `start`, its depth and the redirects
that led to it. A frame without links only moves the receiver's cursor. Rows may lie at or beyond `end`: these are
sent once more because the scope changed there, and the cursor stays. `digests` are contents that `sender` fetched
and whose partition `receiver` keeps, `fetched` their positions minus `start`; for those from position `asked` on,
the sender waits for an answer. `hints`: see `lycosa.crawl.exchange.Row`.

Answers: of the contents that the Received at `position` of `owner`'s log asked about, those fetched by
`asker` at `positions` were known.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec

from lycosa.crawl.exchange import Row

_ROW = 16
"""Approximate bytes of a link in a frame, besides its URL."""


class LinksFrame(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag="L", gc=False):
    """Links and contents, from one shard to another; see the module."""

    sender: int
    receiver: int
    start: int
    end: int
    urls: bytes
    kinds: bytes
    at: list[int]
    depths: list[int]
    hops: bytes
    digests: bytes = b""
    fetched: list[int] = []
    asked: int = 0
    hints: list[int] = []  # one per link; empty: no link has any

    @property
    def sound(self) -> bool:
        """Whether the columns have matching lengths and values."""
        count = len(self.kinds)
        urls = self.urls.count(b"\n") + 1 if count else (1 if self.urls else 0)
        return (
            (urls == count)
            and len(self.at) == len(self.depths) == len(self.hops) == count
            and len(self.digests) == 8 * len(self.fetched)
            and len(self.hints) in (0, count)
            and self.urls.isascii()
            and min(self.sender, self.receiver, self.start, self.end) >= 0
        )

    def rows(self) -> list[Row]:
        """The links, unpacked."""
        if not self.kinds:
            return []
        urls = self.urls.decode("ascii").split("\n")
        at = [self.start + each for each in self.at]
        hints = self.hints or [0] * len(urls)
        return list(map(Row, at, urls, self.kinds, self.depths, self.hops, hints))

    def asks(self) -> list[tuple[int, int, int]]:
        """The contents: position in the sender's log, digest, and that position again if an answer is wanted, else
        -1."""
        found = []
        for row, at in enumerate(self.fetched):
            position = self.start + at
            digest = int.from_bytes(self.digests[8 * row : 8 * row + 8], "little")
            found.append((position, digest, position if position >= self.asked else -1))
        return found


class AnswersFrame(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag="A", gc=False):
    """Which contents were known; see the module."""

    owner: int
    asker: int
    position: int
    positions: list[int]

    @property
    def sound(self) -> bool:
        return min(self.owner, self.asker, self.position, *self.positions, 0) >= 0


Frame = LinksFrame | AnswersFrame


def links_frame(
    sender: int,
    receiver: int,
    start: int,
    end: int,
    rows: Sequence[Row],
    asks: Sequence[tuple[int, int]] = (),
    asked: int = 0,
) -> LinksFrame:
    """A frame of rows and of contents (position, digest), none of them before `start`."""
    return LinksFrame(
        sender,
        receiver,
        start,
        end,
        "\n".join([row.url for row in rows]).encode("ascii"),
        bytes([row.kind for row in rows]),
        [row.at - start for row in rows],
        [row.depth for row in rows],
        bytes([min(row.hops, 255) for row in rows]),
        b"".join([digest.to_bytes(8, "little") for _, digest in asks]),
        [at - start for at, _ in asks],
        asked,
        [row.hint for row in rows] if any(row.hint for row in rows) else [],
    )


class Part(NamedTuple):
    """The content of one frame of links."""

    start: int
    end: int
    rows: list[Row]
    asks: list[tuple[int, int]]


def cut(
    start: int,
    end: int,
    rows: Sequence[Row],
    asks: Sequence[tuple[int, int]] = (),
    *,
    most: int,
) -> list[Part]:
    """Rows in order of their positions, cut into parts of at most `most` bytes (or one row).

    A part before the last ends *at* the position of its last row, not after it: the cursor must not pass rows of a
    later part. A content goes into the part whose end passes its position, so it is processed exactly once.
    """
    out: list[Part] = []
    part: list[Row] = []
    left = list(asks)
    size = _ROW * len(left)
    for row in sorted(rows, key=attrgetter("at")):
        if part and size + len(row.url) + _ROW > most:
            stop = part[-1].at
            out.append(Part(start, stop, part, [ask for ask in left if ask[0] < stop]))
            left = [ask for ask in left if ask[0] >= stop]
            start, part, size = stop, [], 0
        part.append(row)
        size += len(row.url) + _ROW
    out.append(Part(start, end, part, left))
    return out
