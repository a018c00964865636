"""Rules about variants: what they make of URLs, and what counts as evidence."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.content import change_kernels, news_kernels
from lycosa.content.block_kernels import END, START
from lycosa.content.blocks import Blocks
from lycosa.content.fnv import fnv
from lycosa.content.variants import (
    EACH,
    LEAST_ID,
    SUPPORT,
    Evidence,
    Page,
    Rule,
    agrees,
    candidates,
    form_of,
    mirror,
    parse,
)


def text(*parts: object) -> str:
    random = Random(repr(parts))
    return " ".join("".join(random.choices("abcdefghij", k=6)) for _ in range(30))


def page(url: str, said: str, *links: str) -> Page:
    return Page(url, f"<main><p>{said}</p></main>".encode(), "utf-8", lambda: (links, ()))


@pytest.mark.parametrize(
    ("rule", "url", "form"),
    [
        ("param:sid@http://a.test/s/", "http://a.test/s/x?sid=1&b=2", "http://a.test/s/x?b=2"),
        ("param:sid@http://a.test/s/", "http://a.test/s/x?sid=1&sid=2", "http://a.test/s/x"),
        ("param:sid@http://a.test/s/", "http://a.test/s/x", "http://a.test/s/x"),
        ("param:sid@http://a.test/s/", "http://a.test/s/t/x?sid=1", None),
        ("param:sid@http://a.test/s/", "http://b.test/s/x?sid=1", None),
        ("query@http://a.test/", "http://a.test/x?a=1&b=2", "http://a.test/x"),
        ("segment:print@http://a.test", "http://a.test/print/a/b?c", "http://a.test/a/b?c"),
        ("segment:index.html@http://a.test", "http://a.test/a/index.html", "http://a.test/a/"),
        ("segment:index.html@http://a.test", "http://a.test/index.html", "http://a.test/"),
        ("segment:print@http://a.test", "http://a.test/a/b", "http://a.test/a/b"),
        ("slash@http://a.test", "http://a.test/a/", "http://a.test/a"),
        ("slash@http://a.test", "http://a.test/", "http://a.test/"),
        ("case@http://a.test", "http://a.test/A/b?C=D", "http://a.test/a/b?C=D"),
        ("site:http://a.test@http://www.a.test", "http://www.a.test/b?c", "http://a.test/b?c"),
        ("site:http://a.test@http://www.a.test", "http://a.test/b?c", "http://a.test/b?c"),
        ("site:http://a.test@http://www.a.test", "http://b.test/", None),
    ],
)
def test_forms(rule: str, url: str, form: str | None) -> None:
    assert form_of(parse(rule), url) == form
    assert parse(rule).text == rule


PARTS = st.text(st.sampled_from("aB1@:%-._~"), min_size=1, max_size=4)
URLS = st.builds(
    lambda path, query: f"http://a.test/{'/'.join(path)}{'?' + '&'.join(query) if query else ''}",
    st.lists(PARTS | st.just(""), max_size=4),
    st.lists(st.builds("{}={}".format, PARTS, PARTS), max_size=4),
)


@given(URLS)
def test_a_rule_is_text_without_blanks_and_its_form_stays_its_form(url: str) -> None:
    for rule in candidates(url):
        assert " " not in rule.text
        assert parse(rule.text) == rule
        form = form_of(rule, url)
        assert form is not None and form.startswith("http://a.test/")
        if rule.kind in ("param", "query", "case", "slash"):
            assert form_of(rule, form) == form


def test_which_of_two_sites_stands_for_both() -> None:
    assert mirror("http://www.a.test", "http://a.test").text == "site:http://a.test@http://www.a.test"
    assert mirror("http://a.test", "https://a.test").text == "site:https://a.test@http://a.test"
    assert mirror("http://b.test", "http://a.test") == mirror("http://a.test", "http://b.test")


SID = Rule("param", "sid", "http://a.test/")


def test_pages_agree_by_text_and_links() -> None:
    one = page("http://a.test/x?sid=1", text(1), "http://a.test/y?sid=1", "http://b.test/")
    same = page("http://a.test/x?sid=2", text(1), "http://a.test/y?sid=2", "http://b.test/")
    fewer = page("http://a.test/x?sid=2", text(1), "http://b.test/")
    else_where = page("http://a.test/x?sid=2", text(1), "http://a.test/z?sid=2", "http://b.test/")
    other = page("http://a.test/x?sid=2", text(2), "http://a.test/y?sid=2", "http://b.test/")
    short = page("http://a.test/x?sid=2", "please log in")
    assert agrees(SID, one, same) is True
    assert agrees(SID, one, fewer) is True, "a print view"
    assert agrees(SID, one, else_where) is None, "the same words may be a frame around other things"
    assert agrees(SID, one, other) is False
    assert agrees(SID, one, short) is None


def test_numbers_count_and_only_ids_of_the_url_do_not() -> None:
    def shown(year: str, mark: str) -> Page:
        said = f"<p>{text('head')}</p><table><tr><td>{year}</td><td>{mark}</td></tr></table>"
        return Page(f"http://a.test/x?sid={mark}", said.encode(), "utf-8", lambda: ((), ()))

    assert agrees(SID, shown("1999", "0a1b2c3d4e5f6a"), shown("1999", "9f8e7d6c5b4a3f")) is True
    assert agrees(SID, shown("1999", "0a1b2c3d4e5f6a"), shown("2000", "9f8e7d6c5b4a3f")) is None
    assert agrees(SID, shown("1999", "paris"), shown("1999", "london")) is not True


def test_a_rule_is_sure_after_enough_forms_and_no_disagreement() -> None:
    evidence = Evidence()
    rule = "param:sid@http://a.test/"
    for n in range(20):
        evidence.meet(page(f"http://a.test/x?sid={n}", text("x")))
    assert evidence.rules[rule].agreed == EACH, "one form alone is no rule"
    assert evidence.proposals()[0][0] == rule
    for n in range(3):
        for m in range(3):
            evidence.meet(page(f"http://a.test/y{n}?sid={m}", text("y", n)))
    assert evidence.rules[rule].agreed >= SUPPORT and evidence.rules[rule].is_sure
    evidence.meet(page("http://a.test/z?sid=1", text("z", 1)))
    (verdict,) = evidence.meet(page("http://a.test/z?sid=2", text("z", 2)))
    assert (verdict.rule, verdict.agreed) == (rule, False)
    assert not evidence.rules[rule].is_sure
    assert evidence.rules[rule].examples == ["http://a.test/z?sid=1", "http://a.test/z?sid=2"]


def test_a_mirror_is_seen_from_either_side() -> None:
    evidence = Evidence()
    for n in range(SUPPORT):
        evidence.meet(page(f"http://a.test/{n}", text(n)))
        evidence.meet(page(f"http://mirror.b.test/{n}", text(n)))
    (rule,) = [text for text, _ in evidence.proposals()]
    assert rule == "site:http://a.test@http://mirror.b.test"
    assert evidence.rules[rule].is_sure
    evidence.meet(page("http://mirror.b.test/news", text("news of the mirror")))
    (verdict,) = evidence.meet(page("http://a.test/news", text("news")))
    assert (verdict.rule, verdict.agreed) == (rule, False)


def test_the_memory_is_bounded_and_what_is_forgotten_says_nothing() -> None:
    evidence = Evidence(room=4)
    evidence.meet(page("http://a.test/x?sid=0", text("x")))
    for n in range(100):
        evidence.meet(page(f"http://a.test/other{n}", text(n)))
    assert evidence.meet(page("http://a.test/x?sid=1", text("x"))) == []
    assert len(evidence._pages) <= 16


def test_only_pages_that_are_compared_are_read() -> None:
    read: list[str] = []

    def noted(url: str, said: str) -> Page:
        def linked() -> tuple[tuple[str, ...], tuple[str, ...]]:
            read.append(url)
            return (), ()

        return Page(url, said.encode(), "utf-8", linked)

    evidence = Evidence(strict=True)
    for n in range(20):
        evidence.meet(noted(f"http://a.test/dir{n}/page{n}.html?id={n}", text(n)))
    assert read == []
    evidence.meet(noted("http://a.test/dir7/page7.html?id=x", text(7)))
    assert sorted(read) == ["http://a.test/dir7/page7.html?id=7", "http://a.test/dir7/page7.html?id=x"]
    evidence.meet(noted("http://a.test/one?id=1", text("one")))
    evidence.meet(noted("http://a.test/one?id=2", text("two")))
    assert len(read) == 4 and evidence.rules["param:id@http://a.test/"].disagreed == 1
    evidence.meet(noted("http://a.test/one?id=3", text("three")))
    assert len(read) == 4, "the rule was wrong before"


def test_bodies_that_are_not_read_are_bounded() -> None:
    evidence = Evidence(bodies=1_000)
    evidence.meet(page("http://a.test/x?sid=0", text("x")))
    for n in range(10):
        evidence.meet(page(f"http://a.test/other{n}", text(n)))
    assert evidence.meet(page("http://a.test/x?sid=1", text("x"))) == []
    (verdict,) = evidence.meet(page("http://a.test/x?sid=2", text("x")))
    assert verdict.agreed, "a page that was given up leaves its place to the next"


def test_of_a_site_with_rules_some_pages_are_remembered_for_tests() -> None:
    rule = "param:sid@http://a.test/"
    for active in ([], [rule]):
        evidence = Evidence(bodies=1)
        urls = [f"http://a.test/x{n}" for n in range(40)]
        for url in urls:
            evidence.meet(page(url, text(url)), active)
        known = [url for url in urls if evidence.knows(rule, url)]
        assert bool(known) is bool(active) and len(known) < 20
    (verdict,) = evidence.meet(page(f"{known[0]}?sid=1", text("other")), [rule])
    assert not verdict.agreed


def words_of(blocks: Blocks, chosen: Any, ids: set[bytes]) -> tuple[list[list[bytes]], int]:
    """Plain: the words of each chosen block, without ids."""
    said = blocks.octets.tobytes().lower()
    rows = blocks.rows[chosen][:, [START, END]].tolist()
    found = [
        [word for word in re.findall(rb"[0-9a-z\x80-\xff]+", said[start:end]) if word not in ids]
        for start, end in rows
    ]
    return [each for each in found if each], sum(map(len, found))


@given(st.lists(st.text("aB1é -.,_&;", max_size=30), max_size=5), st.sampled_from(["", "aaaa1111bbbb"]))
def test_words_by_the_kernel_are_those_of_plain_python(parts: list[str], mark: str) -> None:
    def digests(blocks: Blocks) -> tuple[int, int, int]:
        digest, total, words = news_kernels.said(
            blocks.octets, blocks.rows, chosen_of(blocks), hashes, LEAST_ID
        )
        return int(digest), int(total), int(words)

    def chosen_of(blocks: Blocks) -> Any:
        return np.ones(len(blocks), np.bool_)

    ids = {mark.encode()} - {b""}
    hashes = np.array([fnv(each) for each in ids], np.uint64)
    body = "".join(f"<p>{part} {mark.upper()}</p>" for part in parts)
    blocks = Blocks(body.encode())
    found, count = words_of(blocks, chosen_of(blocks), ids)
    digest, total, words = digests(blocks)
    assert words == count
    assert digest == int(change_kernels.digest(blocks.octets, blocks.rows, chosen_of(blocks)))
    again = Blocks("".join(f"<p>{b' '.join(each).decode()}</p>" for each in reversed(found)).encode())
    assert digests(again)[1:] == (total, words), "the words of each block, in any order of the blocks"
    other = Blocks("".join(f"<p>{b' x '.join(each).decode()} x</p>" for each in found).encode())
    assert not found or digests(other)[1] != total
