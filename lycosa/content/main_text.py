"""The main text of a page: its proper content, without the parts that are on every page of its site.

A page is cut into blocks (`blocks`); features of every block are measured (`feature_kernels`), and two small sets
of decision trees estimate how likely it belongs to the main text: the first by these features, the second also by
the first one's scores of its neighbours, of the parts of the page around it, and of blocks of the same shape.
Blocks above `LIMIT` are the main text. If those are next to nothing, the limit is lowered; a page all of whose text
is doubtful keeps everything that is not navigation.

The trees are fitted to the development part of WCXB (articles, forums, lists, products, documentation, collections,
services) by `benchmarks/main_text_fit.py`, and lie in `main_text.model`:

    model   = magic u32 first second
    magic   = "lytx"
    first   = trees                    for features
    second  = trees                    for features and what `widen` adds
    trees   = count u16, depth u16, base f32, columns u8{count, 2^depth - 1}, limits f32{same},
              leaves f32{count, 2^depth}

All integers are little-endian. The same page gives the same text on every machine. Cost: about 1 ms for 100 KB
of HTML; linear in the page, whatever is in it.
"""

from __future__ import annotations

import re
import struct
from functools import cache
from itertools import compress
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from lycosa.content import feature_kernels, text_kernels, tree_kernels
from lycosa.content.block_kernels import ABOVE, CHARS, ELEMENT, LINKED, TAG, WORDS
from lycosa.content.blocks import Blocks, octets
from lycosa.content.name_kernels import MARKS, TAGS

MAGIC: Final = b"lytx"
LIMIT: Final = 0.35
"""The least score of main text. A lower one gains little F1 (.002 at .3) but leaks a fifth more boilerplate."""
FEW: Final = 12
"""A main text of fewer words is doubtful."""

_MODEL = Path(__file__).with_name("main_text.model")
_H1 = TAGS["h1"]
_LEVELS: Any = np.zeros(len(TAGS), np.int64)
_LEVELS[[TAGS[f"h{level}"] for level in range(1, 7)]] = range(1, 7)
_SEPARATOR = chr(text_kernels.SEPARATOR)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]")
_ELSEWHERE = sum(1 << MARKS.index(name) for name in ("nav", "footer", "navigation", "foot", "overlay"))


class Block(msgspec.Struct, frozen=True, gc=False):
    """A part of the main text."""

    text: str
    level: int = 0
    """The level of a heading, 1 to 6; 0: it is not a heading."""


class MainText(msgspec.Struct, frozen=True):
    """The title, main text and headings of a page."""

    title: str
    """The title element's text."""

    texts: list[str]
    """Its blocks."""

    levels: list[int] = []
    """The heading level of each block, 0 if it is not a heading. Empty: there are no headings."""

    language: str = ""
    """The root element's language, as given."""

    heading: str = ""
    """The page's one h1, whether or not it is part of the main text; empty if there are none or several."""

    @property
    def text(self) -> str:
        """All blocks, a line each (more, where there are line breaks within one)."""
        return "\n".join(self.texts)

    @property
    def blocks(self) -> list[Block]:
        levels = self.levels or [0] * len(self.texts)
        return list(map(Block, self.texts, levels))

    @property
    def headings(self) -> list[str]:
        """The texts of its headings."""
        return list(compress(self.texts, self.levels))


class Trees:
    """One scorer, as it is in the model."""

    def __init__(self, columns: Any, limits: Any, leaves: Any, base: float) -> None:
        self.columns, self.limits, self.leaves, self.base = columns, limits, leaves, base

    def score(self, rows: Any) -> Any:
        out = np.empty(len(rows), np.float32)
        tree_kernels.score(rows, self.columns, self.limits, self.leaves, self.base, out)
        return out

    def to_bytes(self) -> bytes:
        count, leaves = self.leaves.shape
        return struct.pack("<HHf", count, leaves.bit_length() - 1, self.base) + b"".join(
            np.ascontiguousarray(part, kind).tobytes()
            for part, kind in ((self.columns, "u1"), (self.limits, "<f4"), (self.leaves, "<f4"))
        )

    @staticmethod
    def from_bytes(data: bytes, at: int) -> tuple[Trees, int]:
        count, depth, base = struct.unpack_from("<HHf", data, at)
        at += 8
        parts = []
        for width, kind in (((1 << depth) - 1, "u1"), ((1 << depth) - 1, "<f4"), (1 << depth, "<f4")):
            part = np.frombuffer(data, kind, count * width, at).reshape(count, width)
            parts.append(part)
            at += part.nbytes
        columns, limits, leaves = (np.ascontiguousarray(part) for part in parts)
        return Trees(columns, limits, leaves, base), at


