"""A run of several agents on one machine, as decisions: its course when agents begin, die and end.

    opening  --opened-->           running      every shard has a holder
    opening, running  --ends-->    ending       the crawl is over, it was stopped, or something failed

`on(event, now)` takes an event and returns the actions to be taken. Values only: processes, files and the
clock belong to the caller (`supervisor`).

An agent that dies while the crawl runs is restarted after a moment, which grows with every death that comes
soon after a start. Repeated deaths of an agent, a death at the start or during the end, and a failure of an agent
(which the operator must resolve, or an error of the program) end the run. The cause is the run's failure, and names
the agent; an end before a dead agent is back is a failure, too (`result`).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from lycosa.crawl.agent import End
from lycosa.errors import LocalError

_DEATHS = 5
"""This many deaths in a row, each soon after the last start, end the run."""
_SOON = 30.0
_BACKOFF = 0.25


class Stage(Enum):
    """The state of the run."""

    OPENING = auto()
    RUNNING = auto()
    ENDING = auto()


class Opened(NamedTuple):
    """Every shard has a holder."""


class Ends(NamedTuple):
    """The run is to end, for this reason or because of this failure."""

    end: End | None = None
    failure: Exception | None = None


class Began(NamedTuple):
    """The process of an agent has begun."""

    agent: int


class Heard(NamedTuple):
    """An agent has reported on a shard since its process began."""

    agent: int


class Exited(NamedTuple):
    """The process of an agent has ended with this code; `failure`: the agent's own message about it."""

    agent: int
    code: int
    failure: Exception | None = None


class Looked(NamedTuple):
    """Time has passed."""


class Start(NamedTuple):
    """Start an agent's process."""

    agent: int


class Recover(NamedTuple):
    """Prepare what a dead agent left for the next one of its name, and report it."""

    agent: int
    text: str


Event = Opened | Ends | Began | Heard | Exited | Looked
_NEXT: dict[tuple[Stage, type], Stage] = {
    (Stage.OPENING, Opened): Stage.RUNNING,
    **{(stage, Ends): Stage.ENDING for stage in Stage},
}


class TeamRun:
    """The state of the run and its agents; see the module."""

    def __init__(self, agents: int) -> None:
        self.stage = Stage.OPENING
        self.ends: list[End] = []
        """Reasons to end, in the order in which they came; the first one counts."""
        self.failure: Exception | None = None
        self._began = [0.0] * agents
        self._deaths = [0] * agents
        self._again: dict[int, float] = {}
        """When agents are to be restarted."""
        self._died: dict[int, str] = {}
        """How agents died that are not back yet."""
        self._ended: set[int] = set()

    def on(self, event: Event, now: float) -> list[Start | Recover]:
        """Process an event; returns the actions to be taken."""
        self.stage = _NEXT.get((self.stage, type(event)), self.stage)
        match event:
            case Ends(end, failure):
                self.ends += [] if end is None else [end]
                self.failure = self.failure or failure
                self._again.clear()
            case Began(agent):
                self._began[agent] = now
            case Heard(agent):
                self._died.pop(agent, None)
            case Exited():
                return self._exited(event, now)
            case Looked():
                due = [agent for agent, at in self._again.items() if now >= at]
                for agent in due:
                    del self._again[agent]
                return [Start(agent) for agent in due]
        return []

    def _exited(self, event: Exited, now: float) -> list[Start | Recover]:
        agent, code = event.agent, event.code
        if not code:
            self._ended.add(agent)
            return []
        what = self._died[agent] = f"signal {-code}" if code < 0 else f"exit code {code}"
        soon = now - self._began[agent] < _SOON
        self._deaths[agent] = self._deaths[agent] + 1 if soon else 1
        failure = event.failure
        if failure is None and self.stage is Stage.ENDING:
            failure = LocalError(
                f"agent {agent} died while it ended ({what}): the same command goes on from here"
            )
        elif failure is None and (self._deaths[agent] >= _DEATHS or self.stage is Stage.OPENING):
            when = f"{_DEATHS} times in a row" if self.stage is Stage.RUNNING else "at its start"
            failure = LocalError(
                f"agent {agent} died {when} ({what}):"
                f" the same command goes on from here; --agents 1 crawls in one process"
            )
        if failure is not None:
            return self.on(Ends(failure=failure), now)
        self._again[agent] = now + _BACKOFF * 2 ** (self._deaths[agent] - 1)
        return [Recover(agent, f"agent {agent} died ({what}): it is started again, the others go on")]

    @property
    def waits_for(self) -> list[int]:
        """Agents that died and have not reported since."""
        return list(self._died)

    def is_clean(self) -> bool:
        """Whether every agent has ended as it should."""
        return self.failure is None and len(self._ended) == len(self._began)

    def result(self) -> End:
        """Why the run ended; its failure is raised."""
        if self.failure is not None:
            raise self.failure
        end = self.ends[0]
        for agent, what in self._died.items():
            raise LocalError(
                f"agent {agent} died ({what}) before the end ({end}):"
                f" nothing that was committed is lost, the same command goes on from here"
            )
        return end
