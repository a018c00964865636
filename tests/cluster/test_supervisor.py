"""Several agents crawl as one: the same pages as one agent, whatever dies, politely, within exact limits."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import lycosa
from lycosa.archive.reader import read_exchange, scan
from lycosa.ask.explain import explain
from lycosa.ask.reading import CrawlReader
from lycosa.ask.report import make_report
from lycosa.cluster.api import fitting
from lycosa.crawl.agent import End
from lycosa.crawl.config import Options, read_options
from lycosa.crawl.repair import look, mend
from lycosa.crawl.splitting import Splitter, SplitterOptions
from lycosa.crawl.status import read_status
from lycosa.errors import ConfigError, LocalError, StorageError
from lycosa.files import DiskFiles
from lycosa.lab.webs import Served, Web, serving
from lycosa.records import Duplicates, Fetched, Received
from lycosa.url.domains import Domains
from lycosa.url.scope import ScopeOptions
from tests.cluster.crawled import SMALL, WAITS, Ran, crawl, judge, options, until
from tests.crawl.served import outcomes
from tests.crawl.test_kill import as_toml
from tests.crawl.test_truth import check_archive, none

LONG = {**WAITS, "wait": 0.5, "pages_per_visit": 1}
"""Whoever is to be cut short must not be done before that, however late the one who cuts it comes."""


def check(served: Served, directory: Path, killed: bool = False) -> dict[str, int]:
    """Everything that a crawl must have done, and nothing that it must not.

    A commit makes the archive durable, then one log after the other. Whoever is killed between two logs has
    exchanges in the archive that no record points at, between others that count: those pages are fetched and
    stored once more.
    """
    found = outcomes(directory)
    none(served.web.truth().compare(found))
    none(judge(served.log(), served.web))
    if not killed:
        check_archive(directory, found)
        return found
    places = [r.stored for _, _, r in CrawlReader(directory).records() if isinstance(r, Fetched) and r.stored]
    archive = DiskFiles(directory / "archive")
    for path in (directory / "archive").glob("*.warc.gz"):
        for _ in scan(archive, path.name):
            pass  # a torn record raises
    assert len({(place.file, place.offset) for place in places}) == sum(map(bool, found.values()))
    for place in places:
        assert read_exchange(archive, place).head
    return found


class Two(NamedTuple):
    """A whole crawl of two agents, to be looked at."""

    served: Served
    directory: Path
    ran: Ran


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Two:
    directory = tmp_path_factory.mktemp("two")
    with serving(SMALL) as served:
        return Two(served, directory, crawl(served.web, directory, 2))


def test_two_agents_fetch_what_one_fetches(two: Two) -> None:
    served, directory, ran = two
    assert ran.end is End.FINISHED
    found = check(served, directory)
    assert ran.status.pages == ran.status.pages_run == sum(1 for status in found.values() if status)
    assert ran.status.meters["exchange.links_in"] > 50, "the web must have links between the agents"
    reader = CrawlReader(directory)
    assert len({path.name.split(".")[-3] for path in (directory / "archive").glob("*.gz")}) == 2
    assert not (directory / "running").exists()
    status = read_status(directory)
    assert status is not None and status.state == "finished" and status.pages == ran.status.pages
    _check_duplicates(reader, ran.status.duplicates)


def _check_duplicates(reader: CrawlReader, counted: int) -> None:
    """Of each content all fetches but the first to be heard of are marked, in time or late."""
    fetches: dict[int, list[tuple[int, int, Fetched]]] = {}
    for shard, position, record in reader.records():
        if isinstance(record, Fetched) and record.digest:
            fetches.setdefault(record.digest, []).append((shard, position, record))
    late = [
        (shard, position)
        for shard, log in enumerate(reader.logs)
        for _, told in log.find_kind(Duplicates)
        for position in told.positions
    ]
    assert late, "some duplicates must have been found across agents"
    marked = 0
    for rows in fetches.values():
        known = [row for row in rows if row[2].duplicate]
        assert len(known) == len(rows) - 1
        marked += len(known)
    assert marked == counted
    report = make_report(reader, at=0)
    good = [row for rows in fetches.values() for row in rows if 200 <= row[2].status < 300]
    assert report.duplicates.pages == sum(1 for _, _, record in good if record.duplicate)
    shard, position = min(late)
    record = reader.logs[shard].read(position)
    assert isinstance(record, Fetched) and not record.duplicate
    assert explain(reader, record.url).fetches[-1].duplicate


def test_an_agent_that_is_killed_comes_back_and_the_others_go_on(tmp_path: Path) -> None:
    notes: list[str] = []
    before: list[int] = []

    async def kill(crawl: Any) -> None:
        supervisor = crawl._agent
        for turn in range(2):
            await until(lambda turn=turn: crawl.status().pages >= 40 + 100 * turn)
            before[:] = supervisor.processes
            os.kill(supervisor.processes[turn % 2], signal.SIGKILL)
            await until(lambda turn=turn: supervisor.processes[turn % 2] != before[turn % 2])
            assert supervisor.processes[(turn + 1) % 2] == before[(turn + 1) % 2]

    politeness = {**WAITS, "wait": 0.2, "pages_per_visit": 3}
    with serving(SMALL) as served:
        ran = crawl(served.web, tmp_path, 2, kill, notes.append, politeness=politeness)
    assert ran.end is End.FINISHED
    check(served, tmp_path, killed=True)
    assert sum("started again" in note for note in notes) == 2
    assert not (tmp_path / "running").exists()


def test_a_run_that_ends_without_one_of_its_agents_has_failed(tmp_path: Path) -> None:
    async def kill(crawl: Any) -> None:
        await until(lambda: crawl.status().pages >= 20)
        os.kill(crawl._agent.processes[1], signal.SIGKILL)
        crawl.stop_soon()

    with serving(SMALL) as served:
        with pytest.raises(LocalError, match="agent 1 died"):
            crawl(served.web, tmp_path, 2, kill, politeness=LONG)
        assert crawl(served.web, tmp_path, 2).end is End.FINISHED
    check(served, tmp_path, killed=True)


def test_a_shard_that_is_gone_is_refused_and_repaired(tmp_path: Path) -> None:
    """Only the cursors of the other agent's shards know of it."""
    with serving(SMALL) as served:
        crawl(served.web, tmp_path, 2, limits={"pages": 150})
        reader = CrawlReader(tmp_path)
        known = {record.sender for _, _, record in reader.records() if isinstance(record, Received)}
        gone = min(known)
        for path in tmp_path.glob("shards/*/snapshots"):
            shutil.rmtree(path)
        shutil.rmtree(tmp_path / "shards" / f"{gone:02d}")
        with pytest.raises(StorageError, match=rf"shard {gone:02d} ends at record 0 .*lycosa repair"):
            crawl(served.web, tmp_path, 2)
        files = DiskFiles(tmp_path)
        mend(files, look(files), "now")
        assert crawl(served.web, tmp_path, 2).end is End.FINISHED
    none(served.web.truth().compare(outcomes(tmp_path)))


