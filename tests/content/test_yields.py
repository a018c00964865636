"""Traps by yield: the fold."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from lycosa.content.options import TrapOptions
from lycosa.content.yields import NEW, NOT_JUDGED, NOTHING, ON_SITE, ROWS, Yields

SITE = "http://a.test"
SHOP = f"{SITE}/shop/item-0.html"


def opened(rows: int = ROWS) -> Yields:
    yields = Yields(rows)
    yields.configure(TrapOptions(quarantine=True), 0)
    return yields


def feed(yields: Yields, gains: Iterable[int], path: str = "/shop/item-{}.html") -> None:
    for number, gain in enumerate(gains):
        yields.note_fetch(SITE + path.format(number), gain, "a.test", False)


def settle(yields: Yields, position: int = 100) -> list[str]:
    """Log what is due, as a crawl does; the patterns."""
    found = []
    while due := yields.due():
        for row in due:
            yields.note_learned(row.pattern, row.holds, row.why, row.examples, position)
            found.append(row.pattern if row.holds else f"-{row.pattern}")
    return found


def held(yields: Yields, path: str = "/shop/item-9.html") -> str | None:
    return yields.holds(SITE + path, "a.test", False)


def test_a_pattern_that_gives_nothing_is_quarantined_with_its_evidence() -> None:
    yields = opened()
    feed(yields, [NOTHING] * 23)
    assert not yields.due()
    feed(yields, [NOTHING])
    (verdict,) = yields.due()
    assert verdict.pattern == SHOP and verdict.holds and verdict.pages == 24
    assert verdict.why == "24 pages in a row gave nothing new, of 24 fetched"
    assert len(verdict.examples) == 3
    assert settle(yields) == [SHOP]
    assert held(yields) == SHOP
    assert held(yields, "/other/item-9.html") is None


def test_the_finest_pattern_explains_the_coarser_ones() -> None:
    yields = opened()
    feed(yields, [NOTHING] * 30)
    settle(yields)
    for text in (f"{SITE}/shop/*.html", f"{SITE}/shop/**", f"{SITE}/**"):
        row = yields.row(text)
        assert row is not None and row.barren == 0 and not row.quarantined


@pytest.mark.parametrize(
    ("path", "patience"),
    [("/x/{}", 24), ("/x?q={}", 12), ("/x?sid={}", 8), ("/x?q={}&amp;r=1", 8), ("/c/{}-1/", 12)],
)
def test_what_looks_like_a_trap_needs_less_evidence(path: str, patience: int) -> None:
    yields = opened()
    feed(yields, [NOTHING] * (patience - 1), path)
    assert not yields.due()
    feed(yields, [NOTHING], path)
    assert yields.due()


def test_one_gain_begins_anew_and_earns_patience() -> None:
    yields = opened()
    feed(yields, [*[NOTHING] * 23, NEW, *[NOTHING] * 25])
    assert not yields.due()
    feed(yields, [NOTHING])
    assert yields.due()


def test_fetches_that_nobody_looked_at_say_nothing() -> None:
    yields = opened()
    feed(yields, [NOT_JUDGED] * 100)
    assert not yields.due()


def test_tests_are_a_trickle_and_two_that_pay_release() -> None:
    yields = opened()
    feed(yields, [NOTHING] * 24)
    settle(yields)
    tested = []
    for number in range(70):
        if yields.tests(SHOP):
            tested.append(number)
            feed(yields, [NOTHING])
        yields.note_held(SHOP)
    assert tested == [4, 8, 16, 32, 64]
    assert held(yields) == SHOP
    row = yields.row(SHOP)
    assert row is not None
    feed(yields, [NEW])
    assert not yields.due() and yields.tests(SHOP), "the next one follows at once"
    feed(yields, [NEW])
    assert settle(yields, 500) == [f"-{SHOP}"]
    assert held(yields) is None and yields.returning == 500


def test_a_test_says_nothing_of_coarser_patterns() -> None:
    yields = opened()
    feed(yields, [NOTHING] * 24)
    settle(yields)
    feed(yields, [NOTHING] * 200)
    row = yields.row(f"{SITE}/shop/**")
    assert row is not None and row.barren == 0


def test_a_farm_of_hosts() -> None:
    yields = opened()
    for number in range(12):
        yields.note_fetch(f"http://h{number}.a.test/", ON_SITE, "a.test", True)
    assert settle(yields) == ["*.a.test"]
    assert yields.holds("http://new.a.test/", "a.test", True) == "*.a.test"
    assert yields.holds("http://h3.a.test/page", "a.test", False) is None, (
        "a site of which something is known"
    )
    assert yields.holds("http://new.b.test/", "b.test", True) is None


def test_pages_that_are_new_on_their_site_only_count_for_hosts_only() -> None:
    yields = opened()
    for number in range(40):
        yields.note_fetch(f"{SITE}/x/{number}", ON_SITE, "a.test", False)
    assert not yields.due()


def test_who_is_looked_at() -> None:
    yields = opened()
    url = f"{SITE}/shop/item-1.html"
    looks = []
    for _ in range(40):
        looks.append(yields.wants(url, 1, "a.test", False))
        yields.note_fetch(url, NEW if looks[-1] else NOT_JUDGED, "a.test", False)
    assert looks == [False] * 2 + [True] * 4 + [False] * 34
    assert yields.wants(url, 8, "a.test", False), "one in eight, by its key"
    yields.note_fetch(url, NOTHING, "a.test", False)
    assert yields.wants(url, 1, "a.test", False)
    yields.configure(TrapOptions(quarantine=False), 1)
    assert not yields.wants(url, 8, "a.test", False)


def test_the_operator_releases_a_pattern() -> None:
    yields = opened()
    feed(yields, [NOTHING] * 24)
    settle(yields)
    yields.configure(TrapOptions(quarantine=True, release=(SHOP,)), 77)
    assert held(yields) is None and yields.returning == 77
    feed(yields, [NOTHING] * 300)
    assert settle(yields) == [], "it is never quarantined again, nor what takes it in"
    feed(yields, [NOTHING] * 30, "/other/{}.html")
    assert settle(yields) == [f"{SITE}/other/0.html"]


def test_off_holds_nothing_and_brings_back() -> None:
    yields = opened()
    feed(yields, [NOTHING] * 24)
    settle(yields)
    yields.configure(TrapOptions(quarantine=False), 9)
    assert held(yields) is None and yields.returning == 9
    yields.configure(TrapOptions(quarantine=True), 10)
    assert held(yields) == SHOP


def test_links_to_patterns_that_give_new_things_prove_something() -> None:
    yields = opened()
    feed(yields, [NEW] * 3, "/find/goods-{}.html")
    source = f"{SITE}/find/?color=red"
    assert yields.proves(f"{SITE}/find/goods-99.html", source)
    assert not yields.proves(f"{SITE}/find/?color=blue", source)
    assert not yields.proves(f"{SITE}/find/goods-99.html", f"{SITE}/find/goods-1.html"), "its own pattern"
    feed(yields, [NOTHING], "/find/goods-{}.html")
    assert not yields.proves(f"{SITE}/find/goods-99.html", source)


def test_memory_is_bounded_and_quarantine_outlives_the_ordinary() -> None:
    yields = opened(64)
    feed(yields, [NOTHING] * 24)
    settle(yields)
    for number in range(1_000):
        yields.note_fetch(f"http://h{number}.test/a/b", NEW, f"h{number}.test", False)
    assert len(yields) <= 64
    assert held(yields) == SHOP


def test_a_snapshot_is_the_state() -> None:
    yields = opened()
    feed(yields, [NOTHING] * 24)
    settle(yields)
    yields.note_held(SHOP)
    feed(yields, [*[NEW] * 5, *[NOTHING] * 22], "/y?q={}")
    assert yields.due()
    other = opened()
    other.thaw(yields.freeze())
    assert list(other.freeze()) == list(yields.freeze())
    assert other.due() == yields.due() and held(other) == SHOP
