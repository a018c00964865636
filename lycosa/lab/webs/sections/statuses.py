"""Statuses: permanent errors, and temporary ones.

Everything is below /state/. Temporary errors are counted by the server: the first `options.failures`
requests of a URL get the error, later ones the page, so that a crawler with one attempt more
succeeds. The page after a temporary error links to one that nothing else links to. Pages of
permanent errors have no links but to the home page: whether to follow links in error pages
is defined nowhere.
"""

from __future__ import annotations

from email.utils import formatdate

from lycosa.lab.webs.answers import Answer, Request, html, leaf
from lycosa.lab.webs.sheet import Sheet

LASTING = (400, 401, 402, 403, 404, 405, 406, 410, 418, 451)
"""Client errors: asking again is useless."""

FAULTY = (500, 501, 502, 504, 599)
"""Server errors: some crawlers ask again, and the last answer counts."""


def write(sheet: Sheet) -> None:
    """Add the section."""
    options = sheet.place.options
    for status in LASTING:
        sheet.put(f"/state/{status}", html(leaf(f"status {status}"), status=status), entry=True)
    for status in FAULTY:
        answer = html(leaf(f"status {status}"), status=status)
        sheet.put(f"/state/{status}", answer, entry=True, statuses=(status, 0))
    sheet.put("/state/204", Answer(204, lasting=True), entry=True)
    wait = options.retry_after
    typed = ("Content-Type", "text/html; charset=utf-8")
    sorry = b"<p>Come back later.</p>"

    def dated(request: Request) -> Answer:
        """Retry-After as a date, rounded up to the next whole second."""
        due = formatdate(int(request.at) + wait + 1, usegmt=True)
        return Answer(503, (typed, ("Retry-After", due)), sorry, wait=wait)

    busy = Answer(503, (typed, ("Retry-After", str(wait))), sorry, wait=wait)
    many = Answer(429, (typed, ("Retry-After", str(wait))), sorry, wait=wait)
    silent = Answer(503, (typed,), sorry)
    for name, failure in (("busy", busy), ("dated", dated), ("many", many), ("silent", silent)):
        path = f"/state/{name}.html"
        behind = sheet.child(f"/state/behind-{name}.html", fails=options.failures)
        then = html(leaf(f"after {name}", behind))
        maker = sheet.failing_first(path, options.failures, failure, then)
        sheet.put(path, maker, entry=True, fails=options.failures)
    # Never ends: what remains is the last attempt's answer, or none.
    sheet.put("/state/always-busy", busy, entry=True, statuses=(503, 0))
