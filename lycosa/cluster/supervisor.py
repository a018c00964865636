"""The supervisor: several agents on one machine as one crawl, each a member in a process of its own.

It looks at the directory (`survey`), keeps the engine (`lycosa.engine.local`), and starts the agents with the
crawl paused. When every shard has a holder it gives out seeds and the limit of pages, and the crawl goes on. From
then on agents are on their own: links, turns, pages and the end are theirs, as in a cluster. What is left to the
supervisor:

- an agent that dies is started again after a moment, while the others go on. Its leases are given back for it,
  since its process is known to be dead, and its archive files are cut to what its logs know;
- the run ends when the crawl is *finished* or has reached its *limit*, as whoever holds shard 0 sees it (a limit
  of time is the supervisor's), or when somebody calls `stop`;
- what agents say becomes the status of one crawl.

The lock of the directory and the mark of a running crawl are the supervisor's. Agents inherit the lock, so that
nobody else begins before the last of them has ended; they end by themselves when the supervisor does.

An agent that dies over and over, or while it ends, ends the run. One that fails (`Failed`: what the operator must
do, or an error of the program) is not started again. Whatever ends the run is the command's failure, and names the
agent; so is an end before a dead agent is back.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lycosa import errors
from lycosa.archive.writer import SUFFIX, cut_files
from lycosa.clock import SystemClock
from lycosa.cluster.control import About, Control, Report, State, Wanted
from lycosa.cluster.lease import Lease, encode
from lycosa.cluster.leases import Said, end_leases, lease_key
from lycosa.cluster.links import send_seeds
from lycosa.cluster.merging import merged, merged_meters
from lycosa.cluster.names import exchange_of
from lycosa.cluster.own_keeping import FOREVER
from lycosa.cluster.process import METERS, TOLD, Failed, Metered, name_of
from lycosa.cluster.survey import archive_ends, demand_whole, survey
from lycosa.crawl import manifest as manifests
from lycosa.crawl.agent import RUNNING, End
from lycosa.crawl.config import Options, decode_options, encode_options, with_seeds
from lycosa.crawl.machine import memory_limit
from lycosa.crawl.manifest import Manifest
from lycosa.crawl.splitting import Splitter
from lycosa.crawl.status import Status, StatusFiles, resident
from lycosa.crawl.steady import SteadyTask
from lycosa.engine.local.client import LocalEngine
from lycosa.engine.local.server import LocalServer
from lycosa.engine.protocol import Entry, Full, StreamPlan, Unavailable, got
from lycosa.errors import LocalError
from lycosa.files import DirectoryLock, DiskFiles, write_whole
from lycosa.url.parts import host_of
from lycosa.url.scope import Scope

_DEATHS = 5
"""So many deaths in a row, each soon after the last start, end the run."""
_SOON = 30.0
_BACKOFF = 0.25
_TICK = 0.1
_METERS = 1.0
_STOPPING = 60.0
"""Seconds that agents are given to stop; then they are killed, and the next start recovers them."""
_LOOK = 0.1
_TURN = 5.0
"""Seconds that the turn of an address lasts; a dead agent's wait so long."""
_EXCHANGE_BYTES = 64 << 20
"""Of all streams together: they are in memory, and what does not fit waits in its sender's log."""
_LEAST_BYTES = 2 << 20
_OLD_EXCHANGE = "exchange"
"""Where earlier versions kept what was on its way; it is in its senders' logs, too."""


