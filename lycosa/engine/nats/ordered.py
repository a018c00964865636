"""Reading a stream in order: an ordered, unacknowledged consumer that begins where the reader says.

The reader keeps its own place: it stores the sequence of the last message whose effect it has stored, and
begins at `last + 1`. The server keeps no state that matters. (A durable consumer keeps a place of its own, and
the two disagree after a crash: a message that was delivered and not acknowledged comes again *later*, behind
newer ones; "skip what is <= last" then drops it for good. A test run failed that way.)

The consumer is a pull consumer without acknowledgements, in memory, on one server. Its deliveries are numbered
1, 2, 3 ... If a number is not the next one, if there is silence for longer than two heartbeats, if the consumer is
gone (its server died), or if any other answer than a message comes, it is made again at `last + 1`. So messages
come in order, none missing, none twice, whatever happens to servers and connections. Pulling limits the messages
under way to one batch.

    reply of a delivery := $JS.ACK [domain account] stream consumer deliveries sequence number time pending [token]
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any

import msgspec
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext, api

from lycosa.engine.protocol import Absent, Message, Unavailable

BATCH = 256
BATCH_BYTES = 8 << 20
_EXPIRES = 5.0
_HEARTBEAT = 1.0
_IDLE = 60.0


class Ordered:
    """The messages of a stream after a sequence, in order."""

    def __init__(
        self,
        client: Client,
        js: JetStreamContext,
        stream: str,
        *,
        prefix: str = "",
        after: int = 0,
        subject: str = "",
        latest: bool = False,
    ) -> None:
        """`prefix`: the common prefix of the subjects; the rest is the lane. `latest`: begin with the last message
        of every subject, for keys; and again after every break."""
        self._client = client
        self._js = js
        self._stream = stream
        self._prefix = len(prefix)
        self._subject = subject
        self._latest = latest
        self.last = after
        """The sequence of the last message handed over."""
        self.made = 0
        """How many consumers have been made so far."""
        self.pending = -1
        """How many messages were left in the stream behind the last one handed over."""
        self._arrived: deque[Msg] = deque()
        self._wake = asyncio.Event()
        self._subscription: Subscription | None = None
        self._consumer = ""
        self._number = 0
        self._asked = 0  # messages that the pull under way may still bring
        self._heard = 0.0
        self._inbox = ""

    async def next(self, seconds: float, most: int = BATCH) -> list[Message] | Unavailable:
        """The messages that have arrived, at most `most`; empty if none came in time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            if not self._consumer and (away := await self._make(end)) is not None:
                return away
            got = self._sift(most)
            if got:
                return got
            if not self._consumer:
                continue
            now = loop.time()
            if self._asked and now - self._heard > 2 * _HEARTBEAT + 0.5:
                await self._break()
                continue
            if not self._asked and not await self._ask():
                continue
            if now >= end:
                return []
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), min(end - now, 0.5))

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, ""
        await self._unsubscribe()
        if consumer and self._client.is_connected:
            with contextlib.suppress(nats.errors.Error, TimeoutError):
                await self._js.delete_consumer(self._stream, consumer)

    # -- the consumer

    async def _make(self, end: float) -> Unavailable | None:
        """Make the consumer at last + 1; retried until `end`."""
        loop = asyncio.get_running_loop()
        while True:
            self._inbox = self._client.new_inbox()
            self._arrived.clear()
            try:
                self._subscription = await self._client.subscribe(self._inbox, cb=self._came)
                made = await self._js.add_consumer(self._stream, self._config(), timeout=2.0)
                self._consumer, self._number, self._asked = made.name, 0, 0
                self.made += 1
                return None
            except (nats.errors.Error, TimeoutError, OSError) as error:
                await self._unsubscribe()
                if isinstance(error, nats.js.errors.NotFoundError) and error.err_code == 10059:
                    return Absent(f"there is no stream {self._stream}")
                if loop.time() + 0.1 > end:
                    return Unavailable(f"cannot read {self._stream}: {error or error.__class__.__name__}")
                await asyncio.sleep(0.1)

    def _config(self) -> api.ConsumerConfig:
        config = api.ConsumerConfig(
            ack_policy=api.AckPolicy.NONE,
            replay_policy=api.ReplayPolicy.INSTANT,
            inactive_threshold=_IDLE,
            num_replicas=1,
            mem_storage=True,
            filter_subject=self._subject or None,
        )
        if self._latest:
            config.deliver_policy = api.DeliverPolicy.LAST_PER_SUBJECT
        else:
            config.deliver_policy = api.DeliverPolicy.BY_START_SEQUENCE
            config.opt_start_seq = self.last + 1
        return config

    async def _ask(self) -> bool:
        request = {
            "batch": BATCH,
            "max_bytes": BATCH_BYTES,
            "expires": int(_EXPIRES * 1e9),
            "idle_heartbeat": int(_HEARTBEAT * 1e9),
        }
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        try:
            await self._client.publish(subject, msgspec.json.encode(request), reply=self._inbox)
        except (nats.errors.Error, OSError):
            await self._break()
            await asyncio.sleep(0.05)
            return False
        self._asked = BATCH
        self._heard = asyncio.get_running_loop().time()
        return True

    async def _break(self) -> None:
        """Abandon the consumer; the next one begins at last + 1. The server drops an idle one by itself."""
        self._consumer = ""
        self._arrived.clear()
        await self._unsubscribe()

    async def _unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with contextlib.suppress(nats.errors.Error):
                await subscription.unsubscribe()

    # -- deliveries

    async def _came(self, message: Msg) -> None:
        self._heard = asyncio.get_running_loop().time()
        if message.headers and message.headers.get("Status") == "100":
            return  # a heartbeat: only a sign of life
        if message.subject == self._inbox or message.reply.startswith("$JS.ACK"):
            self._arrived.append(message)
            self._wake.set()

    def _sift(self, most: int) -> list[Message]:
        got: list[Message] = []
        while self._arrived and len(got) < most:
            message = self._arrived.popleft()
            if message.headers and "Status" in message.headers and not message.reply.startswith("$JS.ACK"):
                self._asked = 0
                if message.headers["Status"] in ("404", "408") or "Completed" in _description(message):
                    continue  # the pull has ended, the consumer is intact
                if message.headers["Status"] == "409" and "MaxBytes" in _description(message).replace(
                    " ", ""
                ):
                    continue
                self._consumer = ""  # it or its leader is gone: begin again
                self._arrived.clear()
                break
            sequence, number, pending = _place(message.reply)
            if number != self._number + 1:
                self._consumer = ""
                self._arrived.clear()
                break
            self._number = number
            self._asked = max(self._asked - 1, 0)
            self.last, self.pending = sequence, pending
            lane = message.subject[self._prefix :]
            got.append(Message(sequence, lane, dict(message.headers or {}), message.data))
        return got


def _description(message: Msg) -> str:
    headers: dict[str, Any] = message.headers or {}
    return str(headers.get("Description", ""))


def _place(reply: str) -> tuple[int, int, int]:
    """The stream sequence, the delivery's number, and how many messages are left behind it."""
    tokens = reply.split(".")
    at = 5 if len(tokens) == 9 else 7
    return int(tokens[at]), int(tokens[at + 1]), int(tokens[at + 3])
