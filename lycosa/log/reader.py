"""Reading a log by position or by range of positions, also while its writer is at work.

A log is a directory of segments, each named by the position of its first record:

    log/00000000000000000000.seg
    segment := "LySEG1\\r\\n" first:u64le block*

A *position* is the ordinal of a record in its shard's log, from 0. Blocks follow each other without gaps,
so the blocks' heads alone lead from a position to its bytes; the reader remembers some of their places.

A log that lost records and was repaired (see `lycosa.crawl.repair`) has a *gap* for them:

    log/00000000000000000700.gap := {"first": 700, "end": 900, "until": 1200}     JSON

There are no records from `first` up to `end`, and no position is ever used twice. `until` is the end of the log
when it was repaired: an unknown part of what it had received from other shards before that is lost in the gap.

The reader never changes a file. It stops silently at the first block that is not whole, because that is
where the writer is at work; damage *before* the end of what was durable is a `StorageError` that names
the file and the offset (see `blocks` for how the two are told apart).
"""

from __future__ import annotations

import bisect
import re
import struct
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar, cast

import msgspec

from lycosa.errors import StorageError
from lycosa.files import Files, write_whole
from lycosa.log import blocks
from lycosa.log.blocks import Head
from lycosa.records import Record, decode, has_tag, tag_of

SEGMENT_MAGIC = b"LySEG1\r\n"
_FIRST = struct.Struct("<Q")
SEGMENT_HEAD = len(SEGMENT_MAGIC) + _FIRST.size

R = TypeVar("R", bound=msgspec.Struct)
Block = tuple[int, int, list[memoryview]]

_PIECE = 4 << 20
_APART = 1 << 18
"""The least distance, in bytes, between two blocks of a segment whose places are remembered."""
_MARKED = 64
"""Segments whose block places are remembered."""
_KEPT_SEGMENTS = 8
KEPT_BLOCKS = 3
"""Blocks held in memory. Hosts read their records left behind in turn, each about as far in the log as the
others."""


def segment_name(first: int) -> str:
    return f"{first:020d}.seg"


def segment_head(first: int) -> bytes:
    return SEGMENT_MAGIC + _FIRST.pack(first)


def segments(files: Files) -> list[int]:
    """The first positions of the log's segments, ascending."""
    names = (name for name in files.list("") if name.endswith(".seg"))
    return sorted(int(name[:-4]) for name in names if name[:-4].isdigit())


class Gap(msgspec.Struct, frozen=True):
    """Positions whose records are lost."""

    first: int
    end: int
    until: int


_GAP_NAME = re.compile(r"\d{20}\.gap\Z")


def gaps(files: Files) -> dict[int, Gap]:
    """The gaps of a log, by their first position."""
    found = {}
    for name in files.list(""):
        if _GAP_NAME.match(name):
            try:
                gap = msgspec.json.decode(files.read(name), type=Gap)
            except msgspec.MsgspecError as error:
                raise StorageError(
                    f"{files.path(name)} is damaged ({error}): restore it from a copy"
                ) from None
            found[gap.first] = gap
    return found


def write_gap(files: Files, gap: Gap) -> None:
    """Note that a log has no records in a gap, for good."""
    write_whole(files, f"{gap.first:020d}.gap", msgspec.json.encode(gap))


def over_gaps(position: int, known: Mapping[int, Gap]) -> int:
    """The position itself, or the end of the gap that begins there."""
    while position in known:
        position = known[position].end
    return position


class BlockAt(NamedTuple):
    """Where a block lies."""

    offset: int
    head: blocks.Head

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.offset + self.head.size


def walk(
    files: Files, first: int, start: int = 0, after: BlockAt | None = None
) -> Iterator[tuple[BlockAt, bytes]]:
    """Whole blocks of a segment in order, with their bytes: those after `after`, from `start` on.

    Stops at the first block that is not whole; raises if later bytes prove that it once was. Of blocks before
    `start` only the heads are read.
    """
    name = segment_name(first)
    size = files.size(name)
    offset, batch = (SEGMENT_HEAD, 0) if after is None else (after.end, after.head.batch)
    if size < SEGMENT_HEAD or files.read_at(name, 0, SEGMENT_HEAD) != segment_head(first):
        return
    data, base = b"", offset  # bytes read ahead, and the offset of the first of them
    piece = blocks.HEAD_BYTES if start > first else _PIECE
    while offset < size:
        at = offset - base
        head = blocks.head_of(data, at)
        if head is None:
            data, base, at = files.read_at(name, offset, piece), offset, 0
            head = blocks.head_of(data)
        if head is not None and head.end <= start:
            batch, offset = head.batch, offset + head.size
            continue
        piece = _PIECE
        if head is not None and len(data) - at < head.size:
            data, base, at = files.read_at(name, offset, max(_PIECE, head.size)), offset, 0
        body = data[at : at + head.size] if head is not None else b""
        if head is None or not blocks.intact(body, head):
            _refuse_damage(files, name, offset, batch)
            return
        yield BlockAt(offset, head), body
        batch, offset = head.batch, offset + head.size


