"""One agent of several, in a process of its own: `python -m lycosa.cluster.process FD`.

FD is this side of a pair of sockets; `messages` says what is said over it. The process does what its supervisor
says, and ends when the supervisor does: what was appended is committed, nothing more, since another process may
want the directory. Signals of the terminal are the supervisor's business.

What ends the agent is told to the supervisor in one line (`Failed`). If it is an error of the program, its trace
is left in `exchange/agent-N.failed`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

from lycosa.clock import SystemClock
from lycosa.cluster.addresses import SharedAddressTable
from lycosa.cluster.exchange import FileExchange
from lycosa.cluster.messages import (
    Begun,
    Channel,
    Claim,
    Claimed,
    Cursors,
    Ended,
    Failed,
    Go,
    GoBack,
    Grant,
    Pause,
    Recall,
    Recovered,
    Release,
    Report,
    Returned,
    Settle,
    Settled,
    Start,
    Stop,
    TellCursors,
    ToAgent,
    Told,
    Wish,
)
from lycosa.cluster.quotas import Ration
from lycosa.crawl import manifest as manifests
from lycosa.crawl.agent import Agent, Team, build
from lycosa.crawl.config import decode_options
from lycosa.crawl.splitting import Splitter
from lycosa.crawl.status import Reporter
from lycosa.crawl.warming import warm
from lycosa.crawl.watchdog import Watchdog
from lycosa.errors import LocalError, LycosaError
from lycosa.files import DiskFiles, write_whole
from lycosa.meters import Meters

EXCHANGE = "exchange"
ADDRESSES = "addresses"
REPORT_SECONDS = 0.25
_LAST_COMMIT = 5.0


def holders(shards: int, agents: int) -> dict[int, int]:
    """Which agent has each shard, in a run of so many agents."""
    return {number: number % agents for number in range(shards)}


class FarHosts:
    """Turns of hosts that other agents own, asked through the supervisor."""

    def __init__(self, channel: Channel[ToAgent], agent: int, splitter: Splitter) -> None:
        self._channel = channel
        self._agent = agent
        self._splitter = splitter
        self._asked: dict[int, asyncio.Future[bool]] = {}
        self._next = 0

    async def claim(self, host: str) -> bool:
        self._next += 1
        answer = self._asked[self._next] = asyncio.get_running_loop().create_future()
        shard = self._splitter.shard_of(host)
        self._channel.send(Claim(id=self._next, by=self._agent, shard=shard, host=host))
        granted: bool = await answer
        return granted

    def answered(self, message: Claimed) -> None:
        answer = self._asked.pop(message.id, None)
        if answer is not None and not answer.done():
            answer.set_result(message.granted)

    def end(self, host: str, ready: float) -> None:
        shard = self._splitter.shard_of(host)
        self._channel.send(Release(by=self._agent, shard=shard, host=host, ready=ready))


class AgentProcess:
    """The agent, and what its supervisor wants of it."""

    def __init__(self, channel: Channel[ToAgent], start: Start) -> None:
        self._channel = channel
        self._start = start
        files = DiskFiles(start.directory)
        manifest = manifests.load(files)
        assert manifest is not None, "the supervisor has made it"
        self._quota = Ration(start.limited, lambda: channel.send(Wish()))
        self._splitter = Splitter(manifest.shards, manifests.domains_of(files), manifest.splitter)
        self._far = FarHosts(channel, start.agent, self._splitter)
        self._granted: set[str] = set()  # hosts of ours whose turn another agent has
        self._agent: Agent | None = None
        meters = Meters()
        held = holders(manifest.shards, start.agents)
        self._exchange = FileExchange(
            files.within(EXCHANGE),
            agent=start.agent,
            holders=held,
            clock=SystemClock(),
            meters=meters,
            on_gap=lambda s, r, cursor: channel.send(GoBack(sender=s, receiver=r, cursor=cursor)),
            woken=self._wake,
        )
        team = Team(
            name=f"a{start.agent}",
            owned=[shard for shard, agent in held.items() if agent == start.agent],
            size=start.agents,
            exchange=self._exchange,
            addresses=SharedAddressTable(Path(start.directory, EXCHANGE, ADDRESSES), start.agent),
            hosts=self._far,
            quota=self._quota,
        )
        options = decode_options(start.options)
        self._agent = build(
            files, options, meters=meters, told=lambda text: channel.send(Told(text=text)), team=team
        )
        self._reporter = Reporter(self._agent, Path(start.directory))

    def _wake(self) -> None:
        if self._agent is not None:
            self._agent.wake()

    @property
    def agent(self) -> Agent:
        assert self._agent is not None
        return self._agent

    async def run(self) -> None:
        """From recovery to the end."""
        saver = self.agent.saver
        self._channel.send(
            Recovered(
                cursors={shard.number: shard.cursors for shard in saver.shards},
                ends=saver.archive_ends(),
                options=[shard.options for shard in saver.shards if shard.options],
                fetched=self.agent.totals().pages,
                answers={shard.number: shard.answers for shard in saver.shards},
                logs=saver.ends(),
            )
        )
        while not isinstance(go := await self._channel.receive(), Go):
            if go is None or isinstance(go, Stop):
                return
            await self._heed(go)
        self.agent.options = decode_options(go.options)
        self._exchange.begin(saver, go.cursors)
        self.agent.begin(go.seeds, go.ends, unclean=go.unclean)
        self._channel.send(Begun(refused=self.agent.refused_seeds))
        watchdog = Watchdog(self.agent.underway)
        watchdog.start()
        beside = [
            asyncio.ensure_future(self._beside(each))
            for each in (self._exchange.run(), self._report_loop(), self._listen())
        ]
        try:
            await self.agent.run()
        finally:
            for task in beside:
                task.cancel()
            watchdog.stop()
            self._exchange.close()
        self._channel.send(Ended(status=self._reporter.status()))

    async def _beside(self, work: Awaitable[None]) -> None:
        """Something that runs beside the agent; its failure is the agent's."""
        try:
            await work
        except Exception as error:
            self.agent.fail(error)

    async def _report_loop(self) -> None:
        while True:
            idle = self.agent.idle
            self._channel.send(Report(status=self._reporter.status(), idle=idle, left=self._quota.left))
            await asyncio.sleep(REPORT_SECONDS)

    async def _listen(self) -> None:
        while (message := await self._channel.receive()) is not None:
            await self._heed(message)
        await self._orphaned()

    async def _orphaned(self) -> None:
        """The supervisor is gone, and with it whoever would restart us: save what there is, and go."""
        with suppress(Exception):
            await asyncio.wait_for(self.agent.saver.commit(), _LAST_COMMIT)
        os._exit(1)

    async def _heed(self, message: ToAgent) -> None:
        agent = self.agent
        if isinstance(message, Stop):
            agent.stop()
        elif isinstance(message, Pause):
            agent.pause() if message.on else agent.go_on()
        elif isinstance(message, Grant):
            self._quota.grant(message.pages)
            agent.wake()
        elif isinstance(message, Recall):
            self._channel.send(Returned(pages=self._quota.recall()))
        elif isinstance(message, Settle):
            await self._settle(message.round)
        elif isinstance(message, TellCursors):
            senders = set(message.senders)
            told = {
                shard.number: {sender: at for sender, at in shard.cursors.items() if sender in senders}
                for shard in agent.saver.shards
            }
            self._channel.send(Cursors(for_agent=message.for_agent, cursors=told))
        elif isinstance(message, GoBack):
            self._exchange.go_back(message.sender, message.receiver, message.cursor)
        elif isinstance(message, Claimed):
            self._far.answered(message)
        elif isinstance(message, Claim):
            self._claim(message)
        elif isinstance(message, Release):
            self._release(message)

    async def _settle(self, number: int) -> None:
        idle = await self.agent.settled()
        self._channel.send(
            Settled(
                round=number,
                idle=idle,
                appended=sum(shard.log.end for shard in self.agent.saver.shards),
                ends=self._exchange.ends(),
                reads=self._exchange.reads(),
            )
        )

    def _claim(self, message: Claim) -> None:
        shard = self.agent.saver.find(message.shard)
        granted = shard is not None and shard.frontier.claim(message.host, time.monotonic())
        if granted:
            self._granted.add(message.host)
        self._channel.send(Claimed(id=message.id, by=message.by, granted=granted))

    def _release(self, message: Release) -> None:
        shard = self.agent.saver.find(message.shard)
        if shard is not None and message.host in self._granted:
            self._granted.discard(message.host)
            shard.frontier.end(message.host, message.ready)
            self.agent.wake()


