"""The query language: what it means, and that it takes anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.index.query import Dates, Filter, Group, Phrase, Word, day_of, parse

A, B = Filter("site", "a.org"), Filter("site", "b.org")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a b", Group(should=(Word("a"), Word("b")))),
        ("a OR b", Group(should=(Word("a"), Word("b")))),
        ("+a b -c", Group((Word("a"),), (Word("b"),), (Word("c"),))),
        ("a NOT b", Group(should=(Word("a"),), never=(Word("b"),))),
        ("a AND b c", Group(should=(Group(must=(Word("a"), Word("b"))), Word("c")))),
        ("a AND (b OR c)", Group(should=(Group(must=(Word("a"), Group(should=(Word("b"), Word("c"))))),))),
        ('"a b" x*', Group(should=(Phrase("a b"), Word("x", prefix=True)))),
        (
            '"a b"~3 x~ y~2',
            Group(should=(Phrase("a b", slop=3), Word("x", distance=1), Word("y", distance=2))),
        ),
        ("site:Example.org/a/b x", Group((Filter("site", "example.org/a/b/"),), (Word("x"),))),
        ("site:https://example.org/", Group((Filter("site", "example.org"),))),
        ("intitle:a inurl:b", Group((Word("a", "title"), Word("b", "address")))),
        ("-site:a.org x", Group((), (Word("x"),), (Filter("site", "a.org"),))),
        ("before:1970-01-02", Group((Dates(end=86_400_000),))),
        ("and or not", Group(should=(Word("and"), Word("or"), Word("not")))),
        ("http://a/b", Group(should=(Word("http://a/b"),))),
        ("", Group()),
        ("()", Group()),
        ("AND OR NOT", Group()),
        ("site:a.org OR site:b.org x", Group((Group(should=(A, B)),), (Word("x"),))),
        ("site:a.org x OR site:b.org", Group((A, B), (Word("x"),))),
        ("site:a.org site:b.org", Group((A, B))),
        ("site:(a.org b.org) x", Group((Group(should=(A, B)),), (Word("x"),))),
        ("site:a.org OR x", Group((A,), (Word("x"),))),
        ("x AND site:a.org", Group((A,), (Word("x"),))),
        ("-site:(a.org b.org)", Group(never=(Group(should=(A, B)),))),
        ("intitle:(a -b)", Group((Group(should=(Word("a", "title"),), never=(Word("b", "title"),)),))),
        ("intitle:(a inurl:b)", Group((Group((Word("b", "address"),), (Word("a", "title"),)),))),
        ("filetype:pdf", Group((Filter("type", "pdf"),))),
    ],
)
def test_trees(text: str, tree: Group) -> None:
    assert parse(text).tree == tree


def test_what_cannot_be_used_is_said() -> None:
    query = parse("before:yesterday words")
    assert query.tree == Group(should=(Word("words"),))
    assert "before:yesterday is no date" in query.notes[0]
    assert parse("x " * 600).notes == ("only the first 500 words were read",)
    assert parse(f"a {'b' * 1001}* c").tree == Group(should=(Word("a"), Word("c")))
    assert parse("b" * 1001).notes == ("words of more than 1,000 characters are left out",)
    assert day_of("2024-13") is None and day_of("0000") is None


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("(a b", "a parenthesis is not closed"),
        ("a) b", "a parenthesis is closed that was not opened"),
        ('a "b c', "a quotation mark is not closed"),
        ('-"b c', "a quotation mark is not closed"),
        ("site: a.org", "site: has no value: write it without a space, like site:word"),
        ("-", ""),
        ("(a)", ""),
        ('"a b" +"c" intitle:"d"~2', ""),
    ],
)
def test_notes(text: str, note: str) -> None:
    assert parse(text).notes == ((note,) if note else ())


def test_words_that_may_be_misspelled() -> None:
    assert parse('a b* c~ "d e" -f').words == ["a", "d e"]


@given(st.text(alphabet='ab ()"+-~*:^ANDOR\x00“”site', max_size=80) | st.text(max_size=80))
def test_anything_is_a_query(text: str) -> None:
    assert parse(text).text == text


def test_deep_groups() -> None:
    parse("(" * 20_000)
    parse("(a " * 5000)


def test_bytes_that_are_no_text() -> None:
    assert parse("site:\udc80x a").tree == Group((Filter("site", "?x"),), (Word("a"),))
