"""The report as a page."""

from __future__ import annotations

import pytest

from lycosa.ask.html_parts import clock


@pytest.mark.parametrize(
    ("span", "wanted"), [(60, "00:01:40Z"), (3600, "00:01Z"), (100_000, "Jan 01 00:01Z")]
)
def test_times_of_an_axis_have_a_zone(span: float, wanted: str) -> None:
    assert clock(100.0, span) == wanted
