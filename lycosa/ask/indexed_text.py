"""What the search index is given from a body: title, headings, main text and language. This is decided only
here."""

from __future__ import annotations

from typing import NamedTuple

from lycosa.content.documents import HTML, PDF, PLAIN, is_office, read
from lycosa.content.language import language
from lycosa.records import Fetched

_MOST_HEADINGS = 200
_TITLE = 120
"""Most characters of a line that may serve as a title."""


class ReadText(NamedTuple):
    """The text extracted from a body."""

    title: str
    headings: str
    text: str
    language: str


def is_indexed(media: str) -> bool:
    """Whether pages of a media type are indexed."""
    return media in HTML or media in PLAIN or media == PDF or is_office(media)


def read_text(body: bytes, record: Fetched) -> ReadText:
    """The text of a page; of an empty body, only its title."""
    if not body:
        return ReadText(record.title, "", "", "")
    found = read(body, record.type, record.charset)
    headings, said = found.headings[:_MOST_HEADINGS], found.text
    text = said
    if (
        found.heading and found.heading not in headings
    ):  # what a page calls itself belongs to it, wherever it is
        headings.insert(0, found.heading)
        text = f"{found.heading}\n{text}"
    title = record.title or found.title or found.heading
    if not title and record.type not in HTML and len(line := said.partition("\n")[0]) <= _TITLE:
        title = line  # a document that does not say its title begins with it
    return ReadText(title, "\n".join(headings), text, language(said, found.language))