async def serve(fd: int) -> int:
    """Be an agent; the exit code."""
    channel: Channel[ToAgent] = await Channel.over(socket.socket(fileno=fd), ToAgent)
    start = await channel.receive()
    if not isinstance(start, Start):
        return 1
    try:
        # Kernels are loaded now, and not while visits wait.
        await asyncio.to_thread(warm, decode_options(start.options))
        await AgentProcess(channel, start).run()
    except LycosaError as error:
        channel.send(Failed(kind=type(error).__name__, text=str(error)))
        await channel.drain()
        return 2
    except Exception as error:
        channel.send(Failed(kind=LocalError.__name__, text=_left(error, start)))
        await channel.drain()
        return 2
    await channel.drain()
    return 0


def _left(error: Exception, start: Start) -> str:
    """An error of the program in one line; the rest of it is left in a file."""
    name = f"{EXCHANGE}/agent-{start.agent}.failed"
    with suppress(OSError, LycosaError):
        write_whole(DiskFiles(start.directory), name, "".join(traceback.format_exception(error)).encode())
    last = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return (
        f"it failed with {what} ({Path(last.filename).name}, line {last.lineno}), an error of lycosa: please report"
        f" {Path(start.directory, name)}; the same command goes on from what is logged"
    )


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the supervisor says when to stop
        signal.signal(number, signal.SIG_IGN)
    return asyncio.run(serve(int(sys.argv[1])))


if __name__ == "__main__":
    sys.exit(main())
