"""Redirects: every status, every spelling of Location, chains, loops, and one chain too long.

Everything is below /go/. Landing pages are linked from nowhere else, so a crawler that fetches them
has followed the redirect. The chain has `CHAIN` redirects: under a limit of ten in a row, the page
after the tenth is fetched and what it redirects to is not. One landing page is on the root host,
below /landing/, and is served by the root (`landing`).
"""

from __future__ import annotations

from lycosa.lab.webs.answers import Answer, Expected, Only, html, leaf
from lycosa.lab.webs.sheet import Sheet

CHAIN = 13


def _to(location: str, status: int = 302) -> Answer:
    return Answer(status, (("Location", location),), lasting=True)


def write(sheet: Sheet) -> None:
    """Add the section."""
    place = sheet.place
    origin, root = place.origin, place.root
    for status in (301, 302, 303, 307, 308):
        landed = f"/go/landed-{status}.html"
        sheet.put(f"/go/{status}", _to(landed, status), entry=True, location=origin + landed)
        sheet.child(landed, hops=1)
    spellings = {
        "absolute": (f"{origin}/go/spelled/absolute.html", "absolute.html"),
        "relative": ("spelled/relative.html", "relative.html"),
        "dots": ("./x/../spelled/dots.html", "dots.html"),
        "scheme-less": (f"{origin.partition(':')[2]}/go/spelled/scheme-less.html", "scheme-less.html"),
        "query": ("spelled/query.html?a=1&b=2", "query.html?a=1&b=2"),
        "fragment": ("/go/spelled/fragment.html#part", "fragment.html"),
        "loud": (f"{origin.upper()}/go/spelled/loud.html", "loud.html"),
        "space": ("/go/spelled/a%20space.html", "a%20space.html"),
    }
    for name, (location, landed) in spellings.items():
        target = "/go/spelled/" + landed
        sheet.put(f"/go/{name}", _to(location), entry=True, location=origin + target)
        sheet.child(target, hops=1)
    for n in range(CHAIN):
        following = f"/go/chain/{n + 1}"
        sheet.put(f"/go/chain/{n}", _to(following), entry=n == 0, hops=n, location=origin + following)
    sheet.child(f"/go/chain/{CHAIN}", hops=CHAIN)
    sheet.put("/go/loop/a", _to("/go/loop/b"), entry=True, location=origin + "/go/loop/b")
    sheet.put("/go/loop/b", _to("/go/loop/a"), hops=1, location=origin + "/go/loop/a")
    sheet.put("/go/loop/self", _to("/go/loop/self"), entry=True, location=origin + "/go/loop/self")
    sheet.put("/go/nowhere", Answer(302, lasting=True), entry=True)  # no Location at all
    sheet.put("/go/mail", _to("mailto:someone@example.test"), entry=True)
    sheet.put("/go/home", _to("/"), entry=True, location=origin + "/")
    away = f"{root}/landing/{place.host.number}.html"
    sheet.put("/go/away", _to(away, 301), entry=True, location=away)
    sheet.expected.append(Expected(away, hops=1, via=origin))
    refreshed = sheet.child("/go/refreshed.html")
    page = leaf("refresh", head=f'<meta http-equiv="Refresh" content="0; url={refreshed}">')
    sheet.put("/go/refresh.html", page, entry=True)
    if place.options.outside:
        outside = "http://outside.invalid/landed.html"
        sheet.put("/go/outside", _to(outside), entry=True, location=outside)
        sheet.unserved(outside, Only.OUTSIDE)


def landing(path: str) -> Answer:
    """A page of the root that only another host's redirect leads to."""
    return html(leaf("landed from " + path.rpartition("/")[2]))
