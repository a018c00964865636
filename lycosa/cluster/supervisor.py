"""The supervisor: several agents on one machine as one crawl, each a member in a process of its own.

It checks the directory (`survey`), keeps the engine (`lycosa.engine.local`), and starts the agents with the crawl
paused. When every shard has a holder it distributes seeds and the limit of pages, and the crawl starts. From then
on the agents work by themselves: they handle links, turns, pages and the end, as in a cluster. The supervisor's
tasks are:

- an agent that dies is restarted after a moment, while the others continue. Its leases are released for it,
  since its process is known to be dead, and its archive files are cut to what its logs know;
- the run ends when the crawl is *finished* or has reached its *limit*, as decided by the holder of shard 0 (a limit
  of time is the supervisor's), or when `stop` is called;
- the agents' reports are combined into the status of one crawl (`team_reports`).

The course of the run is decided in `team_run`; `team_processes` has the processes.

The supervisor has the lock of the directory and the mark of a running crawl. Agents inherit the lock, so that
nobody else begins before the last of them has ended; they end by themselves when the supervisor does.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lycosa import errors
from lycosa.archive.writer import SUFFIX, cut_files
from lycosa.clock import SystemClock
from lycosa.cluster.control import About, Control, State, Wanted, options_of
from lycosa.cluster.keeping import FOREVER
from lycosa.cluster.lease import Lease, encode
from lycosa.cluster.leases import Said, end_leases, lease_key
from lycosa.cluster.links import sow
from lycosa.cluster.names import exchange_of
from lycosa.cluster.process import Failed, name_of
from lycosa.cluster.survey import archive_ends, demand_whole, survey
from lycosa.cluster.team_processes import Processes
from lycosa.cluster.team_reports import TeamReports
from lycosa.cluster.team_run import (
    Began,
    Ends,
    Event,
    Exited,
    Heard,
    Looked,
    Opened,
    Recover,
    Stage,
    Start,
    TeamRun,
)
from lycosa.crawl import manifest as manifests
from lycosa.crawl.acts import Act, done, latest, outside, resumed, seeds_of
from lycosa.crawl.agent import RUNNING, End
from lycosa.crawl.config import Options, decode_options, encode_options, with_seeds
from lycosa.crawl.manifest import Manifest
from lycosa.crawl.near_seeds import scope_of
from lycosa.crawl.splitting import Splitter
from lycosa.crawl.status import Status
from lycosa.crawl.steady import SteadyTask
from lycosa.crawl.wholeness import highest
from lycosa.engine.local.client import LocalEngine
from lycosa.engine.local.server import LocalServer
from lycosa.engine.protocol import StreamPlan, got
from lycosa.errors import LocalError
from lycosa.files import DirectoryLock, DiskFiles, write_whole
from lycosa.url.scope import Scope

_TICK = 0.1
_STOPPING = 60.0
"""Seconds that agents are given to stop; then they are killed, and the next start recovers them."""
_LOOK = 0.1
_JUDGED = 1_000
"""Of the seeds of one act, the number that are judged for the answer; all are distributed."""
_TURN = 5.0
"""Seconds that the turn of an address lasts; those of a dead agent block their addresses this long."""
_EXCHANGE_BYTES = 64 << 20
"""Size of all streams together: they are in memory, and what does not fit waits in its sender's log."""
_LEAST_BYTES = 2 << 20
_OLD_EXCHANGE = "exchange"
"""Where earlier versions kept links under way; these are in their senders' logs, too."""


