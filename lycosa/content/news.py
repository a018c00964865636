"""News: whether a page says anything that its site, or its domain, has not said before.

A page is cut into blocks, as for the digest of its content (`change`): those in the main part, in their normal
form, without dates, counters and ids. A block is known if a page of the site had it before. A page that echoes its
own address ("/no/such/page was not found") would be new each time, so a block is also known if it is so without the
words of the page's URL. Pictures and other media count as blocks, by their URLs. Of what is no text, the bytes are
the one block.

A page is *news* if the known blocks leave at least `SHARE` of its words.

Blocks are remembered by 32 bits each in a table of fixed size; a new one takes the place of an old one, so what was
not met for long is forgotten, and counts as news again: the error that loses nothing. The table is a cache, in no
snapshot: after a restart it is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from xxhash import xxh3_64_intdigest

from lycosa.content import change_kernels, news_kernels
from lycosa.content.block_kernels import START
from lycosa.content.blocks import Blocks, octets
from lycosa.content.patterns import words_of_url

SLOTS: Final = 1 << 17
"""Blocks that are remembered for a shard, at most: 4 bytes each."""
SHARE: Final = 0.2
FEW: Final = 12
"""Words below which nobody can tell whether a page says the same as another: it may be made by a script."""
_MEDIA = 4
"""Words that a picture is worth."""
_PLACE = np.uint64(SLOTS - 1)


class Said:
    """What a page says: a row for each block, whole and without the words of its URL."""

    def __init__(self, whole: Any, bare: Any, words: Any) -> None:
        self.whole, self.bare, self.words = whole, bare, words

    @staticmethod
    def by_text(page: bytes, charset: str, url: str, media: Sequence[str]) -> Said:
        """Of HTML or plain text, with the URLs of its media."""
        blocks = Blocks(octets(page, charset))
        chosen = np.empty(len(blocks), np.bool_)
        change_kernels.choose(blocks.rows, blocks.elements, chosen)
        room = len(blocks)
        whole, words = np.zeros(room, np.uint64), np.zeros(room, np.int64)
        count = news_kernels.hashes(blocks.octets, blocks.rows, chosen, whole, words)
        bare = whole
        text = blocks.octets.tobytes().lower() if count else b""
        without = _without(text, words_of_url(url))
        if without is not None:
            bare = _again(blocks, chosen, whole, text, without)
        pictures = np.array([xxh3_64_intdigest(each.encode()) for each in media], np.uint64)
        entire = np.concatenate([whole[:count], pictures])
        return Said(
            entire,
            entire if bare is whole else np.concatenate([bare[:count], pictures]),
            np.concatenate([words[:count], np.full(len(media), _MEDIA, np.int64)]),
        )

    @property
    def is_telling(self) -> bool:
        """Whether there is enough of it to go by."""
        return bool(self.words.sum() >= FEW)

    @staticmethod
    def by_digest(digest: int) -> Said:
        """Of anything else."""
        one = np.array([digest], np.uint64)
        return Said(one, one, np.full(1, FEW, np.int64))


def _again(blocks: Blocks, chosen: Any, whole: Any, text: bytes, without: bytearray) -> Any:
    """The hashes of the blocks of another text of the same length; only of those in which it differs."""
    stripped = np.frombuffer(without, np.uint8)
    places = np.flatnonzero(np.frombuffer(text, np.uint8) != stripped)
    touched = np.zeros(len(blocks), np.bool_)
    touched[np.searchsorted(blocks.rows[:, START], places, "right") - 1] = True
    touched &= chosen
    bare = whole.copy()
    found, words = np.zeros(len(blocks), np.uint64), np.zeros(len(blocks), np.int64)
    count = news_kernels.hashes(stripped, blocks.rows, touched, found, words)
    bare[np.cumsum(chosen)[touched] - 1] = found[:count]
    return bare


def _without(text: bytes, words: Sequence[bytes]) -> bytearray | None:
    """A text in lower case, with blanks in the place of some words; None if it has none of them."""
    found: bytearray | None = None
    for word in words:
        at = text.find(word)
        while at >= 0:
            end = at + len(word)
            if not text[at - 1 : at].isalnum() and not text[end : end + 1].isalnum():
                found = found or bytearray(text)
                found[at:end] = b" " * len(word)
            at = text.find(word, end)
    return found


class Memory:
    """Which blocks were met, of one shard's sites and domains."""

    def __init__(self) -> None:
        self._table = np.zeros(SLOTS, np.uint32)

    def meet(self, said: Said, place: str) -> float:
        """The share of a page's words that is new in a place (a site or a domain), which knows them from now on."""
        salt = np.uint64(xxh3_64_intdigest(place.encode("utf-8", "surrogatepass")))
        words, count = said.words.sum(), len(said.words)
        hashes = said.whole if said.bare is said.whole else np.concatenate((said.whole, said.bare))
        mixed = (hashes ^ salt) * np.uint64(0x9E3779B97F4A7C15)
        slots = ((mixed >> np.uint64(20)) & _PLACE).astype(np.intp)
        marks = (mixed >> np.uint64(40)).astype(np.uint32) | np.uint32(1 << 31)
        unmet = (self._table[slots] != marks) & (hashes != 0)
        fresh = unmet[:count] & unmet[-count:] if count else unmet
        self._table[slots] = marks
        # A block without its URL's words may be all gone: then it said nothing else.
        return float(said.words[fresh].sum() / words) if words else 0.0

    def is_news(self, said: Said, place: str) -> bool:
        """Whether enough of a page is new in a place."""
        return self.meet(said, place) >= SHARE
