"""The archive: places, rotation, threads, and recovery from every kind of end."""

from __future__ import annotations

import io
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from lycosa.archive import warc
from lycosa.archive.writer import Archive, ArchiveOptions
from lycosa.clock import ManualClock
from lycosa.errors import ConfigError, DiskFullError, StorageError
from lycosa.files import Appender, DiskFiles, Files
from lycosa.lab.faults import Crash, FaultyFiles
from lycosa.records import Stored

AT = 1_700_000_000_123
ASKED = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def _archive(files: Files, **options: object) -> Archive:
    return Archive(files, ArchiveOptions(**options), ManualClock(), crawl="c1")  # type: ignore[arg-type]


def _store(archive: Archive, number: int, size: int = 50) -> Stored:
    body = Random(number).randbytes(size)
    return archive.store(url=f"http://h/{number}", at=AT, request_head=ASKED, head=HEAD, body=body)


def _ends(places: list[Stored]) -> dict[str, int]:
    ends: dict[str, int] = {}
    for place in places:
        ends[place.file] = max(ends.get(place.file, 0), place.offset + place.length)
    return ends


def _by_warcio(files: Files) -> Counter[tuple[str, str | None]]:
    """Every record of every file, by type and URL, digests checked."""
    found: Counter[tuple[str, str | None]] = Counter()
    for name in files.list(""):
        for record in ArchiveIterator(io.BytesIO(files.read(name)), check_digests="raise"):
            record.content_stream().read()
            found[record.rec_type, record.rec_headers.get_header("WARC-Target-URI")] += 1
    return found


def test_places_are_given_and_read(tmp_path: Path) -> None:
    archive = _archive(DiskFiles(tmp_path))
    places = [_store(archive, i) for i in range(10)]
    for i, place in enumerate(places):
        got = archive.read(place)  # not yet synced: read all the same
        assert (got.url, got.request_head, got.head) == (f"http://h/{i}", ASKED, HEAD)
        assert got.body == Random(i).randbytes(50)
    for before, after in pairwise(places):
        assert before.offset + before.length == after.offset
    archive.close()
    assert sum(_by_warcio(DiskFiles(tmp_path)).values()) == 21
    assert archive.names() == ["lycosa-20231114221320-00000-c1.warc.gz"]


def test_the_request_names_its_response(tmp_path: Path) -> None:
    archive = _archive(DiskFiles(tmp_path))
    _store(archive, 1)
    archive.sync()
    info, asked, answer = (located.record for located in archive.scan())
    assert (info.kind, asked.kind, answer.kind) == ("warcinfo", "request", "response")
    assert asked.fields["warc-concurrent-to"] == answer.fields["warc-record-id"]
    assert b"software: lycosa/" in info.block
    assert b"isPartOf: c1" in info.block


def test_without_requests(tmp_path: Path) -> None:
    archive = _archive(DiskFiles(tmp_path), requests=False)
    place = _store(archive, 1)
    assert place.response == 0
    assert archive.read(place).request_head == b""


def test_revisits_and_resources(tmp_path: Path) -> None:
    archive = _archive(DiskFiles(tmp_path))
    first = archive.store(url="http://h/1", at=AT, request_head=ASKED, head=HEAD, body=b"same")
    payload = archive.read(first).fields["warc-payload-digest"]
    again = archive._append(b"", warc.revisit("<urn:uuid:1>", AT + 1, "http://h/2", HEAD, payload=payload))
    got = archive.read(again)
    assert (got.kind, got.head, got.body) == ("revisit", HEAD, b"")
    assert got.fields["warc-payload-digest"] == payload == warc.digest(b"same")
    file = archive.store_resource(url="file:///tmp/x", at=AT, media_type="text/plain", body=b"\r\n\r\nx")
    got = archive.read(file)
    assert (got.kind, got.request_head, got.head, got.body) == ("resource", b"", b"", b"\r\n\r\nx")


def test_rotation(tmp_path: Path) -> None:
    archive = _archive(DiskFiles(tmp_path), rotate_bytes=5000)
    places = [_store(archive, i, 1000) for i in range(20)] + [
        _store(archive, 99, 20_000),
        _store(archive, 100),
    ]
    archive.close()
    names = archive.names()
    assert len(names) > 5
    assert [name.split("-")[2] for name in names] == [f"{i:05d}" for i in range(len(names))]
    sizes = {name: (tmp_path / name).stat().st_size for name in names}
    assert sum(size > 5000 for size in sizes.values()) == 1  # the one exchange that fits nowhere
    assert _ends(places) == sizes
    for name in names:
        with (tmp_path / name).open("rb") as stream:
            assert next(iter(ArchiveIterator(stream))).rec_type == "warcinfo"
    assert [archive.read(place).url for place in places[:20]] == [f"http://h/{i}" for i in range(20)]


def test_store_touches_no_file_until_its_buffer_is_full() -> None:
    files = FaultyFiles()
    archive = _archive(files, rotate_bytes=3000, buffer_bytes=40_000)
    while files.steps == 0:
        _store(archive, 1, 1000)
    held = sum(files.size(name) for name in files.list(""))
    assert 40_000 < held < 45_000
    assert not any("sync" in step for step in files.history)


