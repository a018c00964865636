"""What every shared storage promises, on a directory, on a real S3 server and on a real NATS server."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lycosa.cluster.storage import Missing, Storage
from lycosa.cluster.storage.protocol import PIECE
from lycosa.cluster.storage.s3 import S3Storage
from lycosa.errors import StorageError
from lycosa.files import Appender, Bytes, DiskFiles, write_whole
from tests.cluster.storage.s3_server import ENVIRON

Open = Callable[[], Storage]


def test_objects(storage: Storage, tmp_path: Path) -> None:
    local = DiskFiles(tmp_path / "local")
    write_whole(local, "f", b"abcdef")
    storage.put_file("a/b/f", local, "f", 4)
    assert storage.get("a/b/f") == b"abcd" and storage.size("a/b/f") == 4 and storage.exists("a/b/f")
    with pytest.raises(StorageError):
        storage.put_file("a/b/f", local, "f", 7)  # shorter than it was said to be: the old one stays
    assert storage.get("a/b/f") == b"abcd" and storage.list("a/b") == ["f"]
    storage.get_file("a/b/f", local, "copy")
    assert local.read("copy") == b"abcd"
    storage.put("a/b/f", b"other")
    assert storage.get("a/b/f") == b"other"
    for offset, length, found in ((0, 3, b"oth"), (3, 9, b"er"), (5, 1, b""), (9, 9, b""), (1, 0, b"")):
        assert storage.read_at("a/b/f", offset, length) == found
    storage.remove("a/b/f")
    storage.remove("a/b/f")
    assert not storage.exists("a/b/f") and storage.list("a/b") == []


def test_what_is_missing(storage: Storage, tmp_path: Path) -> None:
    storage.put("a/b/f", b"1")
    for act in (storage.get, storage.size, lambda name: storage.read_at(name, 0, 1)):
        for name in ("a/b/g", "a/b", "a/b/f/g"):
            with pytest.raises(Missing):
                act(name)
    with pytest.raises(Missing):
        storage.get_file("a/b/g", DiskFiles(tmp_path), "copy")
    assert not storage.exists("a/b") and storage.list("none/at/all") == [] and storage.sizes("none") == {}


def test_empty_objects(storage: Storage, tmp_path: Path) -> None:
    local = DiskFiles(tmp_path / "local")
    write_whole(local, "f", b"")
    storage.put_file("a/f", local, "f")
    storage.put("a/g", b"")
    assert storage.sizes("a") == {"f": 0, "g": 0} and storage.get("a/f") == b""
    assert storage.read_at("a/g", 0, 5) == b""
    storage.get_file("a/f", local, "copy")
    assert local.read("copy") == b""


def test_directories(storage: Storage) -> None:
    for name in ("c/x", "c/d/y", "c/d/e/z", "c/dd/w", "c2/v"):
        storage.put(name, name.encode())
    assert storage.list("c") == ["d", "dd", "x"] and storage.sizes("c") == {"x": 3}
    assert storage.list("c/d") == ["e", "y"]
    storage.remove_all("c/d")
    storage.remove_all("c/d")
    assert storage.list("c") == ["dd", "x"] and storage.get("c2/v") == b"c2/v"


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/../x",
        "a/./x",
        "/x",
        "a//x",
        "a/",
        "",
        "a\\x",
        "a/\0",
        "a/x\n",
        "a/x.part",
        "a/" + "x" * 999,
    ],
)
def test_names_that_lead_elsewhere_are_refused(storage: Storage, name: str, tmp_path: Path) -> None:
    local = DiskFiles(tmp_path / "local")
    write_whole(local, "f", b"1")
    for act in (
        lambda: storage.put(name, b"1"),
        lambda: storage.put_file(name, local, "f"),
        lambda: storage.get(name),
        lambda: storage.get_file(name, local, "g"),
        lambda: storage.read_at(name, 0, 1),
        lambda: storage.size(name),
        lambda: storage.exists(name),
        lambda: storage.list(name),
        lambda: storage.sizes(name),
        lambda: storage.remove(name),
        lambda: storage.remove_all(name),
    ):
        with pytest.raises(StorageError, match="no name of a file"):
            act()


def test_names_with_odd_characters(storage: Storage) -> None:
    names = ["a b", "å%2F", "x?y#z&+~=", "..x", "x..", "*", ">", "a.b.c", "'\"<>"]
    for name in names:
        storage.put(f"odd/{name}/{name}", name.encode())
    assert storage.list("odd") == sorted(names)
    for name in names:
        assert storage.get(f"odd/{name}/{name}") == name.encode()
    storage.remove_all("odd")
    assert storage.list("odd") == []


class Watched(DiskFiles):
    """Files that note how much is read and written at a time."""

    most = 0

    def read_at(self, name: str, offset: int, length: int) -> bytes:
        Watched.most = max(Watched.most, length)
        return super().read_at(name, offset, length)

    def create(self, name: str) -> Appender:
        out = super().create(name)
        write = out.write

        def watched(data: Bytes) -> None:
            Watched.most = max(Watched.most, len(data))
            write(data)

        out.write = watched  # type: ignore[method-assign]
        return out


def test_large_objects_go_in_pieces(storage: Storage, tmp_path: Path) -> None:
    """Three pieces and a bit; never more than one is in memory at a time."""
    local = Watched(tmp_path / "local")
    data = random.Random(1).randbytes(1 << 20) * 25 + b"end"
    assert len(data) > 3 * PIECE
    write_whole(local, "f", data)
    Watched.most = 0
    storage.put_file("a/large", local, "f")
    storage.get_file("a/large", local, "copy")
    assert 0 < Watched.most <= PIECE
    assert local.read("copy") == data and storage.size("a/large") == len(data)
    with pytest.raises(StorageError, match="shorter than it was"):
        storage.put_file("a/large", local, "f", len(data) + 1)
    assert storage.size("a/large") == len(data) and storage.list("a") == ["large"]
    assert storage.read_at("a/large", 2 * PIECE - 2, 9) == data[2 * PIECE - 2 : 2 * PIECE + 7]


def test_lists_of_more_than_a_page(storage: Storage) -> None:
    names = [f"{number:05d}" for number in range(1_020)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: storage.put(f"many/{name}", b""), names))
    assert storage.list("many") == names
    assert storage.sizes("many") == dict.fromkeys(names, 0)


def test_writers_at_the_same_time(opened: Open, tmp_path: Path) -> None:
    """Whoever reads finds what one of them wrote, whole; and in the end there is one."""
    local = DiskFiles(tmp_path / "local")
    agents = [opened() for _ in range(3)]
    # The S3 server of the tests tells the size of one object and sends bytes of the one that replaces it.
    more = 0 if isinstance(agents[0], S3Storage) else 1
    versions = [bytes([65 + number]) * (400_000 + number * more) for number in range(3)]
    for number, data in enumerate(versions):
        write_whole(local, f"f{number}", data)
    agents[0].put("a/f", versions[0])

    def write(number: int) -> None:
        for _ in range(4):
            agents[number].put_file("a/f", local, f"f{number}")

    def read(number: int) -> None:
        for turn in range(6):
            assert agents[number].get("a/f") in versions
            agents[number].get_file("a/f", local, f"copy{number}-{turn}")
            assert local.read(f"copy{number}-{turn}") in versions

    with ThreadPoolExecutor(6) as pool:
        for done in [*(pool.submit(write, n) for n in range(3)), *(pool.submit(read, n) for n in range(3))]:
            done.result()
    assert agents[0].list("a") == ["f"] and agents[1].get("a/f") == agents[2].get("a/f")


WRITER = """
    import sys, time
    from lycosa.engine.nats.connection import ConnectionOptions
    from lycosa.cluster.storage.opening import open_storage
    from lycosa.files import DiskFiles

    class Slow(DiskFiles):
        def read_at(self, name, offset, length):
            if offset >= 20 << 20:
                print("in the middle", flush=True)
                time.sleep(600)
            return super().read_at(name, offset, length)

    place, servers, local = sys.argv[1:]
    storage = open_storage(place, "killed", ConnectionOptions(servers=(servers,)), replicas=1)
    storage.put_file("a/f", Slow(local), "f")
