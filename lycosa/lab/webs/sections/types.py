"""Types: false content types, and missing ones (the MIME sniffing standard defines what to believe).

Everything is below /types/. Pages that the standard treats as HTML link to a page that nothing
else links to. Pages that look like HTML but are something else by the standard link to one that may
be fetched or not: a crawler may well look for addresses in plain text.
"""

from __future__ import annotations

from lycosa.lab.webs.answers import Answer, Only, leaf
from lycosa.lab.webs.sheet import Sheet

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
"""A picture of one pixel."""

AS_HTML = {
    "none": "",
    "loud": "TEXT/HTML; CHARSET=UTF-8",
    "spaced": "  text/html ;charset = utf-8; x=y",
    "quoted": 'text/html; charset="utf-8"',
    "xhtml": "application/xhtml+xml; charset=utf-8",
    "unknown": "unknown/unknown",
    "nonsense": "html",
}
"""Treated as HTML: declared in an unusual way, or undeclared and detected."""

AS_OTHER = {
    "plain": "text/plain; charset=utf-8",
    "binary": "application/octet-stream",
    "picture": "image/png",
    "json": "application/json",
}
"""Not treated as HTML, whatever it looks like."""


def write(sheet: Sheet) -> None:
    """Add the section."""
    for name, type_ in AS_HTML.items():
        body = leaf(f"type {name}", sheet.child(f"/types/behind-{name}.html")).encode()
        headers = (("Content-Type", type_),) if type_ else ()
        sheet.put(f"/types/{name}", Answer(200, headers, body, lasting=True), entry=True)
    for name, type_ in AS_OTHER.items():
        behind = sheet.child(f"/types/perhaps-{name}.html", Only.EITHER_WAY)
        body = leaf(f"type {name}", behind).encode()
        answer = Answer(200, (("Content-Type", type_),), body, lasting=True)
        sheet.put(f"/types/{name}", answer, entry=True)
    picture = Answer(200, (("Content-Type", "text/html"),), PNG, lasting=True)
    sheet.put("/types/picture.html", picture, entry=True)
    noise = Answer(200, (("Content-Type", "text/html"),), bytes(range(256)) * 8, lasting=True)
    sheet.put("/types/noise.html", noise, entry=True)
    pdf = Answer(200, (("Content-Type", "application/pdf"),), b"%PDF-1.4\n%%EOF\n", lasting=True)
    sheet.put("/types/paper.pdf", pdf, entry=True)
