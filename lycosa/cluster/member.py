"""A member of a cluster: one agent process, from its connection to its good-bye.

`Member.run` connects, finds out what the crawl is, opens its shared storage and its own work directory, and is then
an agent of the crawl (`membership`) until that ends, or until it is told to `leave`: all shards are handed over
first. What fails in between (a disk, a damaged stream) ends it with that error; its leases are given back.

What it has of the world around it comes in from outside: the engine (one connection; it listens nowhere), and its
machine with clock, disk and network. So a whole cluster can run in one process, on a virtual clock.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from lycosa.cluster.control import About, Control, State
from lycosa.cluster.foreign import Foreign
from lycosa.cluster.machine import Machine
from lycosa.cluster.membership import LEFT, Membership
from lycosa.cluster.operating import manifest_of
from lycosa.cluster.outcomes import Damaged
from lycosa.cluster.storage import Missing, Storage
from lycosa.cluster.storage.opening import OpenStorage, open_storage
from lycosa.crawl import manifest as manifests
from lycosa.crawl.config import decode_options
from lycosa.engine.protocol import Engine, Unavailable
from lycosa.errors import ConfigError
from lycosa.files import write_whole

_START = 60.0
"""Seconds that servers which are there, but do not answer, are waited for at the start."""
T = TypeVar("T")


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
            return LEFT  # before it had begun, or while the servers were away
        finally:
            await engine.close()

    async def _serve(self, engine: Engine) -> str:
        foreign = Foreign(self._told)
        control = Control(engine, self._clock, foreign)
        about = await self._patiently(engine, control.about)
        state = await self._patiently(engine, control.state)
        if state.finished:
            return f"the crawl is over ({state.end})"
        place, crawl = self._shared or about.storage, engine.crawl
        storage = await self._apart(engine, lambda: self._open_storage(place, crawl))
        try:
            await self._apart(engine, lambda: _demand_own(storage, place, crawl, about))
            await self._machine.begin()
            try:
                return await self._crawl(engine, control, foreign, about, state, storage)
            finally:
                self._machine.end()
        finally:
            await asyncio.to_thread(storage.close)

    async def _crawl(
        self,
        engine: Engine,
        control: Control,
        foreign: Foreign,
        about: About,
        state: State,
        storage: Storage,
    ) -> str:
        suffixes = await self._apart(engine, lambda: storage.get(f"{engine.crawl}/public_suffix.dat"))
        self._prepare(about, suffixes)
        options = decode_options(state.options.encode())
        _demand_consent(options.frontier.scorer, self._scorer)
        # Only when everything else is in order: it may take a while.
        await asyncio.to_thread(self._machine.warm, options)
        membership = Membership(
            me=self.id,
            engine=engine,
            control=control,
            foreign=foreign,
            about=about,
            state=state,
            options=options,
            storage=storage,
            machine=self._machine,
            leaving=self._leaving,
            told=self._told,
        )
        await membership.begin()
        await self._patiently(engine, membership.bring)
        return await membership.run()

    async def _apart(self, engine: Engine, ask: Callable[[], T]) -> T:
        """Ask storage, which may wait, in a thread."""
        return await self._patiently(engine, lambda: asyncio.to_thread(ask))

    async def _patiently(self, engine: Engine, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again while the servers do not answer: they may be choosing a leader."""
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

    def _prepare(self, about: About, suffixes: bytes) -> None:
        """Make the work directory that of this crawl; what another left there is refused."""
        files = self._machine.files
        manifest = manifest_of(about)
        there = manifests.load(files)
        if there is not None and there.crawl != manifest.crawl:
            raise ConfigError(f"{files.path('')} holds another crawl: give each its own --work directory")
        if there is None:
            write_whole(files, manifests.SUFFIXES, suffixes)
            write_whole(files, manifests.NAME, msgspec.json.format(msgspec.json.encode(manifest)))
