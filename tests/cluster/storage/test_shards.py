"""Shared storage: whole files, checkpoints that a stale holder cannot spoil, and shards as they were."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from lycosa.cluster.storage import (
    DirectoryStorage,
    Missing,
    ShardStorage,
    TailAhead,
    archives,
    put_archive,
)
from lycosa.errors import StorageError
from lycosa.files import DiskFiles, Files, write_whole
from lycosa.lab.faults import FaultyFiles
from lycosa.log import snapshot
from lycosa.log.log import Log
from lycosa.log.reader import segment_name, segments, walk
from lycosa.log.snapshot import SnapshotWriter
from tests.cluster.logs import WrittenLog, record
from tests.crawl import little


class Piece(NamedTuple):
    """As the tail gives it."""

    first: int
    end: int
    segment: int
    data: bytes


def pieces_of(log: Files, start: int = 0) -> Iterator[Piece]:
    """What the tail would hold of a log from a position on."""
    for first in segments(log):
        for at, body in walk(log, first):
            if at.head.end > start:
                yield Piece(at.head.first, at.head.end, first, bytes(body))


def put_snapshot(files: DiskFiles, position: int, **parts: dict[str, bytes]) -> None:
    for part, content in parts.items():
        for name, data in content.items():
            write_whole(files, f"{part}/{name}", data)
    writer = SnapshotWriter(files.within("snapshots"), position)
    writer.add("state", b"at %d" % position)
    writer.seal({"files": {part: sorted(content) for part, content in parts.items()}, "store": "memory"})


@pytest.fixture
def storage(tmp_path: Path) -> DirectoryStorage:
    return DirectoryStorage(tmp_path / "shared")


@pytest.fixture
def shard(storage: DirectoryStorage) -> ShardStorage:
    return ShardStorage(storage, "c", 3)


def test_files_are_there_whole_or_not_at_all(storage: DirectoryStorage, tmp_path: Path) -> None:
    local = DiskFiles(tmp_path / "local")
    write_whole(local, "f", b"abcdef")
    storage.put_file("a/b/f", local, "f", 4)
    assert storage.get("a/b/f") == b"abcd" and storage.size("a/b/f") == 4
    assert storage.list("a/b") == ["f"] and storage.list("none") == []
    with pytest.raises(StorageError):
        storage.put_file("a/b/f", local, "f", 7)  # shorter than it was said to be: the old one stays
    assert storage.get("a/b/f") == b"abcd"
    assert [path.name for path in (tmp_path / "shared/a/b").iterdir()] == ["f"]  # and no draft
    storage.get_file("a/b/f", local, "copy")
    assert local.read("copy") == b"abcd"
    storage.remove("a/b/f")
    storage.remove("a/b/f")
    assert not storage.exists("a/b/f")
    for act in (storage.get, storage.size):
        with pytest.raises(Missing):
            act("a/b/f")
    with pytest.raises(Missing):
        storage.get_file("a/b/f", local, "copy")


def test_a_log_is_restored_byte_for_byte(shard: ShardStorage, tmp_path: Path) -> None:
    """Sealed segments from storage, the rest from the tail; it makes no difference where the border is."""
    written = WrittenLog(tmp_path / "a", segment_bytes=150)
    for _ in range(9):
        written.commit(3)
    firsts = segments(written.files)
    assert len(firsts) > 4
    for stored in range(len(firsts)):  # the last one is never sealed
        for first in firsts[:stored]:
            shard.put_segment(written.files, first)
        purged = random.Random(stored).choice([0, *firsts[: stored + 1]])
        tail = pieces_of(written.files, purged)
        local = DiskFiles(tmp_path / f"b{stored}")
        restored = shard.restore(local, tail)
        assert restored.end == 27 and restored.checkpoint is None
        log = local.within("log")
        assert segments(log) == firsts
        for first in firsts:
            assert log.read(segment_name(first)) == written.files.read(segment_name(first))
        opened = Log(log)
        assert opened.torn == 0 and opened.end == 27
        assert [row for _, row in opened.reader.scan()] == [record(n) for n in range(27)]
        opened.close()


def test_what_a_dead_holder_wrote_and_nobody_took_is_gone(shard: ShardStorage, tmp_path: Path) -> None:
    """An agent comes back to its own disk: sealed segments are kept, the rest is what was committed."""
    written = WrittenLog(tmp_path / "a/log", segment_bytes=120)
    for _ in range(5):
        written.commit(3)
    firsts = segments(written.files)
    committed = list(pieces_of(written.files))
    for first in firsts[:-1]:
        shard.put_segment(written.files, first)
    for _ in range(4):
        written.commit(2)  # never acknowledged, and in segments that the log does not have
    assert len(segments(written.files)) > len(firsts)
    written.log.close()
    whole = written.files.read(segment_name(firsts[1]))
    written.files.truncate(segment_name(firsts[1]), 30)  # and its disk has lost something
    restored = shard.restore(DiskFiles(tmp_path / "a"), committed)
    assert restored.end == 15 and restored.reused == len(firsts) - 2
    assert segments(written.files) == firsts
    assert written.files.read(segment_name(firsts[1])) == whole
    log = Log(written.files)
    assert log.end == 15 and [row for _, row in log.reader.scan()] == [record(n) for n in range(15)]


def test_a_tail_that_is_ahead_of_storage_is_told(shard: ShardStorage, tmp_path: Path) -> None:
    written = WrittenLog(tmp_path / "a", segment_bytes=120)
    for _ in range(6):
        written.commit(3)
    firsts = segments(written.files)
    shard.put_segment(written.files, firsts[0])
    with pytest.raises(TailAhead):
        shard.restore(DiskFiles(tmp_path / "b"), pieces_of(written.files, firsts[2]))


def test_a_checkpoint_ahead_of_the_log_is_told(shard: ShardStorage, tmp_path: Path) -> None:
    local = DiskFiles(tmp_path / "a")
    put_snapshot(local, 9)
    shard.save(local, 9, 1)
    with pytest.raises(StorageError, match="ahead of the log"):
        shard.restore(DiskFiles(tmp_path / "b"), [Piece(0, 4, 0, b"")])


def test_a_stale_holders_checkpoint_replaces_nothing(shard: ShardStorage, tmp_path: Path) -> None:
    old, new = DiskFiles(tmp_path / "old"), DiskFiles(tmp_path / "new")
    put_snapshot(old, 10, seen={"repo-1": b"old"})
    assert shard.save(old, 10, 1) is not None
    put_snapshot(new, 12, seen={"repo-1": b"new"})
    assert shard.save(new, 12, 2) is not None
    put_snapshot(old, 500, seen={"repo-9": b"stale"})
    assert shard.save(old, 500, 1) is None
    found = shard.newest()
    assert found is not None and (found.epoch, found.position) == (2, 12)


def test_a_stale_checkpoint_that_comes_later_does_not_count(
    shard: ShardStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stale holder looked before the new one saved, and wrote after it."""
    old, new = DiskFiles(tmp_path / "old"), DiskFiles(tmp_path / "new")
    put_snapshot(old, 13, seen={"repo-1": b"old"})
    put_snapshot(new, 12, seen={"repo-1": b"new"})
    shard.save(new, 12, 2)
    with monkeypatch.context() as patched:
        patched.setattr(shard, "checkpoints", list)  # it believes that nobody saved
        assert shard.save(old, 13, 1) is not None
    assert shard.restore(DiskFiles(tmp_path / "r"), [Piece(0, 12, 0, b"")]).checkpoint.epoch == 2  # type: ignore[union-attr]
    assert (tmp_path / "r/seen/repo-1").read_bytes() == b"new"


