"""Digests of bodies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lycosa.page.fingerprint import digest


def test_digest() -> None:
    assert digest(b"") == 0
    assert digest(b"a") == 0xE6C632B61E964E1F  # XXH3_64bits("a")
    assert digest(b"a") != digest(b"b")
    assert digest(b"a") == 0xE6C632B61E964E1F, "the same in every crawl: logs hold it"


@given(st.binary(min_size=1))
def test_digest_is_64_bits_and_not_zero(body: bytes) -> None:
    assert 0 < digest(body) < 2**64
