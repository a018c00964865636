"""Agents that index what they crawl, in processes on a real server: killed under a stream of queries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from lycosa.ask.indexing import Indexing
from lycosa.ask.reading import CrawlReader
from lycosa.ask.searching import opened
from lycosa.cluster.operating import Operator
from lycosa.engine.nats.engine import NatsEngine
from lycosa.index.search import Answer
from lycosa.lab.nats_servers import Servers
from lycosa.lab.webs import serving
from tests.cluster.crawled import SMALL
from tests.cluster.members import Cluster, cluster, until
from tests.servers import demand_binary

QUERY = "page"
SLOW = {"wait": 1.0, "address_wait": 0.02, "factor": 0.0, "pages_per_visit": 2}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    demand_binary()
    with Servers(tmp_path_factory.mktemp("nats")) as servers:
        yield servers


def asked(made: Cluster, text: str = QUERY) -> Answer:
    async def ask() -> Answer:
        operator = Operator(await NatsEngine.open(made.connection, made.name))
        try:
            return await operator.search(5.0, lambda search: search.search(text))
        finally:
            await operator.close()

    return asyncio.run(ask())


def plain(answer: Answer) -> Answer:
    return msgspec.structs.replace(answer, milliseconds=0.0, ranked=int(answer.ranked > 0))


def until_answer(made: Cluster, right: Callable[[Answer], bool]) -> Answer:
    """A stream of queries, until an answer is as it is meant to be."""
    last: list[Answer] = []

    def look() -> bool:
        last[:] = [asked(made)]
        return right(last[0])

    until(look, 240.0)
    return last[0]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_answers_name_what_a_killed_agent_held_and_are_whole_again(server: Servers, tmp_path: Path) -> None:
    with serving(SMALL) as served, cluster(tmp_path, server.urls, "indexed") as made:
        made.create(served.web, politeness=SLOW, shards=4)
        for name in "ab":
            made.join(name, "--index")
        made.command("start")
        made.pages(20)
        made.command("pause")  # it is not over before the test is
        until_answer(made, lambda answer: not answer.missing and answer.total > 0)

        # While it crawls: the other takes the shards over, and indexes them from the log.
        dead = next(row["shards"] for row in made.look()["agents"] if row["id"].startswith("a_"))
        assert dead
        made.agents["a"].kill()
        some = until_answer(made, lambda answer: bool(answer.missing))
        assert set(some.missing) <= set(dead) and all(note.startswith("shard ") for note in some.notes)
        until_answer(made, lambda answer: not answer.missing)
        made.command("start")

        # When it is over its agents go on answering; the answers are those of one index over everything.
        until(lambda: made.look()["state"] == "finished")
        home = CrawlReader(made.fetch())
        with Indexing(home) as indexing:
            indexing.round()
            assert indexing.rank(1)
        expected = plain(opened(home).search(QUERY))
        until_answer(made, lambda answer: plain(answer) == expected)
        assert made.agents["b"].poll() is None and "goes on answering" in made.said("b")

        # And then, too, somebody takes what nobody answers for.
        made.join("c", "--index")
        until(lambda: "goes on answering" in made.said("c"))
        made.agents["b"].kill()
        some = until_answer(made, lambda answer: len(answer.missing) == 4)
        assert not some.results
        until_answer(made, lambda answer: plain(answer) == expected)
        made.agents["c"].terminate()
        assert made.agents["c"].wait(170) == 0
        for name in "abc":
            assert "Traceback" not in made.said(name), made.said(name)
