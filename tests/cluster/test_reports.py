"""The end of a crawl: whatever is said to be over is kept, whoever dies then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lycosa.lab.chaos_verdict import archive_faults
from lycosa.lab.cluster_run import Running, run_cluster
from lycosa.lab.cluster_web import SimulatedWeb
from lycosa.lab.network import Reply
from lycosa.lab.simulate import write_archives
from lycosa.records import Fetched

HOSTS = [f"h{number}.test" for number in range(6)]


def _web() -> SimulatedWeb:
    body = "".join(f'<a href="http://{host}/">x</a>' for host in HOSTS).encode()

    def script(request: Any, before: int) -> Reply:
        return Reply(b"", 404) if request.url.endswith("/robots.txt") else Reply(request.url.encode() + body)

    names = {host: f"127.0.1.{number}" for number, host in enumerate(HOSTS)}
    return SimulatedWeb(script, names, [f"http://{HOSTS[0]}/"])


@pytest.mark.parametrize("limit", [0, 4])
def test_disks_that_are_lost_when_the_crawl_is_over_held_nothing_that_is_not_elsewhere(
    limit: int, tmp_path: Path
) -> None:
    async def all_die_at_the_end(running: Running) -> None:
        while not running.servers.finished:
            await running.clock.sleep(0.005)
        for name in list(running.members):
            await running.kill(name, "lost")

    options: dict[str, Any] = {
        "public": False,
        "allow": ["127.0.0.0/8"],
        "scope": {"mode": "any"},
        "limits": {"pages": limit} if limit else {},
        "snapshot": {"seconds": 600.0, "archive_seconds": 600.0},
    }
    ran = run_cluster(1, _web(), shards=3, options=options, plans=[all_die_at_the_end], limit=600.0)
    assert ran.state.end == ("limit" if limit else "finished") and not ran.failed
    pages = [row for rows in ran.records.values() for _, row in rows if isinstance(row, Fetched)]
    assert len(pages) == (limit or len(HOSTS))
    write_archives(ran.storage, tmp_path)
    assert not list(archive_faults(tmp_path, pages))
