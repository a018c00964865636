"""`lycosa serve`: shows the crawl in a browser.

The printed link contains a token that is made at every start; without it nothing is answered. By default only
this machine can connect. Access from elsewhere needs `--public`, since the token and all content would cross the
network in clear: put a proxy with TLS before it, and give its name with `--name`.

The logs of a cluster's crawl (`nats://SERVER,.../NAME`) are copied into a directory and kept current there
(`lycosa.cluster.following`), in a thread of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lycosa.cli import reaching
from lycosa.cli.streams import printable
from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from lycosa.files import Files

HELP = "show a crawl in a browser, and answer programs over HTTP"
EPILOG = """\
examples:
  lycosa serve crawls/example
  lycosa serve crawls/example --port 8100 --token-file token
  lycosa serve nats://n1:4222,nats://n2:4222/web --into crawls/web      (a crawl of a cluster, while it runs)
  curl -H "Authorization: Bearer $(cat token)" http://127.0.0.1:8100/api/status
"""
PORT = 8020
_TRIES = 20
_PATIENCE = 5.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "crawl",
        metavar="DIR",
        help="the crawl's directory; or nats://HOST:4222,.../NAME, a crawl of a cluster",
    )
    parser.add_argument(
        "--into",
        type=Path,
        metavar="DIR",
        help="of a cluster's crawl: where its logs are copied and kept current",
    )
    parser.add_argument(
        "--port", type=int, metavar="N", help=f"where to listen (the first that is free from {PORT} on)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--public", action="store_true", help="listen on an address that others can reach")
    parser.add_argument(
        "--with-parent", action="store_true", help=argparse.SUPPRESS
    )  # ends with standard input
    parser.add_argument("--read-only", action="store_true", help="nothing can be changed from the page")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST[:PORT]",
        help="a name that it is asked for by, too",
    )
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="read the token from here, or write it"
    )
    reaching.add_flags(parser)


def run(args: argparse.Namespace) -> int:
    try:
        import uvicorn

        from lycosa.serve.app import application
        from lycosa.serve.guard import Guard
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is missing: pip install 'lycosa[serve]'") from None

    loopback = _is_loopback(args.host)
    if not loopback and not args.public:
        raise ConfigError(
            f"{args.host} can be reached by others: add --public if they may, behind a proxy with TLS (--name)"
        )
    token = _token(args.token_file)
    listening = _listen(args.host, args.port)
    port = listening.getsockname()[1]
    shown = f"[{args.host}]" if ":" in args.host else args.host
    names = {f"{shown}:{port}", f"localhost:{port}", *(name.lower() for name in args.name)}
    guard = Guard(token, frozenset(names), cookie=f"lycosa-{port}")
    with _followed(args) as (directory, archive):
        app = application(directory, guard, acts=not args.read_only, archive=archive)
        print(f"http://{shown}:{port}/?token={token}")
        print("open this link; Ctrl-C ends it", file=sys.stderr)
        sys.stdout.flush()
        config = uvicorn.Config(
            app, log_level="warning", lifespan="on", server_header=False, timeout_graceful_shutdown=2
        )
        server = uvicorn.Server(config)
        if args.with_parent:
            threading.Thread(target=_end_with_parent, args=(server,), daemon=True).start()
        server.run(sockets=[listening])
    return 0


@contextmanager
def _followed(args: argparse.Namespace) -> Iterator[tuple[Path, Files | None]]:
    """The directory to show, and where its bodies are if elsewhere; kept current for a cluster's crawl."""
    if not args.crawl.startswith(("nats://", "tls://")):
        if args.into is not None:
            raise ConfigError(
                "--into is for a crawl of a cluster: lycosa serve nats://HOST:4222/NAME --into DIR"
            )
        yield Path(args.crawl), None
        return
    servers, _, name = args.crawl.rpartition("/")
    if not name or servers.endswith("/"):
        raise ConfigError(f"name the crawl, too: lycosa serve {args.crawl.rstrip('/')}/NAME --into DIR")
    if args.into is None:
        raise ConfigError("give the directory that the crawl's logs are copied to: --into DIR")
    args.cluster = [servers]
    options = reaching.connection(args)
    ready: Future[Any] = Future()
    begun: Future[Callable[[], object]] = Future()

    async def following() -> None:
        from lycosa.cluster.following import follow
        from lycosa.cluster.operating import Operator
        from lycosa.cluster.storage.opening import open_storage
        from lycosa.engine.nats.engine import NatsEngine

        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        begun.set_result(partial(loop.call_soon_threadsafe, task.cancel))
        engine = await NatsEngine.open(options, name)
        operator = Operator(engine, partial(open_storage, connection=options))
        try:
            await follow(engine, operator, args.into, _tell, ready.set_result)
        finally:
            await operator.close()

    def run() -> None:
        try:
            asyncio.run(following())
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            elif not isinstance(error, asyncio.CancelledError):
                _tell(f"note: {args.into} is not kept current any more: {error}")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield args.into, ready.result().archive
    finally:
        with suppress(RuntimeError):  # it has ended already
            begun.result()()
        thread.join(_PATIENCE)


def _tell(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)


def _end_with_parent(server: Any) -> None:
    """End the server when the parent is gone: it holds the other end of standard input."""
    while os.read(0, 1 << 12):
        pass
    server.should_exit = True


class Beside:
    """`lycosa serve` in a separate process, beside a crawl: it does not slow the crawl, and ends with it."""

    def __init__(self, directory: Path) -> None:
        words = ["serve", str(directory), "--with-parent"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lycosa.cli.main", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the crawl, which may take a while to end and is watched
        )

    def link(self) -> str:
        """Waits for the server and returns its message: the link, or why there is none."""
        assert self._process.stdout is not None
        if line := self._process.stdout.readline().decode().strip():
            return f"the crawl in a browser: {line}"
        _, error = self._process.communicate()
        told = error.decode("utf-8", "replace").strip().splitlines()
        return f"note: no page is served: {told[-1] if told else 'lycosa serve ended'}"

    def end(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token(path: Path | None) -> str:
    from lycosa.serve.guard import new_token

    if path is None:
        return new_token()
    try:
        return _kept_token(path)
    except OSError as error:
        raise ConfigError(f"cannot use the token file {path}: {error.strerror}") from None


def _kept_token(path: Path) -> str:
    """The token in the file, which is made if it is missing."""
    from lycosa.serve.guard import new_token

    if path.exists():
        token = path.read_text(encoding="utf-8", errors="replace").strip()
        if len(token) < 16 or not token.isascii() or not token.replace("-", "").replace("_", "").isalnum():
            raise ConfigError(
                f"{path} holds no token: 16 letters and digits at least; remove it to have one made"
            )
        return token
    token = new_token()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token + "\n")
    return token


def _listen(host: str, port: int | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in [port] if port is not None else range(PORT, PORT + _TRIES):
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
            listening.listen(64)
        except (OSError, OverflowError) as error:
            listening.close()
            if port is not None:
                raise ConfigError(
                    f"port {port} of {host} is not available ({error}): choose another --port"
                ) from None
            continue
        return listening
    raise ConfigError(f"no port of {host} from {PORT} to {PORT + _TRIES - 1} is free: choose one with --port")
