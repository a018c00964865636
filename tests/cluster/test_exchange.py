"""The exchange between agents: every link arrives, once, whatever is restarted, torn or full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.cluster import frames
from lycosa.cluster.frames import SEGMENT_HEAD
from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.lab.faults import FaultyFiles
from lycosa.records import Duplicates, Received
from tests.cluster.nodes import AGENTS, HOLDERS, OPTIONS, SHARDS, Nodes


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    made = Nodes(DiskFiles(tmp_path))
    made.start()
    made.settle()
    return made


def links_to(nodes: Nodes, shard: int, count: int, mark: str = "x") -> list[str]:
    hosts = nodes.hosts[shard]
    return [f"http://{hosts[n % len(hosts)]}/{mark}{n}" for n in range(count)]


def received(nodes: Nodes, shard: int) -> list[str]:
    """URLs that the shard's committed log received, in order."""
    rows = nodes.shard(shard).log.reader.scan()
    return [link.url for _, record in rows if isinstance(record, Received) for link in record.links]


def test_links_arrive_once_and_cursors_move(nodes: Nodes) -> None:
    urls = links_to(nodes, 1, 300)
    position = nodes.fetch(0, urls[:200])
    nodes.fetch(2, urls[150:], page=1)
    nodes.commit(0)
    assert nodes.read(1) > 0
    nodes.commit(1)
    got = received(nodes, 1)
    # The agent's URL cache stands before the exchange: what both pages link to was sent once.
    assert sorted(got) == sorted(urls)
    assert nodes.shard(1).cursors[0] > position
    assert nodes.read(1) == 0
    assert all(nodes.shard(1).knows(url) for url in urls)


def test_nothing_travels_before_its_commit(nodes: Nodes) -> None:
    nodes.fetch(0, links_to(nodes, 1, 5))
    assert nodes.read(1) == 0
    assert len(nodes.shard(0).outbox) == 5


def test_segments_go_when_they_were_read_and_committed(nodes: Nodes) -> None:
    for turn in range(12):
        nodes.fetch(0, links_to(nodes, 1, 40, f"t{turn}-"), page=turn)
        nodes.commit(0)
    assert len(nodes.segments(0, 1)) > 5
    nodes.read(1)
    nodes.commit(1)
    assert len(nodes.segments(0, 1)) > 5, (
        "not before the next commit: they may have been read during this one"
    )
    nodes.fetch(1, [], page=1)
    nodes.commit(1)
    assert len(nodes.segments(0, 1)) == 1


def test_a_reader_that_died_reads_again_what_it_had_not_committed(nodes: Nodes) -> None:
    urls = links_to(nodes, 1, 100)
    nodes.fetch(0, urls)
    nodes.commit(0)
    nodes.read(1)
    nodes.open(1)
    nodes.begin(1, unclean=True)
    assert not any(nodes.shard(1).knows(url) for url in urls)
    nodes.settle()
    assert sorted(received(nodes, 1)) == sorted(urls)


def test_a_sender_that_died_goes_on_past_its_torn_tail(nodes: Nodes) -> None:
    urls = links_to(nodes, 1, 60)
    nodes.fetch(0, urls[:20])
    nodes.commit(0)
    nodes.read(1)
    nodes.fetch(0, urls[20:40], page=1)
    nodes.commit(0)
    serial = max(nodes.segments(0, 1))
    with Path(nodes.files.within("exchange").path(f"0-1/{serial}")).open("ab") as file:
        file.write(b"\x40\0\0\0torn")
    nodes.open(0)
    nodes.begin(0, unclean=True)
    nodes.fetch(0, urls[40:], page=2)
    nodes.settle()
    assert sorted(received(nodes, 1)) == sorted(urls)
    assert not nodes.gaps


