"""Directives: instructions of pages to robots about themselves and their links.

Everything is below /words/. A page that says nofollow, in any of the ways that apply to us, links
to one that must not be fetched; a page whose nofollow is addressed to another agent, or that says
only noindex, links to one that must be.
"""

from __future__ import annotations

from lycosa.lab.webs.answers import Only, html, leaf
from lycosa.lab.webs.sheet import Sheet

META = {
    "meta": ('<meta name="robots" content="nofollow">', True),
    "meta-none": ('<meta name="ROBOTS" content="None">', True),
    "meta-list": ('<meta name="robots" content="noindex, nofollow">', True),
    "meta-ours": ('<meta name="lycosa" content="nofollow">', True),
    "meta-noindex": ('<meta name="robots" content="noindex">', False),
    "meta-theirs": ('<meta name="otherbot" content="nofollow">', False),
    "meta-all": ('<meta name="robots" content="index,follow">', False),
}
"""name -> (content of the head, whether it forbids us to follow)."""

HEADERS = {
    "header": ("nofollow", True),
    "header-list": ("noarchive, NoFollow", True),
    "header-none": ("none", True),
    "header-ours": ("lycosa: nofollow", True),
    "header-theirs": ("otherbot: nofollow", False),
    "header-noindex": ("noindex", False),
    "header-date": ("unavailable_after: 25 Jun 2030 15:00:00 GMT", False),
}
"""name -> (X-Robots-Tag, whether it forbids us to follow)."""

RELS = {
    "rel": ("nofollow", True),
    "rel-list": ("external NOFOLLOW noopener", True),
    "rel-other": ("noopener", False),
}


def write(sheet: Sheet) -> None:
    """Add the section."""

    def behind(name: str, forbidden: bool) -> str:
        only = Only.NOFOLLOW_OURS if name.endswith("-ours") else Only.NOFOLLOW
        return sheet.child(f"/words/behind-{name}.html", only if forbidden else Only.ALL)

    for name, (head, forbidden) in META.items():
        page = leaf(name, behind(name, forbidden), head=head)
        sheet.put(f"/words/{name}.html", page, entry=True)
    for name, (value, forbidden) in HEADERS.items():
        page = leaf(name, behind(name, forbidden))
        sheet.put(f"/words/{name}.html", html(page, ("X-Robots-Tag", value)), entry=True)
    links = "".join(
        f'<a rel="{rel}" href="{behind(name, forbidden)}">{name}</a>'
        for name, (rel, forbidden) in RELS.items()
    )
    # Once forbidden and once not: it is linked, hence fetched.
    twice = sheet.child("/words/twice.html")
    links += f'<a rel="nofollow" href="{twice}">1</a><a href="{twice}">2</a>'
    sheet.put("/words/rels.html", leaf("rels", text=links), entry=True)
