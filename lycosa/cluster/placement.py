"""Placement: which agent should have which shard. A function of the agents alive and of the leases; no I/O.

Rendezvous hashing (Thaler and Ravishankar): every agent has a pseudo-random weight for every shard, the same
for every agent that computes it, and a shard prefers agents in the order of their weights. Two additions:

- *Balance.* Of S shards over A agents every agent gets floor(S/A) or ceil(S/A), and exactly S mod A of them
  the larger share. (Plain rendezvous often gives one of four agents three times another's share of 16 shards,
  and a crawl is as fast as its slowest agent.)
- *Least movement.* Moving a shard costs a hand-over: so a shard stays where it is held while its holder is alive
  and does not exceed its share. The larger shares go to the agents that hold most; an agent that exceeds its share
  gives up its shards of least weight. No balanced placement moves fewer.

All agents see the same leases and the same presence, if not at the same moment, so they compute the same
placement; while they disagree the leases decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import xxhash


def weight(agent: str, shard: int) -> int:
    """The pseudo-random weight of a shard for an agent."""
    return int(xxhash.xxh3_64_intdigest(f"{agent}\n{shard}".encode()))


def place(shards: int, agents: Iterable[str], holders: Mapping[int, str] | None = None) -> dict[int, str]:
    """The agent of every shard; empty if no agent is alive."""
    alive = sorted(set(agents))
    if not alive:
        return {}
    held: dict[str, list[int]] = {agent: [] for agent in alive}
    for shard, agent in (holders or {}).items():
        if agent in held and 0 <= shard < shards:
            held[agent].append(shard)
    room = shares(shards, held)
    placed: dict[int, str] = {}
    for agent in alive:
        stay = sorted(held[agent], key=lambda shard: weight(agent, shard), reverse=True)[: room[agent]]
        placed |= dict.fromkeys(stay, agent)
        room[agent] -= len(stay)
    # The largest weights first, of whichever shard: so the result does not depend on the order of shards.
    pairs = sorted(
        (
            (weight(agent, shard), agent, shard)
            for shard in range(shards)
            if shard not in placed
            for agent in alive
        ),
        reverse=True,
    )
    for _, agent, shard in pairs:
        if shard not in placed and room[agent] > 0:
            placed[shard] = agent
            room[agent] -= 1
    return placed


def shares(shards: int, held: Mapping[str, list[int]]) -> dict[str, int]:
    """How many shards each agent gets: the larger shares go to the agents that hold most."""
    small, larger = divmod(shards, len(held))
    order = sorted(held, key=lambda agent: (-len(held[agent]), -weight(agent, -1), agent))
    return {agent: small + (number < larger) for number, agent in enumerate(order)}