class Supervisor:
    """A crawl of several agents; takes the place that an agent has in a crawl of one."""

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
        """`before`: the status that a single agent left earlier in this same run."""
        self._directory = directory
        self._files = DiskFiles(directory)
        self._manifest = manifest
        self._options = options
        self._seeds = list(seeds)
        self._agents = agents
        self._lock = lock
        self._told = told or (lambda _: None)
        self._clock = SystemClock()
        self._run = TeamRun(agents)
        self._changed = asyncio.Event()
        self._reports = TeamReports(agents, self._told, self._changed.set, before)
        self._server: LocalServer | None = None
        self._engine: LocalEngine | None = None
        self._processes: Processes | None = None
        self._beside: list[asyncio.Task[None]] = []
        self._ends: dict[str, int] = {}
        self._asked = self._wanted = Wanted.PAUSED  # by the operator; and what the agents are told
        self._refused: list[tuple[str, str]] = []
        self._before = before
        self.underway = None  # agents read pages, each with a watchdog of its own

    # -- the start

    async def open(self) -> None:
        """Have all agents recover, then begin."""
        unclean = self._files.exists(RUNNING)
        await asyncio.to_thread(shutil.rmtree, self._directory / _OLD_EXCHANGE, ignore_errors=True)
        last = await asyncio.to_thread(self._survey)
        if not unclean:
            write_whole(self._files, RUNNING, b"")
        crawl, reports = self._manifest.crawl, self._reports
        self._server = server = LocalServer(last)
        try:
            self._engine = engine = await LocalEngine.open(server.connect(), crawl)
            self._processes = Processes(self._directory, crawl, self._agents, self._lock, server.connect)
            await self._create()
            for pattern in ("report.*", "state"):
                self._watch_over(reports.follow(engine, engine.gone, pattern))
            self._watch_over(reports.ask_meters(engine, engine.gone))
            await reports.answer(engine)
            for number in range(self._agents):
                self._start(number)
            while len(reports.shards) < self._manifest.shards:
                await self._look_at_processes()
                if self._run.failure is not None:
                    raise self._run.failure
                await self._wait_change(_TICK)
            if self._before is None:
                reports.reporter.pages_before = sum(row.totals.pages for row in reports.shards.values())
            await self._control.limit_pages(self._options.limits.pages)
            await self._sow(self._seeds)
            if self._options.steered.paused:
                self._told("the crawl is paused: lycosa control DIR go-on has it go on")
            else:
                self._asked = Wanted.RUNNING
            await self._want(self._asked)
            self._on(Opened())
            reports.reporter.began = time.monotonic()  # agents may take long to recover
        except BaseException:
            await self._end_all()
            raise

    def _survey(self) -> int:
        """Check the directory, and refuse or prepare it; returns the sequence after which the exchange
        continues."""
        found = survey(self._files, range(self._manifest.shards))
        demand_whole(self._files, found)
        self._ends = archive_ends(found)
        if self._options.archive.keep:
            cut_files(self._files.within("archive"), self._ends)
        before = [decode_options(row.options) for row in found.values() if row.options]
        options = resumed(self._options, latest(before))
        for each in before:  # the seeds of all runs that the scope is relative to
            options = with_seeds(options, each, options.near)
        self._options = options = with_seeds(options, options, self._seeds)
        self._refused = outside(self._scope(), self._seeds)
        return max((row.received for row in found.values()), default=0)

    def _scope(self) -> Scope:
        return scope_of(self._options, self._files, manifests.domains_of(self._files))

    async def _create(self) -> None:
        """Create the crawl in the engine, as an operator does in a cluster."""
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
        ):  # their holders are dead, and so are the askers that had turns of theirs
            free = Lease("", 0, FOREVER, released=True, turns={})
            got(await bucket.put(lease_key(number), encode(free)))
        for agent in range(
            self._agents
        ):  # announced before they start, so that shards are placed with all of them at once
            got(await bucket.put(f"agent.{name_of(agent)}", msgspec.json.encode(Said())))

    @property
    def _own(self) -> LocalEngine:
        assert self._engine is not None
        return self._engine

    @property
    def _control(self) -> Control:
        return Control(self._own, self._clock)

    async def _sow(self, seeds: Sequence[str]) -> None:
        """Give seeds to the shards that own them, which drop those they know."""
        split = Splitter(self._manifest.shards, manifests.domains_of(self._files), self._manifest.splitter)
        await sow(self._own, split, seeds, self._clock)

    async def _want(self, wanted: Wanted) -> None:
        self._wanted = wanted
        await self._control.change(lambda state: msgspec.structs.replace(state, wanted=wanted))

    # -- events

    def _on(self, event: Event) -> list[Start | Recover]:
        return self._run.on(event, time.monotonic())

    def _start(self, number: int) -> None:
        assert self._processes is not None
        self._processes.start(number)
        self._on(Began(number))

    def _watch_over(self, work: Coroutine[Any, Any, None]) -> None:
        # Steady: agents are listened to until the engine is closed, also while the event loop is shut down.
        self._beside.append(SteadyTask(self._beside_the_run(work)))

    async def _beside_the_run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._on(Ends(failure=error))
        self._changed.set()

    async def _look_at_processes(self) -> None:
        assert self._processes is not None
        for number, code in self._processes.ended():
            shards = await end_leases(self._own.bucket, name_of(number))  # the shards it held are free
            entry = got(await self._own.bucket.get(f"failed.{name_of(number)}"))
            failure: Exception | None = None
            if entry is not None:
                failed = msgspec.json.decode(entry.value or b"", type=Failed)
                failure = getattr(errors, failed.kind, LocalError)(f"agent {number}: {failed.text}")
            for command in self._on(Exited(number, code, failure)):
                assert isinstance(command, Recover)
                self._told(command.text)
                await asyncio.to_thread(self._cut_archive, number, shards)
        for command in self._on(Looked()):
            self._start(command.agent)
        for number in self._run.waits_for:
            if self._reports.has_since(number, self._processes.started[number]):
                self._on(Heard(number))

    def _cut_archive(self, number: int, shards: Sequence[int]) -> None:
        """Cut a dead agent's files to what the logs that it wrote know of them."""
        self._ends = highest([self._ends, archive_ends(survey(self._files, shards))])
        if self._options.archive.keep:
            own = f"-{self._manifest.crawl}.{name_of(number)}{SUFFIX}"
            cut_files(self._files.within("archive"), self._ends, own)

    # -- the run

    async def run(self) -> End:
        """Crawl until the end; see the module."""
        if self._before is None:
            self._reports.reporter.began = time.monotonic()
        try:
            await self._watch()
        finally:
            await self._end_all()
        end = self._run.result()
        if self._run.is_clean():
            self._files.remove(RUNNING)
            self._files.sync_dir("")
        return end

    async def _watch(self) -> None:
        while True:
            await self._look_at_processes()
            state, seconds = self._reports.state, self._options.limits.seconds
            if state.finished:
                self._on(Ends(End(state.end)))
            elif seconds and time.monotonic() - self._reports.reporter.began >= seconds:
                self._on(Ends(End.LIMIT))
            if self._run.stage is Stage.ENDING:
                return
            if self._asked is not self._wanted:
                await self._want(self._asked)
            await self._wait_change(_TICK)

    async def _end_all(self) -> None:
        """Stop every agent."""
        self._on(Ends())
        self._reports.leaving = True
        if self._engine is not None and not self._reports.state.finished:
            await self._control.finish(End.STOPPED)  # also for an agent that has just been started
        deadline = time.monotonic() + _STOPPING
        while self._processes is not None and len(self._processes):
            if time.monotonic() > deadline:
                self._processes.kill()
            await self._look_at_processes()
            await self._wait_change(_TICK)
        if self._engine is not None:
            for entry in got(await self._engine.bucket.all("report.*")):
                self._reports.note(entry)
            await self._engine.close()
        for task in self._beside:
            await asyncio.wait([task])
        if self._server is not None:
            await asyncio.to_thread(self._server.close)

    async def _wait_change(self, seconds: float) -> None:
        timer = asyncio.get_running_loop().call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()  # no `wait_for`: the crawl's task is a steady one
        finally:
            timer.cancel()
        self._changed.clear()

    # -- called from outside

    def stop(self) -> bool:
        first = End.STOPPED not in self._run.ends
        self._on(Ends(End.STOPPED))
        self._changed.set()
        return first

    def pause(self) -> None:
        self._asked = Wanted.PAUSED
        self._changed.set()

    def go_on(self) -> None:
        self._asked = Wanted.RUNNING
        self._changed.set()

    def _is_over(self) -> bool:
        return self._run.stage is Stage.ENDING or self._reports.state.finished

    async def act(self, act: Act) -> str | None:
        """Carry out an operator's act; see `Agent.act`. Returns when the holders of all shards report it as
        committed in their logs."""
        if self._run.stage is not Stage.RUNNING or self._is_over():
            return None
        wanted = {"pause": Wanted.PAUSED, "go-on": Wanted.RUNNING}.get(act.what, self._asked)
        self._options = options_of(await self._control.steer(act, wanted))
        self._asked = self._wanted = wanted
        seeds = seeds_of(self._options, act)
        await self._sow(seeds)
        while any(act.id not in row.acts for row in self._reports.shards.values()):
            if self._is_over():
                return None  # the next run will see whether it is in the logs
            await asyncio.sleep(_TICK)
        if act.what == "stop":
            self.stop()
        return done(outside(self._scope(), seeds[:_JUDGED]))

    @property
    def refused_seeds(self) -> list[tuple[str, str]]:
        return self._refused

    def read_meters(self) -> dict[str, float]:
        return self._reports.read_meters()

    @property
    def processes(self) -> list[int]:
        """The ids of the agents' processes."""
        return self._processes.pids if self._processes is not None else [0] * self._agents

    def status(self, state: str = "running") -> Status:
        """The status of all agents as one crawl."""
        return self._reports.status(state, self._options, self.processes)
