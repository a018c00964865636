"""A crawl that learns which URLs lead to the same page saves fetches, and loses no page by it."""

from __future__ import annotations

from functools import cache

from lycosa.crawl.agent import End
from lycosa.lab.experiments import variants
from lycosa.lab.faults import FaultyFiles

RIGHT = {
    "param:sid@http://shop.test/item/",
    "param:sort@http://list.test/list/",
    "segment:print@http://print.test",
    "site:http://m.test@http://copy.test",
    "site:http://v.test@http://www.v.test",
}
WRONG = "param:rev@http://wiki.test/w/"


@cache
def outcome(apply: bool) -> variants.Outcome:
    return variants.crawl(FaultyFiles(), {"variants": {"apply": apply}}, size=20, sessions=8)


def test_fetches_are_saved_and_no_text_is_missed() -> None:
    without, found = outcome(False), outcome(True)
    assert without.end is found.end is End.FINISHED
    assert (without.learned, without.skipped) == ([], 0)
    assert found.fetched + found.skipped == without.fetched
    assert found.fetched < 0.75 * without.fetched
    assert found.missed == []
    assert found.wrong == []


def test_right_rules_stay_and_a_wrong_one_is_withdrawn() -> None:
    learned = outcome(True).learned
    assert {row.subject for row in learned} == RIGHT | {WRONG}
    assert {row.what for row in learned} == {"rule"}
    assert [row.holds for row in learned if row.subject == WRONG] == [True, False]
    assert all(row.holds for row in learned if row.subject in RIGHT)
    assert all(len(row.examples) == 2 and row.why for row in learned)
