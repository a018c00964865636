"""Hrefs: links in every element and every spelling, and things that only look like links.

Everything is below /ways/. `ELEMENTS` are followed by a crawler that fetches no requisites;
`REQUISITES` only by one that does; `NOT_LINKS` by none. `SPELLINGS` are hrefs on
/ways/spellings.html with the address that each denotes by the URL standard. /ways/based.html has a
base element, against which its links resolve.
"""

from __future__ import annotations

from lycosa.lab.webs.answers import Answer, Only, leaf
from lycosa.lab.webs.sections.types import PNG
from lycosa.lab.webs.sheet import Sheet

ELEMENTS = {
    "a": '<a href="{}">a</a>',
    "loud": '<A HREF="{}">a</A>',
    "bare": "<a href={}>a</a>",
    "single": "<a href='{}'>a</a>",
    "blank": '<a target=_blank rel="noopener noreferrer" href=" {} ">a</a>',
    "area": '<map name="m"><area href="{}" shape="rect" coords="0,0,1,1"></map>',
    "iframe": '<iframe src="{}"></iframe>',
    "svg": '<svg><a href="{}"><text>a</text></a></svg>',
    "open": '<div><p><a href="{}">never closed',
}

HEAD_ELEMENTS = {
    "next": '<link rel="next" href="{}">',
    "alternate": '<link rel="alternate" hreflang="fr" href="{}">',
    "canonical": '<link rel="canonical" href="{}">',
}

EITHER_WAY = {
    "form": '<form action="{}"><input type="submit"></form>',
    "noscript": '<noscript><a href="{}">a</a></noscript>',
    "quote": '<blockquote cite="{}">q</blockquote>',
    "template": '<template><a href="{}">a</a></template>',
    "ping": '<a href="/" ping="{}">a</a>',
}
"""Elements for which crawlers differ, and no standard decides."""

REQUISITES = {
    "img.png": '<img src="{}" alt="">',
    "srcset.png": '<img srcset="{} 2x" alt="">',
    "style.css": '<link rel="stylesheet" href="{}">',
    "icon.png": '<link rel="icon" href="{}">',
    "script.js": '<script src="{}"></script>',
}

NOT_LINKS = {
    "comment": '<!-- <a href="{}">a</a> -->',
    "script": "<script>document.write('<a href=\"{}\">a</a>')</script>",
    "style": '<style>/* <a href="{}">a</a> */</style>',
    "textarea": '<textarea><a href="{}">a</a></textarea>',
    "attribute": '<p title="<a href={}>">t</p>',
    "data": '<p data-href="{}">t</p>',
    "text": "<p>see &lt;a href={}&gt;</p>",
}

SPELLINGS = {
    "rooted.html": "/ways/to/rooted.html",
    "to/relative.html": "/ways/to/relative.html",
    "./to/dot.html": "/ways/to/dot.html",
    "../ways/to/dots.html": "/ways/to/dots.html",
    "../../../ways/to/too-many-dots.html": "/ways/to/too-many-dots.html",
    "to/x/..//double.html": "/ways/to//double.html",
    "to\\backslash.html": "/ways/to/backslash.html",
    "to/a space.html": "/ways/to/a%20space.html",
    "to/ta&#9;b.html": "/ways/to/tab.html",
    "to/line\nbreak.html": "/ways/to/linebreak.html",
    "to/é.html": "/ways/to/%C3%A9.html",
    "to/%C3%A8.html": "/ways/to/%C3%A8.html",
    "to/%7Etilde.html": "/ways/to/%7Etilde.html",
    "to/%2e/escaped-dot.html": "/ways/to/escaped-dot.html",
    "to/q.html?a=1&amp;b=2": "/ways/to/q.html?a=1&b=2",
    "to/q.html?c=3&d=4": "/ways/to/q.html?c=3&d=4",
    "to/q.html?space=a b": "/ways/to/q.html?space=a%20b",
    "to/f.html#part": "/ways/to/f.html",
    "to/semi;v=1.html": "/ways/to/semi;v=1.html",
    "&#116;o/entity.html": "/ways/to/entity.html",
    "to/100%.html": "/ways/to/100%.html",
    "to/'quote'.html": "/ways/to/'quote'.html",
    "to/<angle>.html": "/ways/to/%3Cangle%3E.html",
    "?only=query": "/ways/spellings.html?only=query",
}

