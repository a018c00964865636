"""WARC 1.1 framing: values in, the bytes of one gzip member out. No I/O.

    member  = gzip(record)                                   one record each, readable alone
    record  = "WARC/1.1" CRLF *(name ":" SP value CRLF) CRLF block CRLF CRLF
    block   = head body            of a request or response; the head ends with an empty line
            | *(name ":" SP value CRLF)                      of warcinfo and metadata
            | any bytes                                      of a resource or a conversion

    WARC-Record-ID       <urn:uuid:...>, version 8: random per series of records, plus their number in the series
    WARC-Date            when the fetch began, in milliseconds: 2026-01-31T23:59:59.123Z
    WARC-Block-Digest    sha1 of the block, base32, of every record; only if asked for
    WARC-Payload-Digest  sha1 of the body, base32, of response, revisit and resource records
    WARC-Concurrent-To   on the request: the response it got
    WARC-Refers-To       on the conversion: the response from which a browser made it
    WARC-Truncated       length | time | disconnect: which limit cut the body
    WARC-Protocol        h2 or h3, where the head below is a translation (draft extension of IIPC)

Some parts are not stored as they were sent, so that every reader understands them:

- The transfer coding of a body was undone while it was received, so a `Transfer-Encoding` header is stored
  under the name `X-Archive-Orig-Transfer-Encoding`: a reader that finds "chunked" would undo it again. The
  content coding (gzip, br ...) stays, with its header.
- A truncated body is shorter than its `Content-Length`, which is stored as `X-Archive-Orig-Content-Length`:
  replayed under its own name, it would make browsers wait for the rest.
- HTTP/2 and 3 have no status line and no request line; those of HTTP/1.1 are written instead, with the
  usual reason phrase. Readers know no others.
- Line ends of a head are CR LF; of several heads in a row (a proxy's, a 100), only the last is kept.

Digests are of the bytes stored. A body is hashed once: the payload digest covers it, and gzip's CRC-32 the whole
record; a block digest would be a second SHA-1 of the same bytes (19 of 112 µs for a response of 22 KB). Without it,
damage that keeps the CRC right (by intent, not by a disk) is detected in bodies, but not in heads.

A control character in a field's value is stored as its escape, so that no value can add a line. The gzip header
holds no time and no name: equal records give equal members.

ISO 28500:2017; https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha1
from http import HTTPStatus
from itertools import count
from typing import NamedTuple

from isal import isal_zlib

LEVEL = 1
"""ISA-L's level of compression, 0 to 3: they take 26, 33, 37, 63 µs on 20 KB of HTML, ratios 2.21, 2.65, 2.69,
2.71."""
SMALL_LEVEL = 0
"""The level for requests. Higher levels make Huffman codes per record, which saves 135 of 610 bytes and costs six
times the time, a quarter of what the response costs."""
IDENTICAL = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
TRUNCATED = ("length", "time", "disconnect", "unspecified")

EXACT = "X-Lycosa-URL"
_ODD = re.compile(r"[^A-Za-z0-9\-._~:/?#@!$&'()*+,;=%]|%(?![0-9A-Fa-f]{2})")
_ORIGINAL = rb"X-Archive-Orig-\1"
_GZIP = 31  # zlib's wbits for a 32 KiB window in a gzip frame
_CODED = re.compile(rb"^(transfer-encoding[ \t]*:)", re.I | re.M)
_LENGTH = re.compile(rb"^(content-length[ \t]*:)", re.I | re.M)
_STATUS_LINE = re.compile(rb"HTTP/(\d+(?:\.\d+)?)[ \t]+(\d{3})[^\r\n]*")
_REQUEST_LINE = re.compile(rb"([^\s]+ [^\r\n]*?) HTTP/(\d+(?:\.\d+)?)[ \t]*(?=\r\n)")
_USUAL = (b"HTTP/1.1 ", b"HTTP/1.0 ")
_USUAL_ENDS = (b" HTTP/1.1", b" HTTP/1.0")
_BARE = re.compile(rb"\r?\n")
_REASONS = {str(int(status)).encode(): status.phrase.encode() for status in HTTPStatus}
_CONTROLS = {i: f"%{i:02X}" for i in [*range(0x20), 0x7F]}


class Form(NamedTuple):
    """How records are written."""

    level: int = LEVEL
    block_digests: bool = False


PLAIN = Form()
_SMALL = (Form(SMALL_LEVEL), Form(SMALL_LEVEL, True))

_LETTERS = bytes(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[number & 31] for number in range(256))


def _halves(width: int) -> tuple[int, int]:
    """For lanes of 2 * `width` bits: a mask of the lower halves, and the factor that moves upper halves up a
    lane."""
    lane = width * 8 // 5
    return sum(((1 << width) - 1) << at for at in range(0, 256, 2 * lane)), (1 << lane) - (1 << width)


(_80, _UP_80), (_40, _UP_40), (_20, _UP_20), (_10, _UP_10), (_5, _UP_5) = map(_halves, (80, 40, 20, 10, 5))


def digest(data: bytes) -> str:
    """A digest as WARC writes it: SHA-1 in base 32.

    The 160 bits are spread over 32 bytes, five to each, by repeated halving: all letters at once, not two at a
    time.
    """
    bits = int.from_bytes(sha1(data, usedforsecurity=False).digest(), "big")
    bits += (bits >> 80 & _80) * _UP_80
    bits += (bits >> 40 & _40) * _UP_40
    bits += (bits >> 20 & _20) * _UP_20
    bits += (bits >> 10 & _10) * _UP_10
    bits += (bits >> 5 & _5) * _UP_5
    return "sha1:" + bits.to_bytes(32, "big").translate(_LETTERS).decode("ascii")


class Series:
    """Consecutive record ids. Thread-safe."""

    def __init__(self, random: bytes) -> None:
        """`random`: ten bytes, of which 74 bits distinguish this series from all others."""
        text = random.hex()
        variant = "89ab"[random[9] & 3]
        self._start = f"<urn:uuid:{text[:8]}-{text[8:12]}-8{text[12:15]}-{variant}{text[15:18]}-"
        self._numbers = count()

    def take(self) -> str:
        """The next id."""
        return f"{self._start}{next(self._numbers):012x}>"


@lru_cache(maxsize=64)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def date(at: int) -> str:
    """The WARC-Date of a time in milliseconds."""
    return f"{_second(at // 1000)}.{at % 1000:03d}Z"


def frame(kind: str, identity: str, named: str, form: Form, *block: bytes) -> bytes:
    """Any record as one gzip member. `named`: the lines of its fields. The block may be given in pieces."""
    if form.block_digests:
        named = f"{named}WARC-Block-Digest: {digest(b''.join(block))}\r\n"
    length = sum(map(len, block))
    head = f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {identity}\r\n{named}Content-Length: {length}\r\n\r\n"
    whole = b"".join((head.encode("utf-8", "replace"), *block, b"\r\n\r\n"))
    return isal_zlib.compress(whole, form.level, _GZIP)


def _clean(value: str) -> str:
    """A value without control characters, so that it cannot add a line."""
    return value if value.isprintable() else value.translate(_CONTROLS)


def _line(name: str, value: str) -> str:
    """The line of a field; empty if it has no value."""
    return f"{name}: {_clean(value)}\r\n" if value else ""


@lru_cache(maxsize=8)  # a request and its response have the same arguments
def _about(at: int, url: str, address: str = "") -> str:
    """The fields that the records of an exchange share: its time, its URL (in a form that every reader accepts, and
    the exact one if it differs), and the address."""
    plain = escaped(url)
    lines = f"WARC-Date: {date(at)}\r\n{_line('WARC-Target-URI', plain)}"
    if plain != url:
        lines += _line(EXACT, url)
    return lines + _line("WARC-IP-Address", address)


def _block(fields: Mapping[str, str]) -> bytes:
    lines = [f"{name}: {value.translate(_CONTROLS)}\r\n" for name, value in fields.items() if value]
    return "".join(lines).encode("utf-8", "replace")


def warcinfo(identity: str, at: int, file: str, fields: Mapping[str, str], form: Form = PLAIN) -> bytes:
    """The first record of a file: who made it, and how."""
    named = (
        f"WARC-Date: {date(at)}\r\n{_line('WARC-Filename', file)}Content-Type: application/warc-fields\r\n"
    )
    return frame("warcinfo", identity, named, form, _block(fields))


def escaped(url: str) -> str:
    """The URL with everything percent-encoded that RFC 3986 does not allow in its place.

    These are the characters that browsers, and so our canonical form, leave alone: `|`, `[`, `]`, `^`, braces and
    the like after the authority, and a `%` that begins no escape.
    """
    if _ODD.search(url) is None:
        return url
    start = url.find("/", url.find("://") + 3)
    start = len(url) if start < 0 else start
    return url[:start] + _ODD.sub(lambda found: f"%{ord(found[0]):02X}", url[start:])


def request(
    identity: str,
    at: int,
    url: str,
    head: bytes,
    *,
    response: str = "",
    address: str = "",
    body: bytes = b"",
    form: Form = PLAIN,
) -> bytes:
    """The request that we sent; `response` is the id of the record of the answer."""
    named = (
        f"{_about(at, url, address)}{_line('WARC-Concurrent-To', response)}"
        "Content-Type: application/http; msgtype=request\r\n"
    )
    if form.level > SMALL_LEVEL:
        form = _SMALL[form.block_digests]
    return frame("request", identity, named, form, request_head(head), body)


def response(
    identity: str,
    at: int,
    url: str,
    head: bytes,
    body: bytes,
    *,
    address: str = "",
    truncated: str = "",
    form: Form = PLAIN,
) -> bytes:
    """The site's answer; `head` and `body` as `lycosa.fetch.protocol` has them."""
    head, protocol = response_head(head)
    if truncated:
        head = _LENGTH.sub(_ORIGINAL, head)
    named = (
        f"{_about(at, url, address)}WARC-Payload-Digest: {digest(body)}\r\n{_cut(truncated)}{protocol}"
        "Content-Type: application/http; msgtype=response\r\n"
    )
    return frame("response", identity, named, form, head, body)


