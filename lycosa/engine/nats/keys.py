"""The crawl's bucket of keys: small values that change by compare-and-set.

Laid out as every NATS client lays out a key-value bucket, so that `nats kv` shows it; read and written here
with two differences that leases need. Reads that a decision rests on go to the leader, since a replica may be
behind. And an update whose acknowledgement was lost is not an error but an unknown outcome (`Unavailable`): the
caller reads the key again; every value names its writer, so it can tell whether the write took effect.

    revision := the sequence of the key's last message; 0: the key is not there
"""

from __future__ import annotations

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext

from lycosa.engine.nats.connection import denied
from lycosa.engine.nats.names import Names
from lycosa.engine.nats.ordered import Ordered
from lycosa.engine.nats.publish import publish
from lycosa.engine.protocol import Absent, Conflict, Entry, Full, Message, Unavailable
from lycosa.errors import ConfigError

_OPERATION = "KV-Operation"
_LIST = 5.0


class NatsBucket:
    """The keys of one crawl."""

    def __init__(self, client: Client, js: JetStreamContext, names: Names, *, timeout: float = 2.0) -> None:
        self._client = client
        self._js = js
        self._names = names
        self._timeout = timeout

    async def get(self, key: str) -> Entry | Unavailable | None:
        entry = await self.last(key)
        return None if isinstance(entry, Entry) and entry.value is None else entry

    async def last(self, key: str) -> Entry | Unavailable | None:
        try:
            # Asked of the leader, not of any replica: a replica may be behind.
            found = await self._js.get_msg(self._names.bucket_stream, subject=f"{self._names.keys}.{key}")
        except nats.js.errors.NotFoundError as error:
            if error.err_code == 10059:
                return Absent(f"there is no crawl {self._names.crawl} on these servers")
            return None
        except (nats.errors.Error, TimeoutError, OSError) as error:
            return Unavailable(f"cannot read {key}: {error or error.__class__.__name__}")
        return Entry(key, int(found.seq or 0), None if _gone(found.headers) else found.data or b"")

    async def update(self, key: str, value: bytes, revision: int) -> int | Conflict | Unavailable:
        return await self._set(key, value, None, revision)

    async def put(self, key: str, value: bytes) -> int | Unavailable:
        answer = await self._set(key, value, None, None)
        assert not isinstance(answer, Conflict)
        return answer

    async def delete(self, key: str, revision: int | None = None) -> Conflict | Unavailable | None:
        answer = await self._set(key, b"", {_OPERATION: "DEL"}, revision)
        return None if isinstance(answer, int) else answer

    async def _set(
        self, key: str, value: bytes, headers: dict[str, str] | None, revision: int | None
    ) -> int | Conflict | Unavailable:
        subject = f"{self._names.keys}.{key}"
        answer = await publish(
            self._js,
            subject,
            value,
            headers=headers,
            expected=revision,
            per_subject=True,
            timeout=self._timeout,
        )
        if isinstance(answer, Conflict):
            return Conflict(f"{key} was changed by somebody else")
        if isinstance(answer, Full):
            return Unavailable(str(answer))
        if isinstance(answer, Unavailable) and subject.lower() in (why := denied(self._client)).lower():
            raise ConfigError(why)  # asking again would not help
        return answer

    def watch(self, pattern: str) -> NatsWatch:
        """The present value of every key of a pattern (`lease.*`), then every change; after a break, all again."""
        return NatsWatch(
            Ordered(
                self._client,
                self._js,
                self._names.bucket_stream,
                prefix=f"{self._names.keys}.",
                subject=f"{self._names.keys}.{pattern}",
                latest=True,
            )
        )

    async def all(self, pattern: str) -> list[Entry] | Unavailable:
        # The number of keys is known first, so that an empty bucket is seen without waiting.
        subject = f"{self._names.keys}.{pattern}"
        try:
            info = await self._js.stream_info(self._names.bucket_stream, subjects_filter=subject)
        except (nats.errors.Error, TimeoutError, OSError) as error:
            return Unavailable(f"cannot list {pattern}: {error}")
        if not info.state.subjects:
            return []
        watch = self.watch(pattern)
        found: dict[str, Entry] = {}
        try:
            while not watch.complete:
                entries = await watch.next(_LIST)
                if isinstance(entries, Unavailable):
                    return entries
                if not entries:
                    return Unavailable(f"cannot list {pattern}: no answer")
                found |= {entry.key: entry for entry in entries}
        finally:
            await watch.close()
        return [entry for entry in found.values() if entry.value is not None]


class NatsWatch:
    """Changes of some keys."""

    def __init__(self, ordered: Ordered) -> None:
        self._ordered = ordered

    @property
    def complete(self) -> bool:
        """Whether every key that existed at the start has been seen."""
        return self._ordered.pending == 0

    async def next(self, seconds: float) -> list[Entry] | Unavailable:
        messages = await self._ordered.next(seconds)
        return messages if isinstance(messages, Unavailable) else [_entry(message) for message in messages]

    async def close(self) -> None:
        await self._ordered.close()


def _entry(message: Message) -> Entry:
    return Entry(message.lane, message.sequence, None if _gone(message.headers) else message.data)


def _gone(headers: object) -> bool:
    return isinstance(headers, dict) and headers.get(_OPERATION) in ("DEL", "PURGE")
