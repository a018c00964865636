"""Sitemaps and feeds: pages that no page links to.

robots.txt names /maps/index.xml, a sitemap index; it names an XML sitemap, a packed one and a text
one, each of which is the only source of some pages below /maps/only/. Feeds (RSS and Atom) are linked
from the home page like pages, and are the only sources of some pages too.
"""

from __future__ import annotations

import gzip
from xml.sax.saxutils import escape

from lycosa.lab.webs.answers import Answer, Only, leaf
from lycosa.lab.webs.sheet import Sheet

_SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def _xml(body: str, type_: str = "application/xml") -> Answer:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'
    return Answer(200, (("Content-Type", type_),), text.encode(), lasting=True)


def _set(urls: list[str]) -> str:
    rows = "".join(f"<url><loc>\n {escape(url)} </loc><lastmod>2024-05-01</lastmod></url>" for url in urls)
    return f"<urlset {_SPACE}>{rows}</urlset>"


def write(sheet: Sheet) -> None:
    """Add the section."""
    origin = sheet.place.origin

    def only(name: str, count: int = 3, only: Only = Only.SITEMAPS) -> list[str]:
        paths = [f"/maps/only/{name}-{n}.html" for n in range(count - 1)]
        paths.append(f"/maps/only/{name}.html?a=1&b=2")
        return [origin + sheet.child(path, only) for path in paths]

    def put(path: str, answer: Answer) -> str:
        sheet.put(path, answer, only=Only.SITEMAPS)
        return origin + path

    maps = [
        put("/maps/xml.xml", _xml(_set(only("xml")))),
        put(
            "/maps/packed.xml.gz",
            Answer(
                200,
                (("Content-Type", "application/gzip"),),
                gzip.compress(_xml(_set(only("packed"))).body, mtime=0),
                lasting=True,
            ),
        ),
        put(
            "/maps/text.txt",
            Answer(
                200,
                (("Content-Type", "text/plain"),),
                "".join(url + "\r\n" for url in only("text")).encode(),
                lasting=True,
            ),
        ),
    ]
    rows = "".join(f"<sitemap><loc>{escape(url)}</loc></sitemap>" for url in maps)
    put("/maps/index.xml", _xml(f"<sitemapindex {_SPACE}>{rows}</sitemapindex>"))

    items = "".join(
        f"<item><title>t</title><link>{escape(url)}</link></item>" for url in only("rss", only=Only.ALL)
    )
    rss = f'<rss version="2.0"><channel><title>news</title><link>{origin}/</link>{items}</channel></rss>'
    sheet.put("/maps/rss.xml", _xml(rss, "application/rss+xml"))
    entries = "".join(
        f'<entry><title>t</title><link href="{escape(url)}"/></entry>' for url in only("atom", only=Only.ALL)
    )
    atom = f'<feed xmlns="http://www.w3.org/2005/Atom"><title>news</title>{entries}</feed>'
    sheet.put("/maps/atom.xml", _xml(atom, "application/atom+xml"))
    head = (
        '<link rel="alternate" type="application/rss+xml" href="/maps/rss.xml">'
        '<link rel="alternate" type="application/atom+xml" href="atom.xml">'
    )
    sheet.put("/maps/feeds.html", leaf("feeds", head=head), entry=True)
