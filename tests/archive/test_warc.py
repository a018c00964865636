"""Framing, as warcio (an independent reader) sees it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import re
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from lycosa.archive import warc
from lycosa.archive.cdxj import entry
from lycosa.archive.reader import parse, scan
from lycosa.files import DiskFiles
from lycosa.url.parts import surt

ID = "<urn:uuid:00010203-0405-8607-8809-0a0b0c0d0e0f>"
AT = 1_700_000_000_123
URL = "http://example.org/a?b=c"


class Seen(NamedTuple):
    kind: str
    header: Any
    http: Any
    payload: bytes


def _read(member: bytes) -> Seen:
    """The one record of a member, by warcio, its digests checked."""
    records = []
    for record in ArchiveIterator(io.BytesIO(member), check_digests="raise"):
        payload = record.content_stream().read()
        records.append(Seen(record.rec_type, record.rec_headers, record.http_headers, payload))
        assert record.digest_checker.passed is not False
    assert len(records) == 1
    return records[0]


def test_bytes_of_a_response() -> None:
    def made(form: warc.Form = warc.PLAIN) -> bytes:
        head = b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n"
        return warc.response(ID, AT, URL, head, b"hello", address="192.0.2.1", truncated="time", form=form)

    text = (
        b"WARC/1.1\r\n"
        b"WARC-Type: response\r\n"
        b"WARC-Record-ID: <urn:uuid:00010203-0405-8607-8809-0a0b0c0d0e0f>\r\n"
        b"WARC-Date: 2023-11-14T22:13:20.123Z\r\n"
        b"WARC-Target-URI: http://example.org/a?b=c\r\n"
        b"WARC-IP-Address: 192.0.2.1\r\n"
        b"WARC-Payload-Digest: sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N\r\n"
        b"WARC-Truncated: time\r\n"
        b"Content-Type: application/http; msgtype=response\r\n"
        b"Content-Length: 35\r\n"
        b"\r\n"
        b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\nhello\r\n\r\n"
    )
    assert gzip.decompress(made()) == text
    assert made() == made()
    block = b"WARC-Block-Digest: sha1:RROKHDNGGAACWGJTQGIXMZRXSP5XOPZ4\r\nContent-Length: "
    assert gzip.decompress(made(warc.Form(block_digests=True))) == text.replace(b"Content-Length: ", block, 1)


def test_ids_are_uuids_of_version_8_and_none_comes_twice() -> None:
    taken: list[str] = []
    for random in (bytes(10), b"\xff" * 10, bytes(range(10))):
        series = warc.Series(random)
        taken += [series.take() for _ in range(300)]
    found = [uuid.UUID(text.removeprefix("<urn:uuid:").removesuffix(">")) for text in taken]
    assert {(each.version, each.variant) for each in found} == {(8, uuid.RFC_4122)}
    assert len(set(found)) == len(taken) == 900


def test_digest_is_sha1_in_base_32() -> None:
    for data in (b"", b"x", *(bytes([n]) * 999 for n in range(256))):
        assert warc.digest(data) == "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode()


def test_request() -> None:
    seen = _read(
        warc.request(ID, AT, URL, b"GET /a?b=c HTTP/1.1\r\nHost: example.org\r\n\r\n", response="<urn:x>")
    )
    assert seen.kind == "request"
    assert seen.header.get_header("WARC-Concurrent-To") == "<urn:x>"
    assert seen.http.protocol == "GET"
    assert seen.http.get_header("Host") == "example.org"


def test_chunks_undone_are_not_undone_again() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding:  chunked\r\nContent-Type: text/plain\r\n\r\n"
    body = b"5\r\nhello\r\n0\r\n\r\n"  # a body that only looks like chunks
    seen = _read(warc.response(ID, AT, URL, head, body))
    assert seen.payload == body
    assert seen.http.get_header("Transfer-Encoding") is None
    assert seen.http.get_header("X-Archive-Orig-Transfer-Encoding") == "chunked"


def test_content_coding_stays() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
    assert _read(warc.response(ID, AT, URL, head, gzip.compress(b"hello"))).payload == b"hello"


@pytest.mark.parametrize(
    ("line", "stored", "protocol"),
    [
        (b"HTTP/2 200", b"HTTP/1.1 200 OK", "h2"),
        (b"HTTP/2 200 ", b"HTTP/1.1 200 OK", "h2"),
        (b"HTTP/3 404", b"HTTP/1.1 404 Not Found", "h3"),
        (b"HTTP/2 799", b"HTTP/1.1 799 ", "h2"),
        (b"HTTP/1.1 200 Fine", b"HTTP/1.1 200 Fine", None),
        (b"HTTP/1.0 301 Moved", b"HTTP/1.0 301 Moved", None),
    ],
)
def test_status_lines(line: bytes, stored: bytes, protocol: str | None) -> None:
    member = warc.response(ID, AT, URL, line + b"\r\ncontent-type: text/html\r\n\r\n", b"x")
    assert gzip.decompress(member).split(b"\r\n\r\n")[1].split(b"\r\n")[0] == stored
    seen = _read(member)
    assert seen.http.get_statuscode() == stored.split()[1].decode()
    assert seen.http.get_header("Content-Type") == "text/html"
    assert seen.header.get_header("WARC-Protocol") == protocol


def test_request_line_of_http_2() -> None:
    assert warc.request_head(b"GET /a HTTP/2\r\nhost: x\r\n\r\n") == b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"
    assert warc.request_head(b"GET /a HTTP/1.0\r\n\r\n") == b"GET /a HTTP/1.0\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\nA: b\n\n",
        b"HTTP/1.1 200 OK\r\nA: b",
        b"HTTP/1.1 200 OK\r\nA: b\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\n\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\n\r\n",
    ],
)
def test_heads_end_in_one_empty_line(head: bytes) -> None:
    assert warc.response_head(head)[0] == b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"


def test_a_cut_body_does_not_promise_more() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
    seen = _read(warc.response(ID, AT, URL, head, b"only this", truncated="length"))
    assert seen.header.get_header("WARC-Truncated") == "length"
    assert seen.http.get_header("Content-Length") is None
    assert seen.http.get_header("X-Archive-Orig-Content-Length") == "100"
    whole = _read(warc.response(ID, AT, URL, head, b"x" * 100))
    assert whole.http.get_header("Content-Length") == "100"
    odd = _read(warc.response(ID, AT, URL, head, b"only this", truncated="boredom"))
    assert odd.header.get_header("WARC-Truncated") == "unspecified"


def test_revisit() -> None:
    payload = warc.digest(b"body")
    member = warc.revisit(
        ID,
        AT,
        URL,
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        payload=payload,
        earlier_url="http://example.org/first",
        earlier_at=AT - 1000,
        earlier_id="<urn:uuid:0>",
    )
    seen = _read(member)
    assert seen.kind == "revisit"
    assert seen.header.get_header("WARC-Profile") == warc.IDENTICAL
    assert seen.header.get_header("WARC-Payload-Digest") == payload
    assert seen.header.get_header("WARC-Refers-To-Target-URI") == "http://example.org/first"
    assert seen.header.get_header("WARC-Refers-To-Date") == "2023-11-14T22:13:19.123Z"
    assert seen.http.get_header("Content-Type") == "text/html"


def test_warcinfo_resource_and_metadata() -> None:
    info = _read(
        warc.warcinfo(ID, AT, "x.warc.gz", {"software": "lycosa", "operator": "a\r\nb: c", "empty": ""})
    )
    assert info.kind == "warcinfo"
    assert info.header.get_header("WARC-Filename") == "x.warc.gz"
    assert info.payload == b"software: lycosa\r\noperator: a%0D%0Ab: c\r\n"
    file = _read(warc.resource(ID, AT, "file:///tmp/x", "text/plain", b"\x00\xff"))
    assert (file.kind, file.payload) == ("resource", b"\x00\xff")
    assert file.header.get_header("Content-Type") == "text/plain"
    about = _read(warc.metadata(ID, AT, URL, {"via": "http://example.org/"}, concerning="<urn:uuid:1>"))
    assert (about.kind, about.payload) == ("metadata", b"via: http://example.org/\r\n")


def test_no_value_can_add_a_line() -> None:
    member = warc.response(
        ID, AT, "http://a/\r\nWARC-Type: evil\x00", b"HTTP/1.1 200 OK\r\n\r\n", b"", address="1\n2"
    )
    header = gzip.decompress(member).partition(b"\r\n\r\n")[0]
    assert header.count(b"WARC-Type: ") == 2  # one of them inside the URI's line
    assert b"WARC-Target-URI: http://a/%0D%0AWARC-Type:%20evil%00\r\n" in header
    assert b"X-Lycosa-URL: http://a/%0D%0AWARC-Type: evil%00\r\n" in header
    assert re.search(rb"WARC-IP-Address: 1%0A2\r\n", header)


_head = st.one_of(
    st.binary(max_size=200),
    st.lists(st.binary(max_size=30), max_size=6).map(
        lambda lines: b"HTTP/1.1 200 OK\r\n" + b"\r\n".join(lines)
    ),
)


@settings(max_examples=200, deadline=None)
@given(_head, st.binary(max_size=3000), st.text(max_size=40), st.text(max_size=20), st.integers(0, 2**42))
def test_any_exchange_is_one_sound_record(head: bytes, body: bytes, url: str, address: str, at: int) -> None:
    for member in (
        warc.response(ID, at, url, head, body, address=address),
        warc.request(ID, at, url, head, address=address, body=body),
        warc.resource(ID, at, url, address, body),
    ):
        record = parse(gzip.decompress(member))  # checks length and digest
        assert record.at == at
        assert record.block.endswith(body)


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=5000),
    st.sampled_from([b"", b"Content-Type: text/html\r\n", b"Transfer-Encoding: chunked\r\n"]),
)
def test_warcio_reads_any_body(body: bytes, extra: bytes) -> None:
    seen = _read(warc.response(ID, AT, URL, b"HTTP/1.1 200 OK\r\n" + extra + b"\r\n", body))
    assert seen.payload == body


@pytest.mark.parametrize(
    ("url", "uri"),
    [
        ("http://h/a|b?c=[1]&d={x}", "http://h/a%7Cb?c=%5B1%5D&d=%7Bx%7D"),
        ("http://[::1]:8080/x[1]", "http://[::1]:8080/x%5B1%5D"),
        ("http://h/100%", "http://h/100%25"),
        ("http://h/%7Ea%zz^`", "http://h/%7Ea%25zz%5E%60"),
        ("http://h", "http://h"),
        ("http://h/plain/~x;y=1?a=b&c=d:e@f!$'()*+,", "http://h/plain/~x;y=1?a=b&c=d:e@f!$'()*+,"),
    ],
)
def test_a_target_is_a_uri_and_the_exact_url_is_kept(url: str, uri: str, tmp_path: Path) -> None:
    member = warc.response("<urn:uuid:1>", AT, url, b"HTTP/1.1 200 OK\r\n\r\n", b"x")
    (tmp_path / "f.warc.gz").write_bytes(member)
    (row,) = scan(DiskFiles(tmp_path), "f.warc.gz")
    assert row.record.fields["warc-target-uri"] == uri
    assert row.record.url == url
    assert ("x-lycosa-url" in row.record.fields) == (uri != url)
    found = entry(row.record, "f.warc.gz", 0, row.length)
    assert found is not None
    assert (found.url, found.surt) == (uri, surt(url))
