"""What a member uses of its machine: clock, disk, network, and unique names.

A simulation passes in another one (`lycosa.lab.cluster_run`); everything else of a member is the same.
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
    """The machine of a member; see the module."""

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
        """How sites are fetched; None: as the crawl's options say."""
        ...

    @property
    def resolver(self) -> Resolver | None: ...

    async def begin(self) -> None:
        """Lock the work directory for this process."""
        ...

    def warm(self, options: Options) -> None:
        """Compile what a crawl with these options needs. Runs in a thread: it may take a while."""
        ...

    def watch(self, underway: Underway) -> None:
        """The event loop runs: start watching that it does not stall."""
        ...

    def end(self) -> None:
        """Unlock the directory, and stop watching."""
        ...

    def remove(self, directory: str) -> None:
        """Remove a directory of the work directory, with everything in it."""
        ...

    def token(self, size: int) -> str:
        """A unique word of twice as many letters."""
        ...


class OwnMachine:
    """The machine of this process: its watchdog may end the process, and adds a SIGINT handler to the command's."""

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
