"""A web in a process of its own, so that server and crawler share neither an event loop nor a core's
time.

    with serving(preset("tiny")) as served:
        ... crawl served.web.seeds() with served.web.resolve() ...
    served.log()        what the server saw

The child is `python -m lycosa.lab.webs OPTIONS LOG`. It writes `ready PORT` to its standard output
once it listens, and ends when its standard input does (or on SIGTERM), so that it never outlives
its parent; it then writes its access log to the file LOG.
"""

from __future__ import annotations

import asyncio
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lycosa.errors import ConfigError, LocalError
from lycosa.lab.webs.accesses import AccessLog
from lycosa.lab.webs.options import WebOptions
from lycosa.lab.webs.server import WebServer
from lycosa.lab.webs.web import Web

READY_SECONDS = 120.0
STOP_SECONDS = 120.0
"""Time to end and write the log, which is lost if it is killed: generous for busy machines."""


class Served:
    """A web served by another process."""

    def __init__(self, web: Web, process: subprocess.Popen[bytes], log_file: Path) -> None:
        self.web = web
        self._process = process
        self._log_file = log_file
        self._log: AccessLog | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """End the process and read its log. May be called again."""
        if self._log is not None:
            return
        process = self._process
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        if self._log_file.exists():
            with self._log_file.open("rb") as lines:
                self._log = AccessLog.read(lines)
        else:
            self._log = AccessLog()

    def log(self) -> AccessLog:
        """The access log of the server; stops it first."""
        self.stop()
        assert self._log is not None
        return self._log


@contextmanager
def serving(options: WebOptions) -> Iterator[Served]:
    """Serve a web in another process while the block runs."""
    with tempfile.TemporaryDirectory(prefix="lycosa-web-") as folder:
        log_file = Path(folder, "accesses.jsonl")
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "lycosa.lab.webs",
                msgspec.json.encode(options).decode(),
                str(log_file),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        served: Served | None = None
        try:
            port = _wait_ready(process)
            served = Served(Web(msgspec.structs.replace(options, port=port)), process, log_file)
            yield served
        finally:
            if served is not None:
                served.stop()
            else:
                process.kill()
                process.wait()


def _wait_ready(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], READY_SECONDS)
    line = process.stdout.readline().decode() if readable else ""
    word, _, rest = line.strip().partition(" ")
    if word == "ready":
        return int(rest)
    if word == "refused":
        raise ConfigError(rest)
    raise LocalError(f"the web's server did not start; it said {line!r}")


async def serve(web: Web, stop: asyncio.Event, ready: asyncio.Future[WebServer] | None = None) -> WebServer:
    """Serve until `stop` is set; SIGTERM and SIGINT set it. Returns the server, closed, with its log."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = WebServer(web)
    await server.start()
    if ready is not None:
        ready.set_result(server)
    try:
        await stop.wait()
    finally:
        await server.close()
    return server


async def _child(options: WebOptions, log_file: Path) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    ready: asyncio.Future[WebServer] = loop.create_future()
    ready.add_done_callback(lambda done: print(f"ready {done.result().port}", flush=True))
    loop.add_reader(sys.stdin, stop.set)  # the parent never writes: readable means that it is gone
    server = await serve(Web(options), stop, ready)
    with log_file.open("wb") as out:
        out.writelines(server.log.lines())


def main(arguments: list[str]) -> None:
    """The child process."""
    try:
        options = msgspec.json.decode(arguments[0], type=WebOptions)
        asyncio.run(_child(options, Path(arguments[1])))
    except ConfigError as error:
        print(f"refused {error}", flush=True)
