"""Whoever holds a shard indexes it, answers for it, and another does when it is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from lycosa.ask.indexing import Indexing, shard_path
from lycosa.ask.searching import opened
from lycosa.clock import SystemClock
from lycosa.cluster import indexer as indexers
from lycosa.cluster.control import About, Control
from lycosa.cluster.indexer import SEARCH, Indexer, decide
from lycosa.cluster.lease import Lease, encode
from lycosa.cluster.leases import lease_key
from lycosa.cluster.names import log_of
from lycosa.cluster.operating import Operator
from lycosa.cluster.searching import Ready, progress
from lycosa.cluster.storage import DirectoryStorage, put_archive
from lycosa.cluster.tail import Tail
from lycosa.crawl import manifest as manifests
from lycosa.engine.protocol import Engine, got
from lycosa.index.search import Answer, Asked
from lycosa.log.reader import SEGMENT_HEAD, segment_name, segments
from tests.crawl.made import BEGIN, MadeCrawl, anchors
from tests.servers import Clients

PATIENCE = 120.0
"""Seconds in which whoever is there answers, on however busy a machine; of others it is known at once."""
SHARDS = 3
HOSTS = [f"h{number}.test" for number in range(12)]
WORDS = ("wolf", "spider", "web", "burrow", "night")
QUERIES = ("spider", "wolf spider", '"burrow night"', "hunter", "site:h1.test", "we*")


class Crawl:
    """A crawl of a cluster whose holders are made up; the logs are real, and in the streams."""

    def __init__(self, engine: Engine, root: Path) -> None:
        self.made = MadeCrawl(root / "made", shards=SHARDS)
        self.engine = engine
        self.storage = DirectoryStorage(root / "shared")
        manifest = self.made.manifest
        self.about = About(
            crawl=manifest.crawl,
            shards=SHARDS,
            hash_seed=manifest.hash_seed,
            created=BEGIN,
            storage=str(root / "shared"),
            replicas=1,
            lease=1.0,
        )
        self._sent: dict[tuple[int, int], int] = {}
        self._tails = [Tail(engine.stream(log_of(number)), SystemClock()) for number in range(SHARDS)]

    async def create(self) -> None:
        suffixes = self.made.files.read(manifests.SUFFIXES)
        await Control(self.engine, SystemClock()).create(self.about, "{}", self.storage, suffixes)
        for tail in self._tails:
            assert await tail.claim(1) is None

    def fetch(self, host: str, page: int, **more: object) -> None:
        words = " ".join(WORDS[(page * step) % len(WORDS)] for step in range(1, 3 + page % 5))
        links = anchors((f"http://{HOSTS[page % len(HOSTS)]}/0", f"hunter {page % 3}"))
        body = f"<title>{host} {page}</title><main><p>{words} on {host}, page {page}.</p></main>"
        self.made.fetch(
            f"http://{host}/{page}",
            links=links,
            **{"body": body.encode(), "keep": True, **more},  # type: ignore[arg-type]
        )

    async def publish(self) -> None:
        """What was logged is committed, and its archive on shared storage."""
        self.made.commit()
        archive = self.made.files.within("archive")
        for name in archive.list(""):
            put_archive(self.storage, self.engine.crawl, archive, name)
        for number, tail in enumerate(self._tails):
            log = self.made.files.within(f"{manifests.shard_directory(number)}/log")
            for first in segments(log):
                sent = self._sent.get((number, first), SEGMENT_HEAD)
                if data := log.read(segment_name(first))[sent:]:
                    got(await tail.append(first, data, 1, first))
                self._sent[number, first] = sent + len(data)

    async def held(self, shard: int, agent: str) -> None:
        lease = Lease(agent, 1, 1.0, released=not agent)
        got(await self.engine.bucket.put(lease_key(shard), encode(lease)))

    def indexer(self, root: Path, name: str) -> Indexer:
        return Indexer(
            engine=self.engine,
            storage=self.storage,
            about=self.about,
            work=root / name,
            me=name,
            clock=SystemClock(),
            pause=0.05,
        )

    async def ask(self, text: str, asked: Asked | None = None) -> Answer:
        return await Operator(self.engine).search(PATIENCE, lambda search: search.search(text, asked))

    def merged(self) -> list[Answer]:
        """What one index over all shards says."""
        with Indexing(self.made.reader()) as indexing:
            indexing.round()
            assert indexing.rank(1)
        search = opened(self.made.reader())
        return [search.search(text) for text in QUERIES]


def plain(answer: Answer) -> Answer:
    return msgspec.structs.replace(answer, milliseconds=0.0, ranked=int(answer.ranked > 0))


async def whole(crawl: Crawl) -> None:
    """Until all shards answer."""
    while (await crawl.ask("spider")).missing:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


@pytest.fixture
async def crawl(engine: Engine, tmp_path: Path) -> Crawl:
    made = Crawl(engine, tmp_path)
    await made.create()
    for page in range(10):
        for host in HOSTS[: 4 + page % 9]:
            made.fetch(host, page)
    same = b"<main><p>the same spider everywhere</p></main>"
    for host in HOSTS:  # the first is the page, the others are its copies, in all shards
        made.fetch(host, 99, body=same, duplicate=host != HOSTS[0])
    await made.publish()
    return made


async def test_answers_are_those_of_one_index_with_ranks_anchors_and_copies(
    crawl: Crawl, tmp_path: Path
) -> None:
    a, b = crawl.indexer(tmp_path, "a"), crawl.indexer(tmp_path, "b")
    a.hold([0])
    b.hold([1, 2])
    for _ in range(2):  # the second time the copies of each shard can be compared with those of the others
        await a.step()
        await b.step()
    assert (a.answering, b.answering) == ([0], [1, 2])
    expected = crawl.merged()
    assert any(result.rank > 0 for answer in expected for result in answer.results)
    found = [await crawl.ask(text) for text in QUERIES]
    assert [plain(answer) for answer in found] == [plain(answer) for answer in expected]

    # The original goes from one shard: in another a copy becomes the page.
    crawl.fetch(HOSTS[0], 99, status=404, keep=False)
    crawl.fetch(HOSTS[5], 11)
    await crawl.publish()
    control = Control(crawl.engine, SystemClock())
    # When a crawl is over, ranks are made once more.
    await control.change(lambda state: msgspec.structs.replace(state, finished=True))
    for each in (a, b, a, b):
        each._indexing.doubt_copies()
        await each.step()
    expected = crawl.merged()
    found = [await crawl.ask(text) for text in QUERIES]
    assert [plain(answer) for answer in found] == [plain(answer) for answer in expected]
    await a.close()
    await b.close()


async def test_a_shard_that_is_being_indexed_is_named_with_how_far_it_is(
    crawl: Crawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = crawl.indexer(tmp_path, "a"), crawl.indexer(tmp_path, "b")
    a.hold([0, 1])
    await a.step()
    b.hold([2])
    seen: list[Answer] = []
    loop, real = asyncio.get_running_loop(), b._round

    def asked_before(shards: frozenset[int]) -> None:
        seen.append(asyncio.run_coroutine_threadsafe(crawl.ask("spider"), loop).result())
        real(shards)

    monkeypatch.setattr(b, "_round", asked_before)
    await b.step()
    (some,) = seen
    end = crawl.made.logs[2].end
    assert some.missing == (2,)
    assert some.notes == (f"shard 2 is being indexed by agent b: 0 of {end:,} records",)
    then = await crawl.ask("spider")
    assert (then.missing, then.notes) == ((), ()) and then.total > some.total
    await a.close()
    await b.close()


async def test_a_shard_that_moves_is_answered_for_all_the_time(crawl: Crawl, tmp_path: Path) -> None:
    a, b = crawl.indexer(tmp_path, "a"), crawl.indexer(tmp_path, "b")
    for shard in range(SHARDS):
        await crawl.held(shard, "a")
    a.hold([0, 1, 2])
    await a.step()
    before = plain(await crawl.ask("wolf spider"))
    a.hold([0, 1])
    await crawl.held(2, "b")
    await a.step()
    assert a.answering == [0, 1, 2]  # b has not made it yet
    assert plain(await crawl.ask("wolf spider")) == before
    b.hold([2])
    await b.step()
    await a.step()
    assert (a.answering, b.answering) == ([0, 1], [2])
    assert not shard_path(tmp_path / "a" / SEARCH, 2).exists()
    assert plain(await crawl.ask("wolf spider")) == before
    await a.close()
    await b.close()


async def test_when_the_crawl_is_over_somebody_indexes_what_nobody_answers_for(
    crawl: Crawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexers, "_SILENCE", 0.2)
    a, b = crawl.indexer(tmp_path, "a"), crawl.indexer(tmp_path, "b")
    a.hold([0, 1])
    b.hold([2])
    await a.step()
    await b.step()
    before = plain(await crawl.ask("wolf spider"))
    for shard in range(SHARDS):
        await crawl.held(shard, "")
    a.hold([])
    b.hold([])
    await b.close()  # b is gone
    running = asyncio.create_task(a.run())
    assert (await crawl.ask("wolf spider")).missing == (2,)
    await whole(crawl)
    assert plain(await crawl.ask("wolf spider")) == before and a.answering == [0, 1, 2]
    running.cancel()
    await asyncio.wait([running])


def test_who_indexes_what() -> None:
    def other(name: str, holds: bool) -> dict[int, Ready]:
        return {3: Ready(name, holds)}

    assert decide("b", [3], [], [], {}, []).keep == {3}
    assert decide("b", [3], [3], [], other("a", True), []) == (frozenset({3}), frozenset())
    # Lost to a holder: kept as it is until that one answers.
    assert decide("b", [], [3], [], {}, []) == (frozenset(), frozenset())
    assert decide("b", [], [3], [], other("c", False), []).drop == frozenset()
    assert decide("b", [], [3], [], other("c", True), []) == (frozenset(), frozenset({3}))
    # Nobody holds it: whoever has it goes on, of two the first by name.
    assert decide("b", [], [3], [3], {}, []) == (frozenset({3}), frozenset())
    assert decide("b", [], [3], [3], other("c", False), []) == (frozenset({3}), frozenset())
    assert decide("b", [], [3], [3], other("a", False), []) == (frozenset(), frozenset({3}))
    # And if nobody has, somebody begins, but not at once.
    assert decide("b", [], [], [3], {}, []) == (frozenset(), frozenset())
    assert decide("b", [], [], [3], {}, [3]) == (frozenset({3}), frozenset())
    assert decide("b", [], [], [], {}, [3]) == (frozenset(), frozenset())


async def test_an_index_that_cannot_be_read_is_made_anew(crawl: Crawl, tmp_path: Path) -> None:
    a = crawl.indexer(tmp_path, "a")
    a.hold([0, 1, 2])
    await a.step()
    before = plain(await crawl.ask("wolf spider"))
    await a.close()
    (shard_path(tmp_path / "a" / SEARCH, 1) / "meta.json").write_text("no index")
    again = crawl.indexer(tmp_path, "a")
    again.hold([0, 1, 2])
    await again.step()
    assert plain(await crawl.ask("wolf spider")) == before
    await again.close()


async def test_nobody_says_how_far_an_index_is_once_it_answers(
    crawl: Crawl, engines: Clients, tmp_path: Path
) -> None:
    a = crawl.indexer(tmp_path, "a")
    a.hold([0])
    await a.step()
    said = await (await engines()).requests.ask(progress(0), b"", 0.1)
    assert isinstance(said, Exception)
    await a.close()
