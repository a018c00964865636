"""One agent of several on one machine, in a process of its own: `python -m lycosa.cluster.process FD DIR N AGENTS`.

FD is the agent's connection to the engine, which its supervisor keeps. The agent is a `Member` like those of a
cluster, except that its shards are in the crawl's own directory. It ends when the supervisor does: appended records
are committed, nothing more, since another process may want the directory. Signals of the terminal are left to the
supervisor.

When an error ends the agent, a line about it is left for the supervisor (`failed.ID`). If it is an error of the
program, its traceback is left in `agent-N.failed`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path

import msgspec

from lycosa.cluster.keeping import Home
from lycosa.cluster.machine import OwnMachine
from lycosa.cluster.member import Member
from lycosa.cluster.metering import answer_meters
from lycosa.crawl.underway import Underway
from lycosa.crawl.watchdog import Watchdog
from lycosa.engine.local.client import LocalEngine
from lycosa.errors import LocalError, LycosaError
from lycosa.files import write_whole

TOLD = "told"
"""The subject on which agents send messages for the operator."""
_LAST_COMMIT = 5.0


class Failed(msgspec.Struct):
    """The error that ended an agent, under the key `failed.ID`."""

    kind: str
    text: str


def name_of(number: int) -> str:
    """The name of an agent, in keys and in the names of its archive files."""
    return f"a{number}"


class TeamMachine(OwnMachine):
    """One agent's share of this machine; the directory is locked by the supervisor."""

    def __init__(self, directory: Path, agents: int) -> None:
        super().__init__(directory)
        self.agents = agents

    async def begin(self) -> None:
        """Nothing to lock: the lock is inherited."""

    def watch(self, underway: Underway) -> None:
        self._watchdog = Watchdog(underway)
        self._watchdog.start()

    def remove(self, directory: str) -> None:
        raise AssertionError("shards of one machine stay where they are")


class AgentProcess:
    """The agent, and its connection to its supervisor."""

    def __init__(self, engine: LocalEngine, directory: Path, number: int, agents: int) -> None:
        self._engine = engine
        self._directory = directory
        self._number = number
        self._telling: set[asyncio.Task[None]] = set()
        self.member = Member(
            self._reach,
            TeamMachine(directory, agents),
            Home(),
            name=name_of(number),
            own_name=True,
            scorer=None,
            told=self._tell,
            noted=lambda _: None,
        )

    async def _reach(self, name: str) -> LocalEngine:
        return self._engine

    def _tell(self, text: str) -> None:
        words = msgspec.json.encode((self._number, text))
        task = asyncio.ensure_future(self._engine.requests.tell(TOLD, words))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def run(self) -> int:
        """Run the agent; returns the exit code."""
        watching = asyncio.ensure_future(self._orphaned())
        await answer_meters(self._engine, self.member)
        try:
            await self.member.run()
            return 0
        except LycosaError as error:
            failed = Failed(type(error).__name__, str(error))
        except Exception as error:
            failed = Failed(LocalError.__name__, self._left(error))
        finally:
            watching.cancel()
        await self._engine.bucket.put(f"failed.{self.member.id}", msgspec.json.encode(failed))
        return 2

    async def _orphaned(self) -> None:
        """The supervisor is gone, and nobody would restart us: save what there is, and end."""
        await self._engine.gone.wait()
        if (agent := self.member.agent) is not None:
            with suppress(Exception):
                await asyncio.wait_for(agent.saver.commit(), _LAST_COMMIT)
        os._exit(1)

    def _left(self, error: Exception) -> str:
        """An error of the program in one line; its traceback is left in a file."""
        name = f"agent-{self._number}.failed"
        with suppress(OSError, LycosaError):
            trace = "".join(traceback.format_exception(error)).encode()
            write_whole(TeamMachine(self._directory, 1).files, name, trace)
        last = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return (
            f"it failed with {what} ({Path(last.filename).name}, line {last.lineno}), an error of lycosa: please"
            f" report {self._directory / name}; the same command goes on from what is logged"
        )


class _OpenToTheEnd(LocalEngine):
    """A connection that its member does not close: a last message may have to be sent."""

    async def close(self) -> None:
        """It ends with the process."""


async def serve(fd: int, directory: Path, number: int, agents: int, crawl: str) -> int:
    engine = await _OpenToTheEnd.open(socket.socket(fileno=fd), crawl)
    return await AgentProcess(engine, directory, number, agents).run()


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the supervisor decides when to stop
        signal.signal(number, signal.SIG_IGN)
    fd, directory, agent, agents, crawl = sys.argv[1:]
    return asyncio.run(serve(int(fd), Path(directory), int(agent), int(agents), crawl))


if __name__ == "__main__":
    sys.exit(main())
