"""The judge of a storm finds what is wrong, and only that; events and processes are what they say."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.ask.reading import CrawlReader
from lycosa.crawl.agent import End
from lycosa.errors import ConfigError
from lycosa.lab.chaos_agents import AgentProcess, sockets
from lycosa.lab.chaos_events import Kind, draw
from lycosa.lab.chaos_verdict import Pause, Verdict, impolite, judge
from lycosa.lab.webs import Access, AccessLog, Politeness, Web, serving
from lycosa.lab.webs.accesses import Connection
from lycosa.records import Before, Fetched, Lost, Record, Skipped, Why
from tests.cluster.crawled import SMALL, WAITS, crawl
from tests.cluster.members import until

Rows = list[tuple[int, int, Record]]


class Crawled(NamedTuple):
    """An undisturbed crawl of one machine."""

    web: Web
    rows: Rows
    archive: Path
    accesses: AccessLog

    @property
    def rules(self) -> Politeness:
        return Politeness(
            wait=WAITS["wait"],
            pages=8,
            address_wait=WAITS["address_wait"],
            delays=self.web.delays(),
            same_connection=False,
        )

    def judged(
        self, rows: Rows | None = None, archive: Path | None = None, accesses: AccessLog | None = None
    ) -> Verdict:
        return judge(
            self.rows if rows is None else rows,
            archive or self.archive,
            accesses or self.accesses,
            self.web.truth(),
            self.rules,
        )


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    directory = tmp_path_factory.mktemp("judged") / "crawl"
    with serving(SMALL) as served:
        assert crawl(served.web, directory, 1).end is End.FINISHED
    yield Crawled(served.web, list(CrawlReader(directory).records()), directory / "archive", served.log())


def fetch_of(rows: Rows) -> tuple[int, int, Fetched]:
    """Some page in the middle."""
    pages = [row for row in rows if isinstance(row[2], Fetched) and row[2].status == 200]
    return pages[len(pages) // 2]  # type: ignore[return-value]


def test_a_crawl_that_was_right_is_right(crawled: Crawled) -> None:
    verdict = crawled.judged()
    assert verdict.faults == []
    assert verdict.pages > 250 and verdict.requests > verdict.pages and verdict.archives > 0
    assert verdict.lost == verdict.excused == 0


def test_a_page_twice(crawled: Crawled) -> None:
    row = fetch_of(crawled.rows)
    verdict = crawled.judged([*crawled.rows, row])
    assert any(line.startswith(f"committed twice: {row[2].url}") for line in verdict.faults)


def test_a_page_that_was_lost_and_fetched_again(crawled: Crawled) -> None:
    shard, position, page = fetch_of(crawled.rows)
    assert page.stored is not None
    gone = msgspec.structs.replace(page, stored=msgspec.structs.replace(page.stored, file="gone.warc.gz"))
    lost = Lost(
        0, page.url, page.depth, page.hops, "gone.warc.gz", position, page.status, page.size, len(page.links),
        page.digest,
    )  # fmt: skip
    rest = [row for row in crawled.rows if row[2] is not page]
    again = msgspec.structs.replace(page, before=Before.LOST)
    before, after = (shard, position, gone), (shard, 10**6 + 1, again)
    verdict = crawled.judged([*rest, before, (shard, 10**6, lost), after])
    assert verdict.faults == [] and verdict.lost == 1
    never = crawled.judged([*rest, before, (shard, 10**6, lost)]).faults
    assert never == [f"not fetched: {page.url}"]
    unsaid = crawled.judged([*rest, before, after]).faults
    assert [line.partition(":")[0] for line in unsaid] == ["committed twice"]
    wrong = (shard, 10**6, msgspec.structs.replace(lost, position=position + 1))
    said = crawled.judged([*rest, before, wrong, after]).faults
    assert [line.partition(":")[0] for line in said] == ["taken back though it was not there"]


def test_a_page_that_was_looked_at_again(crawled: Crawled) -> None:
    shard, position, page = fetch_of(crawled.rows)
    again = msgspec.structs.replace(page, before=Before.PAGE)
    verdict = crawled.judged([*crawled.rows, (shard, 10**6, again)])
    assert verdict.faults == [] and verdict.pages == crawled.judged().pages
    lost = Lost(0, page.url, page.depth, page.hops, "f", position, page.status, page.size, 0, page.digest)
    said = crawled.judged([*crawled.rows, (shard, 10**6, again), (shard, 10**6 + 1, lost)]).faults
    assert [line.partition(":")[0] for line in said] == ["taken back, and what remains is not what it says"]
    rest = [row for row in crawled.rows if row[2] is not page]
    said = crawled.judged([*rest, (shard, 10**6, again)]).faults
    assert len(said) == 1 and "is said to be PAGE and was NEVER" in said[0]


def test_a_page_too_few(crawled: Crawled) -> None:
    row = fetch_of(crawled.rows)
    verdict = crawled.judged([each for each in crawled.rows if each != row])
    assert verdict.faults == [f"not fetched: {row[2].url}"]


def test_a_page_fetched_and_skipped(crawled: Crawled) -> None:
    shard, _, page = fetch_of(crawled.rows)
    verdict = crawled.judged([*crawled.rows, (shard, 10**6, Skipped(0, page.url, 1, Why.FAILED))])
    assert verdict.faults == [f"fetched and skipped: {page.url}"]


def test_a_page_that_is_not_there(crawled: Crawled) -> None:
    shard, position, page = fetch_of(crawled.rows)
    strange = msgspec.structs.replace(page, url=page.url + "?x=1")
    rows = [row for row in crawled.rows if row[2] is not page] + [(shard, position, strange)]
    faults = crawled.judged(rows).faults
    assert f"not fetched: {page.url}" in faults and f"no such URL: {strange.url}" in faults
    assert f"the archive has {page.url} where {strange.url} should be" in faults


def test_a_page_that_was_not_archived(crawled: Crawled) -> None:
    shard, position, page = fetch_of(crawled.rows)
    rows = [row for row in crawled.rows if row[2] is not page]
    bare = msgspec.structs.replace(page, stored=None)
    assert crawled.judged([*rows, (shard, position, bare)]).faults == [f"not archived: {page.url}"]


@pytest.mark.parametrize("how", ["gone", "short", "flipped"])
def test_an_archive_that_is_damaged(crawled: Crawled, tmp_path: Path, how: str) -> None:
    archive = tmp_path / "archive"
    shutil.copytree(crawled.archive, archive)
    page = fetch_of(crawled.rows)[2]
    assert page.stored is not None
    path = archive / page.stored.file
    data = bytearray(path.read_bytes())
    if how == "gone":
        path.unlink()
    elif how == "short":
        path.write_bytes(data[: page.stored.offset + page.stored.length // 2])
    else:
        data[page.stored.offset + page.stored.response] ^= 0xFF  # no member begins there
        path.write_bytes(data)
    faults = crawled.judged(archive=archive).faults
    assert any(f"its bytes are not in the archive: {page.url}" in line for line in faults)
    if how != "gone":
        assert any(line.startswith("the archive is damaged") for line in faults)
    if how == "flipped":  # (of a file cut short warcio may say nothing)
        assert any(line.startswith("warcio cannot read") for line in faults)


def test_requests_too_close(crawled: Crawled) -> None:
    log = AccessLog()
    log.connections = dict(crawled.accesses.connections)
    log.accesses = list(crawled.accesses.accesses)
    pages = [row for row in log.accesses if row.path != "/robots.txt"]  # which is no page of a visit
    row = pages[len(pages) // 2]
    for number in range(1, 9):
        log.add(row._replace(start=row.start + number / 1000, end=row.end + number / 1000))
    assert any(f"visit at {row.host}" in line for line in crawled.judged(accesses=log).faults)


def test_requests_that_must_not_be_made(crawled: Crawled) -> None:
    forbidden = sorted(url for url in crawled.web.truth().must_not if "test" in url)[0]
    host, _, path = forbidden.partition("://")[2].partition("/")
    log = AccessLog()
    log.connections = dict(crawled.accesses.connections)
    log.accesses = list(crawled.accesses.accesses)
    last = max(row.end for row in log.accesses) + 100.0
    log.add(Access(last, last, host.partition(":")[0], f"/{path}", 200, 10**6, "127.0.0.1:1", "127.0.1.1"))
    faults = crawled.judged(accesses=log).faults
    assert faults == [f"the server saw a request that must never be made: {forbidden}"]


# -- connections of a process that lies still


def two_connections(
    closed: float = 21.0, asked: tuple[float, ...] = (1.0,), opened: float = 15.0
) -> tuple[AccessLog, Politeness]:
    """One connection from 0 to `closed`, and another from `opened` to 16."""
    log = AccessLog()
    log.open(Connection(1, 0.5, closed, "127.0.0.1:1001", "127.0.1.1"))
    log.open(Connection(2, opened, 16.0, "127.0.0.1:1002", "127.0.1.1"))
    for at in asked:
        log.add(Access(at, at + 0.01, "a.test", f"/{at}", 200, 1, "127.0.0.1:1001", "127.0.1.1"))
    log.add(Access(opened + 0.1, opened + 0.2, "a.test", "/b", 200, 2, "127.0.0.1:1002", "127.0.1.1"))
    return log, Politeness(wait=0.5, same_connection=False)


PAUSE = Pause(2.0, 20.0, frozenset(["127.0.0.1:1001"]))


@pytest.mark.parametrize(
    ("log", "pauses", "excused"),
    [
        (two_connections(), [PAUSE], True),
        (two_connections(), [], False),
        (two_connections(), [PAUSE._replace(peers=frozenset(["127.0.0.1:1002"]))], False),  # another process
        (two_connections(), [PAUSE._replace(began=15.5)], False),  # it lay still only later
        (two_connections(), [PAUSE._replace(ended=5.0)], False),  # it was awake long ago
        (two_connections(closed=30.0), [PAUSE], False),  # woken, it kept the connection
        (two_connections(closed=0.0), [PAUSE], False),  # and never closed it
        (two_connections(asked=(1.0, 20.5)), [PAUSE], False),  # woken, it asked on
    ],
)
def test_only_a_process_that_lies_still_is_excused(
    log: tuple[AccessLog, Politeness], pauses: list[Pause], excused: bool
) -> None:
    found, count = impolite(*log, pauses)
    assert [row.rule for row in found] == ([] if excused else ["connections"])
    assert count == int(excused)


# -- events


@given(st.integers(0, 2**32), st.integers(7, 60), st.floats(1, 60))
@settings(max_examples=60, deadline=None)
def test_events_come_from_the_seed(seed: int, count: int, lease: float) -> None:
    events = draw(seed, count, lease)
    assert events == draw(seed, count, lease)
    assert [event.number for event in events] == list(range(1, count + 1))
    kinds = [event.kind for event in events]
    assert set(kinds) == set(Kind) and kinds.count(Kind.JOIN) == 2
    for event in events:
        assert event.rest > lease or event.kind is not Kind.STOP
        assert not event.anew or event.kind is Kind.KILL
        assert 0 <= event.choose(3) < 3


def test_too_few_events() -> None:
    with pytest.raises(ConfigError, match="at least 7"):
        draw(1, 6, 5.0)


# -- processes


@pytest.mark.skipif(sys.platform != "linux", reason="reads sockets from /proc")
def test_sockets_of_a_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()):
            taken, peer = server.accept()
            assert f"{peer[0]}:{peer[1]}" in sockets(os.getpid())
            taken.close()
        assert f"{peer[0]}:{peer[1]}" not in sockets(os.getpid())


@pytest.mark.skipif(sys.platform != "linux", reason="reads sockets from /proc")
def test_an_agent_is_stopped_woken_killed_and_asked(tmp_path: Path) -> None:
    agent = AgentProcess("a", tmp_path / "a", tmp_path / "a.txt", lambda directory: ["sleep", "60"])
    assert not agent.alive and not agent.died
    agent.start()
    assert agent.working
    assert agent.stop() == frozenset()
    state = Path(f"/proc/{agent.pid}/stat").read_text().rpartition(")")[2].split()[0]
    assert state == "T" and agent.alive and not agent.working
    agent.wake()
    assert agent.working
    agent.kill()
    assert not agent.alive and not agent.died and agent.code == -9
    agent.start()
    agent.leave()
    assert not agent.working
    until(lambda: not agent.alive)
    assert agent.code == -15 and not agent.died
    quick = AgentProcess(
        "b", tmp_path / "b", tmp_path / "b.txt", lambda directory: ["sh", "-c", "echo no; exit 3"]
    )
    quick.start()
    until(lambda: quick.died)
    assert quick.died and quick.code == 3 and quick.said() == "no"
