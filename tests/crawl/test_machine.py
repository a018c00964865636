"""Cores and memory as control groups of either version leave them, read from made-up files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lycosa.crawl.machine import cores, memory_limit

RAM = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Machine:
    """Files like those of `/sys/fs/cgroup` and `/proc/self/cgroup`."""

    def __init__(self, directory: Path, ours: str, **files: str) -> None:
        self.groups = directory / "groups"
        self.ours = directory / "ours"
        self.ours.write_text(ours)
        self.write(files)

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.groups / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")

    def cores(self) -> int:
        return cores(self.groups, self.ours)

    def memory(self) -> int:
        return memory_limit(self.groups, self.ours)


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("max 100000", 8),
        ("50000 100000", 1),
        ("100000 100000", 1),
        ("250000 100000", 2),
        ("1600000 100000", 8),
        ("damaged", 8),
    ],
)
def test_a_quota_of_version_2(tmp_path: Path, text: str, wanted: int) -> None:
    machine = Machine(tmp_path, "0::/\n")
    machine.write({"cpu.max": text, "memory.max": "max"})
    assert machine.cores() == wanted
    assert machine.memory() == RAM


def test_the_smallest_of_a_group_and_those_above_it_holds(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "0::/system.slice/lycosa.service\n")
    machine.write(
        {"system.slice/lycosa.service/cpu.max": "max 100000", "system.slice/cpu.max": "300000 100000"}
    )
    machine.write({"system.slice/lycosa.service/memory.max": "1000000", "system.slice/memory.max": "3000000"})
    assert (machine.cores(), machine.memory()) == (3, 1_000_000)


def test_version_1_and_a_path_of_the_world_outside(tmp_path: Path) -> None:
    ours = "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n0::/\n"
    machine = Machine(tmp_path, ours)
    machine.write({"cpu,cpuacct/cpu.cfs_quota_us": "400000", "cpu,cpuacct/cpu.cfs_period_us": "100000"})
    machine.write({"memory/memory.limit_in_bytes": "2000000"})
    assert (machine.cores(), machine.memory()) == (4, 2_000_000)
    machine.write({"cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "-1"})
    machine.write({"memory/memory.limit_in_bytes": "9223372036854771712"})
    assert (machine.cores(), machine.memory()) == (4, RAM)


def test_without_control_groups_the_machine_has_what_it_has(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    assert cores(nothing, nothing) == 8
    assert memory_limit(nothing, nothing) == RAM
