"""The site table: in RAM and with files, against a dictionary, over snapshots, crashes and damage."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from xxhash import xxh64_intdigest

from lycosa.crawl import site_files, site_kernels
from lycosa.crawl.site_files import SiteFiles, frame, unframe
from lycosa.crawl.site_index import Index
from lycosa.crawl.sites import Site, SiteTable
from lycosa.errors import ConfigError, LocalError, StorageError
from lycosa.files import Appender, Bytes, DiskFiles
from lycosa.lab.faults import Crash, FaultyFiles

Make = Callable[[], SiteTable]


@pytest.fixture(params=["ram", "files"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes tables: all in RAM, or with room for three entries there."""
    if request.param == "ram":
        return SiteTable
    return lambda: SiteTable(DiskFiles(tmp_path), hot=3, seed=7)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, buffers and steps so small that a few dozen entries exercise all of them."""
    for name, value in (("FILE_BYTES", 700), ("BUFFER", 100), ("CHUNK", 300), ("SLICE", 150), ("FEW", 3)):
        monkeypatch.setattr(site_files, name, value)


def state(table: SiteTable) -> dict[str, list[object]]:
    return {name: list(msgspec.structs.astuple(site)) for name, site in table.items()}


# -- the contract, both ways


def test_a_name_without_an_entry_is_found_as_soon_as_it_has_one(make: Make) -> None:
    table = make()
    assert [table.peek("http://a"), table.peek("http://a"), table.peek("http://b")] == [None] * 3
    table.get("http://a").pages = 3
    for n in range(20):
        table.get(f"http://h{n}")
    gc.collect()
    found = table.peek("http://a")
    assert found is not None
    assert found.pages == 3
    assert table.peek("http://b") is None


def test_changes_are_kept(make: Make) -> None:
    table = make()
    for turn in range(3):
        for n in range(20):
            site = table.get(f"http://h{n}")
            assert site.pages == turn
            site.pages += 1
            site.crawl_delay = n / 8
    assert len(table) == 20
    assert {name: (site.pages, site.crawl_delay) for name, site in table.items()} == {
        f"http://h{n}": (3, n / 8) for n in range(20)
    }
    del site


def test_peek_makes_nothing_and_changes_through_it_are_kept(make: Make) -> None:
    table = make()
    assert table.peek("h") is None
    assert len(table) == 0
    table.get("h").dns_failures = 2
    for n in range(10):
        table.get(f"other{n}")
    found = table.peek("h")
    assert found is not None
    found.dns_failures = 0
    del found
    for n in range(10):
        table.get(f"other{n}")
    assert table.get("h").dns_failures == 0
    assert table.peek("absent") is None
    assert len(table) == 11


def test_an_entry_that_is_held_stays_the_same_object(make: Make) -> None:
    table = make()
    held = [table.get(f"held{n}") for n in range(8)]  # more than there is room for
    for n in range(50):
        table.get(f"other{n}").pages = n
    for n, site in enumerate(held):
        assert table.get(f"held{n}") is site
    del site, held
    gc.collect()
    for n in range(50):
        assert table.get(f"other{n}").pages == n
    assert len(table) == 58


def test_asked(make: Make) -> None:
    table = make()
    for n in range(30):
        table.get(f"h{n}").asked = n % 3 == 0
    assert sorted(name for name, _ in table.asked()) == sorted(f"h{n}" for n in range(0, 30, 3))


def test_iterating_while_entries_are_got_leaves_nothing_out(make: Make) -> None:
    table = make()
    for n in range(40):
        table.get(f"h{n}").pages = 1
    met = []
    for n, (name, _) in enumerate(table.items()):
        met.append(name)
        if n < 40:
            found = table.peek(f"h{(n * 7) % 40}")
            assert found is not None
            found.last_ms += 1
            del found
    assert set(met) == {f"h{n}" for n in range(40)}


def test_names_of_every_kind(make: Make) -> None:
    table = make()
    names = ["", "a", "ü", "\ud800", "x" * 100_000, "[::1]", "http://a:80", "a\nb"]
    for n, name in enumerate(names):
        table.get(name).pages = n
    assert {name: site.pages for name, site in table.items()} == {name: n for n, name in enumerate(names)}


def test_a_freeze_is_one_instant(make: Make) -> None:
    table = make()
    for n in range(12):
        table.get(f"h{n}").pages = n
    before = state(table)
    pieces = table.freeze()
    got = [next(pieces)]
    for n in range(12):
        table.get(f"h{n}").pages += 100  # hot ones are touched, cold ones read, others evicted
    table.get("new").pages = 1
    got.extend(pieces)
    table.settle()
    after = state(table)
    again = make()
    again.thaw(got)
    assert state(again) == before
    assert len(again) == 12
    assert len(table) == 13
    assert {name: row[6] for name, row in after.items()} == {f"h{n}": n + 100 for n in range(12)} | {"new": 1}


def test_a_freeze_that_is_dropped_or_closed_harms_nothing(make: Make) -> None:
    table = make()
    for n in range(10):
        table.get(f"h{n}").pages = n
    table.freeze()  # never begun
    table.get("h3").pages = 33
    half = table.freeze()
    next(half)
    table.get("h4").pages = 44
    half.close()  # type: ignore[attr-defined]
    last = table.freeze()
    stale = table.freeze()
    with pytest.raises(LocalError):
        list(last)
    pieces = list(stale)
    table.settle()
    again = make()
    again.thaw(pieces)
    assert state(again) == state(table)
    assert again.get("h3").pages == 33


def test_an_empty_table_and_no_pieces(make: Make) -> None:
    again = make()
    again.thaw(list(make().freeze()))
    again.thaw([])
    assert len(again) == 0
    assert again  # not false, though empty
    assert list(again.items()) == []


def test_snapshots_from_before_there_were_files_are_read(make: Make) -> None:
    rows = [(f"h{n}", Site(pages=n, asked=True)) for n in range(12)]
    table = make()
    table.thaw([msgspec.msgpack.encode(rows[:7]), msgspec.msgpack.encode(rows[7:])])
    rows.clear()
    assert len(table) == 12
    assert {name: site.pages for name, site in table.asked()} == {f"h{n}": n for n in range(12)}


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=3))
@settings(max_examples=100, deadline=None)
def test_any_pieces_are_taken_or_refused(pieces: list[bytes]) -> None:
    head = list(SiteTable().freeze())
    for given_pieces in (pieces, head + pieces):
        try:
            SiteTable().thaw(given_pieces)
        except StorageError:
            continue


def test_room_for_nothing_is_refused() -> None:
    with pytest.raises(ConfigError):
        SiteTable(hot=0)


# -- over random histories


NAMES = [f"http://site{n}.example" for n in range(14)] + ["host", "x" * 90]


class Machine(RuleBasedStateMachine):
    """A table on faulty files beside a dictionary; snapshots as `crawl.saving` writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.files = FaultyFiles()
        self.table = SiteTable(self.files, hot=4, seed=5)
        self.model: dict[str, Site] = {}
        self.sealed: list[tuple[list[bytes], list[str], dict[str, Site]]] = []
        self.pieces: Iterator[bytes] | None = None
        self.taken: list[bytes] = []
        self.cut: dict[str, Site] = {}

    @rule(rows=st.lists(st.tuples(st.integers(0, len(NAMES) - 1), st.integers(0, 9)), max_size=60))
    def change(self, rows: list[tuple[int, int]]) -> None:
        for n, field in rows:
            name = NAMES[n]
            for site in (self.table.get(name), self.model.setdefault(name, Site())):
                key = Site.__struct_fields__[field]
                setattr(site, key, True if key == "asked" else getattr(site, key) + 1)
            del site

    @rule(n=st.integers(0, len(NAMES) - 1))
    def peek(self, n: int) -> None:
        assert self.table.peek(NAMES[n]) == self.model.get(NAMES[n])

    @rule()
    def freeze(self) -> None:
        self.pieces, self.taken = self.table.freeze(), []
        self.cut = {name: msgspec.structs.replace(site) for name, site in self.model.items()}

    @precondition(lambda self: self.pieces is not None)
    @rule()
    def take_a_piece(self) -> None:
        assert self.pieces is not None
        self.taken += [piece for piece in [next(self.pieces, None)] if piece is not None]

    @precondition(lambda self: self.pieces is not None)
    @rule()
    def seal(self) -> None:
        assert self.pieces is not None
        self.taken += self.pieces
        names = self.table.files()
        self.table.settle()
        self.sealed.append((self.taken, names, self.cut))
        kept = {name for _, named, _ in self.sealed[-2:] for name in named}
        for _, named, _ in self.sealed[:-2]:
            for name in set(named) - kept:
                self.files.remove(name)
        del self.sealed[:-2]
        self.table.keep(kept)
        self.pieces = None

    @rule(seed=st.integers(0, 1000), power=st.booleans(), older=st.booleans())
    def crash(self, seed: int, power: bool, older: bool) -> None:
        if power:
            self.files = self.files.restart(random.Random(seed))
        self.table = SiteTable(self.files, hot=4, seed=5)
        self.pieces = None
        if older:
            del self.sealed[1:]
        kept = {name for _, named, _ in self.sealed for name in named}
        for name in self.files.list(""):
            if name not in kept:
                self.files.remove(name)
        if self.sealed:
            pieces, _, model = self.sealed[-1]
            self.table.thaw(pieces)
            self.model = {name: msgspec.structs.replace(site) for name, site in model.items()}
        else:
            self.model = {}

    @invariant()
    def same(self) -> None:
        assert len(self.table) == len(self.model)

    def teardown(self) -> None:
        rows = list(self.table.items())
        assert len(rows) == len(self.model)
        assert dict(rows) == self.model
        assert dict(self.table.asked()) == {name: site for name, site in self.model.items() if site.asked}


