"""The processes of one machine's agents: starting, checking, ending. The course of the run is `team_run`'s."""

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
    """The processes of all agents, by number."""

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
        """The id of each agent's last process."""
        self.started = [0.0] * agents
        """The calendar time at which each was started."""

    def __len__(self) -> int:
        """How many are running."""
        return len(self._running)

    def start(self, number: int) -> None:
        """Start the process of an agent; output that it does not send over the engine goes to standard error."""
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
        """Agents whose processes have ended since the last call, with their exit codes."""
        codes = [(number, process.poll()) for number, process in self._running.items()]
        found = [(number, code) for number, code in codes if code is not None]
        for number, _ in found:
            del self._running[number]
        return found

    def kill(self) -> None:
        """Kill the running processes."""
        for process in self._running.values():
            process.kill()
