"""The exchange: the transport of links between shards, and its implementation in an agent that has all of them.

Within an agent the sender's own log is the exchange. So

- delivering means appending `Received` to the receiver's log, for links whose records are committed;
- after a crash, everything that each sender logged from the receiver's cursor on is delivered (again, or for the
  first time): repeated links are known to the receiver's seen set, and nothing is lost.

A commit costs a step for each sender and one for each receiver that has links waiting; all shards are
visited only when a heartbeat may be due (`lycosa.crawl.exchange.Heartbeats`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Protocol

from lycosa.clock import Clock, milliseconds
from lycosa.crawl.exchange import every, receiving
from lycosa.crawl.replay import catch_up
from lycosa.crawl.shard import Shard
from lycosa.crawl.shard_set import ShardSet

_RECORDS = 64
"""Maximum number of records delivered before the event loop runs again."""
_SLICE = 0.005
"""Seconds after which the next record waits for the event loop to run."""


class Exchange(Protocol):
    """The transport of links between shards.

    Every link that a committed record found for another shard reaches that shard's log, whatever dies in between,
    and moves its cursor; a link that arrives twice is known there.
    """

    async def deliver(self) -> None:
        """Called after every commit: send what may be sent, and drop what was received."""
        ...

    def catch_up(self, running: bool = False) -> None:
        """The shards of this agent have changed, or have just been recovered: links under way between them must be
        delivered. `running`: links found since the last commit are in the outboxes, and stay there."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether logs must be read for links that were under way."""
        ...


class OwnExchange:
    """The exchange between the shards of one agent that has all of them."""

    def __init__(self, shards: ShardSet, clock: Clock) -> None:
        self._shards = shards
        self._clock = clock
        self._behind: dict[int, int] = {}
        """By sender: what its log has for others before this position is delivered before anything else."""

    async def deliver(self) -> None:
        """Deliver what the commit made durable; the event loop runs in between."""
        at = milliseconds(self._clock)
        while (number := next(iter(self._behind), None)) is not None:
            stop, sender = self._behind[number], self._shards.find(number)
            if sender is not None:
                await catch_up(sender, [each for each in self._shards if each is not sender], stop, at)
            if self._behind.get(number) == stop:
                del self._behind[number]
        since, began = 0, self._clock.monotonic()
        for _ in delivering(self._shards, at):
            since += 1
            if since >= _RECORDS or self._clock.monotonic() - began >= _SLICE:
                await asyncio.sleep(0)
                since, began = 0, self._clock.monotonic()

    def catch_up(self, running: bool = False) -> None:
        for shard in self._shards:
            shard.outbox.clear(shard.log.committed if running else None)
            if shard.log.committed:
                self._behind[shard.number] = shard.log.committed

    @property
    def is_behind(self) -> bool:
        return bool(self._behind)


def delivering(shards: Sequence[Shard], at: int) -> Iterator[None]:
    """Deliver what is committed, record by record: other work may be done in between, but no commit."""
    by_number = {shard.number: shard for shard in shards}
    for sender in list(shards):
        committed, outbox = sender.log.committed, sender.outbox
        for number in outbox.owners():
            receiver = by_number.get(number)
            if receiver is not None and (rows := outbox.take(number, committed)):
                yield from receiving(receiver, sender.number, committed, rows, at)
        if outbox.heartbeats.is_due(committed):
            yield from _beat(sender, [shard for shard in by_number.values() if shard is not sender], at)


def _beat(sender: Shard, receivers: Sequence[Shard], at: int) -> Iterator[None]:
    """Move the cursors that are far behind."""
    committed, number = sender.log.committed, sender.number
    for receiver in receivers:
        if committed - receiver.cursors.get(number, 0) >= every(len(receivers)):
            yield from receiving(receiver, number, committed, [], at)
    sender.outbox.heartbeats.looked([row.cursors.get(number, 0) for row in receivers])