class Supervised:
    """One agent, as the supervisor knows it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = name_of(number)
        self.process: subprocess.Popen[bytes] | None = None
        self.pid = 0
        self.meters: dict[str, float] = {}
        self.rss = 0
        self.ended = False
        self.deaths = 0
        self.died = ""
        """How its process ended, if it ended badly and none has begun in its place."""
        self.started = 0.0
        self.again: float | None = None
        """When it is to be started again."""


class Supervisor:
    """A crawl of several agents; stands where an agent stands for a crawl of one."""

    def __init__(
        self,
        directory: Path,
        manifest: Manifest,
        options: Options,
        seeds: Sequence[str],
        *,
        agents: int,
        lock: DirectoryLock,
        told: Callable[[str], None] | None = None,
        before: Status | None = None,
    ) -> None:
        """`before`: how an agent that was alone left the crawl, in this same run."""
        self._directory = directory
        self._files = DiskFiles(directory)
        self._manifest = manifest
        self._options = options
        self._seeds = list(seeds)
        self._lock = lock
        self._told = told or (lambda _: None)
        self._agents = [Supervised(number) for number in range(agents)]
        self._clock = SystemClock()
        self._server: LocalServer | None = None
        self._engine: LocalEngine | None = None
        self._beside: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._ends: dict[str, int] = {}
        self._reports: dict[int, Report] = {}
        self._state = State()
        self._wanted = Wanted.PAUSED
        self._refused: list[tuple[str, str]] = []
        self._failure: Exception | None = None
        self._opened = False
        self._stopped = False
        self._stopping = False
        self._paused = False
        self._unclean = False
        self._before = before
        self._began = time.monotonic() - (before.elapsed if before else 0.0)
        self.pages_before = before.pages - before.pages_run if before else 0
        self.underway = None  # agents read pages, each with a watchdog of its own

    # -- the start

    async def open(self) -> None:
        """Have all agents recover, then begin."""
        self._unclean = self._files.exists(RUNNING)
        await asyncio.to_thread(shutil.rmtree, self._directory / _OLD_EXCHANGE, ignore_errors=True)
        last = await asyncio.to_thread(self._survey)
        if not self._unclean:
            write_whole(self._files, RUNNING, b"")
        self._server = LocalServer(last)
        try:
            self._engine = await LocalEngine.open(self._server.connect(), self._manifest.crawl)
            await self._create()
            self._watch_over(self._follow("report.*", self._note_report))
            self._watch_over(self._follow("state", self._note_state))
            self._watch_over(self._ask_meters())
            got(await self._engine.requests.answer(TOLD, self._heard))
            for agent in self._agents:
                self._start(agent)
            await self._until(lambda: len(self._reports) == self._manifest.shards)
            if self._before is None:
                self.pages_before = sum(report.totals.pages for report in self._reports.values())
            await self._control.limit_pages(self._options.limits.pages)
            await self._sow()
            await self._want(Wanted.RUNNING)
            self._opened = True
            self._began = time.monotonic()  # agents may take long to recover
        except BaseException:
            await self._end_all()
            raise

    def _survey(self) -> int:
        """Look at the directory, refuse it or make it ready; where the exchange's sequences go on."""
        found = survey(self._files, range(self._manifest.shards))
        demand_whole(self._files, found)
        self._ends = archive_ends(found)
        if self._options.archive.keep:
            cut_files(self._files.within("archive"), self._ends)
        options = self._options
        for row in found.values():
            if row.options:  # the seeds of all runs that the scope is relative to
                options = with_seeds(options, decode_options(row.options), options.near)
        self._options = options = with_seeds(options, options, self._seeds)
        scope = Scope(options.scope, options.near, manifests.domains_of(self._files))
        judged = [(url, scope.judge(url, 0)) for url in self._seeds]
        self._refused = [(url, verdict.rule) for url, verdict in judged if not verdict.inside]
        return max((row.received for row in found.values()), default=0)

    async def _create(self) -> None:
        """Make the crawl in the engine, as an operator does in a cluster."""
        manifest, bucket = self._manifest, self._own.bucket
        about = About(
            crawl=manifest.crawl,
            shards=manifest.shards,
            hash_seed=manifest.hash_seed,
            created=manifest.created,
            storage="",
            lease=FOREVER,
            turn_seconds=_TURN,
            look=_LOOK,
            exchange_bytes=max(_EXCHANGE_BYTES // manifest.shards, _LEAST_BYTES),
            splitter=manifest.splitter,
        )
        plans = [
            StreamPlan(exchange_of(number), about.exchange_bytes, lanes=True)
            for number in range(manifest.shards)
        ]
        got(await self._own.create(plans, 1))
        state = State(wanted=Wanted.PAUSED, options=encode_options(self._options).decode())
        got(await bucket.put("state", msgspec.json.encode(state)))
        got(await bucket.put("crawl", msgspec.json.encode(about)))
        for number in range(
            manifest.shards
        ):  # whoever had them is dead, and so is whoever had turns of theirs
            free = Lease("", 0, FOREVER, released=True, turns={})
            got(await bucket.put(lease_key(number), encode(free)))
        for agent in self._agents:  # all of them will be there: shards are placed with each from the start
            got(await bucket.put(f"agent.{agent.name}", msgspec.json.encode(Said())))

    @property
    def _own(self) -> LocalEngine:
        assert self._engine is not None
        return self._engine

    @property
    def _control(self) -> Control:
        return Control(self._own, self._clock)

    async def _sow(self) -> None:
        """Give the seeds to the shards that own them; those that are known drop out there."""
        split = Splitter(self._manifest.shards, manifests.domains_of(self._files), self._manifest.splitter)
        by_shard: dict[int, list[str]] = {}
        for url in self._seeds:
            by_shard.setdefault(split.shard_of(host_of(url)), []).append(url)
        for number, urls in by_shard.items():
            stream = self._own.stream(exchange_of(number))
            while isinstance(refused := await send_seeds(stream, number, urls), Full | Unavailable):
                if isinstance(refused, Unavailable):
                    raise refused
                await self._wait_change(_TICK)  # somebody reads it

    async def _want(self, wanted: Wanted) -> None:
        self._wanted = wanted
        await self._control.change(lambda state: msgspec.structs.replace(state, wanted=wanted))

    def _start(self, agent: Supervised) -> None:
        assert self._server is not None
        try:
            with self._server.connect() as side:
                agent.process = self._spawn(agent.number, side.fileno())
        except OSError as error:
            raise LocalError(f"agent {agent.number} cannot be started: {error.strerror}") from None
        agent.pid = agent.process.pid
        agent.started, agent.again = time.monotonic(), None

    def _spawn(self, number: int, side: int) -> subprocess.Popen[bytes]:
        """A process that is an agent; what it has to say beyond the engine (a traceback) goes to standard error."""
        words = (side, self._directory, number, len(self._agents), self._manifest.crawl)
        return subprocess.Popen(
            [sys.executable, "-m", "lycosa.cluster.process", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(side, self._lock.fileno()),
        )

    # -- what agents say

    def _watch_over(self, work: Coroutine[Any, Any, None]) -> None:
        # Steady: agents are heard until the engine is closed, also while the event loop is shut down.
        self._beside.append(SteadyTask(self._beside_the_run(work)))

    async def _beside_the_run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._failure = self._failure or error
        self._changed.set()

    async def _follow(self, pattern: str, note: Callable[[Entry], None]) -> None:
        watch = self._own.bucket.watch(pattern)
        while not self._own.gone.is_set():
            entries = await watch.next(1.0)
            for entry in [] if isinstance(entries, Unavailable) else entries:
                note(entry)
                self._changed.set()

    def _note_report(self, entry: Entry) -> None:
        if entry.value is not None:
            report = msgspec.json.decode(entry.value, type=Report)
            self._reports[report.shard] = report

    def _note_state(self, entry: Entry) -> None:
        self._state = msgspec.json.decode(entry.value or b"{}", type=State)

    async def _ask_meters(self) -> None:
        while not self._own.gone.is_set():
            await asyncio.gather(*(self._ask_one(agent) for agent in self._agents))
            await asyncio.sleep(_METERS)

    async def _ask_one(self, agent: Supervised) -> None:
        answer = await self._own.requests.ask(f"{METERS}.{agent.name}", b"", 1.0)
        if isinstance(answer, Unavailable):
            return
        said = msgspec.json.decode(answer, type=Metered)
        agent.rss = said.rss
        if self._stopping:  # shards leave, and what is counted of them with them
            before = agent.meters
            agent.meters = {name: max(value, before.get(name, 0.0)) for name, value in said.meters.items()}
        else:
            agent.meters = said.meters

    def _heard(self, data: bytes) -> None:
        number, text = msgspec.json.decode(data, type=tuple[int, str])
        self._told(f"agent {number}: {text}")

    # -- an agent is gone

    async def _look_at_processes(self) -> None:
        for agent in self._agents:
            if agent.process is not None and (code := agent.process.poll()) is not None:
                agent.process = None
                await self._gone(agent, code)
            elif agent.again is not None and time.monotonic() >= agent.again and not self._stopping:
                self._start(agent)

    async def _gone(self, agent: Supervised, code: int) -> None:
        """Its process has ended: what it had is free."""
        shards = await end_leases(self._own.bucket, agent.name)
        entry = got(await self._own.bucket.get(f"failed.{agent.name}"))
        if entry is not None and self._failure is None:
            failed = msgspec.json.decode(entry.value or b"", type=Failed)
            kind = getattr(errors, failed.kind, LocalError)
            self._failure = kind(f"agent {agent.number}: {failed.text}")
        agent.ended = code == 0
        if not code or self._failure is not None:
            return
        what = agent.died = f"signal {-code}" if code < 0 else f"exit code {code}"
        if self._stopping:
            self._failure = LocalError(
                f"agent {agent.number} died while it ended ({what}): the same command goes on from here"
            )
            return
        soon = time.monotonic() - agent.started < _SOON
        agent.deaths = agent.deaths + 1 if soon else 1
        if agent.deaths >= _DEATHS or not self._opened:
            when = f"{_DEATHS} times in a row" if self._opened else "at its start"
            self._failure = LocalError(
                f"agent {agent.number} died {when} ({what}):"
                f" the same command goes on from here; --agents 1 crawls in one process"
            )
            return
        self._told(f"agent {agent.number} died ({what}): it is started again, the others go on")
        await asyncio.to_thread(self._cut_archive, agent, shards)
        agent.again = time.monotonic() + _BACKOFF * 2 ** (agent.deaths - 1)

    def _cut_archive(self, agent: Supervised, shards: Sequence[int]) -> None:
        """Cut a dead agent's files to what the logs that it wrote know of them."""
        for name, end in archive_ends(survey(self._files, shards)).items():
            self._ends[name] = max(end, self._ends.get(name, 0))
        if self._options.archive.keep:
            own = f"-{self._manifest.crawl}.{agent.name}{SUFFIX}"
            cut_files(self._files.within("archive"), self._ends, own)

    # -- the run

    async def run(self) -> End:
        """Crawl until the end; see the module."""
        if self._before is None:
            self._began = time.monotonic()
        try:
            end = await self._watch()
        finally:
            clean = await self._end_all()
        if self._failure is not None:
            raise self._failure
        for agent in self._agents:
            if agent.died:
                raise LocalError(
                    f"agent {agent.number} died ({agent.died}) before the end ({end}):"
                    f" nothing that was committed is lost, the same command goes on from here"
                )
        if clean:
            self._files.remove(RUNNING)
            self._files.sync_dir("")
        return end

    async def _watch(self) -> End:
        while True:
            await self._look_at_processes()
            if self._failure is not None:
                raise self._failure
            if self._stopped:
                return End.STOPPED
            if self._state.finished:
                return End(self._state.end)
            seconds = self._options.limits.seconds
            if seconds and time.monotonic() - self._began >= seconds:
                return End.LIMIT
            wanted = Wanted.PAUSED if self._paused else Wanted.RUNNING
            if wanted is not self._wanted:
                await self._want(wanted)
            for agent in self._agents:
                if agent.died and agent.process is not None and self._is_back(agent):
                    agent.died = ""
            await self._wait_change(_TICK)

    def _is_back(self, agent: Supervised) -> bool:
        """Whether an agent that was started again has said anything of a shard."""
        return any(
            report.agent == agent.name and report.totals.at >= self._wall_of(agent.started)
            for report in self._reports.values()
        )

    def _wall_of(self, monotonic: float) -> float:
        return time.time() - (time.monotonic() - monotonic)

    async def _end_all(self) -> bool:
        """Stop every agent; whether all ended cleanly."""
        self._stopping = True
        for agent in self._agents:
            agent.again = None
        if self._engine is not None and not self._state.finished:
            await self._control.finish(End.STOPPED)  # also for an agent that has just been started
        deadline = time.monotonic() + _STOPPING
        while any(agent.process is not None for agent in self._agents):
            if time.monotonic() > deadline:
                for agent in self._agents:
                    if agent.process is not None:
                        agent.process.kill()
            await self._look_at_processes()
            await self._wait_change(_TICK)
        if self._engine is not None:
            for entry in got(await self._engine.bucket.all("report.*")):
                self._note_report(entry)
            await self._engine.close()
        for task in self._beside:
            await asyncio.wait([task])
        if self._server is not None:
            await asyncio.to_thread(self._server.close)
        return self._failure is None and all(agent.ended for agent in self._agents)

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():
            await self._look_at_processes()
            if self._failure is not None:
                raise self._failure
            await self._wait_change(_TICK)

    async def _wait_change(self, seconds: float) -> None:
        timer = asyncio.get_running_loop().call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()  # no `wait_for`: the crawl's task is a steady one
        finally:
            timer.cancel()
        self._changed.clear()

    # -- asked from outside

    def stop(self) -> bool:
        first = not self._stopped
        self._stopped = True
        self._changed.set()
        return first

    def pause(self) -> None:
        self._paused = True
        self._changed.set()

    def go_on(self) -> None:
        self._paused = False
        self._changed.set()

    @property
    def refused_seeds(self) -> list[tuple[str, str]]:
        return self._refused

    def read_meters(self) -> dict[str, float]:
        return merged_meters([agent.meters for agent in self._agents])

    @property
    def processes(self) -> list[int]:
        """The numbers of the agents' processes."""
        return [agent.pid for agent in self._agents]

    def status(self, state: str, limit: int) -> Status:
        """All agents as one crawl."""
        return merged(
            list(self._reports.values()),
            self.read_meters(),
            at=time.time(),
            pid=os.getpid(),
            state=state,
            elapsed=time.monotonic() - self._began,
            pages_before=self.pages_before,
            rss=resident() + sum(agent.rss for agent in self._agents),
            memory_limit=limit,
            page_limit=self._options.limits.pages,
            errors_before=self._before.errors if self._before else {},
        )


class TeamReporter:
    """Says how a crawl of several agents goes."""

    def __init__(self, supervisor: Supervisor, directory: Path) -> None:
        self._supervisor = supervisor
        self._files = StatusFiles(directory)
        self._limit = memory_limit()

    def status(self, state: str = "running") -> Status:
        return self._supervisor.status(state, self._limit)

    def write(self, status: Status) -> None:
        self._files.write(status)