def _refuse_damage(files: Files, name: str, offset: int, batch: int) -> None:
    """Raise if a readable block of a later commit than the torn one follows `offset`.

    The torn block is read once more in that case: its writer may have finished it, and continued, in the meantime.
    """
    rest = files.read_at(name, offset, 256 << 20)
    at = rest.find(blocks.MAGIC, 1)
    while at >= 0:
        head = blocks.head_of(rest, at)
        if head is not None and head.batch > batch + 1 and blocks.intact(rest[at : at + head.size], head):
            now = files.read_at(name, offset, at)
            torn = blocks.head_of(now)
            if torn is not None and blocks.intact(now, torn):
                return
            raise StorageError(
                f"log segment {files.path(name)} is damaged at byte {offset}: "
                f"restore it from a copy, or see what lycosa repair can do; nothing was changed"
            )
        at = rest.find(blocks.MAGIC, at + 1)


class LogReader:
    """Records of one shard's log, by position; the last `kept` blocks read stay in memory."""

    def __init__(self, files: Files, kept: int = KEPT_BLOCKS) -> None:
        self._files = files
        self._kept = kept
        self._heads: OrderedDict[int, list[BlockAt]] = OrderedDict()
        self._read: list[Block] = []  # the blocks read last, the newest first
        self._marks: OrderedDict[int, list[BlockAt]] = (
            OrderedDict()
        )  # by segment: places of some blocks, the furthest last
        self._begun: dict[int, tuple[BlockAt, ...]] = {}  # by segment: where the last scan began

    @property
    def files(self) -> Files:
        """Where the segments are."""
        return self._files

    def end(self) -> int:
        """The position that the next record will get, as far as the files show."""
        known = gaps(self._files)
        for first in reversed(segments(self._files)):
            end = -1
            for at, _ in walk(self._files, first):
                end = at.head.end
            if end >= 0:
                return over_gaps(end, known)
            if self._files.size(segment_name(first)) >= SEGMENT_HEAD:
                return over_gaps(first, known)
        return over_gaps(0, known)

    def find(self, needle: bytes) -> Iterator[tuple[int, Record]]:
        """Positions and records whose encoding holds `needle`; blocks without it are not decoded."""
        for position, row in self.scan_encoded(needle=needle):
            yield position, decoded(position, row)

    def find_kind(self, kind: type[R], start: int = 0) -> Iterator[tuple[int, R]]:
        """Positions and records of one kind from `start` on; no other is decoded."""
        tag = tag_of(kind)
        for position, row in self.scan_encoded(start, needle=tag):
            if has_tag(row, tag):
                yield position, cast(R, decoded(position, row))

    def blocks(
        self, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[blocks.Head, list[memoryview]]]:
        """The blocks that hold records from `start` up to `stop` (or the end), unpacked.

        Repeated calls for new records are cheap: the reader remembers where it was.
        """
        return ((at.head, rows) for _, at, rows in self.located(start, stop))

    def run(self, segment: int, offset: int, size: int) -> Iterator[tuple[Head, list[memoryview]]]:
        """The blocks in `size` bytes of a segment, unpacked; the bytes begin and end with a block."""
        data = self._files.read_at(segment_name(segment), offset, size)
        at = 0
        while at < size:
            head = blocks.head_of(data, at)
            rows = None if head is None else blocks.unpack(data[at : at + head.size], head)
            if head is None or rows is None:
                raise StorageError(
                    f"log segment {self._files.path(segment_name(segment))} is damaged at {offset + at}"
                )
            yield head, rows
            at += head.size

    def head_at(self, segment: int, offset: int) -> Head | None:
        """The head of the block there; it may differ from an earlier read if the block was not durable and was
        rewritten."""
        if not self._files.exists(segment_name(segment)):
            return None
        return blocks.head_of(self._files.read_at(segment_name(segment), offset, blocks.HEAD_BYTES))

    def located(
        self, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[int, BlockAt, list[memoryview]]]:
        """As `blocks`, each with its segment and its place there."""
        firsts = segments(self._files)
        known = gaps(self._files)
        start = next((gap.end for gap in known.values() if gap.first <= start < gap.end), start)
        low = max(bisect.bisect_right(firsts, start) - 1, 0)
        expected: int | None = over_gaps(0, known) if low == 0 else None
        for number in range(low, len(firsts)):
            first = firsts[number]
            if stop is not None and first >= stop:
                return
            if expected is not None and first != (expected := over_gaps(expected, known)):
                raise StorageError(
                    f"log segment {self._files.path(segment_name(expected))} is missing or cut short, before "
                    f"{segment_name(first)}: restore it from a copy, or see what lycosa repair can do; nothing was "
                    f"changed"
                )
            expected = first
            mark = self._mark_before(first, start)
            for at, body in walk(self._files, first, start, mark):
                if stop is not None and at.head.first >= stop:
                    return
                rows = blocks.unpack(body, at.head)
                if rows is None:
                    raise StorageError(
                        f"log segment {self._files.path(segment_name(first))} is damaged at {at.offset}"
                    )
                expected = at.head.end
                yield first, at, rows
                self.mark(first, at)

    def mark(self, first: int, at: BlockAt) -> None:
        """Remember the place of a block of a segment, so that reading on from there needs no search."""
        marks = self._marks.setdefault(first, [])
        self._marks.move_to_end(first)
        if marks and at.offset <= marks[-1].offset:
            return
        if len(marks) > 1 and marks[-1].offset - marks[-2].offset < _APART:
            marks.pop()
        marks.append(at)
        if len(self._marks) > _MARKED:
            self._marks.popitem(last=False)

    def _mark_before(self, first: int, start: int) -> BlockAt | None:
        """The last known block of a segment that lies before `start`, if it is still there."""
        known = [*self._marks.get(first, ()), *self._begun.get(first, ())]
        mark = max((mark for mark in known if mark.head.end <= start), default=None)
        if mark is not None and self.head_at(first, mark.offset) != mark.head:
            self._marks.pop(first, None)
            mark = None
        self._begun[first] = () if mark is None else (mark,)  # others begin here, too
        return mark

    def reaches(self, position: int) -> bool:
        """Whether the log reaches this position: it has the record before it, or a gap in its place."""
        if position <= 0 or any(gap.first < position <= gap.end for gap in gaps(self._files).values()):
            return True
        return any(True for _ in self.blocks(position - 1, position))

    def scan_encoded(
        self, start: int = 0, stop: int | None = None, needle: bytes = b""
    ) -> Iterator[tuple[int, memoryview]]:
        """Positions and encoded records from `start` up to `stop` (or the end) that hold `needle`."""
        for head, rows in self.blocks(start, stop):
            if needle and needle not in cast(bytes, rows[0].obj):
                continue
            for position, row in enumerate(rows, head.first):
                if needle and needle not in bytes(row):
                    continue
                if stop is not None and position >= stop:
                    return
                if position >= start:
                    yield position, row

    def scan(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Record]]:
        """Positions and records from `start` up to `stop` (or the end)."""
        for position, row in self.scan_encoded(start, stop):
            yield position, decoded(position, row)

    def read(self, position: int) -> Record:
        """The record at a position."""
        return decoded(position, self.read_encoded(position))

    def read_encoded(self, position: int) -> memoryview:
        """The record at a position, as it is stored."""
        for number, (first, end, rows) in enumerate(self._read):
            if first <= position < end:
                if number:
                    self._read.insert(0, self._read.pop(number))
                return rows[position - first]
        found = self.block_of(position)
        self.keep(found)
        return found[2][position - found[0]]

    def holds(self, position: int) -> bool:
        """Whether `read` finds the record in memory."""
        return any(first <= position < end for first, end, _ in self._read)

    def keep(self, block: Block) -> None:
        """Hold a block in memory that another reader has read."""
        self._read.insert(0, block)
        del self._read[self._kept :]

    def block_of(self, position: int) -> Block:
        """The block that contains a position: its first position, its end, its encoded records."""
        firsts = segments(self._files)
        number = bisect.bisect_right(firsts, position) - 1
        if number >= 0:
            first = firsts[number]
            found = self._find(first, position)
            if found is not None:
                body = self._files.read_at(segment_name(first), found.offset, found.head.size)
                rows = blocks.unpack(body, found.head)
                if rows is None:
                    raise StorageError(
                        f"log segment {self._files.path(segment_name(first))} is damaged at byte {found.offset}: "
                        f"restore it from a copy"
                    )
                return found.head.first, found.head.end, rows
        raise StorageError(f"the log has no record at position {position}")

    def _find(self, first: int, position: int) -> BlockAt | None:
        heads = self._heads.pop(first, [])
        if not heads or heads[-1].head.end <= position:
            heads += [at for at, _ in walk(self._files, first, 0, heads[-1] if heads else None)]
        if not heads:
            return None
        self._heads[first] = heads
        if len(self._heads) > _KEPT_SEGMENTS:
            self._heads.popitem(last=False)
        number = bisect.bisect_right(heads, position, key=lambda at: at.head.first) - 1
        if number < 0 or heads[number].head.end <= position:
            return None
        return heads[number]


def decoded(position: int, row: memoryview) -> Record:
    """The record of encoded bytes that are at a position of a log."""
    try:
        return decode(row)
    except msgspec.MsgspecError as error:
        raise StorageError(
            f"log record {position} cannot be read ({error}): it was written by a newer version of "
            f"lycosa, or damaged"
        ) from None
