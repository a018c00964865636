"""Bit codes: integers as bits, most significant bit first. The plain reference.

A stream is a sequence of bits; bit 0 is the most significant bit of byte 0. Its last byte is padded with
zeros. All codes are of integers x ≥ 0; `|x|₂` below is ⌊log₂ x⌋.

    unary(x)      x zeros, then a one
    γ(x)          unary(m), then the low m bits of x+1, where m = |x+1|₂
    δ(x)          γ(m), then the same bits
    ζₖ(x)         with y = x+1, h = ⌊|y|₂ / k⌋, l = 2^(hk): unary(h), then y−l in hk+k−1 bits
                  if y−l < l, else y in hk+k bits
    minimal(x,b)  with s = |b|₂, m = 2^(s+1)−b: x in s bits if x < m, else x+m in s+1 bits
    Golomb(x,b)   unary(⌊x/b⌋), then minimal(x mod b, b)
    skewed(x,b)   with i = |⌊x/b⌋+1|₂: unary(i), then minimal(x − (2^i−1)b, 2^i b)
    nibble(x)     x in groups of three bits, most significant first, each after a flag
                  that is one in the last group only

These are the codes of WebGraph (Boldi and Vigna, "The WebGraph framework I", 2004, and "Codes for the
World Wide Web", 2005); the numbers in `Code` are those of its compression flags. The tests hold code words
that its Java implementation wrote.

A reader never runs past its end: it raises `BitsError`. Values have at most 56 bits here, which is more than
any graph needs and lets the kernels (`bits_kernels`), which are tested equal to this, work in single words;
for the same reason k is at most 7 for ζ, and b at most 2^20.
"""

from __future__ import annotations

from enum import IntEnum

MOST_BITS = 56
"""The largest value that can be coded is 2^56 − 1."""

MOST_K = 7
"""The largest k of ζ."""

MOST_MODULUS = 1 << 20
"""The largest b of the Golomb codes."""


class Code(IntEnum):
    """Which code; the numbers are WebGraph's."""

    DELTA = 1
    GAMMA = 2
    GOLOMB = 3
    SKEWED_GOLOMB = 4
    UNARY = 5
    ZETA = 6
    NIBBLE = 7


class BitsError(ValueError):
    """The bits end too early, or hold a value that no writer writes."""


def int2nat(x: int) -> int:
    """Fold a signed integer into a natural one: 0, -1, 1, -2 … become 0, 1, 2, 3 …"""
    return 2 * x if x >= 0 else -2 * x - 1


def nat2int(x: int) -> int:
    """The inverse of `int2nat`."""
    return x >> 1 if x & 1 == 0 else -(x >> 1) - 1


def check_parameter(code: Code, k: int) -> None:
    """Raise `ValueError` if `code` cannot have the parameter k."""
    most = {Code.ZETA: MOST_K, Code.GOLOMB: MOST_MODULUS, Code.SKEWED_GOLOMB: MOST_MODULUS}.get(code)
    if most is not None and not 1 <= k <= most:
        raise ValueError(f"the parameter of {code.name} is {k}, not in 1 … {most}")