def revisit(
    identity: str,
    at: int,
    url: str,
    head: bytes,
    *,
    payload: str,
    profile: str = IDENTICAL,
    earlier_url: str = "",
    earlier_at: int = 0,
    earlier_id: str = "",
    address: str = "",
    form: Form = PLAIN,
) -> bytes:
    """A response whose body is stored already: only its head, and where the body was found before.

    `payload` is the digest of that body, as in its WARC-Payload-Digest.
    """
    head, protocol = response_head(head)
    earlier = _line("WARC-Refers-To-Date", date(earlier_at) if earlier_at else "")
    named = (
        f"{_about(at, url, address)}WARC-Profile: {profile}\r\n{_line('WARC-Refers-To', earlier_id)}"
        f"{_line('WARC-Refers-To-Target-URI', escaped(earlier_url))}{earlier}"
        f"{_line('WARC-Payload-Digest', payload)}{_cut('length')}{protocol}"
        "Content-Type: application/http; msgtype=response\r\n"
    )
    return frame("revisit", identity, named, form, head)


def resource(
    identity: str, at: int, url: str, media_type: str, body: bytes, *, truncated: str = "", form: Form = PLAIN
) -> bytes:
    """A body that came without a protocol: that of a file."""
    named = (
        f"{_about(at, url)}WARC-Payload-Digest: {digest(body)}\r\n{_cut(truncated)}"
        f"{_line('Content-Type', media_type or 'application/octet-stream')}"
    )
    return frame("resource", identity, named, form, body)


