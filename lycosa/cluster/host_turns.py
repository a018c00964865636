"""Turns of hosts across agents: a robots.txt may redirect to any host of the web, and the host's holder decides.

    host.N      request  {"host", "who", "back": bool, "ready": seconds from now}
                reply    {"granted": bool}

As with addresses the holder answers while its lease lets it fetch, and a turn that is not given back in time ends
by itself: whoever had it is dead, or late, and the host rests for its wait. No answer means no turn.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Protocol

import msgspec

from lycosa.clock import Clock
from lycosa.cluster.foreign import Foreign
from lycosa.engine.protocol import Answering, Requests, Unavailable, got

_ANSWER = 1.0


class _Request(msgspec.Struct):
    host: str
    who: str
    back: bool = False
    ready: float = 0.0


class _Reply(msgspec.Struct):
    granted: bool = False


class Owned(Protocol):
    """The hosts of a shard: its frontier."""

    def claim(self, host: str, now: float) -> bool: ...
    def end(self, host: str, ready: float) -> None: ...


class HostKeeper:
    """Answers for the hosts of the shards that this agent holds."""

    def __init__(
        self,
        requests: Requests,
        clock: Clock,
        *,
        expiry: float,
        wait: float,
        foreign: Foreign | None = None,
    ) -> None:
        """`expiry`: after which a turn that was not given back is over; `wait`: a host's rest then."""
        self._foreign = foreign or Foreign()
        self._requests = requests
        self._clock = clock
        self._expiry = expiry
        self._wait = wait
        self._answering: dict[int, Answering] = {}
        self._given: dict[int, dict[str, tuple[str, float]]] = {}  # shard -> host -> (who, until)
        self._owned: dict[int, Owned] = {}

    async def keep(self, shard: int, hosts: Owned, may_grant: Callable[[], bool]) -> None:
        """Begin to answer for a shard. `Unavailable` is raised."""
        await self.drop(shard)
        given = self._given[shard] = {}
        self._owned[shard] = hosts

        def answer(data: bytes) -> bytes | None:
            asked = self._foreign.request(data, _Request, _subject(shard))
            if asked is None:
                return None
            now = self._clock.monotonic()
            if asked.back:
                who, _ = given.get(asked.host, ("", 0.0))
                if who == asked.who:
                    del given[asked.host]
                    hosts.end(asked.host, now + min(max(asked.ready, 0.0), 86_400.0))
                return None
            if not may_grant():
                return None
            granted = hosts.claim(asked.host, now)
            if granted:
                given[asked.host] = (asked.who, now + self._expiry)
            return msgspec.json.encode(_Reply(granted))

        self._answering[shard] = got(await self._requests.answer(_subject(shard), answer))

    def end_late(self) -> None:
        """Turns that were not given back in time are over."""
        now = self._clock.monotonic()
        for shard, given in self._given.items():
            for host in [host for host, (_, until) in given.items() if until <= now]:
                del given[host]
                self._owned[shard].end(host, now + self._wait)

    async def drop(self, shard: int) -> None:
        """Answer no more for a shard."""
        self._given.pop(shard, None)
        self._owned.pop(shard, None)
        if (answering := self._answering.pop(shard, None)) is not None:
            await answering.stop()


class HostAsker:
    """Asks for turns of hosts that other agents hold; `lycosa.crawl.visit.Hosts`."""

    def __init__(
        self,
        requests: Requests,
        shard_of: Callable[[str], int],
        clock: Clock,
        *,
        token: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._requests = requests
        self._shard_of = shard_of
        self._clock = clock
        self._token = token
        self._have: dict[str, str] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def claim(self, host: str) -> bool:
        who = self._token()
        data = msgspec.json.encode(_Request(host, who))
        answer = await self._requests.ask(_subject(self._shard_of(host)), data, _ANSWER)
        if isinstance(answer, Unavailable):
            return False  # if it was granted after all, it runs out
        try:
            granted = msgspec.json.decode(answer, type=_Reply).granted
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        if granted:
            self._have[host] = who
        return granted

    def end(self, host: str, ready: float) -> None:
        who = self._have.pop(host, None)
        if who is None:
            return
        data = msgspec.json.encode(_Request(host, who, back=True, ready=ready - self._clock.monotonic()))
        task = asyncio.ensure_future(self._requests.tell(_subject(self._shard_of(host)), data))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def _subject(shard: int) -> str:
    return f"host.{shard}"
