"""Leases in the bucket: taking, renewing, giving back, watching. What may be done is decided in `lease`.

    lease.N := {"holder": id, "epoch": n, "seconds": s, "released": bool}

A holder's id is of one run of one process (`agent-1f3a9c`): a process that starts again is another holder and
gets another epoch. After a silence the key is read: a value with our id and epoch means that what we wrote was
taken, whatever became of the answer.
"""

from __future__ import annotations

from lycosa.clock import Clock
from lycosa.cluster.engine.keys import Bucket, Entry, Watch
from lycosa.cluster.engine.outcomes import Conflict, Unavailable
from lycosa.cluster.lease import Holding, Lease, Sighting, Sightings, Take, Wait, decide, decode, encode


def lease_key(shard: int) -> str:
    return f"lease.{shard}"


class Leases:
    """The leases of a crawl's shards, seen by one agent."""

    def __init__(self, bucket: Bucket, me: str, seconds: float, clock: Clock) -> None:
        self._bucket = bucket
        self.me = me
        self._seconds = seconds
        self._clock = clock
        self._sightings = Sightings()
        self._watch: Watch | None = None
        self.held: dict[int, Holding] = {}

    # -- seeing

    async def follow(self, seconds: float) -> bool:
        """Take in what changed, waiting at most so long; True if anything did."""
        if self._watch is None:
            self._watch = self._bucket.watch("lease.*")
        news = [self._note(entry) for entry in await self._watch.next(seconds)]
        return any(news)

    def _note(self, entry: Entry) -> bool:
        return self._sightings.note(entry.key, entry.revision, entry.value, self._clock.monotonic())

    def seen(self, shard: int) -> Sighting | None:
        return self._sightings.get(lease_key(shard))

    def holder_of(self, shard: int) -> str:
        """Who holds a shard as far as we know; empty for nobody (released, or expired)."""
        seen = self.seen(shard)
        lease = decode(seen.value) if seen is not None and seen.value is not None else None
        if seen is None or lease is None or lease.released:
            return ""
        return lease.holder if self._clock.monotonic() - seen.at < lease.seconds else ""

    async def close(self) -> None:
        if self._watch is not None:
            await self._watch.close()
            self._watch = None

    # -- having

    async def acquire(self, shard: int) -> Holding | None:
        """Take a shard's lease if it is free; None if it is not, or somebody was faster."""
        key = lease_key(shard)
        seen = self._sightings.get(key)
        if seen is None:
            entry = await self._bucket.last(key)  # nothing seen need not mean that nothing is there
            if entry is not None:
                self._note(entry)
                seen = self._sightings.get(key)
        decision = decide(seen, self.me, self._seconds, self._clock.monotonic())
        if isinstance(decision, Wait):
            return None
        return await self.take(shard, decision)

    async def take(self, shard: int, decision: Take) -> Holding | None:
        """Write a decision down; None if somebody was faster."""
        began = self._clock.monotonic()
        key = lease_key(shard)
        value = encode(decision.lease)
        try:
            revision = await self._bucket.update(key, value, decision.revision)
        except (Conflict, Unavailable):
            entry = await self._bucket.last(key)
            if entry is not None:
                self._note(entry)
            if entry is None or entry.value != value:
                return None
            revision = entry.revision
        self._sightings.note(key, revision, value, self._clock.monotonic())
        holding = self.held[shard] = Holding(decision.lease, revision, began)
        return holding

    async def renew(self, shard: int) -> bool:
        """Write the lease again; False if it is lost. `Unavailable`: try again while it lasts."""
        holding = self.held[shard]
        key, value = lease_key(shard), encode(holding.lease)
        for _ in range(3):
            began = self._clock.monotonic()
            try:
                revision = await self._bucket.update(key, value, holding.revision)
            except Conflict:
                entry = await self._bucket.last(key)
                if entry is None or entry.value != value:
                    if entry is not None:
                        self._note(entry)
                    holding.lose()
                    self.held.pop(shard, None)
                    return False
                # An earlier renewal of ours was taken though its answer was lost. It does not count as one:
                # nobody knows when it was; but it has the revision from which to go on.
                holding.revision = max(holding.revision, entry.revision)
                continue
            holding.renewed(revision, began)
            self._sightings.note(key, revision, value, self._clock.monotonic())
            return True
        raise Unavailable(f"{key} changes while it is renewed")

    async def release(self, shard: int) -> None:
        """Give a lease back, after everything of the shard was saved: the next holder may take it at once."""
        holding = self.held.pop(shard, None)
        if holding is None:
            return
        lease = holding.lease
        holding.lose()
        value = encode(Lease(lease.holder, lease.epoch, lease.seconds, released=True))
        mine = encode(lease)
        revision = holding.revision
        for _ in range(3):
            try:
                await self._bucket.update(lease_key(shard), value, revision)
                return
            except Conflict:
                entry = await self._bucket.last(lease_key(shard))
                if entry is None or entry.value != mine:
                    return  # released already, or another's: nothing to give back
                revision = entry.revision
            except Unavailable:
                continue  # it would expire by itself; three tries make the hand-over quick


class Presence:
    """Which agents live: each writes its key, and is alive while it changes.

    agent.ID := anything: what the agent says of itself
    """

    def __init__(self, bucket: Bucket, me: str, seconds: float, clock: Clock) -> None:
        self._bucket = bucket
        self._me = me
        self._seconds = seconds
        self._clock = clock
        self._sightings = Sightings()
        self._watch: Watch | None = None

    async def beat(self, about: bytes = b"{}") -> None:
        """Say that we live."""
        await self._bucket.put(f"agent.{self._me}", about)

    async def leave(self) -> None:
        """Say good-bye: others need not wait."""
        await self._bucket.delete(f"agent.{self._me}")

    async def follow(self, seconds: float) -> bool:
        """Take in what changed; True if anything did."""
        if self._watch is None:
            self._watch = self._bucket.watch("agent.*")
        now = self._clock.monotonic
        entries = await self._watch.next(seconds)
        news = [self._sightings.note(entry.key, entry.revision, entry.value, now()) for entry in entries]
        return any(news)

    def alive(self) -> list[str]:
        """The ids of the agents that live."""
        prefix = len("agent.")
        found = self._sightings.changed_within(self._seconds, self._clock.monotonic())
        return [key[prefix:] for key in found]

    def about(self, agent: str) -> bytes:
        """What an agent last said of itself."""
        seen = self._sightings.get(f"agent.{agent}")
        return seen.value if seen is not None and seen.value is not None else b""

    async def close(self) -> None:
        if self._watch is not None:
            await self._watch.close()
            self._watch = None
