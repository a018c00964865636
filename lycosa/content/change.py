"""Detecting changes: the digest of a page's content, and the similarity of two versions.

Bytes are not a useful signal: nearly every byte change of a real page is a date, a counter, a nonce or another
advertisement. `content_digest` is a 64-bit number that is the same for two versions of a page with the same
content:

- Only *main blocks* count: not navigation, headers and footers of the site, sidebars, shares, advertisements,
  banners for consent, forms, and blocks that are mostly links. A page that has next to nothing else is a list,
  and its links count.
- Of each block the *normal form* counts: words in lower case, without markup and punctuation, without words of
  dates and times, counters (numbers beside words such as `views`, `comments`, `minutes`), numbers in blocks of less
  than eight words, dates and times in figures, and ids (twelve or more letters and digits mixed). Numbers in prose
  count, and so do prices, percentages and versions (`$12`, `3.5 %`, `2.1`) anywhere.
- The digest is the sum of the hashes of the blocks, so that another order of the same blocks is not a change: lists
  rotate.

A digest of 0 means that there is no content. Digests have no seed and can be compared between crawls.
`content_words` gives, in plain Python, the words of which the digest is made: two versions are the same if their
blocks have the same words, in any order of the blocks.

The text that is indexed and shown (`main_text`) is different, and comparing it word by word would give
other answers: a model chooses its blocks by their surroundings, so that a change in one place may add or remove a
block elsewhere, and it keeps dates, counters and ids. A change must not depend on either.

Links are a separate signal (`links_digest`): a page whose text stays and whose links change is a hub that
leads to new pages. How much has changed (`version_of`, `Version.like`) is estimated from sketches of the main text,
which cost more; the digest does not need them (about 100 µs for 22 KB).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from lycosa.content import change_kernels as kernels
from lycosa.content.block_kernels import END, START, WORDS
from lycosa.content.blocks import Blocks, octets
from lycosa.content.main_text import main_text
from lycosa.content.sketches import Sketch, sketch

_TIMES, _UNITS = frozenset(kernels._TIMES.split()), frozenset(kernels._UNITS.split())
_LETTERS_C2 = frozenset((0xA2, 0xA3, 0xA5, 0xAA, 0xB2, 0xB3, 0xB9, 0xBA))


def content_digest(page: str | bytes, charset: str = "utf-8") -> int:
    """The 64-bit digest of the content of HTML or plain text; 0 if there is none."""
    blocks = Blocks(octets(page, charset))
    chosen = np.empty(len(blocks), np.bool_)
    kernels.choose(blocks.rows, blocks.elements, chosen)
    return int(kernels.digest(blocks.octets, blocks.rows, chosen))


def content_words(page: str | bytes, charset: str = "utf-8") -> list[list[str]]:
    """The words of the normal form of each block that counts, without blocks that have none."""
    blocks = Blocks(octets(page, charset))
    chosen = np.empty(len(blocks), np.bool_)
    kernels.choose(blocks.rows, blocks.elements, chosen)
    text = blocks.octets.tobytes()
    rows = blocks.rows[chosen][:, [START, END, WORDS]].tolist()
    return [found for start, end, words in rows if (found := _normal(text[start:end], words >= kernels.FEW))]


def _normal(text: bytes, prose: bool) -> list[str]:
    """The normal form of a block, as `change_kernels.normal` hashes it."""
    found: list[str] = []
    number = ""  # one that waits for the word after it
    after_number = after_unit = False
    for word, kind in _tokens(text, prose):
        if number and kind != "nothing":
            if kind not in ("unit", "time"):
                found.append(number)
            number = ""
        if kind in ("word", "kept") or (kind == "unit" and not after_number):
            found.append(word)
        elif kind == "number" and not after_unit:
            number = word
        after_unit, after_number = kind in ("unit", "time"), kind in ("number", "time")
    return [*found, number] if number else found


def _tokens(text: bytes, prose: bool) -> Iterator[tuple[str, str]]:
    """The tokens of a block, each with its kind."""
    at = 0
    while at < len(text):
        word, letters, figures, points, parts, signs, at = _token(text, at)
        at += 1
        if figures and letters:
            if letters + figures < kernels.LONG:  # else it is an id
                yield word, "kept"
        elif figures:
            if signs or (points == 1 and not parts):
                yield word, "kept"
            else:
                is_date = parts or (points > 1 and figures >= 6) or not prose
                yield word, "time" if is_date else "number"
        elif letters:
            yield word, "time" if word in _TIMES else "unit" if word in _UNITS else "word"


def _token(text: bytes, at: int) -> tuple[str, int, int, int, int, int, int]:
    """The next token, counts of its kinds of characters, and where it ends."""
    word = bytearray()
    letters = figures = points = parts = signs = 0
    while at < len(text):
        byte = text[at : at + 1].lower()
        before_figure = text[at + 1 : at + 2].isdigit()
        if byte.isalpha():
            letters += 1
        elif byte.isdigit():
            figures += 1
        elif byte == b"$":
            signs += 1
        elif byte >= b"\x80":
            if text[at : at + 2] == b"\xe2\x80" and at + 2 < len(text):
                at += 2
                break
            if byte == b"\xc2" and at + 1 < len(text) and text[at + 1] not in _LETTERS_C2:
                at += 1
                break
            letters += 1
        elif figures and not letters and before_figure:
            if byte == b",":
                at += 1
                continue
            if byte not in b".:/-":
                break
            points += byte == b"."
            parts += byte != b"."
        elif figures and byte == b"%":
            signs += 1
        elif byte == b"'" and letters:
            at += 1
            continue
        elif byte == b"&":
            end = text.find(b";", at + 1, at + 11)
            if end >= 0 and b" " not in text[at:end]:
                at = end
            break
        else:
            break
        word += byte
        at += 1
    return word.decode("utf-8", "replace"), letters, figures, points, parts, signs, at


def links_digest(urls: Iterable[str]) -> int:
    """The 64-bit digest of a set of URLs, whatever their order; 0 if there are none."""
    known = {xxh3_64_intdigest(url.encode("utf-8", "surrogatepass")) for url in urls}
    return sum(known) % (1 << 64) if known else 0


class Version(msgspec.Struct, frozen=True):
    """The content of a page at a fetch."""

    digest: int
    links: int
    sketch: Sketch

    def same(self, other: Version) -> bool:
        """Whether both have the same content."""
        return self.digest == other.digest

    def like(self, other: Version) -> float:
        """How much of the main text is the same, 0 to 1; 1 if nothing that counts has changed."""
        return 1.0 if self.same(other) else self.sketch.like(other.sketch)


def version_of(page: str | bytes, urls: Iterable[str] = (), charset: str = "utf-8") -> Version:
    """A version of a page, with the URLs that it links to."""
    return Version(content_digest(page, charset), links_digest(urls), sketch(main_text(page, charset).text))
