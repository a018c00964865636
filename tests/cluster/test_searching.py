"""Shards elsewhere answer as those here do, on every engine; who does not answer is named."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from lycosa.ask.indexing import Indexing, shard_path
from lycosa.clock import SystemClock
from lycosa.cluster.control import About, Control
from lycosa.cluster.operating import Operator
from lycosa.cluster.searching import Answers, answer, remote
from lycosa.cluster.storage import DirectoryStorage
from lycosa.engine.protocol import Engine
from lycosa.errors import ConfigError
from lycosa.index.reader import ShardReader
from lycosa.index.search import Answer, Asked, Search
from lycosa.index.writer import ShardWriter
from tests.crawl.made import MadeCrawl
from tests.index.made import page, write

T = TypeVar("T")
PATIENCE = 240.0
WORDS = ("ape", "bee", "cat", "dog", "elk", "host", "hosts", "gnus")
PAGES = [
    page(
        number,
        " ".join(WORDS[(number * step) % len(WORDS)] for step in range(1, 4 + number % 7)),
        f"Title {number % 5} {WORDS[number % 8]}",
        language="es" if number % 5 == 0 else "en",
        digest=number // 2 if number > 50 else number + 1000,
        host=f"{number % 4}.test",
    )
    for number in range(1, 60)
]
QUERIES = (
    "ape",
    "ape hosts",
    '"ape bee"',
    "+cat -dog",
    "e*",
    "site:1.test",
    "intitle:ape bee",
    "appe~",
    "nothing",
)


def readers(path: Path) -> list[ShardReader]:
    for shard in range(3):
        write(path / str(shard), [each for each in PAGES if each.id % 3 == shard])
    return [ShardReader(path / str(shard), shard) for shard in range(3)]


def same(answer: Answer) -> Answer:
    return msgspec.structs.replace(answer, milliseconds=0.0)


async def test_shards_elsewhere_answer_as_those_here(engine: Engine, tmp_path: Path) -> None:
    here = readers(tmp_path)
    for reader in here:
        await answer(engine.requests, reader, "a")
    loop = asyncio.get_running_loop()
    search, plain = remote(engine.requests, loop, range(3), seconds=PATIENCE), Search(here)
    for text in QUERIES:
        for asked in (
            Asked(),
            Asked(expand=True, count=3, skip=2),
            Asked(filters=(("lang", "en"),), fold=False),
        ):
            found = await asyncio.to_thread(search.search, text, asked)
            assert same(found) == same(plain.search(text, asked)), (text, asked)
    some = await asyncio.to_thread(search.page, "http://1.test/1")
    assert some == plain.page("http://1.test/1") and some is not None
    liked, expected = await asyncio.to_thread(search.like, some), plain.like(some)
    assert liked is not None and expected is not None and same(liked) == same(expected)
    assert await asyncio.to_thread(search.suggest, "ap") == plain.suggest("ap")


async def test_a_shard_that_does_not_answer_is_named_until_it_does(engine: Engine, tmp_path: Path) -> None:
    here = readers(tmp_path)
    answering = [await answer(engine.requests, reader, "a") for reader in here]
    await answering[1].stop()
    search = remote(engine.requests, asyncio.get_running_loop(), range(3), seconds=60.0)
    found = await asyncio.to_thread(search.search, "ape")
    assert found.missing == (1,) and "shard 1 did not answer in 60 s" in found.notes
    assert same(found) == msgspec.structs.replace(
        same(Search([here[0], here[2]]).search("ape")), missing=(1,), notes=found.notes
    )
    await answer(engine.requests, here[1], "b")
    again = await asyncio.to_thread(search.search, "ape")
    assert (again.missing, again.notes) == ((), ()) and same(again) == same(Search(here).search("ape"))


class Direct:
    """Requests without an engine: a question is answered by the first who does not keep silent."""

    def __init__(self, *answers: Callable[[bytes], bytes | None]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def ask(self, subject: str, data: bytes, seconds: float) -> bytes:
        self.asked.append(msgspec.msgpack.decode(data)[2])
        return next(found for each in self.answers if (found := each(data)) is not None)


async def test_a_commit_meanwhile_begins_the_question_anew_and_makes_kept_answers_old(tmp_path: Path) -> None:
    write(tmp_path / "0", PAGES[:20])
    reader = ShardReader(tmp_path / "0")
    answers = Answers(reader, "a")
    due = [1]

    def late(data: bytes) -> bytes | None:
        if msgspec.msgpack.decode(data)[2] == "top" and due:
            due.pop()
            writer = ShardWriter(tmp_path / "0", "made")
            writer.put(page(900, "ape ape ape", "ape"))
            writer.commit([0, 0, 1])
            writer.close()
            reader.reload()
        return answers(data)

    direct = Direct(late)
    search = remote(direct, asyncio.get_running_loop(), [0])  # type: ignore[arg-type]
    found = await asyncio.to_thread(search.search, "ape")
    assert found.pages == 21 and 900 in {row.id for row in found.results}
    assert direct.asked.count("open") == 2

    # Nothing was committed since: the answer is kept, and only that is asked. Then something is.
    direct.asked.clear()
    assert same(await asyncio.to_thread(search.search, "ape")) == same(found) and direct.asked == ["open"]
    due.append(1)
    writer = ShardWriter(tmp_path / "0", "made")
    writer.remove(900)
    writer.commit([0, 0, 2])
    writer.close()
    due.clear()
    assert 900 not in {row.id for row in (await asyncio.to_thread(search.search, "ape")).results}


@pytest.mark.parametrize("first", ["a", "b"])
async def test_replicas_of_a_shard_do_not_mix(tmp_path: Path, first: str) -> None:
    """Their indexes are not the same: what one said of a place is nonsense to the other."""
    write(tmp_path / "a", PAGES)
    write(tmp_path / "b", [*reversed(PAGES[1:]), page(901, "ape of b")])
    both = {name: Answers(ShardReader(tmp_path / name), name) for name in ("a", "b")}
    order = [both[first], *(each for name, each in both.items() if name != first)]
    search = remote(Direct(*order), asyncio.get_running_loop(), [0])  # type: ignore[arg-type]
    found = await asyncio.to_thread(search.search, "ape", Asked(count=50, fold=False))
    plain = Search([ShardReader(tmp_path / first)]).search("ape", Asked(count=50, fold=False))
    assert same(found) == same(plain)


async def test_a_directory_of_the_crawl_is_answered_for_as_its_shards_are_indexed(
    engine: Engine, tmp_path: Path
) -> None:
    crawl = MadeCrawl(tmp_path / "crawl", shards=2)
    for host in ("a", "b", "c", "d"):
        crawl.fetch(f"http://{host}.test/", body=b"<p>a wolf spider</p>", keep=True, digest=ord(host))
    crawl.commit()
    about = About(crawl=crawl.reader().crawl, shards=2, hash_seed=5, created=1, storage="/shared", replicas=1)
    storage = tmp_path / "shared"
    storage.mkdir()
    await Control(engine, SystemClock()).create(about, "{}", DirectoryStorage(storage), b"test\n")
    operator = Operator(engine)
    with Indexing(crawl.reader()) as indexing:
        indexing.round()
    gone = shard_path(crawl.directory, 1)
    gone.rename(tmp_path / "away")
    told: asyncio.Queue[list[int]] = asyncio.Queue()
    answering = asyncio.create_task(operator.answer_searches(crawl.directory, "a", told.put_nowait))
    assert await told.get() == [0]
    some = await operator.search(0.5, lambda search: search.search("spider"))
    assert some.missing == (1,) and some.notes == ("shard 1 did not answer in 0.5 s",)
    (tmp_path / "away").rename(gone)
    assert await asyncio.wait_for(told.get(), PATIENCE) == [0, 1]
    whole = await operator.search(PATIENCE, lambda search: search.search("spider"))
    assert (whole.missing, whole.total) == ((), 4) and some.total < 4
    answering.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await answering
    assert (await operator.search(0.2, lambda search: search.search("spider"))).missing == (0, 1)

    other = MadeCrawl(tmp_path / "other", shards=2)
    other.commit()
    with pytest.raises(ConfigError, match="is not of the crawl"):
        await operator.answer_searches(other.directory, "a", told.put_nowait)
