"""Asking for the turn of an address, and answering for those that are ours: request and reply over NATS.

    lycosa.NAME.turn.N      request  {"address", "who", "back": bool}
                            reply    {"seconds": s, "granted": bool}

The holder of shard N answers, and only while its lease lets it fetch: a holder that is cut off or late grants
nothing, so that it and its successor never both do (the successor waits one expiry besides, unless it was left the
turns that are out, see `turn_table`). No answer means no
turn: the asker tries later. A turn is nobody's right, only the way to be polite.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from lycosa.clock import Clock
from lycosa.cluster.engine.foreign import Foreign
from lycosa.cluster.engine.streams import Names
from lycosa.cluster.engine.turn_table import Granted, Later, Left, TurnTable, owner_of

_ANSWER = 1.0
_AGAIN = 1.0
_LOOK = 0.05
EXPIRY = 60.0
"""Longer than a visit of one address; a dead agent's addresses wait so long."""


class _Request(msgspec.Struct):
    address: str
    who: str
    back: bool = False


class _Reply(msgspec.Struct):
    seconds: float
    granted: bool = False


class TurnKeeper:
    """Answers for the addresses of the shards that this agent holds."""

    def __init__(
        self,
        client: Client,
        names: Names,
        clock: Clock,
        *,
        expiry: float = EXPIRY,
        wait: float = 0.5,
        foreign: Foreign | None = None,
    ) -> None:
        self._foreign = foreign or Foreign()
        self._client = client
        self._names = names
        self._clock = clock
        self._expiry = expiry
        self._wait = wait
        self._subscriptions: dict[int, Subscription] = {}
        self._tables: dict[int, TurnTable] = {}

    async def keep(self, shard: int, may_grant: Callable[[], bool], left: Left | None = None) -> None:
        """Begin to answer for a shard; `may_grant`: whether our lease lets us (`Holding.may_fetch`).

        `left`: the turns that the holder before us left out; empty if there was none; None if it did not say.
        """
        now = self._clock.monotonic()
        table = TurnTable(now, expiry=self._expiry, wait=self._wait, left=left)

        async def answer(message: Msg) -> None:
            try:
                asked = msgspec.json.decode(message.data, type=_Request)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                self._foreign.note(message.subject, "has requests that cannot be read")
                return
            now = self._clock.monotonic()
            if asked.back:
                table.give_back(asked.address, asked.who, now)
                return
            if not may_grant():
                return  # silence: our successor may answer
            turn = table.ask(asked.address, asked.who, now)
            reply = _Reply(turn.seconds, isinstance(turn, Granted))
            with contextlib.suppress(nats.errors.Error):
                await message.respond(msgspec.json.encode(reply))

        await self.drop(shard)
        self._tables[shard] = table
        self._subscriptions[shard] = await self._client.subscribe(self._names.turn_subject(shard), cb=answer)

    async def end(self, shard: int, seconds: float) -> Left | None:
        """Grant no more, wait at most so long for turns to come back, and answer no more.

        Returns what the next owner must know of those that did not.
        """
        table = self._tables.get(shard)
        if table is None:
            return None
        table.close()
        until = self._clock.monotonic() + seconds
        while table.out(now := self._clock.monotonic()) and now < until:
            await self._clock.sleep(_LOOK)
        await self.drop(shard)
        return table.leave(self._clock.monotonic())

    async def drop(self, shard: int) -> None:
        """Answer no more for a shard."""
        self._tables.pop(shard, None)
        subscription = self._subscriptions.pop(shard, None)
        if subscription is not None:
            with contextlib.suppress(nats.errors.Error):
                await subscription.unsubscribe()

    async def close(self) -> None:
        for shard in list(self._subscriptions):
            await self.drop(shard)


class Turn:
    """A turn that we have: until when, by our clock, and how to give it back."""

    def __init__(self, address: str, who: str, until: float) -> None:
        self.address = address
        self.who = who
        self.until = until


class TurnAsker:
    """Asks for turns."""

    def __init__(self, client: Client, names: Names, shards: int, clock: Clock) -> None:
        self._client = client
        self._names = names
        self._shards = shards
        self._clock = clock

    async def renew(self, turn: Turn) -> bool:
        """Ask for a turn that we have once more: it then lasts longer."""
        again = await self._ask(turn.address, turn.who)
        if isinstance(again, Later):
            return False
        turn.until = max(turn.until, again.until)
        return True

    async def ask(self, address: str) -> Turn | Later:
        """A turn, or when to ask again."""
        return await self._ask(address, secrets.token_hex(8))

    async def _ask(self, address: str, who: str) -> Turn | Later:
        began = self._clock.monotonic()
        data = msgspec.json.encode(_Request(address, who))
        try:
            answer = await self._client.request(self._subject(address), data, timeout=_ANSWER)
            reply = msgspec.json.decode(answer.data, type=_Reply)
        except (nats.errors.Error, TimeoutError, OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return Later(_AGAIN)  # if it was granted after all, it runs out
        if not reply.granted:
            return Later(max(reply.seconds, 0.01))
        until = began + reply.seconds
        return Turn(address, who, until) if self._clock.monotonic() < until else Later(_AGAIN)

    async def give_back(self, turn: Turn) -> None:
        """We are done with the address."""
        data = msgspec.json.encode(_Request(turn.address, turn.who, back=True))
        with contextlib.suppress(nats.errors.Error, OSError):
            await self._client.publish(self._subject(turn.address), data)

    def _subject(self, address: str) -> str:
        return self._names.turn_subject(owner_of(address, self._shards))
