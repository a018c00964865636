"""The cost model against the slides' figures, to which its constants were fitted (see its docstring)."""

from __future__ import annotations

import pytest

from lycosa.seen import cost_model as model


@pytest.mark.parametrize(
    ("ram", "tera", "buckets"),
    [(2, 22, 2_097), (4, 89, 4_194), (8, 354, 8_388), (16, 1_417, 16_777)],
)
def test_disk_and_buckets_are_the_slides(ram: int, tera: int, buckets: int) -> None:
    assert round(model.drum_disk(ram << 30) / 1e12) == tera
    assert int(model.buckets(ram << 30)) == buckets


def test_drum_is_the_slides_to_a_hundredth() -> None:
    exact = 0
    ours = model.table()
    for n, (_, theirs) in model.TABLE.items():
        for i in range(0, 8, 2):
            exact += round(ours[n][i], 2) == theirs[i]
            assert abs(ours[n][i] - theirs[i]) < 0.0055
    assert exact == 19


def test_veuniq_is_near_the_slides() -> None:
    ours = model.table()
    for n, (_, theirs) in model.TABLE.items():
        for column, allowed in zip((1, 3, 5, 7), (0.07, 0.03, 0.02, 0.01), strict=True):
            assert abs(ours[n][column] - theirs[column]) < allowed
            assert ours[n][column - 1] / ours[n][column] > 3.3


def test_more_locality_costs_less() -> None:
    near, far = model.Setting(local=0.9), model.Setting(local=0.5)
    assert model.veuniq(1e9, 2e9, 2000, near) < model.veuniq(1e9, 2e9, 2000, far)
