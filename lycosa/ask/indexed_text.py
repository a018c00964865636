"""What the search index is given of a body: title, headings, main text and language. The one place that decides
it."""

from __future__ import annotations

from typing import NamedTuple

from turbohtml import parse as parse_html

from lycosa.index.words import base_language
from lycosa.page.encodings import decode
from lycosa.page.protocol import LIMITS
from lycosa.page.sniff import HTML, PLAIN, XHTML
from lycosa.page.text import text_of
from lycosa.records import Fetched

INDEXED = frozenset((HTML, XHTML, PLAIN))
"""Types of pages that are indexed."""
_MOST_HEADINGS = 200


class ReadText(NamedTuple):
    """What a body says."""

    title: str
    headings: str
    text: str
    language: str


def read_text(body: bytes, record: Fetched) -> ReadText:
    """The text of a page; of an empty body, its title."""
    if not body:
        return ReadText(record.title, "", "", "")
    headings: list[str] = []
    language = ""
    if record.type in (HTML, XHTML):
        document = parse_html(decode(body[: LIMITS.body], record.charset), positions=False)
        root = document.find("html")
        if root is not None:
            language = base_language(str(root.attrs.get("lang") or ""))
        headings = [" ".join(found.text.split()) for found in document.select("h1,h2,h3")[:_MOST_HEADINGS]]
    text = text_of(body, record.type, record.charset, record.url)
    return ReadText(record.title, "\n".join(filter(None, headings)), text, language)
