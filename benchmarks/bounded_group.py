"""A control group with a memory limit for one process: version 2 or 1, if this user may make one.

    with make_group("name", bytes) as (group, how):
        command = group.command(command) if group is not None else command

The group is made under the group that this process may write to, and removed at the end. Memory is charged to the
group whose process touches it first: anonymous memory, page cache, kernel memory of sockets. The kernel reclaims
page cache when the limit is reached, and kills the process if that is not enough.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/sys/fs/cgroup")


class Group(NamedTuple):
    """An existing control group."""

    place: Path
    version: int

    def command(self, command: Sequence[str]) -> list[str]:
        """Wraps the command so that it joins the group first and keeps its process id, that of the shell."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.place / "cgroup.procs"), *command]

    def read(self) -> dict[str, int]:
        """The peak charge, how often the limit was hit, how many processes were killed for it."""
        names = ("memory.peak", "") if self.version == 2 else ("memory.max_usage_in_bytes", "memory.failcnt")
        events = self._table("memory.events" if self.version == 2 else "memory.oom_control")
        return {
            "peak": self._number(names[0]),
            "limit_met": events.get("max", 0) if self.version == 2 else self._number(names[1]),
            "killed": events.get("oom_kill", 0),
        }

    def _number(self, name: str) -> int:
        try:
            return int((self.place / name).read_text())
        except (OSError, ValueError):
            return 0

    def _table(self, name: str) -> dict[str, int]:
        try:
            rows = [line.split() for line in (self.place / name).read_text().splitlines()]
        except OSError:
            return {}
        return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


@contextmanager
def make_group(name: str, limit: int) -> Iterator[tuple[Group | None, str]]:
    """A group with that limit in bytes, or None; and a description of how memory is limited."""
    version = 2 if (ROOT / "cgroup.controllers").exists() else 1
    parent = ROOT if version == 2 else ROOT / "memory"
    place = parent / f"{name}-{os.getpid()}"
    made = False
    try:
        place.mkdir()
        made = True
        file = "memory.max" if version == 2 else "memory.limit_in_bytes"
        (place / file).write_text(str(limit))
    except OSError as error:
        if made:
            place.rmdir()
        yield None, f"by sampling alone (no control group can be made here: {error.strerror})"
        return
    try:
        yield Group(place, version), f"by a control group (version {version}) of {limit / 1e6:,.0f} MB"
    finally:
        with suppress(OSError):
            place.rmdir()
