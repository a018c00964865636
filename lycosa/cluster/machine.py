"""What a member has of the machine that it runs on: clock, disk, network, and names that nobody else has.

A simulation hands in another one (`lycosa.lab.cluster_run`); everything else of a member is the same.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import Protocol

from lycosa.clock import Clock, SystemClock
from lycosa.crawl.config import Options
from lycosa.crawl.underway import Underway
from lycosa.crawl.visit import FetcherTable
from lycosa.crawl.warming import warm
from lycosa.crawl.watchdog import Watchdog
from lycosa.fetch.dns import Resolver
from lycosa.files import DirectoryLock, DiskFiles, Files


class Machine(Protocol):
    """See the module."""

    @property
    def agents(self) -> int:
        """How many agents share the machine, its memory, and the crawl's visits and bandwidth."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def files(self) -> Files:
        """The work directory."""
        ...

    @property
    def fetchers(self) -> FetcherTable | None:
        """How sites are asked; None: as the crawl's options say."""
        ...

    @property
    def resolver(self) -> Resolver | None: ...

    async def begin(self) -> None:
        """Have the work directory for ourselves."""
        ...

    def warm(self, options: Options) -> None:
        """Have what a crawl with these options needs compiled. In a thread: it may take a while."""
        ...

    def watch(self, underway: Underway) -> None:
        """The event loop runs: see to it that it goes on."""
        ...

    def end(self) -> None:
        """Let the directory go, and watch no more."""
        ...

    def remove(self, directory: str) -> None:
        """Remove a directory of the work directory, with everything in it."""
        ...

    def token(self, size: int) -> str:
        """A word of twice so many letters that nobody else has."""
        ...


class OwnMachine:
    """The machine of this process: it may be ended by its watchdog, which takes SIGINT after the command has."""

    agents = 1
    fetchers = None
    resolver = None

    def __init__(self, work: Path) -> None:
        self.clock = SystemClock()
        self.files = DiskFiles(work)
        self._work = work
        self._lock: DirectoryLock | None = None
        self._watchdog: Watchdog | None = None

    async def begin(self) -> None:
        self._lock = await DirectoryLock.waited(self._work)

    def warm(self, options: Options) -> None:
        warm(options)

    def watch(self, underway: Underway) -> None:
        self._watchdog = Watchdog(underway)
        self._watchdog.start(interrupts=True)

    def end(self) -> None:
        if self._watchdog is not None:
            self._watchdog.stop()
        if self._lock is not None:
            self._lock.release()

    def remove(self, directory: str) -> None:
        shutil.rmtree(self._work / directory, ignore_errors=True)

    def token(self, size: int) -> str:
        return secrets.token_hex(size)
