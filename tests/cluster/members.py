"""Crawls of a cluster over real sockets and a real server: agents in processes of their own, commands as typed."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from lycosa.cli.main import main
from lycosa.cluster.operating import Operator
from lycosa.engine.nats.connection import ConnectionOptions
from lycosa.engine.nats.engine import NatsEngine
from lycosa.lab.webs import Web
from tests.cluster.crawled import options as crawl_options
from tests.crawl.test_kill import as_toml


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode()  # type: ignore[attr-defined]


class Cluster:
    """One crawl, its agents, and the commands of its operator."""

    def __init__(self, root: Path, urls: tuple[str, ...], name: str, *flags: str, **access: str) -> None:
        self.connection = ConnectionOptions(servers=urls, **access)
        self.root = root
        self.name = name
        self.shared: Path | str = root / "shared"
        Path(self.shared).mkdir(parents=True, exist_ok=True)
        self.flags = ["--cluster", ",".join(urls), *flags]
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = dict(os.environ)

    def command(self, action: str, *more: str, fails: bool = False) -> str:
        """A command of the operator, in this process: to start another takes a second."""
        said, error = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with (
            mock.patch.dict(os.environ, self.environment, clear=True),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(error),
        ):
            code = main(["cluster", action, self.name, *self.flags, *more])
        return self._told(code, _written(said), _written(error), fails)

    def process(self, action: str, *more: str, fails: bool = False) -> str:
        """A command of the operator in a process of its own: several may run at once."""
        done = subprocess.run(
            [sys.executable, "-m", "lycosa.cli.main", "cluster", action, self.name, *self.flags, *more],
            capture_output=True,
            text=True,
            timeout=170,
            env=self.environment,
        )
        return self._told(done.returncode, done.stdout, done.stderr, fails)

    def _told(self, code: int, said: str, error: str, fails: bool) -> str:
        assert (code != 0) == fails, error
        assert "Traceback" not in error, error
        return error if fails else said

    def create(self, web: Web, *more: str, shards: int = 6, lease: float = 3.0, **given: Any) -> None:
        config = self.root / "crawl.toml"
        snapshot = {"seconds": 1.5, "records": 100_000}
        made = crawl_options(web, **{"snapshot": snapshot, **given})
        config.write_text(as_toml({"seeds": web.seeds(), **made}))
        self.command(
            "create",
            "--config",
            str(config),
            "--shared",
            str(self.shared),
            "--shards",
            str(shards),
            "--lease",
            f"{lease}s",
            *more,
        )

    def join(self, name: str, *more: str) -> subprocess.Popen[bytes]:
        work = self.root / f"work-{name}"
        log = (self.root / f"agent-{name}.log").open("ab")
        with log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "lycosa.cli.main",
                    "agent",
                    "--crawl",
                    self.name,
                    "--work",
                    str(work),
                    "--name",
                    name,
                    *self.flags,
                    *more,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
            )
        self.agents[name] = process
        return process

    def said(self, name: str) -> str:
        return (self.root / f"agent-{name}.log").read_text()

    def look(self) -> dict[str, Any]:
        """The status, without a process for it."""

        async def ask() -> dict[str, Any]:
            operator = Operator(await NatsEngine.open(self.connection, self.name))
            try:
                return await operator.status()
            finally:
                await operator.close()

        return asyncio.run(ask())

    def pages(self, least: int, seconds: float = 400.0) -> None:
        """Until so many pages are known to the crawl."""
        until(lambda: int(self.look()["pages"]) >= least, seconds)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.command("status", "--json"))
        return found

    def wait(self, seconds: float = 400.0) -> None:
        """Until all agents have ended by themselves, with code 0."""
        end = time.monotonic() + seconds
        for name, process in self.agents.items():
            code = process.wait(max(end - time.monotonic(), 0.1))
            assert code in (0, -signal.SIGKILL), f"{name}: {code}\n{self.said(name)}"
            assert "Traceback" not in self.said(name), self.said(name)

    def fetch(self) -> Path:
        into = self.root / "home"
        self.command("fetch", "--into", str(into))
        return into

    def end(self) -> None:
        for process in self.agents.values():
            if process.poll() is None:
                process.kill()
                process.wait()


@contextlib.contextmanager
def cluster(root: Path, urls: tuple[str, ...], name: str, *flags: str, **access: str) -> Iterator[Cluster]:
    made = Cluster(root, urls, name, *flags, **access)
    try:
        yield made
    finally:
        made.end()


def until(true: Callable[[], bool], seconds: float = 400.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
