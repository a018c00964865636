"""The crawl's bucket of keys: small values that change by compare-and-set.

Laid out as every NATS client lays out a key-value bucket, so that `nats kv` shows it; read and written here
with two differences that leases need. Reads that a decision rests on go to the leader, since a replica may be
behind. And an update whose acknowledgement was lost is not an error but a doubt (`Unavailable`): the caller
reads the key again; every value carries who wrote it, so it can be told whether the write was taken.

    revision := the sequence of the key's last message; 0: the key is not there
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext

from lycosa.cluster.engine.connection import denied
from lycosa.cluster.engine.ordered import Ordered
from lycosa.cluster.engine.outcomes import Conflict, Unavailable
from lycosa.cluster.engine.publish import WrongLast, publish
from lycosa.cluster.engine.streams import Names
from lycosa.errors import ConfigError

_OPERATION = "KV-Operation"


class NoCrawl(Unavailable):
    """The servers have no bucket of that crawl."""


class Entry(NamedTuple):
    """A key's value as of a revision; None: it was deleted."""

    key: str
    revision: int
    value: bytes | None


class Bucket:
    """The keys of one crawl."""

    def __init__(self, client: Client, js: JetStreamContext, names: Names, *, timeout: float = 2.0) -> None:
        self._client = client
        self._js = js
        self._names = names
        self._timeout = timeout

    async def get(self, key: str) -> Entry | None:
        """The value of a key, from the leader; None if there never was one, or it was deleted."""
        entry = await self.last(key)
        return entry if entry is not None and entry.value is not None else None

    async def last(self, key: str) -> Entry | None:
        """Like `get`, but a deleted key is an entry without value, whose revision an update must name."""
        try:
            found = await self._js.get_msg(self._names.bucket_stream, subject=self._names.key_subject(key))
        except nats.js.errors.NotFoundError as error:
            if error.err_code == 10059:
                raise NoCrawl(f"there is no crawl {self._names.crawl} on these servers") from None
            return None
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise Unavailable(f"cannot read {key}: {error or error.__class__.__name__}") from None
        gone = (found.headers or {}).get(_OPERATION) in ("DEL", "PURGE")
        return Entry(key, int(found.seq or 0), None if gone else found.data or b"")

    async def update(self, key: str, value: bytes, revision: int) -> int:
        """Set a key that still has that revision; the new one. `Conflict` if it has another."""
        subject = self._names.key_subject(key)
        try:
            answer = await publish(
                self._js, subject, value, expected=revision, per_subject=True, timeout=self._timeout
            )
        except Unavailable:
            if subject.lower() in (why := denied(self._client)).lower():
                raise ConfigError(why) from None  # asking again would not help
            raise
        if isinstance(answer, WrongLast):
            raise Conflict(f"{key} was changed by somebody else")
        return answer

    async def put(self, key: str, value: bytes) -> int:
        """Set a key, whatever it was."""
        answer = await publish(self._js, self._names.key_subject(key), value, timeout=self._timeout)
        assert isinstance(answer, int)
        return answer

    async def delete(self, key: str, revision: int | None = None) -> None:
        """Delete a key (that still has that revision: `Conflict` if it has another)."""
        answer = await publish(
            self._js,
            self._names.key_subject(key),
            b"",
            headers={_OPERATION: "DEL"},
            expected=revision,
            per_subject=True,
            timeout=self._timeout,
        )
        if isinstance(answer, WrongLast):
            raise Conflict(f"{key} was changed by somebody else")

    def watch(self, pattern: str) -> Watch:
        """Every key of a pattern (`lease.*`) as it is, then every change; after a break, all again."""
        subject = self._names.key_subject(pattern)
        prefix = len(self._names.key_subject(""))
        return Watch(
            Ordered(self._client, self._js, self._names.bucket_stream, subject=subject, latest=True), prefix
        )

    async def all(self, pattern: str, seconds: float = 5.0) -> list[Entry]:
        """The keys of a pattern that have values."""
        # The number of keys is known first, so an empty bucket is no matter of waiting.
        subject = self._names.key_subject(pattern)
        try:
            info = await self._js.stream_info(self._names.bucket_stream, subjects_filter=subject)
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise Unavailable(f"cannot list {pattern}: {error}") from None
        if not info.state.subjects:
            return []
        watch = self.watch(pattern)
        found: dict[str, Entry] = {}
        try:
            while not watch.complete:
                got = await watch.next(seconds)
                if not got:
                    raise Unavailable(f"cannot list {pattern}: no answer")
                found |= {entry.key: entry for entry in got}
        finally:
            await watch.close()
        return [entry for entry in found.values() if entry.value is not None]


class Watch:
    """Changes of some keys."""

    def __init__(self, ordered: Ordered, prefix: int) -> None:
        self._ordered = ordered
        self._prefix = prefix

    @property
    def complete(self) -> bool:
        """Whether every key that there was has been seen."""
        return self._ordered.pending == 0

    async def next(self, seconds: float) -> list[Entry]:
        """Changes that have come; empty if there are none in time."""
        return [
            Entry(
                message.subject[self._prefix :],
                message.sequence,
                None if message.headers.get(_OPERATION) in ("DEL", "PURGE") else message.data,
            )
            for message in await self._ordered.next(seconds)
        ]

    async def changes(self) -> AsyncIterator[Entry]:
        """Changes for ever; a cut connection is waited out."""
        while True:
            with contextlib.suppress(Unavailable):
                for entry in await self.next(1.0):
                    yield entry

    async def close(self) -> None:
        await self._ordered.close()
