"""The network between simulated agents and their engine: decides the fate of every call, by chance and by order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from lycosa.engine.memory import Fate


class Hard:
    """The fates of successive calls to something that is hard to reach; the last one repeats."""

    def __init__(self, fates: Sequence[Callable[[Random], Fate]]) -> None:
        self._fates = list(fates)

    def next(self, chance: Random) -> Fate:
        return (self._fates.pop(0) if len(self._fates) > 1 else self._fates[0])(chance)


class DiceNetwork:
    """A network that loses, delays and repeats calls by chance; and cuts clients off on demand."""

    def __init__(
        self, seed: int, *, lost: float = 0.01, unheard: float = 0.01, twice: float = 0.01, late: float = 0.02
    ) -> None:
        """Probabilities that a call is lost, that its answer is, that it comes twice, that it takes seconds."""
        self._random = Random(f"{seed} network")
        self.lost = lost
        self.unheard = unheard
        self.twice = twice
        self.late = late
        self.cut: set[str] = set()
        """Clients that can neither send nor receive."""
        self.deaf: set[str] = set()
        """Clients that can send, but not receive."""
        self.halted: set[str] = set()
        """Clients that are stopped, and answer nobody."""
        self.hard: dict[tuple[str, str], Hard] = {}
        """What is hard to reach for a client, by client and call."""
        self.fates: Counter[str] = Counter()
        """How many calls were lost, unheard, late, or came twice."""

    def fate(self, client: str, to: str) -> Fate:
        chance = self._random
        if client in self.cut or client in self.halted:
            return Fate(None, None)
        if self.hard and (hard := self.hard.get((client, to))) is not None:
            return hard.next(chance)
        if self.lost and chance.random() < self.lost:
            self.fates["lost"] += 1
            return Fate(None, None)
        late = chance.random() < self.late
        there = chance.expovariate(1 / (4.0 if late else 0.002))
        unheard = client in self.deaf or chance.random() < self.unheard
        slowly = chance.random() < self.late
        back = None if unheard else chance.expovariate(1 / (2.0 if slowly else 0.002))
        twice = chance.random() < self.twice
        again = chance.expovariate(1 / 2.0) if twice and chance.random() < 0.5 else 0.0
        self.fates["late"] += late
        self.fates["unheard"] += unheard
        self.fates["twice"] += twice
        return Fate(there, back, twice, again)
