"""Reading a crawl: records are found by what they are, also when a later version gave them more fields."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lycosa
from lycosa.ask.reading import CrawlReader
from lycosa.crawl import manifest as manifests
from lycosa.crawl.config import encode_options
from lycosa.crawl.status import read_status
from lycosa.crawl.totals import Totals, summed
from lycosa.errors import ConfigError
from lycosa.files import DirectoryLock, DiskFiles
from lycosa.log import blocks
from lycosa.log.log import Log
from lycosa.records import (
    Configured,
    Duplicates,
    Fetched,
    Lost,
    Record,
    Skipped,
    Why,
    encode,
    has_tag,
    tag_of,
)
from tests.crawl.made import MadeCrawl, anchors
from tests.crawl.recorded import OPTIONS, chain, serving


def longer(record: Record, fields: int) -> Any:
    """The record as a version would write it that knows so many fields more."""
    kind = type(record)
    names = [(field.name, field.type) for field in msgspec.structs.fields(kind)]
    later = msgspec.defstruct(
        kind.__name__ + "Later",
        [*names, *((f"more{number}", str) for number in range(fields))],
        array_like=True,
        tag_field="record",
        tag=kind.__struct_config__.tag,
    )
    return later(*(getattr(record, name) for name, _ in names), *("x" * 40 for _ in range(fields)))


@pytest.mark.parametrize("more", [0, 1, 4, 20])
def test_records_with_more_fields_are_found(tmp_path: Path, more: int) -> None:
    made = MadeCrawl(tmp_path, shards=1)
    made.configure()
    _, first = made.fetch("http://a.test/", links=anchors("http://a.test/2"))
    _, second = made.fetch("http://b.test/", title="\xa1U \xa1L \xa1C: no tags")
    made.log(longer(Duplicates(1, 0, 1, [second]), more), 0)
    made.log(longer(Lost(1, "http://a.test/", 0, 0, "x", first, 200, 1, 0, 0), more), 0)
    made.commit()
    reader = made.reader()
    fetches = [record for _, _, record in reader.records() if isinstance(record, Fetched)]
    assert [(record.url, record.duplicate) for record in fetches] == [("http://b.test/", True)]
    options = reader.options()
    assert options is not None and options.scope.mode == "any"


def test_a_tag_is_told_from_its_bytes_elsewhere() -> None:
    tag = tag_of(Lost)
    assert tag == b"\xa1L"
    skipped = encode(Skipped(1, "http://a.test/", 0, Why.ROBOTS, "x"))
    assert tag not in encode(Configured(1, b"")) and not has_tag(skipped, tag)
    for fields in (0, 3, 4, 70_000):
        assert has_tag(encode(longer(Lost(1, "", 0, 0, "", 1, 200, 1, 0, 0), fields)), tag)


class Read:
    """Counts the blocks of logs that are unpacked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocks = 0
        unpack = blocks.unpack

        def counting(block: bytes, head: blocks.Head) -> list[memoryview] | None:
            self.blocks += 1
            return unpack(block, head)

        monkeypatch.setattr(blocks, "unpack", counting)


async def finished(into: Path, length: int = 60) -> None:
    """A crawl with many commits, which has ended: its snapshots cover it."""
    with serving(chain(length)) as site:
        async for _ in lycosa.crawl([site.url()], into=into, **{**OPTIONS, "commit_seconds": 0.01}):
            pass


def test_small_answers_read_snapshots_and_tails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(finished(tmp_path))
    logs = CrawlReader(tmp_path).logs
    whole = summed([folded(record for _, record in log.scan()) for log in logs])
    said = read_status(tmp_path)
    assert said is not None and whole.fetched == said.pages == 60
    read = Read(monkeypatch)
    crawl = CrawlReader(tmp_path)
    options = crawl.options()
    assert options is not None and options.commit_seconds == 0.01
    assert crawl.totals() == whole
    ends = [place.next for place in crawl.end()]
    assert read.blocks == 0
    monkeypatch.undo()
    assert ends == [log.end() for log in logs]

    # What was logged after the snapshots counts too, and is all that is read of the logs.
    shard = max(range(len(logs)), key=lambda number: logs[number].end())
    log = Log(DiskFiles(tmp_path / f"shards/{shard:02d}/log"))
    log.append(Configured(1, encode_options(msgspec.structs.replace(options, visits=7))))
    log.append(Skipped(1, "http://a.test/", 0, Why.SCOPE))
    log.commit()
    log.close()
    for _ in range(2):
        read = Read(monkeypatch)
        crawl = CrawlReader(tmp_path)
        assert crawl.totals().skipped[Why.SCOPE] == whole.skipped.get(Why.SCOPE, 0) + 1
        assert read.blocks == 1
        monkeypatch.undo()
    if shard == 0:
        changed = crawl.options()
        assert changed is not None and changed.visits == 7

    # A crawl whose snapshots are gone or damaged is told by its logs alone.
    for path in tmp_path.glob("shards/*/snapshots/*.snap"):
        path.write_bytes(path.read_bytes()[:-3])
    crawl = CrawlReader(tmp_path)
    assert crawl.totals().fetched == 60
    assert crawl.options() is not None


def folded(records: Iterable[Record]) -> Totals:
    totals = Totals()
    for record in records:
        totals.apply(record)
    return totals


def test_a_crawl_that_has_just_been_started_is_waited_for(tmp_path: Path) -> None:
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            manifests.create(DiskFiles(tmp_path), 1, 3, hash_seed=5)

    with pytest.raises(ConfigError, match="is not the directory of a crawl"):
        CrawlReader.beginning(tmp_path, pause)
    lock = DirectoryLock(tmp_path)
    try:
        assert CrawlReader.beginning(tmp_path, pause).manifest.shards == 3
    finally:
        lock.release()
    assert len(pauses) == 2
    with pytest.raises(ConfigError, match="is not a directory"):
        CrawlReader.beginning(tmp_path / "nowhere", pause)

    def begin(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            manifests.create(DiskFiles(tmp_path / "soon"), 1, 2, hash_seed=5)

    assert CrawlReader.beginning(tmp_path / "soon", begin, follow=True).manifest.shards == 2
    with pytest.raises(ConfigError, match="is not a directory"):
        CrawlReader.beginning(tmp_path / "never", begin, follow=True)
    assert sum(pauses[4:]) == pytest.approx(30.0)
