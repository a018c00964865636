"""The CDXJ index: its lines, its sorting in bounded memory, its search."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.archive import cdxj, warc
from lycosa.archive.cdxj import Entry, Index, entries, entry_at, write_index
from lycosa.archive.writer import Archive, ArchiveOptions
from lycosa.clock import ManualClock
from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.lab.faults import FaultyFiles

AT = 1_700_000_000_123


def _entry(surt: str, stamp: str = "20231114221320", offset: int = 0) -> Entry:
    return Entry(surt, stamp, "http://x/", "text/html", "200", "A" * 32, 10, offset, "f.warc.gz")


def test_lines_of_an_archive(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    archive = Archive(files, ArchiveOptions(), ManualClock(), crawl="c1")
    asked = b"GET / HTTP/1.1\r\n\r\n"
    head = b"HTTP/1.1 404 Not Found\r\nX-Content-Type: no\r\ncontent-type : Text/HTML; charset=x\r\n\r\n"
    one = archive.store(
        url="http://www.Example.org/A?z=1&b=2".replace("E", "e"),
        at=AT,
        request_head=asked,
        head=head,
        body=b"x" * 100_000,
    )
    again = warc.revisit("<urn:uuid:1>", AT, "http://example.org/b", head, payload=warc.digest(b"x"))
    two = archive._append(b"", again)
    three = archive.store_resource(url="file:///tmp/x", at=AT, media_type="text/plain; a=b", body=b"")
    four = archive.store(url="http://example.org/c", at=AT, request_head=b"", head=b"", body=b"")
    archive.close()
    (name,) = archive.names()
    found = list(entries(files, name))
    assert found == [entry_at(files, place) for place in (one, two, three, four)]
    assert found[0] == Entry(
        "org,example)/a?b=2&z=1",
        "20231114221320",
        "http://www.example.org/A?z=1&b=2",
        "text/html",
        "404",
        warc.digest(b"x" * 100_000)[5:],
        one.length - one.response,
        one.offset + one.response,
        name,
    )
    assert [(e.mime, e.status) for e in found[1:]] == [
        ("warc/revisit", ""),
        ("text/plain", "200"),
        ("unk", ""),
    ]
    surt, stamp, rest = found[0].line().decode().split(" ", 2)
    assert (surt, stamp) == ("org,example)/a?b=2&z=1", "20231114221320")
    assert json.loads(rest) == {
        "url": "http://www.example.org/A?z=1&b=2",
        "mime": "text/html",
        "status": "404",
        "digest": found[0].digest,
        "length": str(found[0].length),
        "offset": str(found[0].offset),
        "filename": name,
    }
    assert [Entry.of_line(e.line()) for e in found] == found


@pytest.mark.parametrize("memory", [1, 300, 3000, 1 << 20])
def test_external_sort(tmp_path: Path, memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cdxj, "FAN", 3)
    files = DiskFiles(tmp_path)
    lines = [_entry(f"org,h{i})/", offset=i).line() for i in range(40)] * 2
    Random(7).shuffle(lines)
    assert write_index(files, "index.cdxj", iter(lines), memory=memory) == 40
    assert files.read("index.cdxj").splitlines(keepends=True) == sorted(set(lines))
    assert files.list("") == ["index.cdxj"]


def test_sorting_holds_no_more_than_its_memory(tmp_path: Path) -> None:
    files = FaultyFiles()
    lines = [_entry(f"org,h{i:05d})/").line() for i in range(1000)]
    size = len(lines[0]) + 64
    write_index(files, "index.cdxj", iter(lines), memory=100 * size)
    assert sum(".run" in step and step.startswith("create") for step in files.history) == 10


def test_an_index_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    old = [_entry("org,old)/").line()]
    write_index(files, "index.cdxj", old)

    def broken() -> object:
        for i in range(100):
            yield _entry(f"org,new{i})/").line()
        raise StorageError("the archive is damaged")

    with pytest.raises(StorageError):
        write_index(files, "index.cdxj", broken(), memory=2000)  # type: ignore[arg-type]
    assert files.read("index.cdxj") == old[0]
    assert files.list("") == ["index.cdxj"]


_surts = st.text(alphabet="ab,)/", min_size=1, max_size=6)


@settings(max_examples=80, deadline=None)
@given(st.lists(_surts, max_size=60), st.lists(_surts, min_size=1, max_size=10), st.integers(16, 400))
def test_search_finds_what_a_plain_search_finds(there: list[str], asked: list[str], probe: int) -> None:
    files = FaultyFiles()
    made = [_entry(surt, offset=i) for i, surt in enumerate(there)]
    write_index(files, "index.cdxj", (e.line() for e in made))
    index = Index(files, "index.cdxj")
    in_order = sorted(made, key=Entry.line)
    assert list(index) == in_order
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cdxj, "_PROBE", probe)
        patch.setattr(cdxj, "_BLOCK", probe * 2)
        for surt in [*asked, *there[:5]]:
            assert index.lookup("", surt=lambda _, surt=surt: surt) == [e for e in in_order if e.surt == surt]
            assert list(index.prefix(surt)) == [e for e in in_order if e.surt.startswith(surt)]


def test_lookup_by_url_reads_little(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    made = [_entry(f"org,example)/page/{i}", offset=i) for i in range(20_000)]
    write_index(files, "index.cdxj", (e.line() for e in made))
    asked: list[int] = []

    class Counting(DiskFiles):
        def read_at(self, name: str, offset: int, length: int) -> bytes:
            data = super().read_at(name, offset, length)
            asked.append(len(data))
            return data

    index = Index(Counting(tmp_path), "index.cdxj")
    assert index.lookup("http://www.example.org/page/12345") == [made[12345]]
    assert index.lookup("http://example.org/none") == []
    assert sum(asked) < files.size("index.cdxj") / 5


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_line_or_an_error(data: bytes) -> None:
    for line in (data, b"a 2023 " + data, b'a 2023 {"url":"x","offset":"1","filename":"f"' + data):
        try:
            Entry.of_line(line)
        except StorageError:
            continue