def test_a_full_way_costs_the_sender_nothing_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    nodes = Nodes(DiskFiles(tmp_path), segment_bytes=1_000, room=4_000)
    nodes.start()
    nodes.settle()
    urls: list[str] = []
    for turn in range(40):
        more = links_to(nodes, 1, 20, f"t{turn}-")
        nodes.fetch(0, more, page=turn)
        urls += more
        nodes.commit(0)
    assert len(nodes.segments(0, 1)) < 10
    assert not nodes.exchanges[0].quiet
    nodes.fetch(0, links_to(nodes, 1, 20, "last"), page=99)
    urls += links_to(nodes, 1, 20, "last")
    assert len(nodes.shard(0).outbox) == 0, "what cannot be sent is not kept in memory"
    nodes.settle()
    assert sorted(received(nodes, 1)) == sorted(urls)
    assert len(nodes.segments(0, 1)) == 1


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


def test_a_gap_is_told_and_mended(nodes: Nodes) -> None:
    urls: list[str] = []
    for turn in range(12):
        more = links_to(nodes, 1, 40, f"t{turn}-")
        nodes.fetch(0, more, page=turn)
        urls += more
        nodes.commit(0)
    names = nodes.segments(0, 1)
    nodes.files.within("exchange").remove(f"0-1/{names[len(names) // 2]}")
    nodes.read(1)
    [gap] = nodes.gaps
    assert gap[:2] == (0, 1) and gap[2] == nodes.shard(1).cursors[0]
    assert len(set(urls) - {url for url in urls if nodes.shard(1).knows(url)}) > 40
    nodes.exchanges[0].go_back(*gap)
    nodes.settle()
    assert sorted(set(received(nodes, 1))) == sorted(urls)


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
    nodes.fetch(3, [], digest, page=3)
    assert nodes.shard(3).content.knows(digest)


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


def test_a_wider_scope_offers_more_links_than_fit_into_a_frame(tmp_path: Path, monkeypatch: Any) -> None:
    """However many links a change of scope offers again, no frame is longer than readers take."""
    monkeypatch.setattr(frames.pack, "__defaults__", (4_000,))
    monkeypatch.setattr(frames.unpack, "__defaults__", (0, 4_000))
    nodes = Nodes(DiskFiles(tmp_path), frame_bytes=1_000)
    narrow = {**OPTIONS, "scope": {"mode": "any", "exclude_paths": ["/x"]}}
    for number in range(AGENTS):
        nodes.open(number, narrow)
    for number in range(AGENTS):
        nodes.begin(number)
    long = "x" * 200
    urls = [f"{url}{long}" for url in links_to(nodes, 1, 250)]
    for page in range(5):
        nodes.fetch(0, urls[50 * page : 50 * page + 50], page=page)
    nodes.settle()
    assert not received(nodes, 1)
    nodes.start()
    nodes.settle()
    assert sorted(set(received(nodes, 1))) == sorted(urls)


@pytest.mark.parametrize(
    ("at", "byte", "what"), [(SEGMENT_HEAD + 20, 0xFF, "damaged"), (5, ord("2"), "another version")]
)
def test_a_segment_that_cannot_be_read_ends_the_run(nodes: Nodes, at: int, byte: int, what: str) -> None:
    nodes.fetch(0, links_to(nodes, 1, 30))
    nodes.commit(0)
    exchange = nodes.files.within("exchange/0-1")
    name = exchange.list("")[-1]
    with Path(exchange.path(name)).open("r+b") as file:
        file.seek(at)
        file.write(bytes([byte]))
    with pytest.raises(StorageError, match=rf"0-1/{name} cannot be read at byte .*{what}.*the same command"):
        nodes.read(1)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["fetch", "fetch", "fetch", "commit", "mend", "read", "restart"]), st.integers(0, 1)
    ),
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(STEPS, st.sampled_from([700, 3_000]), st.sampled_from([1_500, 1 << 20]))
def test_whatever_happens_every_committed_link_arrives(
    steps: list[tuple[str, int]], segment_bytes: int, room: int
) -> None:
    nodes = Nodes(FaultyFiles(), segment_bytes=segment_bytes, room=room)
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
        else:
            nodes.open(number)
            nodes.begin(number, unclean=True)
            wanted[number].clear()
    nodes.settle()
    assert not nodes.gaps
    for url in sure:
        assert nodes.shard(nodes.owner(url)).knows(url), url
    for shard in range(SHARDS):
        for other in range(SHARDS):
            if HOLDERS[shard] != HOLDERS[other]:
                assert nodes.shard(shard).cursors.get(other, 0) <= nodes.shard(other).log.committed
