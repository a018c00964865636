"""Asking for the turn of an address, and answering for those that are ours: requests of the engine.

    turn.N      request  {"address", "who", "back": bool}
                reply    {"seconds": s, "granted": bool}

The holder of shard N answers, and only while its lease lets it fetch: a holder that is cut off or late grants
nothing, so that it and its successor never both do (the successor waits one expiry besides, unless it was left the
turns that are out, see `turn_table`). No answer means no
turn: the asker tries later. A turn is nobody's right, only the way to be polite.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

import msgspec

from lycosa.clock import Clock
from lycosa.cluster.foreign import Foreign
from lycosa.cluster.turn_table import Granted, Later, Left, TurnTable, owner_of
from lycosa.engine.protocol import Answering, Requests, Unavailable, got

_ANSWER = 1.0
_AGAIN = 1.0
_LOOK = 0.05
_PATIENCE = 0.3
"""Seconds after which an address whose turn somebody has is asked for again."""
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
        requests: Requests,
        clock: Clock,
        *,
        expiry: float = EXPIRY,
        wait: float = 0.5,
        foreign: Foreign | None = None,
    ) -> None:
        self._foreign = foreign or Foreign()
        self._requests = requests
        self._clock = clock
        self._expiry = expiry
        self._wait = wait
        self._answering: dict[int, Answering] = {}
        self._tables: dict[int, TurnTable] = {}

    async def keep(self, shard: int, may_grant: Callable[[], bool], left: Left | None = None) -> None:
        """Begin to answer for a shard; `may_grant`: whether our lease lets us (`Holding.may_fetch`).

        `Unavailable` is raised.

        `left`: the turns that the holder before us left out; empty if there was none; None if it did not say.
        """
        now = self._clock.monotonic()
        table = TurnTable(now, expiry=self._expiry, wait=self._wait, left=left)

        def answer(data: bytes) -> bytes | None:
            asked = self._foreign.request(data, _Request, _subject(shard))
            if asked is None:
                return None
            now = self._clock.monotonic()
            if asked.back:
                table.give_back(asked.address, asked.who, now)
                return None
            if not may_grant():
                return None  # silence: our successor may answer
            turn = table.ask(asked.address, asked.who, now)
            return msgspec.json.encode(_Reply(turn.seconds, isinstance(turn, Granted)))

        await self.drop(shard)
        self._tables[shard] = table
        self._answering[shard] = got(await self._requests.answer(_subject(shard), answer))

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
        if (answering := self._answering.pop(shard, None)) is not None:
            await answering.stop()

    async def close(self) -> None:
        for shard in list(self._answering):
            await self.drop(shard)


class Turn:
    """A turn that we have: until when, by our clock, and how to give it back."""

    def __init__(self, address: str, who: str, until: float) -> None:
        self.address = address
        self.who = who
        self.until = until


class TurnAsker:
    """Asks for turns."""

    def __init__(
        self,
        requests: Requests,
        shards: int,
        clock: Clock,
        *,
        token: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        """`token`: a name for each turn that is nobody else's."""
        self._requests = requests
        self._shards = shards
        self._clock = clock
        self._token = token

    async def renew(self, turn: Turn) -> bool:
        """Ask for a turn that we have once more: it then lasts longer."""
        again = await self._ask(turn.address, turn.who)
        if isinstance(again, Later):
            return False
        turn.until = max(turn.until, again.until)
        return True

    async def ask(self, address: str) -> Turn | Later:
        """A turn, or when to ask again."""
        return await self._ask(address, self._token())

    async def _ask(self, address: str, who: str) -> Turn | Later:
        began = self._clock.monotonic()
        data = msgspec.json.encode(_Request(address, who))
        answer = await self._requests.ask(self._subject(address), data, _ANSWER)
        if isinstance(answer, Unavailable):
            return Later(_AGAIN)  # if it was granted after all, it runs out
        try:
            reply = msgspec.json.decode(answer, type=_Reply)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return Later(_AGAIN)
        if not reply.granted:
            return Later(max(reply.seconds, 0.01))
        until = began + reply.seconds
        return Turn(address, who, until) if self._clock.monotonic() < until else Later(_AGAIN)

    async def give_back(self, turn: Turn) -> None:
        """We are done with the address."""
        data = msgspec.json.encode(_Request(turn.address, turn.who, back=True))
        await self._requests.tell(self._subject(turn.address), data)

    def _subject(self, address: str) -> str:
        return _subject(owner_of(address, self._shards))


class TurnAddresses:
    """Turns of addresses, asked of whoever keeps them; `lycosa.crawl.visit.Addresses`."""

    def __init__(self, asker: TurnAsker, clock: Clock, expiry: float) -> None:
        self._asker = asker
        self._clock = clock
        self._expiry = expiry
        self._turns: dict[str, Turn] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def begin(self, address: str, now: float) -> float:
        turn = await self._asker.ask(address)
        if isinstance(turn, Turn):
            self._turns[address] = turn
            return 0.0
        return self._clock.monotonic() + min(turn.seconds, _PATIENCE)

    def end(self, address: str, now: float) -> None:
        turn = self._turns.pop(address, None)
        if turn is not None:
            task = asyncio.ensure_future(self._asker.give_back(turn))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def has(self, address: str) -> bool:
        """Whether our turn lasts for another request."""
        turn = self._turns.get(address)
        return turn is not None and self._clock.monotonic() < turn.until - self._expiry / 4

    async def renew(self) -> None:
        """Turns of long visits go on."""
        now = self._clock.monotonic()
        late = [turn for turn in self._turns.values() if turn.until - now < self._expiry / 2]
        if late:
            await asyncio.gather(*(self._asker.renew(turn) for turn in late))


def _subject(shard: int) -> str:
    return f"turn.{shard}"