def command(
    served: Served, directory: Path, *more: str, politeness: dict[str, float] | None = None
) -> list[str]:
    toml = directory.parent / "crawl.toml"
    given = options(served.web, politeness=politeness or {**WAITS, "wait": 0.2, "pages_per_visit": 3})
    toml.write_text(as_toml({"seeds": served.web.seeds(), "shards": 8, **given}))
    verb = [sys.executable, "-m", "lycosa.cli.main", "crawl", "--config", str(toml)]
    return [*verb, "--into", str(directory), "--json", *more]


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="finds the agents in /proc")
def test_the_supervisor_is_killed_and_another_number_of_agents_goes_on(tmp_path: Path) -> None:
    directory = tmp_path / "crawl"
    with serving(SMALL) as served:
        committed: set[str] = set()
        for agents in ("3", "2"):
            process = subprocess.Popen(
                command(served, directory, "--agents", agents), stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            assert process.stdout is not None and process.stderr is not None
            for line in process.stdout:
                if json.loads(line).get("pages", 0) > len(committed) + 40:
                    break
            else:
                raise AssertionError(process.stderr.read().decode())
            alive = children(process.pid)
            assert len(alive) == int(agents)
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
            process.stderr.close()
            deadline = time.monotonic() + 240
            while any(Path(f"/proc/{pid}").exists() for pid in alive):
                assert time.monotonic() < deadline, "an agent outlived its supervisor"
                time.sleep(0.02)
            now = set(outcomes(directory))
            assert committed <= now, "a logged fetch was lost"
            committed = now
        # One agent, in the command's own process, ends what three began.
        done = subprocess.run(
            command(served, directory, "--agents", "1"), capture_output=True, timeout=170, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
    check(served, directory, killed=True)


def test_a_limit_of_pages_is_exact_and_the_next_run_goes_on(tmp_path: Path) -> None:
    with serving(SMALL) as served:
        ran = crawl(served.web, tmp_path, 2, limits={"pages": 101})
        assert ran.end is End.LIMIT
        assert ran.status.pages == 101
        assert sum(isinstance(record, Fetched) for _, _, record in CrawlReader(tmp_path).records()) == 101
        (tmp_path / "exchange" / "0-1").mkdir(parents=True)
        (tmp_path / "exchange" / "0-1" / f"{3:020d}.seg").write_bytes(b"what an earlier version left there")
        ran = crawl(served.web, tmp_path, 3)
        assert ran.end is End.FINISHED
    check(served, tmp_path)
    assert not (tmp_path / "exchange").exists()


def test_a_finished_crawl_that_is_run_again_ends_again(tmp_path: Path) -> None:
    """Its streams begin after the newest sequence that any shard has received; the others have received less."""
    with serving(msgspec.structs.replace(SMALL, hosts=3, pages=12)) as served:
        for _ in range(2):
            assert crawl(served.web, tmp_path, 2).end is End.FINISHED
    logs = CrawlReader(tmp_path).logs
    newest = [
        max((row.sequence for _, row in log.scan() if isinstance(row, Received)), default=0) for log in logs
    ]
    assert len(set(newest)) > 1


def test_ctrl_c_stops_all_cleanly(tmp_path: Path) -> None:
    directory = tmp_path / "crawl"
    with serving(SMALL) as served:
        words = command(served, directory, "--agents", "2", politeness=LONG)
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("pages", 0) > 20:
                break
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=170)
        assert process.returncode == 0, errors.decode()
    assert not (directory / "running").exists()
    status = read_status(directory)
    assert status is not None and status.state == "stopped" and status.pending > 0


INJECTED = """
import sys

if "lycosa.cluster.process" in sys.orig_argv:  # this process is an agent
    import os
    from lycosa.crawl.moving import Mover
    from lycosa.crawl.scheduling import Scheduler

    def fail():
        {what}

    def instead(part, *args, before={where}, **more):
        if sys.orig_argv[-3] == "1" and sum(shard.totals.fetched for shard in part._shards) > 3:
            return fail()
        return before(part, *args, **more)

    {where} = instead
"""


@pytest.mark.parametrize(
    ("where", "what", "line"),
    [
        (
            "Scheduler.start",
            "raise AssertionError('injected')",
            r"agent 1: it failed with AssertionError: injected ",
        ),
        ("Mover.hand_over", "raise KeyError('injected')", r"agent 1: it failed with KeyError: 'injected' "),
        (
            "Mover.hand_over",
            "os.kill(os.getpid(), 9)",
            r"agent 1 died while it ended \(signal 9\): the same command",
        ),
    ],
)
def test_the_failure_of_an_agent_is_that_of_the_command(
    tmp_path: Path, where: str, what: str, line: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(INJECTED.format(where=where, what=what))
    directory = tmp_path / "crawl"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    with serving(SMALL) as served:
        done = subprocess.run(
            [*command(served, directory, "--agents", "2"), "--max-pages", "40"],
            capture_output=True,
            check=False,
            env=env,
        )
    told = done.stderr.decode().splitlines()
    assert done.returncode == 5, told
    assert re.fullmatch(f"lycosa crawl: {line}.*", told[-1]), told
    assert "Traceback" not in done.stderr.decode()
    status = read_status(directory)
    assert status is not None and status.state == "failed"
    if "raise" in what:
        assert "injected" in (directory / "agent-1.failed").read_text()


AT_THE_START = """
import sys

if "lycosa.cluster.process" in sys.orig_argv:
    import os, time
    from lycosa.cluster.member import Member

    async def instead(member, *args, before=Member._serve):
        if member.id == "a1":
            os._exit(7)
        time.sleep(1.5)  # this one comes when the other is dead
        return await before(member, *args)

    Member._serve = instead
"""


def test_an_agent_that_dies_at_its_start_ends_the_command_at_once(tmp_path: Path) -> None:
    """Also if another has not yet come so far as to hear that."""
    (tmp_path / "sitecustomize.py").write_text(AT_THE_START)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    with serving(SMALL) as served:
        verb = command(served, tmp_path / "crawl", "--agents", "2")
        done = subprocess.run(verb, capture_output=True, check=False, env=env, timeout=240)
    told = done.stderr.decode().splitlines()
    assert done.returncode == 5, told
    assert re.match(r"lycosa crawl: agent 1 died at its start \(exit code 7\): the same command", told[-1]), (
        told
    )


def test_an_event_loop_that_ends_stops_all_agents(tmp_path: Path) -> None:
    """The coroutine returns while the crawl runs: `asyncio.run` cancels every task, once, and waits for them."""

    async def main(web: Web, go_on: bool) -> None:
        given = options(web) if go_on else options(web, politeness=LONG)
        made = lycosa.Crawl(web.seeds(), into=tmp_path / "c", agents=2, shards=8, **given)
        await made.start()
        if go_on:
            await made.wait()
        else:
            await until(lambda: made.status().pages >= 10)

    with serving(SMALL) as served:
        asyncio.run(main(served.web, go_on=False))
        status = read_status(tmp_path / "c")
        assert status is not None and status.state == "stopped" and not status.reason
        assert not (tmp_path / "c" / "running").exists()
        asyncio.run(main(served.web, go_on=True))
    check(served, tmp_path / "c")


def test_what_an_agent_cannot_do_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "cookies").write_text("not a cookie file at all\n")

    async def go(**given: Any) -> None:
        made = lycosa.Crawl(["http://a.test/"], into=tmp_path / "c", public=False, **given)
        await made.wait()

    with pytest.raises(ConfigError, match="20 agents are too many for 16 shards"):
        asyncio.run(go(agents=20))
    with pytest.raises(ConfigError, match="at least one agent"):
        asyncio.run(go(agents=0))

    async def iterate() -> None:
        async for _ in lycosa.Crawl(["http://a.test/"], into=tmp_path / "d", public=False, agents=2):
            pass

    with pytest.raises(ConfigError, match="only with agents=1"):
        asyncio.run(iterate())


def test_there_are_no_more_agents_than_a_scope_has_shards_for() -> None:
    splitter = Splitter(16, Domains(b"test\n"))

    def agents(seeds: list[str], **scope: Any) -> int:
        chosen = read_options({"public": False})
        chosen = Options(public=False, scope=ScopeOptions(**scope), robots=chosen.robots)
        return fitting(chosen, seeds, splitter, 4)

    one, many = ["http://a.test/", "http://www.a.test/x"], [f"http://h{n}.test/" for n in range(50)]
    assert agents(one, mode="host") == agents(one, mode="domain") == 1
    assert agents(many, mode="host") == 4
    assert agents(one, mode="any") == 4
    assert agents(one, mode="host", include_hosts=("b.test",)) == 4
    by_host = Splitter(16, Domains(b"test\n"), SplitterOptions(by="host"))
    chosen = Options(public=False, scope=ScopeOptions(mode="domain"))
    assert fitting(chosen, one, by_host, 4) == 4


def test_the_logs_of_several_agents_hold_questions_and_answers(two: Two) -> None:
    """Every late duplicate answers a question that its owner's log holds."""
    asked: set[tuple[int, int, int]] = set()  # owner, asker, position
    answers: list[tuple[int, Duplicates]] = []
    logs = enumerate(CrawlReader(two.directory).logs)  # a follower would have resolved the answers
    for shard, record in ((shard, record) for shard, log in logs for _, record in log.scan()):
        if isinstance(record, Received):
            asked.update((shard, record.sender, position) for position in record.asked)
        elif isinstance(record, Duplicates):
            answers.append((shard, record))
    assert answers
    for shard, answer in answers:
        assert all((answer.owner, shard, position) in asked for position in answer.positions)
