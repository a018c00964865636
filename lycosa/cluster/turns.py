"""Asking for the turn of an address or a host, and answering for those that are ours: requests of the engine.

    turn.N, host.N      request  {"name", "who", "back": bool, "ready": seconds from now}
                        reply    {"seconds": s, "granted": bool}

The holder of shard N answers, and only while its lease allows it to fetch: a holder that is cut off or late grants
nothing, so that it and its successor never both do (in addition, the successor waits one expiry, unless it was left
the turns that are out, see `turn_table`). No answer means no turn: the asker tries later. Nothing depends on turns
but politeness. `ready`: when a host whose turn is given back may be asked again.

A visit's turn is renewed from half its time on. If nobody answers, no request begins after three quarters of it,
and the one under way is broken off: its server may take longer than the turn lasts. The last quarter is a margin
for clocks of different speed: the owner's may be faster than ours.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

import msgspec

from lycosa.clock import Clock
from lycosa.cluster.foreign import Foreign, decoded
from lycosa.cluster.turn_table import Granted, HostTable, Later, Left, Owned, TurnTable, owner_of
from lycosa.engine.protocol import Answering, Requests, Unavailable, got

_ANSWER = 1.0
_AGAIN = 1.0
_LOOK = 0.05
_PATIENCE = 0.3
"""Seconds after which an address that is taken is asked for again."""
EXPIRY = 60.0
"""Longer than a visit of one address; addresses of a dead agent are blocked this long."""


class _Request(msgspec.Struct):
    name: str
    who: str
    back: bool = False
    ready: float = 0.0


class _Reply(msgspec.Struct):
    seconds: float
    granted: bool = False


class TurnKeeper:
    """Answers for the addresses and the hosts of the shards that this agent holds."""

    def __init__(
        self,
        requests: Requests,
        clock: Clock,
        *,
        expiry: float = EXPIRY,
        wait: float = 0.5,
        host_wait: float = 2.0,
        foreign: Foreign | None = None,
    ) -> None:
        """`wait`: of an address after a turn; `host_wait`: of a host whose turn was not given back."""
        self._foreign = foreign or Foreign()
        self._requests = requests
        self._clock = clock
        self._expiry = expiry
        self._wait = wait
        self._host_wait = host_wait
        self._answering: dict[str, Answering] = {}
        self._addresses: dict[int, TurnTable] = {}
        self._hosts: dict[int, HostTable] = {}

    async def keep(
        self, shard: int, hosts: Owned, may_grant: Callable[[], bool], left: Left | None = None
    ) -> None:
        """Begin to answer for a shard; `may_grant`: whether our lease allows it (`Holding.may_fetch`).

        `Unavailable` is raised.

        `left`: the turns that the previous holder left out; empty if there was none; None if unknown.
        """
        await self.drop(shard)
        now = self._clock.monotonic()
        table = TurnTable(now, expiry=self._expiry, wait=self._wait, left=left)
        self._addresses[shard] = table
        await self._answer(f"turn.{shard}", table, may_grant)
        own = HostTable(hosts, expiry=max(self._expiry, EXPIRY), wait=self._host_wait)
        self._hosts[shard] = own
        await self._answer(f"host.{shard}", own, may_grant)

    async def _answer(
        self, subject: str, table: TurnTable | HostTable, may_grant: Callable[[], bool]
    ) -> None:
        def answer(data: bytes) -> bytes | None:
            asked = self._foreign.request(data, _Request, subject)
            if asked is None:
                return None
            now = self._clock.monotonic()
            if asked.back:
                table.give_back(asked.name, asked.who, now, asked.ready)
                return None
            if not may_grant():
                return None  # no answer: our successor may answer
            turn = table.ask(asked.name, asked.who, now)
            return msgspec.json.encode(_Reply(turn.seconds, isinstance(turn, Granted)))

        self._answering[subject] = got(await self._requests.answer(subject, answer))

    def end_late(self) -> None:
        """End turns of hosts that were not given back in time."""
        for table in self._hosts.values():
            table.end_late(self._clock.monotonic())

    async def end(self, shard: int, seconds: float) -> Left | None:
        """Grant no more, wait at most so long for turns of addresses to come back, and stop answering.

        Returns the turns that did not come back, for the next owner.
        """
        table = self._addresses.get(shard)
        if table is None:
            return None
        table.close()
        until = self._clock.monotonic() + seconds
        while table.out(now := self._clock.monotonic()) and now < until:
            await self._clock.sleep(_LOOK)
        await self.drop(shard)
        return table.leave(self._clock.monotonic())

    async def drop(self, shard: int) -> None:
        """Stop answering for a shard."""
        await self.drop_hosts(shard)
        self._addresses.pop(shard, None)
        await self._silence(f"turn.{shard}")

    async def drop_hosts(self, shard: int) -> None:
        """Grant no more turns of the shard's hosts."""
        self._hosts.pop(shard, None)
        await self._silence(f"host.{shard}")

    async def _silence(self, subject: str) -> None:
        if (answering := self._answering.pop(subject, None)) is not None:
            await answering.stop()


