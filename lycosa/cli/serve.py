"""`lycosa serve`: the crawl in a browser.

The link that is printed holds a token that is made at every start; without it nothing is answered. By default only
this machine can ask. Anywhere else needs `--public`, since the token and all that is shown would cross the network
in clear: put a proxy with TLS before it, and give its name with `--name`.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import socket
import sys
from pathlib import Path

from lycosa.errors import ConfigError

HELP = "show a crawl in a browser, and answer programs over HTTP"
EPILOG = """\
examples:
  lycosa serve crawls/example
  lycosa serve crawls/example --port 8100 --token-file token
  curl -H "Authorization: Bearer $(cat token)" http://127.0.0.1:8100/api/status
"""
PORT = 8020
_TRIES = 20


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the crawl's directory")
    parser.add_argument(
        "--port", type=int, metavar="N", help=f"where to listen (the first that is free from {PORT} on)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--public", action="store_true", help="listen on an address that others can reach")
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
    app = application(args.directory, Guard(token, frozenset(names), cookie=f"lycosa-{port}"))
    print(f"http://{shown}:{port}/?token={token}")
    print("open this link; Ctrl-C ends it", file=sys.stderr)
    sys.stdout.flush()
    config = uvicorn.Config(
        app, log_level="warning", lifespan="on", server_header=False, timeout_graceful_shutdown=2
    )
    uvicorn.Server(config).run(sockets=[listening])
    return 0


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token(path: Path | None) -> str:
    from lycosa.serve.guard import new_token

    if path is None:
        return new_token()
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
                    f"port {port} of {host} cannot be had ({error}): give another --port"
                ) from None
            continue
        return listening
    raise ConfigError(f"no port of {host} from {PORT} to {PORT + _TRIES - 1} is free: give one with --port")
