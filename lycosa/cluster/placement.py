"""Placement: which agent should have which shard. A function of who lives and who holds what; no I/O.

Rendezvous hashing (Thaler and Ravishankar): every agent has a pseudo-random weight for every shard, the same
for whoever computes it, and a shard prefers agents in the order of their weights. Two additions:

- *Balance.* Of S shards over A agents every agent gets floor(S/A) or ceil(S/A), and exactly S mod A of them
  the larger share. (Plain rendezvous gives one of four agents three times another's share of 16 shards as a
  matter of course, and a crawl is as fast as its slowest agent.)
- *Least movement.* Moving a shard costs a hand-over: so a shard stays where it is held while its holder lives
  and is not over its share. The larger shares go to those who hold most; who is over his share gives up
  the shards that weigh least with him. No placement that is balanced moves fewer.

All agents see the same leases and the same presence, if not at the same moment, so they come to the same
placement; while they disagree the leases decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import xxhash


def weight(agent: str, shard: int) -> int:
    """How much a shard is drawn to an agent."""
    return int(xxhash.xxh3_64_intdigest(f"{agent}\n{shard}".encode()))


def place(shards: int, agents: Iterable[str], holders: Mapping[int, str] | None = None) -> dict[int, str]:
    """The agent of every shard; empty if no agent lives."""
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
    # The strongest attractions first, whichever shard they are of: then the result does not depend on numbering.
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
    """How many shards each agent gets: the larger shares go to those who hold most."""
    small, larger = divmod(shards, len(held))
    order = sorted(held, key=lambda agent: (-len(held[agent]), -weight(agent, -1), agent))
    return {agent: small + (number < larger) for number, agent in enumerate(order)}
