"""Delivery between the shards of an agent: what is committed arrives, at a cost of what is delivered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lycosa.crawl.delivery import delivering
from lycosa.crawl.exchange import HEARTBEAT, Outbox, Row, every
from lycosa.records import Received
from lycosa.seen.cache import ScatterCache


class Steps:
    """Looks at a pair of shards, counted."""

    def __init__(self) -> None:
        self.count = 0


class Cursors(dict[int, int]):
    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def get(self, *args: Any) -> Any:
        self.steps.count += 1
        return super().get(*args)


class CountedOutbox(Outbox):
    def __init__(self, steps: Steps) -> None:
        super().__init__(ScatterCache(1 << 10))
        self.steps = steps

    def take(self, owner: int, before: int) -> list[Row]:
        self.steps.count += 1
        return super().take(owner, before)


class Receiver:
    """As much of a shard as delivery sees."""

    def __init__(self, number: int, steps: Steps) -> None:
        self.number = number
        self.log = SimpleNamespace(committed=0, end=0)
        self.outbox = CountedOutbox(steps)
        self.cursors = Cursors(steps)
        self.received: list[Received] = []

    def append(self, record: Received) -> None:
        self.log.end += 1
        self.received.append(record)
        self.cursors[record.sender] = record.cursor

    def find(self, owner: int, count: int = 1) -> None:
        for n in range(count):
            url = f"http://h{owner}.test/{self.number}-{self.log.end}-{n}"
            keys = np.array([hash(url) & (1 << 63) - 1], np.uint64)
            self.outbox.add(keys, [(owner, Row(self.log.end, url, 0, 0, 0))])
        self.log.end += 1

    def commit(self) -> None:
        self.log.committed = self.log.end


def deliver(shards: list[Any], at: int) -> int:
    """All of it at once; how many records were appended."""
    return sum(1 for _ in delivering(shards, at))


def made(count: int) -> tuple[list[Any], Steps]:
    steps = Steps()
    return [Receiver(number, steps) for number in range(count)], steps


def steps_of_a_commit(count: int, pairs: int) -> int:
    """With `count` shards, of which so many pairs have something to deliver."""
    shards, steps = made(count)
    deliver(shards, 1)  # the first looks at all
    for n in range(pairs):
        shards[n % count].find((n + 1) % count)
    for shard in shards:
        shard.commit()
    steps.count = 0
    assert deliver(shards, 1) == pairs
    return steps.count


def test_a_commit_takes_as_many_steps_as_there_is_to_deliver() -> None:
    counts = {count: steps_of_a_commit(count, 10) for count in (16, 64, 256)}
    assert counts == {16: 10, 64: 10, 256: 10}
    assert steps_of_a_commit(256, 200) == 200


@pytest.mark.parametrize("count", [16, 64, 256])
def test_over_a_long_crawl_heartbeats_cost_little(count: int) -> None:
    """Steps a record, and records that are heartbeats: both stay small, however many shards there are."""
    shards, steps = made(count)
    deliver(shards, 1)
    steps.count = records = commits = 0
    while records < 3 * every(count) * count:
        for shard in shards:
            shard.log.end += 100
            records += 100
            shard.commit()
        deliver(shards, 1)
        commits += 1
    beats = sum(len(shard.received) for shard in shards)
    assert 0 < beats <= records / 7
    assert steps.count <= records, "at most a step a record"
    for sender in shards:
        cursors = [shard.cursors[sender.number] for shard in shards if shard is not sender]
        assert sender.log.committed - min(cursors) <= every(count - 1) + 400, "no cursor is far behind"


def test_with_few_shards_cursors_move_as_often_as_ever() -> None:
    assert every(1) == every(100) == HEARTBEAT
    shards, _ = made(2)
    deliver(shards, 1)
    shards[0].log.end = HEARTBEAT
    shards[0].commit()
    assert deliver(shards, 1) == 1 and shards[1].cursors[0] == HEARTBEAT
    assert deliver(shards, 1) == 0


def test_what_is_not_committed_stays() -> None:
    shards, _ = made(3)
    shards[0].find(1)
    shards[0].commit()
    shards[0].find(1)
    shards[0].find(2)
    assert deliver(shards, 1) == 1
    assert len(shards[1].received[0].links) == 1 and not shards[2].received
    shards[0].commit()
    deliver(shards, 1)
    assert [len(shard.received) for shard in shards] == [0, 2, 1]
    assert len(shards[0].outbox) == 0
