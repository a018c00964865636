"""A crawl of the embedded web, with every fault on, fetches exactly what a correct crawler must."""

from __future__ import annotations

import asyncio
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator

import lycosa
from lycosa.archive.reader import leftovers
from lycosa.ask.reading import CrawlReader
from lycosa.crawl.agent import End
from lycosa.files import DiskFiles
from lycosa.lab.webs import AccessLog, Politeness, Web, preset, serving, violations
from lycosa.records import Fetched, Robots
from tests.crawl.served import POLITENESS, kinds, options, outcomes


def crawl(web: Web, into: Path, **more: object) -> End:
    async def go() -> End:
        crawl = lycosa.Crawl(web.seeds(), into=into, **options(web, **more))
        return await asyncio.wait_for(crawl.wait(), 240)

    return asyncio.run(go())


def judge(log: AccessLog, web: Web) -> list[str]:
    rules = Politeness(
        wait=POLITENESS["wait"],
        pages=8,
        address_wait=POLITENESS["address_wait"],
        factor=POLITENESS["factor"],
        delays=web.delays(),
        # libcurl may ask again, once and at once, when a kept connection turns out to be dead.
        same_connection=False,
    )
    return [str(row) for row in violations(log, rules)]


def test_the_tiny_web_is_crawled_exactly(tmp_path: Path) -> None:
    with serving(preset("tiny")) as served:
        assert crawl(served.web, tmp_path) is End.FINISHED
    truth = served.web.truth()
    found = outcomes(tmp_path)
    none(truth.compare(found))
    assert len(found) > 600
    port = served.web.options.port
    asked = {f"http://{host}:{port}{path}" for host, path in served.log().counts()}
    assert len(asked & truth.must) > 500  # the two are spelt alike
    none(sorted(asked & truth.must_not))  # the server saw a request that must never be made
    none(judge(served.log(), served.web))
    assert kinds(tmp_path) == {"Configured", "Seeded", "Received", "Fetched", "Skipped", "Deferred", "Robots"}
    check_archive(tmp_path, found)


def check_archive(directory: Path, found: dict[str, int]) -> None:
    """warcio reads every record; each page is there once."""
    seen: dict[str, int] = {}
    for path in sorted((directory / "archive").glob("*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, check_digests="raise"):
                record.raw_stream.read()  # not content_stream: warcio cannot undo brotli by this library
                if record.rec_type == "response":
                    target = record.rec_headers.get_header("WARC-Target-URI")
                    url = record.rec_headers.get_header("X-Lycosa-URL") or target
                    seen[url] = seen.get(url, 0) + 1
    spans: dict[str, list[tuple[int, int]]] = {}
    for _, _, row in CrawlReader(directory).records():
        if isinstance(row, Fetched | Robots) and row.stored is not None:
            place = row.stored
            spans.setdefault(place.file, []).append((place.offset, place.offset + place.length))
    for name, rows in spans.items():  # what a commit that was cut short has left does not count
        for left in leftovers(DiskFiles(directory / "archive"), name, rows):
            if left.record.kind == "response":
                seen[left.record.url] -= 1
    answered = {url for url, status in found.items() if status}
    none(sorted(answered - set(seen)))
    none(sorted(url for url in answered if seen[url] != 1))


def test_traps_stay_within_their_bounds(tmp_path: Path) -> None:
    from lycosa.lab.webs import Policy

    web_options = preset("tiny")
    with serving(type(web_options)(**{**_fields(web_options), "traps": True})) as served:
        scope = {"mode": "any", "max_pages_per_site": 60}
        assert crawl(served.web, tmp_path, scope=scope) is End.FINISHED
    truth = served.web.truth(Policy(site_pages=60))
    none(truth.compare(outcomes(tmp_path)))


def none(rows: list[str]) -> None:
    """There must be none. (A plain comparison would have pytest draw the difference of huge lists.)"""
    if rows:
        raise AssertionError("\n".join([f"{len(rows)} of them:", *rows[:15]]))


def _fields(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__struct_fields__}  # type: ignore[attr-defined]
