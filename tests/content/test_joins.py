"""Rules that were learned, as a fold: what is held, tested, withdrawn; and the same after a snapshot."""

from __future__ import annotations

from lycosa.content.joins import SELDOM, Joins
from lycosa.content.options import VariantOptions

RULE = "param:sid@http://a.test/s/"
ON = VariantOptions(apply=True)


def nothing(_: str) -> bool:
    return False


def learned() -> Joins:
    joins = Joins()
    joins.configure(ON, 1)
    joins.note_learned(RULE, True, "why", 10)
    return joins


def held(joins: Joins, url: str) -> bool:
    return joins.holds(url, nothing) is not None


def test_only_what_leads_to_a_page_that_was_fetched_is_held() -> None:
    joins = learned()
    assert not held(joins, "http://a.test/s/x?sid=1"), "nothing of its form was fetched since"
    joins.note_fetch("http://a.test/s/x?sid=1", 404, True, nothing)
    assert not held(joins, "http://a.test/s/x?sid=2")
    joins.note_fetch("http://a.test/s/x?sid=1", 200, True, nothing)
    assert joins.holds("http://a.test/s/x?sid=2", nothing) == (RULE, "http://a.test/s/x")
    assert not held(joins, "http://a.test/s/y?sid=2")
    assert not held(joins, "http://a.test/s/x"), "the page itself"
    assert not held(joins, "http://b.test/s/x?sid=2")
    assert joins.holds("http://a.test/s/z?sid=2", "http://a.test/s/z".__eq__) == (RULE, "http://a.test/s/z")


def test_one_is_tested_now_and_then() -> None:
    joins = learned()
    joins.note_fetch("http://a.test/s/x?sid=0", 200, True, nothing)
    tests = []
    for n in range(1, 200):
        if joins.tests(RULE, True):
            tests.append(n)
            joins.note_fetch(f"http://a.test/s/x?sid={n}", 200, True, nothing)
        else:
            joins.note_held(RULE)
    assert tests[:4] == [5, 14, 31, 64]
    assert tests[4] - tests[3] == SELDOM + 1


def test_a_rule_that_was_withdrawn_holds_nothing_and_what_it_held_comes_back() -> None:
    joins = learned()
    joins.note_fetch("http://a.test/s/x?sid=1", 200, True, nothing)
    joins.note_learned(RULE, False, "wrong", 77)
    assert not held(joins, "http://a.test/s/x?sid=2")
    assert joins.returning == 77
    assert joins.knows(RULE)
    assert joins.of("http://a.test/s/x") == []


def test_the_operator_may_turn_it_off() -> None:
    joins = learned()
    joins.note_fetch("http://a.test/s/x?sid=1", 200, True, nothing)
    joins.configure(VariantOptions(apply=False), 90)
    assert not held(joins, "http://a.test/s/x?sid=2")
    assert joins.returning == 90


def test_a_snapshot_has_all_of_it() -> None:
    joins = learned()
    joins.note_learned("site:http://a.test@http://m.test", True, "mirror", 11)
    joins.note_learned("case@http://a.test", True, "case", 12)
    joins.note_learned("case@http://a.test", False, "wrong", 13)
    for n in range(9000):
        joins.note_fetch(f"http://a.test/s/{n}?sid=1", 200, True, nothing)
    for _ in range(5):
        joins.note_held(RULE)
    again = Joins()
    again.configure(ON, 0)
    again.thaw(list(joins.freeze()))
    assert list(again.freeze()) == list(joins.freeze())
    assert again.returning == 13
    assert held(again, "http://a.test/s/8999?sid=2")
    assert held(again, "http://m.test/s/1?sid=1"), "a.test has it"
    assert not held(again, "http://m.test/s/1?sid=5")
    assert again.holds("http://m.test/q", "http://a.test/q".__eq__) is not None
    assert again.tests(RULE, True) and not again.tests(RULE, False) and again.knows("case@http://a.test")
    assert list(Joins().freeze()) == []
