"""Frames: what agents of one machine write to each other, as bytes.

    exchange/0-1/00000000000000000003.seg          from agent 0 to agent 1
    segment := "LyEXC1\\r\\n" from:u32le to:u32le serial:u64le frame*
    frame   := length:u32le crc:u32le body          CRC-32C of the body
    body    := msgpack array, the first element its kind

    L  links        sender receiver start end urls kinds at depths hops digests fetched asked hints
    A  answers      owner asker position positions

Links are all that shard `sender` found for shard `receiver` in the records from `start` up to `end` of its log:
URLs joined by newlines, and for each its kind, its record's position less `start`, its depth and the redirects that
led to it. A frame without links only moves the receiver's cursor. Rows may lie at or past `end`: then they are
offered once more because the scope changed there, and the cursor stays. `digests` are contents that `sender`
fetched and whose partition `receiver` keeps, `fetched` their positions less `start`; from position `asked` on the
sender waits for an answer. `hints`: see `lycosa.crawl.exchange.Row`.

Answers: of the contents that `owner` was asked about by the Received at `position` of its log, those fetched by
`asker` at `positions` were known.

Segments are not durable: they hold only what their writer's committed log holds too. A frame that is not whole
is not yet there: its writer is at work, or died at it and goes on in another segment. A frame that is whole and
cannot be read (too long, damaged, of another version) is a `StorageError`: passed over, its links would be lost.
Writers keep frames far below `MOST`, with `cut`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import google_crc32c
import msgspec

from lycosa.crawl.exchange import Row
from lycosa.errors import LocalError, StorageError

SEGMENT_MAGIC = b"LyEXC1\r\n"
_HEAD = struct.Struct("<8sIIQ")
SEGMENT_HEAD = _HEAD.size
_FRAME = struct.Struct("<II")
MOST = 64 << 20
"""No frame is so long: none is written, and a length beyond it is damage."""
_ROW = 16
"""Bytes of a link in a frame, about, besides its URL."""


class LinksFrame(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag="L", gc=False):
    """Links, and contents, from one shard to another; see the module."""

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
    hints: list[int] = []  # of each link; empty: none has any

    @property
    def sound(self) -> bool:
        """Whether the columns fit together."""
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
        return [Row(*row) for row in zip(at, urls, self.kinds, self.depths, self.hops, hints, strict=True)]

    def asks(self) -> list[tuple[int, int, int]]:
        """The contents: position in the sender's log, digest, and that position again if it waits, or -1."""
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

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Frame)


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
        "\n".join([row[1] for row in rows]).encode("ascii"),
        bytes([row[2] for row in rows]),
        [row[0] - start for row in rows],
        [row[3] for row in rows],
        bytes([min(row[4], 255) for row in rows]),
        b"".join([digest.to_bytes(8, "little") for _, digest in asks]),
        [at - start for at, _ in asks],
        asked,
        [row.hint for row in rows] if any(row.hint for row in rows) else [],
    )


class Part(NamedTuple):
    """What goes into one frame of links."""

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
    count: int = 1 << 30,
) -> list[Part]:
    """Rows in order of their positions, in parts of at most `most` bytes (or one row) and `count` rows.

    A part before the last ends *at* the position of its last row, not behind it: the cursor must not pass rows of a
    later part. A content goes into the part whose end passes its position, so it is heeded exactly once.
    """
    out: list[Part] = []
    part: list[Row] = []
    left = list(asks)
    size = _ROW * len(left)
    for row in sorted(rows, key=lambda row: row[0]):
        if part and (size + len(row[1]) + _ROW > most or len(part) >= count):
            stop = part[-1][0]
            out.append(Part(start, stop, part, [ask for ask in left if ask[0] < stop]))
            left = [ask for ask in left if ask[0] >= stop]
            start, part, size = stop, [], 0
        part.append(row)
        size += len(row[1]) + _ROW
    out.append(Part(start, end, part, left))
    return out


def pack(frame: Frame, most: int = MOST) -> bytes:
    """A frame's bytes."""
    body = _encoder.encode(frame)
    if len(body) > most:
        raise LocalError(f"a frame of {len(body)} bytes is too long for the exchange, which takes {most}")
    return _FRAME.pack(len(body), google_crc32c.value(body)) + body


def unpack(data: bytes, start: int = 0, most: int = MOST) -> tuple[list[Frame], int]:
    """The whole frames from `start` on, and the offset after the last of them.

    `StorageError` if the first cannot be read; a later one ends the answer, and is the first of the next.
    """
    frames: list[Frame] = []
    while start + _FRAME.size <= len(data):
        length, crc = _FRAME.unpack_from(data, start)
        end = start + _FRAME.size + length
        if length <= most and end > len(data):
            break
        frame = "too long" if length > most else _read(data[start + _FRAME.size : end], crc)
        if isinstance(frame, str):
            if frames:
                break
            raise StorageError(f"a frame of {length} bytes is {frame}")
        frames.append(frame)
        start = end
    return frames, start


def _read(body: bytes, crc: int) -> Frame | str:
    """The frame of a body; or what is wrong with it."""
    if google_crc32c.value(body) != crc:
        return "damaged"
    try:
        frame: Frame = _decoder.decode(body)
    except msgspec.MsgspecError:
        return "of a kind that this version does not know"
    return frame if frame.sound else "not sound: its columns do not fit together"


def segment_head(sender: int, receiver: int, serial: int) -> bytes:
    return _HEAD.pack(SEGMENT_MAGIC, sender, receiver, serial)


def check_head(data: bytes, sender: int, receiver: int) -> None:
    """`StorageError` if these first bytes are not those of a segment from `sender` to `receiver`."""
    magic, *ends, _ = _HEAD.unpack(data)
    if magic != SEGMENT_MAGIC:
        raise StorageError("it is no segment, or one of another version")
    if ends != [sender, receiver]:
        raise StorageError(f"it is from agent {ends[0]} to agent {ends[1]}")


def segment_name(serial: int) -> str:
    return f"{serial:020d}.seg"


def serial_of(name: str) -> int | None:
    """The serial number of a segment; None for what is none."""
    stem, dot, ending = name.partition(".")
    return int(stem) if dot and ending == "seg" and stem.isascii() and stem.isdigit() else None


def directory_of(sender: int, receiver: int) -> str:
    """Where the segments from one agent to another are."""
    return f"{sender}-{receiver}"
