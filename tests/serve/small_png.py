"""PNG files of screens, made small: few colours, and one byte a pixel."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

_HEAD = b"\x89PNG\r\n\x1a\n"
Pixels = npt.NDArray[np.uint8]


def small(data: bytes) -> bytes:
    """The same picture, in at most 256 colours of a coarse grid."""
    pixels = decoded(data)
    for step in (17, 51):  # 16, then 6 values for each of red, green and blue
        coarse = (np.round(pixels / step) * step).astype(np.uint8)
        colours, which = np.unique(coarse.reshape(-1, 3), axis=0, return_inverse=True)
        if len(colours) <= 256:
            break
    height, width = pixels.shape[:2]
    rows = np.zeros((height, width + 1), np.uint8)  # each row begins with its filter: none
    rows[:, 1:] = which.reshape(height, width)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = (
        (b"IHDR", head),
        (b"PLTE", colours.tobytes()),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    return _HEAD + b"".join(_chunk(*part) for part in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def decoded(data: bytes) -> Pixels:
    """Red, green and blue of each pixel of a PNG as Chromium writes it: 8 bits each, not interlaced."""
    assert data.startswith(_HEAD)
    at, packed, head = len(_HEAD), b"", b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        head = body if kind == b"IHDR" else head
        packed += body if kind == b"IDAT" else b""
        at += size + 12
    width, height, bits, colour, *_, interlaced = struct.unpack(">IIBBBBB", head)
    assert bits == 8 and colour in (2, 6) and not interlaced
    deep = 3 if colour == 2 else 4
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, width * deep + 1)
    out = np.zeros((height, width * deep), np.uint8)
    above = np.zeros(width * deep, np.uint8)
    for number in range(height):
        above = out[number] = _unfiltered(int(rows[number, 0]), rows[number, 1:], above, deep)
    return out.reshape(height, width, deep)[:, :, :3]


def _unfiltered(kind: int, row: Pixels, above: Pixels, deep: int) -> Pixels:
    if kind == 0:
        return row
    if kind == 2:
        return row + above
    if kind == 1:
        summed = np.cumsum(row.reshape(-1, deep), axis=0, dtype=np.uint64)
        return (summed & 0xFF).astype(np.uint8).reshape(-1)
    line = row.tolist()
    up = above.tolist()
    for at, value in enumerate(line):
        left = line[at - deep] if at >= deep else 0
        if kind == 3:
            line[at] = (value + (left + up[at]) // 2) & 0xFF
            continue
        corner = up[at - deep] if at >= deep else 0
        guess = left + up[at] - corner
        far = (abs(guess - left), abs(guess - up[at]), abs(guess - corner))
        best = left if far[0] <= far[1] and far[0] <= far[2] else up[at] if far[1] <= far[2] else corner
        line[at] = (value + best) & 0xFF
    return np.array(line, np.uint8)
