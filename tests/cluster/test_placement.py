"""Placement: balanced, the same for everybody, and moving as little as can be."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.cluster.placement import place

_agents = st.sets(st.text("abcdefgh", min_size=1, max_size=4), min_size=1, max_size=8)
_shards = st.integers(1, 40)


def counts(placed: dict[int, str], agents: set[str]) -> list[int]:
    return sorted(sum(agent == other for other in placed.values()) for agent in agents)


@given(_shards, _agents, st.randoms(use_true_random=False))
def test_every_shard_has_one_agent_and_shares_differ_by_one_at_most(shards, agents, random) -> None:
    holders = {n: random.choice([*sorted(agents), "gone"]) for n in range(shards) if random.random() < 0.7}
    placed = place(shards, agents, holders)
    assert sorted(placed) == list(range(shards))
    low, high = shards // len(agents), -(-shards // len(agents))
    assert all(low <= count <= high for count in counts(placed, agents))


@given(_shards, _agents, st.randoms(use_true_random=False))
def test_it_does_not_depend_on_the_order_in_which_agents_are_told(shards, agents, random) -> None:
    order = sorted(agents)
    random.shuffle(order)
    assert place(shards, order) == place(shards, agents)


@given(_shards, _agents)
def test_a_placement_that_is_reached_stays(shards, agents) -> None:
    placed = place(shards, agents)
    assert place(shards, agents, placed) == placed


@given(_shards, _agents)
def test_a_joining_agent_gets_its_share_and_nothing_else_moves(shards, agents) -> None:
    before = place(shards, agents)
    after = place(shards, agents | {"new!"}, before)
    moved = {shard for shard in before if before[shard] != after[shard]}
    assert all(after[shard] == "new!" for shard in moved)
    assert len(moved) == sum(agent == "new!" for agent in after.values())
    assert shards // (len(agents) + 1) <= len(moved) <= -(-shards // (len(agents) + 1))


@given(_shards, _agents.filter(lambda agents: len(agents) > 1))
def test_only_the_shards_of_a_leaving_agent_move(shards, agents) -> None:
    before = place(shards, agents)
    gone = min(agents)
    after = place(shards, agents - {gone}, before)
    moved = {shard for shard in before if before[shard] != after[shard]}
    assert moved == {shard for shard, agent in before.items() if agent == gone}


@settings(max_examples=60)
@given(st.integers(1, 7), st.integers(1, 4), st.randoms(use_true_random=False))
def test_no_balanced_placement_moves_fewer(shards, count, random) -> None:
    agents = [f"a{n}" for n in range(count)]
    holders = {n: random.choice([*agents, "gone"]) for n in range(shards)}
    placed = place(shards, agents, holders)
    small, larger = divmod(shards, count)
    best = min(
        sum(
            max(0, sum(agent == holders[n] for n in holders) - share)
            for agent, share in zip(order, [small + 1] * larger + [small] * (count - larger), strict=True)
        )
        for order in permutations(agents)
    )
    orphans = sum(agent == "gone" for agent in holders.values())
    assert sum(placed[n] != holders[n] for n in holders) == best + orphans


def test_with_nobody_there_nothing_is_placed() -> None:
    assert place(4, []) == {}


def test_the_first_choice_is_the_highest_weight_where_there_is_room() -> None:
    from lycosa.cluster.placement import weight

    placed = place(3, ["a", "b", "c"])
    best = max((weight(agent, shard), agent, shard) for agent in "abc" for shard in range(3))
    assert placed[best[2]] == best[1]
