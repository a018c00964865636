"""Content decoding: every coding whole, cut, corrupt, stacked, lying and explosive."""

from __future__ import annotations

import gzip
import random
import resource
import sys
import time
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.fetch import decode as module
from lycosa.fetch.decode import MEMBERS, Decoding, codings, decode
from tests import work

LIMIT = 8 << 20


def raw_deflate(data: bytes) -> bytes:
    coder = zlib.compressobj(6, zlib.DEFLATED, -15)
    return coder.compress(data) + coder.flush()


CODERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", lambda data: gzip.compress(data, 3)),
    "x-gzip": ("x-gzip", lambda data: gzip.compress(data, 1)),
    "deflate-zlib": ("deflate", zlib.compress),
    "deflate-raw": ("deflate", raw_deflate),
    "br": ("br", lambda data: brotli.compress(data, quality=4)),
    "zstd": ("zstd", zstandard.ZstdCompressor(write_checksum=True).compress),
}
every = pytest.mark.parametrize("form", list(CODERS))


@cache
def text(size: int) -> bytes:
    """Compressible, not constant, the same each time."""
    words = [f"word{n:x}" for n in range(500)]
    chance = random.Random(7)
    out = " ".join(chance.choice(words) for _ in range(size // 6 + 1)).encode()
    return out[:size]


@every
@pytest.mark.parametrize("size", [0, 1, 100, 65_535, 65_536, 262_144, 1_500_000])
def test_whole(form: str, size: int) -> None:
    name, coder = CODERS[form]
    data = text(size)
    assert decode(coder(data), name, LIMIT) == (data, "")


@every
@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=3000))
def test_any_bytes_come_back(form: str, data: bytes) -> None:
    name, coder = CODERS[form]
    assert decode(coder(data), name, LIMIT) == (data, "")


@every
@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=400))
def test_garbage_never_raises_and_stays_in_the_limit(form: str, data: bytes) -> None:
    decoded = decode(data, CODERS[form][0], 1000)
    assert len(decoded.data) <= 1000


