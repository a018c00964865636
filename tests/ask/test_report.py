"""The report, on crawls made record by record."""

from __future__ import annotations

import html.parser
import random
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.ask import report_fold, report_time
from lycosa.ask.json_form import iso
from lycosa.ask.report import Active, Gauge, Report, make_report
from lycosa.ask.report_fold import Table, Times, Top
from lycosa.ask.report_html import render
from lycosa.ask.report_links import distances
from lycosa.ask.report_time import SHOWN, Timeline, activity, read_gauges, strips
from lycosa.crawl.totals import Totals
from lycosa.files import DirectoryLock
from lycosa.page.fingerprint import digest
from lycosa.records import Duplicates, Fetched, Link, LinkKind, Links, Lost, Timing, Why
from lycosa.url.parts import site_of
from tests.crawl.made import BEGIN, MadeCrawl, anchors, small

NOW = BEGIN + 3_600_000


def report_of(crawl: MadeCrawl, **options: int) -> Report:
    return make_report(crawl.reader(), at=NOW, **options)


@pytest.fixture
def made(tmp_path: Path) -> MadeCrawl:
    crawl = MadeCrawl(tmp_path / "crawl")
    crawl.configure()
    return crawl


def test_an_empty_crawl(tmp_path: Path) -> None:
    report = report_of(MadeCrawl(tmp_path))
    assert (report.pages, report.records, report.timeline, report.notes) == (0, 0, [], [])
    assert report.began is None
    assert "<html" in render(report)


def test_counts(tmp_path: Path) -> None:
    report = report_of(small(tmp_path))
    assert report.pages == 5
    assert {row.name: row.pages for row in report.statuses} == {"200": 3, "301": 1, "404": 1}
    assert {row.name: row.pages for row in report.depths} == {"0": 2, "1": 3}
    assert {row.name: row.pages for row in report.types} == {"text/html": 4, "unknown": 1}
    assert {row.name: row.count for row in report.skipped} == {"robots": 1, "failed": 1}
    assert {row.name: row.count for row in report.errors} == {"timeout": 1, "status 503": 1}
    assert report.errors[0].examples == ["http://b.test/slow"]
    (busy,) = report.deferred
    assert (busy.name, busy.times, busy.waiting) == ("busy", 1, 1)
    assert busy.next_due is not None and busy.next_due > "2023-11-14T22:17"
    assert (report.seeds, report.seed_count, report.links) == (["http://a.test/"], 1, 7)
    assert report.sites == 2
    assert [(row.site, row.pages, row.errors, row.failed) for row in report.largest_sites] == [
        ("http://a.test", 4, 1, 0),
        ("http://b.test", 1, 0, 1),
    ]
    assert report.bytes == sum(row.bytes for row in report.largest_sites) > 0
    assert {row.name: row.count for row in report.robots.statuses} == {"status 200": 1, "status 404": 1}
    (rule,) = report.robots.forbidden
    assert (rule.site, rule.rule, rule.urls) == ("http://a.test", "line 2: Disallow: /private", 1)
    assert report.user_agent.startswith("lycosa/")
    assert not report.running
    assert sum(row.pages for row in report.timeline) == 5
    assert report.began == "2023-11-14T22:13:23.000Z"


def test_sites_are_those_that_gave_pages_and_the_others_are_told_apart(made: MadeCrawl) -> None:
    made.fetch("http://a.test/")
    made.fetch("http://a.test/2", 404)
    made.skip("http://a.test/3", Why.FAILED, "timeout: x")
    for number in range(5):
        made.skip(f"http://gone{number}.test/", Why.DNS, "nxdomain: no such name")
        made.skip(f"http://gone{number}.test/again", Why.DNS, "nxdomain: no such name")
    made.robots("http://shut.test", b"User-agent: *\nDisallow: /")
    made.skip("http://shut.test/", Why.ROBOTS, "line 2: Disallow: /")
    made.skip("http://else.test/", Why.SCOPE, "not ours: nobody asked it")
    report = report_of(made)
    assert (report.pages, report.sites, report.silent_sites) == (2, 1, 6)
    assert [row.site for row in report.largest_sites] == ["http://a.test"]


