"""Deterministic dice: every random choice of a web is a pure function of names.

A roll is named by the web's seed and a few further parts (a host, a page, what is being chosen).
The same name gives the same numbers in every process, on every machine and in every version of
Python, which is why the standard library's `random` is not used: its integer methods have changed
before.

The bits come from SHAKE-128 of the name. One squeeze yields all the numbers that a page needs, so a
page with sixty links costs one call, not sixty.
"""

from __future__ import annotations

import hashlib
import struct

WHOLE = 1 << 64
"""Rolls are whole numbers below this."""


def _name(seed: int, parts: tuple[int | str, ...]) -> bytes:
    return f"{seed}\x1f{parts!r}".encode()


def roll(seed: int, *parts: int | str) -> int:
    """One number of 64 bits."""
    return int.from_bytes(hashlib.shake_128(_name(seed, parts)).digest(8), "little")


def rolls(count: int, seed: int, *parts: int | str) -> tuple[int, ...]:
    """`count` numbers of 64 bits; a longer squeeze begins with the shorter one."""
    data = hashlib.shake_128(_name(seed, parts)).digest(8 * count)
    return struct.unpack(f"<{count}Q", data)


def shorts(count: int, seed: int, *parts: int | str) -> tuple[int, ...]:
    """`count` numbers of 16 bits."""
    data = hashlib.shake_128(_name(seed, parts)).digest(2 * count)
    return struct.unpack(f"<{count}H", data)


def unit(number: int) -> float:
    """A roll as a fraction in [0, 1); exact, since 53 bits fit a float."""
    return (number >> 11) / (1 << 53)


def chance(number: int, probability: float) -> bool:
    """Whether an event of that probability happens on this roll."""
    return unit(number) < probability
