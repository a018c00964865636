"""A wider scope with several agents, over real sockets: every link that was out of scope arrives."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import lycosa
from lycosa.ask.reading import CrawlReader
from lycosa.crawl.agent import End
from lycosa.records import Received
from tests.cluster.crawled import until
from tests.crawl.recorded import MISSING, OPTIONS, Asked, Said, page, serving

PAGES, LINKS = 20, 1000
LONG = "y" * 4000


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twenty_thousand_long_links_are_offered_again(tmp_path: Path) -> None:
    """80 MB of links for one shard of another agent, all found before the scope was widened."""

    def answer(asked: Asked) -> Said:
        if not asked.host.startswith("a.test"):
            return MISSING
        if asked.path == "/":
            return page("all", *(f"/p{number}" for number in range(PAGES)))
        port = asked.host.partition(":")[2]
        links = (f'<a href="http://b.test:{port}/x{asked.path[2:]}-{n}-{LONG}">x</a>' for n in range(LINKS))
        return Said("".join(links).encode()) if asked.path[1:2] == "p" else MISSING

    async def widen(seed: str) -> None:
        made = crawl(seed, [])
        await made.start()
        made.pause()  # what arrives is of interest, not what is fetched
        await until(lambda: made.stats().get("exchange.links_in", 0) >= PAGES * LINKS, 800)
        await made.stop()

    async def narrow(seed: str) -> End:
        return await crawl(seed, ["/x"]).wait()

    def crawl(seed: str, excluded: list[str]) -> Any:
        scope = {"mode": "any", "exclude_paths": excluded, "max_url_length": 8192}
        dns = {"resolve": ["a.test:127.0.0.1", "b.test:127.0.0.1"]}
        given = {**OPTIONS, "scope": scope, "dns": dns, "archive": {"keep": False}}
        return lycosa.Crawl([seed], into=tmp_path, agents=2, shards=shards, **given)

    with serving(answer) as site:
        seed, shards = site.url("/", "a.test"), 16
        assert asyncio.run(narrow(seed)) is End.FINISHED
        splitter = CrawlReader(tmp_path).splitter
        assert splitter.shard_of("a.test") % 2 != splitter.shard_of("b.test") % 2, "they must be two agents'"
        asyncio.run(widen(seed))
    rows = (record for _, _, record in CrawlReader(tmp_path).records() if isinstance(record, Received))
    assert len({link.url for record in rows for link in record.links}) == PAGES * LINKS
