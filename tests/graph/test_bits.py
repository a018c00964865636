"""The codes: words that WebGraph's Java wrote, round trips, kernels equal to the reference, hostile bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.graph import bits, bits_kernels
from lycosa.graph.bits import BitReader, BitsError, BitWriter, Code

# Written by it.unimi.dsi.io.OutputBitStream (dsiutils) for the values of the first column.
JAVA = """
0   1000         10     100      10        100      100      1
1   1001         110    101      110       101      1010     0100
2   1010         111    110      111       110      1011     0101
3   1011         010    1110     0100      111      1100     01100
4   1100         0110   1111     0101      01000    1101     01101
7   1111         00110  0110     01110     01011    0100000  00100000
8   00011000     00111  01110    01111     01100    0100001  00100001
9   00011001     00010  01111    001000    01101    0100010  00100010
12  00011100     000010 00110    001011    0010000  0100101  00100101
16  00101000     00000110  000101    0011011  0010100  01010001  001010001
20  00101100     000000111 0000100   0011111  0011000  01010101  001010101
64  000100001000 000000000000000000000110 0000000000001111 00001100011 00001000100 00100000001 00111000001
"""
COLUMNS = [
    (Code.NIBBLE, 3),
    (Code.GOLOMB, 3),
    (Code.GOLOMB, 5),
    (Code.SKEWED_GOLOMB, 3),
    (Code.SKEWED_GOLOMB, 4),
    (Code.ZETA, 3),
    (Code.DELTA, 3),
]


@pytest.mark.parametrize("row", JAVA.strip().splitlines())
def test_the_words_are_those_of_java(row: str) -> None:
    value, *words = row.split()
    for (code, k), word in zip(COLUMNS, words, strict=True):
        writer = BitWriter()
        writer.write(code, int(value), k)
        number = int.from_bytes(writer.getvalue(), "big") >> (-len(writer) & 7)
        assert f"{number:0{len(writer)}b}" == word, (code, k)


@st.composite
def coded(draw: st.DrawFn) -> tuple[Code, int, list[int]]:
    code = draw(st.sampled_from(Code))
    most = {Code.ZETA: 7, Code.GOLOMB: 300, Code.SKEWED_GOLOMB: 300}.get(code, 3)
    k = draw(st.integers(1, most))
    large = {Code.UNARY: 500, Code.GOLOMB: 5000}.get(code, (1 << bits.MOST_BITS) - 1)
    value = st.one_of(st.integers(0, min(large, 40)), st.integers(0, large))
    return code, k, draw(st.lists(value, max_size=30))


@given(coded())
@settings(max_examples=150, deadline=None)
def test_round_trip_and_kernels_equal_the_reference(case: tuple[Code, int, list[int]]) -> None:
    code, k, values = case
    writer = BitWriter()
    for value in values:
        writer.write(code, value, k)
    data = writer.getvalue()
    assert sum(bits.length(code, value, k) for value in values) == len(writer)

    reader = BitReader(data)
    assert [reader.read(code, k) for _ in values] == values
    assert reader.position == len(writer)

    given_values = np.array(values, dtype=np.int64)
    total = bits_kernels.total_length(given_values, int(code), k)
    assert total == len(writer)
    words = np.zeros(total // 64 + bits_kernels.SPARE, dtype=np.uint64)
    assert bits_kernels.write_many(words, 0, given_values, int(code), k) == total
    assert bits_kernels.bytes_of(words, total) == data

    out = np.zeros(len(values), dtype=np.int64)
    done, position = bits_kernels.read_many(bits_kernels.padded(data), 0, 8 * len(data), int(code), k, out)
    assert (done, position) == (len(values), total)
    assert out.tolist() == values


@given(st.binary(max_size=60), st.sampled_from(Code), st.integers(1, 7), st.integers(0, 70))
@settings(max_examples=300, deadline=None)
def test_any_bytes_read_alike_and_never_past_the_end(data: bytes, code: Code, k: int, cut: int) -> None:
    end = max(0, 8 * len(data) - cut)
    expected = []
    reader = BitReader(data, length=end)
    while len(expected) < 50:
        before = reader.position
        try:
            expected.append(reader.read(code, k))
        except BitsError:
            reader.position = before
            break
        assert reader.position <= end
    out = np.full(50, -7, dtype=np.int64)
    done, position = bits_kernels.read_many(bits_kernels.padded(data), 0, end, int(code), k, out)
    assert out[:done].tolist() == expected
    assert position == reader.position


def test_values_and_parameters_have_limits() -> None:
    writer = BitWriter()
    with pytest.raises(ValueError, match="cannot be coded"):
        writer.write(Code.GAMMA, 1 << bits.MOST_BITS)
    with pytest.raises(ValueError, match="cannot be coded"):
        writer.write(Code.GAMMA, -1)
    with pytest.raises(ValueError, match="ZETA"):
        writer.write(Code.ZETA, 1, bits.MOST_K + 1)
    with pytest.raises(ValueError, match="GOLOMB"):
        writer.write(Code.GOLOMB, 1, 0)


@given(st.integers(-(1 << 40), 1 << 40))
def test_signed_integers_fold(x: int) -> None:
    assert bits.nat2int(bits.int2nat(x)) == x
    assert [bits.int2nat(y) for y in (0, -1, 1, -2, 2)] == [0, 1, 2, 3, 4]