def conversion(
    identity: str, at: int, url: str, media_type: str, body: bytes, *, source: str, form: Form = PLAIN
) -> bytes:
    """A document that was made from a response; `source`: the response's record id."""
    named = (
        f"{_about(at, url)}{_line('WARC-Refers-To', source)}WARC-Payload-Digest: {digest(body)}\r\n"
        f"{_line('Content-Type', media_type)}"
    )
    return frame("conversion", identity, named, form, body)


def metadata(
    identity: str, at: int, url: str, fields: Mapping[str, str], *, concerning: str = "", form: Form = PLAIN
) -> bytes:
    """What we know about another record."""
    named = (
        f"{_about(at, url)}{_line('WARC-Concurrent-To', concerning)}Content-Type: application/warc-fields\r\n"
    )
    return frame("metadata", identity, named, form, _block(fields))


def _cut(truncated: str) -> str:
    """The line of WARC-Truncated, if the body was cut."""
    if not truncated:
        return ""
    return f"WARC-Truncated: {truncated if truncated in TRUNCATED else 'unspecified'}\r\n"


def _lines(head: bytes) -> bytes:
    """A head with CR LF ends, one empty line at its end and none before."""
    whole = head.count(b"\n") == head.count(b"\r\n")
    if whole and head.find(b"\r\n\r\n") == len(head) - 4 > 0 and head[-5] not in b"\r\n":
        return head  # the case of nearly every head
    if not whole:
        head = _BARE.sub(b"\r\n", head)
    head = head.rstrip(b"\r\n")
    inner = head.rfind(b"\r\n\r\n")
    if inner >= 0:
        head = head[inner:].lstrip(b"\r\n")
    return head + b"\r\n\r\n"


def response_head(head: bytes) -> tuple[bytes, str]:
    """The head in its stored form, and the line of WARC-Protocol if it was translated."""
    head = _lines(head)
    protocol = ""
    found = None if head.startswith(_USUAL) else _STATUS_LINE.match(head)
    if found and found[1] not in (b"1.1", b"1.0"):
        protocol = _protocol(found[1])
        line = b"HTTP/1.1 " + found[2] + b" " + _REASONS.get(found[2], b"")
        head = line + head[found.end() :]
    if b"transfer-encoding" in head.lower():  # a plain search: nearly no head has one
        head = _CODED.sub(_ORIGINAL, head)
    return head, protocol


def request_head(head: bytes) -> bytes:
    """The head in its stored form."""
    head = _lines(head)
    if head.endswith(_USUAL_ENDS, 0, head.find(b"\r\n")):
        return head
    found = _REQUEST_LINE.match(head)
    if found and found[2] not in (b"1.1", b"1.0"):
        return found[1] + b" HTTP/1.1" + head[found.end() :]
    return head


def _protocol(version: bytes) -> str:
    major = version.partition(b".")[0].decode("ascii")
    return f"WARC-Protocol: h{major}\r\n" if major in ("2", "3") else ""