def test_sync_leaves_everything_durable() -> None:
    files = FaultyFiles()
    archive = _archive(files, rotate_bytes=3000)
    places = [_store(archive, i, 1000) for i in range(10)]
    archive.flush()
    places += [_store(archive, i, 1000) for i in range(10, 20)]
    archive.sync()
    after = files.restart(Random(1))
    survivor = _archive(after)
    for i, place in enumerate(places):
        assert survivor.read(place).url == f"http://h/{i}"
    before = files.steps
    archive.sync()  # nothing new: nothing to do
    assert files.steps == before


class _HeldSync:
    """An appender whose sync lasts until it is let go."""

    def __init__(self, inner: Appender, begun: threading.Event, let_go: threading.Event) -> None:
        self._inner, self._begun, self._let_go = inner, begun, let_go
        self.write, self.flush, self.close = inner.write, inner.flush, inner.close

    @property
    def size(self) -> int:
        return self._inner.size

    def sync(self) -> None:
        self._begun.set()
        assert self._let_go.wait(170)
        self._inner.sync()


class _HeldFiles(DiskFiles):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.begun, self.let_go = threading.Event(), threading.Event()

    def append(self, name: str) -> Appender:
        return _HeldSync(super().append(name), self.begun, self.let_go)


def test_store_goes_on_during_a_sync(tmp_path: Path) -> None:
    files = _HeldFiles(tmp_path)
    archive = _archive(files)
    _store(archive, 0)
    thread = threading.Thread(target=archive.sync)
    thread.start()
    assert files.begun.wait(170)
    places = [_store(archive, i) for i in range(1, 50)]
    assert thread.is_alive(), "all of them were stored while the sync was under way"
    files.let_go.set()
    thread.join()
    assert archive.read(places[-1]).url == "http://h/49"


def test_ids_that_another_thread_has_taken_meanwhile_are_drawn_anew(tmp_path: Path) -> None:
    class Emptied(list[bytes]):
        """It has one when it is looked at, and none when that is taken."""

        def __len__(self) -> int:
            return 1

    archive = _archive(DiskFiles(tmp_path))
    ids = set()
    for _ in range(3):
        archive._identities = Emptied()
        ids.add(archive._identity())
    assert len(ids) == 3


def test_storing_and_syncing_threads(tmp_path: Path) -> None:
    archive = _archive(DiskFiles(tmp_path), rotate_bytes=20_000, buffer_bytes=5_000)
    done = threading.Event()
    durable: list[tuple[Stored, int]] = []
    stored: list[tuple[Stored, int]] = []

    def commit() -> None:
        while not done.is_set():
            upto = len(stored)
            archive.sync()
            durable.extend(stored[len(durable) : upto])

    def sync_too() -> None:
        while not done.is_set():
            archive.sync()

    def read() -> None:
        while not done.is_set():
            for place, number in durable[-5:]:
                assert archive.read(place).url == f"http://h/{number}"

    threads = [threading.Thread(target=work) for work in (commit, sync_too, read)]
    failures: list[BaseException] = []
    threading.excepthook, old = lambda args: failures.append(args.exc_value or Crash()), threading.excepthook
    try:
        for thread in threads:
            thread.start()
        for i in range(600):
            stored.append((_store(archive, i, 300), i))  # noqa: PERF401 - others read it meanwhile
        done.set()
        for thread in threads:
            thread.join()
    finally:
        threading.excepthook = old
        done.set()
    archive.close()
    assert not failures
    assert [archive.read(place).url for place, _ in stored] == [f"http://h/{i}" for i in range(600)]
    counts = _by_warcio(DiskFiles(tmp_path))
    assert counts.pop(("warcinfo", None)) == len(archive.names()) > 5
    assert set(counts.values()) == {1}
    assert len(counts) == 1200


def _disk(name: str, data: bytes) -> FaultyFiles:
    """A disk in memory with one file, durably."""
    files = FaultyFiles()
    out = files.create(name)
    out.write(data)
    out.sync()
    files.sync_dir("")
    return files


def test_cut_at_every_byte_of_the_last_exchange(tmp_path: Path) -> None:
    archive = _archive(DiskFiles(tmp_path))
    places = [_store(archive, i) for i in range(3)]
    archive.close()
    (name,) = archive.names()
    data = (tmp_path / name).read_bytes()
    committed = places[:2]
    (end,) = _ends(committed).values()
    assert places[2].offset == end
    for cut in range(end, len(data) + 1):
        files = _disk(name, data[:cut])
        again = _archive(files)
        done = again.recover(_ends(committed))
        assert done == ({name: cut - end} if cut > end else {}, [])
        place = _store(again, 2)
        again.close()
        assert place.file == name
        assert place.offset == end
        assert again.read(place).url == "http://h/2"
        assert [located.record.fields.get("warc-target-uri") for located in again.scan()] == [
            None,
            *(f"http://h/{i}" for i in (0, 0, 1, 1, 2, 2)),
        ]
    for cut in range(end):  # bytes that the log knows are gone: not ours to mend
        files = _disk(name, data[:cut])
        with pytest.raises(StorageError, match=f"has {cut} bytes and the log knows {end}"):
            _archive(files).recover(_ends(committed))
        assert files.size(name) == cut


