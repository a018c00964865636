"""Leases: which agent has which shard, and until when it may act on that. Decisions only; no I/O, no clock.

A lease is a key whose value names a holder, an epoch and the lease's time. It is held by being written again
and again; each writing is a new revision. Nobody compares clocks of two machines:

- *Expired*, for somebody who watches, is a lease whose revision has not changed for its time on the watcher's
  own monotonic clock, counted from when the watcher first saw that revision. He may be wrong (his connection
  was cut): then the compare-and-set on that revision fails, and he has learned a newer one.
- *Held*, for the holder, counts from the moment its last successful renewal **began**, before anybody could see
  it. After 0.8 of the time it begins no fetch, and what is under way is broken off; the others' count began
  later than its own, so they never take before the whole time is over. Clocks may differ in speed by almost a
  quarter, not more.
- An epoch is one more than the one before it, with every new holder, also one who held the shard before and
  comes back: appends, batches and checkpoints carry it.
- A released lease may be taken at once: its holder has stopped and has saved everything. With it goes what its next
  holder would otherwise have to wait for: the turns of addresses that are still out.

What fences a holder that does not know it is none any more (stopped by SIGSTOP between looking at the clock
and acting) is not the lease but the log's tail, which takes nothing from an earlier epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from lycosa.cluster.foreign import decoded

STOP_AT = 0.8
"""A holder fetches for this share of the lease's time after its last renewal began; what is under way is broken off
then. No later: where the holder's clock is slow and the next one's fast, the lease is nearly over."""
RENEW_AT = 0.25
"""And renews after this one, so that three tries may fail."""


class Lease(msgspec.Struct, frozen=True):
    """The value of a lease's key."""

    holder: str
    epoch: int
    seconds: float
    released: bool = False
    turns: dict[str, tuple[str, float]] | None = None
    """Released in good order: turns of the shard's addresses that are out, who has each, for how many seconds."""


def decode(value: bytes) -> Lease | None:
    """A lease, or None if the bytes are none."""
    return decoded(value, Lease)


def encode(lease: Lease) -> bytes:
    return msgspec.json.encode(lease)


class Sighting(NamedTuple):
    """A revision of a key, and when we first saw it."""

    revision: int
    at: float
    value: bytes | None


class Sightings:
    """What we have seen of some keys: for leases, and for the presence of agents."""

    def __init__(self) -> None:
        self._seen: dict[str, Sighting] = {}

    def note(self, key: str, revision: int, value: bytes | None, now: float) -> bool:
        """A key has that revision; True if that is news. An older one than we know is not."""
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
        """Keys that have a value and changed lately, as far as we know."""
        return sorted(
            key for key, seen in self._seen.items() if seen.value is not None and now - seen.at < seconds
        )


class Take(NamedTuple):
    """The lease may be taken: write this, if the key still has that revision."""

    lease: Lease
    revision: int
    turns: dict[str, tuple[str, float]] | None = None
    """What the last holder left of turns; empty if there was none before us, None if it did not say."""


class Wait(NamedTuple):
    """It may not; it could expire at this time of our clock."""

    until: float


def decide(seen: Sighting | None, me: str, seconds: float, now: float) -> Take | Wait:
    """Whether `me` may take a lease that looks like this to us."""
    if seen is None:
        return Take(Lease(me, 1, seconds), 0, {})
    lease = decode(seen.value) if seen.value is not None else None
    if lease is None:
        # Deleted or damaged: its epoch is lost, so nobody may guess one; the operator must see to it.
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
        """`turns`: what the holder before us left (`Take`)."""
        self.lease = lease
        self.turns = turns
        self.revision = revision
        self._began = began
        self._lost = False

    @property
    def epoch(self) -> int:
        return self.lease.epoch

    def renewed(self, revision: int, began: float) -> None:
        """A renewal that began then was taken."""
        self.revision = revision
        self._began = max(began, self._began)

    def lose(self) -> None:
        """Somebody else has it, or we gave it back."""
        self._lost = True

    @property
    def lost(self) -> bool:
        return self._lost

    def may_fetch(self, now: float) -> bool:
        """Whether sites may be asked: new work may begin, and what is under way may go on."""
        return not self._lost and now - self._began < STOP_AT * self.lease.seconds

    def may_write(self, now: float) -> bool:
        """Whether the lease still runs: what is under way may be committed."""
        return not self._lost and now - self._began < self.lease.seconds

    def renew_due(self, now: float) -> bool:
        return not self._lost and now - self._began >= RENEW_AT * self.lease.seconds


class Plan(NamedTuple):
    """What an agent does about leases now."""

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
    """Take what is placed with us and free; hand over what is placed with another."""
    held = set(holding)
    take = [
        (shard, decision)
        for shard, agent in sorted(placed.items())
        if agent == me and shard not in held
        if isinstance(decision := decide(seen.get(shard), me, seconds, now), Take)
    ]
    return Plan(take, sorted(shard for shard in held if placed.get(shard, me) != me))
