"""Turns of hosts for visits to other hosts: a robots.txt may redirect to any host of the web.

A host is asked by one connection at a time, whoever asks; the owner of the host decides. If that is a shard of this
agent, it is asked directly; otherwise through `far`, which reaches the other agents.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.clock import Clock
from lycosa.crawl.shard import Shard
from lycosa.crawl.visit import Hosts


class OwnHosts:
    """Turns of the hosts of this agent's shards, and through `far` those of others."""

    def __init__(
        self, shard_of: Callable[[str], Shard | None], clock: Clock, far: Hosts | None = None
    ) -> None:
        self._shard_of = shard_of
        self._clock = clock
        self._far = far
        self._claimed: dict[str, Shard] = {}
        """The shards of this agent that granted a turn."""

    async def claim(self, host: str) -> bool:
        shard = self._shard_of(host)
        if shard is not None:
            if granted := shard.claim(host, self._clock.monotonic()):
                self._claimed[host] = shard
            return granted
        return self._far is not None and await self._far.claim(host)

    def end(self, host: str, ready: float) -> None:
        owner, shard = self._claimed.pop(host, None), self._shard_of(host)
        if owner is None and self._far is not None:
            self._far.end(host, ready)
        if shard is not None and shard is owner:
            shard.end(host, ready)
        elif shard is not None:
            shard.rest(host, ready)  # it has come to this agent since
