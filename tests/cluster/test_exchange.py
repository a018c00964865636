"""The exchange between two agents of one machine: every committed link arrives once, whatever dies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.cluster.links import Cursors
from lycosa.cluster.names import cursors_of, exchange_of
from lycosa.cluster.streaming import Outgoing
from lycosa.crawl.exchange import Row
from lycosa.engine.protocol import StreamPlan, got
from lycosa.files import DiskFiles
from lycosa.lab.faults import FaultyFiles
from lycosa.meters import Meters
from lycosa.records import Duplicates, LinkKind, Received
from tests.cluster.nodes import AGENTS, OPTIONS, SHARDS, Nodes, run


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    made = Nodes(DiskFiles(tmp_path))
    made.start()
    made.settle()
    return made


def links_to(nodes: Nodes, shard: int, count: int, mark: str = "") -> list[str]:
    return [f"http://{nodes.hosts[shard][n % 3]}/{mark}{n}" for n in range(count)]


def received(nodes: Nodes, number: int) -> list[str]:
    rows = (record for _, record in nodes.shard(number).log.reader.scan() if isinstance(record, Received))
    return [link.url for record in rows for link in record.links]


def test_links_arrive_once_and_cursors_move(nodes: Nodes) -> None:
    urls = links_to(nodes, 1, 30)
    nodes.fetch(0, urls)
    nodes.fetch(2, urls[:5], page=1)
    nodes.settle()
    assert sorted(received(nodes, 1)) == sorted([*urls, *urls[:5]])
    assert all(nodes.shard(1).knows(url) for url in urls)
    assert nodes.shard(1).cursors[0] > 0


def test_nothing_travels_before_its_commit(nodes: Nodes) -> None:
    nodes.fetch(0, links_to(nodes, 1, 30))
    nodes.mend(0)
    assert nodes.read(1) == 0 and not received(nodes, 1)


def test_a_reader_that_died_reads_again_what_it_had_not_committed(nodes: Nodes) -> None:
    urls = links_to(nodes, 1, 30)
    nodes.fetch(0, urls)
    nodes.commit(0)
    nodes.mend(0)
    assert nodes.read(1) > 0
    nodes.open(1)  # it had not committed
    nodes.begin(1, unclean=True)
    assert not received(nodes, 1)
    nodes.settle()
    assert sorted(received(nodes, 1)) == sorted(urls)


class Counted(dict[int, Any]):
    """Counts how many of its rows are looked at."""

    looks = 0

    def __getitem__(self, key: int) -> Any:
        self.looks += 1
        return super().__getitem__(key)

    def __iter__(self) -> Any:
        self.looks += len(self)
        return super().__iter__()

    def items(self) -> Any:
        self.looks += len(self)
        return super().items()

    def values(self) -> Any:
        self.looks += len(self)
        return super().values()


@pytest.mark.parametrize("shards", [8, 256])
def test_a_commit_costs_a_step_for_each_receiver_that_it_is_about(nodes: Nodes, shards: int) -> None:
    """However many shards there are: else all shards together would pay for the square of their number."""
    plans = [StreamPlan(exchange_of(number), 1 << 20, lanes=True) for number in range(shards)]
    got(run(nodes.engine.create(plans, 1)))
    told = msgspec.json.encode(Cursors({}))
    for number in range(shards):
        got(run(nodes.engine.bucket.put(cursors_of(number), told)))
    shard = nodes.shard(0)
    out = Outgoing(nodes.engine, shard, shards, 1, nodes.clock, Meters())
    assert run(out.resume()) is None
    while not out.quiet:
        run(out.step())
    out._ways = ways = Counted(out._ways)
    row = Row(shard.log.committed - 1, "http://x.test/", int(LinkKind.ANCHOR), 1, 0)
    shard.outbox.add(np.array([7], np.uint64), [(3, row)])
    out._heartbeats.looked([shard.log.committed] * shards)
    out.committed()
    assert out.sent <= row.at
    run(out.step())
    assert out.quiet and out.sent == shard.log.committed
    assert ways.looks <= 8


def test_a_large_message_does_not_hold_the_loop_and_one_that_is_cut_short_is_gone_on_with(
    nodes: Nodes,
) -> None:
    urls = [f"http://{nodes.hosts[1][n % 3]}/{n}" for n in range(2_400)]
    for page in range(40):
        nodes.fetch(0, urls[60 * page : 60 * page + 60], page=page)
    nodes.commit(0)
    nodes.mend(0)
    shard = nodes.shard(1)

    async def begin() -> None:
        step, before = asyncio.ensure_future(nodes.incoming[1].step(0.1)), shard.log.end
        while shard.log.end < before + 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert not step.done(), "nothing else could run before all of it was taken"
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)

    run(begin())
    nodes.commit(1)
    assert 0 < len(received(nodes, 1)) < len(urls)
    nodes.open(1)
    nodes.begin(1, unclean=True)
    nodes.settle()
    assert sorted(received(nodes, 1)) == sorted(urls), "each once"


def test_a_stream_that_is_full_costs_the_sender_nothing_and_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    nodes = Nodes(DiskFiles(tmp_path), room=4_000)
    nodes.start()
    nodes.settle()
    dice, urls = Random(7), list[str]()
    for turn in range(40):
        more = [f"{url}{dice.randbytes(20).hex()}" for url in links_to(nodes, 1, 20, f"t{turn}-")]
        nodes.fetch(0, more, page=turn)
        urls += more
        nodes.commit(0)
        nodes.mend(0)
    assert not nodes.quiet
    assert len(nodes.shard(0).outbox) == 0, "what cannot be sent is not kept in memory"
    nodes.settle()
    assert sorted(set(received(nodes, 1))) == sorted(urls)


def test_what_is_found_while_the_way_closes_up_is_not_lost(tmp_path: Path) -> None:
    """From behind to live: some links are in the log, some not yet committed, some come later."""
    nodes = Nodes(DiskFiles(tmp_path))
    nodes.start()
    first, second, third = (links_to(nodes, 1, 10, mark) for mark in ("a", "b", "c"))
    nodes.commit(0)
    nodes.fetch(0, first)
    nodes.mend(0)  # reaches what is committed, and waits for the first page
    nodes.fetch(0, second, page=1)
    nodes.commit(0)
    nodes.mend(0)
    nodes.fetch(0, third, page=2)
    nodes.settle()
    assert sorted(received(nodes, 1)) == sorted(first + second + third)


def test_a_receiver_that_nobody_has_opened_yet_is_waited_for(tmp_path: Path) -> None:
    """Where its links go on is not known before: sent from the start of the log they would fill its stream."""
    nodes = Nodes(DiskFiles(tmp_path))
    nodes.open(0)
    nodes.begin(0)
    urls = links_to(nodes, 1, 10)
    nodes.fetch(0, [*urls, *links_to(nodes, 2, 1)])
    for _ in range(3):
        nodes.commit(0)
        nodes.mend(0)
    assert got(run(nodes.engine.stream(exchange_of(1)).ends())).last == 0
    assert got(run(nodes.engine.stream(exchange_of(2)).ends())).last > 0, (
        "an agent's own shards are not waited for"
    )
    assert not nodes.quiet
    nodes.open(1)
    nodes.begin(1)
    nodes.settle()
    assert received(nodes, 1) == urls


def test_the_next_run_sends_what_was_not_received_and_no_more(tmp_path: Path) -> None:
    """The streams are gone with the run; senders begin at the receivers' cursors."""
    nodes = Nodes(DiskFiles(tmp_path))
    nodes.start()
    for turn in range(20):
        nodes.fetch(0, links_to(nodes, 1, 20, f"t{turn}-"), page=turn)
    nodes.settle()
    cursor, known = nodes.shard(1).cursors[0], nodes.shard(1).received
    assert cursor > 20 and known > 0
    nodes.fetch(0, links_to(nodes, 1, 5, "last"), page=99)
    nodes.commit(0)  # and then everybody ends
    nodes = Nodes(DiskFiles(tmp_path))
    nodes.start()
    nodes.settle()
    assert len(received(nodes, 1)) == 20 * 20 + 5, "nothing came twice, and nothing is missing"
    assert nodes.shard(1).received > known, "sequences are not used again"


