"""Reading a crawl: records are found by what they are, also when a later version gave them more fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

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
    manifest = msgspec.json.decode((tmp_path / "crawl.json").read_bytes())
    (tmp_path / "crawl.json").write_bytes(msgspec.json.encode({**manifest, "cluster": True}))
    reader = made.reader()
    assert reader.late_duplicates(0) == {second}
    assert reader.lost(0) == {first}
    assert [record.url for _, _, record in reader.records() if isinstance(record, Fetched)] == [
        "http://b.test/"
    ]
    options = reader.options()
    assert options is not None and options.scope.mode == "any"


def test_a_tag_is_told_from_its_bytes_elsewhere() -> None:
    tag = tag_of(Lost)
    assert tag == b"\xa1L"
    skipped = encode(Skipped(1, "http://a.test/", 0, Why.ROBOTS, "x"))
    assert tag not in encode(Configured(1, b"")) and not has_tag(skipped, tag)
    for fields in (0, 3, 4, 70_000):
        assert has_tag(encode(longer(Lost(1, "", 0, 0, "", 1, 200, 1, 0, 0), fields)), tag)
