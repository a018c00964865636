"""What a transfer holds of a body, however the site cuts it into pieces."""

from __future__ import annotations

import sys
from random import Random

import pytest

from lycosa.fetch.curl import Transfer


def received(pieces: list[bytes]) -> Transfer:
    transfer = Transfer(1 << 16, None, False, None, [])
    transfer.body_limit = 1 << 30
    for piece in pieces:
        transfer._on_body(piece)
    transfer.curl.close()
    return transfer


@pytest.mark.parametrize("size", [1, 2, 3, 100, 2047])
def test_small_pieces_cost_their_bytes(size: int) -> None:
    """A list of pieces of two bytes takes forty times their bytes."""
    pieces = [bytes([n & 255]) * size for n in range(400_000 // size)]
    transfer = received(pieces)
    held = sys.getsizeof(transfer.parts) + sum(sys.getsizeof(part) for part in transfer.parts)
    assert held < 1.3 * transfer.size + 5000
    assert b"".join(transfer.parts) == b"".join(pieces)


def test_large_pieces_are_kept_as_they_came() -> None:
    """Whatever is copied once more would be copied for every page."""
    pieces = [bytes(20_000), bytes(16_384), bytes(2048)]
    assert all(kept is given for kept, given in zip(received(pieces).parts, pieces, strict=True))
    (only,) = received([b"a short page"]).parts
    assert isinstance(only, bytes)


def test_pieces_of_all_sizes_make_the_body() -> None:
    random = Random(1)
    for _ in range(50):
        pieces = [random.randbytes(random.choice((1, 2, 500, 2047, 2048, 5000))) for _ in range(60)]
        transfer = received(pieces)
        assert b"".join(transfer.parts) == b"".join(pieces)
        assert transfer.size == sum(map(len, pieces))