"""


@pytest.mark.parametrize("kind", ["directory", "s3", "nats"])
def test_a_writer_that_is_killed_leaves_nothing_half(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    from lycosa.cluster.storage.opening import open_storage
    from lycosa.engine.nats.connection import ConnectionOptions

    (tmp_path / "shared").mkdir()
    place, servers = str(tmp_path / "shared"), "nats://127.0.0.1:1"
    if kind == "s3":
        place = request.getfixturevalue("s3").place("killed")
        request.getfixturevalue("monkeypatch").setenv("AWS_ACCESS_KEY_ID", ENVIRON["AWS_ACCESS_KEY_ID"])
        request.getfixturevalue("monkeypatch").setenv(
            "AWS_SECRET_ACCESS_KEY", ENVIRON["AWS_SECRET_ACCESS_KEY"]
        )
    elif kind == "nats":
        place, servers = "nats", request.getfixturevalue("one").urls[0]
    storage = open_storage(place, "killed", ConnectionOptions(servers=(servers,)), replicas=1)
    storage.put("a/f", b"before")
    write_whole(DiskFiles(tmp_path / "local"), "f", bytes(40 << 20))
    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), place, servers, str(tmp_path / "local")],
        stdout=subprocess.PIPE,
        env=dict(os.environ),
    )
    assert writer.stdout is not None
    with writer.stdout:
        assert writer.stdout.readline() == b"in the middle\n"
        assert storage.get("a/f") == b"before" and storage.list("a") == ["f"]
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert storage.get("a/f") == b"before" and storage.list("a") == ["f"] and storage.sizes("a") == {"f": 6}
    storage.put("a/f", b"after")
    assert storage.get("a/f") == b"after"
    storage.close()