class Turn:
    """A turn that we have: its end, by our clock, and how to give it back."""

    def __init__(self, name: str, who: str, until: float) -> None:
        self.name = name
        self.who = who
        self.until = until
        self.task = asyncio.current_task()
        """The task that asked for it, and uses it."""


class TurnAsker:
    """Asks for turns."""

    def __init__(
        self,
        requests: Requests,
        subject: Callable[[str], str],
        clock: Clock,
        *,
        token: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        """`subject`: maps a name to the subject of its turn. `token`: a unique name for each turn."""
        self._requests = requests
        self._subject = subject
        self._clock = clock
        self._token = token
        self._ending: set[asyncio.Task[None]] = set()

    async def renew(self, turn: Turn) -> bool:
        """Renew a turn that we have, so that it lasts longer."""
        again = await self._ask(turn.name, turn.who)
        if isinstance(again, Later):
            return False
        turn.until = max(turn.until, again.until)
        return True

    async def ask(self, name: str) -> Turn | Later:
        """A turn, or when to ask again."""
        return await self._ask(name, self._token())

    async def _ask(self, name: str, who: str) -> Turn | Later:
        began = self._clock.monotonic()
        data = msgspec.json.encode(_Request(name, who))
        answer = await self._requests.ask(self._subject(name), data, _ANSWER)
        if isinstance(answer, Unavailable):
            return Later(_AGAIN)  # if it was granted after all, it expires
        reply = decoded(answer, _Reply)
        if reply is None:
            return Later(_AGAIN)
        if not reply.granted:
            return Later(max(reply.seconds, 0.01))
        until = began + reply.seconds
        return Turn(name, who, until) if self._clock.monotonic() < until else Later(_AGAIN)

    def give_back(self, turn: Turn, ready: float = 0.0) -> None:
        """Give a turn back, in a task of its own; a host may be asked again in `ready` seconds."""
        data = msgspec.json.encode(_Request(turn.name, turn.who, back=True, ready=ready))
        task = asyncio.ensure_future(self._requests.tell(self._subject(turn.name), data))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def of_addresses(shards: int) -> Callable[[str], str]:
    """The subject for the turn of an address, whose shard is found by hash."""
    return lambda address: f"turn.{owner_of(address, shards)}"


def of_hosts(shard_of: Callable[[str], int]) -> Callable[[str], str]:
    """The subject for the turn of a host."""
    return lambda host: f"host.{shard_of(host)}"


class TurnAddresses:
    """Turns of addresses, asked of their owners; implements `lycosa.crawl.visit.Addresses`."""

    def __init__(self, asker: TurnAsker, clock: Clock, expiry: float) -> None:
        self._asker = asker
        self._clock = clock
        self._expiry = expiry
        self._turns: dict[str, Turn] = {}

    async def begin(self, address: str, now: float) -> float:
        if address in self._turns:
            # Another visit of ours is there. Its turn may be over for the owner, who would grant the next one.
            return self._clock.monotonic() + _PATIENCE
        turn = await self._asker.ask(address)
        if isinstance(turn, Turn):
            self._turns[address] = turn
            return 0.0
        return self._clock.monotonic() + min(turn.seconds, _PATIENCE)

    def end(self, address: str, now: float) -> None:
        turn = self._turns.pop(address, None)
        if turn is not None:
            self._asker.give_back(turn)

    def has(self, address: str) -> bool:
        """Whether our turn lasts for another request."""
        turn = self._turns.get(address)
        return turn is not None and self._lasts(turn)

    def _lasts(self, turn: Turn) -> bool:
        return self._clock.monotonic() < turn.until - self._expiry / 4

    def cut(self) -> None:
        """Break off the visits whose turns could not be renewed: another agent may be given the address soon."""
        for turn in self._turns.values():
            if turn.task is not None and not self._lasts(turn):
                turn.task.cancel()

    async def renew(self) -> None:
        """Renew the turns of long visits."""
        now = self._clock.monotonic()
        late = [turn for turn in self._turns.values() if turn.until - now < self._expiry / 2]
        if late:
            await asyncio.gather(*(self._asker.renew(turn) for turn in late))


class TurnHosts:
    """Turns of hosts that other agents hold; implements `lycosa.crawl.visit.Hosts`."""

    def __init__(self, asker: TurnAsker, clock: Clock) -> None:
        self._asker = asker
        self._clock = clock
        self._turns: dict[str, Turn] = {}

    async def claim(self, host: str) -> bool:
        turn = await self._asker.ask(host)
        if isinstance(turn, Later):
            return False
        self._turns[host] = turn
        return True

    def end(self, host: str, ready: float) -> None:
        turn = self._turns.pop(host, None)
        if turn is not None:
            self._asker.give_back(turn, ready - self._clock.monotonic())
