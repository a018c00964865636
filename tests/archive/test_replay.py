"""An archive replayed by pywb, through the index that we wrote."""

from __future__ import annotations

import gzip
from pathlib import Path

import brotli

from lycosa.archive import warc
from lycosa.archive.cdxj import entries, write_index
from lycosa.archive.writer import Archive, ArchiveOptions
from lycosa.clock import ManualClock
from lycosa.files import DiskFiles
from tests.archive.replay import wayback

AT = 1_700_000_000_123
PAGE = b"<html><head><title>t</title></head><body><a href='/next'>n</a></body></html>"
BINARY = bytes(range(256)) * 300


def test_replay(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path / "archive")
    archive = Archive(files, ArchiveOptions(rotate_bytes=3000), ManualClock(), crawl="c1")

    def put(path: str, head: bytes, body: bytes, at: int = AT, truncated: str = "") -> None:
        archive.store(
            url="http://www.example.org" + path,
            at=at,
            request_head=b"GET %s HTTP/1.1\r\nHost: www.example.org\r\n\r\n" % path.encode(),
            head=head,
            body=body,
            address="192.0.2.1",
            truncated=truncated,
        )

    html = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
    put("/", html + b"Transfer-Encoding: chunked\r\n\r\n", PAGE)
    put("/looks-chunked", html + b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n")
    put("/two", b"HTTP/2 200\r\ncontent-type: text/html\r\n\r\n", PAGE)
    put("/gzip", html + b"Content-Encoding: gzip\r\n\r\n", gzip.compress(PAGE))
    put("/brotli", html + b"Content-Encoding: br\r\n\r\n", brotli.compress(PAGE))
    put("/Mixed/Case?b=2&a=1", html + b"\r\n", b"mixed")
    put("/binary", b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 76800\r\n\r\n", BINARY)
    put("/moved", b"HTTP/1.1 301 Moved Permanently\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n", b"")
    put("/gone", b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\r\n", b"gone")
    put(
        "/cut",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 99\r\n\r\n",
        b"cut",
        truncated="length",
    )
    put("/caf%C3%A9", html + b"\r\n", b"escaped")
    put("/odd|[1]^?a={b}", html + b"\r\n", b"no URI")
    put("/changing", html + b"\r\n", b"old", at=AT)
    put("/changing", html + b"\r\n", b"new", at=AT + 10 * 86_400_000)
    first = archive.store(
        url="http://www.example.org/same", at=AT, request_head=b"", head=html + b"\r\n", body=b"the same"
    )
    again = warc.revisit(
        "<urn:uuid:1>",
        AT + 86_400_000,
        "http://www.example.org/same",
        html + b"X-Seen: again\r\n\r\n",
        payload=archive.read(first).fields["warc-payload-digest"],
        earlier_url="http://www.example.org/same",
        earlier_at=AT,
    )
    archive._append(b"", again)  # no crawl writes them yet
    archive.store_resource(url="file:///srv/notes.txt", at=AT, media_type="text/plain", body=b"a file")
    archive.close()
    assert len(archive.names()) > 2
    lines = (entry.line() for name in archive.names() for entry in entries(files, name))
    assert write_index(DiskFiles(tmp_path), "index.cdxj", lines) == 17

    scratch = tmp_path / "pywb"
    scratch.mkdir()
    with wayback(tmp_path / "archive", tmp_path / "index.cdxj", scratch) as server:

        def body(path: str, stamp: str = "2023") -> bytes:
            got = server.get("http://www.example.org" + path, stamp)
            assert got.status == 200, (path, got)
            return got.body

        assert body("/") == PAGE
        assert body("/odd|[1]^?a={b}") == body("/odd%7C%5B1%5D%5E?a=%7Bb%7D") == b"no URI"
        assert body("/looks-chunked") == b"5\r\nhello\r\n0\r\n\r\n"
        assert body("/two") == PAGE
        assert body("/gzip") == PAGE
        assert body("/brotli") == PAGE
        assert body("/Mixed/Case?b=2&a=1") == b"mixed"
        assert body("/binary") == BINARY
        assert body("/cut") == b"cut"
        assert body("/caf%C3%A9") == b"escaped"
        assert body("/changing", "20231114") == b"old"
        assert body("/changing", "20231124221320") == b"new"
        assert body("/same", "20231115221320") == b"the same"
        assert server.get("file:///srv/notes.txt").body == b"a file"

        moved = server.get("http://www.example.org/moved")
        assert (moved.status, moved.headers["location"]) == (301, "/next")
        assert server.get("http://www.example.org/gone").status == 404
        assert server.get("http://www.example.org/gone").body == b"gone"
        never = server.get("http://www.example.org/never-fetched")
        assert never.status == 404
        assert never.body != b"gone"

        rewritten = server.get("http://www.example.org/", mode="mp_")
        assert b"/test/2023mp_/http://www.example.org/next" in rewritten.body
        assert "memento-datetime" in rewritten.headers

        again = server.get("http://www.example.org/same", "20231115221320")
        assert again.headers["x-seen"] == "again"  # the head of the revisit, the body of the first
