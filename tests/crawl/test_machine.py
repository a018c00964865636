"""Cores and memory as control groups of either version leave them, read from made-up files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lycosa.crawl import agent
from lycosa.crawl.config import read_options
from lycosa.crawl.machine import cores, fitted, memory_limit
from lycosa.files import DiskFiles

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


MB = 1 << 20


@pytest.mark.parametrize(
    ("limit", "agents", "said", "wanted"),
    [
        (1024, 1, {}, (256, 512)),
        (512, 1, {}, (85, 170)),
        (128, 1, {}, (16, 16)),
        (512, 1, {"frontier": {"memory": 200 * MB}}, (200, 56)),
        (512, 1, {"frontier": {"memory": 200 * MB}, "seen": {"memory": 400 * MB}}, (200, 400)),
        (1536, 2, {}, (256, 512)),
        (1024, 2, {}, (128, 256)),
    ],
)  # fmt: skip
def test_defaults_fit_into_little_memory(
    limit: int, agents: int, said: dict[str, dict[str, int]], wanted: tuple[int, int]
) -> None:
    found = fitted(read_options({"public": False, **said}), limit * MB, agents)
    assert (found[0] // MB, found[1] // MB) == wanted


def test_an_agent_in_a_small_container_has_less_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "memory_limit", lambda: 512 * MB)
    told: list[str] = []
    made = agent.build(DiskFiles(tmp_path), read_options({"public": False}), told=told.append)
    assert made.moves._room.limit == 256 * MB // 3
    assert told == [
        "the defaults want more than 512 MB of memory: frontier.memory is 85 MB and seen.memory 170 MB in this run"
    ]
    assert made.options.frontier.memory == 256 * MB, "the log says what was asked for"
