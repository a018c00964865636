"""What a crawl keeps in JetStream, by name.

    lycosa_NAME_log_N       stream   lycosa.NAME.log.N          the tail of shard N's log
    lycosa_NAME_x_N         stream   lycosa.NAME.x.N.S          links for shard N, from shard S (or `seeds`)
    lycosa_NAME             bucket   lease.N agent.ID report.N crawl state quota
                            subject  lycosa.NAME.host.N         asks for a host's turn, answered by N's holder
                            subject  lycosa.NAME.turn.N         asks for an address's turn, answered by N's holder

All streams are kept in files, replicated as the crawl was created with, and have `discard: new`: at its limit a
stream refuses, and whoever publishes sees `Full` and waits. Nothing is dropped to make room, ever. What frees
room is the purge of what is safe elsewhere.

One exchange stream per receiving shard, not one for all. Measured on loopback with eight shards and batches of
100 links: the same on one server as far as could be told, up to 30 % slower with three copies (more groups to
replicate), and far from being what a crawl waits for either way. For that price a shard whose holder is away
fills only its own stream, and the others' links go on.

A stream's sequence numbers are never used again, also not after a purge of everything.
"""

from __future__ import annotations

import re

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext, api

from lycosa.cluster.engine.outcomes import Unavailable
from lycosa.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}\Z")
_BUCKET = "lycosa_"
_PAGE = 256
"""Streams that the servers tell of at a time."""
SEEDS = "seeds"


class Names:
    """The names of one crawl."""

    def __init__(self, crawl: str) -> None:
        if not _NAME.match(crawl):
            raise ConfigError(
                f"{crawl!r} cannot name a crawl of a cluster: letters, digits and hyphens, at most 40, please"
            )
        self.crawl = crawl
        self.bucket = f"{_BUCKET}{crawl}"
        self.bucket_stream = f"KV_{self.bucket}"

    def log(self, shard: int) -> str:
        return f"lycosa_{self.crawl}_log_{shard}"

    def log_subject(self, shard: int) -> str:
        return f"lycosa.{self.crawl}.log.{shard}"

    def exchange(self, receiver: int) -> str:
        return f"lycosa_{self.crawl}_x_{receiver}"

    def exchange_subject(self, receiver: int, sender: int | str) -> str:
        return f"lycosa.{self.crawl}.x.{receiver}.{sender}"

    def key_subject(self, key: str) -> str:
        return f"$KV.{self.bucket}.{key}"

    def host_subject(self, shard: int) -> str:
        return f"lycosa.{self.crawl}.host.{shard}"

    def turn_subject(self, shard: int) -> str:
        return f"lycosa.{self.crawl}.turn.{shard}"


def jetstream(client: Client, timeout: float = 5.0) -> JetStreamContext:
    return client.jetstream(timeout=timeout)


def log_config(names: Names, shard: int, *, replicas: int, max_bytes: int) -> api.StreamConfig:
    return _limits(names.log(shard), [names.log_subject(shard)], replicas, max_bytes)


def exchange_config(names: Names, receiver: int, *, replicas: int, max_bytes: int) -> api.StreamConfig:
    return _limits(names.exchange(receiver), [names.exchange_subject(receiver, "*")], replicas, max_bytes)


def bucket_config(names: Names, *, replicas: int) -> api.StreamConfig:
    """A key-value bucket as every NATS client lays it out: one message a key, the last one."""
    return api.StreamConfig(
        name=names.bucket_stream,
        subjects=[f"$KV.{names.bucket}.>"],
        retention=api.RetentionPolicy.LIMITS,
        storage=api.StorageType.FILE,
        discard=api.DiscardPolicy.NEW,
        num_replicas=replicas,
        max_msgs_per_subject=1,
        deny_delete=True,
        allow_rollup_hdrs=True,
        allow_direct=True,
        duplicate_window=120,
    )


def _limits(name: str, subjects: list[str], replicas: int, max_bytes: int) -> api.StreamConfig:
    return api.StreamConfig(
        name=name,
        subjects=subjects,
        retention=api.RetentionPolicy.LIMITS,
        storage=api.StorageType.FILE,
        discard=api.DiscardPolicy.NEW,
        num_replicas=replicas,
        max_bytes=max_bytes,
        deny_delete=True,
        duplicate_window=120,
    )


async def ensure(js: JetStreamContext, config: api.StreamConfig) -> None:
    """Make the stream, unless it is there."""
    try:
        await js.add_stream(config)
    except nats.js.errors.APIError as error:
        if error.err_code == 10058:  # a stream of that name with another configuration
            return
        if error.err_code in (10074, 10005):
            raise ConfigError(
                f"the servers cannot keep {config.num_replicas} copies: start more, or create with fewer replicas"
            ) from None
        if error.err_code in (10047, 10028, 10023):
            raise ConfigError(
                f"the servers have no room for the stream {config.name}: {error.description}"
            ) from None
        raise Unavailable(f"cannot make the stream {config.name}: {error.description}") from None
    except (nats.errors.Error, TimeoutError) as error:
        raise Unavailable(f"cannot make the stream {config.name}: {error}") from None


async def leader_of(js: JetStreamContext, stream: str) -> str:
    """The name of the server that leads a stream; empty while there is none."""
    try:
        info = await js.stream_info(stream)
    except (nats.errors.Error, TimeoutError):
        return ""
    return (info.cluster.leader or "") if info.cluster is not None else ""


async def ends(js: JetStreamContext, stream: str) -> tuple[int, int]:
    """The first and the last sequence of a stream; first = last + 1 if it is empty."""
    try:
        info = await js.stream_info(stream)
    except (nats.errors.Error, TimeoutError) as error:
        raise Unavailable(f"cannot ask for the stream {stream}: {error}") from None
    return info.state.first_seq, info.state.last_seq


async def crawl_names(js: JetStreamContext) -> list[str]:
    """The crawls that the servers have, by their buckets."""
    prefix, found, seen = f"KV_{_BUCKET}", [], 0
    while True:
        try:
            page = await js.streams_info(seen)
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise Unavailable(f"cannot list the streams: {error or error.__class__.__name__}") from None
        found += [info.config.name or "" for info in page]
        seen += len(page)
        if len(page) < _PAGE:
            break
    return sorted(
        name[len(prefix) :] for name in found if name.startswith(prefix) and _NAME.match(name[len(prefix) :])
    )


async def remove_all(js: JetStreamContext, names: Names, shards: int) -> None:
    """Remove everything of a crawl from the servers."""
    streams = [names.log(n) for n in range(shards)] + [names.exchange(n) for n in range(shards)]
    for stream in (*streams, names.bucket_stream):
        try:
            await js.delete_stream(stream)
        except nats.js.errors.NotFoundError:
            continue
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise Unavailable(
                f"cannot remove the stream {stream}: {error or error.__class__.__name__}"
            ) from None
