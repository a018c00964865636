"""FNV-1a, 64 bits: the hash that kernels compute of words byte by byte, in plain Python."""

from __future__ import annotations

_BASIS = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_ALL = (1 << 64) - 1


def fnv(data: bytes) -> int:
    """The hash of some bytes."""
    value = _BASIS
    for byte in data:
        value = (value ^ byte) * _PRIME & _ALL
    return value
