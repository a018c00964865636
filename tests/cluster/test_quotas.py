"""Rations: never more than the limit, and all of it if there is work for it."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from lycosa.cluster.quotas import Pool, Ration


@given(st.integers(1, 300), st.integers(1, 5), st.integers(0, 1 << 30), st.integers(0, 60))
def test_the_limit_is_met_exactly_whoever_has_the_work(
    limit: int, agents: int, seed: int, before: int
) -> None:
    """Agents fetch, fail, die and wish as they like; pages lie mostly with one of them."""
    random = Random(seed)
    wishes: set[int] = set()
    pool = Pool(limit)
    rations = [Ration(True, lambda number=number: wishes.add(number)) for number in range(agents)]
    fetched = [before if number == 0 else 0 for number in range(agents)]
    committed = list(fetched)
    for number in range(agents):
        pool.begin(number, fetched[number])
    work = [10_000 if number == agents - 1 else random.randint(0, 40) for number in range(agents)]
    for _ in range(20_000):
        if sum(fetched) >= limit:
            break
        number = random.randrange(agents)
        ration = rations[number]
        if work[number] and ration.take():
            if random.random() < 0.2:
                ration.give_back()
            else:
                work[number] -= 1
                fetched[number] += 1
        if random.random() < 0.1:
            committed[number] = fetched[number]
        if random.random() < 0.005:  # it dies: what it had not committed is to be fetched again
            work[number] += fetched[number] - committed[number]
            fetched[number] = committed[number]
            rations[number] = Ration(True, lambda number=number: wishes.add(number))
            wishes.discard(number)
            pool.begin(number, fetched[number])
        for agent in sorted(wishes):
            pool.wish(agent)
        wishes.clear()
        for agent, pages in pool.grants():
            rations[agent].grant(pages)
        for agent in pool.idle_with([(each, rations[each].left) for each in range(agents)]):
            pool.returned(agent, rations[agent].recall())
        assert sum(fetched) <= max(limit, before)
    assert sum(fetched) == max(limit, before)


def test_without_a_limit_nobody_asks() -> None:
    ration = Ration(False, lambda: (_ for _ in ()).throw(AssertionError("it asked")))
    assert all(ration.take() for _ in range(1000))
    assert ration.open() and ration.left == 0 and ration.recall() == 0
    assert not ration.reached()
