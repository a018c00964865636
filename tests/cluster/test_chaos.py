"""Exactly once, whatever happens to agents and servers: a short storm, and (slow) a whole one."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import msgspec
import pytest

from lycosa.lab.chaos import WEB, Ran, Storm, run
from lycosa.lab.chaos_events import Event, Kind
from tests.cluster.storage.s3_server import ENVIRON, s3_server
from tests.servers import demand_binary

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="reads sockets of stopped processes from /proc"
)

SMALL = msgspec.structs.replace(
    WEB, hosts=20, pages=500, kinds=("robots", "redirects", "copies"), crawl_delay=0.2
)


def check(ran: Ran) -> None:
    if not ran.verdict.right:
        told = [f"{len(ran.verdict.faults)} faults:", *ran.verdict.faults[:20], "", *ran.happened]
        raise AssertionError("\n".join(told))


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    "kind",
    ["directory", *(pytest.param(each, marks=pytest.mark.slow) for each in ("s3", "nats"))],
)
def test_an_agent_is_stopped_another_loses_its_disk_and_leaves(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server, two agents and what agents suffer. With every run of the tests: however slow the machine is, the
    verdict is the same, and only the watchdog knows of time."""
    demand_binary()
    with contextlib.ExitStack() as stack:
        shared = "nats" if kind == "nats" else ""
        if kind == "s3":
            for name, value in ENVIRON.items():
                monkeypatch.setenv(name, value)
            shared = stack.enter_context(s3_server(tmp_path / "s3")).place("storms")
        small_storm(tmp_path, shared)


def small_storm(tmp_path: Path, shared: str) -> None:
    storm = Storm(
        agents=2,
        servers=1,
        shards=4,
        lease=2.0,
        web=SMALL,
        wait=0.2,
        commit_seconds=0.2,
        seconds=500.0,
        shared=shared,
    )
    events = [
        Event(1, Kind.STOP, 0.1, 0.0, 2.4, False),
        Event(2, Kind.WIPE, 2.6, 0.9, 0.0, False),
        Event(3, Kind.LEAVE, 0.1, 0.0, 0.0, False),
    ]
    ran = run(storm, tmp_path, events=events)
    check(ran)
    assert ran.verdict.pages > 500
    assert [line.split("  ")[-1][:7] for line in ran.happened if "event" in line] == [
        "event 1",
        "event 2",
        "event 3",
    ]


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_a_storm(tmp_path: Path) -> None:
    """Three servers, four agents, two more of them later, twenty events."""
    demand_binary()
    check(run(Storm(seed=2026, events=20), tmp_path, print))
