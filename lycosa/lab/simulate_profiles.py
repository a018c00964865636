"""The kind of trouble that a seed is about: some draw from everything, the others from a dangerous area.

A defect that needs a coincidence of three things is found by chance once in thousands of runs, if each of them is
drawn from everything. So most seeds have a *profile*, by their number (`profile_of`): sizes, times and weights of
troubles that endanger one kind of guarantee again and again. What a profile draws is drawn from the seed like all
the rest.

    anything    all kinds of trouble
    leases      the keys of leases cannot be reached, while all else can; clocks differ as much as they may; a
                host has a different address for each agent, so no turn of an address hides the effect of leases
    renewals    the same with short leases, whose keys answer late, or whose answers are lost
    turns       one address for all hosts, slow servers, owners of its turns that die, and lost renewals
    owners      the same, with owners that lose the lease of the shard that owns the turns
    waits       hosts that want to be left alone for longer than a lease lasts, and agents that die
    exchange    commits are rare and streams full: much is under way when an agent dies
    end         agents that die, with their disks, and links that are not read, when all shards are idle
    alone       one agent that loses leases and regains them, with its appends arriving in between; late threads
    answers     renewals of leases are answered as late as possible, and then no more
    unasked     pages take longer than the turn of their address, which cannot be asked for again
    doubts      leases are regained while archive files are judged by logs that have grown since

The last three share a digit: a number modulo 30 selects one of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """A kind of trouble; described in `simulate_faults`."""

    KILLED = "killed"
    LEAVE = "leave"
    JOIN = "join"
    CUT = "cut"
    DEAF = "deaf"
    STOPPED = "stopped"
    SLOW = "slow"
    LATE = "late"
    STORAGE = "storage"
    FULL = "full"
    ROUGH = "rough"
    LEASE = "lease"
    UNREAD = "unread"
    LAG = "lag"
    TURN = "turn"
    DOUBT = "doubt"


class When(StrEnum):
    """The event from which the time of a trouble counts."""

    BEGUN = "begun"
    LAST = "last"
    """Almost all pages were asked for."""
    IDLE = "idle"
    """All shards report that they are idle; the end is a moment away, and so is the trouble."""


class Profile(NamedTuple):
    """The ranges from which a seed draws; all values of a choice are equally likely."""

    name: str
    kinds: Mapping[Kind, int]
    """The relative frequency of each trouble."""
    whens: Sequence[When] = (When.BEGUN, When.BEGUN, When.LAST)
    troubles: Sequence[int] = (0, 1, 2, 2, 3, 3, 4, 5)
    begins: tuple[float, float] = (0.3, 9.0)
    """The seconds between which a trouble begins."""
    lasting: float = 2.0
    """The longest duration of a trouble, in leases."""
    disks: Sequence[str] = ("kept", "torn", "torn", "lost")
    agents: Sequence[int] = (1, 2, 2, 2, 3)
    shards: Sequence[int] = (2, 3, 3, 4)
    least: float = 1.3
    """The shortest time for which the key of a lease is hard to reach, in leases."""
    leases: Sequence[float] = (3.0, 5.0, 7.0)
    turns: Sequence[float] = (0.0,)
    """Seconds that the turn of an address lasts; 0.0: as long as a lease."""
    extreme: bool = False
    """Clocks are as fast or as slow as they may be, alternating from agent to agent."""
    calm: float = 0.3
    """Share of the runs whose network does not lose, delay or repeat calls by chance: takeovers are not delayed."""
    renewals: Sequence[int] = (0, 1, 2, 3)
    """The fates of renewals of a lease (`simulate_faults`) when its key is hard to reach."""
    waits: Sequence[float] = (0.6,)
    visit: int = 2
    """Pages per visit."""
    commits: Sequence[float] = (0.3, 0.9)
    archives: Sequence[float] = (2.0, 10.0)
    """Seconds after which archive files are copied to storage."""
    snapshots: Sequence[tuple[float, int]] = tuple(itertools.product((2.0, 5.0, 600.0), (5, 20, 200_000)))
    """Seconds, and records, after which a shard's snapshot is saved."""
    pages: tuple[int, int] = (8, 16)
    hosts: tuple[int, int] = (4, 6)
    """The number of hosts of the web, approximately."""
    slow: float = 0.0
    """Share of the pages that are slow, in addition to their kind."""
    seconds: tuple[float, float] = (0.3, 4.0)
    """The least and most seconds that slow pages take."""
    addresses: int = 0
    """The number of addresses of all hosts; 0: random."""
    spread: bool = False
    """Whether a name has a different address for each agent."""
    slowest: bool = False
    """Whether most troubles strike the agent with the slowest clock."""
    owned: bool = False
    """Whether most troubles strike the agent that owns the turns of the first address."""
    doubts: bool = False
    """Whether, when an agent loses a lease, its appends are under way and threads are late."""
    late: float = 0.8
    """Mean delay of a thread in seconds, when threads are late."""
    links: int = 2
    """Links in addition to those by which all pages are found."""


_ALL = {
    **dict.fromkeys(Kind, 1),
    Kind.KILLED: 5,
    Kind.LEAVE: 2,
    Kind.CUT: 2,
    Kind.STOPPED: 3,
    Kind.TURN: 0,  # these two have profiles of their own
    Kind.DOUBT: 0,
}

