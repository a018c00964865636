"""The colours of pages have the contrast that WCAG's level AA asks for: 4.5 for text, 3 for what is drawn."""

from __future__ import annotations

import re
from importlib import resources

import pytest

CSS = resources.files("lycosa.ask").joinpath("report.css").read_text(encoding="utf-8")
TEXT = ("ink", "soft", "accent", "ok", "moved", "client", "server")
DRAWN = ("accent", "ok", "moved", "client", "server", "other")


def colours(dark: bool) -> dict[str, str]:
    light, _, rest = CSS.partition("prefers-color-scheme: dark")
    found = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})\b", light))
    return found | dict(re.findall(r"--(\w+): (#[0-9a-f]{6})\b", rest)) if dark else found


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_text_and_drawings_can_be_seen(dark: bool) -> None:
    found = colours(dark)
    weak = []
    for ground in ("paper", "card"):
        weak += [(n, ground, 4.5) for n in TEXT if contrast(found[n], found[ground]) < 4.5]
        weak += [(n, ground, 3.0) for n in DRAWN if contrast(found[n], found[ground]) < 3.0]
    weak += [("paper", "accent", 4.5)] if contrast(found["paper"], found["accent"]) < 4.5 else []
    weak += [("soft", "head", 4.5)] if contrast(found["soft"], found["head"]) < 4.5 else []
    assert not weak, [(*row, round(contrast(found[row[0]], found[row[1]]), 2)) for row in weak]


def test_the_measure_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
