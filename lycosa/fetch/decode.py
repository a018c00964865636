"""Content decoding with a hard limit on what comes out.

    Content-Encoding = 1#coding          RFC 9110 §8.4: listed in the order applied, undone from the right
    coding           = gzip | x-gzip     RFC 1952, any number of members, bytes after the last ignored
                     | deflate           RFC 1950, or bare RFC 1951, which many servers send under this name
                     | br                RFC 7932
                     | zstd              RFC 8878, any number of frames; windows up to 8 MiB (RFC 9659)
                     | identity

Decoding never raises and never holds more than the limit, one step of output (about `STEP`) and the body: a
bomb costs no more than the limit. A broken stream gives everything before the break; `problem` says what
happened (see `lycosa.fetch.protocol`).

Work is cut into steps so that the caller chooses the thread: `Decoding.advance` does a bounded piece and returns;
the native libraries release the interpreter lock while they inflate, so a large body can be decoded in a thread.
`decode` does it all at once. A step's cost counts input, output, and a share for elements without output, since a
stream may consist of these alone. At most `MEMBERS` gzip members or zstd frames are decoded: each costs far more
than its bytes.

Inflating is ISA-L's (about three times zlib's speed on pages). Its errors, like zlib's, take the output of
the failing call with them, so a broken stream is decoded again up to the failing slice of input and from
there byte by byte.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import brotli
import zstandard
from isal import isal_zlib

STEP = 256 * 1024  # bytes of output per piece
_SLICE = 64 * 1024  # bytes of input per call
_FIRST_SLICE = 1024  # ... of the second and later members: what is fed beyond a member's end is copied
_IDLE = 2048  # the cost counted for a piece without output
MEMBERS = 8192  # gzip members or zstd frames, skippable ones included, that are decoded
_CODINGS = 3
_WINDOW = 8 * 1024 * 1024
_BLOCKS = 100_000  # zstd blocks looked at to tell a cut stream from a whole one

_RAW, _ZLIB, _GZIP = -15, 15, 31
_INFLATE_ERROR = cast(type[Exception], isal_zlib.error)  # its stub calls the class an instance


class Decoded(NamedTuple):
    data: bytes
    problem: str


class _BrokenError(Exception):
    """The stream breaks in the slice of input that starts at `at`."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.at = at


def codings(value: str) -> list[str]:
    """The codings of a Content-Encoding value, lower case, first applied first, without `identity`."""
    names = (part.strip().lower() for part in value.split(","))
    return [name for name in names if name not in ("", "identity", "none")]


class Decoding:
    """The decoding of one body."""

    def __init__(self, body: bytes, encoding: str, limit: int) -> None:
        self.data = body
        self.problem = ""
        self._limit = limit
        self._steps = self._run(codings(encoding))

    def advance(self, budget: int) -> bool:
        """Decode about `budget` more bytes; True when there is nothing left to do."""
        for size in self._steps:
            budget -= size
            if budget <= 0:
                return False
        return True

    def _run(self, names: list[str]) -> Iterator[int]:
        if len(names) > _CODINGS:
            self.problem = "stacked"
            names = []
        for name in reversed(names):
            layer = _LAYERS.get(name)
            if layer is None:
                self.problem = "unknown"
                break
            yield len(self.data)
            yield from self._undo(layer)
            if self.problem == "mislabelled":
                break
        if len(self.data) > self._limit:
            self.data, self.problem = self.data[: self._limit], "capped"

    def _undo(self, layer: _Layer) -> Iterator[int]:
        parts: list[bytes] = []
        size = 0
        try:
            for part in _salvaging(layer, self.data):
                if not part:
                    yield _IDLE
                    continue
                size += len(part)
                parts.append(part)
                if size > self._limit:
                    parts[-1] = part[: len(part) - (size - self._limit)]
                    self.problem = "capped"
                    break
                yield max(len(part), _IDLE)
        except _BrokenError as broken:
            if not size and broken.problem == "corrupt":
                # Nothing of it decodes: it is not in this coding. Pages labelled gzip but sent plain are
                # common, so the bytes are taken as they are.
                self.problem = "mislabelled"
                return
            self.problem = self.problem or broken.problem
        self.data = parts[0] if len(parts) == 1 else b"".join(parts)


def decode(body: bytes, encoding: str, limit: int) -> Decoded:
    """Undo a Content-Encoding; at most `limit` bytes come out."""
    decoding = Decoding(body, encoding, limit)
    while not decoding.advance(1 << 62):
        pass
    return Decoded(decoding.data, decoding.problem)


# A layer yields pieces of output, empty ones for work without output. Its second argument is the offset from which
# the input is fed byte by byte.
_Layer = Callable[[bytes, int], Iterator[bytes]]


def _salvaging(layer: _Layer, body: bytes) -> Iterator[bytes]:
    """A layer's output; if the stream breaks, including the output that the failing call lost."""
    done = 0
    try:
        for part in layer(body, len(body)):
            done += len(part)
            yield part
        return
    except _BrokenError as broken:
        if broken.problem != "corrupt":
            raise
        at = broken.at
    for part in layer(body, at):
        if done >= len(part):
            done -= len(part)
        else:
            yield part[done:]
            done = 0


