"""The messages of one machine's agents, and the status of one crawl made from them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from lycosa.cluster.control import Report, State
from lycosa.cluster.metering import Metered, ask_meters, merged_ahead, merged_meters
from lycosa.cluster.process import TOLD, name_of
from lycosa.crawl.config import Options
from lycosa.crawl.status import AgentLine, Reporter, Status
from lycosa.engine.protocol import Engine, Entry, Unavailable, got

_METERS = 1.0


class TeamReports:
    """Follows the agents' messages in the engine."""

    def __init__(
        self, agents: int, told: Callable[[str], None], changed: Callable[[], None], before: Status | None
    ) -> None:
        """`changed` is called on news; `before`: the status that a single agent left earlier in this same run."""
        self._told = told
        self._changed = changed
        self.shards: dict[int, Report] = {}
        self.state = State()
        self.reporter = Reporter(0, before)
        self._said = [Metered(0, {}) for _ in range(agents)]
        self.leaving = False
        """Agents are handing their shards over: counts of these must not decrease."""

    # -- input

    async def answer(self, engine: Engine) -> None:
        got(await engine.requests.answer(TOLD, self._heard))

    def _heard(self, data: bytes) -> None:
        number, text = msgspec.json.decode(data, type=tuple[int, str])
        self._told(f"agent {number}: {text}")

    async def follow(self, engine: Engine, gone: asyncio.Event, pattern: str) -> None:
        """Process messages until the engine is gone."""
        watch = engine.bucket.watch(pattern)
        while not gone.is_set():
            entries = await watch.next(1.0)
            for entry in [] if isinstance(entries, Unavailable) else entries:
                self.note(entry)
                self._changed()

    def note(self, entry: Entry) -> None:
        """Process the value of a key: a report on a shard, or the state of the crawl."""
        if entry.key == "state":
            self.state = msgspec.json.decode(entry.value or b"{}", type=State)
        elif entry.value is not None:
            report = msgspec.json.decode(entry.value, type=Report)
            self.shards[report.shard] = report

    async def ask_meters(self, engine: Engine, gone: asyncio.Event) -> None:
        """Ask every second, until the engine is gone."""
        while not gone.is_set():
            names = [name_of(number) for number in range(len(self._said))]
            for number, said in enumerate(await ask_meters(engine, names)):
                if said is not None:
                    self._note_meters(number, said)
            await asyncio.sleep(_METERS)

    def _note_meters(self, number: int, said: Metered) -> None:
        if self.leaving:
            before = self._said[number].meters
            said.meters = {name: max(value, before.get(name, 0.0)) for name, value in said.meters.items()}
        self._said[number] = said

    # -- results

    def has_since(self, number: int, at: float) -> bool:
        """Whether an agent has reported on a shard since a time."""
        name = name_of(number)
        return any(report.agent == name and report.totals.at >= at for report in self.shards.values())

    def read_meters(self) -> dict[str, float]:
        return merged_meters(self._said)

    def status(self, state: str, options: Options, pids: Sequence[int]) -> Status:
        """The status of all agents as one crawl."""
        names = {name_of(number): str(number) for number in range(len(self._said))}
        shards = {n: (names.get(row.agent, ""), row.totals) for n, row in self.shards.items()}
        agents = [
            AgentLine(
                agent=str(number),
                pid=pids[number],
                rss=said.rss,
                visits=int(said.meters.get("visits.active", 0)),
                cpu=said.cpu,
            )
            for number, said in enumerate(self._said)
        ]
        ahead = merged_ahead(self._said)
        return self.reporter.status(state, shards, self.read_meters(), options, ahead, agents)
