"""A rendered page in the archive: one piece, of which each part can be read."""

from __future__ import annotations

from pathlib import Path

from lycosa.archive.cdxj import entries_of
from lycosa.archive.reader import read_exchange, read_rendered, scan
from lycosa.archive.writer import Archive, ArchiveOptions, Part
from lycosa.clock import SystemClock
from lycosa.files import DiskFiles
from lycosa.records import NO_LINKS, Fetched, Rendered, Timing

URL = "http://h.test/"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def test_a_rendered_page_is_one_piece(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    archive = Archive(files, ArchiveOptions(rotate_bytes=1), SystemClock(), crawl="c")
    parts = [Part(f"{URL}{name}", 7, b"GET /\r\n\r\n", HEAD, name.encode(), "127.0.0.1", "") for name in "ab"]
    place, stored = archive.store_rendered(
        *(parts, b"<p>shown</p>"),
        url=URL,
        at=5,
        request_head=b"GET / HTTP/1.1\r\n\r\n",
        head=HEAD,
        body=b"sent",
    )
    archive.close()
    assert place is not None
    # The page's own exchange ends it: whoever knows how far that reaches knows all of it.
    assert (place.file, place.offset + place.length) == (stored.file, stored.offset)
    assert files.size(stored.file) == stored.offset + stored.length
    assert read_exchange(files, stored).body == b"sent"
    assert read_rendered(files, place) == b"<p>shown</p>"
    rows = [located.record for located in scan(files, stored.file)]
    kinds = [row.kind for row in rows]
    assert kinds == ["warcinfo", *["request", "response"] * 2, "conversion", "request", "response"]
    assert rows[5].fields["warc-refers-to"] == rows[7].fields["warc-record-id"]
    record = Fetched(
        *(5, URL, 0, 0, 0, 200, "text/html", "utf-8", 4, 4, 1, Timing(), "", NO_LINKS, stored),
        rendered=Rendered("auto", stored=place),
    )
    assert [entry.url for entry in entries_of(files, record)] == [URL, f"{URL}a", f"{URL}b"]


def test_a_page_of_which_the_browser_showed_nothing_has_its_requests(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    archive = Archive(files, ArchiveOptions(), SystemClock(), crawl="c")
    place, stored = archive.store_rendered([], b"", url=URL, at=5, request_head=b"", head=HEAD, body=b"sent")
    assert place is None
    assert archive.read(stored).body == b"sent"
    archive.close()