@pytest.mark.usefixtures("tiny")
def test_random_histories() -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=150,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        ),
    )


@pytest.mark.usefixtures("tiny")
def test_a_crash_at_every_step_of_a_history() -> None:
    def history(files: FaultyFiles, sealed: list[tuple[list[bytes], list[str], dict[str, int]]]) -> None:
        table = SiteTable(files, hot=3)
        pages: dict[str, int] = {}
        for n in range(60):
            name = NAMES[n * n % 11]
            table.get(name).pages += 1
            pages[name] = pages.get(name, 0) + 1
            if n % 15 == 14:
                pieces, names, cut = table.freeze(), table.files(), dict(pages)
                got = list(pieces)
                table.settle()
                sealed.append((got, names, cut))
                table.keep({name for _, named, _ in sealed[-2:] for name in named})

    whole = FaultyFiles()
    history(whole, [])
    assert whole.steps > 40
    assert any(what.startswith("remove") for what in whole.history)
    for step in range(1, whole.steps + 1):
        files, sealed = FaultyFiles(crash_at=step), []
        with pytest.raises(Crash):
            history(files, sealed)
        files = files.restart(random.Random(step))
        for got, _, cut in sealed[-2:]:
            table = SiteTable(files, hot=3)
            table.thaw(got)
            assert {name: site.pages for name, site in table.items()} == cut


