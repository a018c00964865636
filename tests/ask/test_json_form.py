"""JSON that a terminal may show."""

from __future__ import annotations

import json
import sys
import unicodedata

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lycosa.ask.json_form import safe, safe_text


def test_exactly_what_a_terminal_could_obey_is_escaped() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        category = unicodedata.category(char)
        written = safe_text(f'"{char}"') if code >= 32 and char not in '"\\' else ""
        if category in ("Cc", "Cf", "Cs", "Zl", "Zp") and written:
            assert written.isascii() and written[1] == "\\", hex(code)
            assert json.loads(written) == char
        elif written and category != "Cn":  # what is not assigned may become such a character
            assert written[1] == char, hex(code)


@given(
    st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_it_is_the_same_document(value: object) -> None:
    written = safe(msgspec.json.encode(value))
    assert msgspec.json.decode(written) == value
    assert all(
        char.isprintable() or unicodedata.category(char) in ("Zs", "Co", "Cn") for char in written.decode()
    )
    assert safe_text(json.dumps(value, ensure_ascii=False)).encode() is not None