def test_contents_are_asked_and_answered_late(nodes: Nodes) -> None:
    digest = 4 * 1000 + 1  # of shard 1's partition
    first = nodes.fetch(0, [], digest)
    second = nodes.fetch(2, [], digest, page=1)
    own = nodes.fetch(1, [], 4 * 2000 + 1, page=1)
    third = nodes.fetch(0, [], 4 * 2000 + 1, page=2)
    assert (first, second, own) is not None
    nodes.settle()
    marked = {
        (shard, position)
        for shard in range(SHARDS)
        for _, record in nodes.shard(shard).log.reader.scan()
        if isinstance(record, Duplicates)
        for position in record.positions
    }
    assert marked in ({(2, second), (0, third)}, {(0, first), (0, third)})
    assert sum(nodes.shard(shard).totals.duplicates for shard in range(SHARDS)) == 2
    # Restarted, everybody knows as much; nothing is asked or answered again.
    for number in range(AGENTS):
        nodes.open(number)
    for number in range(AGENTS):
        nodes.begin(number, unclean=True)
    nodes.settle()
    assert sum(nodes.shard(shard).totals.duplicates for shard in range(SHARDS)) == 2


def test_a_wider_scope_offers_old_links_again_across_agents(tmp_path: Path) -> None:
    nodes = Nodes(DiskFiles(tmp_path))
    narrow = {**OPTIONS, "scope": {"mode": "any", "exclude_paths": ["/x"]}}
    for number in range(AGENTS):
        nodes.open(number, narrow)
    for number in range(AGENTS):
        nodes.begin(number)
    urls = links_to(nodes, 1, 250, "x")
    nodes.fetch(0, urls[:200])
    nodes.fetch(0, urls[200:], page=1)
    nodes.settle()
    assert not received(nodes, 1)
    nodes.start()
    nodes.settle()
    assert sorted(set(received(nodes, 1))) == sorted(urls)
    assert all(nodes.shard(1).knows(url) for url in urls)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["fetch", "fetch", "fetch", "commit", "mend", "read", "restart", "cut"]),
        st.integers(0, 1),
    ),
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(STEPS, st.sampled_from([1_500, 1 << 20]))
def test_whatever_happens_every_committed_link_arrives(steps: list[tuple[str, int]], room: int) -> None:
    nodes = Nodes(FaultyFiles(), room=room)
    nodes.start()
    wanted: dict[int, list[str]] = {number: [] for number in range(AGENTS)}
    sure: set[str] = set()
    for turn, (step, number) in enumerate(steps):
        if step == "fetch":
            source = number + 2 * (turn % 2)
            urls = [
                f"http://{nodes.hosts[shard][turn % 3]}/p{turn}-{n}"
                for shard in range(SHARDS)
                for n in range(3)
            ]
            nodes.fetch(source, urls, page=turn)
            wanted[number] += urls
        elif step == "commit":
            nodes.commit(number)
            sure.update(wanted[number])
            wanted[number].clear()
        elif step == "mend":
            nodes.mend(number)
        elif step == "read":
            nodes.read(number, most=2)
        elif step == "restart":
            nodes.open(number)
            nodes.begin(number, unclean=True)
            wanted[number].clear()
        else:
            nodes.power_cut(Random(turn))
            nodes.start()
            wanted = {number: [] for number in range(AGENTS)}
    nodes.settle()
    for url in sure:
        assert nodes.shard(nodes.owner(url)).knows(url), url
    for shard in range(SHARDS):
        for other in range(SHARDS):
            if shard != other:
                assert nodes.shard(shard).cursors.get(other, 0) <= nodes.shard(other).log.committed
