"""Acts on a crawl of several agents: taken up by the supervisor, logged by every shard's holder, done once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from lycosa.crawl.agent import End
from lycosa.crawl.steering import Steering
from lycosa.lab.webs import serving
from tests.cluster.crawled import SMALL, crawl, until
from tests.crawl.test_steering import acts


def test_several_agents_pause_are_limited_and_go_on(tmp_path: Path) -> None:
    into = tmp_path / "two"
    some = 0

    async def steer(made: Any) -> None:
        nonlocal some

        async def asked(*words: str) -> None:
            assert await asyncio.to_thread(Steering(into, who="ann@here").act, *words) == "done"

        await until(lambda: made.status().pages >= 10)
        await asked("pause")
        # What shards have said since the act: no visit begins, and those under way end.
        await until(lambda: all(row.visits == 0 for row in made.status().shards))
        held = made.status().pages
        some = held + 30
        await asked("set", "politeness.wait=0.06", f"limits.pages={some}")
        assert made.status().pages == held
        await asked("site", "nowhere.test", "block")
        await asked("go-on")

    with serving(msgspec.structs.replace(SMALL, pages=2_400)) as served:
        ran = crawl(served.web, into, 2, during=steer, limits={"pages": 5_000})
    assert ran.end is End.LIMIT and ran.status.pages == some
    told = ["pause", f"set politeness.wait=0.06 limits.pages={some}", "site nowhere.test block", "go-on"]
    assert acts(into) == [("ann@here", text) for text in told]
    assert not list((into / "control").glob("*.act"))