@pytest.mark.parametrize("seed", range(6))
def test_every_count_against_a_recount(tmp_path: Path, seed: int) -> None:
    """The report, `status` and a plain recount agree, with pages taken back and duplicates told of late."""
    random_ = random.Random(seed)
    made = MadeCrawl(tmp_path)
    made.configure()
    valid: dict[tuple[int, int], Fetched] = {}  # by shard and position: pages that were not taken back
    skipped: dict[str, int] = {}
    failed: set[str] = set()
    tried: set[str] = set()
    for number in range(120):
        url = f"http://h{random_.randrange(25)}.test/{number}"
        step = random_.random()
        if step < 0.55:
            body = bytes([random_.randrange(12)]) * 40
            duplicate = any(record.digest == digest(body) for record in valid.values())
            links = anchors(
                *(f"http://h{random_.randrange(25)}.test/{n}" for n in range(random_.randrange(4)))
            )
            place = made.fetch(
                url,
                random_.choice([200, 200, 200, 404, 500]),
                links,
                body,
                duplicate=duplicate and number % 3 > 0,
            )
            valid[place] = made.pages[place]
        elif step < 0.75:
            why = random_.choice([Why.FAILED, Why.DNS, Why.ROBOTS, Why.SCOPE])
            made.skip(url, why, "timeout: x")
            skipped[why] = skipped.get(why, 0) + 1
            if why is not Why.SCOPE:
                tried.add(site_of(url))
            if why in (Why.FAILED, Why.DNS):
                failed.add(url)
        elif valid and step < 0.85:  # late word that a content was known
            place = random_.choice(list(valid))
            if not valid[place].duplicate:
                made.log(Duplicates(made.tick(), 0, 1, [place[1]]), place[0])
                valid[place] = msgspec.structs.replace(valid[place], duplicate=True)
        elif valid:  # its bytes are gone; it is fetched again
            place = random_.choice(list(valid))
            gone = valid.pop(place)
            taken = (gone.status, gone.size, len(gone.links), gone.digest, gone.duplicate)
            made.log(Lost(made.tick(), gone.url, 0, 0, "x.warc.gz", place[1], *taken), place[0])
            if number % 2:
                place = made.fetch(gone.url, 200, body=b"anew", duplicate=False)
                valid[place] = made.pages[place]
    made.close()
    manifest = msgspec.json.decode((tmp_path / "crawl.json").read_bytes())
    (tmp_path / "crawl.json").write_bytes(msgspec.json.encode({**manifest, "cluster": True}))
    reader = made.reader()
    report = make_report(reader, at=NOW)
    totals = Totals()
    for log in reader.logs:
        for _, record in log.scan():
            totals.apply(record)

    pages = list(valid.values())
    answered = {site_of(page.url) for page in pages}
    good = [page for page in pages if 200 <= page.status < 300]
    assert report.pages == totals.fetched == len(pages)
    assert report.bytes == totals.size == sum(page.size for page in pages)
    assert report.links == totals.links == sum(len(page.links) for page in pages)
    assert report.duplicates.answers == totals.duplicates == sum(page.duplicate for page in pages)
    assert report.duplicates.pages == sum(page.duplicate for page in good)
    by_status = Counter(page.status for page in pages)
    assert {int(row.name): row.pages for row in report.statuses} == by_status
    assert {k: n for k, n in totals.statuses.items() if n} == Counter(page.status // 100 for page in pages)
    assert {row.name: row.count for row in report.skipped} == totals.skipped == skipped
    assert (report.sites, report.silent_sites) == (len(answered), len(tried - answered))
    assert sum(row.pages for row in make_report(reader, at=NOW, top=99).largest_sites) == len(pages)
    broken = {page.url for page in pages if page.status >= 400} | failed
    assert report.broken.urls == len(broken)
    holders = {
        (page.url, link.url)
        for page in pages
        for link in page.links
        if link.url in broken and link.url != page.url
    }
    assert report.broken.links == len(holders)


def test_it_is_json(tmp_path: Path) -> None:
    report = report_of(small(tmp_path))
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_broken_links_and_who_holds_them(made: MadeCrawl) -> None:
    made.seed("http://seed.test/missing")
    for number in range(7):
        text = f"see <{number}>"
        made.fetch(
            f"http://a.test/{number}", links=anchors(("http://b.test/404", text), "http://c.test/fine")
        )
    made.fetch("http://b.test/404", 404, anchors("http://b.test/404"))
    made.fetch("http://c.test/fine")
    made.fetch("http://seed.test/missing", 410)
    made.fetch("http://d.test/", links=anchors("http://nowhere.test/"))
    made.skip("http://nowhere.test/", Why.DNS, "nxdomain: no such name")
    made.fetch("http://lonely.test/x", 500)
    made.robots(
        "http://e.test", b"", links=Links.pack([Link("http://e.test/map", LinkKind.SITEMAP, False, "")])
    )
    made.skip("http://e.test/map", Why.FAILED, "connect: refused")
    made.skip("http://a.test/out", Why.SCOPE, "not broken, only not ours")
    broken = report_of(made).broken
    assert (broken.urls, broken.links) == (5, 10)
    first, *others = broken.shown
    assert (first.url, first.status, first.links, first.why) == ("http://b.test/404", 404, 7, "status 404")
    assert [(holder.url, holder.text) for holder in first.holders] == [
        (f"http://a.test/{number}", f"see <{number}>") for number in range(5)
    ]
    by_url = {row.url: row for row in others}
    assert by_url["http://nowhere.test/"].why == "dns: nxdomain: no such name"
    assert by_url["http://nowhere.test/"].status == 0
    assert by_url["http://nowhere.test/"].holders[0].url == "http://d.test/"
    assert by_url["http://seed.test/missing"].holders[0].url == "seed"
    assert by_url["http://e.test/map"].holders[0].url == "http://e.test/robots.txt"
    assert by_url["http://e.test/map"].holders[0].kind == "sitemap"
    assert by_url["http://lonely.test/x"].holders == []
    assert [row.url for row in report_of(made, broken=1).broken.shown] == ["http://b.test/404"]


def test_a_later_success_mends_and_a_later_error_breaks(made: MadeCrawl) -> None:
    made.fetch("http://a.test/x", 500)
    made.fetch("http://a.test/y", 200)
    made.fetch("http://a.test/x", 200)
    made.fetch("http://a.test/y", 404)
    made.fetch("http://a.test/y", 410)
    (row,) = report_of(made).broken.shown
    assert (row.url, row.status) == ("http://a.test/y", 410)


def test_redirects(made: MadeCrawl) -> None:
    for one, two in (("1", "2"), ("2", "3"), ("3", "end"), ("x", "3"), ("p", "q"), ("q", "p"), ("me", "me")):
        made.redirect(f"http://{one}.test/", f"http://{two}.test/")
    made.redirect("http://into.test/", "http://p.test/", 302)
    made.redirect("http://once.test/", "http://end.test/")
    found = report_of(made).redirects
    assert found.pages == 9
    assert found.lengths == {1: 1, 2: 1, 3: 1}
    assert [chain.urls for chain in found.chains] == [
        ["http://1.test/", "http://2.test/", "http://3.test/", "http://end.test/"],
        ["http://x.test/", "http://3.test/", "http://end.test/"],
    ]
    assert found.loop_count == 2
    loops = sorted(sorted(chain.urls) for chain in found.loops)
    assert loops == [["http://me.test/"], ["http://p.test/", "http://q.test/"]]


@given(st.lists(st.integers(-1, 30), min_size=1, max_size=31))
@settings(max_examples=300, deadline=None)
def test_distances_equal_a_walk(edges: list[int]) -> None:
    following = np.array([edge if edge < len(edges) else -1 for edge in edges], np.int64)
    hops, on_loop = distances(following)
    for start in range(len(edges)):
        path = [start]
        while (after := int(following[path[-1]])) >= 0 and after not in path:
            path.append(after)
        ends = after < 0
        assert int(hops[start]) == (len(path) if ends else 0)
        assert bool(on_loop[start]) == (not ends and after == start)


def test_duplicates(made: MadeCrawl) -> None:
    made.fetch("http://a.test/1", body=b"the same")
    for number in (2, 3):
        made.fetch(f"http://b.test/{number}", body=b"the same", duplicate=True, title="Same")
    made.fetch("http://b.test/gone", 404, body=b"the same", duplicate=True)
    made.fetch("http://c.test/1", body=b"two")
    made.fetch("http://c.test/2", body=b"two", duplicate=True)
    made.fetch("http://c.test/3", body=b"three")
    found = report_of(made).duplicates
    assert (found.pages, found.groups) == (3, 2)
    assert [(group.pages, sorted(group.urls)) for group in found.largest] == [
        (3, ["http://a.test/1", "http://b.test/2", "http://b.test/3"]),
        (2, ["http://c.test/1", "http://c.test/2"]),
    ]


def test_slow_large_truncated(made: MadeCrawl) -> None:
    for number in range(30):
        made.fetch(f"http://a.test/{number}", timing=Timing(total=number * 10), length=1000 - number, size=50)
    made.fetch("http://b.test/", truncated="length", size=900, length=9, timing=Timing(total=5))
    made.fetch("http://b.test/2", truncated="time", size=90, length=9, timing=Timing(total=5))
    report = report_of(made, top=3)
    assert [row.total_ms for row in report.slowest] == [290, 280, 270]
    assert [row.length for row in report.largest] == [1000, 999, 998]
    assert report.truncated.by_limit == {"length": 1, "time": 1}
    assert [row.url for row in report.truncated.largest] == ["http://b.test/", "http://b.test/2"]
    (slow,) = report.slowest_sites
    assert slow.site == "http://a.test"
    assert slow.median_ms == pytest.approx(145, rel=0.1)


def test_deferred_that_got_their_answer_do_not_wait(made: MadeCrawl) -> None:
    made.defer("http://a.test/1", Why.RETRY, NOW + 5, "timeout: x")
    made.defer("http://a.test/1", Why.RETRY, NOW + 9, "timeout: x")
    made.defer("http://a.test/2", Why.RETRY, NOW + 9, "tls: y")
    made.defer("http://a.test/3", Why.RETRY, NOW + 7, "tls: y")
    made.fetch("http://a.test/2")
    made.skip("http://a.test/3", Why.FAILED, "tls: y")
    (row,) = report_of(made).deferred
    assert (row.times, row.waiting, row.next_due) == (4, 1, "2023-11-14T23:13:20.009Z")


def test_limits_are_said(made: MadeCrawl, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SITES", 2), ("BROKEN", 3), ("REDIRECTS", 2), ("DIGESTS", 1), ("WAITING", 1)):
        monkeypatch.setattr(report_fold, name, value)
    for number in range(40):
        site = f"http://s{number}.test"
        made.fetch(f"{site}/", 404, body=b"x")
        made.redirect(f"{site}/r", f"{site}/")
        made.fetch(f"{site}/same", body=b"same", duplicate=number > 0)
        made.defer(f"{site}/later", Why.RETRY, NOW, "tls: x")
        made.skip(f"{site}/secret", Why.ROBOTS, "line 1: Disallow: /")
    report = report_of(made)
    assert report.pages == 120
    assert report.sites <= 6
    assert report.broken.urls == 40
    assert len(report.broken.shown) == 3
    assert (report.redirects.pages, report.duplicates.pages) == (40, 39)
    assert len(report.notes) == 6
    text = " ".join(report.notes)
    for word in ("sites", "rules", "broken", "redirects", "duplicates", "deferred"):
        assert word in text


def test_a_table_has_a_bounded_number_of_names() -> None:
    table = Table(3)
    for number in range(10):
        table.add(f"type/{number}", 5)
    table.add("type/0", 5)
    assert [(row.name, row.pages, row.bytes) for row in table.counts()] == [
        ("others", 7, 35),
        ("type/0", 2, 10),
        ("type/1", 1, 5),
        ("type/2", 1, 5),
    ]
    assert table.full


@given(st.lists(st.integers(0, 50)), st.integers(0, 8))
def test_top_keeps_the_heaviest_and_the_first_of_equals(weights: list[int], size: int) -> None:
    top: Top[int] = Top(size)
    for number, weight in enumerate(weights):
        top.offer(weight, number)
    assert top.rows() == sorted(range(len(weights)), key=lambda number: -weights[number])[:size]


@given(st.lists(st.integers(0, 200_000), min_size=1))
def test_a_median_within_a_tenth(values: list[int]) -> None:
    times = Times()
    for value in values:
        times.add(value)
    true = sorted(values)[(len(values) + 1) // 2 - 1]
    assert times.median() == pytest.approx(true, rel=0.1, abs=1)


def test_a_timeline_is_bounded_and_loses_nothing() -> None:
    for span in (1, 10_000, 3_600_000, 40 * 86_400_000):
        timeline = Timeline()
        dice = random.Random(span)
        for _ in range(20_000):
            timeline.add(BEGIN + dice.randrange(span), 3)
        moments = timeline.moments()
        assert sum(row.pages for row in moments) == 20_000
        assert sum(row.bytes for row in moments) == 60_000
        assert 1 <= len(moments) <= SHOWN + 2
        assert len(timeline._pages) <= report_time.KEPT


def test_gauges_are_thinned_and_bad_lines_passed_over(tmp_path: Path) -> None:
    lines = [
        b'{"at": %d.5, "pending": %d, "visits": 3, "news": 1}' % (BEGIN / 1000 + n, n) for n in range(3000)
    ]
    lines[5] = b"\xff{"
    lines[6] = b'{"at": 1e308}'
    (tmp_path / "meters.jsonl").write_bytes(b"\n".join(lines) + b'\n{"at": 17')
    gauges = read_gauges(tmp_path)
    assert SHOWN / 2 <= len(gauges) <= 2 * SHOWN
    pending = [row.pending for row in gauges]
    assert pending == sorted(set(pending))
    assert pending[-1] > 2900
    assert read_gauges(tmp_path / "none") == []


def test_the_last_gauge_is_shown(tmp_path: Path) -> None:
    lines = [b'{"at": %d, "visits": 1, "state": "running"}' % (BEGIN // 1000 + n) for n in range(2001)]
    lines.append(b'{"at": %d, "visits": 0, "state": "finished"}' % (BEGIN // 1000 + 2002))
    (tmp_path / "meters.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    gauges = read_gauges(tmp_path)
    assert (gauges[-1].visits, gauges[-1].running) == (0, False)
    assert all(row.running for row in gauges[:-1])


def test_the_end_of_every_run_is_kept_however_much_is_thinned(tmp_path: Path) -> None:
    """Else a pause between two runs looks like a crawl that got slower and slower."""
    lines = [b'{"at": %d, "state": "running"}' % (BEGIN // 1000 + n) for n in range(9001)]
    ends = (1230, 4567)
    for n in ends:
        lines[n] = b'{"at": %d, "state": "stopped"}' % (BEGIN // 1000 + n)
    (tmp_path / "meters.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    gauges = read_gauges(tmp_path)
    assert len(gauges) <= 2 * SHOWN
    assert [row.at for row in gauges if not row.running] == [iso(BEGIN + n * 1000) for n in ends]


def gauge(second: float, visits: int, running: bool = True, **more: int) -> Gauge:
    row = {"pending": 0, "left_behind": 0, "deferred": 0, "hosts": 0, "rss": 0} | more
    at = iso(BEGIN + int(second * 1000)) or ""
    return Gauge(at=at, visits=visits, running=running, **row)


def test_active_visits_are_weighed_by_time() -> None:
    assert activity([], 8) == Active(limit=8)
    assert activity([gauge(0, 5)], 8) == Active(limit=8, most=5)
    rows = [gauge(0, 8), gauge(1, 8), gauge(2, 2), gauge(4, 4), gauge(5, 0, running=False)]
    found = activity(rows, 8)
    assert (found.most, found.limit) == (8, 8)
    assert found.mean == pytest.approx((8 + 8 + 2 * 2 + 4) / 5)
    assert found.half == pytest.approx(3 / 5)
    assert activity(rows, 0).half == 0
    later = [gauge(90_000 + n, 8) for n in range(3)]
    again = activity([*rows, *later], 8)  # a day's pause between two runs is no time of the crawl
    assert again.mean == pytest.approx((24 + 16) / 7)
    killed = activity([*rows[:-1], *later], 8)  # ... nor if the first run was killed, but for a moment
    assert killed.mean == pytest.approx((20 + 4 * 4 + 16) / 10)


@given(
    st.lists(st.tuples(st.floats(0, 1e7), st.integers(0, 99), st.booleans()), max_size=30), st.integers(0, 99)
)
@settings(max_examples=100, deadline=None)
def test_any_gauges_make_a_report(rows: list[tuple[float, int, bool]], limit: int) -> None:
    gauges = [gauge(at, visits, running, rss=visits, pending=visits) for at, visits, running in rows]
    report = Report(
        directory="d", crawl="c", version="", shards=1, created=None, generated=None, running=False
    )
    report.gauges, report.active = gauges, activity(gauges, limit)
    assert 0 <= report.active.half <= 1.000001
    assert 0 <= report.active.mean <= report.active.most + 1e-6
    for strip in strips(report, str):
        assert len(strip.blocks) == 40
        assert set(strip.blocks) <= set(" ▁▂▃▄▅▆▇█")
    assert "nan" not in render(report)


def test_the_crawl_over_time(made: MadeCrawl) -> None:
    for number in range(100):
        made.fetch(f"http://a.test/{number}")
    rows = [
        {
            "at": BEGIN / 1000 + second,
            "visits": min(256, 10 * second),
            "pending": 1000 * second,
            "left_behind": 10 if second > 50 else 0,
            "deferred": 3,
            "hosts": 7,
            "rss": 200_000_000 + second,
            "state": "running",
        }
        for second in range(100)
    ]
    (made.directory / "meters.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    report = report_of(made)
    assert (report.active.limit, report.active.most) == (256, 256)
    assert 200 < report.active.mean < 230
    assert 0.8 < report.active.half < 0.9
    page = render(report)
    for words in ("Active visits: mean 2", "256 allowed", "records left behind", "URLs deferred"):
        assert words in page
    assert page.count('class="limit"') == 1
    shown = {strip.name: strip for strip in strips(report, lambda count: f"{count:.0f} B")}
    assert list(shown) == [
        "pages/s",
        "active visits",
        "hosts",
        "pending",
        "left behind",
        "deferred",
        "memory",
    ]
    assert shown["active visits"].blocks[0] == "▁" and shown["active visits"].blocks[-1] == "█"
    assert shown["active visits"].words.startswith("mean 2")
    assert " of 256; half or more 8" in shown["active visits"].words
    assert shown["left behind"].blocks.startswith(" " * 20)
    assert shown["pending"].words == "at most 99,000"
    assert shown["memory"].words == "at most 200000099 B"


def test_a_running_crawl_with_a_torn_tail(made: MadeCrawl) -> None:
    lock = DirectoryLock(made.directory)
    for number in range(10):
        made.fetch(f"http://a.test/{number}", 404 if number % 2 else 200, anchors("http://a.test/1"))
    made.commit()
    shard = made.shard_of("http://a.test/")
    (segment,) = (made.directory / f"shards/{shard:02d}/log").iterdir()
    whole = segment.read_bytes()
    segment.write_bytes(whole + whole[-200:-40])
    report = make_report(made.reader(), at=NOW)
    assert report.running
    assert (report.pages, report.broken.urls) == (10, 5)
    lock.release()
    assert not make_report(made.reader(), at=NOW).running


def test_progress_is_told(made: MadeCrawl) -> None:
    for number in range(5000):
        made.fetch(f"http://a.test/{number}", 404 if number == 7 else 200)
    told: list[tuple[str, int]] = []
    make_report(made.reader(), at=NOW, told=lambda what, count: told.append((what, count)))
    assert [count for _, count in told] == [4096, 4096]


class Reader(html.parser.HTMLParser):
    """What a browser would make of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_is_safe_and_needs_nothing_else(made: MadeCrawl) -> None:
    evil = "</td><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m"
    hostile = "http://a.test/'%22><script>alert(3)</script>"
    made.seed("http://a.test/")
    made.fetch("http://a.test/", links=anchors((hostile, evil)), title=evil, type="text/<u>", body=b"x" * 500)
    made.fetch("http://a.test/copy", title=evil, body=b"x" * 500, duplicate=True, truncated="length")
    made.fetch(hostile, 404, body=b"y")
    made.redirect("http://a.test/r1", "http://a.test/r2")
    made.redirect("http://a.test/r2", "http://a.test/r1")
    made.robots("http://a.test", b"")
    made.skip("http://a.test/p", Why.ROBOTS, "line 1: Disallow: <script>")
    made.skip("http://a.test/q", Why.FAILED, "tls: <script>")
    made.defer("http://a.test/z", Why.RETRY, NOW, "tls: <u>")
    page = render(report_of(made))
    reader = Reader()
    reader.feed(page)
    names = [tag for tag, _ in reader.tags]
    assert not {"script", "img", "link", "iframe", "object", "u"} & set(names)
    for tag, attributes in reader.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert "src" not in attributes
        if tag == "a" and not (attributes["href"] or "").startswith("#"):
            assert (attributes["href"] or "").startswith(("http://", "https://"))
            assert attributes["rel"] == "noreferrer nofollow noopener"
    assert "url(" not in page and "@import" not in page
    assert "\x1b" not in page
    assert any("alert(1)" in text for text in reader.text)  # shown, as text


def test_no_link_leads_anywhere_but_the_web(made: MadeCrawl) -> None:
    made.fetch("file:///etc/passwd", 404, timing=Timing(total=99_999))
    page = render(report_of(made))
    assert 'href="file' not in page
    assert "file:///etc/passwd" in page
