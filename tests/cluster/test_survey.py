"""What all logs of a directory say together, before any agent begins."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lycosa.cluster.survey import archive_ends, demand_whole, survey
from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from tests.cluster.nodes import SHARDS, Nodes, run
from tests.cluster.test_exchange import links_to


def made(tmp_path: Path) -> Nodes:
    nodes = Nodes(DiskFiles(tmp_path))
    nodes.start()
    for page in range(6):
        nodes.fetch(0, links_to(nodes, 1, 9, f"{page}-"), digest=4 * 7 + 1, page=page)
    nodes.settle()
    return nodes


@pytest.mark.parametrize("saved", [False, True])
def test_a_survey_says_what_recovery_finds(tmp_path: Path, saved: bool) -> None:
    """With snapshots, and from the logs alone."""
    nodes = made(tmp_path)
    if saved:
        for agent in nodes.agents.values():
            run(agent.saver.snapshot())
        nodes.fetch(2, links_to(nodes, 1, 3, "late"), page=9)
        nodes.settle()
    found = survey(nodes.files, range(SHARDS))
    for number in range(SHARDS):
        shard = nodes.shard(number)
        assert found[number].cursors == shard.cursors and found[number].answers == shard.answers
        assert found[number].received == shard.received and found[number].options == shard.options
    assert found[1].received > 0 and found[1].cursors[0] > 6
    assert archive_ends(found) == {}
    demand_whole(nodes.files, found)


def test_logs_that_lost_what_others_know_are_refused(tmp_path: Path) -> None:
    nodes = made(tmp_path)
    shutil.rmtree(tmp_path / "shards" / "00")
    with pytest.raises(StorageError, match=r"shard 00 ends at record 0 and shard 01 knows .*lycosa repair"):
        demand_whole(nodes.files, survey(nodes.files, range(SHARDS)))
