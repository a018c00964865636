"""Followers: every valid record once, in order, wherever the follower or the machine is cut off."""

from __future__ import annotations

import copy
import tempfile
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lycosa
from lycosa.ask.follower import Entry, Follower, Place, Stretch
from lycosa.ask.reading import CrawlReader
from lycosa.errors import ConfigError, StorageError
from lycosa.files import DirectoryLock, DiskFiles, Files
from lycosa.log import blocks
from lycosa.log.log import Log
from lycosa.log.reader import LogReader
from lycosa.records import Duplicates, Fetched, Lost, Record, Skipped, Why
from tests.crawl.made import MadeCrawl
from tests.crawl.recorded import OPTIONS, chain, serving

PLACE = "place.json"


class Logs:
    """A crawl as a follower sees it, of which a test says whether it runs."""

    crawl = "made"

    def __init__(self, logs: list[LogReader]) -> None:
        self.logs = logs
        self.running = True

    def is_running(self) -> bool:
        return self.running


class Effect:
    """What a reader makes of the entries: which fetches hold, how each is marked, and all other records."""

    def __init__(self) -> None:
        self.fetches: dict[tuple[int, int], tuple[str, bool]] = {}
        self.taken_back: set[tuple[int, int]] = set()
        self.others: set[tuple[int, int]] = set()
        self.last: dict[int, int] = {}

    def apply(self, entry: Entry) -> None:
        shard, position, record = entry
        assert position > self.last.get(shard, -1), "in the order of the log, nothing twice"
        self.last[shard] = position
        if isinstance(record, Fetched):
            self.fetches[shard, position] = record.url, record.duplicate
        elif isinstance(record, Lost):
            del self.fetches[shard, record.position]  # it was handed out before
            self.taken_back.add((shard, record.position))
        elif isinstance(record, Duplicates):
            for at in record.positions:
                if (shard, at) in self.fetches:
                    self.fetches[shard, at] = self.fetches[shard, at][0], True
        else:
            self.others.add((shard, position))


class World:
    """Two logs that are written, cut off and read, and a follower that is killed and started again."""

    def __init__(self, directory: Path) -> None:
        self.files = DiskFiles(directory)
        self.places = self.files.within("place")
        self.logs = [Log(self._log(shard), 400) for shard in range(2)]
        self.records: list[list[Record]] = [[], []]
        self.before: list[tuple[dict[str, int], int]] = [({}, 0), ({}, 0)]  # the disk before the last commit
        self.crawl = Logs([LogReader(self._log(shard)) for shard in range(2)])
        self.now = self.saved = Effect()
        self.start()

    def _log(self, shard: int) -> Files:
        return self.files.within(f"{shard}")

    def _names(self, shard: int) -> dict[str, int]:
        return {name: self._log(shard).size(name) for name in self._log(shard).list("")}

    # -- the follower

    def start(self) -> None:
        """A process that follows; the one before was killed."""
        self.now = copy.deepcopy(self.saved)
        self.follower = Follower.kept(self.crawl, self.places, PLACE)

    def read(self, count: int, by_time: bool) -> None:
        for entry in islice(self.follower.read(by_time=by_time), count):
            self.now.apply(entry)

    def save(self) -> None:
        self.follower.save()
        self.saved = copy.deepcopy(self.now)

    # -- the crawl

    def append(self, shard: int, what: int, which: int) -> None:
        """A fetch, its loss, late word of it, or something else."""
        records = self.records[shard]
        n = len(records)
        gone = {row.position for row in records if isinstance(row, Lost)}
        there = [at for at, row in enumerate(records) if isinstance(row, Fetched) and at not in gone]
        record: Record = _fetched(n, f"http://{shard}.test/{n}/{which}")
        if what == 1 and there:
            record = Lost(n, "", 0, 0, "x", there[which % len(there)], 200, 1, 0, 0)
        elif what == 2 and there:
            record = Duplicates(n, 1 - shard, n, there[which % len(there) :: 2])
        elif what == 3:
            record = Skipped(n, "http://a.test/\xa1L\xa1U", 0, Why.SCOPE)
        records.append(record)
        self.logs[shard].append(record)

    def commit(self, shard: int) -> None:
        self.before[shard] = self._names(shard), self.logs[shard].committed
        self.logs[shard].commit()

    def torn(self, shard: int, part: int) -> None:
        """A block is being written while the follower looks."""
        self.commit(shard)
        names = self._names(shard)
        if not names:
            return
        last = Path(self._log(shard).path(max(names)))
        whole = last.read_bytes()
        block = blocks.pack(10_000, self.logs[shard].committed, [b"x" * 50])
        last.write_bytes(whole + block[: 1 + part % (len(block) - 1)])
        self.read(1000, False)
        last.write_bytes(whole)

    def power_cut(self, shard: int) -> None:
        """What was written last had not reached the disk; the crawl goes on with other records."""
        names, committed = self.before[shard]
        self.logs[shard].close()
        for name in self._names(shard):
            if name not in names:
                self._log(shard).remove(name)
            else:
                self._log(shard).truncate(name, names[name])
        self.logs[shard] = Log(self._log(shard), 400)
        assert self.logs[shard].committed == committed
        del self.records[shard][committed:]
        self.before[shard] = self._names(shard), committed

    # -- the end

    def finish(self) -> None:
        for shard in range(2):
            self.commit(shard)
        self.crawl.running = False
        self.read(10_000, False)
        assert self.now.fetches == self.truth()
        assert self.now.others == {
            (shard, at)
            for shard, rows in enumerate(self.records)
            for at, row in enumerate(rows)
            if isinstance(row, Skipped)
        }
        assert self.follower.positions == {0: len(self.records[0]), 1: len(self.records[1])}
        assert list(self.follower.read()) == []

    def truth(self) -> dict[tuple[int, int], tuple[str, bool]]:
        """The fetches that hold, by the whole log."""
        found = {}
        for shard, rows in enumerate(self.records):
            late = {at for row in rows if isinstance(row, Duplicates) for at in row.positions}
            lost = {row.position for row in rows if isinstance(row, Lost)}
            for at, row in enumerate(rows):
                if isinstance(row, Fetched) and at not in lost:
                    found[shard, at] = row.url, at in late
        return found


