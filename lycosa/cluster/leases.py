"""Leases in the bucket: taking, renewing, releasing, watching. The decisions are made in `lease`.

    lease.N := {"holder": id, "epoch": n, "seconds": s, "released": bool, "turns": {address: [who, s]} or null}

A holder's id belongs to one run of one process (`agent-1f3a9c`): a restarted process is another holder and
gets another epoch. If a write is not answered, the key is read: a value with our id and epoch means that the write
was accepted. A key with an invalid value belongs to nobody: the holder, who knows its epoch, rewrites it
at the next renewal; if there is no holder the operator must, since nobody else can know the epoch.

All calls raise `Unavailable` when the engine does not answer; the caller can only try again.
"""

from __future__ import annotations

import msgspec

from lycosa.clock import Clock
from lycosa.cluster.foreign import Foreign, decoded
from lycosa.cluster.lease import Holding, Lease, Sighting, Sightings, Take, Wait, decide, decode, encode
from lycosa.engine.protocol import Bucket, Conflict, Entry, Unavailable, got


def lease_key(shard: int) -> str:
    return f"lease.{shard}"


class Watched:
    """Some keys of the bucket, as we last saw them."""

    def __init__(self, bucket: Bucket, pattern: str, clock: Clock) -> None:
        self._bucket = bucket
        self._clock = clock
        self._sightings = Sightings()
        self._watch = bucket.watch(pattern)

    async def follow(self, seconds: float) -> bool:
        """Process changes, waiting at most so long; True if there were any."""
        news = [self._note(entry) for entry in got(await self._watch.next(seconds))]
        return any(news)

    def _note(self, entry: Entry) -> bool:
        return self._sightings.note(entry.key, entry.revision, entry.value, self._clock.monotonic())

    async def close(self) -> None:
        await self._watch.close()


class Leases(Watched):
    """The leases of a crawl's shards, as seen by one agent."""

    def __init__(self, bucket: Bucket, me: str, seconds: float, clock: Clock) -> None:
        super().__init__(bucket, "lease.*", clock)
        self.me = me
        self._seconds = seconds
        self.held: dict[int, Holding] = {}

    # -- observing

    def seen(self, shard: int) -> Sighting | None:
        return self._sightings.get(lease_key(shard))

    def holder_of(self, shard: int) -> str:
        """The known holder of a shard; empty for nobody (released, or expired)."""
        seen = self.seen(shard)
        lease = decode(seen.value) if seen is not None and seen.value is not None else None
        if seen is None or lease is None or lease.released:
            return ""
        return lease.holder if self._clock.monotonic() - seen.at < lease.seconds else ""

    def last_holder_of(self, shard: int) -> str:
        """The last holder of a shard who did not release it, whether or not its lease is over."""
        seen = self.seen(shard)
        lease = decode(seen.value) if seen is not None and seen.value is not None else None
        return lease.holder if lease is not None and not lease.released else ""

    # -- holding

    async def acquire(self, shard: int) -> Holding | None:
        """Take a shard's lease if it is free; None if it is not, or another agent was faster."""
        key = lease_key(shard)
        seen = self._sightings.get(key)
        if seen is None:
            entry = got(await self._bucket.last(key))  # having seen no lease does not prove there is none
            if entry is not None:
                self._note(entry)
                seen = self._sightings.get(key)
        decision = decide(seen, self.me, self._seconds, self._clock.monotonic())
        if isinstance(decision, Wait):
            return None
        return await self.take(shard, decision)

    async def take(self, shard: int, decision: Take) -> Holding | None:
        """Write a decision; None if another agent was faster."""
        began = self._clock.monotonic()
        key = lease_key(shard)
        value = encode(decision.lease)
        revision = await self._bucket.update(key, value, decision.revision)
        if isinstance(revision, Conflict | Unavailable):
            entry = got(await self._bucket.last(key))
            if entry is not None:
                self._note(entry)
            if entry is None or entry.value != value:
                return None
            revision = entry.revision
        self._sightings.note(key, revision, value, self._clock.monotonic())
        holding = self.held[shard] = Holding(decision.lease, revision, began, decision.turns)
        return holding

    async def renew(self, shard: int) -> bool:
        """Rewrite the lease; False if it is lost. `Unavailable`: try again while it lasts."""
        holding = self.held[shard]
        key, value = lease_key(shard), encode(holding.lease)
        for _ in range(3):
            began = self._clock.monotonic()
            revision = await self._bucket.update(key, value, holding.revision)
            if isinstance(revision, Conflict):
                entry = got(await self._bucket.last(key))
                if entry is None or not _is(entry.value, value):
                    if entry is not None:
                        self._note(entry)
                    holding.lose()
                    self.held.pop(shard, None)
                    return False
                # An earlier renewal of ours was accepted though its answer was lost. It does not count as a
                # renewal, as its time is unknown; but it has the revision from which to continue.
                holding.revision = max(holding.revision, entry.revision)
                continue
            holding.renewed(got(revision), began)
            self._sightings.note(key, got(revision), value, self._clock.monotonic())
            return True
        raise Unavailable(f"{key} changes while it is renewed")

    async def release(self, shard: int, turns: dict[str, tuple[str, float]] | None = None) -> None:
        """Release a lease, after everything of the shard was saved: the next holder may take it at once.

        `turns`: the turns of its addresses that are out, if they are known.
        """
        holding = self.held.pop(shard, None)
        if holding is None:
            return
        lease = holding.lease
        holding.lose()
        value = encode(Lease(lease.holder, lease.epoch, lease.seconds, released=True, turns=turns))
        mine = encode(lease)
        revision = holding.revision
        for _ in range(3):
            answer = await self._bucket.update(lease_key(shard), value, revision)
            if isinstance(answer, int):
                return
            if isinstance(answer, Conflict):
                entry = got(await self._bucket.last(lease_key(shard)))
                if entry is None or not _is(entry.value, mine):
                    return  # already released, or another's: nothing to release
                revision = entry.revision
            # No answer. The lease would expire by itself; three tries make the hand-over quick.