@cache
def model() -> tuple[Trees, Trees]:
    """Both scorers."""
    data = _MODEL.read_bytes()
    assert data[:4] == MAGIC, _MODEL
    first, at = Trees.from_bytes(data, 4)
    second, at = Trees.from_bytes(data, at)
    assert at == len(data), _MODEL
    return first, second


def scores(blocks: Blocks) -> Any:
    """For each block, how likely it belongs to the main text."""
    count = len(blocks)
    rows = np.zeros((count, feature_kernels.FEATURES + feature_kernels.WIDER), np.float32)
    levels = np.empty((count, feature_kernels.LEVELS), np.int64)
    groups = np.empty(count, np.int64)
    kinds = feature_kernels.describe(blocks.octets, blocks.rows, blocks.elements, rows, levels, groups)
    first, second = model()
    said = first.score(rows)
    feature_kernels.widen(blocks.rows, kinds, levels, groups, blocks.elements, said, rows)
    return second.score(rows)


def chosen(blocks: Blocks) -> Any:
    """The numbers of the blocks that are the main text, in order."""
    if not len(blocks):
        return np.zeros(0, np.int64)
    said = scores(blocks)
    words = blocks.rows[:, WORDS]
    for limit in (LIMIT, LIMIT / 2, LIMIT / 5):
        found = np.nonzero(said > limit)[0]
        if words[found].sum() >= FEW:
            return found
    marks = blocks.elements[blocks.rows[:, ELEMENT], ABOVE]
    rest = np.nonzero((marks & _ELSEWHERE == 0) & (2 * blocks.rows[:, LINKED] <= blocks.rows[:, CHARS]))[0]
    return rest if len(rest) else np.arange(len(blocks))


def main_text(page: str | bytes, charset: str = "utf-8") -> MainText:
    """The main text of an HTML page; never raises."""
    blocks = Blocks(octets(page, charset))
    tags = blocks.elements[:, TAG][blocks.rows[:, ELEMENT]]
    numbers = chosen(blocks)
    texts, strange = _gathered(blocks, numbers)
    levels = _LEVELS[tags[numbers]].tolist()
    if strange and "" in texts:
        levels = [level for level, text in zip(levels, texts, strict=True) if text]
        texts = list(filter(None, texts))
    return MainText(clean(blocks.title), texts, levels, blocks.language, _first_heading(blocks, tags))


def _gathered(blocks: Blocks, numbers: Any) -> tuple[list[str], bool]:
    """The texts of some blocks, cleaned, and whether some may be empty."""
    if not len(numbers):
        return [], False
    out = np.empty(len(blocks.octets) + len(numbers), np.uint8)
    odd = np.empty(len(numbers), np.bool_)
    length, strange = text_kernels.gather(blocks.octets, blocks.rows, numbers, out, odd)
    texts = out[:length].tobytes().decode("utf-8", "replace").split(_SEPARATOR)
    if strange:
        for at in np.flatnonzero(odd).tolist():
            texts[at] = plain_text(blocks, int(numbers[at]))
    return texts, bool(strange)


def plain_text(blocks: Blocks, number: int) -> str:
    """The text of one block, cleaned."""
    return _without_mark(clean(blocks.text(number)))


def _first_heading(blocks: Blocks, tags: Any) -> str:
    numbers = np.flatnonzero(tags == _H1)
    return plain_text(blocks, int(numbers[0])) if len(numbers) == 1 else ""


def _without_mark(text: str) -> str:
    """The text without the sign that documentation puts after headings to link to them."""
    return text[:-1].rstrip() if text.endswith("¶") else text


def clean(text: str) -> str:
    """Text without control characters, lines without spaces around them, no empty lines."""
    if _CONTROL.search(text):
        text = _CONTROL.sub(" ", text)
    if "\n" in text:
        return "\n".join(line for line in (" ".join(part.split()) for part in text.split("\n")) if line)
    return text.strip()