class BitWriter:
    """Appends codes to a growing stream."""

    def __init__(self) -> None:
        self._whole = bytearray()
        self._rest = 0  # bits that do not fill a byte yet
        self._held = 0  # how many

    def __len__(self) -> int:
        """Bits written."""
        return 8 * len(self._whole) + self._held

    def getvalue(self) -> bytes:
        """The stream so far, padded with zeros to a whole byte."""
        if not self._held:
            return bytes(self._whole)
        return bytes(self._whole) + bytes([self._rest << (8 - self._held)])

    def bits(self, x: int, width: int) -> None:
        """The low `width` bits of x."""
        self._rest = (self._rest << width) | (x & ((1 << width) - 1))
        self._held += width
        extra = self._held & 7
        if self._held >= 8:
            self._whole += (self._rest >> extra).to_bytes(self._held >> 3, "big")
            self._rest &= (1 << extra) - 1
            self._held = extra

    def unary(self, x: int) -> None:
        self.bits(1, x + 1)

    def gamma(self, x: int) -> None:
        m = (x + 1).bit_length() - 1
        self.unary(m)
        self.bits(x + 1, m)

    def delta(self, x: int) -> None:
        m = (x + 1).bit_length() - 1
        self.gamma(m)
        self.bits(x + 1, m)

    def zeta(self, x: int, k: int) -> None:
        y = x + 1
        h = (y.bit_length() - 1) // k
        left = 1 << (h * k)
        self.unary(h)
        if y - left < left:
            self.bits(y - left, h * k + k - 1)
        else:
            self.bits(y, h * k + k)

    def minimal(self, x: int, b: int) -> None:
        s = b.bit_length() - 1
        m = (1 << (s + 1)) - b
        if x < m:
            self.bits(x, s)
        else:
            self.bits(x + m, s + 1)

    def golomb(self, x: int, b: int) -> None:
        self.unary(x // b)
        self.minimal(x % b, b)

    def skewed_golomb(self, x: int, b: int) -> None:
        i = (x // b + 1).bit_length() - 1
        self.unary(i)
        self.minimal(x - ((1 << i) - 1) * b, b << i)

    def nibble(self, x: int) -> None:
        h = (max(x, 1).bit_length() - 1) // 3
        for group in range(h, -1, -1):
            self.bits((8 if group == 0 else 0) | ((x >> (3 * group)) & 7), 4)

    def write(self, code: Code, x: int, k: int = 3) -> None:
        """Write x by `code`; k is the parameter of ζ and of the two Golomb codes."""
        if not 0 <= x < 1 << MOST_BITS:
            raise ValueError(f"{x} cannot be coded: 0 … 2^{MOST_BITS}-1 can")
        check_parameter(code, k)
        match code:
            case Code.GAMMA:
                self.gamma(x)
            case Code.DELTA:
                self.delta(x)
            case Code.UNARY:
                self.unary(x)
            case Code.ZETA:
                self.zeta(x, k)
            case Code.GOLOMB:
                self.golomb(x, k)
            case Code.SKEWED_GOLOMB:
                self.skewed_golomb(x, k)
            case Code.NIBBLE:
                self.nibble(x)


class BitReader:
    """Reads codes from `data`, of which `length` bits count (all, unless said)."""

    def __init__(self, data: bytes, position: int = 0, length: int | None = None) -> None:
        self._data = data
        self._end = 8 * len(data) if length is None else min(length, 8 * len(data))
        self.position = position

    def bits(self, width: int) -> int:
        start, stop = self.position, self.position + width
        if stop > self._end:
            raise BitsError("the bits end too early")
        self.position = stop
        whole = int.from_bytes(self._data[start >> 3 : (stop + 7) >> 3], "big")
        return (whole >> (-stop & 7)) & ((1 << width) - 1)

    def unary(self) -> int:
        start = position = self.position
        while position < self._end:
            byte = self._data[position >> 3] & (0xFF >> (position & 7))
            if byte:
                at = (position & ~7) + 8 - byte.bit_length()
                if at >= self._end:
                    break
                self.position = at + 1
                return at - start
            position = (position & ~7) + 8
        raise BitsError("the bits end too early")

    def gamma(self) -> int:
        m = self.unary()
        return self._low(m)

    def delta(self) -> int:
        return self._low(self.gamma())

    def _low(self, m: int) -> int:
        if m > MOST_BITS:
            raise BitsError("a value is too large")
        return ((1 << m) | self.bits(m)) - 1

    def zeta(self, k: int) -> int:
        h = self.unary()
        if h * k > MOST_BITS:
            raise BitsError("a value is too large")
        left = 1 << (h * k)
        m = self.bits(h * k + k - 1)
        return m + left - 1 if m < left else 2 * m + self.bits(1) - 1

    def minimal(self, b: int) -> int:
        s = b.bit_length() - 1
        m = (1 << (s + 1)) - b
        x = self.bits(s)
        return x if x < m else 2 * x + self.bits(1) - m

    def golomb(self, b: int) -> int:
        q = self.unary()
        return q * b + self.minimal(b)

    def skewed_golomb(self, b: int) -> int:
        i = self.unary()
        if i + b.bit_length() > MOST_BITS + 2:
            raise BitsError("a value is too large")
        return ((1 << i) - 1) * b + self.minimal(b << i)

    def nibble(self) -> int:
        x = 0
        while True:
            group = self.bits(4)
            x = x << 3 | (group & 7)
            if x >> MOST_BITS:
                raise BitsError("a value is too large")
            if group & 8:
                return x

    def read(self, code: Code, k: int = 3) -> int:
        """The next value by `code`."""
        x = self._read(code, k)
        if x >> MOST_BITS:
            raise BitsError("a value is too large")
        return x

    def _read(self, code: Code, k: int) -> int:
        match code:
            case Code.GAMMA:
                return self.gamma()
            case Code.DELTA:
                return self.delta()
            case Code.UNARY:
                return self.unary()
            case Code.ZETA:
                return self.zeta(k)
            case Code.GOLOMB:
                return self.golomb(k)
            case Code.SKEWED_GOLOMB:
                return self.skewed_golomb(k)
            case Code.NIBBLE:
                return self.nibble()


def length(code: Code, x: int, k: int = 3) -> int:
    """How many bits `code` takes for x."""
    writer = BitWriter()
    writer.write(code, x, k)
    return len(writer)
