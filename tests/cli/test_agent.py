"""What `lycosa agent` says."""

from __future__ import annotations

import re

import pytest

from lycosa.cli.agent import _say


def test_times_have_a_zone(capsys: pytest.CaptureFixture[str]) -> None:
    _say("shard 3: taken")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ shard 3: taken\n", capsys.readouterr().err)
