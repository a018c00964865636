"""What the index is given of a page."""

from __future__ import annotations

import msgspec

from lycosa.ask.indexed_text import read_text
from lycosa.records import NO_LINKS, Fetched, Timing


def record(title: str = "") -> Fetched:
    return Fetched(
        at=1, url="http://a.test/", depth=0, hops=0, attempt=0, status=200, type="text/html", charset="utf-8",
        size=1, length=1, digest=1, timing=Timing(1, 2, 3, 4), address="127.0.0.1", links=NO_LINKS, title=title,
    )  # fmt: skip


def test_a_heading_outside_of_the_main_text_is_part_of_the_page() -> None:
    words = (
        "Pages of this kind are long enough to be the main text of the page, sentence after sentence. " * 8
    )
    menu = "".join(f"<li><a href=/{n}>Menu {n}</a></li>" for n in range(20))
    body = f"<header><h1>Strong encryption</h1><ul>{menu}</ul></header><main><p>{words}</p></main>".encode()
    found = read_text(body, record("The site"))
    assert found.text.startswith("Strong encryption\n") and found.text.count("Strong encryption") == 1
    assert found.headings == "Strong encryption" and found.title == "The site"
    assert read_text(body, record()).title == "Strong encryption"
    assert read_text(b"", record("kept")).title == "kept"


def test_a_document_without_a_title_has_its_first_line() -> None:
    plain = msgspec.structs.replace(record(), type="text/plain")
    assert read_text(b"The echidna\n\nIt lays eggs.", plain).title == "The echidna"
    assert read_text(b"word " * 50, plain).title == ""
    assert read_text(b"<p>The echidna<p>It lays eggs.", record()).title == ""
