"""The supervisor: several agents as one crawl, each in a process of its own.

It starts the agents in two steps (all recover and say how far they have come; then all go on from there), passes
word between them, restarts one that dies while the others go on, and ends the run:

- *finished*: every agent is idle and has read all that the others wrote to it, seen twice in a row without an
  append between; asked in rounds (`Settle`), not taken from the reports, which may be old;
- *limit*: pages, bytes or time; pages are handed out as rations, so their number is exact;
- *stopped*: somebody called `stop`.

The lock of the directory, the mark of a running crawl, the exchange's files and the table of addresses are the
supervisor's. Agents inherit the lock, so that nobody else begins before the last of them has ended; they end by
themselves when the supervisor does.

An agent that dies is started again after a moment, told that it was cut short; one that dies over and over, or
while it ends, ends the run. One that fails (`Failed`: what the operator must do, or an error of the program) is not
started again. Whatever ends the run is the command's failure, and names the agent; so is an end before a dead agent
is back.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lycosa import errors
from lycosa.archive.writer import cut_files
from lycosa.cluster import addresses
from lycosa.cluster.addresses import SharedAddressTable
from lycosa.cluster.merging import merged, merged_meters
from lycosa.cluster.messages import (
    Begun,
    Channel,
    Claim,
    Claimed,
    Cursors,
    Ended,
    Failed,
    FromAgent,
    Go,
    GoBack,
    Grant,
    Pause,
    Recall,
    Recovered,
    Release,
    Report,
    Returned,
    Settle,
    Settled,
    Start,
    Stop,
    TellCursors,
    ToAgent,
    Told,
    Wish,
)
from lycosa.cluster.process import ADDRESSES, EXCHANGE, holders
from lycosa.cluster.quotas import Pool
from lycosa.crawl.agent import End
from lycosa.crawl.config import Options, decode_options, encode_options, with_seeds
from lycosa.crawl.machine import memory_limit
from lycosa.crawl.manifest import Manifest
from lycosa.crawl.saving import RUNNING
from lycosa.crawl.status import Status, StatusFiles, resident
from lycosa.crawl.steady import SteadyTask
from lycosa.crawl.wholeness import Known, cursor_claims, missing, refuse
from lycosa.errors import LocalError, LycosaError
from lycosa.files import DirectoryLock, DiskFiles, write_whole

_DEATHS = 5
"""So many deaths in a row, each soon after the last start, end the run."""
_SOON = 30.0
_BACKOFF = 0.25
_TICK = 0.1
_ROUND = 0.05
"""Seconds between two rounds: readers look for more about as often."""
_LOST = 2.0
"""Seconds after which a round that not all have answered is asked anew: somebody began again meanwhile."""
_STOPPING = 60.0
"""Seconds that agents are given to stop; then they are killed, and the next start recovers them."""


class Member:
    """One agent, as the supervisor knows it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.channel: Channel[FromAgent] | None = None
        self.listener: asyncio.Task[None] | None = None
        self.recovered: Recovered | None = None
        self.begun = False
        self.report: Report | None = None
        self.status: Status | None = None
        """The last that was heard of it, also of the process before this one."""
        self.settled: Settled | None = None
        self.ended = False
        self.deaths = 0
        self.died = ""
        """How its process ended, if it ended badly and none has begun in its place."""
        self.started = 0.0

    @property
    def running(self) -> bool:
        return self.begun and not self.ended and self.channel is not None

    def send(self, message: ToAgent) -> None:
        if self.channel is not None:
            self.channel.send(message)