def test_recovery_removes_what_the_log_does_not_know(tmp_path: Path) -> None:
    archive = _archive(DiskFiles(tmp_path), rotate_bytes=3000)
    places = [_store(archive, i, 1000) for i in range(10)]
    archive.close()
    (tmp_path / "index.cdxj").write_text("not ours")
    committed = places[:4]
    again = _archive(DiskFiles(tmp_path), rotate_bytes=3000)
    before = again.names()
    done = again.recover(_ends(committed))
    assert set(done.removed) == set(before) - set(_ends(committed))
    assert set(again.names()) == set(_ends(committed))
    assert (tmp_path / "index.cdxj").exists()
    # New files get new serials, those of the removed ones too.
    more = [_store(again, i, 1000) for i in range(10, 20)]
    again.close()
    assert not {place.file for place in more} & set(done.removed)
    assert [again.read(place).url for place in committed] == [f"http://h/{i}" for i in range(4)]


def test_recovery_of_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="has 0 bytes and the log knows 10"):
        _archive(DiskFiles(tmp_path)).recover({"lycosa-20231114221320-00000-c1.warc.gz": 10})
    assert _archive(DiskFiles(tmp_path)).recover({}) == ({}, [])


def _crawl(files: Files, pages: int, committed: list[tuple[int, Stored]]) -> None:
    """A crawl in small: recover, then store what is not committed, syncing before each commit."""
    archive = _archive(files, rotate_bytes=2500, buffer_bytes=1500)
    archive.recover(_ends([place for _, place in committed]))
    known = {number for number, _ in committed}
    batch: list[tuple[int, Stored]] = []
    for number in range(pages):
        if number in known:
            continue
        batch.append((number, _store(archive, number, 300)))
        if number % 3 == 2:
            archive.sync()
            committed += batch
            batch = []
    archive.sync()
    committed += batch
    archive.close()


def test_a_crash_at_every_step() -> None:
    undisturbed = FaultyFiles()
    _crawl(undisturbed, 12, [])
    assert undisturbed.steps > 20
    for step in range(1, undisturbed.steps + 1):
        files = FaultyFiles(crash_at=step)
        committed: list[tuple[int, Stored]] = []
        random = Random(step)
        for attempt in range(10):
            try:
                _crawl(files, 12, committed)
                break
            except Crash:
                # The second start is stopped too, early: in the middle of its recovery or first writes.
                files = files.restart(random, crash_at=random.randint(1, 6) if attempt == 0 else None)
        else:
            raise AssertionError("it never came to an end")
        after = files.restart(random)
        archive = _archive(after)
        assert sorted(number for number, _ in committed) == list(range(12))
        for number, place in committed:
            assert archive.read(place).url == f"http://h/{number}"
        counts = _by_warcio(after)
        counts.pop(("warcinfo", None))
        assert set(counts.values()) == {1}
        assert len(counts) == 24


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_random_crashes(seed: int) -> None:
    random = Random(seed)
    files = FaultyFiles(crash_at=random.randint(1, 60))
    committed: list[tuple[int, Stored]] = []
    for _ in range(50):
        try:
            _crawl(files, 15, committed)
            break
        except Crash:
            files = files.restart(random, crash_at=random.randint(1, 60))
    else:
        raise AssertionError("it never came to an end")
    counts = _by_warcio(files.restart(random))
    counts.pop(("warcinfo", None))
    assert set(counts.values()) == {1}
    assert len(counts) == 30


class _BadFiles(DiskFiles):
    def __init__(self, root: Path, error: StorageError) -> None:
        super().__init__(root)
        self._error = error

    def append(self, name: str) -> Appender:
        raise self._error


@pytest.mark.parametrize(
    ("error", "after"),
    [(StorageError("it burns"), "failed before"), (DiskFullError("the disk is full"), "^the disk is full")],
)
def test_after_an_error_nothing_more_is_stored(tmp_path: Path, error: StorageError, after: str) -> None:
    """Whoever comes later and is heard first says the same of a full disk."""
    archive = _archive(_BadFiles(tmp_path, error))
    _store(archive, 1)
    with pytest.raises(type(error), match=str(error)):
        archive.sync()
    for again in (archive.sync, archive.flush, lambda: _store(archive, 2)):
        with pytest.raises(type(error), match=after):
            again()
    archive.close()


@pytest.mark.parametrize("word", ["", "a/b", "a-b", "a b", "..", "ä"])
def test_names_are_checked(tmp_path: Path, word: str) -> None:
    with pytest.raises(ConfigError, match="prefix"):
        _archive(DiskFiles(tmp_path), prefix=word)
    with pytest.raises(ConfigError, match="crawl id"):
        Archive(DiskFiles(tmp_path), ArchiveOptions(), ManualClock(), crawl=word)
    with pytest.raises(ConfigError, match="level"):
        _archive(DiskFiles(tmp_path), level=9)
