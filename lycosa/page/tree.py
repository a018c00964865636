"""The tree of a page, for programs: CSS selectors, XPath, texts and attributes of its elements.

    tree = tree_of(body, "utf-8")
    [heading.text for heading in tree.select("h1")], tree.select_one("link[rel=canonical]").attr("href")

It is turbohtml's tree, built as browsers build it from any bytes. It is not on the crawl's path: the crawl reads
links with a scanner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lycosa.page.encodings import decode

if TYPE_CHECKING:
    from turbohtml import Document


def tree_of(body: bytes, charset: str = "utf-8") -> Document:
    """The tree of some bytes; any bytes have one."""
    from turbohtml import parse

    return parse(decode(body, charset), positions=False)
