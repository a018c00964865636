"""Bit codes, compiled: the same codes as in `lycosa.graph.bits`.

A stream is read from bytes with `PADDING` bytes of zeros behind their end (`padded`). Readers take the
address of its first byte (`data.ctypes.data`, given by the owner of the array): arrays passed from
kernel to kernel cost an atomic count up and down at each call, which was measured at three times the work of
reading a code. They return the value and the position after it; the value is −1 if the stream ends too early
or the value has more than 56 bits. A given position must be at most `end`; every reader checks the
position that it returns, so that it never goes beyond the padding.

The usual codes (γ and ζ, of values of up to some twenty bits) take one unaligned look at 57 bits, a count of
leading zeros and two shifts; everything else goes through `read_any`.

(Numba's cache watches only the file that a kernel is in: after a change of this file, remove
`__pycache__/*.nb?` beside it, or kernels elsewhere will keep the old code inlined.)

A stream is written to an array of 64-bit words in the machine's own order, bit 0 being the most significant
bit of word 0; `bytes_of` makes bytes of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lycosa.compiled import Later, intrinsic, njit

PADDING = 64
"""Bytes of zeros behind the end of a stream that is read."""

SPARE = 4
"""Words to have spare behind a stream that is written."""

_DELTA, _GAMMA, _GOLOMB, _SKEWED, _UNARY, _ZETA, _NIBBLE = 1, 2, 3, 4, 5, 6, 7
_MOST = 1 << 56
_ONE = np.uint64(1)
_U63 = np.uint64(63)
_U64 = np.uint64(64)
types: Any = Later("numba", "types")
ir: Any = Later("llvmlite.ir")


def padded(data: bytes | bytearray | memoryview | npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """These bytes, padded for reading."""
    raw = np.frombuffer(data, dtype=np.uint8)
    stream = np.zeros(len(raw) + PADDING, dtype=np.uint8)
    stream[: len(raw)] = raw
    return stream


def bytes_of(words: npt.NDArray[np.uint64], bits: int) -> bytes:
    """The first `bits` bits as bytes, padded with zeros to a whole byte."""
    part = words[: (bits + 63) // 64]
    return (part.byteswap() if np.little_endian else part).tobytes()[: (bits + 7) // 8]


@intrinsic
def _leading_zeros(typingctx: Any, x: Any) -> Any:
    """How many zeros come before the first one of a 64-bit word; 64 if it is zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], context.get_constant(types.boolean, False))

    return types.uint64(types.uint64), generate


@intrinsic
def _ones(typingctx: Any, x: Any) -> Any:
    """How many ones a 64-bit word has."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), generate


# Numba calls an intrinsic without its first argument, which its type does not tell.
leading_zeros: Any = _leading_zeros
ones: Any = _ones


@njit(cache=True, nogil=True)
def top_bit(x):  # type: ignore[no-untyped-def]
    """⌊log₂ x⌋ for x ≥ 1."""
    return np.int64(63) - np.int64(leading_zeros(np.uint64(x)))


@intrinsic
def _load_word(typingctx: Any, address: Any) -> Any:
    """The eight bytes at an address, most significant first."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        value = builder.load(builder.inttoptr(args[0], word.as_pointer()), align=1)
        return builder.bswap(value) if np.little_endian else value

    return types.uint64(types.int64), generate


