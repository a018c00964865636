"""The contract of `lycosa.seen.protocol`, as a suite that every store must pass.

A `Bench` drives one store and keeps by its side what the contract says about every key: never met, waiting
with the payload of its first offer, or known. Each answer of the store is judged against that at once. The
bench can take a snapshot (with use going on between the pieces), crash, and go on from the last snapshot
in a new store on the files that the snapshot names, with bytes past their lengths kept, cut or garbled.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from lycosa.files import DiskFiles, Files
from lycosa.lab.faults import Crash, FaultyFiles
from lycosa.seen.protocol import Seen

Factory = Callable[[Files], Seen]


@dataclass
class Snapshot:
    pieces: list[bytes]
    sizes: dict[str, int]  # of the files it names, at the cut
    known: set[int]
    pending: dict[int, bytes]


@dataclass
class Bench:
    factory: Factory
    root: Path
    known: set[int] = field(default_factory=set)
    pending: dict[int, bytes] = field(default_factory=dict)
    came_out: int = 0

    def __post_init__(self) -> None:
        self.lives = itertools.count()
        self.serial = itertools.count()
        shutil.rmtree(self.root, ignore_errors=True)
        self.files = DiskFiles(self.root)
        self.store = self.factory(self.files)
        self.snapshot = Snapshot([], {}, set(), {})

    def offer(self, keys: list[int]) -> None:
        payloads = [b"%d of %d" % (next(self.serial), key) for key in keys]
        self.certain(keys)
        answer = self.store.offer(np.array(keys, np.uint64), payloads)
        new, waiting = answer.new.tolist(), answer.waiting.tolist()
        assert new == sorted(set(new)) and waiting == sorted(set(waiting))
        new, waiting = set(new), set(waiting)
        assert not new & waiting
        for i, key in enumerate(keys):
            met = key in self.known or key in self.pending
            if i in new:
                assert not met, f"key {key} came out again"
                self.known.add(key)
                self.came_out += 1
            elif not met:
                assert i in waiting, f"key {key} was lost"
                self.pending[key] = payloads[i]

    def mark(self, keys: list[int]) -> None:
        self.store.mark(np.array(keys, np.uint64))
        for key in keys:
            self.known.add(key)
            self.pending.pop(key, None)

    def certain(self, keys: list[int]) -> None:
        flags = self.store.certain(np.array(keys, np.uint64)).tolist()
        assert len(flags) == len(keys)
        for key, flag in zip(keys, flags, strict=True):
            assert not flag or key in self.known or key in self.pending, f"{key} is not certain"

    def merge(self) -> None:
        before = self.store.waiting
        for key, payload in self.store.merge():
            assert key in self.pending, f"key {key} came out though it does not wait"
            assert bytes(payload) == self.pending.pop(key)
            self.known.add(key)
            self.came_out += 1
        assert self.store.waiting < before or before == 0

    def drain(self) -> None:
        while self.store.waiting:
            self.merge()
        assert not self.pending

    def freeze(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        pieces = self.store.freeze()
        sizes = {}
        for name in self.store.files():
            sizes[name] = self.files.size(name)
        known, pending = set(self.known), dict(self.pending)
        taken = list(itertools.islice(pieces, 1))
        meanwhile()
        taken += list(pieces)
        self.store.settle()
        self.snapshot = Snapshot(taken, sizes, known, pending)
        assert all(len(piece) <= 1 << 21 for piece in taken)

    def crash(self, tails: str = "keep") -> None:
        """Recover as the agent does: delete what the snapshot does not name, then thaw."""
        life = self.root.with_name(f"{self.root.name}-{next(self.lives)}")
        shutil.rmtree(life, ignore_errors=True)
        life.mkdir(parents=True)
        for name, size in self.snapshot.sizes.items():
            target = life / name
            target.parent.mkdir(parents=True, exist_ok=True)
            data = (self.root / name).read_bytes()
            assert len(data) >= size
            if tails == "cut":
                data = data[:size]
            elif tails == "garble":
                data = data[:size] + random.Random(size).randbytes(100)
            target.write_bytes(data)
        self.root = life
        self.files = DiskFiles(life)
        self.store = self.factory(self.files)
        if self.snapshot.pieces:
            self.store.thaw(self.snapshot.pieces)
        self.known, self.pending = set(self.snapshot.known), dict(self.snapshot.pending)

    def finish(self) -> None:
        self.drain()
        everything = sorted(self.known)
        before = self.came_out
        self.offer(everything)
        self.drain()
        assert self.came_out == before
        for _ in range(500):  # marks that answer nobody may still lie in buffers
            if len(self.store) == len(self.known):
                break
            self.store.merge()
        assert len(self.store) == len(self.known)


class PowerBench(Bench):
    """A bench whose machine loses its power: only what was synced is sure to be there afterwards."""

    def __init__(self, factory: Factory, dice: random.Random) -> None:
        self.dice = dice
        super().__init__(factory, Path("/nowhere"))

    def __post_init__(self) -> None:
        self.serial = itertools.count()
        self.files = FaultyFiles()
        self.store = self.factory(self.files)
        self.snapshot = Snapshot([], {}, set(), {})

    def crash(self, tails: str = "", calm: bool = False) -> None:
        """Restart, on a disk that will fail again, unless calm; it may fail while we recover."""
        while True:
            crash_at = None if calm else self.dice.randrange(2, 400)
            self.files = self.files.restart(self.dice, crash_at)
            try:
                for name in self.files.list(""):
                    if name not in self.snapshot.sizes:
                        self.files.remove(name)
                self.store = self.factory(self.files)
                if self.snapshot.pieces:
                    self.store.thaw(self.snapshot.pieces)
                break
            except Crash:
                continue
        self.known, self.pending = set(self.snapshot.known), dict(self.snapshot.pending)


EDGES = [0, 1, 2**64 - 1, 2**64 - 2, 2**63, 2**48, 2**48 - 1, 255, 256]
HOST = 0xBEEF << 48

key_sets = st.one_of(
    st.sampled_from(EDGES),
    st.integers(0, 40),
    st.integers(0, 60).map(lambda n: HOST | n),
    st.integers(0, 60).map(lambda n: HOST | n * 0x10001),
    st.integers(0, 2**64 - 1),
)
batches = st.lists(key_sets, min_size=0, max_size=70)
steps = st.one_of(
    st.tuples(st.just("offer"), batches),
    st.tuples(st.just("offer"), batches),
    st.tuples(st.just("offer"), st.lists(key_sets, min_size=1, max_size=1)),
    st.tuples(st.just("mark"), st.lists(key_sets, max_size=8)),
    st.tuples(st.just("merge"), st.just([])),
    st.tuples(st.just("freeze"), batches),
    st.tuples(st.just("crash"), st.sampled_from([["keep"], ["cut"], ["garble"]])),
)


def play(bench: Bench, script: list[tuple[str, list]]) -> None:
    for verb, argument in script:
        if verb == "offer":
            bench.offer(argument)
        elif verb == "mark":
            bench.mark(argument)
        elif verb == "merge":
            bench.merge()
        elif verb == "freeze":
            keys = argument

            def meanwhile(keys: list[int] = keys) -> None:
                bench.offer(keys)
                bench.mark(keys[:3])
                bench.merge()

            bench.freeze(meanwhile)
        else:
            bench.crash(argument[0])
    bench.finish()


def stream(seed: int, n: int) -> Iterator[list[int]]:
    """Batches like a crawl's: few hosts at a time, many repeats, some keys never met before."""
    dice = random.Random(seed)
    hosts = [dice.getrandbits(16) << 48 for _ in range(12)]
    popular = [dice.choice(hosts) | dice.getrandbits(48) for _ in range(300)]
    while n > 0:
        host = dice.choice(hosts)
        size = min(n, dice.choice([1, 7, 60, 200]))
        n -= size
        batch = []
        for _ in range(size):
            kind = dice.random()
            if kind < 0.5:
                batch.append(dice.choice(popular))
            elif kind < 0.9:
                batch.append(host | dice.getrandbits(12))
            else:
                batch.append(dice.getrandbits(64))
        yield batch