NO_HTTP = (
    "javascript:void(0)",
    "mailto:a@example.test",
    "tel:+123",
    "data:text/html,<p>x",
    "about:blank",
    "http://",
    "http://[broken/",
    "http://a b.test/",
    "",
    "#top",
)


def _served(name: str) -> Answer:
    if name.endswith(".png"):
        return Answer(200, (("Content-Type", "image/png"),), PNG, lasting=True)
    if name.endswith(".css"):
        return Answer(200, (("Content-Type", "text/css"),), b"p{margin:0}", lasting=True)
    if name.endswith(".js"):
        return Answer(200, (("Content-Type", "text/javascript"),), b"0;", lasting=True)
    return Answer(200, (("Content-Type", "text/html"),), leaf(name).encode(), lasting=True)


def write(sheet: Sheet) -> None:
    """Add the section."""
    origin = sheet.place.origin

    def fill(table: dict[str, str], only: Only = Only.ALL) -> str:
        made = []
        for name, element in table.items():
            path = f"/ways/by/{name}" if "." in name else f"/ways/by/{name}.html"
            sheet.put(path, _served(name), only=only)
            made.append(element.format(path))
        return "\n".join(made)

    body = fill(NOT_LINKS, Only.NOT_A_LINK) + fill(REQUISITES, Only.REQUISITES)
    body += fill(EITHER_WAY, Only.EITHER_WAY) + fill(ELEMENTS)  # the last of them stays open
    head = f"<title>elements</title>{fill(HEAD_ELEMENTS)}"
    page = f"<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>"
    sheet.put("/ways/elements.html", page, entry=True)

    framed = sheet.child("/ways/by/frame.html")
    page = f'<html><head><title>f</title></head><frameset cols="*"><frame src="{framed}"></frameset></html>'
    sheet.put("/ways/frames.html", page, entry=True)

    hrefs = []
    for href, path in SPELLINGS.items():
        hrefs.append("/ways/to/" + href if href == "rooted.html" else href)
        sheet.child(path)
    scheme = origin.partition(":")[0]
    name = origin.partition("://")[2]
    for href, path in (
        (f"{scheme.upper()}://{name.upper()}/ways/to/loud-host.html", "/ways/to/loud-host.html"),
        (f"//{name}/ways/to/scheme-less.html", "/ways/to/scheme-less.html"),
        (f"{scheme}:/ways/to/one-slash.html", "/ways/to/one-slash.html"),
        (f"{scheme}://user:secret@{name}/ways/to/user.html", "/ways/to/user.html"),
    ):
        hrefs.append(href)
        sheet.child(path)
    hrefs += NO_HTTP
    if sheet.place.options.outside:
        hrefs.append("http://outside.invalid/page.html")
        sheet.unserved("http://outside.invalid/page.html", Only.OUTSIDE)
    sheet.put("/ways/spellings.html", leaf("spellings", *hrefs), entry=True)

    sheet.child("/ways/base/below.html")
    sheet.child("/ways/base/query.html?x=1")
    base = f'<base href="/ways/base/x"><base href="{origin}/wrong/">'
    sheet.put("/ways/based.html", leaf("based", "below.html", "query.html?x=1", head=base), entry=True)

    many = [sheet.child(f"/ways/many/{n}.html") for n in range(3)]
    long_list = leaf("many", *(many[n % 3] + f"#{n}" for n in range(2000)))
    sheet.put("/ways/many.html", long_list, entry=True)
    nested = sheet.child("/ways/by/nested.html")
    deep = "<div>" * 3000 + f'<a href="{nested}">deep</a>'
    sheet.put("/ways/nested.html", f"<!DOCTYPE html><title>n</title>{deep}", entry=True)
    sheet.put("/ways/long/" + "x" * 1500 + ".html", leaf("long"), entry=True)