def _fetched(at: int, url: str) -> Fetched:
    return msgspec.convert(
        ["F", at, url, 0, 0, 0, 200, "text/html", "", 1, 1, 7, [0, 0, 0, 0], "", ["", "", ""]], Fetched
    )


_shard = st.integers(0, 1)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), _shard, st.integers(0, 3), st.integers(0, 9)),
        st.tuples(st.just("append"), _shard, st.integers(0, 3), st.integers(0, 9)),
        st.tuples(st.just("commit"), _shard),
        st.tuples(st.just("read"), st.integers(1, 6), st.booleans()),
        st.tuples(st.just("read"), st.just(1000), st.booleans()),
        st.tuples(st.just("save")),
        st.tuples(st.just("start")),
        st.tuples(st.just("torn"), _shard, st.integers(0, 99)),
        st.tuples(st.just("power_cut"), _shard),
    ),
    max_size=60,
)


FETCH, LOSS, OTHER = ("append", 0, 0, 0), ("append", 0, 1, 0), ("append", 0, 3, 0)
COMMIT = ("commit", 0)


@settings(max_examples=300, deadline=None)
@given(_steps)
@example([FETCH, OTHER, LOSS, COMMIT, FETCH, COMMIT, ("read", 1, False), ("save",), ("start",)])
@example([FETCH, COMMIT, OTHER, COMMIT, ("read", 9, False), ("append", 0, 2, 0), COMMIT])
@example([FETCH, COMMIT, LOSS, COMMIT, ("read", 9, False), OTHER, COMMIT, ("read", 9, False)])
@example([FETCH, COMMIT, ("read", 9, False), ("save",), ("power_cut", 0), ("append", 0, 0, 1), COMMIT])
def test_a_follower_cut_off_anywhere_counts_each_fetch_once(steps: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory))
        for name, *args in steps:
            getattr(world, str(name))(*args)
        world.finish()
        # And whoever reads it all at once meets nothing that amends.
        whole = Effect()
        for entry in Follower(world.crawl).read(by_time=True):
            assert not isinstance(entry[2], Lost | Duplicates)
            whole.apply(entry)
        assert whole.fetches == world.truth()


def test_the_stretch_is_kept_with_the_place(tmp_path: Path) -> None:
    """Killed between a fetch and its loss, a follower must still know which of the two it was handed."""
    made = MadeCrawl(tmp_path, shards=1)
    _, first = made.fetch("http://a.test/first")
    made.commit()
    files = DiskFiles(tmp_path / "mine")
    follower = Follower.kept(made.reader(), files, PLACE)
    assert [position for _, position, _ in follower.read()] == [first]
    _, second = made.fetch("http://a.test/second")
    made.skip("http://a.test/skipped", Why.SCOPE)
    for position in (first, second):
        made.log(Lost(1, "", 0, 0, "x", position, 200, 1, 0, 0), 0)
    made.commit()
    reading = follower.read()
    assert isinstance(next(reading)[2], Skipped)
    follower.save()
    again = Follower.kept(made.reader(), files, PLACE)
    assert again.places == [Place(1, 3, 5)]
    rows = [record for _, _, record in again.read()]
    assert [row.position for row in rows if isinstance(row, Lost)] == [first]
    assert len(rows) == 1
    assert again.places == [Place.at(5)]


