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
"""

from __future__ import annotations

import numpy as np

from lycosa.content import change_kernels as kernels
from lycosa.content.blocks import Blocks, octets


def content_digest(page: str | bytes, charset: str = "utf-8") -> int:
    """The 64-bit digest of what a page says; of HTML, or of plain text. 0 if it says nothing."""
    blocks = Blocks(octets(page, charset))
    chosen = np.empty(len(blocks), np.bool_)
    kernels.choose(blocks.rows, blocks.elements, chosen)
    return int(kernels.digest(blocks.octets, blocks.rows, chosen))
