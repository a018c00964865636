"""Traps by yield: the fold."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from lycosa.content.options import TrapOptions
from lycosa.content.yields import (
    ENDED,
    KINDS,
    LED,
    NEW,
    NOT_JUDGED,
    NOTHING,
    NOTHING_IN_FIRST,
    NOTHING_IN_FOLDER,
    NOTHING_ON_SITE,
    ON_SITE,
    ROWS,
    SILENT,
    Look,
    Yields,
    nothing_new,
)

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
    assert verdict.why == "24 pages gave nothing new but URLs of their kind, of 24 fetched"
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
        if yields.tests(SHOP, SHOP):
            tested.append(number)
            feed(yields, [NOTHING])
        yields.note_held(SHOP)
    assert tested == [4, 8, 16, 32, 64]
    assert held(yields) == SHOP
    row = yields.row(SHOP)
    assert row is not None
    feed(yields, [NEW])
    assert not yields.due() and yields.tests(SHOP, SHOP), "the next one follows at once"
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


def test_the_first_pages_of_a_farm_are_all_looked_at() -> None:
    """They lead to nothing of their own site, and have not ended for that."""
    yields = opened()
    looks = []
    for number in range(8):
        looks.append(yields.wants(f"http://h{number}.a.test/", 1, "a.test", True))
        yields.note_fetch(f"http://h{number}.a.test/", ON_SITE, "a.test", True)
    assert looks[2:] == [Look.YES] * 6


def test_pages_that_are_new_on_their_site_only_count_for_hosts_only() -> None:
    yields = opened()
    for number in range(40):
        yields.note_fetch(f"{SITE}/x/{number}", ON_SITE, "a.test", False)
    assert not yields.due()


def looks_of(yields: Yields, urls: list[str], key: int = 1) -> list[Look]:
    """What is wanted of some pages one after the other, which give something new whenever somebody looks."""
    looks = []
    for url in urls:
        looks.append(yields.wants(url, key, "a.test", False))
        yields.note_fetch(url, NEW if looks[-1] else NOT_JUDGED, "a.test", False)
    return looks


def test_who_is_looked_at() -> None:
    yields = opened()
    url = f"{SITE}/shop/item-1.html"
    leads = Look.IF_IT_LEADS_ON
    assert looks_of(yields, [url] * 40) == [Look.NO] * 5 + [Look.YES] + [leads] * 3 + [Look.NO] * 31
    assert yields.wants(url, 16, "a.test", False), "one in so many, by its key"
    yields.note_fetch(url, NOTHING, "a.test", False)
    assert yields.wants(url, 1, "a.test", False) is Look.OR_IT_ENDED
    yields.configure(TrapOptions(quarantine=False), 1)
    assert not yields.wants(url, 16, "a.test", False)


def test_what_looks_like_a_trap_is_looked_at_sooner() -> None:
    yields = opened()
    leads = Look.IF_IT_LEADS_ON
    found = looks_of(yields, [f"{SITE}/shop/?sort={n}" for n in range(10)])
    assert found == [Look.NO] * 2 + [Look.YES] + [leads] * 3 + [Look.NO] * 4


def test_pages_that_lead_nowhere_are_not_looked_at_for_ever() -> None:
    """Of an ordinary folder: to ask whether a page leads on costs something, too."""
    yields = opened()
    looks = []
    for name in "abcdefghijklmnopqrstuvwxyz":
        url = f"{SITE}/shop/of/{name}.html"
        looks.append(yields.wants(url, 1, "a.test", False))
        yields.note_fetch(url, NEW if looks[-1] is Look.YES else NOT_JUDGED, "a.test", False)
    assert looks == [Look.NO] * 5 + [Look.YES] + [Look.IF_IT_LEADS_ON] * 18 + [Look.NO] * 2


def test_the_more_a_pattern_gave_the_fewer_of_its_pages_are_looked_at() -> None:
    yields = opened()
    url = f"{SITE}/shop/item-1.html"
    shares = []
    for _ in range(4):
        shares.append(sum(bool(yields.wants(url, key, "a.test", False)) for key in range(640)))
        feed(yields, [NEW] * 30)
    assert shares == [0, 10, 10, 10]
    few = opened()
    feed(few, [NEW] * 4 + [NOT_JUDGED] * 30)
    assert sum(bool(few.wants(url, key, "a.test", False)) for key in range(640)) == 40
    odd = opened()
    feed(odd, [NEW] * 60, "/shop/?sort={}")
    url = f"{SITE}/shop/?sort=1"
    assert sum(bool(odd.wants(url, key, "a.test", False)) for key in range(640)) == 80, "it looks like a trap"


def test_every_page_is_looked_at_before_a_quarantine() -> None:
    """So that something new is noticed wherever it stands, and not only on pages that lead on."""
    yields = opened()
    url = f"{SITE}/shop/item-1.html"
    looks = []
    for _ in range(24):
        looks.append(yields.wants(url, 1, "a.test", False))
        yields.note_fetch(url, NOTHING, "a.test", False)
    assert looks[2:] == [Look.OR_IT_ENDED] * 10 + [Look.YES] * 12
    assert yields.due()


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


def test_two_patterns_that_lead_to_each_other_prove_nothing_for_long() -> None:
    yields = opened()
    for path in ("/login?to={}", "/join?to={}"):
        feed(yields, [NEW, LED, LED, LED], path)
    assert yields.proves(f"{SITE}/join?to=9", f"{SITE}/login?to=9")
    for path in ("/login?to={}", "/join?to={}"):
        feed(yields, [LED], path)
    assert not yields.proves(f"{SITE}/join?to=9", f"{SITE}/login?to=9")


def test_a_link_to_what_is_quarantined_proves_nothing() -> None:
    """Nor by the coarser patterns, which begin anew when a finer one explains them."""
    yields = opened()
    feed(yields, [NEW, *[NOTHING] * 40], "/c?tag={}")
    assert settle(yields) == [f"{SITE}/c?tag"]
    assert not yields.proves(f"{SITE}/c?tag=99", f"{SITE}/c?topic=1")


def grow(yields: Yields, led: int, path: str) -> None:
    """A month that leads to so many pages, and four of these, again and again."""
    for _ in range(20):
        feed(yields, [NOTHING + KINDS * led, *[ENDED] * 4], path)


def test_a_calendar_whose_days_lead_nowhere_grows_faster_than_it_is_fetched() -> None:
    yields = opened()
    grow(yields, 5, "/c/{}/11/")
    assert settle(yields) == [f"{SITE}/c/0/0/"]
    for led, path in ((4, "/c/{}/11/"), (5, "/manual/{}")):
        yields = opened()
        grow(yields, led, path)
        assert not yields.due(), "it has an end; or it looks like no trap"


def test_pages_that_say_too_little_are_not_read_again_and_again() -> None:
    yields = opened()
    looks = []
    for number in range(40):
        url = f"{SITE}/use/of-{number}.html"
        look = yields.wants(url, 1, "a.test", False)
        yields.note_fetch(url, SILENT if look is Look.YES else NOT_JUDGED, "a.test", False)
        looks.append(look)
    assert looks.count(Look.YES) <= 2
    assert not yields.due()


def test_what_is_had_only_with_an_id_is_had_once_all_the_same() -> None:
    yields = opened()
    pattern = f"{SITE}/item?id,sid"
    feed(yields, [NOTHING] * 8, "/item?id=1&sid=aa{}")
    assert settle(yields) == [pattern]
    new, again = (f"{SITE}/item?id={n}&sid=bb1" for n in (2, 1))
    assert yields.tests(pattern, new) and not yields.tests(pattern, again)
    feed(yields, [NEW], "/item?id=2&sid=cc{}")
    assert not yields.tests(pattern, new)
    assert not yields.due(), "that says nothing of the others"
    for number in range(12):
        assert yields.tests(pattern, f"{SITE}/item?id={10 + number}&sid=bb1")
        feed(yields, [NOTHING], f"/item?id={10 + number}&sid=dd{{}}")
    assert not yields.tests(pattern, f"{SITE}/item?id=99&sid=bb1"), "as barren as the rest"


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


def test_pages_that_lead_to_nothing_of_their_kind_are_no_trap() -> None:
    """A manual of many pages that are nearly alike: an index led to them, and they lead back."""
    yields = opened()
    feed(yields, [ENDED] * 500)
    assert not yields.due()
    feed(yields, [NOTHING] * 24)
    assert not yields.due(), "most of them have ended"
    feed(yields, [NOTHING] * 476)
    assert yields.due()


def test_a_page_is_barren_only_for_patterns_that_it_leads_to() -> None:
    yields = opened()
    feed(yields, [NOTHING_IN_FOLDER] * 24)
    fine, folder = yields.row(SHOP), yields.row(f"{SITE}/shop/*.html")
    assert fine is not None and (fine.barren, fine.ended) == (0, 24)
    assert folder is not None and (folder.barren, folder.ended) == (24, 0)
    assert settle(yields) == [f"{SITE}/shop/*.html"]


@pytest.mark.parametrize(
    ("unknown", "gain"),
    [
        ([], ENDED),
        (["http://b.test/shop/item-7.html"], ENDED),
        (["/shop/item-7.html", "/about"], NOTHING),
        (["/shop/other.html"], NOTHING_IN_FOLDER),
        (["/shop/x/y.html", "http://b.test/"], NOTHING_IN_FIRST),
        (["/about"], NOTHING_ON_SITE),
        (["/shop/item-7.html?sid=1"], ENDED),
    ],
)
def test_what_a_page_without_news_leads_to(unknown: list[str], gain: int) -> None:
    urls = [each if "://" in each else SITE + each for each in unknown]
    assert nothing_new(f"{SITE}/shop/item-3.html", urls) == (gain if gain == ENDED else gain + KINDS)


def test_a_new_page_takes_back_what_ended_and_what_was_barren() -> None:
    yields = opened()
    feed(yields, [*[ENDED] * 9, *[NOTHING] * 9, NEW])
    row = yields.row(SHOP)
    assert row is not None and (row.barren, row.ended, row.gains) == (0, 0, 1)