@intrinsic
def _load_int(typingctx: Any, address: Any, index: Any) -> Any:
    """The index-th 64-bit integer of those at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load(builder.gep(pointer, [args[1]]))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def _load_node(typingctx: Any, address: Any, index: Any) -> Any:
    """The index-th 32-bit integer of those at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(32).as_pointer())
        return builder.sext(builder.load(builder.gep(pointer, [args[1]])), ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def _store_node(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Set the index-th 32-bit integer of those at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(32).as_pointer())
        builder.store(builder.trunc(args[2], ir.IntType(32)), builder.gep(pointer, [args[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


load_word: Any = _load_word
load_int: Any = _load_int
load_node: Any = _load_node
store_node: Any = _store_node


@njit(cache=True, nogil=True)
def peek(base, position):  # type: ignore[no-untyped-def]
    """At least the 57 bits at `position`, at the top of a word; what follows them is no matter."""
    return load_word(base + (position >> 3)) << np.uint64(position & 7)


@njit(cache=True, nogil=True)
def read_bits(base, position, width):  # type: ignore[no-untyped-def]
    """`width` bits (at most 63) as a number; the caller checks the end."""
    if width == 0:
        return np.int64(0)
    if width <= 57:
        return np.int64(peek(base, position) >> (_U64 - np.uint64(width)))
    high = np.int64(peek(base, position) >> np.uint64(32))
    rest = np.uint64(width - 32)
    return (high << np.int64(rest)) | np.int64(peek(base, position + 32) >> (_U64 - rest))


@njit(cache=True, nogil=True)
def read_unary(base, position, end):  # type: ignore[no-untyped-def]
    start = position
    while position < end:
        zeros = np.int64(leading_zeros(peek(base, position)))
        if zeros < 57:
            position += zeros
            if position >= end:
                break
            return position - start, position + 1
        position += 57
    return np.int64(-1), start


@njit(cache=True, nogil=True)
def _read_low(base, position, end, m):  # type: ignore[no-untyped-def]
    if m < 0 or m > 56 or position + m > end:
        return np.int64(-1), position
    return ((np.int64(1) << m) | read_bits(base, position, m)) - 1, position + m


@njit(cache=True, nogil=True)
def _read_minimal(base, position, end, b):  # type: ignore[no-untyped-def]
    s = top_bit(b)
    m = (np.int64(2) << s) - b
    if position + s > end:
        return np.int64(-1), position
    x = read_bits(base, position, s)
    position += s
    if x < m:
        return x, position
    if position + 1 > end:
        return np.int64(-1), position
    return 2 * x + read_bits(base, position, 1) - m, position + 1


@njit(cache=True, nogil=True)
def _read_zeta(base, position, end, k):  # type: ignore[no-untyped-def]
    h, position = read_unary(base, position, end)
    if h < 0 or h * k > 56 or position + h * k + k - 1 > end:
        return np.int64(-1), position
    left = np.int64(1) << (h * k)
    m = read_bits(base, position, h * k + k - 1)
    position += h * k + k - 1
    if m < left:
        return m + left - 1, position
    if position + 1 > end:
        return np.int64(-1), position
    return 2 * m + read_bits(base, position, 1) - 1, position + 1


@njit(cache=True, nogil=True)
def _read_nibbles(base, position, end):  # type: ignore[no-untyped-def]
    x = np.int64(0)
    while position + 4 <= end:
        group = read_bits(base, position, 4)
        position += 4
        x = (x << 3) | (group & 7)
        if x >= _MOST:
            break
        if group & 8:
            return x, position
    return np.int64(-1), position


@njit(cache=True, nogil=True)
def read_any(base, position, end, code, k):  # type: ignore[no-untyped-def]
    """The value at `position` by any code, and the position after it."""
    x = np.int64(-1)
    if code == _GAMMA:
        m, position = read_unary(base, position, end)
        x, position = _read_low(base, position, end, m)
    elif code == _UNARY:
        x, position = read_unary(base, position, end)
    elif code == _ZETA:
        x, position = _read_zeta(base, position, end, k)
    elif code == _DELTA:
        m, position = read_unary(base, position, end)
        m, position = _read_low(base, position, end, m)
        x, position = _read_low(base, position, end, m)
    elif code == _GOLOMB:
        q, position = read_unary(base, position, end)
        if q >= 0:
            x, position = _read_minimal(base, position, end, k)
            if x >= 0:
                x = np.int64(-1) if q > _MOST // k else q * k + x
    elif code == _SKEWED:
        i, position = read_unary(base, position, end)
        if i >= 0 and i + top_bit(k) + 1 <= 58:
            x, position = _read_minimal(base, position, end, k << i)
            if x >= 0:
                x += ((np.int64(1) << i) - 1) * k
    elif code == _NIBBLE:
        x, position = _read_nibbles(base, position, end)
    if x >= _MOST:
        x = np.int64(-1)
    return x, position


@njit(cache=True, nogil=True)
def read_gamma(base, position, end):  # type: ignore[no-untyped-def]
    word = peek(base, position)
    m = np.int64(leading_zeros(word))
    if m <= 28 and position + 2 * m + 1 <= end:
        return np.int64(word >> np.uint64(63 - 2 * m)) - 1, position + 2 * m + 1
    return read_any(base, position, end, _GAMMA, 0)


@njit(cache=True, nogil=True)
def read_zeta(base, position, end, k):  # type: ignore[no-untyped-def]
    """ζ for k ≥ 2."""
    word = peek(base, position)
    h = np.int64(leading_zeros(word))
    width = h * k + k
    if h + 1 + width <= 57 and position + h + 1 + width <= end:
        left = np.uint64(1) << np.uint64(h * k)
        rest = word << np.uint64(h + 1)
        m = rest >> np.uint64(65 - width)
        if m < left:
            return np.int64(m + left) - 1, position + h + width
        return np.int64(rest >> np.uint64(64 - width)) - 1, position + h + 1 + width
    return read_any(base, position, end, _ZETA, k)


@njit(cache=True, nogil=True)
def read_code(base, position, end, code, k):  # type: ignore[no-untyped-def]
    """As `read_any`, with short ways for γ and ζ."""
    if code == _GAMMA:
        return read_gamma(base, position, end)
    if code == _ZETA and k > 1:
        return read_zeta(base, position, end, k)
    return read_any(base, position, end, code, k)


@njit(cache=True, nogil=True)
def write_bits(words, position, x, width):  # type: ignore[no-untyped-def]
    """The low `width` bits (at most 63) of x into words that are zero from `position` on."""
    if width > 0:
        at = np.uint64(position) >> np.uint64(6)
        shift = np.uint64(position) & _U63
        value = np.uint64(x) << (_U64 - np.uint64(width))
        words[at] |= value >> shift
        words[at + _ONE] |= (value << _ONE) << (_U63 - shift)
    return position + width


@njit(cache=True, nogil=True)
def _write_minimal(words, position, x, b):  # type: ignore[no-untyped-def]
    s = top_bit(b)
    m = (np.int64(2) << s) - b
    if x < m:
        return write_bits(words, position, x, s)
    return write_bits(words, position, x + m, s + 1)


@njit(cache=True, nogil=True)
def write_code(words, position, x, code, k):  # type: ignore[no-untyped-def]
    """Write x by `code`; the words must be zero from `position` on, and long enough (`code_length`)."""
    if code == _GAMMA:
        m = top_bit(x + 1)
        position = write_bits(words, position + m, 1, 1)
        return write_bits(words, position, x + 1, m)
    if code == _ZETA:
        h = top_bit(x + 1) // k
        left = np.int64(1) << (h * k)
        position = write_bits(words, position + h, 1, 1)
        if x + 1 - left < left:
            return write_bits(words, position, x + 1 - left, h * k + k - 1)
        return write_bits(words, position, x + 1, h * k + k)
    if code == _UNARY:
        return write_bits(words, position + x, 1, 1)
    if code == _DELTA:
        m = top_bit(x + 1)
        n = top_bit(m + 1)
        position = write_bits(words, position + n, 1, 1)
        position = write_bits(words, position, m + 1, n)
        return write_bits(words, position, x + 1, m)
    if code == _GOLOMB:
        position = write_bits(words, position + x // k, 1, 1)
        return _write_minimal(words, position, x % k, k)
    if code == _SKEWED:
        i = top_bit(x // k + 1)
        position = write_bits(words, position + i, 1, 1)
        return _write_minimal(words, position, x - ((np.int64(1) << i) - 1) * k, k << i)
    h = top_bit(max(x, 1)) // 3
    for group in range(h, -1, -1):
        flag = 8 if group == 0 else 0
        position = write_bits(words, position, flag | ((x >> (3 * group)) & 7), 4)
    return position


@njit(cache=True, nogil=True)
def _minimal_length(x, b):  # type: ignore[no-untyped-def]
    s = top_bit(b)
    return s if x < (np.int64(2) << s) - b else s + 1


@njit(cache=True, nogil=True)
def code_length(x, code, k):  # type: ignore[no-untyped-def]
    """How many bits `code` takes for x."""
    if code == _GAMMA:
        return 2 * top_bit(x + 1) + 1
    if code == _ZETA:
        h = top_bit(x + 1) // k
        left = np.int64(1) << (h * k)
        return h + h * k + k + (0 if x + 1 - left < left else 1)
    if code == _UNARY:
        return x + 1
    if code == _DELTA:
        m = top_bit(x + 1)
        return 2 * top_bit(m + 1) + 1 + m
    if code == _GOLOMB:
        return x // k + 1 + _minimal_length(x % k, k)
    if code == _SKEWED:
        i = top_bit(x // k + 1)
        return i + 1 + _minimal_length(x - ((np.int64(1) << i) - 1) * k, k << i)
    return 4 * (top_bit(max(x, 1)) // 3 + 1)


@njit(cache=True, nogil=True)
def read_many(data, position, end, code, k, out):  # type: ignore[no-untyped-def]
    """Fill `out` with consecutive values; returns how many were good, and the position after them."""
    base = np.int64(data.ctypes.data)
    for i in range(len(out)):
        x, after = read_code(base, position, end, code, k)
        if x < 0:
            return i, position
        out[i] = x
        position = after
    return len(out), position


@njit(cache=True, nogil=True)
def write_many(words, position, values, code, k):  # type: ignore[no-untyped-def]
    """Write the values one after the other; returns the position after them."""
    for x in values:
        position = write_code(words, position, x, code, k)
    return position


@njit(cache=True, nogil=True)
def total_length(values, code, k):  # type: ignore[no-untyped-def]
    """How many bits `write_many` takes."""
    total = np.int64(0)
    for x in values:
        total += code_length(x, code, k)
    return total
