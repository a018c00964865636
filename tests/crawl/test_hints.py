"""Hints in a whole crawl on virtual time: sitemaps that say which page changed, truly or not; feeds."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from random import Random

import pytest

from lycosa.crawl import scheduling, visit
from lycosa.fetch.protocol import Request
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import Reply
from lycosa.records import Before, Fetched
from lycosa.url.parts import path_of
from tests.crawl.test_continuous import DAY, ChangingWeb, come_back, records

EPOCH = 1_700_000_000.0
PAGES = 12
HOUR = 3600.0
"""A virtual month is a few hundred turns of the loop, then."""


@pytest.fixture(autouse=True)
def long_naps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "IDLE", HOUR)
    monkeypatch.setattr(visit, "_FULL", HOUR / 6)


class Listed(ChangingWeb):
    """Pages that a sitemap lists; once a day one of them changes."""

    def __init__(self, dates: str, days: int) -> None:
        super().__init__()
        self.dates = dates
        random = Random(3)
        self.changes: list[list[float]] = [[] for _ in range(PAGES)]
        for n in range(days):
            self.changes[random.randrange(PAGES)].append(float(n))

    def __call__(self, request: Request, before: int) -> Reply:
        assert self.clock is not None
        day, path = self.clock.monotonic() / DAY, path_of(request.url)
        self.asked[path] += 1
        if path == "/robots.txt":
            return Reply(b"Sitemap: http://a.test/sitemap.xml", 200, (("Content-Type", "text/plain"),))
        if path == "/sitemap.xml":
            rows = "".join(f"<url><loc>/{n}</loc>{self._date(n, day)}</url>" for n in range(PAGES))
            return Reply(f"<urlset>{rows}</urlset>".encode(), 200, (("Content-Type", "application/xml"),))
        if path == "/":
            return self._page("home", 0, "")
        number = int(path[1:])
        return self._page(f"page {'abcdefghijklmnopqrstuvwxyz'[number]}", self.version(number, day), "")

    def version(self, number: int, day: float) -> int:
        return sum(at <= day for at in self.changes[number])

    def _date(self, number: int, day: float) -> str:
        past = [at for at in self.changes[number] if at <= day]
        if self.dates == "none":
            return ""
        at = EPOCH + (day if self.dates == "now" else past[-1] if past else -1.0) * DAY
        return f"<lastmod>{datetime.fromtimestamp(at, UTC).isoformat()}</lastmod>"


def times(files: FaultyFiles) -> list[list[float]]:
    """Of each page, when it was fetched, in seconds."""
    found: list[list[float]] = [[] for _ in range(PAGES)]
    for row in records(files):
        if isinstance(row, Fetched) and (name := path_of(row.url)[1:]).isdigit():
            found[int(name)].append(row.at / 1000)
    return found


def delays(web: Listed, fetched: list[list[float]], after: float) -> list[float]:
    """Days between a change and the next fetch of its page."""
    found = []
    for number, changes in enumerate(web.changes):
        days = [(at - EPOCH) / DAY for at in fetched[number]]
        for at in changes:
            later = [day for day in days if day >= at]
            if after <= at and later:
                found.append(later[0] - at)
    return found


def test_a_sitemap_is_believed_as_far_as_it_was_right() -> None:
    means = {}
    for dates in ("true", "now"):
        web, files = Listed(dates, 30), FaultyFiles()
        refresh = {"continuous": True, "fetches": 6.0, "importance": "equal"}
        come_back(files, web, 30, refresh=refresh, commit_seconds=HOUR)
        made = sum(count for path, count in web.asked.items() if path != "/robots.txt")
        assert 110 < made < 196, made
        fetched = times(files)
        for mine in fetched:
            assert all(b - a > 590 for a, b in pairwise(mine)), "once by a call and once by the calendar"
        late = delays(web, fetched, 10)
        means[dates] = sum(late) / len(late)
    assert means["true"] < 0.7 * means["now"], means


def test_sitemaps_and_feeds_are_polled_as_pages_by_the_same_rule() -> None:
    """What lists new things is come back to more often than what does not."""

    def answer(self: ChangingWeb, request: Request, before: int) -> Reply:
        assert self.clock is not None
        day, path = self.clock.monotonic() / DAY, path_of(request.url)
        self.asked[path] += 1
        if path == "/robots.txt":
            return Reply(b"Sitemap: http://a.test/sitemap.xml", 200, (("Content-Type", "text/plain"),))
        kind = (("Content-Type", "application/xml"),)
        if path == "/sitemap.xml":
            return Reply(b"<urlset><url><loc>http://a.test/s</loc></url></urlset>", 200, kind)
        if path == "/feed":
            new = "".join(f"<item><title>n</title><link>/n{n}</link></item>" for n in range(int(day * 2) + 1))
            return Reply(f"<rss><channel><title>f</title>{new}</channel></rss>".encode(), 200, kind)
        link = '<link rel="alternate" type="application/rss+xml" href="/feed">' if path == "/" else ""
        # A nonce: other bytes at every fetch, which say the same.
        return self._page(path, 0, f"{link}<script>{self.asked[path]}</script>")

    web, files = type("Feeding", (ChangingWeb,), {"__call__": answer})(), FaultyFiles()
    come_back(files, web, 14, refresh={"continuous": True, "per_page": 1.0}, commit_seconds=HOUR)
    rows = [row for row in records(files) if isinstance(row, Fetched)]
    for path in ("/sitemap.xml", "/feed"):
        mine = [row for row in rows if path_of(row.url) == path]
        assert len(mine) > 2 and all(row.content and row.weight for row in mine)
        assert [row.before for row in mine] == [Before.NEVER] + [Before.PAGE] * (len(mine) - 1)
        changes = sum(a.content != b.content for a, b in pairwise(mine))
        assert changes == 0 if path == "/sitemap.xml" else changes > 10
    assert web.asked["/feed"] > 1.5 * web.asked["/sitemap.xml"], web.asked
    assert any(row.url.endswith("/n20") for row in rows), "what a feed lists is fetched"
