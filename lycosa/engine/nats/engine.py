"""The engine on JetStream: the streams, keys and requests of one crawl over one connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext

from lycosa.engine.nats.connection import ConnectionOptions, connect, denied
from lycosa.engine.nats.keys import NatsBucket
from lycosa.engine.nats.names import Names, bucket_config, crawl_names, ensure, remove, stream_config
from lycosa.engine.nats.ordered import Ordered
from lycosa.engine.nats.publish import publish
from lycosa.engine.protocol import Absent, Conflict, Ends, Full, Message, StreamPlan, Unavailable, got

_TIMEOUT = 5.0
_CLOSE = 2.0
_FLUSH = 2


class NatsStream:
    """A stream of JetStream; see `lycosa.engine.protocol.Stream`."""

    def __init__(self, client: Client, js: JetStreamContext, name: str, subject: str) -> None:
        self.name = name
        self._client = client
        self._js = js
        self._subject = subject

    async def append(
        self,
        data: bytes,
        *,
        lane: str = "",
        headers: Mapping[str, str] | None = None,
        expected: int | None = None,
        seconds: float = 5.0,
    ) -> int | Conflict | Full | Unavailable:
        return await publish(
            self._js, self._lane(lane), data, headers=headers, expected=expected, timeout=seconds
        )

    async def at(self, sequence: int) -> Message | Unavailable | None:
        return await self._get(seq=sequence)

    async def newest(self, lane: str) -> Message | Unavailable | None:
        return await self._get(subject=self._lane(lane))

    async def _get(self, seq: int | None = None, subject: str | None = None) -> Message | Unavailable | None:
        try:
            # Asked of the leader, not of any replica: a replica may be behind.
            found = await self._js.get_msg(self.name, seq=seq, subject=subject)
        except nats.js.errors.NotFoundError as error:
            if error.err_code == 10059:
                return Absent(f"there is no stream {self.name}")
            return None
        except (nats.errors.Error, TimeoutError, OSError) as error:
            return Unavailable(f"cannot read {self.name}: {error or error.__class__.__name__}")
        lane = (found.subject or "")[len(self._subject) + 1 :]
        return Message(int(found.seq or 0), lane, dict(found.headers or {}), found.data or b"")

    async def ends(self) -> Ends | Unavailable:
        try:
            info = await self._js.stream_info(self.name)
        except (nats.errors.Error, TimeoutError, OSError) as error:
            return Unavailable(f"cannot ask for the stream {self.name}: {error}")
        return Ends(max(info.state.first_seq, 1), info.state.last_seq)

    async def leader(self) -> str:
        """The name of the server that leads the stream; empty while there is none."""
        try:
            info = await self._js.stream_info(self.name)
        except (nats.errors.Error, TimeoutError):
            return ""
        return (info.cluster.leader or "") if info.cluster is not None else ""

    def read(self, after: int = 0) -> Ordered:
        return Ordered(self._client, self._js, self.name, prefix=f"{self._subject}.", after=after)

    async def purge(self, before: int, lane: str | None = None) -> Unavailable | None:
        subject = None if lane is None else self._lane(lane)
        try:
            await self._js.purge_stream(self.name, seq=before, subject=subject)
        except (nats.errors.Error, TimeoutError, OSError) as error:
            return Unavailable(f"cannot purge {self.name}: {error}")
        return None

    def _lane(self, lane: str) -> str:
        return f"{self._subject}.{lane}" if lane else self._subject


class NatsAnswering:
    """A subscription whose messages are answered."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    async def stop(self) -> None:
        with contextlib.suppress(nats.errors.Error):
            await self._subscription.unsubscribe()


class NatsRequests:
    """Request and reply over subjects."""

    def __init__(self, client: Client, names: Names) -> None:
        self._client = client
        self._names = names

    async def ask(self, subject: str, data: bytes, seconds: float) -> bytes | Unavailable:
        try:
            answer = await self._client.request(self._names.subject(subject), data, timeout=seconds)
        except (nats.errors.Error, TimeoutError, OSError) as error:
            return Unavailable(f"{subject}: {error or error.__class__.__name__}")
        return answer.data

    async def tell(self, subject: str, data: bytes) -> None:
        with contextlib.suppress(nats.errors.Error, OSError):
            await self._client.publish(self._names.subject(subject), data)

    async def answer(
        self, subject: str, answer: Callable[[bytes], bytes | None]
    ) -> NatsAnswering | Unavailable:
        async def came(message: Msg) -> None:
            said = answer(message.data)
            if said is not None and message.reply:
                with contextlib.suppress(nats.errors.Error):
                    await message.respond(said)

        try:
            subscription = await self._client.subscribe(self._names.subject(subject), cb=came)
        except (nats.errors.Error, TimeoutError, OSError) as error:
            return Unavailable(f"cannot answer for {subject}: {error or error.__class__.__name__}")
        # A round trip, so that the servers know of the subscription (if they are away, they learn it later). Two
        # flushes: the library writes a ping at once, ahead of its write buffer; only the second ping is sent
        # after the subscription.
        with contextlib.suppress(nats.errors.Error, TimeoutError, OSError):
            await self._client.flush(_FLUSH)
            await self._client.flush(_FLUSH)
        return NatsAnswering(subscription)


class NatsEngine:
    """One crawl on NATS servers."""

    def __init__(self, client: Client, crawl: str) -> None:
        self._client = client
        self._names = Names(crawl)
        self._js = client.jetstream(timeout=_TIMEOUT)
        self.bucket = NatsBucket(client, self._js, self._names)
        self.requests = NatsRequests(client, self._names)

    @staticmethod
    async def open(options: ConnectionOptions, crawl: str, name: str = "lycosa cluster") -> NatsEngine:
        """Connect with this client name; `ConfigError` if that fails."""
        Names(crawl)
        return NatsEngine(await connect(options, name), crawl)

    @property
    def crawl(self) -> str:
        return self._names.crawl

    @property
    def denied(self) -> str:
        return denied(self._client)

    def stream(self, name: str) -> NatsStream:
        return NatsStream(self._client, self._js, self._names.stream(name), self._names.subject(name))

    async def create(self, streams: Sequence[StreamPlan], replicas: int) -> Unavailable | None:
        away = await ensure(self._js, bucket_config(self._names, replicas))
        for start in range(0, len(streams), 2):
            made = (
                ensure(self._js, stream_config(self._names, plan, replicas))
                for plan in streams[start : start + 2]
            )
            away = away or next((each for each in await asyncio.gather(*made) if each is not None), None)
            if away is not None:
                return away
        return away

    async def remove(self, streams: Sequence[str]) -> Unavailable | None:
        for stream in (*map(self._names.stream, streams), self._names.bucket_stream):
            if (away := await remove(self._js, stream)) is not None:
                return away
        return None

    async def close(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._client.close(), _CLOSE)


@contextlib.asynccontextmanager
async def every_crawl(options: ConnectionOptions) -> AsyncIterator[list[NatsEngine]]:
    """All crawls on the servers, over one connection."""
    client = await connect(options, "lycosa cluster")
    try:
        found = got(await crawl_names(client.jetstream(timeout=_TIMEOUT)))
        yield [NatsEngine(client, name) for name in found]
    finally:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(client.close(), _CLOSE)
