"""Frames: rows in bounded parts, and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lycosa.cluster.frames import AnswersFrame, LinksFrame, cut, links_frame
from lycosa.cluster.links import decode, encode
from lycosa.crawl.exchange import Row

urls = st.from_regex(r"https?://[a-z]{1,8}\.test/[!-~]{0,20}", fullmatch=True)


@st.composite
def frames(draw: st.DrawFn) -> AnswersFrame | LinksFrame:
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


@given(frames(), st.integers(0, 99))
def test_what_is_sent_comes_back(frame: AnswersFrame | LinksFrame, epoch: int) -> None:
    message = decode(encode(epoch, frame))
    assert message is not None and (message.epoch, message.frame) == (epoch, frame)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)), max_size=60), st.integers(40, 300))
def test_parts_are_bounded_in_bytes(made: list[tuple[int, int]], most: int) -> None:
    rows = [Row(at, "http://a.test/" + "x" * length, 0, 0, 0) for at, length in made]
    parts = cut(0, 30, rows, most=most)
    assert [row for part in parts for row in part.rows] == sorted(rows, key=lambda row: row.at)
    for part in parts:
        assert len(part.rows) <= 1 or sum(len(row.url) + 16 for row in part.rows) <= most


def test_rows_and_asks_of_a_frame() -> None:
    rows = [Row(7, "http://a.test/", 0, 3, 1), Row(9, "http://b.test/", 128, 4, 300)]
    frame = links_frame(1, 2, 5, 10, rows, [(6, 11), (8, 12)], asked=7)
    assert isinstance(frame, LinksFrame)
    assert frame.rows() == [rows[0], Row(9, "http://b.test/", 128, 4, 255)]
    assert frame.asks() == [(6, 11, -1), (8, 12, 8)]
    assert links_frame(1, 2, 5, 10, []).rows() == []
