"""What is a change? The digest of a page's content, and how alike two versions are.

Bytes are no signal: nearly every byte change of a real page is a date, a counter, a nonce or another advertisement.
`content_digest` is a 64-bit number that is the same for two versions of a page that say the same:

- Only *main blocks* count: not navigation, headers and footers of the site, sidebars, shares, advertisements,
  banners for consent, forms, and blocks that are mostly links. A page that has next to nothing else is a list,
  and its links count.
- Of a block its *normal form*: words in lower case, without markup and punctuation, without words of dates and
  times, counters (numbers beside words such as `views`, `comments`, `minutes`), numbers in blocks of less than
  eight words, dates and times in figures, and ids (twelve or more letters and digits mixed). Numbers in prose
  count, and so do prices, percentages and versions (`$12`, `3.5 %`, `2.1`) anywhere.
- The digest is the sum of the hashes of the blocks, so that the same blocks in another order are no change: lists
  rotate.

A digest of 0 says that there is no content. Digests have no seed and can be compared between crawls.

Links are a signal of their own (`links_digest`): a page whose text stays and whose links change is a hub that
leads to new pages. How much has changed (`version_of`, `Version.like`) is told by sketches of the main text, for
whoever can afford to have it; the digest is made without (about 100 µs for 22 KB).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from lycosa.content import change_kernels as kernels
from lycosa.content.blocks import Blocks, octets
from lycosa.content.main_text import main_text
from lycosa.content.sketches import Sketch, sketch


def content_digest(page: str | bytes, charset: str = "utf-8") -> int:
    """The 64-bit digest of what a page says; of HTML, or of plain text. 0 if it says nothing."""
    blocks = Blocks(octets(page, charset))
    chosen = np.empty(len(blocks), np.bool_)
    kernels.choose(blocks.rows, blocks.elements, chosen)
    return int(kernels.digest(blocks.octets, blocks.rows, chosen))


def links_digest(urls: Iterable[str]) -> int:
    """The 64-bit digest of a set of URLs, whatever their order; 0 if there are none."""
    known = {xxh3_64_intdigest(url.encode("utf-8", "surrogatepass")) for url in urls}
    return sum(known) % (1 << 64) if known else 0


class Version(msgspec.Struct, frozen=True):
    """What a page said at a fetch."""

    digest: int
    links: int
    sketch: Sketch

    def same(self, other: Version) -> bool:
        """Whether both say the same."""
        return self.digest == other.digest

    def like(self, other: Version) -> float:
        """How much of the main text is the same, 0 to 1; 1 if nothing that counts has changed."""
        return 1.0 if self.same(other) else self.sketch.like(other.sketch)


def version_of(page: str | bytes, urls: Iterable[str] = (), charset: str = "utf-8") -> Version:
    """A version of a page, with the URLs that it links to."""
    return Version(content_digest(page, charset), links_digest(urls), sketch(main_text(page, charset).text))
