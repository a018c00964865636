"""What `lycosa agent` says."""

from __future__ import annotations

import json
import re
import time

import pytest

from lycosa.cli.agent import _as_json, _say


def test_times_have_a_zone(capsys: pytest.CaptureFixture[str]) -> None:
    _say("shard 3: taken")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ shard 3: taken\n", capsys.readouterr().err)


def test_messages_for_programs_have_a_time_and_a_level(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("shard 3: taken", "note: shared storage is away\x1b[31m"):
        _as_json(text)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["level"] for row in rows] == ["info", "warning"]
    assert rows[0]["note"] == "shard 3: taken" and rows[1]["at"] <= time.time()
