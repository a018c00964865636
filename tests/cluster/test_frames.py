"""Frames: what is packed comes back; whatever bytes come, only whole and sound frames are read."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.cluster.frames import (
    AnswersFrame,
    Frame,
    LinksFrame,
    directory_of,
    links_frame,
    pack,
    segment_name,
    serial_of,
    unpack,
)
from lycosa.crawl.exchange import Row

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
def test_arbitrary_bytes_are_no_frames_and_no_error(data: bytes) -> None:
    _, used = unpack(data)
    assert 0 <= used <= len(data)


@given(frames(), st.data())
def test_a_changed_byte_is_noticed(frame: Frame, data: st.DataObject) -> None:
    packed = bytearray(pack(frame))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    found, used = unpack(bytes(packed))
    assert (found, used) == ([], 0)


@settings(max_examples=30)
@given(st.binary(max_size=200))
def test_a_body_of_the_right_sum_and_wrong_columns_is_refused(junk: bytes) -> None:
    import google_crc32c

    for body in (junk, msgspec.msgpack.encode(["L", 1, 2, 0, 1, b"http://a/", b"", [], [], b""])):
        data = len(body).to_bytes(4, "little") + google_crc32c.value(body).to_bytes(4, "little") + body
        frames_read, _ = unpack(data)
        assert all(frame.sound for frame in frames_read)


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
