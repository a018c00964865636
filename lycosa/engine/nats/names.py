"""The names of a crawl's objects in JetStream.

    engine      JetStream
    stream S    stream lycosa_NAME_S (dots in S are underlines), subject lycosa.NAME.S, or lycosa.NAME.S.LANE
    bucket      bucket lycosa_NAME, as every NATS client lays out a key-value bucket
    subject S   subject lycosa.NAME.S

All streams are kept in files, replicated as the crawl was created with, and have `discard: new`: at its limit a
stream refuses messages, and the appender gets `Full` and waits. Nothing is ever dropped to make room; only purging
messages that are safe elsewhere makes room.

A stream's sequence numbers are never used again, also not after a purge of everything.
"""

from __future__ import annotations

import re

import nats.errors
import nats.js.errors
from nats.js import JetStreamContext, api

from lycosa.engine.protocol import StreamPlan, Unavailable
from lycosa.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}\Z")
_BUCKET = "lycosa_"
_PAGE = 256
"""Streams that the servers list per request."""


class Names:
    """The names of one crawl."""

    def __init__(self, crawl: str) -> None:
        if not _NAME.match(crawl):
            raise ConfigError(
                f"{crawl!r} cannot name a crawl of a cluster: letters, digits and hyphens, at most 40"
            )
        self.crawl = crawl
        self.bucket = f"{_BUCKET}{crawl}"
        self.bucket_stream = f"KV_{self.bucket}"
        self.keys = f"$KV.{self.bucket}"
        """Prefix of the subject of a key, which is this, a dot and the key."""

    def stream(self, name: str) -> str:
        return f"lycosa_{self.crawl}_{name.replace('.', '_')}"

    def subject(self, name: str) -> str:
        return f"lycosa.{self.crawl}.{name}"


def stream_config(names: Names, plan: StreamPlan, replicas: int) -> api.StreamConfig:
    subject = names.subject(plan.name)
    return api.StreamConfig(
        name=names.stream(plan.name),
        subjects=[f"{subject}.*" if plan.lanes else subject],
        retention=api.RetentionPolicy.LIMITS,
        storage=api.StorageType.FILE,
        discard=api.DiscardPolicy.NEW,
        num_replicas=replicas,
        max_bytes=plan.bytes,
        deny_delete=True,
        duplicate_window=120,
    )


def bucket_config(names: Names, replicas: int) -> api.StreamConfig:
    """A key-value bucket as every NATS client lays it out: one message per key, the last one."""
    return api.StreamConfig(
        name=names.bucket_stream,
        subjects=[f"{names.keys}.>"],
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


async def ensure(js: JetStreamContext, config: api.StreamConfig) -> Unavailable | None:
    """Create the stream unless it exists."""
    try:
        await js.add_stream(config)
    except nats.js.errors.APIError as error:
        if error.err_code == 10058:  # a stream of that name with another configuration
            return None
        if error.err_code in (10074, 10005):
            raise ConfigError(
                f"the servers cannot keep {config.num_replicas} copies: start more, or create with fewer replicas"
            ) from None
        if error.err_code in (10047, 10028, 10023):
            raise ConfigError(
                f"the servers have no room for the stream {config.name}: {error.description}"
            ) from None
        return Unavailable(f"cannot make the stream {config.name}: {error.description}")
    except (nats.errors.Error, TimeoutError) as error:
        return Unavailable(f"cannot make the stream {config.name}: {error}")
    return None


async def remove(js: JetStreamContext, stream: str) -> Unavailable | None:
    try:
        await js.delete_stream(stream)
    except nats.js.errors.NotFoundError:
        return None
    except (nats.errors.Error, TimeoutError, OSError) as error:
        return Unavailable(f"cannot remove the stream {stream}: {error or error.__class__.__name__}")
    return None


async def crawl_names(js: JetStreamContext) -> list[str] | Unavailable:
    """The crawls that the servers have, found by their buckets."""
    prefix, found, seen = f"KV_{_BUCKET}", [], 0
    while True:
        try:
            page = await js.streams_info(seen)
        except (nats.errors.Error, TimeoutError, OSError) as error:
            return Unavailable(f"cannot list the streams: {error or error.__class__.__name__}")
        found += [info.config.name or "" for info in page]
        seen += len(page)
        if len(page) < _PAGE:
            break
    return sorted(
        name[len(prefix) :] for name in found if name.startswith(prefix) and _NAME.match(name[len(prefix) :])
    )
