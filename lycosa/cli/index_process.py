"""The indexer of an agent, in a separate process: `python -m lycosa.cli.index_process`.

Its agent starts it and sends to its standard input: first its parameters (`Setup`, one line of JSON), then,
whenever they change, the shards that the agent holds (a list of numbers, one line each time). When the input ends,
so does the process, immediately: it may be killed at any instant. It has a low priority: the crawl goes first.

`IndexProcess` is the agent's side of it. A process that dies is restarted, after a pause that grows.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from lycosa.clock import SystemClock
from lycosa.cluster.control import Control
from lycosa.engine.nats.connection import ConnectionOptions
from lycosa.errors import LycosaError

_FIRST, _MOST = 1.0, 60.0
"""Seconds before a process that died is restarted: initially, and at most."""
_NICE = 10


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of an indexer."""

    connection: ConnectionOptions
    crawl: str
    work: str
    shared: str
    """Where shared storage is, if not where the crawl's options say."""
    agent: str


# Made at import: msgspec crashes where two threads are the first to decode a struct that holds others.
_decode_setup = msgspec.json.Decoder(Setup).decode


class IndexProcess:
    """The process, as seen by the agent that starts it."""

    def __init__(self, setup: Setup, told: Callable[[str], None]) -> None:
        self._setup = setup
        self._told = told
        self._held: list[int] = []
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the process, and restart it until `stop`."""
        self._keeping = asyncio.create_task(self._keep())

    def hold(self, shards: Collection[int]) -> None:
        """Tell the process which shards the agent holds now."""
        if self._held != (held := sorted(shards)):
            self._held = held
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.write(msgspec.json.encode(held) + b"\n")

    async def stop(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
        if self._process is not None and self._process.returncode is None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            await self._process.wait()

    async def _keep(self) -> None:
        pause = _FIRST
        while True:
            begun = asyncio.get_running_loop().time()
            self._process = process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "lycosa.cli.index_process", stdin=asyncio.subprocess.PIPE
            )
            assert process.stdin is not None
            lines = msgspec.json.encode(self._setup) + b"\n" + msgspec.json.encode(self._held) + b"\n"
            process.stdin.write(lines)
            code = await process.wait()
            if asyncio.get_running_loop().time() - begun > _MOST:
                pause = _FIRST
            self._told(f"the index process ended with code {code}: it is started again in {pause:.0f} s")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MOST)


async def _serve() -> None:
    from lycosa.cluster.indexer import Indexer
    from lycosa.cluster.storage.opening import open_storage
    from lycosa.engine.nats.engine import NatsEngine

    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    setup = _decode_setup(await lines.readline())
    held = msgspec.json.decode(await lines.readline(), type=list[int])
    clock = SystemClock()
    engine = await NatsEngine.open(setup.connection, setup.crawl, f"{setup.agent}-index")
    about = await Control(engine, clock).about()
    storage = await asyncio.to_thread(
        open_storage, setup.shared or about.storage, setup.crawl, connection=setup.connection
    )

    def told(text: str) -> None:
        print(f"agent {setup.agent}: {text}", file=sys.stderr, flush=True)

    indexer = Indexer(
        engine=engine,
        storage=storage,
        about=about,
        work=Path(setup.work),
        me=setup.agent,
        clock=clock,
        told=told,
    )
    indexer.hold(held)
    running = asyncio.create_task(indexer.run())
    while True:
        reading = asyncio.ensure_future(lines.readline())
        await asyncio.wait([reading, running], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        if not reading.done():
            continue
        if not (line := reading.result()):
            os._exit(0)  # the agent is gone
        indexer.hold(msgspec.json.decode(line, type=list[int]))


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the agent says when to end
        signal.signal(number, signal.SIG_IGN)
    os.nice(_NICE)
    sys.setswitchinterval(0.001)  # questions are answered in parallel with the indexing thread
    try:
        asyncio.run(_serve())
    except LycosaError as error:
        print(f"lycosa agent: index: {error}", file=sys.stderr, flush=True)
        os._exit(2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
