"""Reading back: sound files whole, damaged ones never, and nothing but `StorageError`."""

from __future__ import annotations

import gzip
import io
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from lycosa.archive import reader, warc
from lycosa.archive.reader import parse, read_exchange, read_head, scan
from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.records import Stored

ID = warc.Series(bytes(10)).take()
AT = 1_700_000_000_123
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def _exchange(body: bytes = b"hello") -> tuple[bytes, Stored]:
    asked = warc.request(ID, AT, "http://a/", b"GET / HTTP/1.1\r\n\r\n")
    answer = warc.response(ID, AT, "http://a/", HEAD, body)
    return asked + answer, Stored("x.warc.gz", 0, len(asked) + len(answer), len(asked))


def _files(tmp_path: Path, data: bytes) -> DiskFiles:
    (tmp_path / "x.warc.gz").write_bytes(data)
    return DiskFiles(tmp_path)


def test_an_exchange_comes_back(tmp_path: Path) -> None:
    data, stored = _exchange()
    got = read_exchange(_files(tmp_path, data), stored)
    assert (got.url, got.at, got.kind) == ("http://a/", AT, "response")
    assert (got.request_head, got.head, got.body) == (b"GET / HTTP/1.1\r\n\r\n", HEAD, b"hello")


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    data, stored = _exchange()
    # Bytes 4 to 9 of a gzip header (time, extra flags, system) carry no meaning.
    idle = {*range(4, 10), *range(stored.response + 4, stored.response + 10)}
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x55
        files = _files(tmp_path, bytes(broken))
        if at in idle or _says_the_same(data, bytes(broken), stored.response):
            assert read_exchange(files, stored) == read_exchange(_files(tmp_path, data), stored)
        else:
            with pytest.raises(StorageError, match=r"damaged archive x\.warc\.gz, exchange at byte 0"):
                read_exchange(files, stored)


def _says_the_same(data: bytes, broken: bytes, end: int) -> bool:
    """Whether damage to the request is none: ISA-L's level 0 sends codes also for letters that do not occur."""
    try:
        return data[end:] == broken[end:] and gzip.decompress(data[:end]) == gzip.decompress(broken[:end])
    except (OSError, EOFError, zlib.error):
        return False


def test_wrong_places_are_noticed(tmp_path: Path) -> None:
    data, stored = _exchange()
    files = _files(tmp_path, data + data)
    n = stored.length
    for wrong in (
        Stored("x.warc.gz", 1, n, stored.response),
        Stored("x.warc.gz", n, n + 1, stored.response),
        Stored("x.warc.gz", 0, n, 0),
        Stored("x.warc.gz", 0, n, stored.response + 1),
        Stored("x.warc.gz", 0, n + 1, stored.response),
        Stored("x.warc.gz", 0, stored.response, 0),
        Stored("x.warc.gz", 0, n, n),
        Stored("x.warc.gz", 5 * n, n, stored.response),
        Stored("x.warc.gz", 0, 0, 0),
    ):
        with pytest.raises(StorageError):
            read_exchange(files, wrong)


def test_scan_gives_every_record_and_its_place(tmp_path: Path) -> None:
    bodies = [b"", b"x" * 10, bytes(range(256)) * 3000, b"y" * 3_000_000, b"z"]
    data = b"".join(warc.response(ID, AT, f"http://a/{i}", HEAD, body) for i, body in enumerate(bodies))
    files = _files(tmp_path, data)
    found = list(scan(files, "x.warc.gz"))
    assert [located.record.http[1] for located in found] == bodies
    assert found[0].offset == 0
    for before, after in pairwise(found):
        assert before.offset + before.length == after.offset
    assert found[-1].offset + found[-1].length == len(data)
    for located in found:
        part = files.read_at("x.warc.gz", located.offset, located.length)
        assert parse(gzip.decompress(part)) == located.record


def test_scan_crosses_its_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(_exchange(bytes([i]) * (i * 7))[0] for i in range(60))
    files = _files(tmp_path, data)
    whole = list(scan(files, "x.warc.gz"))
    assert len(whole) == 120
    monkeypatch.setattr(reader, "_CHUNK", 211)
    monkeypatch.setattr(reader, "_FEED", 17)
    assert list(scan(files, "x.warc.gz")) == whole


def test_scan_of_a_torn_file_gives_what_is_whole(tmp_path: Path) -> None:
    one, stored = _exchange()
    files = _files(tmp_path, one + one[:-1])
    found = []
    with pytest.raises(
        StorageError, match=f"record at byte {len(one) + stored.response}: its end is missing"
    ):
        for located in scan(files, "x.warc.gz"):
            found.append(located)  # noqa: PERF402 - what came before the error counts
    assert len(found) == 3


def test_records_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, stored = _exchange(b"a" * 100_000)
    files = _files(tmp_path, data)
    monkeypatch.setattr(reader, "RECORD_LIMIT", 50_000)
    with pytest.raises(StorageError, match="larger than 50000 bytes"):
        read_exchange(files, stored)
    with pytest.raises(StorageError, match="larger than 50000 bytes"):
        list(scan(files, "x.warc.gz"))


def test_a_head_is_read_without_its_body(tmp_path: Path) -> None:
    body = bytes(range(256)) * 4000
    data = warc.response(ID, AT, "http://a/", HEAD, body)
    record = read_head(_files(tmp_path, data), "x.warc.gz", 0, len(data), most=2000)
    assert record.http[0] == HEAD
    assert record.fields["warc-payload-digest"] == warc.digest(body)
    with pytest.raises(StorageError, match="record at byte 3"):
        read_head(_files(tmp_path, data), "x.warc.gz", 3, len(data))


def test_what_warcio_writes_is_read(tmp_path: Path) -> None:
    out = io.BytesIO()
    writer = WARCWriter(out, gzip=True)
    headers = StatusAndHeaders("200 OK", [("Content-Type", "text/plain")], protocol="HTTP/1.0")
    writer.write_record(
        writer.create_warc_record("http://a/", "response", payload=io.BytesIO(b"text"), http_headers=headers)
    )
    (located,) = scan(_files(tmp_path, out.getvalue()), "x.warc.gz")
    assert located.record.http[1] == b"text"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    for candidate in (data, b"WARC/1.1\r\n" + data, b"WARC/1.1\r\nContent-Length: 1\r\n\r\n" + data):
        try:
            parse(candidate)
        except StorageError:
            continue