def _inflating(body: bytes, fine: int, bits: int) -> Iterator[bytes]:
    """RFC 1950, 1951 or 1952 by `bits`; several members only for the last."""
    at = 0
    members = 1
    size = _SLICE
    stream = isal_zlib.decompressobj(bits)
    while at < len(body):
        start = at
        data = body[at : at + (size if at + size <= fine or fine >= len(body) else 1)]
        at += len(data)
        size = min(size * 4, _SLICE)
        while True:
            try:
                out = stream.decompress(data, STEP)
            except _INFLATE_ERROR:
                raise _BrokenError("corrupt", start) from None
            yield out
            if stream.eof:
                break
            data = stream.unconsumed_tail
            if not data and len(out) < STEP:
                break
        if stream.eof:
            at -= len(stream.unused_data)
            if bits != _GZIP or body[at : at + 2] != b"\x1f\x8b":
                return
            members += 1
            if members > MEMBERS:
                raise _BrokenError("capped", at)
            stream = isal_zlib.decompressobj(bits)
            size = _FIRST_SLICE
    raise _BrokenError("cut", at)


def _gzip(body: bytes, fine: int) -> Iterator[bytes]:
    if not body:
        return iter(())
    return _inflating(body, fine, _GZIP)


def _deflate(body: bytes, fine: int) -> Iterator[bytes]:
    if not body:
        return
    wrapped = len(body) > 1 and body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    if wrapped:
        some = False
        try:
            for part in _inflating(body, fine, _ZLIB):
                some = some or bool(part)
                yield part
            return
        except _BrokenError:
            # One bare stream in a few hundred looks as if it had a header.
            if some or not _starts(body):
                raise
    yield from _inflating(body, fine, _RAW)


def _starts(body: bytes) -> bool:
    """Whether the body's beginning inflates as a bare stream to anything at all."""
    try:
        return bool(zlib.decompressobj(_RAW).decompress(body[:_SLICE], 1))
    except zlib.error:
        return False


def _brotli(body: bytes, fine: int) -> Iterator[bytes]:
    if not body:
        return
    at = 0
    stream = brotli.Decompressor()
    while at < len(body):
        start = at
        data = body[at : at + (_SLICE if at + _SLICE <= fine or fine >= len(body) else 1)]
        at += len(data)
        while True:
            try:
                out = stream.process(data, output_buffer_limit=STEP)
            except brotli.error:
                raise _BrokenError("corrupt", start) from None
            yield out
            if stream.is_finished():
                return
            # The decoder accepts input while it still holds output; at the end of the input it must be drained.
            if stream.can_accept_more_data() and (at < len(body) or not out):
                break
            data = b""
    raise _BrokenError("cut", at)


def _zstd(body: bytes, fine: int) -> Iterator[bytes]:
    if not body:
        return
    # A read that fails loses its output; blocks are at most 128 KiB, so small reads lose none.
    step = STEP if fine >= len(body) else 1024
    frames = _Frames()
    yield from frames.walk(body)
    context = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    for data, several in ((body[: frames.end], True), (body[frames.end :] if frames.vast else b"", False)):
        with context.stream_reader(data, read_across_frames=several) as reader:
            while data:
                try:
                    out = reader.read(step)
                except zstandard.ZstdError:
                    raise _BrokenError("corrupt", 0) from None
                if not out:
                    break
                yield out
    if frames.problem:
        raise _BrokenError(frames.problem, len(body))


class _Frames:
    """How far a body's frames may be decoded (RFC 8878 §3.1): the library would decode any number of them, and its
    reader does not say whether the last one is complete."""

    def __init__(self) -> None:
        self.end = 0
        """Where the frames that may be decoded end."""
        self.vast = False
        """A frame with very many blocks starts at `end`: it is decoded separately."""
        self.problem = ""

    def walk(self, body: bytes) -> Iterator[bytes]:
        """Scan the frames; yields an empty piece now and then."""
        at = looked = blocks = 0
        size = len(body)
        for _ in range(MEMBERS):
            self.end = at
            looked += 1
            magic = int.from_bytes(body[at : at + 4], "little")
            if magic & 0xFFFFFFF0 == 0x184D2A50:
                at += 8 + int.from_bytes(body[at + 4 : at + 8], "little")
            elif magic == 0xFD2FB528 and at + 5 <= size:
                descriptor = body[at + 4]
                single = descriptor >> 5 & 1
                at += 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
                at += (single, 2, 4, 8)[descriptor >> 6]
                last = 0
                while not last and at + 3 <= size:
                    header = int.from_bytes(body[at : at + 3], "little")
                    last = header & 1
                    at += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
                    blocks += 1
                    if blocks > _BLOCKS:
                        self.vast = True
                        return
                    looked += 1
                    if not looked & 63:
                        yield b""
                at += 4 * (descriptor >> 2 & 1) if last else size
            else:
                at = size + 1
            if at >= size:
                self.end = size
                self.problem = "cut" if at > size else ""
                return
            if not looked & 63:
                yield b""
        self.end = at
        self.problem = "capped"


_LAYERS: dict[str, _Layer] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "x-deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
