"""News: whether a page has text that was not on its site, or on its domain, before.

A page is cut into blocks, as for the digest of its content (`change`): those in the main part, in their normal
form, without dates, counters and ids. A block is known if a page of the site had it before. A page that echoes its
own address ("/no/such/page was not found") would be new each time, so a block is also known if it is known without
the words of the page's URL. Pictures and other media count as blocks, by their URLs. A body that is not text is a
single block of its bytes.

A page is *news* if at least the share `SHARE` of its words is in unknown blocks.

Of each block 32 bits are kept in a table of fixed size; a new one replaces an old one, so blocks not met for long
are forgotten, and count as news again, which loses nothing. The table is a cache and in no snapshot: after a
restart it is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import numpy as np
from xxhash import xxh3_64_intdigest

from lycosa.content import change_kernels, news_kernels
from lycosa.content.blocks import Blocks, octets

SLOTS: Final = 1 << 17
"""The most blocks that are remembered for a shard: 4 bytes each."""
SHARE: Final = 0.2
FEW: Final = 12
"""A page of fewer words cannot be judged: it may be made by a script."""
_MEDIA = 4
"""Words that a picture counts as."""
_NAMES = 256
"""Slots of the table of a URL's tokens: half of them can be taken."""
_PATH = 2_000


class Said:
    """The blocks of a page: a row for each, hashed whole and without the words of the page's URL."""

    def __init__(self, whole: Any, bare: Any, words: Any) -> None:
        self.whole, self.bare, self.words = whole, bare, words

    @staticmethod
    def by_text(page: bytes, charset: str, url: str, media: Sequence[str]) -> Said:
        """The blocks of HTML or plain text, with the URLs of its media."""
        blocks = Blocks(octets(page, charset))
        chosen = np.empty(len(blocks), np.bool_)
        change_kernels.choose(blocks.rows, blocks.elements, chosen)
        whole, bare = np.empty((2, len(blocks)), np.uint64)
        words = np.empty(len(blocks), np.int64)
        names = names_of(url)
        count = news_kernels.hashes(blocks.octets, blocks.rows, chosen, names, whole, bare, words)
        if not media:
            return Said(whole[:count], bare[:count], words[:count])
        pictures = np.array([xxh3_64_intdigest(each.encode()) for each in media], np.uint64)
        return Said(
            np.concatenate([whole[:count], pictures]),
            np.concatenate([bare[:count], pictures]),
            np.concatenate([words[:count], np.full(len(media), _MEDIA, np.int64)]),
        )

    @property
    def is_telling(self) -> bool:
        """Whether there is enough text to judge by."""
        return bool(self.words.sum() >= FEW)

    @staticmethod
    def by_digest(digest: int) -> Said:
        """The single block of any other body."""
        one = np.array([digest], np.uint64)
        return Said(one, one, np.full(1, FEW, np.int64))


def names_of(url: str) -> Any:
    """The tokens of a URL's path and query that a page may echo, as a table; not those of its host."""
    table = np.zeros(_NAMES, np.uint64)
    path = url[url.find("/", url.find("://") + 3) :][:_PATH].encode("ascii", "ignore")
    if b"%" in path:
        path += b" " + unquote_to_bytes(path)
    change_kernels.tokens(np.frombuffer(path, np.uint8), table)
    return table


class Memory:
    """The blocks met so far on one shard's sites and domains."""

    def __init__(self) -> None:
        self._table = np.zeros(SLOTS, np.uint32)

    def meet(self, said: Said, place: str) -> float:
        """The share of a page's words that is new in a place (a site or a domain); from now on they are known
        there."""
        salt = np.uint64(xxh3_64_intdigest(place.encode("utf-8", "surrogatepass")))
        words, fresh = news_kernels.meet(self._table, salt, said.whole, said.bare, said.words)
        return fresh / words if words else 0.0

    def is_news(self, said: Said, place: str) -> bool:
        """Whether enough of a page is new in a place."""
        return self.meet(said, place) >= SHARE
