"""Summaries of fetches: what one fetch tells, and that it does not matter where a stretch of fetches is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lycosa.pages.rows import fold, join, pack, unpack
from lycosa.pages.summary import (
    DUPLICATE,
    ETAG,
    MODIFIED,
    MOST_COUNT,
    MOST_FAILURES,
    MOST_SECONDS,
    Summary,
    content_of,
    joined,
    of_fetch,
    of_loss,
)
from lycosa.records import Before, Fetched, Link, LinkKind, Links, Lost, Timing
from tests.pages.fetches import fetched, fetches, summed


def test_a_fetch_that_tells_the_same_is_no_change() -> None:
    day = 86_400
    found = summed(
        fetched(1000, digest=7, etag="a"),
        fetched(1000 + day, digest=7, modified="x"),
        fetched(1000 + 3 * day, digest=8),
        fetched(1000 + 4 * day, digest=8, duplicate=True),
    )
    assert found == Summary(
        position=4,
        status=2,
        flags=DUPLICATE,
        failures=0,
        fetches=4,
        changes=1,
        began=7,
        content=8,
        first=1000,
        last=1000 + 4 * day,
        changed=1000 + 3 * day,
        still=2 * day,
    )


def test_flags_are_those_of_the_record_at_the_position() -> None:
    found = summed(fetched(1, etag='"x"', modified="then"), fetched(2, status=304, before=Before.PAGE))
    assert (found.position, found.flags, found.fetches, found.changes) == (1, ETAG | MODIFIED, 2, 0)
    assert found.last == 2 and found.changed == 1, "a 304 confirms what there is"
    found = joined(found, of_fetch(fetched(3, digest=9), 3))
    assert (found.position, found.flags, found.changes) == (3, 0, 1)


def test_an_answer_304_that_nobody_asked_for_is_an_answer() -> None:
    assert summed(fetched(1, status=304, digest=0)).position == 1


def test_failures_tell_nothing_of_the_page() -> None:
    found = summed(
        fetched(1), fetched(5, status=503, digest=3), fetched(6, status=429), fetched(7, status=500)
    )
    assert (found.status, found.failures, found.fetches, found.changes, found.last) == (5, 3, 1, 0, 1)
    assert found.position == 1, "what we have is what there was before"
    found = joined(found, of_fetch(fetched(9), 9))
    assert (found.status, found.failures, found.fetches, found.still) == (2, 0, 2, 8)
    never = summed(fetched(1, status=503), fetched(2, status=503))
    assert (never.position, never.failures, never.fetches) == (0, 2, 0)


def test_a_page_that_is_gone_and_a_redirect_that_moves_are_changes() -> None:
    def moved(at: int, to: str) -> Fetched:
        return fetched(at, status=301, digest=at, links=Links.pack([Link(to, LinkKind.REDIRECT, False, "")]))

    gone = summed(fetched(1), fetched(2, status=404, digest=5), fetched(3, status=404, digest=6))
    assert (gone.changes, gone.changed, gone.position, gone.status) == (1, 2, 3, 4)
    led = summed(moved(1, "http://a.test/x"), moved(2, "http://a.test/x"), moved(3, "http://a.test/y"))
    assert (led.changes, led.changed) == (1, 3)


def test_a_loss_moves_the_position_and_keeps_what_was_told() -> None:
    before = summed(fetched(1, digest=5, etag="x"))
    lost = Lost(2, "http://a.test/", 0, 0, "f", 1, 200, 1, 0, 5, True)
    found = joined(before, of_loss(lost, 8))
    assert found == before._replace(position=8, flags=DUPLICATE)
    assert found.content == content_of(fetched(9, digest=5))


def test_main_texts_and_bodies_are_not_compared_with_each_other() -> None:
    body = fetched(1, digest=5)
    text, same, other = (fetched(n, digest=10 + n, content=c, weight=9) for n, c in ((2, 7), (5, 7), (6, 8)))
    assert summed(body, text) == summed(text)._replace(position=2)
    assert summed(body, text, same, other)[4:6] == (3, 1)
    assert summed(text, fetched(3, digest=5), same)[4:6] == (2, 0)
    assert summed(text, fetched(3, digest=5), same).still == 3


def test_all_bits_of_a_digest_count() -> None:
    assert len({content_of(fetched(1, digest=1 << bit)) for bit in range(32)}) == 32
    assert content_of(fetched(1, digest=1 << 40)) != 0


summaries = st.builds(
    Summary,
    position=st.sampled_from([0, 1, 7, 1 << 33, (1 << 40) - 1]),
    status=st.integers(0, 5),
    flags=st.integers(0, 7),
    failures=st.sampled_from([0, 1, 200, MOST_FAILURES]),
    fetches=st.sampled_from([0, 0, 1, 2, MOST_COUNT - 1, MOST_COUNT]),
    changes=st.sampled_from([0, 1, MOST_COUNT]),
    began=st.integers(0, 2),
    content=st.integers(0, 2),
    first=st.sampled_from([0, 5, 1 << 31, MOST_SECONDS]),
    last=st.sampled_from([0, 5, 9, MOST_SECONDS]),
    changed=st.sampled_from([0, 5, MOST_SECONDS]),
    still=st.sampled_from([0, 3, MOST_SECONDS]),
    weight=st.sampled_from([0, 0, 3, 31]),
)


@given(fetches, st.data())
def test_it_does_not_matter_where_a_stretch_is_cut(stretch: list[Summary], data: st.DataObject) -> None:
    whole = stretch[0]
    for one in stretch[1:]:
        whole = joined(whole, one)
    parts = list(stretch)
    while len(parts) > 1:
        at = data.draw(st.integers(0, len(parts) - 2))
        parts[at : at + 2] = [joined(parts[at], parts[at + 1])]
    assert parts == [whole]


@given(st.lists(st.tuples(summaries, summaries), min_size=1))
def test_columns_are_joined_as_values_are(pairs: list[tuple[Summary, Summary]]) -> None:
    a, b = (pack((key, pair[side]) for key, pair in enumerate(pairs)) for side in (0, 1))
    assert [unpack(row) for row in a] == [(key, pair[0]) for key, pair in enumerate(pairs)]
    assert [unpack(row) for row in join(a, b)] == [(key, joined(*pair)) for key, pair in enumerate(pairs)]


@given(st.lists(st.tuples(st.integers(0, 5), summaries)))
def test_rows_of_one_key_are_joined_in_their_order(items: list[tuple[int, Summary]]) -> None:
    # Any summary with what only the real ones have: something told if anything is.
    items = [(key, s if s.fetches else Summary(*s[:4], *(0,) * 9)) for key, s in items]
    items = [(key, s._replace(changes=0, content=s.began)) for key, s in items]
    expected: dict[int, Summary] = {}
    for key, summary in items:
        expected[key] = joined(expected[key], summary) if key in expected else summary
    assert [unpack(row) for row in fold(pack(items))] == sorted(expected.items())


def test_a_timing_is_not_looked_at() -> None:
    assert of_fetch(fetched(1), 1) == of_fetch(fetched(1, timing=Timing(1, 2, 3, 4)), 1)