def test_the_last_commit_of_a_running_crawl_waits_for_the_next(tmp_path: Path) -> None:
    made = MadeCrawl(tmp_path, shards=1)
    lock = DirectoryLock(tmp_path)
    follower = Follower.kept(CrawlReader(tmp_path), DiskFiles(tmp_path / "mine"), PLACE)
    for number in range(4):
        made.fetch(f"http://a.test/{number}")
        made.commit()
        handed = [position for _, position, _ in follower.read()]
        assert handed == ([number - 1] if number else [])
    assert len(list(Follower(CrawlReader(tmp_path)).read())) == 4  # who keeps no place may see it
    lock.release()
    assert [position for _, position, _ in follower.read()] == [3]


def test_a_poll_reads_what_is_new_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = MadeCrawl(tmp_path, shards=1)
    for number in range(300):
        made.fetch(f"http://a.test/{number}", title="words " * 50)
        made.commit()
    follower = Follower(made.reader())
    assert len(list(follower.read())) == 300
    read: list[int] = []
    real = DiskFiles.read_at

    def counting(self: DiskFiles, name: str, offset: int, length: int) -> bytes:
        data = real(self, name, offset, length)
        read.append(len(data))
        return data

    monkeypatch.setattr(DiskFiles, "read_at", counting)
    assert list(follower.read()) == []
    made.fetch("http://a.test/new")
    made.commit()
    assert len(list(follower.read())) == 1
    assert sum(read) < 4096
    read.clear()
    assert len(list(Follower(CrawlReader(tmp_path), [Place.at(299)]).read())) == 2
    assert sum(read) < 48 * 1024, "of what lies before a place only the heads of blocks are read"


def test_a_block_that_was_finished_since_is_no_damage(tmp_path: Path) -> None:
    """The writer goes on by some commits between the reader's two looks at a block that was not whole."""
    made = MadeCrawl(tmp_path, shards=1)
    for number in range(4):
        made.fetch(f"http://a.test/{number}")
        made.commit()
    files = DiskFiles(tmp_path / "shards/00/log")
    whole = files.read(files.list("")[0])

    class Growing(DiskFiles):
        looks = 0

        def read_at(self, name: str, offset: int, length: int) -> bytes:
            data = super().read_at(name, offset, length)
            if offset + len(data) == len(whole) and self.looks < 2:
                self.looks += 1
                second = whole.index(blocks.MAGIC, whole.index(blocks.MAGIC) + 1)
                return data[: second - offset + 40]  # what there was of it then
            return data

    growing = Growing(tmp_path / "shards/00/log")
    log = LogReader(growing)
    assert [position for position, _ in Stretch(log).read()] == [0]
    assert growing.looks == 2
    assert [position for position, _ in Stretch(log).read()] == [0, 1, 2, 3]


def test_places_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    made = MadeCrawl(tmp_path / "one", shards=1)
    made.fetch("http://a.test/")
    crawl = made.reader()
    files = DiskFiles(tmp_path / "mine")
    follower = Follower.kept(crawl, files, PLACE)
    assert len(list(follower.read())) == 1
    follower.save()
    with pytest.raises(ConfigError, match="another crawl"):
        Follower.kept(MadeCrawl(tmp_path / "two", shards=1).reader(), files, PLACE)
    with pytest.raises(StorageError, match="shard 00 has not come to position 2"):
        Follower(crawl, [Place.at(2)])
    (tmp_path / "mine" / PLACE).write_bytes(b"{")
    with pytest.raises(StorageError, match="remove it"):
        Follower.kept(crawl, files, PLACE)
    with pytest.raises(RuntimeError):
        Follower(crawl).save()


async def test_following_a_crawl_that_runs_ends_and_goes_on(tmp_path: Path) -> None:
    """A real crawl of a small web, in two runs; a follower that is started anew for each look."""
    seen: list[Entry] = []

    def look() -> None:
        follower = Follower.kept(CrawlReader(tmp_path / "crawl"), DiskFiles(tmp_path / "mine"), PLACE)
        seen.extend(follower.read())
        follower.save()

    with serving(chain(9)) as site:
        for limit in (4, 0):
            given = {"into": tmp_path / "crawl", "limits": {"pages": limit}, **OPTIONS}
            async for _ in lycosa.crawl([site.url()], **given):
                look()
    look()
    logs = CrawlReader(tmp_path / "crawl").logs
    truth = [(shard, position, record) for shard, log in enumerate(logs) for position, record in log.scan()]
    assert sorted(seen, key=lambda row: row[:2]) == truth
    assert sum(isinstance(record, Fetched) for _, _, record in seen) == 9