def test_old_checkpoints_and_their_files_go_and_needed_ones_stay(
    shard: ShardStorage, storage: DirectoryStorage, tmp_path: Path
) -> None:
    local = DiskFiles(tmp_path / "a")
    for position in (1, 2, 3, 4):
        content = {"repo": b"k" * 10, f"wait-{position}": b"w", f"wait-{position + 1}": b"w"}
        put_snapshot(local, position, seen=content)
        shard.save(local, position, 1)
    assert shard.checkpoints() == [(1, 3), (1, 4)]
    assert storage.list("c/shards/03/files/00000001/seen") == ["repo.10", "wait-3.1", "wait-4.1", "wait-5.1"]
    # A file that grew is another file; the older checkpoint keeps its own.
    write_whole(local, "seen/repo", b"k" * 20)
    put_snapshot(local, 5, seen={"repo": b"k" * 20})
    shard.save(local, 5, 1)
    assert storage.list("c/shards/03/files/00000001/seen") == ["repo.10", "repo.20", "wait-4.1", "wait-5.1"]
    # The next holder leaves the last one's files alone until it has two checkpoints itself.
    put_snapshot(local, 6, seen={"repo": b"k" * 20})
    shard.save(local, 6, 2)
    assert storage.list("c/shards/03/files") == ["00000001", "00000002"]
    put_snapshot(local, 7, seen={"repo": b"k" * 20})
    shard.save(local, 7, 2)
    assert storage.list("c/shards/03/files") == ["00000002"]
    assert shard.checkpoints() == [(2, 6), (2, 7)]


