"""Copies: the same page under several addresses, and pages that differ in a few words.

Everything is below /copies/: `same-n` are equal byte for byte, `near-n` differ in one line only.
(Whole hosts that mirror another are a role; see `lycosa.lab.webs.plan`.)
"""

from __future__ import annotations

from lycosa.lab.webs.answers import leaf
from lycosa.lab.webs.dice import roll
from lycosa.lab.webs.sheet import Sheet
from lycosa.lab.webs.words import words_of

COUNT = 5


def write(sheet: Sheet) -> None:
    """Add the section."""
    seed, index = sheet.place.options.seed, sheet.place.host.number
    words = words_of(seed)
    text = "".join(words.text(60, seed, "copies", index))
    same = leaf("the same everywhere", text=text)
    for n in range(COUNT):
        sheet.put(f"/copies/same-{n}.html", same, entry=True)
        stamp = roll(seed, "copy", index, n)
        near = leaf("nearly the same", text=f"{text} Printed as number {stamp:x}.")
        sheet.put(f"/copies/near-{n}.html", near, entry=True)
