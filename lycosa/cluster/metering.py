"""An agent's meters, told to whoever asks: to its supervisor on one machine, to `following` in a cluster.

meters.ID  ->  Metered        a request of the engine; an agent that is not there, or is older, does not answer
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from lycosa.cluster.member import Member
from lycosa.crawl.ahead import MOST
from lycosa.crawl.status import Ahead, resident
from lycosa.engine.protocol import Engine, Unavailable, got

_METERS = "meters"
_SECONDS = 1.0
_LEAST = frozenset(("frontier.next_due",))
"""Meters whose value for the crawl is the smallest one that is not 0; all others are summed."""


class Metered(msgspec.Struct):
    """An agent's answer."""

    rss: int
    meters: dict[str, float]
    ahead: list[Ahead] = []

    @property
    def cpu(self) -> float:
        """Seconds of a core that the agent has used."""
        return round(self.meters.get("agent.cpu", 0.0), 1)


async def answer_meters(engine: Engine, member: Member) -> None:
    """Answer with a member's meters as long as the engine is open."""

    def answer(_: bytes) -> bytes:
        agent = member.agent
        found = Metered(resident(), agent.read_meters(), agent.ahead()) if agent else Metered(resident(), {})
        return msgspec.json.encode(found)

    got(await engine.requests.answer(f"{_METERS}.{member.id}", answer))


async def ask_meters(engine: Engine, agents: Sequence[str]) -> list[Metered | None]:
    """What each of these agents answers; None from one that does not."""

    async def ask(name: str) -> Metered | None:
        answer = await engine.requests.ask(f"{_METERS}.{name}", b"", _SECONDS)
        return None if isinstance(answer, Unavailable) else _decode(answer)

    return await asyncio.gather(*map(ask, agents))


def _decode(answer: bytes) -> Metered | None:
    try:
        return _metered.decode(answer)
    except msgspec.MsgspecError:
        return None


def merged_meters(parts: Iterable[Metered]) -> dict[str, float]:
    """The meters of several agents, by name."""
    found: dict[str, float] = {}
    for part in parts:
        for name, value in part.meters.items():
            if name in _LEAST:
                found[name] = min(value, found.get(name) or value) if value else found.get(name, 0.0)
            else:
                found[name] = found.get(name, 0.0) + value
    return dict(sorted(found.items()))


def merged_ahead(parts: Iterable[Metered]) -> list[Ahead]:
    """The hosts with the most URLs pending, over several agents."""
    rows = [row for part in parts for row in part.ahead]
    return sorted(rows, key=lambda row: (-row.queued, row.host))[:MOST]


# Made at import: msgspec crashes where two threads are the first to decode a struct that holds others.
_metered = msgspec.json.Decoder(Metered)
