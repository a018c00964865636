"""The uniqueness experiment: both stores answer alike, tables have every cell, the stream is of the size asked
for."""

from __future__ import annotations

import pytest

from lycosa.errors import ConfigError
from lycosa.lab.experiments import uniqueness
from lycosa.lab.experiments.uniqueness_stream import Web
from lycosa.seen import cost_model


def quiet(_: str) -> None:
    """Nobody listens."""


def test_a_cycle_is_as_large_as_asked_for() -> None:
    web = Web(20_000, 4, crawled=50, extracted=450)
    cycle = web.cycle(0)
    assert (len(cycle.crawled), len(cycle.extracted)) == (50, 450)
    again = Web(20_000, 4, crawled=50, extracted=450).cycle(0)
    assert (cycle.extracted == again.extracted).all()


def test_too_few_urls_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 350,000"):
        uniqueness.run_alone(1_000, 0, quiet)


def test_a_run_has_both_rows_and_every_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uniqueness, "RANGES", 2)
    monkeypatch.setattr(uniqueness, "SIZES", (1, 50, 350))
    result = uniqueness.run_alone(350_000, 0, quiet)
    by_name = {line.what: line for line in result.lines}
    cells = [line for line in result.lines if line.where == "Cost table"]
    assert len(cells) == 40 and sum(line.verdict == "agrees" for line in cells) >= 38
    assert by_name["DRUM, n = 3000G, RAM 2 GB: overhead"].paper == cost_model.TABLE[3000e9][1][0]
    for size in (1, 50, 350):
        assert by_name[f"DRUM, at {size} cycles' URLs"].ours > 0
        assert by_name[f"VEUNIQ, at {size} cycles' URLs"].ours > 0
    # In every cycle DRUM passes over the whole repository, VEUNIQ over one of two.
    moved = {
        name: by_name[
            f"{name}, largest repository: bytes moved a byte of URL, measured (paper: the model)"
        ].ours
        for name in ("drum", "veuniq")
    }
    assert moved["drum"] > moved["veuniq"] > 0
    curves = result.figures[0].curves
    assert [curve.name for curve in curves if not curve.paper] == ["DRUM", "DRUM, every 16 cycles", "VEUNIQ"]
    assert [curve.ys for curve in curves if curve.paper] == [uniqueness.DRUM, uniqueness.VEUNIQ]
