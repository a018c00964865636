"""The processes of one machine's agents: started, looked at, ended. What becomes of the run is `team_run`'s."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lycosa.errors import LocalError
from lycosa.files import DirectoryLock


class Processes:
    """Of all agents, by number."""

    def __init__(
        self,
        directory: Path,
        crawl: str,
        agents: int,
        lock: DirectoryLock,
        connect: Callable[[], socket.socket],
    ) -> None:
        """`lock`: of the directory; agents inherit it. `connect`: makes a connection to the engine."""
        self._directory = directory
        self._crawl = crawl
        self._agents = agents
        self._lock = lock
        self._connect = connect
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self.pids = [0] * agents
        """Of the last process of each."""
        self.started = [0.0] * agents
        """When that was begun, by the calendar."""

    def __len__(self) -> int:
        """How many run."""
        return len(self._running)

    def start(self, number: int) -> None:
        """Begin a process that is an agent; what it has to say beyond the engine goes to standard error."""
        try:
            with self._connect() as side:
                words = (side.fileno(), self._directory, number, self._agents, self._crawl)
                self._running[number] = process = subprocess.Popen(
                    [sys.executable, "-m", "lycosa.cluster.process", *map(str, words)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(side.fileno(), self._lock.fileno()),
                )
        except OSError as error:
            raise LocalError(f"agent {number} cannot be started: {error.strerror}") from None
        self.pids[number], self.started[number] = process.pid, time.time()

    def ended(self) -> list[tuple[int, int]]:
        """Agents whose processes have ended since the last look, and their codes."""
        codes = [(number, process.poll()) for number, process in self._running.items()]
        found = [(number, code) for number, code in codes if code is not None]
        for number, _ in found:
            del self._running[number]
        return found

    def kill(self) -> None:
        """End those that run, at once."""
        for process in self._running.values():
            process.kill()
