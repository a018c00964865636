"""References are read as the HTML standard reads them, however many digits they have."""

from __future__ import annotations

import pytest

from lycosa.page.references import in_text, in_value
from lycosa.page.registry import Parsers


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a &amp; b", "a & b"),
        ("&#65;&#x41;&#X41", "AAA"),
        ("&#" + "0" * 5000 + "65;", "A"),
        ("&#x" + "0" * 5000 + "41;", "A"),
        ("&#" + "9" * 5000 + ";", "\ufffd"),
        ("&#x" + "f" * 5000 + "z", "\ufffdz"),
        ("&#00000000", "\ufffd"),
        ("&#0012345678;", "\ufffd"),
    ],
)
def test_references(text: str, plain: str) -> None:
    assert in_text(text) == plain


def test_a_value_keeps_what_looks_like_a_parameter() -> None:
    assert in_value("?a=1&copy=2&amp;b&lt;&notit;&not") == "?a=1&copy=2&b<&notit;¬"
    assert in_text("&copy=2 &notit; &not &unknown;") == "©=2 ¬it; ¬ &unknown;"


def test_a_long_number_costs_a_sitemap_nothing() -> None:
    body = (
        b"<urlset><url><loc>http://h/a&#"
        + b"9" * 5000
        + b";</loc></url><url><loc>http://h/b</loc></url></urlset>"
    )
    parsers = Parsers()
    assert parsers.read(body, "text/xml", "http://h/s.xml").hrefs == ["http://h/a\ufffd", "http://h/b"]
    assert parsers.failed == 0
