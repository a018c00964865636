"""docs/formats/snapshot.md against the code: parts, fields, and what a snapshot says of itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lycosa.crawl import shard as shards
from lycosa.crawl.sites import Site
from lycosa.crawl.totals import Totals
from lycosa.files import DiskFiles
from lycosa.log import snapshot
from tests.crawl.scripted import crawl

TEXT = (Path(__file__).parents[2] / "docs/formats/snapshot.md").read_text(encoding="utf-8")


def table(heading: str) -> list[str]:
    """The first column of the table whose head begins so."""
    rows = TEXT[TEXT.index(f"| {heading} |") :].partition("\n\n")[0].splitlines()[2:]
    return [re.findall(r"`(\w+)`", row.split("|")[1])[0] for row in rows]


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, Any]]:
    """The parts of a shard, and the end frame of a snapshot of it."""
    files = DiskFiles(tmp_path_factory.mktemp("crawl"))
    ran = crawl(files)
    places = files.within("shards/00/snapshots")
    said = snapshot.about(places, snapshot.positions(places)[-1])
    assert said is not None
    return list(ran.agent.shards[0].parts), said


def test_every_part_has_its_section(taken: tuple[list[str], dict[str, Any]]) -> None:
    assert table("section") == taken[0]


def test_every_field_of_the_end_frame_is_told(taken: tuple[list[str], dict[str, Any]]) -> None:
    assert sorted(table("end frame")) == sorted(taken[1])


@pytest.mark.parametrize(("section", "kind"), [("shard", shards._Small), ("totals", Totals)])
def test_the_fields_of_a_section_are_in_order(section: str, kind: Any) -> None:
    (row,) = re.findall(rf"^\| `{section}` \| one: MessagePack `\[(.*?)\]`", TEXT, re.M)
    assert tuple(row.split(", ")) == kind.__struct_fields__


def test_the_fields_of_a_site() -> None:
    told = TEXT[TEXT.index("The fields of a site are") :].partition(". ")[0]
    assert tuple(re.findall(r"`(\w+)`", told)) == Site.__struct_fields__
