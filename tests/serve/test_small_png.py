"""Pictures stay what they are when they are made small; and those of the docs are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.serve.small_png import decoded, small

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def test_the_pictures_of_the_docs_are_small() -> None:
    found = {path.name: path.stat().st_size for path in IMAGES.glob("*.png")}
    assert len(found) >= 5 and max(found.values()) < 60_000, found


def test_a_picture_has_nearly_the_colours_that_it_had() -> None:
    import struct
    import zlib

    random = np.random.default_rng(7)
    pixels = random.integers(0, 256, (9, 7, 3), np.uint8)
    above, raw = np.zeros(21, np.uint8), b""
    for number, row in enumerate(pixels.reshape(9, 21)):  # as each filter writes it
        left = np.concatenate([np.zeros(3, np.uint8), row[:-3]])
        kind = number % 3
        raw += bytes([kind]) + (row - (0, left, above)[kind]).astype(np.uint8).tobytes()
        above = row

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 7, 9, 8, 2, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    assert (decoded(data) == pixels).all()
    assert small(data).startswith(b"\x89PNG") and b"PLTE" in small(data)