@every
@settings(max_examples=60, deadline=None)
@given(flip=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_never_raises(form: str, flip: int, bit: int) -> None:
    name, coder = CODERS[form]
    coded = bytearray(coder(text(5000)))
    coded[flip % len(coded)] ^= 1 << bit
    assert len(decode(bytes(coded), name, LIMIT).data) <= LIMIT


@every
def test_cut_streams_give_what_came(form: str) -> None:
    name, coder = CODERS[form]
    data = text(1_000_000)
    coded = coder(data)
    got, problem = decode(coded[: len(coded) * 3 // 4], name, LIMIT)
    assert problem == "cut"
    assert len(got) > 400_000
    assert data.startswith(got)


@every
@pytest.mark.parametrize("missing", [1, 2, 3, 4, 5, 9])
def test_a_stream_without_its_last_bytes_is_cut(form: str, missing: int) -> None:
    name, coder = CODERS[form]
    data = text(300_000)
    got, problem = decode(coder(data)[:-missing], name, LIMIT)
    assert problem == "cut"
    assert data.startswith(got)


@pytest.mark.parametrize("form", ["gzip", "deflate-zlib", "deflate-raw", "br", "zstd"])
def test_a_break_keeps_what_came_before(form: str) -> None:
    name, coder = CODERS[form]
    data = text(1_000_000)
    coded = bytearray(coder(data))
    middle = len(coded) // 2
    coded[middle : middle + 400] = b"\xff" * 400
    got, problem = decode(bytes(coded), name, LIMIT)
    # A bare stream has no checksum: it may run into something that reads as its end.
    assert problem in ("corrupt", "cut") or form == "deflate-raw"
    # Entropy coded streams may run on for a while before they notice; what was before the break is right.
    assert got[:300_000] == data[:300_000]


def test_a_wrong_checksum_is_corrupt_but_all_there() -> None:
    data = text(50_000)
    coded = bytearray(gzip.compress(data))
    coded[-6] ^= 1
    assert decode(bytes(coded), "gzip", LIMIT) == (data, "corrupt")


def test_members_and_frames_are_joined() -> None:
    a, b, c = text(70_000), b"", text(10)
    assert decode(b"".join(map(gzip.compress, (a, b, c))), "gzip", LIMIT) == (a + c, "")
    coder = zstandard.ZstdCompressor()
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    frames = coder.compress(a) + skippable + coder.compress(c)
    assert decode(frames, "zstd", LIMIT) == (a + c, "")


def test_bytes_after_a_gzip_stream_are_ignored() -> None:
    assert decode(gzip.compress(b"x" * 99) + b"\0" * 512, "gzip", LIMIT) == (b"x" * 99, "")
    assert decode(raw_deflate(b"x" * 99) + b"tail", "deflate", LIMIT) == (b"x" * 99, "")
    assert decode(brotli.compress(b"x" * 99) + b"tail", "br", LIMIT) == (b"x" * 99, "")


def test_chains_are_undone_from_the_right() -> None:
    data = text(30_000)
    assert decode(brotli.compress(gzip.compress(data)), "gzip, br", LIMIT) == (data, "")
    assert decode(gzip.compress(brotli.compress(data)), " BR ,,identity, GZip", LIMIT) == (data, "")
    assert decode(b"as it is", "gzip, gzip, gzip, gzip", LIMIT) == (b"as it is", "stacked")
    assert codings("identity") == []


def test_a_chain_with_a_lie_inside_stops_there() -> None:
    assert decode(gzip.compress(b"<html>plain"), "gzip, gzip", LIMIT) == (b"<html>plain", "mislabelled")
    inner = gzip.compress(b"hello")
    assert decode(inner, "magic, gzip", LIMIT) == (b"hello", "unknown")


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_plain_html_under_any_label_is_taken_as_it_is(name: str) -> None:
    page = b"<!DOCTYPE html><html><title>plain</title>" * 20
    assert decode(page, name, LIMIT) == (page, "mislabelled")


def test_unknown_codings_and_none() -> None:
    assert decode(b"abc", "compress", LIMIT) == (b"abc", "unknown")
    assert decode(b"abc", "", LIMIT) == (b"abc", "")
    assert decode(b"abcdef", "identity", 4) == (b"abcd", "capped")


@every
def test_the_limit_is_exact(form: str) -> None:
    name, coder = CODERS[form]
    data = text(100_000)
    assert decode(coder(data), name, 100_000) == (data, "")
    assert decode(coder(data), name, 99_999) == (data[:99_999], "capped")
    assert decode(coder(data), name, 0) == (b"", "capped")


GIGABYTE = 1 << 30


def _peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _bomb(form: str) -> bytes:
    """A gigabyte of zeros, coded; put together from repeated pieces, so that it is quick to make."""
    piece = bytes(1 << 20)
    if form == "gzip":
        return gzip.compress(piece, 9) * 1024
    if form in ("deflate-raw", "deflate-zlib"):
        bits = -15 if form == "deflate-raw" else 15
        coder = zlib.compressobj(9, zlib.DEFLATED, bits)
        head = coder.compress(piece) + coder.flush(zlib.Z_FULL_FLUSH)
        again = coder.compress(piece) + coder.flush(zlib.Z_FULL_FLUSH)
        return head + again * 1023
    if form == "br":
        # Streamed: coding it in one piece would raise the very peak that the test watches.
        stream = brotli.Compressor(quality=1)
        return b"".join([stream.process(piece) for _ in range(1024)] + [stream.finish()])
    # One frame of RLE blocks: four bytes each, 128 KiB of zeros each.
    block = ((1 << 17) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x58" + block * (GIGABYTE >> 17)


@pytest.mark.parametrize("form", ["gzip", "deflate-raw", "deflate-zlib", "br", "zstd"])
def test_bombs_are_bounded_in_time_and_memory(form: str) -> None:
    name = CODERS[form][0]
    bomb = _bomb(form)
    before = _peak()
    start = time.process_time()
    got, problem = decode(bomb, name, LIMIT)
    assert time.process_time() - start < 2
    assert (len(got), problem) == (LIMIT, "capped")
    assert _peak() - before < 64 << 20


def test_a_bomb_in_a_bomb() -> None:
    inner = gzip.compress(bytes(1 << 20), 9) * 1024
    outer = gzip.compress(inner, 9)
    start = time.process_time()
    got, problem = decode(outer, "gzip, gzip", LIMIT)
    assert (len(got), problem) == (LIMIT, "capped")
    assert time.process_time() - start < 2


def test_a_million_empty_members_are_bounded() -> None:
    start = time.process_time()
    got, problem = decode(gzip.compress(b"") * 1_000_000, "gzip", LIMIT)
    assert (got, problem) == (b"", "capped")
    assert time.process_time() - start < 2


def test_a_million_empty_zstd_blocks_are_bounded() -> None:
    start = time.process_time()
    decode(b"\x28\xb5\x2f\xfd\x00\x58" + b"\0\0\0" * 1_000_000 + b"\1\0\0", "zstd", LIMIT)
    assert time.process_time() - start < 2


def test_steps_are_bounded() -> None:
    decoding = Decoding(gzip.compress(bytes(64 << 20), 1), "gzip", 48 << 20)
    steps = 1
    while not decoding.advance(1 << 20):
        steps += 1
    assert steps >= 40
    assert (len(decoding.data), decoding.problem) == (48 << 20, "capped")


def test_a_window_above_eight_megabytes_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=25, compression_level=3)
    data = random.Random(1).randbytes(10 << 20)
    coder = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    coded = coder.compress(data) + coder.flush()
    got, problem = decode(coded, "zstd", 32 << 20)
    assert (got, problem) == (coded, "mislabelled")


# -- streams of things that give no output: work is counted, not timed

EMPTY = gzip.compress(b"", mtime=0)
SKIPPABLE = b"\x50\x2a\x4d\x18\0\0\0\0"


class _Fed:
    """A decompressor that counts what it is handed."""

    total = 0

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def decompress(self, data: bytes, most: int) -> bytes:
        _Fed.total += len(data)
        return cast(bytes, self._inner.decompress(data, most))

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


@pytest.mark.parametrize("size", [0, 1, 5000])
def test_members_are_not_copied_one_by_one(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    member = gzip.compress(b"x" * size)
    plain = module.isal_zlib.decompressobj

    class Inflating:
        error = module.isal_zlib.error

        @staticmethod
        def decompressobj(bits: int) -> _Fed:
            return _Fed(plain(bits))

    monkeypatch.setattr(module, "isal_zlib", Inflating)
    body = member * 8000
    _Fed.total = 0
    found = decode(body, "gzip", 1 << 26)
    assert found.problem == ""
    assert _Fed.total < 65_536 + 8000 * (len(member) + 1024), "not 64 KiB for each"


@pytest.mark.parametrize(
    ("unit", "count", "coding"),
    [
        (EMPTY, 1000, "gzip"),
        (EMPTY, 100_000, "gzip"),
        (SKIPPABLE, 2_000_000, "zstd"),
        (zstandard.compress(b""), 120_000, "zstd"),
        (b"\0", 2 << 20, "br"),
        (b"\x00\x00\x00\xff\xff", 400_000, "deflate"),
    ],
    ids=["few members", "members", "skippable frames", "frames", "metadata", "stored blocks"],
)
def test_the_loop_does_not_decode_what_gives_nothing(unit: bytes, count: int, coding: str) -> None:
    """A fetcher decodes a megabyte itself and the rest in a thread; work counts, not only output."""
    decoding = Decoding(unit * count, coding, 1 << 25)
    assert work.calls(lambda: decoding.advance(1 << 20)) < 30_000
    decoding = Decoding(unit * count, coding, 1 << 25)
    assert not decoding.advance(1 << 20)


@pytest.mark.parametrize("size", [0, 1])
def test_only_so_many_members_are_decoded(size: int) -> None:
    unit = gzip.compress(b"x" * size)
    assert decode(unit * MEMBERS, "gzip", 1 << 25) == (b"x" * size * MEMBERS, "")
    assert decode(unit * (MEMBERS + 1), "gzip", 1 << 25) == (b"x" * size * MEMBERS, "capped")


@pytest.mark.parametrize(
    "unit", [SKIPPABLE, zstandard.compress(b""), zstandard.compress(b"x")], ids=["skippable", "empty", "x"]
)
def test_only_so_many_frames_are_decoded(unit: bytes) -> None:
    data = b"" if unit == SKIPPABLE else zstandard.decompress(unit)
    assert decode(unit * MEMBERS, "zstd", 1 << 25) == (data * MEMBERS, "")
    assert decode(unit * (MEMBERS + 1), "zstd", 1 << 25) == (data * MEMBERS, "capped")
    body = unit * 1_000_000
    assert work.calls(lambda: decode(body, "zstd", 1 << 25)) < 40 * MEMBERS
    assert work.peak(lambda: decode(body, "zstd", 1 << 25)) < 1 << 20


def test_a_frame_of_very_many_blocks_is_decoded_alone() -> None:
    before = zstandard.compress(b"before ")
    vast = b"\x28\xb5\x2f\xfd\x00\x58" + b"\0\0\0" * 300_000 + b"\x29\0\0after"  # a last block of five bytes
    assert decode(before + vast, "zstd", 1 << 25) == (b"before after", "")
    behind = before + vast + SKIPPABLE * 1_000_000
    assert decode(behind, "zstd", 1 << 25) == (b"before after", "")
    assert work.calls(lambda: decode(behind, "zstd", 1 << 25)) < 500_000


def test_a_broken_stream_is_searched_in_its_last_slice_alone() -> None:
    body = gzip.compress(random.Random(1).randbytes(1 << 20))
    broken = body[:-1000] + bytes(1000)
    assert work.calls(lambda: decode(broken, "gzip", 1 << 25)) < 10 * 65_536
