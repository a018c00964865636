"""Agents of a cluster as processes, which are killed, stopped, woken and restarted by their process ids.

    AgentProcess(name, directory, command).start()

Their output goes to a file. They end with the process that started them, even if that is killed: by the kernel
(PR_SET_PDEATHSIG, Linux).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_ESTABLISHED = "01"


def die_with_parent() -> None:
    """Called in a child before it executes its program: kills it when the thread that started it ends."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class AgentProcess:
    """One agent: a name, a directory, and a process while it runs."""

    def __init__(
        self, name: str, directory: Path, words: Path, command: Callable[[Path], Sequence[str]]
    ) -> None:
        """`command` makes the command line for a directory; the process's output is appended to `words`."""
        self.name = name
        self.directory = directory
        self._words = words
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._asked = False  # whether we caused its end
        self._since = 0  # where its output begins in the file

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def working(self) -> bool:
        """Whether it runs, is not stopped, and was not asked to leave."""
        return self.alive and not self._stopped and not self._asked

    @property
    def died(self) -> bool:
        """Whether it ended by itself."""
        return self.code is not None and not self._asked

    @property
    def saw_the_end(self) -> bool:
        """Whether it ended because the crawl has: agents learn of that before status queries show it."""
        return self.code == 0 and "the crawl is over (finished)" in self.said()

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs, or if it never ran."""
        return self._process.poll() if self._process is not None else None

    def start(self) -> None:
        assert not self.alive, f"{self.name} runs already"
        self._since = self._words.stat().st_size if self._words.exists() else 0
        with self._words.open("ab") as out:
            self._process = subprocess.Popen(
                list(self._command(self.directory)),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=die_with_parent,
            )
        self._stopped = self._asked = False

    def kill(self) -> None:
        """End it as a crash would."""
        self._asked = True
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> frozenset[str]:
        """Stop it (SIGSTOP); returns the sockets that it holds then."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)  # until it has really stopped
        self._stopped = True
        return sockets(self.pid)

    def wake(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self._stopped = False

    def leave(self) -> None:
        """Ask it to hand over and end."""
        self._asked = True
        if self._process is not None:
            self._process.terminate()

    def said(self, most: int = 500) -> str:
        """The end of its output, since it was last started, in one line."""
        if not self._words.exists():
            return ""
        words = self._words.read_bytes()[self._since :].decode(errors="replace")
        return " / ".join(words.split("\n"))[-most:].strip(" /")


def sockets(pid: int) -> frozenset[str]:
    """`address:port` of our ends of a process's TCP connections (IPv4). Linux."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(link.readlink())
        except FileNotFoundError:  # closed meanwhile, if the process is not stopped
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = []
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[9] in inodes and fields[3] == _ESTABLISHED:
            address, port = fields[1].split(":")
            numbers = bytes.fromhex(address)[::-1] if sys.byteorder == "little" else bytes.fromhex(address)
            found.append(".".join(map(str, numbers)) + f":{int(port, 16)}")
    return frozenset(found)