_TENS = (
    Profile("anything", _ALL),
    Profile(
        "leases",
        {Kind.LEASE: 1},
        whens=(When.BEGUN,),
        troubles=(2, 3),
        begins=(2.5, 15.0),
        agents=(2,),
        shards=(2, 3, 4),
        pages=(22, 28),
        hosts=(3, 4),
        leases=(10.0,),
        extreme=True,
        calm=0.8,
        renewals=(0,),
        slow=0.8,
        spread=True,
    ),
    Profile(
        "renewals",
        {Kind.LEASE: 8, Kind.STOPPED: 1, Kind.DEAF: 1},
        whens=(When.BEGUN,),
        troubles=(3, 4, 5),
        begins=(2.5, 15.0),
        agents=(2, 3),
        shards=(4,),
        pages=(22, 28),
        hosts=(3, 4),
        leases=(3.0,),
        extreme=True,
        calm=0.8,
        renewals=(1, 2, 2, 3),
        slow=0.8,
        spread=True,
    ),
    Profile(
        "turns",
        {Kind.KILLED: 2, Kind.ROUGH: 1},
        whens=(When.BEGUN,),
        troubles=(2, 3, 4, 5),
        begins=(2.5, 20.0),
        agents=(3,),
        shards=(3,),
        pages=(22, 28),
        hosts=(3, 4),
        visit=12,
        leases=(3.0,),
        extreme=True,
        slow=0.9,
        seconds=(1.4, 2.0),
        addresses=1,
        owned=True,
    ),
    Profile(
        "owners",
        {Kind.LEASE: 1},
        whens=(When.BEGUN,),
        troubles=(2, 3),
        begins=(3.0, 25.0),
        lasting=1.0,
        agents=(2,),
        shards=(3, 4),
        pages=(36, 44),
        hosts=(4, 5),
        visit=12,
        leases=(20.0,),
        turns=(3.0,),
        extreme=True,
        calm=0.8,
        renewals=(0,),
        slow=0.9,
        seconds=(1.0, 2.0),
        addresses=1,
        owned=True,
        links=12,
    ),
    Profile(
        "waits",
        {Kind.KILLED: 6, Kind.CUT: 1, Kind.LEASE: 2, Kind.LEAVE: 1},
        whens=(When.BEGUN,),
        troubles=(2, 3, 4),
        leases=(3.0,),
        waits=(9.0,),
        calm=0.8,
        commits=(0.9, 3.0),
        spread=True,
    ),
    Profile(
        "exchange",
        {Kind.LAG: 4, Kind.FULL: 5, Kind.KILLED: 5, Kind.ROUGH: 1},
        whens=(When.BEGUN,),
        troubles=(3, 4, 5),
        begins=(1.5, 12.0),
        agents=(2, 2, 3),
        shards=(2, 3),
        leases=(5.0, 7.0),
        commits=(0.3, 3.0, 3.0),
        pages=(14, 20),
        hosts=(8, 10),
    ),
    Profile(
        "end",
        {Kind.KILLED: 4, Kind.UNREAD: 4, Kind.STOPPED: 1, Kind.LEAVE: 1},
        whens=(When.BEGUN, When.IDLE, When.IDLE),
        troubles=(2, 3, 4),
        lasting=3.0,
        disks=("lost", "lost", "torn"),
        agents=(2, 3),
        archives=(30.0,),
        snapshots=((600.0, 200_000),),
    ),
    Profile(
        "alone",
        {Kind.LEASE: 8, Kind.LAG: 1, Kind.KILLED: 1},
        whens=(When.BEGUN,),
        troubles=(7, 8, 9),
        begins=(2.0, 45.0),
        lasting=1.3,
        doubts=True,
        disks=("kept", "torn"),
        agents=(1,),
        shards=(3, 4),
        leases=(3.0,),
        commits=(0.3,),
        archives=(2.0, 3.0, 4.0),
        pages=(30, 40),
        hosts=(3, 4),
        visit=1,
        waits=(1.0,),
    ),
)


_SIXES = (
    Profile(
        "answers",
        {Kind.LEASE: 1},
        whens=(When.BEGUN,),
        troubles=(2, 3),
        begins=(3.0, 14.0),
        least=2.2,
        agents=(2,),
        shards=(2, 3),
        pages=(26, 32),
        hosts=(3, 3),
        visit=12,
        leases=(3.7,),
        turns=(1.0,),
        extreme=True,
        slowest=True,
        calm=1.0,
        renewals=(4,),
        commits=(3.0,),
        slow=0.9,
        seconds=(0.8, 1.8),
        spread=True,
    ),
    Profile(
        "unasked",
        {Kind.TURN: 6, Kind.JOIN: 1, Kind.LATE: 1},
        whens=(When.BEGUN,),
        troubles=(6, 7),
        begins=(8.0, 50.0),
        lasting=0.4,
        agents=(3,),
        shards=(3,),
        pages=(10, 12),
        hosts=(4, 5),
        leases=(6.0,),
        turns=(3.8,),
        extreme=True,
        calm=1.0,
        slow=0.7,
        seconds=(6.0, 8.0),
        addresses=1,
        links=20,
    ),
    Profile(
        "doubts",
        {Kind.DOUBT: 1},
        whens=(When.BEGUN,),
        troubles=(3, 4),
        begins=(6.0, 14.0),
        late=1.2,
        agents=(1,),
        shards=(4,),
        leases=(3.0,),
        calm=1.0,
        commits=(0.3,),
        archives=(6.0,),
        snapshots=((600.0, 200_000),),
        pages=(36, 44),
        hosts=(6, 7),
        visit=1,
        waits=(0.6,),
        slow=0.8,
        seconds=(0.3, 0.9),
        links=16,
    ),
)
PROFILES = tuple(each for six in _SIXES for each in (*_TENS[:6], six, *_TENS[6:]))
"""By seed: ten profiles, three times, each time with another one in the seventh place."""


def profile_of(seed: int) -> Profile:
    """The profile of a seed."""
    return PROFILES[seed % len(PROFILES)]
