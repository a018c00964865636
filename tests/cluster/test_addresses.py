"""One contract for the table of addresses, within a process and between processes."""

from __future__ import annotations

import errno
import math
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lycosa.cluster import addresses
from lycosa.cluster.addresses import SharedAddressTable
from lycosa.errors import StorageError
from lycosa.frontier import AddressTable


class Table(Protocol):
    def try_begin(self, address: str, now: float) -> float: ...
    def end(self, address: str, now: float) -> None: ...
    def hold(self, address: str, until: float) -> None: ...


Make = Callable[[float], Table]


@pytest.fixture(params=["own", "shared", "shared-small"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    def table(wait: float) -> Table:
        if request.param == "own":
            return AddressTable(wait)
        addresses.create(tmp_path / "table", wait, 64 if request.param == "shared-small" else 1 << 10)
        return SharedAddressTable(tmp_path / "table", 0)

    return table


def test_turns_and_waits(make: Make) -> None:
    table = make(0.5)
    assert table.try_begin("192.0.2.1", 10.0) == 0.0
    assert table.try_begin("192.0.2.2", 10.0) == 0.0
    assert 10.0 < table.try_begin("192.0.2.1", 10.0) < 10.5
    table.end("192.0.2.1", 11.0)
    assert table.try_begin("192.0.2.1", 11.2) == 11.5
    assert table.try_begin("192.0.2.1", 11.5) == 0.0
    table.hold("192.0.2.3", 20.0)
    table.hold("192.0.2.3", 15.0)
    assert table.try_begin("192.0.2.3", 15.0) == 20.0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0.0, 1.0), st.booleans()), max_size=60),
    st.floats(0.0, 2.0),
)
def test_never_two_at_once_and_always_the_wait(
    make: Make, steps: list[tuple[int, float, bool]], wait: float
) -> None:
    table, now = make(wait), 1.0
    opened: set[str] = set()
    ended: dict[str, float] = {}
    for number, step, close in steps:
        now += step
        address = f"198.51.100.{number}"
        if close and address in opened:
            table.end(address, now)
            opened.discard(address)
            ended[address] = now
            continue
        answer = table.try_begin(address, now)
        if address in opened:
            assert answer > now
        elif now < ended.get(address, -math.inf) + wait:
            assert answer == ended[address] + wait
        else:
            assert answer == 0.0
            opened.add(address)


def test_two_views_of_one_table_and_a_death(tmp_path: Path) -> None:
    addresses.create(tmp_path / "table", 0.5)
    first, second = (SharedAddressTable(tmp_path / "table", agent) for agent in (0, 1))
    assert first.try_begin("192.0.2.1", 1.0) == 0.0
    assert second.try_begin("192.0.2.1", 1.0) > 1.0
    second.end("192.0.2.1", 1.1)  # not its own: nothing happens
    assert second.try_begin("192.0.2.1", 9.0) > 9.0
    assert second.release(0, 9.0) == 1
    assert second.try_begin("192.0.2.1", 9.1) == 9.5
    assert second.try_begin("192.0.2.1", 9.5) == 0.0
    assert first.remembered(9.5) == 1
    first.close()
    second.close()


def test_a_full_neighbourhood_refuses_and_forgets_nothing(tmp_path: Path) -> None:
    addresses.create(tmp_path / "table", 0.5, 8)
    table = SharedAddressTable(tmp_path / "table", 0)
    names = [f"192.0.2.{number}" for number in range(20)]
    granted = [name for name in names if table.try_begin(name, 1.0) == 0.0]
    assert len(granted) == 8
    table.end(granted[0], 2.0)
    assert table.try_begin(granted[0], 2.1) == 2.5
    assert table.try_begin(names[-1], 2.2) > 2.2
    assert table.try_begin(names[-1], 2.6) == 0.0  # the wait of the first is over


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(bytes(100))
    with pytest.raises(StorageError, match="no table of addresses"):
        SharedAddressTable(tmp_path / "table", 0)
    (tmp_path / "table").write_bytes(b"")
    with pytest.raises(StorageError, match="no table of addresses"):
        SharedAddressTable(tmp_path / "table", 0)


def test_a_disk_without_room_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match=r"cannot write .*table: the disk is full"):
        addresses.create(tmp_path / "table", 0.5)
    assert not (tmp_path / "table").exists()
    with pytest.raises(StorageError, match=r"cannot open .*table: No such file"):
        SharedAddressTable(tmp_path / "table", 0)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=r"cannot write .*file/table"):
        addresses.create(tmp_path / "file" / "table", 0.5)


def test_the_table_has_its_blocks_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fallocate", lambda fd, offset, length: asked.append((offset, length)))
    addresses.create(tmp_path / "table", 0.5, 64)
    assert asked == [(0, (tmp_path / "table").stat().st_size)]


CONTENDER = """
import sys, time
from pathlib import Path
from lycosa.cluster.addresses import SharedAddressTable
table = SharedAddressTable(Path(sys.argv[1]), int(sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
turns = 0
while turns < 20:
    again = table.try_begin("192.0.2.1", now := time.monotonic())
    if again:
        time.sleep(max(min(again - now, 0.002), 0))
        continue
    begun = time.monotonic()
    time.sleep(0.003)
    ended = time.monotonic()
    print(begun, ended, flush=True)
    table.end("192.0.2.1", time.monotonic())
    turns += 1
"""


def test_two_processes_take_turns(tmp_path: Path) -> None:
    """The later of two turns begins a wait after the end of the earlier, however long either takes."""
    addresses.create(tmp_path / "table", 0.01)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CONTENDER, str(tmp_path / "table"), str(agent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for agent in range(2)
    ]
    for process in processes:  # both are there before either begins
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    spans: list[tuple[float, float]] = []
    for process in processes:
        out, _ = process.communicate()
        assert process.returncode == 0
        rows = [line.split() for line in out.decode().splitlines()]
        assert len(rows) == 20
        spans += [(float(begun), float(ended)) for begun, ended in rows]
    for (_, ended), (begun, _) in pairwise(sorted(spans)):
        assert begun >= ended + 0.01 - 1e-4, "the address was asked too early, or twice at once"
