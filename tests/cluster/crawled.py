"""Crawls of several agents over real sockets, for end-to-end tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import lycosa
from lycosa.crawl.agent import End
from lycosa.crawl.status import Status
from lycosa.lab.webs import AccessLog, Politeness, Web, WebOptions, violations
from tests.crawl.served import options as served_options

SMALL = WebOptions(
    hosts=24,
    pages=240,
    page_bytes=1500,
    links=12,
    local_share=0.5,
    kinds=("robots", "redirects", "copies", "statuses"),
    slow_ms=10,
    crawl_delay=0.1,
    retry_after=0,
    failures=1,
    max_addresses=16,
)
"""Links mostly lead to other hosts; robots files redirect to other hosts; contents repeat across hosts."""
WAITS = {"wait": 0.05, "address_wait": 0.02, "factor": 0.0}


def options(web: Web, **more: Any) -> dict[str, Any]:
    waits = {
        "politeness": WAITS,
        "retry": {"first": 0.2, "growth": 1.5, "most": 1.0},
        "robots": {"first_retry": 0.2},
        "commit_seconds": 0.1,
    }
    return served_options(web, **{**waits, **more})


class Ran:
    """What a run came to."""

    def __init__(self, end: End, status: Status) -> None:
        self.end = end
        self.status = status


def crawl(
    web: Web,
    into: Path,
    agents: int | None,
    during: Callable[[Any], Awaitable[None]] | None = None,
    told: Callable[[str], None] | None = None,
    **more: Any,
) -> Ran:
    """A whole run; `during` runs beside it."""

    async def go() -> Ran:
        made = lycosa.Crawl(web.seeds(), into=into, agents=agents, shards=8, **options(web, **more))
        await made.start(told=told)
        beside = asyncio.ensure_future(during(made)) if during else None
        if beside is not None:
            # A check that fails ends the crawl, which it may have left paused.
            beside.add_done_callback(lambda done: done.cancelled() or (done.exception() and made.stop_soon()))
        try:
            end = await made.wait()  # the suite's own limit ends a test that hangs
        finally:
            if beside is not None:
                beside.cancel()
        if beside is not None and beside.done() and not beside.cancelled():
            beside.result()
        return Ran(end, made.status())

    return asyncio.run(go())


def judge(log: AccessLog, web: Web) -> list[str]:
    rules = Politeness(
        wait=WAITS["wait"],
        pages=8,
        address_wait=WAITS["address_wait"],
        factor=0.0,
        delays=web.delays(),
        same_connection=False,
    )
    return [str(row) for row in violations(log, rules)]


async def until(true: Callable[[], bool], seconds: float = 240.0) -> None:
    """Wait for something to become true."""
    for _ in range(int(seconds / 0.02)):
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen")
