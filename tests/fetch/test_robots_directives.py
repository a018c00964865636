"""X-Robots-Tag and robots meta: whom they mean and what they ask."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.fetch.robots_directives import NONE, Directives, directives, merge, meta_directives
from tests import work

AGENT = "Lycosa/0.1 (+https://example.org)"
JUNE_25 = 1_277_478_000_000  # 2010-06-25T15:00:00Z


def _asks(*values: str) -> Directives:
    return directives(values, AGENT)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], NONE),
        ([""], NONE),
        (["all"], NONE),
        (["index, follow"], NONE),
        (["noindex"], Directives(noindex=True)),
        (["NoIndex , NOFOLLOW"], Directives(noindex=True, nofollow=True)),
        (["none"], Directives(noindex=True, nofollow=True)),
        (["nocache"], Directives(noarchive=True)),
        (
            ["noarchive,nosnippet, noimageindex ,notranslate"],
            Directives(False, False, True, True, True, True),
        ),
        (["noindex", "nofollow"], Directives(noindex=True, nofollow=True)),
        (["index", "noindex"], Directives(noindex=True)),
        (["lycosa: noindex"], Directives(noindex=True)),
        (["LYCOSA: noindex, nofollow"], Directives(noindex=True, nofollow=True)),
        (["otherbot: noindex, nofollow"], NONE),
        (["otherbot: noindex", "nofollow"], Directives(nofollow=True)),
        (["nofollow, otherbot: noindex"], Directives(nofollow=True)),
        (["otherbot: noindex, lycosa: nofollow, noarchive"], Directives(nofollow=True, noarchive=True)),
        (["*: noindex"], Directives(noindex=True)),
        (["max-snippet: 20, noindex"], Directives(noindex=True)),
        (["otherbot: max-snippet: 20, noindex"], NONE),
        (["noindexx, no index, :, ,,"], NONE),
    ],
)
def test_values(values: list[str], expected: Directives) -> None:
    assert directives(values, AGENT) == expected


@pytest.mark.parametrize(
    "date",
    [
        "25 Jun 2010 15:00:00 GMT",
        "Fri, 25 Jun 2010 15:00:00 GMT",
        "Friday, 25-Jun-10 15:00:00 GMT",
        "Fri, 25 Jun 2010 17:00:00 +0200",
        "2010-06-25T15:00:00+00:00",
        "2010-06-25T15:00:00Z",
        "2010-06-25 15:00:00",
        "25 Jun 2010 07:00:00 PST",
    ],
)
def test_dates_with_and_without_commas(date: str) -> None:
    expected = Directives(nofollow=True, unavailable_after=JUNE_25)
    assert _asks(f"unavailable_after: {date}, nofollow") == expected
    assert _asks(f"nofollow, lycosa: unavailable_after: {date}") == expected
    assert _asks(f"otherbot: unavailable_after: {date}, nofollow") == NONE
    assert _asks(f"Unavailable_After:{date}", "nofollow") == expected


@pytest.mark.parametrize(
    "date", ["soon", "", "Friday", "25 Jun 99999 15:00:00 GMT", "x" * 10_000, "0000-00-00"]
)
def test_what_is_no_date_is_ignored(date: str) -> None:
    assert _asks(f"unavailable_after: {date}") == NONE
    assert _asks("noindex", f"unavailable_after: {date}") == Directives(noindex=True)


def test_unavailable_after_becomes_noindex() -> None:
    asked = _asks("unavailable_after: 2010-06-25T15:00:00Z")
    assert asked.at(JUNE_25 - 1).noindex is False
    assert asked.at(JUNE_25).noindex is True


def test_meta_by_name() -> None:
    named = [
        ("robots", "noarchive"),
        ("Lycosa", "nofollow"),
        (" ROBOTS ", "nosnippet"),
        ("googlebot", "noindex"),
        ("description", "none"),
    ]
    assert meta_directives(named, AGENT) == Directives(nofollow=True, noarchive=True, nosnippet=True)


def test_only_so_much_of_a_value_counts() -> None:
    assert _asks("x," * 32_768 + "noindex") == NONE
    assert _asks("x," * 32_760 + "noindex") == Directives(noindex=True)


_any = st.builds(
    Directives,
    *[st.booleans()] * 6,
    unavailable_after=st.none() | st.integers(0, 2**42),
)


@given(_any, _any, _any)
def test_merging_keeps_every_restriction(a: Directives, b: Directives, c: Directives) -> None:
    both = merge(a, b)
    assert both == merge(b, a)
    assert merge(both, c) == merge(a, merge(b, c))
    assert merge(a, a) == merge(a, NONE) == a
    assert all(field == (x or y) for field, x, y in zip(both[:6], a[:6], b[:6], strict=True))


_pieces = st.sampled_from(
    ["unavailable_after", "noindex", ":", ",", " ", "lycosa", "\0", "é", "Fri", "25 Jun 2010"]
)


@given(st.lists(st.lists(_pieces | st.text(max_size=3), max_size=12).map("".join), max_size=4))
def test_any_text(values: list[str]) -> None:
    directives(values, AGENT)
    meta_directives([(value, value) for value in values], AGENT)


@pytest.mark.parametrize(
    "unit", ["a:", "a:a:,", "unavailable_after:", "noindex,", ":", ",", "x: unavailable_after: Fri, "]
)
def test_reading_grows_with_the_size_alone(unit: str) -> None:
    """Every prefix was cut off by copying all that followed it."""

    def read(size: int) -> None:
        directives([unit * (size // len(unit))], "lycosa")

    assert work.growth(read, 16_000) < 9


def test_values_count_together() -> None:
    """A page may hold thousands of meta elements, each with thousands of dates."""
    date = "unavailable_after: 2020-01-01,"
    many = [date * 1000] * 100
    assert work.calls(lambda: directives(many, "lycosa")) < 50_000
    assert directives(["noindex", *[" " * 60_000] * 2, "nofollow"], "x") == Directives(noindex=True)
