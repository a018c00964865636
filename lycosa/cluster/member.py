"""A member of a cluster: one agent process, from its connection to its departure.

`Member.run` connects, finds out what the crawl is, opens its shared storage and its own work directory, and is then
an agent of the crawl (`membership`) until that ends, or until it is told to `leave`: all shards are handed over
first. A failure in between (a disk, a damaged stream) ends it with that error; its leases are released.

Its environment is passed in: the engine (one connection; it listens on no port), and its machine with clock, disk
and network. So a whole cluster can run in one process, on a virtual clock.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lycosa.cluster.control import About, Control, State
from lycosa.cluster.foreign import Foreign
from lycosa.cluster.keeping import Home
from lycosa.cluster.machine import Machine
from lycosa.cluster.membership import LEFT, Membership
from lycosa.cluster.outcomes import Damaged
from lycosa.crawl.agent import Agent
from lycosa.crawl.config import decode_options
from lycosa.engine.protocol import Engine, Unavailable
from lycosa.errors import ConfigError

_START = 60.0
"""Seconds to wait at the start for servers that exist but do not answer."""
T = TypeVar("T")


def _demand_consent(wanted: str, allowed: str | None) -> None:
    """Refuse a scorer, which is code, unless the operator of this machine has named it."""
    if wanted and allowed is not None and wanted != allowed:
        raise ConfigError(
            f"the crawl wants to run code on this machine, the scorer {wanted!r}: if that is meant, "
            f"start the agent with --scorer {wanted}"
        )


def _demand_own_browser(named: str, allowed: str | None) -> None:
    """Refuse a program that the crawl's options name; `allowed` None: the options are this machine's own."""
    if named and allowed is not None:
        raise ConfigError(
            f"the crawl wants to run a program on this machine, the browser {named!r}: agents of a cluster use"
            " the Chromium that their machine has; leave render.browser out"
        )


class Member:
    """One agent of a cluster."""

    def __init__(
        self,
        reach: Callable[[str], Awaitable[Engine]],
        machine: Machine,
        home: Home,
        *,
        name: str = "",
        own_name: bool = False,
        scorer: str | None = "",
        told: Callable[[str], None] = lambda _: None,
        noted: Callable[[str], None] | None = None,
        holding: Callable[[list[int]], None] = lambda _: None,
    ) -> None:
        """`reach`: connect to the engine of the crawl, under our name. `scorer`: the one that this agent consents
        to load, should the options of the crawl name it. The options are kept on the servers, and users who can
        write there must not be able to run code here; None: the options are our own. `own_name`: the name is
        unique, and its previous user is known to be dead. `noted` is called with news of shards, `told` with the
        rest; `holding`, repeatedly, with the shards that are held and crawled.
        """
        self._reach = reach
        self._machine = machine
        self._home = home
        self._scorer = scorer
        self._told = told
        self._noted = noted or told
        self._holding = holding
        self.finished = False
        """Whether the crawl was over when `run` ended."""
        word = re.sub(r"[^A-Za-z0-9_]+", "_", name or socket.gethostname())[:24].strip("_") or "agent"
        self.id = f"{word}_{machine.token(3)}" if not own_name else word
        self._clock = machine.clock
        self._leaving = asyncio.Event()
        self._membership: Membership | None = None

    def leave(self) -> bool:
        """Hand everything over and end; False if already requested."""
        first = not self._leaving.is_set()
        self._leaving.set()
        return first

    @property
    def agent(self) -> Agent | None:
        """The agent, once it has joined the crawl."""
        return None if self._membership is None else self._membership.agent

    async def run(self) -> str:
        """Be an agent of the crawl until it ends, or until told to leave; returns the reason."""
        engine = await self._reach(self.id)
        try:
            return await self._serve(engine)
        except Unavailable:
            if not self._leaving.is_set():
                raise
            return LEFT  # before it had begun, or while the servers were away
        finally:
            await engine.close()

    async def _serve(self, engine: Engine) -> str:
        foreign = Foreign(self._told)
        control = Control(engine, self._clock, foreign)
        about = await self._patiently(engine, control.about)
        state = await self._patiently(engine, control.state)
        if state.finished:
            self.finished = True
            return f"the crawl is over ({state.end})"
        try:
            await self._apart(engine, lambda: self._home.open(engine.crawl, about))
            await self._machine.begin()
            try:
                return await self._crawl(engine, control, foreign, about, state)
            finally:
                self._machine.end()
        finally:
            await asyncio.to_thread(self._home.close)

    async def _crawl(
        self, engine: Engine, control: Control, foreign: Foreign, about: About, state: State
    ) -> str:
        await self._apart(engine, lambda: self._home.prepare(self._machine.files))
        options = decode_options(state.options.encode())
        _demand_consent(options.frontier.scorer, self._scorer)
        _demand_own_browser(options.render.browser, self._scorer)
        # Only when everything else is in order: it may take a while.
        await asyncio.to_thread(self._machine.warm, options)
        self._membership = membership = Membership(
            me=self.id,
            engine=engine,
            control=control,
            foreign=foreign,
            about=about,
            state=state,
            options=options,
            home=self._home,
            machine=self._machine,
            leaving=self._leaving,
            told=self._told,
            noted=self._noted,
            holding=self._holding,
        )
        await membership.begin()
        await self._patiently(engine, membership.bring)
        end = await membership.run()
        self.finished = membership.finished
        return end

    async def _apart(self, engine: Engine, ask: Callable[[], T]) -> T:
        """Call storage, which may block, in a thread."""
        return await self._patiently(engine, lambda: asyncio.to_thread(ask))

    async def _patiently(self, engine: Engine, ask: Callable[[], Awaitable[T]]) -> T:
        """Retry while the servers do not answer: they may be choosing a leader."""
        until = self._clock.monotonic() + _START
        while True:
            try:
                return await ask()
            except Damaged:
                raise
            except Unavailable:
                if why := engine.denied:
                    raise ConfigError(f"{why}: see the permissions in docs/operating.md") from None
                if self._leaving.is_set() or self._clock.monotonic() > until:
                    raise
                await self._clock.sleep(0.5)
