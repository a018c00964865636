"""What is done to a cluster, and when: drawn from a seed before anything runs.

    kill      SIGKILL of an agent; after a rest it starts again on its disk, or as a new agent
    stop      SIGSTOP of an agent for longer than its lease, then SIGCONT
    wipe      SIGKILL of an agent; its disk is deleted before it starts again
    leader    SIGKILL of the server that leads a randomly drawn stream; it starts again after a rest
    join      one more agent
    leave     SIGTERM: an agent hands over and ends in good order; after a rest it comes back

A seed fixes kinds, times and the random numbers that choose victims among those alive at the time. Which are alive
depends on the machine's speed, so the same seed gives the same events, not the same victims.
"""

from __future__ import annotations

from enum import StrEnum
from random import Random
from typing import NamedTuple

from lycosa.errors import ConfigError

JOINS = 2


class Kind(StrEnum):
    KILL = "kill"
    STOP = "stop"
    WIPE = "wipe"
    LEADER = "leader"
    JOIN = "join"
    LEAVE = "leave"


class Event(NamedTuple):
    """One thing to do."""

    number: int
    kind: Kind
    gap: float
    """Seconds after the previous event (or the start)."""
    pick: float
    """The victim: at this fraction of the list of candidates, 0 <= pick < 1."""
    rest: float
    """Seconds until it is undone: restarted, woken."""
    anew: bool
    """Whether a killed agent comes back as another one, on an empty disk of its own; the old disk stays unused."""

    def choose(self, count: int) -> int:
        return int(self.pick * count)


_MUST = (Kind.KILL, Kind.STOP, Kind.WIPE, Kind.LEADER, Kind.LEAVE, *[Kind.JOIN] * JOINS)
_MORE = (Kind.KILL, Kind.KILL, Kind.STOP, Kind.STOP, Kind.WIPE, Kind.LEADER, Kind.LEAVE)
"""The kinds from which further events are drawn; frequent failures are listed twice."""


def draw(seed: int, count: int, lease: float, gap: tuple[float, float] = (1.0, 6.0)) -> list[Event]:
    """Draw `count` events, each kind at least once, two joins."""
    if count < len(_MUST):
        raise ConfigError(
            f"at least {len(_MUST)} events are needed so that each kind is among them, not {count}"
        )
    dice = Random(seed)
    kinds = [*_MUST, *(dice.choice(_MORE) for _ in range(count - len(_MUST)))]
    dice.shuffle(kinds)
    events = []
    for number, kind in enumerate(kinds, 1):
        between = dice.uniform(*gap)
        pick = dice.random()
        if kind is Kind.STOP:
            rest = lease * dice.uniform(1.1, 1.6)
        elif kind is Kind.LEADER:
            rest = dice.uniform(2.0, 6.0)
        else:
            rest = dice.uniform(0.0, 1.5 * lease)  # shorter and longer than its leases
        events.append(Event(number, kind, between, pick, rest, kind is Kind.KILL and dice.random() < 0.4))
    return events
