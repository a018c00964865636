"""A crawl that comes back: whole runs on virtual time, of a web that changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from lycosa.crawl import agent as agents
from lycosa.crawl.agent import Agent, End
from lycosa.fetch.protocol import Failure, FailureKind, Request
from lycosa.files import Files
from lycosa.lab import virtual
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import Reply, ScriptedFetcher
from lycosa.lab.virtual import VirtualClock
from lycosa.log.reader import LogReader
from lycosa.records import Before, Deferred, Fetched, Record, Why
from lycosa.url.parts import path_of
from tests.crawl.scripted import make_agent

SEED = "http://a.test/"
DAY = 86_400.0
PROSE = "This paragraph is long enough to count as main text of the page, and it says the same thing {}."
NAMES = ("still", "news", "gone", "tagged")


class ChangingWeb:
    """Pages of one site: each says what its clock and its counter make of it."""

    def __init__(self) -> None:
        self.clock: VirtualClock | None = None
        self.asked: Counter[str] = Counter()
        self.conditional: Counter[str] = Counter()
        self.down: Callable[[float], bool] = lambda day: False

    def __call__(self, request: Request, before: int) -> Reply | Failure:
        assert self.clock is not None
        day, path = self.clock.monotonic() / DAY, path_of(request.url)
        if self.down(day):
            return Failure(FailureKind.CONNECT, "nobody is there")
        if path == "/robots.txt":
            return Reply(b"", 404)
        self.asked[path] += 1
        self.conditional[path] += bool(request.etag)
        # A nonce in every answer: the bytes always differ, what they say does not.
        nonce = f"<script>var nonce = '{self.asked[path]:08x}'</script>"
        if path == "/gone" and day > 1:
            return Reply(b"no more", 404)
        if path == "/tagged":
            tag = f'"v{int(day / 4)}"'
            if request.etag == tag:
                return Reply(b"", 304, (("ETag", tag),))
            return self._page("tagged", int(day / 4), "", (("ETag", tag),))
        if path == "/news":
            return self._page("news", int(day * 4), nonce)
        links = "".join(f'<a href="/{name}">{name}</a>' for name in NAMES)
        return self._page(path, 0, nonce + links)

    @staticmethod
    def _page(name: str, version: int, more: str, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
        words = PROSE.format(f"{name} version {'abcdefghijklmnopqrstuvwxyz'[version % 26]} of many words")
        body = f"<html><title>{name}</title><body><p>{words}</p>{more}</body></html>"
        return Reply(body.encode(), 200, (("Content-Type", "text/html; charset=utf-8"), *headers))


def come_back(
    files: Files,
    web: ChangingWeb,
    days: float,
    start: float = 0.0,
    seeds: list[str] | None = None,
    **options: Any,
) -> tuple[End, Agent, ScriptedFetcher, float]:
    """A continuous run of so many days."""
    given: dict[str, Any] = {
        "refresh": {"continuous": True, "per_page": 2.0},
        "limits": {"seconds": days * DAY},
        "commit_seconds": 900.0,
        "politeness": {"wait": 1.0, "address_wait": 0.05},
        "robots": {"attempts": 1},
        **options,
    }

    agents._IDLE = 900.0  # a virtual day is a hundred turns of the loop, and not ten thousand

    async def go(clock: VirtualClock) -> tuple[End, Agent, ScriptedFetcher, float]:
        web.clock = clock
        agent, fetcher = make_agent(files, clock, web, [SEED] if seeds is None else seeds, **given)
        return await agent.run(), agent, fetcher, clock.monotonic()

    return virtual.run(go, start)


def records(files: Files) -> list[Record]:
    return [
        row for number in range(4) for _, row in LogReader(files.within(f"shards/{number:02d}/log")).scan()
    ]


def test_pages_are_come_back_to_and_those_that_change_more_often() -> None:
    web, files = ChangingWeb(), FaultyFiles()
    end, agent, _, _ = come_back(files, web, 8)
    assert end is End.LIMIT
    asked = web.asked
    assert asked["/news"] > 2 * asked["/still"] > 2, asked
    totals = agent.totals()
    assert (totals.pages, totals.fetched) == (5, sum(asked.values()))
    rate = totals.again / 5 / 8
    assert 1.0 < rate < 2.4, "about as many fetches as the budget has"
    rows = records(files)
    for url in ("still", "news"):
        mine = [row for row in rows if getattr(row, "url", "") == SEED + url]
        fetches = [row for row in mine if isinstance(row, Fetched)]
        assert [row.before for row in fetches] == [Before.NEVER] + [Before.PAGE] * (len(fetches) - 1)
        assert not any(row.duplicate for row in fetches)
        changes = sum(a.content != b.content for a, b in pairwise(fetches))
        assert changes == 0 if url == "still" else changes > 8
        dues = [row for row in mine if isinstance(row, Deferred) and row.why is Why.REFRESH]
        assert len(dues) == len(fetches) and all(row.before is Before.PAGE for row in dues)
