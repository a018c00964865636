"""A member of a cluster: one agent process, from its connection to its good-bye. The cluster's composition root.

`Member.run` connects, builds an agent that has no shards yet, and then

- says that it lives, and sees who else does; computes which shards should be whose (`placement`), takes those that
  are free and its own, hands over those that should be another's;
- renews its leases; stops asking sites at 0.8 of a lease without a renewal, breaks off what is under way at 0.9,
  and lets the shard go at its end;
- saves: checkpoints every so often, and at every hand-over;
- reports on its shards; and, if it holds shard 0, watches over the end and the limits of the crawl.

It ends when the crawl is finished, at its limit or stopped, or when it is told to `leave`: all shards are handed
over first. What fails in between (a disk, a damaged stream) ends it with that error; its leases are given back.

What it has of the world around it comes in from outside: the engine (one connection; it listens nowhere), and its
machine with clock, disk and network. So a whole cluster can run in one process, on a virtual clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec

from lycosa.clock import Clock
from lycosa.cluster.control import About, Control, Ending, Report, State, Totals, Wanted
from lycosa.cluster.courier import Courier
from lycosa.cluster.foreign import Foreign
from lycosa.cluster.held import Held, Holder
from lycosa.cluster.host_turns import HostAsker, HostKeeper
from lycosa.cluster.lease import plan
from lycosa.cluster.leases import Gone, Leases, Presence, Said
from lycosa.cluster.losses import since_checkpoint, valid_ends
from lycosa.cluster.machine import Machine
from lycosa.cluster.names import exchange_of, log_of
from lycosa.cluster.operating import manifest_of
from lycosa.cluster.outcomes import Damaged
from lycosa.cluster.placement import place
from lycosa.cluster.rations import Rations
from lycosa.cluster.storage import Away, Missing, ShardStorage, Storage
from lycosa.cluster.storage.opening import OpenStorage, open_storage
from lycosa.cluster.streaming import StreamExchange
from lycosa.cluster.tasks import end_tasks
from lycosa.cluster.turns import Turn, TurnAsker, TurnKeeper
from lycosa.crawl import manifest as manifests
from lycosa.crawl.agent import Team, build
from lycosa.crawl.config import decode_options
from lycosa.crawl.splitting import Splitter
from lycosa.crawl.status import resident
from lycosa.engine.protocol import Engine, Unavailable, got
from lycosa.errors import ConfigError
from lycosa.files import Files, write_whole
from lycosa.log.reader import LogReader
from lycosa.meters import Meters
from lycosa.version import VERSION

_REPORT = 0.5
_NEWS = 2.0
"""Seconds between two reports that differ in numbers only; what matters for the end is told at once."""
_STALE = 10.0
"""A report is written again after so many seconds, whether or not anything changed."""
_PATIENCE = 0.3
"""Seconds after which an address whose turn somebody has is asked for again."""
_TIDY = 10.0
_STORAGE = 5.0
"""Seconds after which shared storage that was away is tried again."""
_START = 60.0
"""Seconds that servers which are there, but do not answer, are waited for at the start."""
T = TypeVar("T")


class TurnAddresses:
    """Turns of addresses, asked of whoever keeps them; `lycosa.crawl.visit.Addresses`."""

    def __init__(self, asker: TurnAsker, clock: Clock, expiry: float) -> None:
        self._asker = asker
        self._clock = clock
        self._expiry = expiry
        self._turns: dict[str, Turn] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def begin(self, address: str, now: float) -> float:
        turn = await self._asker.ask(address)
        if isinstance(turn, Turn):
            self._turns[address] = turn
            return 0.0
        return self._clock.monotonic() + min(turn.seconds, _PATIENCE)

    def end(self, address: str, now: float) -> None:
        turn = self._turns.pop(address, None)
        if turn is not None:
            task = asyncio.ensure_future(self._asker.give_back(turn))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def has(self, address: str) -> bool:
        """Whether our turn lasts for another request."""
        turn = self._turns.get(address)
        return turn is not None and self._clock.monotonic() < turn.until - self._expiry / 4

    async def renew(self) -> None:
        """Turns of long visits go on."""
        now = self._clock.monotonic()
        late = [turn for turn in self._turns.values() if turn.until - now < self._expiry / 2]
        await asyncio.gather(*(self._asker.renew(turn) for turn in late))


def _demand_consent(wanted: str, allowed: str) -> None:
    """Refuse a scorer, which is code, that the operator of this machine has not named."""
    if wanted and wanted != allowed:
        raise ConfigError(
            f"the crawl wants to run code on this machine, the scorer {wanted!r}: if that is meant, "
            f"start the agent with --scorer {wanted}"
        )


def _demand_own(storage: Storage, place: str, crawl: str, about: About) -> None:
    """Refuse shared storage that holds nothing of the crawl, or a crawl of the same name."""
    try:
        found = msgspec.json.decode(storage.get(f"{crawl}/crawl.json"), type=About).crawl
    except (Missing, msgspec.MsgspecError, UnicodeDecodeError):
        found = ""
    if found != about.crawl:
        raise ConfigError(
            f"{place} is not the shared storage of {crawl}: mount it, or say where it is (--shared)"
        )


class Member:
    """One agent of a cluster."""

    def __init__(
        self,
        reach: Callable[[str], Awaitable[Engine]],
        machine: Machine,
        *,
        storage: OpenStorage = open_storage,
        shared: str = "",
        name: str = "",
        scorer: str = "",
        told: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`reach`: connect to the engine of the crawl, under our name. `storage`: opens shared storage; `shared`:
        where that is, if elsewhere than the crawl says. `scorer`: the one that this agent consents to load, should
        the options of the crawl name it. They lie on the servers, and whoever can write there must not be able to
        run code here."""
        self._reach = reach
        self._machine = machine
        self._open_storage = storage
        self._shared = shared
        self._scorer = scorer
        self._told = told
        word = re.sub(r"[^A-Za-z0-9_]+", "_", name or socket.gethostname())[:24].strip("_") or "agent"
        self.id = f"{word}_{machine.token(3)}"
        self._clock = machine.clock
        self._leaving = asyncio.Event()
        self._state = State()
        self._moving: dict[int, asyncio.Task[None]] = {}
        self._renewing: dict[int, asyncio.Task[None]] = {}
        self._cutting: set[asyncio.Task[None]] = set()
        self._seen: set[str] = set()
        self._reported: dict[int, tuple[Report, float]] = {}
        self._failure: BaseException | None = None
        self._storage_away = False
        self._saved_at = self._brought_at = self._tidied_at = 0.0

    def leave(self) -> bool:
        """Hand everything over and end; False if that was asked before."""
        first = not self._leaving.is_set()
        self._leaving.set()
        return first

    async def run(self) -> str:
        """Be an agent of the crawl until it ends, or until told to leave; why it ended."""
        engine = await self._reach(self.id)
        try:
            return await self._serve(engine)
        except Unavailable:
            if not self._leaving.is_set():
                raise
            return "left; others go on"  # before it had begun, or while the servers were away
        finally:
            await engine.close()

    # -- putting it together

    async def _serve(self, engine: Engine) -> str:
        self._engine = engine
        self._foreign = foreign = Foreign(self._told)
        self._control = control = Control(engine, self._clock, foreign)
        self._about = about = await self._patiently(control.about)
        self._state = await self._patiently(control.state)
        if self._state.finished:
            return f"the crawl is over ({self._state.end})"
        place = self._shared or about.storage
        storage = await self._patiently(lambda: asyncio.to_thread(self._open_storage, place, engine.crawl))
        try:
            await self._patiently(lambda: asyncio.to_thread(_demand_own, storage, place, engine.crawl, about))
            return await self._crawl(engine, storage)
        finally:
            await asyncio.to_thread(storage.close)

    async def _crawl(self, engine: Engine, storage: Storage) -> str:
        bucket, requests, crawl = engine.bucket, engine.requests, engine.crawl
        control, foreign, about = self._control, self._foreign, self._about
        machine = self._machine
        await machine.begin()
        try:
            suffixes = await self._patiently(
                lambda: asyncio.to_thread(storage.get, f"{crawl}/public_suffix.dat")
            )
            files = self._prepare(about, suffixes)
            options = decode_options(self._state.options.encode())
            _demand_consent(options.frontier.scorer, self._scorer)
            # Only when everything else is in order: it may take a while.
            await asyncio.to_thread(machine.warm, options)
            clock, meters = self._clock, Meters()
            self._leases = Leases(bucket, self.id, about.lease, clock)
            self._presence = Presence(bucket, self.id, about.lease, clock, foreign)
            self._watch = bucket.watch("state")
            self._turns = TurnKeeper(
                requests,
                clock,
                expiry=about.lease,
                wait=options.politeness.address_wait,
                foreign=foreign,
            )
            self._hosts = HostKeeper(
                requests,
                clock,
                expiry=max(60.0, about.lease),
                wait=options.politeness.wait,
                foreign=foreign,
            )
            asker = TurnAsker(requests, about.shards, clock, token=lambda: machine.token(8))
            self._addresses = TurnAddresses(asker, clock, about.lease)
            self._rations = Rations(control, options.limits.pages, clock)
            self._exchange = StreamExchange(fail=self._fail)
            self._ending = Ending(about.shards)
            splitter = Splitter(about.shards, manifests.domains_of(files), about.splitter)
            self._holder = holder = Holder(
                engine=engine,
                files=files,
                remove=machine.remove,
                storage=storage,
                leases=self._leases,
                exchange=self._exchange,
                turns=self._turns,
                hosts=self._hosts,
                rations=self._rations,
                clock=clock,
                shards=about.shards,
                segment_bytes=about.segment_bytes,
                refresh=self._refresh,
                told=self._told,
                foreign=foreign,
            )
            team = Team(
                name=self.id,
                owned=[],
                size=1,
                exchange=self._exchange,
                addresses=self._addresses,
                hosts=HostAsker(requests, splitter.shard_of, clock, token=lambda: machine.token(8)),
                quota=self._rations,
                ledger=holder,
                may_ask=self._may_ask,
                segment_bytes=about.segment_bytes,
                random=lambda size: bytes.fromhex(machine.token(size)),
            )
            self._agent = agent = build(
                files,
                options,
                clock=clock,
                fetchers=machine.fetchers,
                resolver=machine.resolver,
                meters=meters,
                told=self._told,
                team=team,
            )
            self._storage = storage
            self._courier = courier = Courier(
                agent.archive, files.within("archive"), storage, crawl, self._valid_ends
            )
            holder.begin(agent, courier)
            await courier.doubt_all()  # what an earlier process left here
            agent.begin([], {}, unclean=False)
            await self._patiently(courier.bring)
            return await self._live()
        finally:
            machine.end()

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again while the servers do not answer: they may be choosing a leader."""
        until = self._clock.monotonic() + _START
        while True:
            try:
                return await ask()
            except Damaged:
                raise
            except Unavailable:
                if why := self._engine.denied:
                    raise ConfigError(f"{why}: see the permissions in docs/operating.md") from None
                if self._leaving.is_set() or self._clock.monotonic() > until:
                    raise
                await self._clock.sleep(0.5)

    def _prepare(self, about: About, suffixes: bytes) -> Files:
        """The work directory as that of this crawl; what another left there is refused."""
        files = self._machine.files
        manifest = manifest_of(about)
        there = manifests.load(files)
        if there is not None and there.crawl != manifest.crawl:
            raise ConfigError(f"{files.path('')} holds another crawl: give each its own --work directory")
        if there is None:
            write_whole(files, manifests.SUFFIXES, suffixes)
            write_whole(files, manifests.NAME, msgspec.json.format(msgspec.json.encode(manifest)))
        return files

    def _may_ask(self, shard: int, address: str) -> bool:
        """Whether a shard's hosts may be asked now: lease and address; pages, if no visit has begun."""
        if not self._holder.may_fetch(shard):
            return False
        return self._addresses.has(address) if address else self._rations.may(shard)

    # -- the run

    async def _live(self) -> str:
        self._machine.watch(self._agent.underway)
        running = asyncio.create_task(self._agent.run())
        beside = [
            asyncio.create_task(self._forever(step, pause))
            for step, pause in (
                (self._follow_leases, 0.0),
                (self._follow_presence, 0.0),
                (self._follow_state, 0.0),
                (self._beat, self._about.lease / 4),
                (self._lease_step, min(self._about.lease / 20, 0.25)),
                # By itself: it waits for answers, and leases must be looked at whether or not there are any.
                (self._addresses.renew, min(self._about.lease / 20, 0.25)),
                (self._place_step, min(self._about.lease / 10, 0.5)),
                (self._report, _REPORT),
                (self._look_for_end, _REPORT),
                (self._tend, 0.02),
                (self._save_step, 0.5),
            )
        ]
        self._saved_at = self._brought_at = self._tidied_at = self._clock.monotonic()
        try:
            end = await self._until_end(running)
        finally:
            await self._wind_up(running, beside)
        if self._failure is not None:
            raise self._failure
        return end

    async def _until_end(self, running: asyncio.Task[object]) -> str:
        """Until the crawl is over, or we are to leave, and nothing is held any more."""
        waited = False
        was_running = self._state.wanted is not Wanted.STOPPED
        while True:
            if running.done():
                running.result()
                return "stopped"
            if self._failure is not None:
                raise self._failure
            why = self._why_end(was_running)
            if why and not self._holder.held and not self._moving:
                return why
            if self._state.wanted is not Wanted.STOPPED:
                was_running = True
                waited = True
            elif not waited and not why:
                waited = True
                self._told(f"waiting: lycosa cluster start {self._engine.crawl} begins the crawl")
            if self._state.wanted is Wanted.PAUSED:
                self._agent.pause()
            else:
                self._agent.go_on()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(running), 0.1)

    def _why_end(self, was_running: bool) -> str:
        if self._leaving.is_set():
            return "left; others go on"
        if self._state.finished:
            return f"the crawl is over ({self._state.end})"
        if self._state.wanted is Wanted.STOPPED and was_running:
            return "the crawl was stopped"
        return ""

    async def _wind_up(self, running: asyncio.Task[object], beside: list[asyncio.Task[None]]) -> None:
        await end_tasks([*beside, *self._moving.values(), *self._renewing.values(), *self._cutting])
        for number in list(self._holder.held):
            # Only after a failure: what is committed is safe, the rest is fetched again by the next holder.
            with contextlib.suppress(Exception):
                await self._holder.let_go(number)
        self._agent.stop()
        try:
            await running
        except Exception as error:
            self._failure = self._failure or error
        with contextlib.suppress(Unavailable):
            await self._presence.leave()
        await self._presence.close()
        await self._leases.close()
        await self._watch.close()

    async def _forever(self, step: Callable[[], Awaitable[None]], pause: float) -> None:
        while True:
            try:
                await step()
            except Unavailable:
                await self._clock.sleep(0.2)
            except Exception as error:
                self._fail(error)
                return
            await self._clock.sleep(pause)

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error

    # -- seeing

    async def _follow_leases(self) -> None:
        await self._leases.follow(1.0)
        self._seen.add("leases")

    async def _follow_presence(self) -> None:
        await self._presence.follow(1.0)
        self._seen.add("presence")

    async def _follow_state(self) -> None:
        for entry in got(await self._watch.next(1.0)):
            if entry.value is not None:
                with contextlib.suppress(Damaged):  # what was known holds until it can be read again
                    self._note_state(self._control.read_state(entry.value))

    def _note_state(self, state: State) -> None:
        before = self._state
        if state.options != before.options:
            try:
                options = decode_options(state.options.encode())
            except ConfigError as error:
                self._foreign.note("the key state", f"names options that cannot be read ({error})")
                return
            self._agent.reconfigure(options)
        self._state = state

    async def _refresh(self) -> None:
        """Look at the crawl's options now: whoever gave seeds changed them first."""
        with contextlib.suppress(Unavailable):
            self._note_state(await self._control.state())

    async def _beat(self) -> None:
        said = Said(
            at=self._clock.wall(),
            host=socket.gethostname(),
            pid=os.getpid(),
            version=VERSION,
            rss=resident(),
            visits=int(self._agent.meters.read().get("visits.active", 0)),
            foreign=self._foreign.count,
        )
        if not self._leaving.is_set():
            await self._presence.beat(msgspec.json.encode(said))

    # -- holding

    async def _lease_step(self) -> None:
        now = self._clock.monotonic()
        for number, held in list(self._holder.held.items()):
            holding = held.holding
            if number not in self._moving and (held.failed or not holding.may_write(now)):
                self._move(number, self._holder.let_go(number))
            elif not holding.must_cut(now):
                held.cut = False
            elif not held.cut:
                held.cut = True
                task = asyncio.create_task(self._agent.cut_visits(number))
                self._cutting.add(task)
                task.add_done_callback(self._cutting.discard)
            if holding.renew_due(now) and number in self._leases.held and number not in self._renewing:
                task = asyncio.create_task(self._renew(held))
                self._renewing[number] = task
        self._hosts.end_late()

    async def _renew(self, held: Held) -> None:
        try:
            if not await self._leases.renew(held.number):
                held.failed = True
        except (Unavailable, KeyError):
            return  # the next step tries again, while the lease lasts
        finally:
            self._renewing.pop(held.number, None)

    async def _place_step(self) -> None:
        if self._seen < {"leases", "presence"}:
            return
        if self._why_end(True):
            if self._leaving.is_set():
                await self._presence.leave()
            for number, held in list(self._holder.held.items()):
                if number not in self._moving and held.shard is not None:
                    self._move(number, self._holder.hand_over(number, ending=not self._leaving.is_set()))
            return
        agents = {*self._presence.alive(), self.id}
        holders = {n: who for n in range(self._about.shards) if (who := self._leases.holder_of(n))}
        placed = place(self._about.shards, agents, holders)
        await self._notice_silence(placed)
        seen = {number: self._leases.seen(number) for number in placed}
        ready = [number for number, held in self._holder.held.items() if held.shard is not None]
        todo = plan(self.id, self._about.lease, placed, seen, self._holder.held, self._clock.monotonic())
        for number, _ in todo.take:
            if number not in self._moving:
                self._move(number, self._take(number))
        for number in todo.hand_over:
            if number not in self._moving and number in ready:
                self._move(number, self._holder.hand_over(number))

    async def _notice_silence(self, placed: Mapping[int, str]) -> None:
        """Say of agents that nobody hears any more where their shards go, once; and leave word for the status."""
        for agent, seconds in self._presence.fallen_silent():
            shards = [n for n in range(self._about.shards) if self._leases.last_holder_of(n) == agent]
            gone = Gone(at=self._clock.wall(), silent=seconds, shards={n: placed.get(n, "") for n in shards})
            if await self._presence.bury(agent, gone):
                self._told(f"agent {agent} has not been heard of for {seconds:.0f} s; {gone.said()}")

    async def _take(self, number: int) -> None:
        await self._holder.take(number)

    def _move(self, number: int, work: Awaitable[None]) -> None:
        """A shard is on its way: one step at a time."""

        async def go() -> None:
            try:
                await work
            except Unavailable:
                return  # the next look tries again
            except Exception as error:
                self._fail(error)
            finally:
                self._moving.pop(number, None)

        self._moving[number] = asyncio.create_task(go())

    # -- saving

    async def _save_step(self) -> None:
        try:
            await self._save_what_is_due()
            self._storage_away = False
        except Away as away:
            if not self._storage_away:
                self._told(f"{away}: the crawl goes on, and is saved when shared storage is back")
            self._storage_away = True
            await self._clock.sleep(_STORAGE)

    async def _save_what_is_due(self) -> None:
        now = self._clock.monotonic()
        wanted = self._agent.options.snapshot
        since = now - self._saved_at
        records = sum(held.shard.log.end - held.saved for held in self._holder.held.values() if held.shard)
        if records >= wanted.records or (since >= wanted.seconds and records > 0):
            await self._holder.save()
            self._saved_at = self._brought_at = self._clock.monotonic()
            return
        waiting = await asyncio.to_thread(self._courier.waiting)
        late = now - self._brought_at >= wanted.archive_seconds
        if waiting >= wanted.archive_bytes or (late and waiting):
            await self._holder.bring()
            self._brought_at = self._clock.monotonic()
        elif late:
            self._brought_at = now  # nothing was fetched: the time begins with the next page
        if now - self._tidied_at >= _TIDY:
            await self._holder.tidy()
            self._tidied_at = self._clock.monotonic()

    async def _valid_ends(self) -> Mapping[str, int]:
        """Of every archive file that a log points into after its checkpoint: how far it is valid."""
        found: dict[str, int] = {}
        for number in range(self._about.shards):
            storage = ShardStorage(self._storage, self._engine.crawl, number)
            held = self._holder.held.get(number)
            if held is not None and held.shard is not None and not held.failed:
                reader = LogReader(held.shard.log.reader.files)
                rows = await asyncio.to_thread(list, reader.scan(held.saved))
            else:
                rows = await since_checkpoint(self._engine.stream(log_of(number)), storage)
            for name, end in valid_ends(rows).items():
                found[name] = max(end, found.get(name, 0))
        return found

    # -- pages, reports, the end

    async def _tend(self) -> None:
        if await self._rations.tend():
            self._agent.wake()

    async def _report(self) -> None:
        now = self._clock.monotonic()
        for number in self._reported.keys() - self._holder.held.keys():
            del self._reported[number]
        for held in list(self._holder.held.values()):
            if held.shard is None or held.failed or held.closing:
                continue
            report = self._report_on(held)
            before, at = self._reported.get(held.number, (None, 0.0))
            news = before is None or (_differs(report, before) and now - at >= _NEWS)
            if news or now - at >= _STALE or (before is not None and _matters(report, before)):
                self._reported[held.number] = (report, now)
                await self._control.report(report)

    def _report_on(self, held: Held) -> Report:
        shard, number = held.shard, held.number
        assert shard is not None
        totals = shard.totals
        committed = shard.log.committed == shard.log.end
        return Report(
            shard=number,
            agent=self.id,
            epoch=held.holding.epoch,
            round=self._state.round,
            end=shard.log.end,
            committed=shard.log.committed,
            received=self._exchange.received(number),
            sent=self._exchange.sent(number),
            idle=committed and self._exchange.is_quiet(number) and self._agent.is_idle(shard),
            totals=Totals(
                at=self._clock.wall(),
                pages=totals.fetched,
                bytes=totals.size,
                links=totals.links,
                duplicates=totals.duplicates,
                lost=totals.lost,
                statuses={f"{kind}xx": n for kind, n in sorted(totals.statuses.items()) if n},
                skipped=dict(sorted(totals.skipped.items())),
                pending=shard.frontier.pending,
                left_behind=len(shard.left),
                deferred=len(shard.calendar),
                visits=self._agent.visits_of(number),
                rate=held.pace.add(self._clock.monotonic(), totals.fetched),
            ),
        )

    async def _look_for_end(self) -> None:
        """The holder of shard 0 watches over the end, and the limits."""
        held = self._holder.held.get(0)
        if (
            held is None
            or held.shard is None
            or self._state.finished
            or self._state.wanted is not Wanted.RUNNING
        ):
            return
        limits = self._agent.options.limits
        limited = limits.pages or limits.bytes or limits.seconds
        if not limited and not all(each.idle for each, _ in self._reported.values()):
            self._ending.look(
                {}, {}, self._state.round
            )  # not even ours are idle: the others need not be asked
            return
        state = await self._control.state()
        reports = {n: row for n, row in (await self._control.reports()).items() if n < self._about.shards}
        if self._limit_reached(reports, state):
            await self._control.finish("limit", state.round)
            return
        if len(reports) < self._about.shards or not all(each.idle for each in reports.values()):
            self._ending.look({}, {}, state.round)
            return
        last = await asyncio.gather(
            *(self._engine.stream(exchange_of(number)).ends() for number in range(self._about.shards))
        )
        ends = {number: got(row).last for number, row in enumerate(last)}
        verdict = self._ending.look(reports, ends, state.round)
        if verdict.over:
            await self._control.finish("finished", state.round)
        elif verdict.round > state.round:
            self._note_state(await self._control.next_round(verdict.round))

    def _limit_reached(self, reports: Mapping[int, Report], state: State) -> bool:
        limits = self._agent.options.limits
        if limits.seconds and state.since and self._clock.wall() - state.since / 1000 >= limits.seconds:
            return True
        rows = list(reports.values())
        if limits.bytes and sum(row.totals.bytes for row in rows) >= limits.bytes:
            return True
        pages = sum(row.totals.pages for row in rows)
        # What is not committed could still be lost, and its page be fetched again.
        return bool(limits.pages) and pages >= limits.pages and all(row.end == row.committed for row in rows)


def _matters(report: Report, before: Report) -> bool:
    """Whether the end of the crawl may hang on what is new."""
    if (report.epoch, report.round, report.idle) != (before.epoch, before.round, before.idle):
        return True
    return report.idle and _differs(report, before)


def _differs(report: Report, before: Report) -> bool:
    """Whether a report says anything new but the time."""
    plain = msgspec.structs.replace
    numbers = plain(report.totals, at=before.totals.at, rate=before.totals.rate)
    return plain(report, totals=numbers) != before