class Contract:
    """Derive, set `factory`, and be judged. `examples` scales the random part."""

    factory: Factory
    examples = 60

    def test_random_steps(self, tmp_path_factory) -> None:
        root = tmp_path_factory.mktemp("seen")
        count = itertools.count()

        @settings(
            max_examples=self.examples,
            deadline=None,
            derandomize=True,
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(st.lists(steps, max_size=14))
        def run(script: list) -> None:
            play(Bench(type(self).factory, root / f"run-{next(count)}"), script)

        run()

    def test_a_crawl_with_crashes(self, tmp_path: Path) -> None:
        bench = Bench(type(self).factory, tmp_path / "store")
        dice = random.Random(7)
        for turn, batch in enumerate(stream(1, 12_000)):
            bench.offer(batch)
            if dice.random() < 0.2:
                bench.mark(dice.sample(batch, min(3, len(batch))))
            if dice.random() < 0.2:
                bench.merge()
            if turn % 25 == 24:
                bench.freeze(lambda: bench.offer([dice.getrandbits(64), 3, HOST | 9]))
            if turn % 60 == 59:
                bench.crash(("keep", "cut", "garble")[turn // 60 % 3])
        bench.finish()

    @pytest.mark.parametrize("seed", range(6))
    def test_power_cuts(self, seed: int) -> None:
        """The power fails at random file operations, in merges, freezes and settling too."""
        dice = random.Random(seed)
        bench = PowerBench(type(self).factory, dice)
        batches = list(stream(seed, 4000))
        bench.freeze()
        bench.crash()
        turn, committed = 0, 0
        for _ in range(60):
            try:
                while turn < len(batches):
                    bench.offer(batches[turn])
                    if dice.random() < 0.3:
                        bench.mark(dice.sample(batches[turn], 1))
                    if dice.random() < 0.4:
                        bench.merge()
                    turn += 1
                    if dice.random() < 0.2:
                        bench.freeze(lambda: bench.offer([dice.getrandbits(64)]))
                        committed = turn
                break
            except Crash:
                bench.crash()
                turn = committed
        bench.crash(calm=True)
        for batch in batches[committed:]:
            bench.offer(batch)
        bench.finish()

    def test_edges_and_repeats(self, tmp_path: Path) -> None:
        bench = Bench(type(self).factory, tmp_path / "store")
        bench.offer(EDGES + EDGES)
        bench.offer([])
        bench.mark([])
        bench.mark([2**40, 2**64 - 1, 2**40])
        bench.offer([2**40, 2**40 + 1])
        bench.finish()

    def test_sequential_keys(self, tmp_path: Path) -> None:
        bench = Bench(type(self).factory, tmp_path / "store")
        for at in range(0, 6000, 60):
            bench.offer(list(range(at, at + 60)))
        bench.drain()
        for at in range(0, 6000, 97):
            bench.offer([HOST | n for n in range(at, at + 97)])
        bench.finish()

    def test_marked_while_waiting_never_comes_out(self, tmp_path: Path) -> None:
        bench = Bench(type(self).factory, tmp_path / "store")
        bench.offer([5, 6, 7, HOST | 1])
        bench.mark([6, HOST | 1, 8])
        bench.offer([6, 8, 9])
        bench.finish()
        assert {5, 6, 7, 8, 9, HOST | 1} <= bench.known

    def test_one_large_batch(self, tmp_path: Path) -> None:
        bench = Bench(type(self).factory, tmp_path / "store")
        dice = random.Random(3)
        keys = [dice.getrandbits(64) for _ in range(20_000)]
        bench.offer(keys + keys[:5000])
        bench.freeze()
        bench.crash("keep")
        bench.finish()

    def test_an_older_snapshot_still_holds(self, tmp_path: Path) -> None:
        """Recover twice from the same snapshot: what the first recovery wrote must not disturb it."""
        bench = Bench(type(self).factory, tmp_path / "store")
        bench.offer(list(range(0, 90_000, 9)))
        bench.drain()
        bench.offer(list(range(5, 3000, 9)))
        bench.freeze()
        first = bench.snapshot
        bench.crash("keep")
        bench.offer(list(range(1, 90_000, 9)))
        bench.drain()
        bench.snapshot = first
        bench.crash("keep")
        bench.finish()

    def test_an_abandoned_freeze(self, tmp_path: Path) -> None:
        bench = Bench(type(self).factory, tmp_path / "store")
        bench.offer(list(range(1000)))
        pieces = bench.store.freeze()
        next(pieces, None)
        if hasattr(pieces, "close"):
            pieces.close()
        bench.offer(list(range(500, 1500)))
        bench.freeze()
        bench.crash()
        bench.finish()
