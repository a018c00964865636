"""A cluster in trouble, simulated: from one seed the web, the agents and everything that happens; and a verdict.

    verdict = simulate(7)               lycosa lab simulate --seed 7

A run is a function of its seed (and of the other numbers given): what fails once fails again. It is judged like
real chaos tests (`chaos_verdict`, `webs.truth`, `webs.accesses`), by its results and by what the servers of the web
saw on the common clock:

    every URL has one valid record, and they are those of the truth, with their statuses
    no link was received more often than its sender's log has it: frames delivered twice were taken once
    every valid page is in the archive, on shared storage
    no host was asked too early, or twice at a time; waits are measured by the asking agent's clock
    no more pages than the limit, if there is one
    no agent ended with an error other than the servers' or the storage's silence
    the crawl reported its end, when it had ended, and no host was asked after that
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from lycosa.cluster.links import SEEDS
from lycosa.engine.protocol import Unavailable
from lycosa.files import scratch
from lycosa.lab.chaos_verdict import judge
from lycosa.lab.cluster_run import CRAWL, Ran, Running, run_cluster
from lycosa.lab.cluster_web import Asked
from lycosa.lab.simulate_faults import APART, Halt, Troubler, draw_schedule
from lycosa.lab.simulate_profiles import Profile, profile_of
from lycosa.lab.simulate_web import DrawnWeb, draw_web, rules_of
from lycosa.lab.webs.accesses import Access, AccessLog
from lycosa.records import Links, Received, encode
from lycosa.url.parts import host_of, path_of

LIMIT = 600.0
"""Virtual seconds after which a crawl of some twenty pages should be over, whatever happened in the first few."""
_FACTOR, _ADDRESS = 0.3, 0.1


class Numbers(NamedTuple):
    """Parameters besides the seed; 0: the seed decides."""

    agents: int = 0
    shards: int = 0
    pages: int = 0

    def command(self, seed: int) -> str:
        """The command that repeats a run."""
        more = [f" --{name} {value}" for name, value in self._asdict().items() if value]
        return f"lycosa lab simulate --seed {seed}{''.join(more)}"


DRAWN = Numbers()


class Simulated(NamedTuple):
    """The result of a seed."""

    seed: int
    numbers: Numbers
    faults: list[str]
    """The faults found; empty if the run was right."""
    happened: list[tuple[float, str]]
    counts: Counter[str]
    """Troubles by kind, and calls that were lost, late, unheard and repeated."""
    pages: int
    requests: int
    lost: int
    seconds: float
    """Virtual seconds."""
    profile: str
    agents: int
    shards: int
    ran: Ran
    drawn: DrawnWeb

    @property
    def right(self) -> bool:
        return not self.faults

    @property
    def digest(self) -> str:
        """Digest of everything observable: two runs with the same digest were the same run."""
        return digest_of(self.ran)


def options_of(chance: Random, limit: int, wait: float, profile: Profile) -> dict[str, Any]:
    """The options of a crawl: short waits, so that little virtual time passes, and snapshots often."""
    seconds, records = chance.choice(profile.snapshots)
    return {
        "public": False,
        "allow": ["127.0.0.0/8"],
        "scope": {"mode": "any"},
        "retry": {"first": 0.5, "growth": 1.5, "most": 5.0},
        "robots": {"first_retry": 0.5},
        "politeness": {
            "wait": wait,
            "factor": _FACTOR,
            "address_wait": _ADDRESS,
            "pages_per_visit": profile.visit,
        },
        "commit_seconds": chance.choice(profile.commits),
        "limits": {"pages": limit} if limit else {},
        "snapshot": {
            "seconds": seconds,
            "records": records,
            "archive_seconds": chance.choice(profile.archives),
        },
        "href_cache": 256,
    }


def simulate(seed: int, numbers: Numbers = DRAWN, running: type[Running] = Running) -> Simulated:
    """Draw everything from a seed, run it to its end and judge it."""
    chance = Random(f"{seed} cluster")
    profile = profile_of(seed)
    agents = numbers.agents or chance.choice(profile.agents)
    shards = numbers.shards or chance.choice(profile.shards)
    lease, wait = chance.choice(profile.leases), chance.choice(profile.waits)
    turn = chance.choice(profile.turns)
    log_bytes = chance.choice((8_000, 16_000, 256 << 20))
    drawn = draw_web(seed, numbers.pages)
    schedule = draw_schedule(seed, agents, lease)
    pages = drawn.most or len(drawn.truth.must)
    troubler = Troubler(schedule, agents, seed, pages)
    ran = run_cluster(
        seed,
        drawn.web,
        agents=agents,
        shards=shards,
        options=options_of(chance, drawn.most, wait, profile),
        network=schedule.network,
        lease=lease,
        turn=turn,
        log_bytes=log_bytes,
        plans=[troubler],
        limit=LIMIT,
        clocks=schedule.clocks,
        running=running,
    )
    log = accesses(ran.asked, troubler.halts)
    rules = rules_of(drawn, wait, _FACTOR, _ADDRESS, profile.visit, APART)
    rows = [(shard, *row) for shard, rows in sorted(ran.records.items()) for row in rows]
    with scratch("lycosa-simulate-") as place:
        write_archives(ran.storage, place)
        verdict = judge(rows, place, log, drawn.truth, rules)
    faults = [*_ending(ran, drawn, verdict.pages), *verdict.faults, *_exchanged(ran)]
    counts = Counter({kind: count for kind, count in troubler.counts.items() if count})
    counts.update({f"calls {what}": n for what, n in schedule.network.fates.items() if n})
    if any(rate != 1.0 for rate in schedule.clocks.values()):
        counts["clocks apart"] += 1
    return Simulated(
        seed=seed,
        numbers=numbers,
        faults=faults,
        happened=troubler.done,
        counts=counts,
        pages=verdict.pages,
        requests=verdict.requests,
        lost=verdict.lost,
        seconds=ran.seconds,
        profile=profile.name,
        agents=agents,
        shards=shards,
        ran=ran,
        drawn=drawn,
    )


def _ending(ran: Ran, drawn: DrawnWeb, pages: int) -> Iterator[str]:
    for at, name, error in ran.failed:
        if isinstance(error, TimeoutError):
            yield f"the crawl was not over after {at:.0f} s"
        elif not isinstance(error, Unavailable):
            yield f"{name} ended with an error at {at:.3f} s: {error!r}"
    if not ran.state.finished:
        yield "the crawl does not say that it is over"
    elif ran.state.end == "finished":
        late = [row for row in ran.asked if row.start > ran.finished]
        for row in late:
            yield f"asked at {row.start:.3f} s, after the crawl was over ({ran.finished:.3f} s): {row.url}"
    if drawn.most and pages > drawn.most:
        yield f"{pages} pages, though the limit was {drawn.most}"
    elif drawn.most and ran.state.end == "limit" and pages < drawn.most:
        yield f"{pages} pages, and the crawl says that it has reached its limit of {drawn.most}"


def _exchanged(ran: Ran) -> Iterator[str]:
    for receiver, rows in sorted(ran.records.items()):
        received = Counter(
            (record.sender, link.url)
            for _, record in rows
            if isinstance(record, Received)
            for link in record.links
        )
        for (sender, url), count in sorted(received.items()):
            found = sum(
                link.url == url
                for _, record in ran.records.get(sender, ())
                if not isinstance(record, Received) and isinstance(getattr(record, "links", None), Links)
                for link in record.links  # type: ignore[union-attr]
            )
            if sender != SEEDS and count > found:
                yield f"shard {receiver} received {url} {count} times of shard {sender}, which has it {found} times"


def accesses(asked: list[Asked], halts: Sequence[Halt] = ()) -> AccessLog:
    """What the web saw, for the judge; every run of an agent counts as a connection.

    A stopped process cannot break off what it is doing. If the next to ask there is another agent, which
    has the host by then, a request that was under way counts only until its process stopped.

    Who takes a shard after an unclean end counts its hosts as asked at that moment. How long a request lasted that
    was broken off then, nobody has written down: the next to ask, if it is another run, need not wait in
    proportion to it.
    """
    log = AccessLog()
    runs: dict[str, int] = {}
    for row in asked:
        stopped = [
            halt.start for halt in halts if halt.agent == row.agent and row.start < halt.start < row.end
        ]
        if stopped and _next(row, asked, row.address).agent != row.agent:
            row = row._replace(end=min(stopped))
        log.add(
            Access(
                start=row.start,
                end=row.end,
                host=host_of(row.url),
                path=path_of(row.url),
                status=row.status,
                connection=runs.setdefault(row.run, len(runs)),
                peer=row.agent,
                local=row.address,
                wait=row.wait / APART,
                broken_off=row.broken_off and _next(row, asked).run != row.run,
            )
        )
    return log


def _next(row: Asked, asked: list[Asked], address: str = "") -> Asked:
    """The next request to the same host, or to the address; itself if there is none."""
    host = host_of(row.url)
    later = [
        other
        for other in asked
        if other.start > row.start and (host_of(other.url) == host or other.address == address)
    ]
    return min(later, key=lambda other: other.start, default=row)


def write_archives(storage: dict[str, bytes], place: Path) -> None:
    """Write the archives of shared storage to a directory, for the judge."""
    start = f"{CRAWL}/archive/"
    for name, data in storage.items():
        if name.startswith(start):
            (place / name[len(start) :]).write_bytes(data)


def digest_of(ran: Ran) -> str:
    """Digest of the agents' messages, the web's requests and the logs."""
    seen = hashlib.sha256()
    for row in (*ran.told, *ran.asked, *sorted(ran.ends.items()), (ran.seconds, ran.finished)):
        seen.update(repr(tuple(row)).encode())
    for shard, rows in sorted(ran.records.items()):
        for position, record in rows:
            seen.update(b"%d %d " % (shard, position) + encode(record))
    return seen.hexdigest()