def test_a_damaged_checkpoint_is_passed_over(
    shard: ShardStorage, storage: DirectoryStorage, tmp_path: Path
) -> None:
    local = DiskFiles(tmp_path / "a")
    put_snapshot(local, 1)
    shard.save(local, 1, 1)
    storage.put("c/shards/03/checkpoints/00000001-00000000000000000009.json", b"{")
    found = shard.newest()
    assert found is not None and found.position == 1


@pytest.mark.parametrize(
    "name",
    [
        "../../../x",
        "seen/..",
        "/etc/x",
        "seen//x",
        "seen/a/b",
        "x",
        "",
        "seen/\0",
        "..\\x/y",
        "seen/.",
        "./x",
    ],
)
def test_names_that_lead_elsewhere_are_refused(storage: DirectoryStorage, name: str, tmp_path: Path) -> None:
    """A checkpoint is written by whoever can write to the storage."""
    shard = ShardStorage(storage, "c", 0)
    good = "c/shards/00/files/00000001/seen/x.1"
    storage.put(good, b"1")
    for local, stored in ((name, good), ("seen/x", name)):
        told = {"epoch": 1, "position": 5, "snapshot": good, "files": {local: [stored, 1]}}
        storage.put("c/shards/00/checkpoints/00000001-00000000000000000005.json", msgspec.json.encode(told))
        place = tmp_path / "deep" / "er" / "place"
        with pytest.raises(StorageError, match="names a file"):
            shard.restore(DiskFiles(place), [])
        assert not (tmp_path / "x").exists() and not place.exists()


def test_archives(storage: DirectoryStorage, tmp_path: Path) -> None:
    local = DiskFiles(tmp_path / "a")
    write_whole(local, "x.warc.gz", b"12345")
    put_archive(storage, "c", local, "x.warc.gz")
    put_archive(storage, "c", local, "x.warc.gz")
    assert archives(storage, "c") == {"x.warc.gz": 5}


WEB = {
    **{
        f"http://h{n}.test/p{m}": little.html(f"/p{m + 1}", f"http://h{(n + 1) % 5}.test/p{m}")
        for n in range(5)
        for m in range(6)
    }
}


@pytest.mark.parametrize("pages", [0, 12])
def test_a_crawl_goes_on_from_shared_storage_as_from_its_own_disk(tmp_path: Path, pages: int) -> None:
    """The whole shard: log, snapshot and the files it names. With a limit the crawl is taken over half done."""
    seeds = ["http://h0.test/p0"]
    limits = {"limits": {"pages": pages}} if pages else {}
    storage = DirectoryStorage(tmp_path / "shared")
    mine, theirs = FaultyFiles(), FaultyFiles()  # in memory: syncing is not what this is about
    first = little.crawl(mine, WEB, seeds, **limits)
    for name in ("crawl.json", "public_suffix.dat", *(f"archive/{name}" for name in mine.list("archive"))):
        write_whole(theirs, name, mine.read(name))
    for number in range(4):
        place = mine.within(f"shards/{number:02d}")
        shard = ShardStorage(storage, "c", number)
        positions = snapshot.positions(place.within("snapshots"))
        assert positions and shard.save(place, positions[-1], 1) is not None
        restored = shard.restore(theirs.within(f"shards/{number:02d}"), pieces_of(place.within("log")))
        assert restored.checkpoint is not None and restored.end >= restored.checkpoint.position
    again = little.crawl(theirs, WEB, seeds, start=first.until + 100)
    assert not set(again.urls) & {url for url in first.urls if not url.endswith("/robots.txt")}
    whole = little.crawl(FaultyFiles(), WEB, seeds)
    assert again.fetched == whole.fetched and len(whole.fetched) > 30
