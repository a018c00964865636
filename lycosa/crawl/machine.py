"""The resources of this process: cores and bytes of RAM.

A container, or a unit of systemd, gives a process less than the machine has: its control group may have a quota of
CPU time and a limit of memory, and so may each group above it. The smallest of them applies.

                    cores                                       memory
    version 2       cpu.max: "quota period" or "max period"     memory.max: bytes or "max"
    version 1       cpu.cfs_quota_us (-1: none) / cpu.cfs_period_us   memory.limit_in_bytes

A crawl's defaults are made for a gigabyte per agent. If there is less, they are reduced (`fitted`): otherwise the
kernel would kill the process once the crawl has grown.

`/proc/self/cgroup` names our group. Within a container its path may be that of the host, of which
nothing is mounted but the group itself, at the root: paths that do not exist are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from lycosa.crawl.config import Options
from lycosa.frontier import FrontierOptions
from lycosa.seen.stores import SeenOptions

GROUPS = Path("/sys/fs/cgroup")
OURS = Path("/proc/self/cgroup")
_PROCESS = 256 << 20
"""Bytes of RAM of an agent without frontier and seen set."""
_LEAST = 16 << 20


def cores(groups: Path = GROUPS, ours: Path = OURS) -> int:
    """How many cores this process can keep busy, at least one."""
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    quotas = [quota for group in _groups("cpu", groups, ours) if (quota := _quota(group))]
    return max(int(min([allowed, *quotas])), 1)


def memory_limit(groups: Path = GROUPS, ours: Path = OURS) -> int:
    """Bytes of RAM that this process may have."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for group in _groups("memory", groups, ours):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _read(group / name)
            if text.isdigit():
                limits.append(int(text))
    return min(limits)


def fitted(options: Options, limit: int, agents: int) -> tuple[int, int]:
    """`frontier.memory` and `seen.memory` for one of `agents` agents on a machine with `limit` bytes.

    Values that were set stay; a default value counts as not set, since a log does not distinguish the two.
    Each agent has its part of the seen set.
    """
    rows = (
        (options.frontier.memory, FrontierOptions().memory, 1),
        (options.seen.memory, SeenOptions().memory, agents),
    )
    loose = sum(size // parts for size, default, parts in rows if size == default)
    fixed = sum(size // parts for size, default, parts in rows if size != default)
    room = limit // agents - _PROCESS - fixed
    frontier, seen = (
        max(size * room // loose, _LEAST) if size == default and room < loose else size
        for size, default, _ in rows
    )
    return frontier, seen


def _groups(controller: str, groups: Path, ours: Path) -> Iterator[Path]:
    """The directories of our control group for a controller, and of all above it."""
    roots = {"": [groups, groups / "unified"]}
    for line in _read(ours).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        for root in roots.get(controllers, [groups / controllers, groups / controller]):
            place = PurePosixPath(path.lstrip("/"))
            for at in (place, *place.parents):
                yield root / at


def _quota(group: Path) -> float:
    """Cores that a group's quota amounts to; 0: it has none."""
    quota, _, period = _read(group / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else 0.0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
