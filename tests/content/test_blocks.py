"""Pages cut into blocks: what is text, where blocks end, what elements are around them; and how much is read for
it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.content.block_kernels import ABOVE, CHARS, DEEP, ELEMENT, LINKED, LINKS, PARENT, WORDS
from lycosa.content.blocks import MOST, Blocks, octets
from lycosa.content.name_kernels import MARKS


def texts(page: str) -> list[str]:
    blocks = Blocks(page.encode())
    return [blocks.text(n) for n in range(len(blocks))]


def marks(page: str) -> list[set[str]]:
    blocks = Blocks(page.encode())
    above = [int(blocks.elements[row[ELEMENT], ABOVE]) for row in blocks.rows]
    return [{name for n, name in enumerate(MARKS) if mask >> n & 1} for mask in above]


CASES = {
    "<p>one <b>two</b>  three\n four</p>five": ["one two three four", "five"],
    "<p>one<p>two<div>three<ul><li>four<li>five</ul>": ["one", "two", "three", "four", "five"],
    "a<br>b<br><br>c": ["a\nb", "c"],
    "<pre>a\n  b\nc</pre>": ["a\nb\nc"],
    "a<script>if (1 < 2) '</p>'</script>b<style>p{}</style>c": ["a", "b", "c"],
    "<title>T</title>x": ["x"],
    "a<!-- b --> c<!-->d": ["a cd"],
    "x &amp; y &lt;z&gt; caf&eacute;&nbsp;!": ["x & y <z> café !"],
    "a < b and 1<2": ["a < b and 1<2"],
    "<svg><title>no</title><text>no</text></svg>yes": ["yes"],
    "<svg>never closed": ["never closed"],
    "<noscript><p>all of a thread</p></noscript>": ["all of a thread"],
    "<table><tr><td>a<td>b<tr><td>c</table>": ["a", "b", "c"],
    "<p class='a>b'>x</p>": ["x"],
    "<p>x": ["x"],
    "": [],
    "<": ["<"],
    "</": [],
    "<script>": [],
    "中文<p>日本語": ["中文", "日本語"],
}


@pytest.mark.parametrize("page", CASES)
def test_blocks(page: str) -> None:
    assert texts(page) == CASES[page]


def test_marks_come_from_names_classes_ids_and_roles() -> None:
    assert marks("<nav>x</nav>y") == [{"nav"}, set()]
    assert marks("<div class='leftSidebar'><p>x") == [{"p", "side"}]
    assert marks("<div role=navigation>x</div><div id=cookie-banner>y</div>")[0] == {"navigation"}
    assert marks("<div hidden>x</div><div style='DISPLAY : none'>y</div>z") == [{"unseen"}, {"unseen"}, set()]
    assert marks("<body class=sidebar><p>x") == [{"p"}], "words about the whole page are none of a block"


def test_counts() -> None:
    blocks = Blocks(b"<p>One <a href=/x>two three</a>, four. <a>five</a></p>")
    row = blocks.rows[0]
    assert (row[WORDS], row[CHARS], row[LINKED], row[LINKS]) == (5, 21, 8, 1)
    assert Blocks(b"<html lang=de-AT><title> A\n &amp; b </title>").language == "de-AT"
    assert Blocks(b"<html lang=de-AT><title> A\n &amp; b </title>").title == "A & b"


def test_charsets() -> None:
    assert octets("grün".encode("utf-16-le"), "utf-16le") == "grün".encode()
    assert octets(b"gr\xfcn", "windows-1252") == "grün".encode()
    assert octets(b"\xef\xbb\xbfx") == b"x"
    assert octets("\ud800") == b"?"
    assert octets(b"x", "no such charset") == b"x"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300) | st.lists(st.sampled_from(
    ["<p>", "</p>", "<div class=nav>", "</div>", "<a href=x>", "</a>", "word ", "<br>", "<table>", "<td>",
    "<li>", "<ul>",
     "</ul>", "<script>", "</script>", "<!--", "-->", "&amp;", "<", ">", '"', "=", "<svg>", "</svg>", "\x00", "é"]
)).map(lambda parts: "".join(parts).encode()))  # fmt: skip
def test_any_bytes_can_be_cut(data: bytes) -> None:
    blocks = Blocks(data)
    for n in range(len(blocks)):
        assert blocks.text(n)
    assert all(blocks.elements[n, PARENT] < n for n in range(len(blocks.elements)))


def test_depth_and_rows_are_bounded() -> None:
    blocks = Blocks(b"<div>" * 200_000 + b"x")
    assert (len(blocks.elements), len(blocks)) == (DEEP, 1)
    blocks = Blocks(b"<p>x" * 300_000)
    assert len(blocks) == len(blocks.elements) == MOST
    assert len(blocks.octets) == 300_000, "no text is lost"


HOSTILE = {
    "nested": ("<div>", ""),
    "nested, and ends that fit nothing": ("<div></p>", ""),
    "attributes": ("", " a=b"),
    "quotes that never close": ("", " a='\""),
    "angles": ("<", ""),
    "comments that never close": ("<!--", ""),
    "raw text that never closes": ("<svg>", ""),
    "ends of nothing": ("</section>", ""),
    "list items": ("<li><b>", ""),
    "cells": ("<td><table>", ""),
    "class words": ("", " class=nav-menu-side"),
    "text": ("word ", ""),
}
_COUNT = """
import json, sys
import numpy as np
from lycosa.content import block_kernels as kernels

class Counted:
    def __init__(self, data):
        self.data, self.size, self.reads = data, len(data), 0
    def __getitem__(self, at):
        self.reads += 1
        return self.data[at]

np.seterr(all="ignore")
out = {}
for name, (unit, attribute) in json.load(sys.stdin).items():
    for size in (3_000, 12_000):
        page = unit * (size // len(unit)) if unit else "<p" + attribute * (size // len(attribute)) + ">x"
        data = Counted(np.frombuffer(page.encode(), np.uint8))
        rows = page.count("<") + 2
        kernels.cut(data, np.empty(len(page) + 8, np.uint8), np.empty((rows, kernels.COLUMNS), np.int64),
                    np.empty((rows, kernels.ROW), np.int64), np.empty(5, np.int64))
        out[f"{name}, {size}"] = data.reads / data.size
json.dump(out, sys.stdout)
"""


def test_a_page_is_read_a_bounded_number_of_times_whatever_is_in_it() -> None:
    """The kernels run as plain Python here, on bytes that count how often they are read."""
    done = subprocess.run(
        [sys.executable, "-c", _COUNT],
        input=json.dumps(HOSTILE), capture_output=True, text=True, check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    reads = json.loads(done.stdout)
    assert len(reads) == 2 * len(HOSTILE)
    assert {name: each for name, each in reads.items() if each > 16} == {}