# -- files


@pytest.mark.usefixtures("tiny")
def test_garbage_is_collected_and_files_go(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    table = SiteTable(files, hot=2)
    most = 0
    for n in range(3_000):
        table.get(NAMES[n % len(NAMES)]).pages += 1
        table.keep([])
        most = max(most, sum(files.size(name) for name in files.list("")))
    live = sum(len(frame(0, name.encode(), msgspec.msgpack.encode(site))) for name, site in table.items())
    # As much garbage as is live, half as much again, and the constants: few frames, open file, buffer.
    assert most <= 2.5 * live + 3 * 120 + 700 + 400
    assert {site.pages for _, site in table.items()} <= {187, 188}


@pytest.mark.usefixtures("tiny")
def test_files_that_a_snapshot_names_stay(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    table = SiteTable(files, hot=2)
    for n in range(30):
        table.get(f"h{n}").pages = 1
    pieces = list(table.freeze())
    table.settle()
    named = table.files()
    assert len(named) > 1
    for n in range(300):
        table.get(f"h{n % 30}").pages += 1
    assert table.keep(named) != named
    assert set(named) <= set(files.list(""))
    again = SiteTable(files, hot=2)
    again.thaw(pieces)
    assert {site.pages for _, site in again.items()} == {1}
    list(table.freeze())
    assert set(named) <= set(table.keep([]))  # the newer cut needs none of them


@pytest.mark.usefixtures("tiny")
def test_a_freeze_under_way_knows_places_that_stay() -> None:
    rng = random.Random(2)
    files = FaultyFiles()
    table = SiteTable(files, hot=9)
    for turn in range(150):
        for _ in range(8):
            table.get(rng.choice(NAMES)).pages += 1
        cut = state(table)
        pieces = table.freeze()
        got = [next(pieces)]
        for _ in range(turn % 9):  # the frames of entries not yet in a piece would be moved by now
            table.get(rng.choice(NAMES)).pages += 1
        got.extend(pieces)
        again = SiteTable(files, hot=9)
        again.thaw(got)
        assert state(again) == cut
        for _ in range(2):  # each is written, and takes the place of what it was
            for name in cut:
                again.get(name).last_ms += 1
        assert sorted(name for name, _ in again.items()) == sorted(cut)


def test_a_file_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    for n in range(3):
        table = SiteTable(files, hot=1)
        table.get("a").pages = n
        table.get("b").pages = n
        list(table.freeze())
    assert len({files.read(name) for name in files.list("")}) == 3


class _Full(DiskFiles):
    """A disk on which writes fail half way while `full`."""

    full = False

    def append(self, name: str) -> Appender:
        return _FullAppender(self, super().append(name))

    def create(self, name: str) -> Appender:
        return _FullAppender(self, super().create(name))


class _FullAppender:
    def __init__(self, disk: _Full, inner: Appender) -> None:
        self._disk, self._inner = disk, inner
        self.flush, self.sync, self.close = inner.flush, inner.sync, inner.close

    @property
    def size(self) -> int:
        return self._inner.size

    def write(self, data: Bytes) -> None:
        if self._disk.full:
            self._inner.write(bytes(data)[: len(data) // 2])
            raise StorageError("the disk is full")
        self._inner.write(data)


@pytest.mark.usefixtures("tiny")
def test_after_a_full_disk_nothing_is_lost(tmp_path: Path) -> None:
    files = _Full(tmp_path)
    table = SiteTable(files, hot=2)
    pages = dict.fromkeys(NAMES, 0)
    failures = 0
    for n in range(400):
        name = NAMES[n % len(NAMES)]
        files.full = n % 40 > 30
        try:
            table.get(name).pages += 1
            pages[name] += 1
        except StorageError:
            failures += 1
    assert failures > 10
    files.full = False
    assert {name: site.pages for name, site in table.items()} == pages
    pieces = list(table.freeze())
    table.settle()
    again = SiteTable(files, hot=2)
    again.thaw(pieces)
    assert {name: site.pages for name, site in again.items()} == pages


def test_damage_is_told_in_one_line(tmp_path: Path) -> None:
    table = SiteTable(DiskFiles(tmp_path), hot=2)
    for n in range(50):
        table.get(f"host{n}").pages = n
    pieces = list(table.freeze())
    table.settle()
    (name,) = table.files()
    path = tmp_path / name
    whole = path.read_bytes()

    def thawed() -> SiteTable:
        again = SiteTable(DiskFiles(tmp_path), hot=2)
        again.thaw(pieces)
        return again

    assert len(thawed()) == 50
    for at in (8, 9, 13, 17, 25, 35, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        with pytest.raises(StorageError, match="damaged"):
            thawed()
    path.write_bytes(whole[:-1])
    with pytest.raises(StorageError, match="needs"):
        thawed()
    path.unlink()
    with pytest.raises(StorageError, match="needs"):
        thawed()
    path.write_bytes(whole)
    table = thawed()
    path.write_bytes(whole[:30] + b"!" + whole[31:])
    with pytest.raises(StorageError, match="damaged"):
        table.get("host0")
    with pytest.raises(StorageError, match="files"):
        SiteTable().thaw(pieces)


# -- two names of one hash


def collision(seed: int) -> tuple[str, str]:
    """Two names of one XXH64: a lane's second word undoes what another first word did to it."""
    p1, p2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
    all_ones = (1 << 64) - 1

    def after(word: bytes) -> int:
        lane = seed + p1 + p2 + int.from_bytes(word, "little") * p2 & all_ones
        return (lane << 31 | lane >> 33) * p1 & all_ones

    first, second = b"aaaaaaaa", b"bbbbbbbb"
    for n in range(100_000):
        other = b"%08d" % n
        change = (after(first) - after(other)) * pow(p2, -1, 1 << 64)
        repair = (int.from_bytes(second, "little") + change & all_ones).to_bytes(8, "little")
        if max(repair) < 0x80:
            rest = b"." * 24
            return (first + rest + second + rest).decode(), (other + rest + repair + rest).decode()
    raise AssertionError("no repair in ASCII")


def test_two_names_of_one_hash(tmp_path: Path) -> None:
    one, two = collision(7)
    assert one != two
    assert xxh64_intdigest(one.encode(), 7) == xxh64_intdigest(two.encode(), 7)
    files = DiskFiles(tmp_path)
    table = SiteTable(files, hot=1, seed=7)
    table.get(one).pages = 1
    table.get("other").pages = 3
    assert table.peek(two) is None
    table.get(two).pages = 2
    for _ in range(5):
        for name in (one, "other", two):
            table.get(name).last_ms += 1
    again = SiteTable(files, hot=1, seed=7)
    pieces = list(table.freeze())
    table.settle()
    again.thaw(pieces)
    for kept in (table, again):
        assert {name: (site.pages, site.last_ms) for name, site in kept.items()} == {
            one: (1, 5),
            two: (2, 5),
            "other": (3, 5),
        }
        assert (kept.get(one).pages, kept.get(two).pages) == (1, 2)


# -- the index and the kernels, beside plain ones


HASHES = st.one_of(
    st.integers(0, 6).map(lambda n: (3 << 56) + n),  # one page, neighbours
    st.integers(0, (1 << 64) - 1),
    st.just((1 << 64) - 1),
)


@given(
    st.lists(
        st.tuples(HASHES, st.integers(0, 3), st.lists(st.integers(0, 30), max_size=1)),
        min_size=1,
        max_size=120,
    )
)
@settings(max_examples=150, deadline=None)
def test_the_index_is_a_map_of_lists(rows: list[tuple[int, int, list[int]]]) -> None:
    index, plain = Index(), {}  # type: ignore[var-annotated]
    frames: list[tuple[int, int, int]] = []
    for place, (hashed, turn, _) in enumerate(rows, 1):
        had = plain.setdefault(hashed, [])
        old = had[turn % len(had)] if had and turn < 2 else 0
        frames.append((hashed, place, old))
        if old:
            assert index.move(hashed, old, place)
            had[had.index(old)] = place
        else:
            index.add(hashed, place)
            had.append(place)
        assert not index.move(hashed, 10_000, 1)
    columns = np.array(frames, np.uint64).T.copy()
    batched = Index()
    for at in range(0, len(frames), 50):
        batched.put_all(*(column[at : at + 50] for column in columns))
    for made in (index, batched):
        assert len(made) == sum(map(len, plain.values()))
        for hashed, places in plain.items():
            assert sorted(made.places(hashed)) == sorted(places)
        assert list(made.places(12345)) == plain.get(12345, [])
        alive = made.alive(columns[0], columns[1])
        assert alive.tolist() == [place in plain[hashed] for hashed, place, _ in frames]
    assert Index().alive(columns[0][:0], columns[1][:0]).tolist() == []


def test_the_index_takes_twenty_bytes_a_site() -> None:
    index = Index()
    rng = np.random.default_rng(4)
    for start in range(1, 400_001, 50_000):
        hashes = rng.integers(0, 1 << 64, 50_000, np.uint64)
        places = np.arange(start, start + 50_000, dtype=np.uint64)
        index.put_all(hashes, places, np.zeros(50_000, np.uint64))
        assert index.alive(hashes, places).all()
        assert index.nbytes <= 20 * len(index) + 256 * 200
    assert len(index) == 400_000


def plain_scan(data: bytes, base: int, seed: int) -> tuple[list[tuple[int, int, int]], int]:
    rows, at = [], 0
    while (read := unframe(data, at)) is not None:
        rows.append((xxh64_intdigest(read[0].name, seed), base + at, read[0].replaces))
        at = read[1]
    return rows, at


ROWS = st.tuples(st.integers(0, (1 << 64) - 1), st.binary(max_size=70), st.binary(max_size=40))
FRAMES = st.lists(ROWS, max_size=6)


@given(FRAMES, st.binary(max_size=50), st.integers(0, 400), st.integers(0, 1 << 63))
@settings(max_examples=300, deadline=None)
def test_scanning_reads_what_the_plain_reader_reads(
    rows: list[tuple[int, bytes, bytes]], tail: bytes, cut: int, seed: int
) -> None:
    whole = b"".join(frame(*row) for row in rows)
    read = []
    at = 0
    while (found := unframe(whole, at)) is not None:
        read.append(tuple(found[0]))
        at = found[1]
    assert (read, at) == (rows, len(whole))
    for data in (whole + tail, whole[:cut], tail):
        room = len(data) // 20 + 1
        hashes, places, replaced = (np.zeros(room, np.uint64) for _ in range(3))
        view = np.frombuffer(data, np.uint8)
        count, used = site_kernels.scan(view, np.uint64(1 << 40), np.uint64(seed), hashes, places, replaced)
        got = list(
            zip(hashes[:count].tolist(), places[:count].tolist(), replaced[:count].tolist(), strict=True)
        )
        assert (got, used) == plain_scan(data, 1 << 40, seed)


def test_a_frame_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    store = SiteFiles(DiskFiles(tmp_path))
    long = b"n" * (3 << 20)
    store.write(b"a", b"1", 0)
    store.write(long, b"2", 0)
    store.write(b"b", b"3" * 1000, 0)
    assert [(len(name), fields[:1]) for name, fields in store.rows()] == [
        (1, b"1"),
        (3 << 20, b"2"),
        (1, b"3"),
    ]
    found = store.find(long)
    assert found is not None
    assert found[1] == b"2"
    spans = store.cut()
    again = SiteFiles(DiskFiles(tmp_path))
    again.open(spans)
    assert len(again) == 3
    assert again.find(b"b") == store.find(b"b")
