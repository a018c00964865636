"""An agent's time in a crawl of a cluster, from its first lease to its departure. The cluster's composition root.

`Membership` builds an agent that has no shards yet, and then

- announces itself, and observes which other agents are alive; computes which agent should have which shard
  (`placement`), takes its own shards that are free, and hands over those that should be another's;
- renews its leases; stops asking sites, and breaks off what is under way, at 0.8 of a lease without a renewal,
  and lets the shard go at its end;
- saves: periodic checkpoints, and one at every hand-over;
- reports on its shards; and, if it holds shard 0, watches over the end and the limits of the crawl (`reports`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec

from lycosa.cluster.control import About, Control, State, Wanted
from lycosa.cluster.foreign import Foreign
from lycosa.cluster.held import Event, Held, HeldShards, Holder, Stage
from lycosa.cluster.keeping import Home
from lycosa.cluster.lease import plan
from lycosa.cluster.leases import Gone, Leases, Presence, Said
from lycosa.cluster.machine import Machine
from lycosa.cluster.outcomes import Damaged
from lycosa.cluster.placement import place
from lycosa.cluster.rations import Rations
from lycosa.cluster.reports import ShardReporter
from lycosa.cluster.saves import Saves
from lycosa.cluster.streaming import StreamExchange
from lycosa.cluster.tasks import end_tasks
from lycosa.cluster.turns import TurnAddresses, TurnAsker, TurnHosts, TurnKeeper, of_addresses, of_hosts
from lycosa.crawl import manifest as manifests
from lycosa.crawl.agent import Team, build
from lycosa.crawl.config import Options, decode_options
from lycosa.crawl.splitting import Splitter
from lycosa.crawl.status import resident
from lycosa.engine.protocol import Engine, Unavailable, got
from lycosa.errors import ConfigError
from lycosa.meters import Meters
from lycosa.version import VERSION

LEFT = "left; others go on"


class Membership:
    """An agent of a crawl; see the module."""

    def __init__(
        self,
        *,
        me: str,
        engine: Engine,
        control: Control,
        foreign: Foreign,
        about: About,
        state: State,
        options: Options,
        home: Home,
        machine: Machine,
        leaving: asyncio.Event,
        told: Callable[[str], None],
        noted: Callable[[str], None],
        holding: Callable[[list[int]], None],
    ) -> None:
        """`leaving`: set when everything is to be handed over. `noted` is called with news of shards, `holding`
        with the held ones."""
        bucket, requests, clock, files = engine.bucket, engine.requests, machine.clock, machine.files
        self.id = me
        self._engine = engine
        self._control = control
        self._foreign = foreign
        self._about = about
        self._state = state
        self._machine = machine
        self._clock = clock
        self._leaving = leaving
        self._told = told
        self._noted = noted
        self._holding = holding
        self._moving: dict[int, asyncio.Task[None]] = {}
        self._renewing: dict[int, asyncio.Task[None]] = {}
        self._cutting: dict[asyncio.Task[None], None] = {}
        self._seen: set[str] = set()
        self._failure: BaseException | None = None

        self._leases = Leases(bucket, me, about.lease, clock)
        self._presence = Presence(bucket, me, about.lease, clock, foreign)
        self._watch = bucket.watch("state")
        self._turns = TurnKeeper(
            requests,
            clock,
            expiry=about.turn,
            wait=options.politeness.address_wait,
            host_wait=options.politeness.wait,
            foreign=foreign,
        )

        def asker(subject: Callable[[str], str]) -> TurnAsker:
            return TurnAsker(requests, subject, clock, token=lambda: machine.token(8))

        self._addresses = TurnAddresses(asker(of_addresses(about.shards)), clock, about.turn)
        self._rations = Rations(control, options.limits.pages, clock, 4 * about.look)
        exchange = StreamExchange(fail=self._fail)
        splitter = Splitter(about.shards, manifests.domains_of(files), about.splitter)
        self._held = held = HeldShards(clock, noted)
        team = Team(
            name=me,
            size=machine.agents,
            exchange=exchange,
            addresses=self._addresses,
            hosts=TurnHosts(asker(of_hosts(splitter.shard_of)), clock),
            quota=self._rations,
            ledger=held,
            may_ask=self._may_ask,
            segment_bytes=about.segment_bytes,
            random=lambda size: bytes.fromhex(machine.token(size)),
        )
        self.agent = agent = build(
            files,
            options,
            clock=clock,
            fetchers=machine.fetchers,
            resolver=machine.resolver,
            meters=Meters(),
            told=told,
            team=team,
        )
        self._keeping = home.keeping(
            engine=engine, about=about, machine=machine, archive=agent.archive, held=held
        )
        self._holder = Holder(
            held=held,
            agent=agent,
            keeping=self._keeping,
            engine=engine,
            leases=self._leases,
            exchange=exchange,
            turns=self._turns,
            rations=self._rations,
            clock=clock,
            about=about,
            refresh=self._refresh,
            closed=lambda held: self._reporter.last_word(held),
            told=noted,
            foreign=foreign,
        )
        self._saves = Saves(self._holder, self._keeping, lambda: agent.options.snapshot, clock, told)
        self._reporter = ShardReporter(
            me=me,
            engine=engine,
            control=control,
            about=about,
            held=held,
            agent=agent,
            exchange=exchange,
            clock=clock,
            state=lambda: self._state,
            noted=self._note_state,
            bring=self._holder.bring,
        )

    async def begin(self) -> None:
        """Called before anything is crawled; `bring` comes next."""
        self.agent.begin([], await self._keeping.begin(), unclean=False)

    async def bring(self) -> None:
        """Copy what an earlier process left here to where others find it."""
        await self._keeping.bring()

    @property
    def finished(self) -> bool:
        """Whether the crawl is over."""
        return self._state.finished

    def _may_ask(self, shard: int, address: str) -> bool:
        """Whether a shard's hosts may be asked now: checks lease and address; and pages, if no visit has begun."""
        if not self._held.may_fetch(shard):
            return False
        return self._addresses.has(address) if address else self._rations.may(shard)

    # -- the run

    async def run(self) -> str:
        """Crawl until it ends; returns the reason."""
        self._machine.watch(self.agent.underway)
        running = asyncio.create_task(self.agent.run())
        beside = [
            asyncio.create_task(self._forever(step, pause))
            for step, pause in (
                (self._follow_leases, 0.0),
                (self._follow_presence, 0.0),
                (self._follow_state, 0.0),
                (self._beat, self._about.lease / 4),
                (self._lease_step, min(self._about.lease / 20, self._about.pause(0.25))),
                # A task of its own: it waits for answers, and leases must be checked whether or not any come.
                (self._addresses.renew, min(self._about.lease / 20, self._about.pause(0.25))),
                (self._place_step, min(self._about.lease / 10, self._about.look)),
                (self._tell_held, self._about.look),
                (self._reporter.report, self._about.look),
                (self._reporter.look_for_end, self._about.look),
                (self._tend, 0.02),
                (self._saves.step, self._about.pause(0.5)),
            )
        ]
        try:
            end = await self._until_end(running)
        finally:
            await self._wind_up(running, beside)
        if self._failure is not None:
            raise self._failure
        return end

    async def _until_end(self, running: asyncio.Task[object]) -> str:
        """Return when the crawl is over, or we are to leave, and no shard is held any more."""
        waited = False
        was_running = self._state.wanted is not Wanted.STOPPED
        while True:
            if running.done():
                running.result()
                return "stopped"
            if self._failure is not None:
                raise self._failure
            why = self._why_end(was_running)
            if why and not self._held and not self._moving:
                return why
            if self._state.wanted is not Wanted.STOPPED:
                was_running = True
                waited = True
            elif not waited and not why:
                waited = True
                self._told(f"waiting: lycosa cluster start {self._engine.crawl} begins the crawl")
            self._heed()
            await asyncio.wait([running], timeout=self._about.pause(0.1))

    def _why_end(self, was_running: bool) -> str:
        if self._leaving.is_set():
            return LEFT
        if self._state.finished:
            return f"the crawl is over ({self._state.end})"
        if self._state.wanted is Wanted.STOPPED and was_running:
            return "the crawl was stopped"
        return ""

    async def _wind_up(self, running: asyncio.Task[object], beside: list[asyncio.Task[None]]) -> None:
        await end_tasks([*beside, *self._moving.values(), *self._renewing.values(), *self._cutting])
        for number in list(self._held):
            # Only after a failure: what is committed is safe, the next holder fetches the rest again.
            with contextlib.suppress(Exception):
                await self._holder.let_go(number)
        self._holding([])
        self.agent.stop()
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

    # -- observing

    def _patience(self, what: str) -> float:
        """Seconds to wait for news; few the first time, since nothing begins before."""
        return self._about.pause(1.0) if what in self._seen else 1.0

    async def _follow_leases(self) -> None:
        await self._leases.follow(self._patience("leases"))
        self._seen.add("leases")

    async def _follow_presence(self) -> None:
        await self._presence.follow(self._patience("presence"))
        self._seen.add("presence")

    async def _follow_state(self) -> None:
        for entry in got(await self._watch.next(self._about.pause(1.0))):
            if entry.value is not None:
                with contextlib.suppress(Damaged):  # the known state holds until it can be read again
                    self._note_state(self._control.read_state(entry.value))

    def _note_state(self, state: State) -> None:
        before = self._state
        if state.options != before.options:
            try:
                options = decode_options(state.options.encode())
            except ConfigError as error:
                self._foreign.note("the key state", f"names options that cannot be read ({error})")
                return
            self.agent.reconfigure(options)
        self._state = state
        self._heed()  # at once: the operator's pause takes effect when the act is in the logs

    def _heed(self) -> None:
        if self._state.wanted is Wanted.PAUSED:
            self.agent.pause()
        else:
            self.agent.go_on()

    async def _refresh(self) -> None:
        """Read the crawl's options now: adding seeds changes them first."""
        with contextlib.suppress(Unavailable):
            self._note_state(await self._control.state())

    async def _beat(self) -> None:
        said = Said(
            at=self._clock.wall(),
            host=socket.gethostname(),
            pid=os.getpid(),
            version=VERSION,
            rss=resident(),
            visits=len(self.agent.visits),
            foreign=self._foreign.count,
        )
        if not self._leaving.is_set():
            await self._presence.beat(msgspec.json.encode(said))

    # -- holding

    async def _lease_step(self) -> None:
        now = self._clock.monotonic()
        for number, held in list(self._held.items()):
            holding = held.holding
            if number not in self._moving and (held.refused or not holding.may_write(now)):
                self._move(number, partial(self._holder.let_go, number))
            elif holding.may_fetch(now):
                held.cut = False
            elif not held.cut:
                held.cut = True
                task = asyncio.create_task(self.agent.visits.cut(number))
                self._cutting[task] = None
                task.add_done_callback(lambda task: self._cutting.pop(task, None))
            if holding.renew_due(now) and number in self._leases.held and number not in self._renewing:
                task = asyncio.create_task(self._renew(held))
                self._renewing[number] = task
        self._turns.end_late()
        self._addresses.cut()

    async def _renew(self, held: Held) -> None:
        try:
            if not await self._leases.renew(held.number):
                held.on(Event.REFUSED)
        except (Unavailable, KeyError):
            return  # the next step tries again, while the lease lasts
        finally:
            self._renewing.pop(held.number, None)

    async def _tell_held(self) -> None:
        self._holding([held.number for held in self._held.crawling()])

    async def _place_step(self) -> None:
        while self._seen < {"leases", "presence"}:
            await self._clock.sleep(min(self._about.lease / 10, self._about.look, 0.5))
        over = bool(self._why_end(True))
        self.agent.visits.let_end(over)
        if over:
            if self._leaving.is_set():
                await self._presence.leave()
            for number, held in list(self._held.items()):
                if number not in self._moving and held.stage is Stage.CRAWLING:
                    ending = not self._leaving.is_set()
                    self._move(number, partial(self._holder.hand_over, number, ending=ending))
            return
        agents = {*self._presence.alive(), self.id}
        holders = {n: who for n in range(self._about.shards) if (who := self._leases.holder_of(n))}
        placed = place(self._about.shards, agents, holders)
        await self._notice_silence(placed)
        seen = {number: self._leases.seen(number) for number in placed}
        ready = [held.number for held in self._held.crawling()]
        todo = plan(self.id, self._about.lease, placed, seen, self._held, self._clock.monotonic())
        for number, _ in todo.take:
            if number not in self._moving:
                self._move(number, partial(self._holder.take, number))
        for number in todo.hand_over:
            if number not in self._moving and number in ready:
                self._move(number, partial(self._holder.hand_over, number))

    async def _notice_silence(self, placed: Mapping[int, str]) -> None:
        """Tell, once, where the shards of agents that fell silent go; and publish it for the status."""
        for agent, seconds in self._presence.fallen_silent():
            shards = [n for n in range(self._about.shards) if self._leases.last_holder_of(n) == agent]
            gone = Gone(at=self._clock.wall(), silent=seconds, shards={n: placed.get(n, "") for n in shards})
            if await self._presence.bury(agent, gone):
                self._noted(f"agent {agent} has not been heard of for {seconds:.0f} s; {gone.said()}")

    def _move(self, number: int, work: Callable[[], Awaitable[object]]) -> None:
        """Start moving a shard: one step at a time. Work is created inside its task, which may end before that."""

        async def go() -> None:
            try:
                await work()
            except Unavailable:
                return  # the next look tries again
            except Exception as error:
                self._fail(error)
            finally:
                self._moving.pop(number, None)

        self._moving[number] = asyncio.create_task(go())

    # -- pages, reports, the end

    async def _tend(self) -> None:
        if await self._rations.tend():
            self.agent.wake()
