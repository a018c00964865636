"""The crawl's own state in the bucket: its definition, what the operator wants, its progress, and its end.

    crawl     := what never changes: shards, hash seed, options, where shared storage is   (created once)
    state     := {"wanted": running|paused|stopped, "finished": bool, "end": why, "options": json, "round": n,
                  "since": ms}                                                             CAS
    report.N  := the last report of shard N's holder                                       (the holder writes)
    quota     := {"limit": pages, "granted": {N: [epoch, pages]}}                          CAS

The end. A crawl is over when all shards are idle and every link has arrived. A single look at reports of different
ages cannot show that, so there are two (`Ending`): when every report says *idle, all committed, all
sent, and as much received as its exchange holds*, the holder of shard 0 starts a new **round**;
holders put the round that they know into their reports, once their archives are where they are kept. When all have
answered the new round and nothing has moved since the last one, no append happened between the two looks, none can
be under way, and none will begin by itself: the crawl is over.

Quota. A limit of pages is exact: pages are granted to shards in chunks, and never more in total than the limit. A
new holder of a shard first settles: it gives back what its predecessor was granted and did not log; what the
predecessor has fetched since can no longer be committed. So the sum of the pages logged never exceeds the
limit, and reaches it if there are enough pages.

All calls of `Control` raise `Unavailable` when the engine does not answer; the caller can only try again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeVar

import msgspec

from lycosa.clock import Clock
from lycosa.cluster.foreign import Foreign, decoded
from lycosa.cluster.links import MESSAGE_BYTES
from lycosa.cluster.names import streams_of
from lycosa.cluster.outcomes import Damaged, Fenced
from lycosa.cluster.storage import Storage
from lycosa.crawl.acts import Act, applied
from lycosa.crawl.config import Options, decode_options, encode_options
from lycosa.crawl.splitting import SplitterOptions
from lycosa.crawl.status import ReportTotals
from lycosa.engine.protocol import Absent, Conflict, Engine, Unavailable, got
from lycosa.errors import ConfigError
from lycosa.version import VERSION

_TRIES = 20
_LOOK = 0.5
S = TypeVar("S", bound=msgspec.Struct)


class Wanted(StrEnum):
    """What the operator wants of a crawl."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The constant facts about a crawl of a cluster."""

    crawl: str  # its own id, as in a manifest
    shards: int
    hash_seed: int
    created: int
    storage: str  # the place of shared storage, as agents find it
    replicas: int = 3
    lease: float = (
        30.0  # electing a leader of a stream takes some ten seconds: 0.8 of the lease must be longer
    )
    log_bytes: int = 256 << 20  # of one shard's tail
    exchange_bytes: int = 256 << 20  # of one shard's exchange
    turn_seconds: float = (
        0.0  # of an address: seconds after which its holder must have renewed it; 0: as long as the lease
    )
    look: float = _LOOK  # seconds between two looks at the state of others
    version: str = VERSION
    splitter: SplitterOptions = SplitterOptions()

    @property
    def message_bytes(self) -> int:
        """Size of the links in one message: every sender's last message stays, and must leave room for others."""
        return min(MESSAGE_BYTES, self.exchange_bytes // (4 * self.shards))

    def pause(self, seconds: float) -> float:
        """Seconds between two looks at something that by default is checked this often: longer if `look` is."""
        return seconds * max(self.look / _LOOK, 1.0)

    @property
    def turn(self) -> float:
        """Seconds that the turn of an address lasts."""
        return self.turn_seconds or self.lease

    @property
    def segment_bytes(self) -> int:
        """The size of a segment of a log: several must fit into the tail."""
        return min(64 << 20, self.log_bytes // 8)


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of the crawl, and how it ended."""

    wanted: Wanted = Wanted.STOPPED
    finished: bool = False
    options: str = ""  # the crawl's options as JSON: agents log them (`Configured`) when they change
    round: int = 0
    end: str = ""  # why it finished: "finished", or "limit"
    since: int = 0  # when it was last started, in milliseconds; 0: never


def options_of(state: State) -> Options:
    return decode_options(state.options.encode())


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the holder of a shard reports about it."""

    shard: int
    agent: str
    epoch: int
    round: int
    end: int  # of the log
    committed: int
    received: int  # sequence of its exchange stream up to which links are in the committed log
    sent: int  # the lowest position up to which its links have been sent to all shards
    idle: bool  # nothing pending, waiting, deferred within the horizon or in flight
    totals: ReportTotals = ReportTotals()
    acts: tuple[str, ...] = ()  # ids of the last acts that its log has, committed

    def moved_since(self, other: Report) -> bool:
        return (self.epoch, self.end, self.received) != (other.epoch, other.end, other.received)


class Quota(msgspec.Struct, frozen=True):
    """Pages granted to shards: (epoch, pages) of each."""

    limit: int
    granted: dict[int, tuple[int, int]] = {}


def granting(quota: Quota, shard: int, epoch: int, have: int, wanted: int) -> tuple[Quota, int]:
    """Grant a shard that has `have` pages (granted, or logged) up to `wanted` more; returns the new quota, and
    the shard's total in it.

    The shard's previous grant in the quota is ignored: so a grant whose answer was lost is repeated, not added.
    """
    _refuse_stale(quota, shard, epoch)
    others = sum(pages for number, (_, pages) in quota.granted.items() if number != shard)
    total = max(have, min(have + wanted, quota.limit - others))
    return Quota(quota.limit, {**quota.granted, shard: (epoch, total)}), total


def settling(quota: Quota, shard: int, epoch: int, pages: int) -> Quota:
    """A shard has logged this many pages in all, and gives back what it was granted beyond them."""
    _refuse_stale(quota, shard, epoch)
    return Quota(quota.limit, {**quota.granted, shard: (epoch, pages)})


def _refuse_stale(quota: Quota, shard: int, epoch: int) -> None:
    since, _ = quota.granted.get(shard, (epoch, 0))
    if since > epoch:
        raise Fenced(f"shard {shard} has a holder of epoch {since}")


class EndVerdict(NamedTuple):
    """Whether a crawl is over; if not, the round that holders should answer (possibly the one they know)."""

    over: bool
    round: int


class Ending:
    """Decides whether a crawl is over. Only observes; see the module."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._before: dict[int, Report] | None = None
        self._round = -1

    def look(self, reports: Mapping[int, Report], ends: Mapping[int, int], round_: int) -> EndVerdict:
        """Look at all reports, in the round that `state` has.

        `ends`: the sequence of the newest message in every exchange stream (0: it is empty; it may have been begun
        after the sequences of an earlier run), asked for after the reports were read.
        """
        if not self._quiet(reports, ends):
            self._before = None
            return EndVerdict(False, round_)
        if any(report.round < round_ for report in reports.values()):
            return EndVerdict(False, round_)  # some have not answered yet
        before = self._before
        if before is None or self._round < round_:
            if before is not None and not any(
                reports[shard].moved_since(before[shard]) for shard in range(self._shards)
            ):
                return EndVerdict(True, round_)
            self._before, self._round = dict(reports), round_
        return EndVerdict(False, round_ + 1)

    def _quiet(self, reports: Mapping[int, Report], ends: Mapping[int, int]) -> bool:
        for shard in range(self._shards):
            report = reports.get(shard)
            if report is None or not report.idle or report.committed != report.end:
                return False
            if report.sent < report.committed or report.received < ends.get(shard, 0):
                return False
        return True


def _demand_free(storage: Storage, crawl: str, about: About) -> None:
    """Refuse a place that holds another crawl's files: its logs are not ours, and their owner would lose them."""
    if storage.exists("crawl.json"):
        raise ConfigError(
            "the place for shared storage is the directory of a crawl itself: choose another one (--shared)"
        )
    there = None
    if storage.exists(f"{crawl}/crawl.json"):
        there = decoded(storage.get(f"{crawl}/crawl.json"), About)
    elif not storage.list(f"{crawl}/shards") and not storage.list(f"{crawl}/archive"):
        return
    if there is None or there.crawl != about.crawl:
        raise ConfigError(
            f"shared storage holds files of an earlier crawl {crawl}: choose another name, or another --shared "
            f"directory (or remove the directory {crawl} there, if it is no longer needed)"
        )


class Control:
    """A crawl's state, for its operator and its agents."""

    def __init__(self, engine: Engine, clock: Clock, foreign: Foreign | None = None) -> None:
        self._engine = engine
        self._bucket = engine.bucket
        self._clock = clock
        self._foreign = foreign or Foreign()

    # -- what it is

    async def create(self, about: About, options: str, storage: Storage, suffixes: bytes) -> None:
        """Create a crawl: its streams, its keys, and its files on shared storage."""
        crawl = self._engine.crawl
        await asyncio.to_thread(_demand_free, storage, crawl, about)
        plans = streams_of(about.shards, about.log_bytes, about.exchange_bytes)
        got(await self._engine.create(plans, about.replicas))
        await asyncio.to_thread(storage.put, f"{crawl}/public_suffix.dat", suffixes)
        told = msgspec.json.format(msgspec.json.encode(about))
        await asyncio.to_thread(storage.put, f"{crawl}/crawl.json", told)
        state = await self._bucket.update("state", msgspec.json.encode(State(options=options)), 0)
        if not isinstance(state, Conflict):  # else an interrupted creation is being repeated
            got(state)
        # Last: where this key exists, all the rest does.
        taken = await self._bucket.update("crawl", msgspec.json.encode(about), 0)
        if not isinstance(taken, Conflict):
            got(taken)
        elif await self.about() != about:
            raise ConfigError(f"there is a crawl {crawl} on these servers already: choose another name")

    async def exists(self) -> bool:
        found = await self._bucket.get("crawl")
        return not isinstance(found, Absent) and got(found) is not None

    async def about(self) -> About:
        found = await self._bucket.get("crawl")
        if found is None or isinstance(found, Absent):
            raise ConfigError(
                f"there is no crawl {self._engine.crawl} on these servers: make it first (lycosa cluster create)"
            )
        found = got(found)
        assert found is not None
        return self._read("crawl", found.value or b"", About)

    # -- what is wanted

    async def state(self) -> State:
        found = got(await self._bucket.get("state"))
        return State() if found is None else self.read_state(found.value or b"")

    def read_state(self, value: bytes) -> State:
        """The value of the key `state`; `Damaged` if it cannot be read."""
        return self._read("state", value, State)

    async def change(self, change: Callable[[State], State]) -> State:
        """Change the state; repeated if it was changed by others meanwhile."""
        return await self._change("state", State, State(), change)

    async def want(self, wanted: Wanted, now: int = 0) -> State:
        """Start (at that time), pause or stop; starting a finished crawl continues it."""

        def changed(state: State) -> State:
            if wanted is not Wanted.RUNNING:
                return msgspec.structs.replace(state, wanted=wanted)
            since = now if state.finished or state.wanted is not Wanted.RUNNING else state.since
            return msgspec.structs.replace(state, wanted=wanted, finished=False, end="", since=since)

        return await self.change(changed)

    async def steer(self, act: Act, wanted: Wanted | None = None) -> State:
        """Apply an act to the options, once, and set what is wanted with them: agents see the change and log it.

        It begins a new round, so that an end that was about to be declared is checked again.
        """

        def changed(state: State) -> State:
            options = options_of(state)
            if options.steered.has(act.id):
                return state
            encoded = encode_options(applied(options, act)).decode()
            after = wanted or state.wanted
            return msgspec.structs.replace(state, options=encoded, wanted=after, round=state.round + 1)

        state = await self.change(changed)
        await self.limit_pages(options_of(state).limits.pages)
        return state

    async def finish(self, end: str = "finished", round_: int | None = None) -> State:
        """Declare the crawl over; unless a later round has begun (because seeds were given meanwhile)."""

        def changed(state: State) -> State:
            if round_ is not None and state.round != round_:
                return state
            return msgspec.structs.replace(state, finished=True, end=end)

        return await self.change(changed)

    async def next_round(self, round_: int) -> State:
        return await self.change(lambda state: msgspec.structs.replace(state, round=max(state.round, round_)))

    # -- how far it is

    async def report(self, report: Report) -> None:
        got(await self._bucket.put(f"report.{report.shard}", msgspec.json.encode(report)))

    async def reports(self) -> dict[int, Report]:
        """The latest reports of all shards that have any; values that are no report are skipped."""
        found: dict[int, Report] = {}
        for entry in got(await self._bucket.all("report.*")):
            with contextlib.suppress(Damaged):
                report = self._read(entry.key, entry.value or b"", Report)
                if entry.key == f"report.{report.shard}":
                    found[report.shard] = report
        return found

    # -- how much is left

    async def limit_pages(self, limit: int) -> None:
        """Set (or change) the limit of pages; what was granted stays granted."""
        await self._change("quota", Quota, Quota(limit), lambda quota: Quota(limit, quota.granted))

    async def take_pages(self, shard: int, epoch: int, have: int, wanted: int) -> int:
        """Ask for up to `wanted` pages besides those we have; returns our total. If it has not grown, none are
        left.

        A new holder settles first, and has as many pages as its log.
        """
        total = have

        def grant(quota: Quota) -> Quota:
            nonlocal total
            quota, total = granting(quota, shard, epoch, have, wanted)
            return quota

        await self._change("quota", Quota, Quota(0), grant)
        return total

    async def settle_pages(self, shard: int, epoch: int, pages: int) -> None:
        """Declare that a shard has logged this many pages in all, and has no more in flight: the rest is free."""
        await self._change("quota", Quota, Quota(0), lambda quota: settling(quota, shard, epoch, pages))

    async def quota(self) -> Quota:
        found = got(await self._bucket.get("quota"))
        return Quota(0) if found is None else self._read("quota", found.value or b"", Quota)

    async def _change(self, key: str, kind: type[S], empty: S, change: Callable[[S], S]) -> S:
        """Read, change, write if unchanged since. If the outcome is unknown, the key is read to find it out."""
        for attempt in range(_TRIES):
            found = got(await self._bucket.last(key))
            value = found.value if found is not None else None
            before = empty if value is None else self._read(key, value, kind)
            after = change(before)
            if after == before and value is not None:
                return after
            encoded = msgspec.json.encode(after)
            revision = found.revision if found is not None else 0
            answer = await self._bucket.update(key, encoded, revision)
            if isinstance(answer, int):
                return after
            if isinstance(answer, Conflict):
                await self._clock.sleep(0.01 * attempt)
            # No answer: the key is read again in either case; every change here may be made twice.
        raise Unavailable(f"{key} of crawl {self._engine.crawl} is changed too often by others")

    def _read(self, key: str, value: bytes, kind: type[S]) -> S:
        try:
            return msgspec.json.decode(value, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._foreign.note(f"the key {key}", f"is damaged, or of a newer version of lycosa ({error})")
            raise Damaged(
                f"the key {key} of crawl {self._engine.crawl} is damaged, or of a newer version of lycosa: {error}"
            ) from None


# Created here so that they are complete: msgspec crashes if two threads are the first to decode a nested struct.
msgspec.json.Decoder(tuple[About, Report])
