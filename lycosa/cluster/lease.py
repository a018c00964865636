"""Leases: which agent has which shard, and until when it may act on that. Decisions only; no I/O, no clock.

A lease is a key whose value names a holder, an epoch and the lease's duration. It is held by rewriting it
periodically; each write is a new revision. Clocks of two machines are never compared:

- To an observer, a lease is *expired* if its revision has not changed for its duration on the observer's
  own monotonic clock, counted from when the observer first saw that revision. This may be wrong (the observer's
  connection was cut): then the compare-and-set on that revision fails, and the observer learns a newer one.
- To the holder, the lease is *held*, counted from the moment its last successful renewal **began**, before anybody
  could see it. After 0.8 of the duration it begins no fetch, and fetches under way are broken off; the others'
  count began later than its own, so they never take the lease before the whole duration is over. Clocks may differ
  in speed by almost a quarter, not more.
- The epoch grows by one with every new holder, including one who held the shard before and comes back: appends,
  batches and checkpoints carry it.
- A released lease may be taken at once: its holder has stopped and has saved everything. It carries the state for
  which its next holder would otherwise have to wait: the turns of addresses that are still out.

A holder that does not notice that it has lost its lease (stopped by SIGSTOP between looking at the clock
and acting) is not fenced by the lease but by the log's tail, which accepts nothing from an earlier epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from lycosa.cluster.foreign import decoded

STOP_AT = 0.8
"""A holder fetches for this share of the lease's duration after its last renewal began; then fetches under way are
broken off. No later: if the holder's clock is slow and the next one's fast, the lease is nearly over."""
RENEW_AT = 0.25
"""Share of the duration after which a holder renews, so that three tries may fail."""


class Lease(msgspec.Struct, frozen=True):
    """The value of a lease's key."""

    holder: str
    epoch: int
    seconds: float
    released: bool = False
    turns: dict[str, tuple[str, float]] | None = None
    """If released in good order: the turns of the shard's addresses that are out, with the asker and the seconds
    left."""


def decode(value: bytes) -> Lease | None:
    """The lease that the bytes encode, or None if they are invalid."""
    return decoded(value, Lease)


def encode(lease: Lease) -> bytes:
    return msgspec.json.encode(lease)


class Sighting(NamedTuple):
    """A revision of a key, and when we first saw it."""

    revision: int
    at: float
    value: bytes | None


class Sightings:
    """The revisions we have seen of some keys: for leases, and for the presence of agents."""

    def __init__(self) -> None:
        self._seen: dict[str, Sighting] = {}

    def note(self, key: str, revision: int, value: bytes | None, now: float) -> bool:
        """Note that a key has that revision; True if that is new to us. A revision older than the known one is
        not."""
        known = self._seen.get(key)
        if known is not None and revision <= known.revision:
            return False
        self._seen[key] = Sighting(revision, now, value)
        return True

    def get(self, key: str) -> Sighting | None:
        return self._seen.get(key)

    def all(self) -> list[tuple[str, Sighting]]:
        return sorted(self._seen.items())

    def changed_within(self, seconds: float, now: float) -> list[str]:
        """Keys that have a value and changed within the last `seconds`, as far as we know."""
        return sorted(
            key for key, seen in self._seen.items() if seen.value is not None and now - seen.at < seconds
        )


class Take(NamedTuple):
    """The lease may be taken: write this lease, if the key still has that revision."""

    lease: Lease
    revision: int
    turns: dict[str, tuple[str, float]] | None = None
    """The turns that the last holder left; empty if there was no holder before us, None if they are unknown."""


class Wait(NamedTuple):
    """The lease may not be taken; it could expire at this time of our clock."""

    until: float


def decide(seen: Sighting | None, me: str, seconds: float, now: float) -> Take | Wait:
    """Whether `me` may take a lease that we have seen like this."""
    if seen is None:
        return Take(Lease(me, 1, seconds), 0, {})
    lease = decode(seen.value) if seen.value is not None else None
    if lease is None:
        # Deleted or damaged: its epoch is lost and must not be guessed; the operator must resolve it.
        return Wait(float("inf"))
    if lease.released or now - seen.at >= lease.seconds:
        left = lease.turns if lease.released else None
        return Take(Lease(me, lease.epoch + 1, seconds), seen.revision, left)
    return Wait(seen.at + lease.seconds)


class Holding:
    """A lease that we hold, by our own clock."""

    def __init__(
        self,
        lease: Lease,
        revision: int,
        began: float,
        turns: dict[str, tuple[str, float]] | None = None,
    ) -> None:
        """`turns`: the turns that the holder before us left (`Take`)."""
        self.lease = lease
        self.turns = turns
        self.revision = revision
        self._began = began
        self._lost = False

    @property
    def epoch(self) -> int:
        return self.lease.epoch

    def renewed(self, revision: int, began: float) -> None:
        """A renewal that began at `began` was accepted."""
        self.revision = revision
        self._began = max(began, self._began)

    def lose(self) -> None:
        """Another agent has it, or we released it."""
        self._lost = True

    @property
    def lost(self) -> bool:
        return self._lost

    def may_fetch(self, now: float) -> bool:
        """Whether sites may be asked: new fetches may begin, and those under way may continue."""
        return not self._lost and now - self._began < STOP_AT * self.lease.seconds

    def may_write(self, now: float) -> bool:
        """Whether the lease is still in force: fetches under way may be committed."""
        return not self._lost and now - self._began < self.lease.seconds

    def renew_due(self, now: float) -> bool:
        return not self._lost and now - self._began >= RENEW_AT * self.lease.seconds


class Plan(NamedTuple):
    """What an agent is to do about leases now."""

    take: list[tuple[int, Take]]
    hand_over: list[int]


def plan(
    me: str,
    seconds: float,
    placed: Mapping[int, str],
    seen: Mapping[int, Sighting | None],
    holding: Iterable[int],
    now: float,
) -> Plan:
    """Take the free shards that are placed with us; hand over those that are placed with another."""
    held = set(holding)
    take = [
        (shard, decision)
        for shard, agent in sorted(placed.items())
        if agent == me and shard not in held
        if isinstance(decision := decide(seen.get(shard), me, seconds, now), Take)
    ]
    return Plan(take, sorted(shard for shard in held if placed.get(shard, me) != me))
