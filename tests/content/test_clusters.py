"""Clusters of near duplicates: whatever comes, changes and goes, every page is like the one that stands for it."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.content.alike import AlikeIndex
from lycosa.content.clusters import LIKE, WITHIN, Clusters, Member, Members
from lycosa.content.sketches import Sketch, sketch
from lycosa.files import DiskFiles


def text(topic: int, changed: int) -> str:
    """One of a few texts; `changed` of its words are others."""
    source = random.Random(topic)
    words = [f"w{source.randrange(9000)}" for _ in range(200)]
    for n in range(changed):
        words[(n * 37) % 200] = f"x{topic}-{n}"
    return " ".join(words)


class World:
    """Clusters, beside the pages that they are of."""

    def __init__(self, directory: Path) -> None:
        self.index = AlikeIndex(DiskFiles(directory), memory=1 << 20)
        self.pages: dict[int, Sketch] = {}
        self.clusters = Clusters(self.index, Members(), lambda place: self.pages.get(place))

    def put(self, key: int, said: str) -> bool:
        self.pages[key] = sketch(said)
        return self.clusters.put(key, self.pages[key], place=key)

    def remove(self, key: int) -> None:
        assert self.clusters.remove(key) == (self.pages.pop(key, None) is not None)

    def groups(self) -> dict[int, set[int]]:
        leaders, _ = self.clusters.members.sizes()
        return {int(one): {row.key for row in self.clusters.members.of(int(one))} for one in leaders}

    def check(self) -> None:
        groups = self.groups()
        joined = [key for keys in groups.values() for key in keys]
        assert len(joined) == len(set(joined))
        assert set(joined) <= set(self.pages)
        for leader, keys in groups.items():
            assert leader in keys and len(keys) >= 2
            for key in keys:
                assert self.pages[leader].like(self.pages[key]) >= LIKE
                assert self.pages[leader].distance(self.pages[key]) <= WITHIN
        # Only representatives and pages that are alone are found; and none of them could join another.
        heads = set(self.pages) - set(joined) | set(groups)
        for key in heads:
            found = [row for row in self.index.find(self.pages[key], LIKE) if row.distance <= WITHIN]
            assert {row.key for row in found} <= heads
        for key in set(self.pages) - set(joined):
            near = [row for row in self.index.find(self.pages[key], LIKE) if row.distance <= WITHIN]
            assert {row.key for row in near} == {key}


ACTIONS = st.tuples(st.integers(0, 11), st.integers(0, 2), st.sampled_from((0, 1, 3, 6, 60)), st.booleans())


@settings(max_examples=40, deadline=None)
@given(st.lists(ACTIONS, max_size=40))
def test_every_page_is_like_its_representative_whatever_happens(
    actions: list[tuple[int, int, int, bool]],
) -> None:
    with TemporaryDirectory() as place:
        world = World(Path(place))
        for key, topic, changed, is_gone in actions:
            if is_gone and key in world.pages:
                world.remove(key)
            else:
                world.put(key, text(topic, changed))
        world.check()


def test_a_page_that_changes_leaves_and_the_next_one_stands_for_the_rest(tmp_path: Path) -> None:
    world = World(tmp_path)
    for key in range(4):
        world.put(key, text(1, key))
    world.put(9, text(2, 0))
    assert world.groups() == {0: {0, 1, 2, 3}}
    assert not world.put(0, text(1, 0)), "it says what it said"
    assert world.put(0, text(2, 1)), "it says what page 9 says"
    assert world.groups() == {1: {1, 2, 3}, 9: {0, 9}}
    world.remove(9)
    world.remove(2)
    assert world.groups() == {1: {1, 3}}
    world.remove(1)
    assert world.groups() == {}
    world.put(7, text(1, 2))
    assert world.groups() == {3: {3, 7}}, "one that was hidden is found again"


def test_what_is_only_alike_step_by_step_is_not_joined(tmp_path: Path) -> None:
    world = World(tmp_path)
    for key in range(12):
        world.put(key, text(1, 4 * key))
    world.check()
    assert len(world.groups()) > 1


def test_the_table_is_the_same_after_it_was_written(tmp_path: Path) -> None:
    members = Members()
    for key in range(10, 20):
        members.put(Member(key, 10 if key < 15 else 15, key * 7, 1.0, 3))
    members = Members(members.encode())
    members.drop(11)
    members.put(Member(12, 15, 84, 1.0, 1))
    wanted = [10, 13, 14], [12, 15, 16, 17, 18, 19]
    for one in (members, Members(members.encode())):
        assert tuple([row.key for row in one.of(leader)] for leader in (10, 15)) == wanted
        assert one.find(11) is None and one.find(5) is None
        assert one.find(12) == Member(12, 15, 84, 1.0, 1)
    hosts = Members()
    hosts.put(Member(1 << 48, 1 << 48, 0))
    hosts.put(Member(2 << 48, 1 << 48, 1))
    assert hosts.across() == 1
