"""Frames: what is packed comes back; only whole and sound frames are read, and what is neither is an error."""

from __future__ import annotations

import google_crc32c
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.cluster.frames import (
    MOST,
    AnswersFrame,
    Frame,
    LinksFrame,
    check_head,
    cut,
    directory_of,
    links_frame,
    pack,
    segment_head,
    segment_name,
    serial_of,
    unpack,
)
from lycosa.crawl.exchange import Row
from lycosa.errors import LocalError, StorageError

urls = st.from_regex(r"https?://[a-z]{1,8}\.test/[!-~]{0,20}", fullmatch=True)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    if draw(st.booleans()):
        numbers = st.integers(0, 1 << 40)
        return AnswersFrame(draw(numbers), draw(numbers), draw(numbers), draw(st.lists(numbers, max_size=5)))
    start = draw(st.integers(0, 1 << 40))
    row = st.builds(
        Row,
        st.integers(start, start + 1000),
        urls,
        st.integers(0, 255),
        st.integers(0, 1000),
        st.integers(0, 255),
        st.sampled_from([0, 0, 1, (1 << 41) - 1]),
    )
    asks = st.tuples(st.integers(start, start + 1000), st.integers(0, (1 << 64) - 1))
    return links_frame(
        draw(st.integers(0, 4095)),
        draw(st.integers(0, 4095)),
        start,
        start + draw(st.integers(0, 1000)),
        draw(st.lists(row, max_size=8)),
        draw(st.lists(asks, max_size=4)),
        draw(st.integers(0, 1 << 41)),
    )


@given(st.lists(frames(), max_size=6), st.data())
def test_what_is_packed_comes_back_and_a_torn_tail_is_not_yet_there(
    rows: list[Frame], data: st.DataObject
) -> None:
    packed = [pack(frame) for frame in rows]
    whole = b"".join(packed)
    assert unpack(whole) == (rows, len(whole))
    cut = data.draw(st.integers(0, len(whole)))
    found, used = unpack(whole[:cut])
    assert found == rows[: len(found)]
    assert used == sum(map(len, packed[: len(found)])) <= cut
    if len(found) < len(rows):
        assert cut < used + len(packed[len(found)])
        # The rest comes: reading goes on where it stopped.
        assert unpack(whole, used) == (rows[len(found) :], len(whole))


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_not_yet_a_frame_or_an_error(data: bytes) -> None:
    try:
        found, used = unpack(data)
    except StorageError:
        return
    assert (found, used) == ([], 0) and (len(data) < 8 or len(data) < 8 + int.from_bytes(data[:4], "little"))


@given(frames(), frames(), st.data())
def test_a_changed_byte_is_noticed_and_never_passed_over(
    frame: Frame, before: Frame, data: st.DataObject
) -> None:
    packed = bytearray(pack(frame))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    first = pack(before)
    whole = first + bytes(packed)
    assert unpack(whole) == ([before], len(first)), "what came before it counts"
    announced = int.from_bytes(packed[:4], "little")
    if len(packed) - 8 < announced <= MOST:
        assert unpack(whole, len(first)) == ([], len(first)), "it seems to be still on its way"
        return
    with pytest.raises(StorageError, match="a frame of"):
        unpack(whole, len(first))


def packed_body(body: bytes) -> bytes:
    return len(body).to_bytes(4, "little") + google_crc32c.value(body).to_bytes(4, "little") + body


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"", "does not know"),
        (b"junk", "does not know"),
        (msgspec.msgpack.encode(["Z", 1, 2, 3]), "does not know"),
        (msgspec.msgpack.encode(["L", 1, 2, 0, 1, b"http://a/", b"", [], [], b""]), "not sound"),
    ],
)
def test_a_body_of_the_right_sum_that_cannot_be_read_is_refused(body: bytes, what: str) -> None:
    with pytest.raises(StorageError, match=what):
        unpack(packed_body(body))


def test_a_frame_that_is_too_long_is_neither_written_nor_waited_for() -> None:
    frame = links_frame(1, 2, 0, 9, [Row(n, f"http://a.test/{n}", 0, 0, 0) for n in range(9)])
    data = pack(frame)
    with pytest.raises(LocalError, match="too long"):
        pack(frame, most=len(data) - 9)
    assert unpack(data, most=len(data) - 8) == ([frame], len(data))
    with pytest.raises(StorageError, match="too long"):
        unpack(data[:8], most=len(data) - 9)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)), max_size=60), st.integers(40, 300))
def test_parts_are_bounded_in_bytes_and_in_rows(made: list[tuple[int, int]], most: int) -> None:
    rows = [Row(at, "http://a.test/" + "x" * length, 0, 0, 0) for at, length in made]
    parts = cut(0, 30, rows, most=most, count=7)
    assert [row for part in parts for row in part.rows] == sorted(rows, key=lambda row: row.at)
    for part in parts:
        assert len(part.rows) <= 7
        assert len(part.rows) <= 1 or sum(len(row.url) + 16 for row in part.rows) <= most


def test_the_head_of_a_segment_says_what_it_is() -> None:
    head = segment_head(3, 1, 7)
    check_head(head, 3, 1)
    with pytest.raises(StorageError, match="another version"):
        check_head(head.replace(b"LyEXC1", b"LyEXC2"), 3, 1)
    with pytest.raises(StorageError, match="from agent 3 to agent 1"):
        check_head(head, 1, 3)


def test_rows_and_asks_of_a_frame() -> None:
    rows = [Row(7, "http://a.test/", 0, 3, 1), Row(9, "http://b.test/", 128, 4, 300)]
    frame = links_frame(1, 2, 5, 10, rows, [(6, 11), (8, 12)], asked=7)
    assert isinstance(frame, LinksFrame)
    assert frame.rows() == [rows[0], Row(9, "http://b.test/", 128, 4, 255)]
    assert frame.asks() == [(6, 11, -1), (8, 12, 8)]
    assert links_frame(1, 2, 5, 10, []).rows() == []


def test_names() -> None:
    assert serial_of(segment_name(12)) == 12
    assert serial_of("draft.part") is serial_of("x.seg") is serial_of("addresses") is None
    assert directory_of(3, 0) == "3-0"
