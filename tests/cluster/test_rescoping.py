"""A wider scope with several agents: what the pass has for shards of another agent arrives, whatever dies."""

from __future__ import annotations

from random import Random

import pytest

from lycosa.clock import ManualClock
from lycosa.crawl import rescoping
from lycosa.crawl.rescoping import Rescoping
from lycosa.crawl.shard import Shard
from lycosa.lab.faults import FaultyFiles
from lycosa.records import Received
from tests.cluster.nodes import AGENTS, OPTIONS, SHARDS, Nodes, run

NARROW = {**OPTIONS, "scope": {"mode": "any", "exclude_paths": ["/far"]}}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescoping, "_RECORDS", 3)
    monkeypatch.setattr(rescoping, "_LINKS", 4)


def narrowed(files: FaultyFiles) -> tuple[Nodes, dict[int, set[str]]]:
    """Two agents whose pages link to each other's shards, out of scope; and those links by shard."""
    nodes = Nodes(files)
    for number in range(AGENTS):
        nodes.open(number, NARROW)
    for number in range(AGENTS):
        nodes.begin(number)
    wanted: dict[int, set[str]] = {number: set() for number in range(SHARDS)}
    for sender in range(SHARDS):
        for page in range(12):
            urls = [f"http://{nodes.hosts[to][0]}/far{sender}-{page}" for to in range(SHARDS) if to != sender]
            nodes.fetch(sender, [*urls, f"http://{nodes.hosts[sender][0]}/near{page}"], page=page)
            for url in urls:
                wanted[nodes.owner(url)].add(url)
    nodes.settle()
    assert not any(received(nodes.shard(number)) for number in range(SHARDS))
    return nodes, wanted


def received(shard: Shard) -> set[str]:
    rows = (record for _, record in shard.log.reader.scan() if isinstance(record, Received))
    return {link.url for record in rows for link in record.links}


def widen(nodes: Nodes, number: int, steps: int = 1 << 30) -> int:
    """Have the passes of an agent's shards go on, a commit after each slice; how many slices that were."""
    count = 0
    for shard in nodes.agents[number].shards:
        made: Rescoping | None = None
        while count < steps and (change := shard.rescoping) is not None:
            made = made or Rescoping(shard, change, ManualClock())
            count += run(made.step())
            if count < steps:
                nodes.commit(number)
        if made is not None:
            made.close()
    return count


def reopened(nodes: Nodes) -> None:
    for number in range(AGENTS):
        nodes.open(number)
    for number in range(AGENTS):
        nodes.begin(number, unclean=True)


def test_every_link_that_came_into_scope_arrives() -> None:
    nodes, wanted = narrowed(FaultyFiles())
    reopened(nodes)
    for number in range(AGENTS):
        nodes.commit(number)
        assert widen(nodes, number) > 10
    nodes.settle()
    for number in range(SHARDS):
        assert received(nodes.shard(number)) == wanted[number]


@pytest.mark.parametrize("steps", range(1, 15, 2))
def test_agents_that_die_in_the_middle_of_the_pass_lose_nothing(steps: int) -> None:
    """The last portion of one agent is not committed, of the other not sent; then both are gone."""
    files = FaultyFiles()
    nodes, wanted = narrowed(files)
    reopened(nodes)
    for number in range(AGENTS):
        nodes.commit(number)
        widen(nodes, number, steps + number)
    nodes.mend(0)
    nodes.read(1, 2)
    nodes.commit(1)
    nodes.power_cut(Random(steps))
    reopened(nodes)
    for number in range(AGENTS):
        nodes.commit(number)
        widen(nodes, number)
    nodes.settle()
    for number in range(SHARDS):
        assert received(nodes.shard(number)) == wanted[number]