async def end_leases(bucket: Bucket, holder: str) -> list[int]:
    """Release the leases of a holder whose process is known to be dead; returns their shards.

    Only then may others have its shards: on one machine nothing else keeps the holder from writing.
    """
    ended = []
    for entry in got(await bucket.all("lease.*")):
        lease = decode(entry.value or b"")
        if lease is not None and lease.holder == holder and not lease.released:
            over = Lease(holder, lease.epoch, lease.seconds, released=True)
            got(await bucket.update(entry.key, encode(over), entry.revision))
            ended.append(int(entry.key.partition(".")[2]))
    return ended


def _is(value: bytes | None, ours: bytes) -> bool:
    """Whether a key holds our lease, or an invalid value: in neither case has another agent taken it."""
    return value == ours or value is None or decode(value) is None


class Said(msgspec.Struct):
    """What every agent publishes about itself; it may have more fields, for people to read."""

    at: float = 0.0
    host: str = ""
    pid: int = 0
    version: str = ""
    rss: int = 0
    visits: int = 0
    foreign: int = 0
    """How many foreign values it found (`foreign`)."""


class Gone(msgspec.Struct):
    """What others publish about an agent that fell silent."""

    at: float = 0.0
    silent: float = 0.0
    shards: dict[int, str] = {}
    """The shards that it held, and the agents that should have them now."""

    def said(self) -> str:
        whom: dict[str, list[int]] = {}
        for number, agent in sorted(self.shards.items()):
            whom.setdefault(agent or "nobody yet", []).append(number)
        rows = [f"{', '.join(map(str, numbers))} to {agent}" for agent, numbers in sorted(whom.items())]
        return f"its shards go on: {'; '.join(rows)}" if rows else "it held no shards"


class Presence(Watched):
    """Which agents are alive: each rewrites its key, and is alive while the key changes.

    agent.ID := {"at": time, ...}: what the agent publishes about itself. Any other value is no agent.
    gone.ID  := {"at": time, "silent": seconds, "shards": {N: agent}}: published by others about a silent agent.
                Its own key is then deleted: agents that start later would take it for alive.
    """

    def __init__(
        self, bucket: Bucket, me: str, seconds: float, clock: Clock, foreign: Foreign | None = None
    ) -> None:
        super().__init__(bucket, "agent.*", clock)
        self._foreign = foreign or Foreign()
        self._me = me
        self._seconds = seconds
        self._buried: dict[str, int] = {}

    async def beat(self, about: bytes = b"{}") -> None:
        """Publish that we are alive."""
        got(await self._bucket.put(f"agent.{self._me}", about))

    async def leave(self) -> None:
        """Announce our end: others need not wait."""
        got(await self._bucket.delete(f"agent.{self._me}"))

    def _note(self, entry: Entry) -> bool:
        if entry.value is not None and decoded(entry.value, Said) is None:
            self._foreign.note(f"the key {entry.key}", "does not say what an agent says")
            return False
        return super()._note(entry)

    def alive(self) -> list[str]:
        """The ids of the agents that are alive."""
        prefix = len("agent.")
        found = self._sightings.changed_within(self._seconds, self._clock.monotonic())
        return [key[prefix:] for key in found]

    def fallen_silent(self) -> list[tuple[str, float]]:
        """Agents that have become silent without announcing their end, and for how long; each once."""
        now, found = self._clock.monotonic(), []
        for key, seen in self._sightings.all():
            quiet = seen.value is not None and now - seen.at >= self._seconds
            if quiet and key != f"agent.{self._me}" and self._buried.get(key) != seen.revision:
                found.append((key.partition(".")[2], now - seen.at))
        return found

    async def bury(self, agent: str, gone: Gone) -> bool:
        """Publish that an agent fell silent; False if it was active since, unseen by us."""
        key = f"agent.{agent}"
        seen = self._sightings.get(key)
        assert seen is not None
        answer = await self._bucket.delete(key, seen.revision)
        if isinstance(answer, Conflict):
            entry = got(await self._bucket.last(key))
            if entry is None or entry.value is not None:
                return False
        else:
            got(answer)
        self._buried[key] = seen.revision
        got(await self._bucket.put(f"gone.{agent}", msgspec.json.encode(gone)))
        return True

    def about(self, agent: str) -> bytes:
        """What an agent last published about itself."""
        seen = self._sightings.get(f"agent.{agent}")
        return seen.value if seen is not None and seen.value is not None else b""
