"""Files: one contract for the disk and for the faulty double, and what only the disk does."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lycosa.ask.alive import process_of
from lycosa.errors import ConfigError, DiskFullError, StorageError
from lycosa.files import DirectoryLock, DiskFiles, Files, write_whole
from lycosa.lab.faults import FaultyFiles


@pytest.fixture(params=["disk", "faulty"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return DiskFiles(tmp_path / "root") if request.param == "disk" else FaultyFiles()


# -- the contract of the port


def test_what_is_written_is_read_after_flush(files: Files) -> None:
    out = files.create("a/b/c")
    assert out.size == 0
    out.write(b"one")
    out.write(bytearray(b"two"))
    out.write(memoryview(b"three"))
    assert out.size == 11, "also what is not flushed"
    out.flush()
    assert files.read("a/b/c") == b"onetwothree"
    assert files.size("a/b/c") == 11
    out.sync()
    out.close()
    assert files.read("a/b/c") == b"onetwothree"


def test_read_at_gives_at_most_what_is_there(files: Files) -> None:
    write_whole(files, "x", b"0123456789")
    assert files.read_at("x", 3, 4) == b"3456"
    assert files.read_at("x", 8, 100) == b"89"
    assert files.read_at("x", 10, 1) == b""
    assert files.read_at("x", 99, 1) == b""
    assert files.read_at("x", 0, 0) == b""


def test_create_replaces_and_append_goes_on(files: Files) -> None:
    for data, wanted in ((b"first", b"first"), (b"2", b"2")):
        out = files.create("x")
        out.write(data)
        out.close()
        assert files.read("x") == wanted
    out = files.append("x")
    assert out.size == 1
    out.write(b"3")
    out.close()
    assert files.read("x") == b"23"
    made = files.append("new/y")
    made.close()
    assert files.read("new/y") == b""


def test_close_flushes(files: Files) -> None:
    out = files.create("x")
    out.write(b"data")
    out.close()
    out.close()  # again does no harm
    assert files.read("x") == b"data"


def test_names(files: Files) -> None:
    assert files.list("") == files.list("nowhere") == []
    for name in ("b", "a", "d/x", "d/e/y"):
        write_whole(files, name, b"")
    assert files.list("") == ["a", "b", "d"]
    assert files.list("d") == ["e", "x"]
    assert files.exists("d") and files.exists("d/e/y") and not files.exists("d/z")


def test_within_is_the_same_place_below(files: Files) -> None:
    below = files.within("d").within("e")
    write_whole(below, "x", b"1")
    assert files.read("d/e/x") == b"1"
    assert below.list("") == ["x"]
    files.remove("d/e/x")
    assert not below.exists("x")


def test_rename_replaces(files: Files) -> None:
    write_whole(files, "old", b"new bytes")
    write_whole(files, "there", b"old bytes")
    files.rename("old", "there")
    assert files.list("") == ["there"]
    assert files.read("there") == b"new bytes"


def test_remove_what_is_not_there(files: Files) -> None:
    write_whole(files, "x", b"")
    files.remove("x")
    files.remove("x")
    files.remove("d/never")
    assert not files.exists("x")


def test_truncate(files: Files) -> None:
    write_whole(files, "x", b"0123456789")
    files.truncate("x", 4)
    assert files.read("x") == b"0123"
    out = files.append("x")
    assert out.size == 4
    out.write(b"!")
    out.close()
    assert files.read("x") == b"0123!"


def test_what_is_not_there_is_an_error_of_storage_that_names_it(files: Files) -> None:
    for call in (files.read, files.size, lambda name: files.read_at(name, 0, 1)):
        with pytest.raises(StorageError, match="missing"):
            call("d/missing")
    with pytest.raises(StorageError, match="missing"):
        files.rename("missing", "x")
    with pytest.raises(StorageError, match="missing"):
        files.truncate("missing", 0)


def test_write_whole_leaves_no_draft(files: Files) -> None:
    write_whole(files, "d/x", b"1")
    write_whole(files, "d/x", b"22")
    assert files.list("d") == ["x"]
    assert files.read("d/x") == b"22"


def test_an_open_file_survives_its_removal(files: Files) -> None:
    """As POSIX has it: whoever holds the file goes on; the name is gone."""
    out = files.create("x")
    files.remove("x")
    out.write(b"to nobody")
    out.close()
    assert not files.exists("x")


# -- the disk


def test_large_writes_do_not_wait_in_memory(tmp_path: Path) -> None:
    out = DiskFiles(tmp_path).create("x")
    out.write(bytes(300_000))
    assert (tmp_path / "x").stat().st_size == 300_000
    out.close()


def test_sync_may_come_from_another_thread(tmp_path: Path) -> None:
    """Every byte is there once and in order, whoever flushes."""
    out = DiskFiles(tmp_path).create("x")
    going = True

    def sync() -> None:
        while going:
            out.sync()

    thread = threading.Thread(target=sync)
    thread.start()
    try:
        for number in range(20_000):
            out.write(number.to_bytes(4, "big"))
    finally:
        going = False
        thread.join()
    out.close()
    data = (tmp_path / "x").read_bytes()
    assert data == b"".join(number.to_bytes(4, "big") for number in range(20_000))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "the disk is full: free some room"),
        (errno.EDQUOT, "the disk is full"),
        (errno.EACCES, "no permission: choose another directory"),
        (errno.EROFS, "no permission"),
        (errno.EIO, os.strerror(errno.EIO)),
    ],
)
def test_errors_of_the_system_say_what_to_do(
    code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    out = DiskFiles(tmp_path).create("x")
    out.write(b"data")
    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(StorageError, match=words) as caught:
        out.sync()
    assert str(tmp_path / "x") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


def test_a_failed_sync_is_not_taken_for_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "broken")

    out = DiskFiles(tmp_path).create("x")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="cannot sync"):
        out.sync()
    with pytest.raises(StorageError, match="cannot sync"):
        DiskFiles(tmp_path).sync_dir("")


def test_short_writes_and_reads_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, pread = os.write, os.pread
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:3]))
    monkeypatch.setattr(os, "pread", lambda fd, length, offset: pread(fd, min(length, 2), offset))
    files = DiskFiles(tmp_path)
    write_whole(files, "x", b"0123456789")
    assert files.read_at("x", 1, 8) == b"12345678"


def test_a_file_where_a_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    files = DiskFiles(tmp_path)
    for call in (files.create, files.append, files.list, files.sync_dir):
        with pytest.raises(StorageError):
            call("f/x" if call != files.list else "f")


def test_write_whole_keeps_the_old_bytes_if_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = DiskFiles(tmp_path)
    write_whole(files, "x", b"old")

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError):
        write_whole(files, "x", b"new")
    assert files.read("x") == b"old"


# -- the lock


def test_the_lock_has_one_holder(tmp_path: Path) -> None:
    directory = tmp_path / "made" / "crawl"
    lock = DirectoryLock(directory)
    with pytest.raises(ConfigError, match=f"in use by process {os.getpid()}: stop it first"):
        DirectoryLock(directory)
    lock.release()
    lock.release()
    DirectoryLock(directory).release()


def test_the_lock_goes_with_its_process(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from lycosa.files import DirectoryLock;"
        "lock = DirectoryLock(pathlib.Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(ConfigError, match=f"in use by process {process.pid}"):
        DirectoryLock(tmp_path)
    assert process_of(tmp_path) == process.pid
    process.kill()
    process.communicate()
    assert process_of(tmp_path) is None
    DirectoryLock(tmp_path).release()


def test_a_lock_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(ConfigError, match="is not a directory"):
        DirectoryLock(tmp_path / "f")


def test_waiting_for_the_agents_of_a_dead_process_does_not_hold_the_loop(tmp_path: Path) -> None:
    """A child has the lock's file; the process that wrote its number there is gone."""

    async def go() -> list[str]:
        said: list[str] = []
        held = DirectoryLock(tmp_path)
        (tmp_path / "lock").write_text("999999999\n")

        async def take() -> None:
            (await DirectoryLock.waited(tmp_path, patience=60.0)).release()
            said.append("taken")

        waiter = asyncio.ensure_future(take())
        for _ in range(3):
            await asyncio.sleep(0.06)
            said.append("the loop goes on")
        assert not waiter.done()
        held.release()
        await waiter
        return said

    assert asyncio.run(go()) == ["the loop goes on"] * 3 + ["taken"]


def test_a_living_holder_is_not_waited_for(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with pytest.raises(ConfigError, match="in use"):
        asyncio.run(asyncio.wait_for(DirectoryLock.waited(tmp_path, patience=600.0), 240))
    lock.release()


def test_a_full_disk_is_told_by_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(DiskFullError, match="the disk is full"):
        DirectoryLock(tmp_path)
    monkeypatch.undo()
    DirectoryLock(tmp_path).release()


def test_directories_are_for_their_owner_alone_unless_they_were_there(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    before = os.umask(0)
    try:
        DirectoryLock(tmp_path / "open").release()
        DirectoryLock(tmp_path / "new").release()
        write_whole(DiskFiles(tmp_path / "shared"), "crawl/shards/00/x", b"")
    finally:
        os.umask(before)
    modes = {
        name: (tmp_path / name).stat().st_mode & 0o777 for name in ("open", "new", "shared", "shared/crawl")
    }
    assert modes == {"open": 0o755, "new": 0o700, "shared": 0o700, "shared/crawl": 0o700}