class Supervisor:
    """A crawl of several agents; stands where an `Agent` stands for a crawl of one."""

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
        self._options = options
        self._seeds = list(seeds)
        self._lock = lock
        self._told = told or (lambda _: None)
        self._holders = holders(manifest.shards, agents)
        self._members = [Member(number) for number in range(agents)]
        self._changed = asyncio.Event()
        self._pool = Pool(options.limits.pages)
        self._refused: list[tuple[str, str]] = []
        self._ends: dict[str, int] = {}
        self._cursor_replies: dict[int, list[Cursors]] = {}
        self._claims: dict[tuple[int, str], int] = {}  # (agent that has it, host) -> the shard that owns it
        self._asked_claims: dict[tuple[int, int], int] = {}  # (asking agent, id) -> the agent that is asked
        self._failure: Exception | None = None
        self._opened = False
        self._stopped = False
        self._stopping = False
        self._paused = False
        self._unclean = False
        self._round = 0
        self._judged = 0
        self._round_at = 0.0
        self._last_round: list[int] | None = None
        self._before = before
        self._began = time.monotonic() - (before.elapsed if before else 0.0)
        self._restarts: set[asyncio.Task[None]] = set()
        self.pages_before = before.pages - before.pages_run if before else 0
        self._addresses: SharedAddressTable | None = None
        self.underway = None  # agents read pages, each with a watchdog of its own

    # -- the start

    async def open(self) -> None:
        """Have all agents recover, then begin."""
        self._clear_exchange()
        self._unclean = self._files.exists(RUNNING)
        try:
            for member in self._members:
                await self._start(member)
            await self._until(lambda: all(member.recovered for member in self._members))
            self._demand_logs()
            self._merge_ends()
            self._options = self._agreed_options()
            if not self._unclean:
                write_whole(self._files, RUNNING, b"")
            for member in self._members:
                assert member.recovered is not None
                self._pool.begin(member.number, member.recovered.fetched)
                if self._before is None:
                    self.pages_before += member.recovered.fetched
                self._send_go(member, self._all_cursors(), self._unclean)
            await self._until(lambda: all(member.begun for member in self._members))
            self._opened = True
            self._began = time.monotonic()  # agents may take long to recover
        except BaseException:
            await self._end_all()
            raise

    def _clear_exchange(self) -> None:
        """What was on its way is in its senders' logs; the table of addresses begins empty."""
        exchange = self._files.within(EXCHANGE)
        for name in exchange.list(""):
            if (self._directory / EXCHANGE / name).is_dir():
                for segment in exchange.list(name):
                    exchange.remove(f"{name}/{segment}")
        path = self._directory / EXCHANGE / ADDRESSES
        addresses.create(path, self._options.politeness.address_wait)
        self._addresses = SharedAddressTable(path, len(self._members))

    async def _start(self, member: Member) -> None:
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                member.process = _spawn(theirs.fileno(), self._lock.fileno())
        except OSError as error:
            raise LocalError(f"agent {member.number} cannot be started: {error.strerror}") from None
        ours.setblocking(False)
        member.recovered = member.report = member.settled = None
        member.begun = member.ended = False
        member.started = time.monotonic()
        member.channel = await Channel.over(ours, FromAgent)
        member.send(
            Start(
                directory=str(self._directory),
                agent=member.number,
                agents=len(self._members),
                options=encode_options(self._options),
                limited=bool(self._options.limits.pages),
            )
        )
        # It ends with the channel: agents are heard until then, also while the event loop is shut down.
        member.listener = SteadyTask(self._listen(member, member.channel))

    def _demand_logs(self) -> None:
        """Refuse a crawl some of whose shards know more of another's log than it holds."""
        ends: dict[int, int] = {}
        claims: list[Known] = []
        for member in self._members:
            assert member.recovered is not None
            ends |= member.recovered.logs
            for shard, cursors in member.recovered.cursors.items():
                claims += cursor_claims(shard, cursors, member.recovered.answers.get(shard))
        refuse(str(self._directory), missing(ends, claims))

    def _merge_ends(self) -> None:
        """Cut the archive to what the logs of all shards know of it, whichever agents wrote it."""
        for member in self._members:
            assert member.recovered is not None
            for name, end in member.recovered.ends.items():
                self._ends[name] = max(end, self._ends.get(name, 0))
        if self._options.archive.keep:
            cut_files(self._files.within("archive"), self._ends)

    def _agreed_options(self) -> Options:
        """The options of this run, with the seeds of all runs that their scope is relative to."""
        options = self._options
        for member in self._members:
            assert member.recovered is not None
            for encoded in member.recovered.options:
                options = with_seeds(options, decode_options(encoded), options.near)
        return with_seeds(options, options, self._seeds)

    def _all_cursors(self) -> dict[int, dict[int, int]]:
        """Of all shards as they recovered: receiver to sender to cursor."""
        found: dict[int, dict[int, int]] = {}
        for member in self._members:
            assert member.recovered is not None
            found.update(member.recovered.cursors)
        return found

    def _send_go(self, member: Member, cursors: Mapping[int, Mapping[int, int]], unclean: bool) -> None:
        assert member.recovered is not None
        own = [shard for shard, holder in self._holders.items() if holder == member.number]
        by_sender = {
            sender: {receiver: row[sender] for receiver, row in cursors.items() if sender in row}
            for sender in own
        }
        ends = dict(self._ends)
        for name, end in member.recovered.ends.items():
            ends[name] = max(end, ends.get(name, 0))
        member.send(
            Go(
                options=encode_options(self._options),
                seeds=self._seeds,
                cursors=by_sender,
                ends=ends,
                unclean=unclean,
            )
        )
        if self._paused:
            member.send(Pause(on=True))

    # -- what agents say

    async def _listen(self, member: Member, channel: Channel[FromAgent]) -> None:
        while (message := await channel.receive()) is not None:
            try:
                self._heed(member, message)
            except Exception as error:
                self._failure = self._failure or error
            self._changed.set()
        channel.close()
        if member.channel is channel:
            member.channel = None
            await self._gone(member)
        self._changed.set()

    def _heed(self, member: Member, message: FromAgent) -> None:
        if isinstance(message, Report):
            member.report, member.status = message, message.status
        elif isinstance(message, Recovered):
            member.recovered = message
        elif isinstance(message, Begun):
            member.begun, member.died = True, ""
            self._refused += [row for row in message.refused if row not in self._refused]
        elif isinstance(message, Ended):
            member.ended = True
            member.report = Report(status=message.status, idle=True, left=0)
            member.status = message.status
        elif isinstance(message, Failed):
            kind = getattr(errors, message.kind, LocalError)
            self._failure = self._failure or kind(f"agent {member.number}: {message.text}")
        elif isinstance(message, Told):
            self._told(message.text if len(self._members) == 1 else f"agent {member.number}: {message.text}")
        elif isinstance(message, Settled):
            member.settled = message
        elif isinstance(message, Wish):
            self._pool.wish(member.number)
        elif isinstance(message, Returned):
            self._pool.returned(member.number, message.pages)
        elif isinstance(message, Cursors):
            self._cursor_replies.setdefault(message.for_agent, []).append(message)
        elif isinstance(message, GoBack):
            self._members[self._holders[message.sender]].send(message)
        elif isinstance(message, Claim | Claimed | Release):
            self._pass_on(message)

    def _pass_on(self, message: Claim | Claimed | Release) -> None:
        """Turns of hosts, between two agents."""
        if isinstance(message, Claim):
            owner = self._members[self._holders[message.shard]]
            if not owner.running:
                self._members[message.by].send(Claimed(id=message.id, by=message.by, granted=False))
                return
            self._asked_claims[message.by, message.id] = owner.number
            self._claims[message.by, message.host] = message.shard
            owner.send(message)
        elif isinstance(message, Claimed):
            self._asked_claims.pop((message.by, message.id), None)
            self._members[message.by].send(message)
        else:
            self._claims.pop((message.by, message.host), None)
            self._members[self._holders[message.shard]].send(message)

    # -- an agent is gone

    async def _gone(self, member: Member) -> None:
        process = member.process
        assert process is not None
        code = await asyncio.to_thread(process.wait)
        if self._addresses is not None:
            self._addresses.release(member.number, time.monotonic())
        self._end_claims(member.number)
        if member.ended or self._failure is not None:
            return
        what = f"signal {-code}" if code < 0 else f"exit code {code}"
        if code:
            member.died = what
        if self._stopping:
            self._unclean = True
            member.ended = True
            if code:
                self._failure = LocalError(
                    f"agent {member.number} died while it ended ({what}): the same command goes on from here"
                )
            return
        soon = time.monotonic() - member.started < _SOON
        member.deaths = member.deaths + 1 if soon else 1
        if member.deaths >= _DEATHS or not self._opened:
            when = f"{_DEATHS} times in a row" if self._opened else "at its start"
            self._failure = LocalError(
                f"agent {member.number} died {when} ({what}):"
                f" the same command goes on from here; --agents 1 crawls in one process"
            )
            return
        self._told(f"agent {member.number} died ({what}): it is started again, the others go on")
        task = asyncio.create_task(self._restart(member))
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)

    async def _restart(self, member: Member) -> None:
        """Start an agent again; the others go on meanwhile."""
        try:
            await asyncio.sleep(_BACKOFF * 2 ** (member.deaths - 1))
            if self._stopping:
                member.ended = True
                self._unclean = True
                return
            await self._start(member)
            await self._until(lambda: member.recovered is not None or member.channel is None)
            if member.recovered is None:
                return
            self._pool.begin(member.number, member.recovered.fetched)
            cursors = await self._cursors_for(member)
            self._send_go(member, cursors, unclean=True)
        except LycosaError as error:
            self._failure = self._failure or error
            self._changed.set()

    async def _cursors_for(self, member: Member) -> dict[int, dict[int, int]]:
        """How far the shards of all agents have come in the logs of an agent that begins again."""
        others = [other for other in self._members if other is not member]
        await self._until(lambda: all(other.recovered is not None for other in others))
        # What an agent recovered is old but never too far on; what it says now spares some reading back.
        found: dict[int, dict[int, int]] = {}
        for other in others:
            if other.recovered is not None:
                found.update(other.recovered.cursors)
        self._cursor_replies[member.number] = []
        own = [shard for shard, holder in self._holders.items() if holder == member.number]
        asked = [other for other in others if other.running]
        for other in asked:
            other.send(TellCursors(for_agent=member.number, senders=own))
        await self._until(
            lambda: (
                len(self._cursor_replies[member.number])
                >= sum(1 for other in asked if other.channel is not None)
            )
        )
        for reply in self._cursor_replies.pop(member.number):
            found.update(reply.cursors)
        return found

    def _end_claims(self, agent: int) -> None:
        """Turns that a dead agent had are over; those that it was asked for are refused."""
        ready = time.monotonic() + self._options.politeness.wait
        for by, host in [key for key in self._claims if key[0] == agent]:
            shard = self._claims.pop((by, host))
            self._members[self._holders[shard]].send(Release(by=by, shard=shard, host=host, ready=ready))
        for asker, number in [key for key, owner in self._asked_claims.items() if owner == agent]:
            del self._asked_claims[asker, number]
            self._members[asker].send(Claimed(id=number, by=asker, granted=False))

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
        for member in self._members:
            if member.died:
                raise LocalError(
                    f"agent {member.number} died ({member.died}) before the end ({end}):"
                    f" nothing that was committed is lost, the same command goes on from here"
                )
        if clean:
            self._files.remove(RUNNING)
            self._files.sync_dir("")
        return end

    async def _watch(self) -> End:
        while True:
            if self._failure is not None:
                raise self._failure
            if self._stopped:
                return End.STOPPED
            if self._reached():
                return End.LIMIT
            self._ration()
            if self._all_settled():
                return End.FINISHED
            await self._wait_change(_TICK)

    def _reached(self) -> bool:
        limits = self._options.limits
        # A process that died counted pages that it had not committed: wait for what the next one says.
        if all(member.running and member.report is not None for member in self._members):
            continuous = self._options.refresh.continuous  # then what there is is come back to
            if limits.pages and not continuous and self._sum("pages") >= limits.pages:
                return True
            if limits.bytes and self._sum("bytes") >= limits.bytes:
                return True
        return bool(limits.seconds) and time.monotonic() - self._began >= limits.seconds

    def _sum(self, name: str) -> int:
        return sum(getattr(status, name) for status in self._statuses())

    def _ration(self) -> None:
        for agent, pages in self._pool.grants():
            self._members[agent].send(Grant(pages=pages))
        left = [(m.number, m.report.left) for m in self._members if m.running and m.report is not None]
        for agent in self._pool.idle_with(left):
            self._members[agent].send(Recall())

    def _all_settled(self) -> bool:
        """Whether every agent is idle and everything written was read, twice in a row without an append."""
        members = self._members
        if not all(m.running and m.report is not None and m.report.idle for m in members):
            self._last_round = None
            return False
        answers = [m.settled for m in members if m.settled is not None and m.settled.round == self._round]
        if len(answers) == len(members) and self._judged < self._round:
            self._judged = self._round
            appended = [answer.appended for answer in answers]
            quiet = all_quiet(answers)
            if quiet and appended == self._last_round:
                return True
            self._last_round = appended if quiet else None
        since = time.monotonic() - self._round_at
        if since >= (_ROUND if self._judged == self._round else _LOST):
            self._round_at = time.monotonic()
            self._round += 1
            for member in members:
                member.send(Settle(round=self._round))
        return False

    async def _end_all(self) -> bool:
        """Stop every agent; whether all ended cleanly."""
        self._stopping = True
        for task in list(self._restarts):
            task.cancel()
        for member in self._members:
            member.send(Stop())
        deadline = time.monotonic() + _STOPPING
        while any(member.channel is not None for member in self._members) and time.monotonic() < deadline:
            await self._wait_change(_TICK)
        clean = not self._unclean_end()
        for member in self._members:
            if member.process is not None and member.process.poll() is None:
                if member.channel is not None:
                    clean = False
                    member.process.kill()
                await asyncio.to_thread(member.process.wait)
        for member in self._members:
            if member.listener is not None:
                await asyncio.wait([member.listener])
        if self._addresses is not None:
            self._addresses.close()
            self._addresses = None
        return clean and self._failure is None

    def _unclean_end(self) -> bool:
        return any(not member.ended or member.report is None for member in self._members) or any(
            member.process is not None and member.process.returncode not in (None, 0)
            for member in self._members
        )

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():
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
        self._pause(True)

    def go_on(self) -> None:
        self._pause(False)

    def _pause(self, on: bool) -> None:
        self._paused = on
        for member in self._members:
            member.send(Pause(on=on))

    @property
    def refused_seeds(self) -> list[tuple[str, str]]:
        return self._refused

    def read_meters(self) -> dict[str, float]:
        return merged_meters([status.meters for status in self._statuses()])

    def _statuses(self) -> list[Status]:
        return [member.status for member in self._members if member.status is not None]

    @property
    def processes(self) -> list[int]:
        """The numbers of the agents' processes."""
        return [member.process.pid for member in self._members if member.process is not None]

    def status(self, state: str, limit: int) -> Status:
        """All agents as one crawl."""
        return merged(
            self._statuses(),
            at=time.time(),
            pid=os.getpid(),
            state=state,
            elapsed=time.monotonic() - self._began,
            pages_before=self.pages_before,
            rss=resident(),
            memory_limit=limit,
            page_limit=self._options.limits.pages,
            errors_before=self._before.errors if self._before else {},
        )


def _spawn(channel: int, lock: int) -> subprocess.Popen[bytes]:
    """A process that is an agent; what it has to say beyond the channel (a traceback) goes to standard error."""
    return subprocess.Popen(
        [sys.executable, "-m", "lycosa.cluster.process", str(channel)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(channel, lock),
    )


def all_quiet(answers: Sequence[Settled]) -> bool:
    """Whether every agent is idle and has read all that the others wrote to it."""
    return all(answer.idle for answer in answers) and all(
        answers[sender].ends.get(receiver) == answers[receiver].reads.get(sender)
        for sender in range(len(answers))
        for receiver in range(len(answers))
        if sender != receiver
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
