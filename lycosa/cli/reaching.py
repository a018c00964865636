"""Options of the verbs that connect to a cluster: where its servers are, and the credentials.

From the command line, from the environment (LYCOSA_CLUSTER, LYCOSA_CLUSTER_PASSWORD, LYCOSA_CLUSTER_CONFIG), or
from a TOML file with a table [cluster] with the names of `ConnectionOptions`. Earlier sources take precedence.
"""

from __future__ import annotations

import argparse
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from lycosa.engine.nats.connection import ConnectionOptions

_FLAGS = {
    "ca": "ca",
    "cert": "cert",
    "key": "key",
    "creds": "credentials",
    "nats_user": "user",
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags for connecting to the servers."""
    to = parser.add_argument_group("the cluster's servers")
    to.add_argument(
        "--cluster",
        action="append",
        metavar="URL,...",
        help="nats://HOST:4222 (or tls://), separated by commas (default: $LYCOSA_CLUSTER)",
    )
    to.add_argument("--ca", metavar="FILE", help="PEM of the authority that signed the servers' certificates")
    to.add_argument(
        "--cert", metavar="FILE", help="PEM of the client certificate, if the servers require one"
    )
    to.add_argument("--key", metavar="FILE", help="PEM of its key")
    to.add_argument("--creds", metavar="FILE", help="NATS credentials: a user's JWT and seed")
    to.add_argument("--nats-user", metavar="NAME", help="with the password in $LYCOSA_CLUSTER_PASSWORD")
    to.add_argument(
        "--cluster-config",
        type=Path,
        metavar="FILE",
        help="TOML file with these settings in a table [cluster]",
    )


def connection(args: argparse.Namespace) -> ConnectionOptions:
    """The options for connecting to the servers."""
    demand_engine()
    from lycosa import options
    from lycosa.engine.nats.connection import ConnectionOptions

    given = _from_file(args)
    servers = args.cluster or [part for part in [os.environ.get("LYCOSA_CLUSTER", "")] if part]
    urls = [url for text in servers for url in text.replace(",", " ").split()]
    if urls:
        given["servers"] = urls
    if not given.get("servers"):
        raise ConfigError("give the cluster's servers: --cluster nats://HOST:4222 (or $LYCOSA_CLUSTER)")
    if isinstance(given["servers"], list):
        for url in given["servers"]:
            if not str(url).startswith(("nats://", "tls://")):
                raise ConfigError(
                    f"{url!r} is not the address of a NATS server: write it like nats://HOST:4222"
                )
    for flag, name in _FLAGS.items():
        if (value := getattr(args, flag)) is not None:
            given[name] = value
    if password := os.environ.get("LYCOSA_CLUSTER_PASSWORD"):
        given.setdefault("password", password)
    return options.read(ConnectionOptions, given, "cluster")


def _from_file(args: argparse.Namespace) -> dict[str, Any]:
    named = os.environ.get("LYCOSA_CLUSTER_CONFIG")
    path = args.cluster_config or (Path(named) if named else None)
    if path is None:
        return {}
    try:
        table = tomllib.loads(path.read_text("utf-8")).get("cluster", {})
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: cluster is a table: [cluster]")
    return dict(table)


def demand_engine() -> None:
    """Fails if the engine's client, an optional extra, is not installed."""
    try:
        import nats  # noqa: F401
    except ImportError:
        raise ConfigError("a cluster needs the extra: pip install 'lycosa[cluster]'") from None
