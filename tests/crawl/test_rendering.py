"""Crawls that render: exactly the truth, politely, with everything in log and archive."""

from __future__ import annotations

import asyncio
import http.server
import threading
from pathlib import Path
from typing import ClassVar

import pytest
from warcio.archiveiterator import ArchiveIterator

import lycosa
from lycosa.ask.export import body_of
from lycosa.ask.reading import CrawlReader
from lycosa.crawl.agent import End
from lycosa.files import DiskFiles
from lycosa.lab.webs import Policy, Politeness, Served, WebOptions, serving, violations
from lycosa.records import Fetched, Skipped, Why
from tests.crawl.served import POLITENESS, options, outcomes
from tests.render.needed import chromium

pytestmark = [chromium, pytest.mark.timeout(300)]

WEB = WebOptions(hosts=3, pages=3, page_bytes=1200, kinds=(), scripts=True, change_share=0.0)
BEHIND = 13
"""Pages of the section that only scripts lead to, besides the routes' own."""


def crawl(served: Served, into: Path, **more: object) -> End:
    async def go() -> End:
        crawl = lycosa.Crawl(served.web.seeds(), into=into, **options(served.web, **more))
        return await asyncio.wait_for(crawl.wait(), 240)

    return asyncio.run(go())


def fetched(directory: Path) -> dict[str, Fetched]:
    rows = (record for _, _, record in CrawlReader(directory).records())
    return {record.url: record for record in rows if isinstance(record, Fetched)}


def test_a_web_made_by_scripts_is_crawled_exactly(tmp_path: Path) -> None:
    with serving(WEB) as served:
        assert crawl(served, tmp_path, render={"when": "auto", "seconds": 100.0}) is End.FINISHED
    truth = served.web.truth(Policy(render=True))
    assert truth.compare(outcomes(tmp_path)) == []
    plain = served.web.truth()
    assert len(truth.must - plain.must) >= BEHIND  # that is what the browser is for
    # The server saw no request that must not be made, and none that the crawl does not know.
    log = served.log()
    asked = {f"http://{host}:{served.web.options.port}{path}" for host, path in log.counts()}
    assert asked & truth.must_not == set()
    known = archived(tmp_path)
    assert asked - known == set()
    rules = Politeness(
        wait=POLITENESS["wait"],
        pages=8,
        address_wait=POLITENESS["address_wait"],
        factor=POLITENESS["factor"],
        delays=served.web.delays(),
        same_connection=False,
    )
    assert [str(row) for row in violations(log, rules)] == []
    # Script files are asked for once: they were had a moment ago.
    counts = log.counts()
    assert {path: n for (_, path), n in counts.items() if path.endswith((".js", ".json")) and n > 1} == {}
    check_records(tmp_path)


def check_records(directory: Path) -> None:
    found = fetched(directory)
    reader = CrawlReader(directory)
    rendered = {url: record for url, record in found.items() if record.rendered is not None}
    assert all("/scripts/" in url for url in rendered)
    assert {record.rendered.why for record in rendered.values() if record.rendered} == {"auto"}
    refused = next(record for url, record in rendered.items() if url.endswith("/scripts/refused"))
    assert refused.rendered is not None
    assert refused.rendered.refused[0].startswith("robots (line 2: Disallow: /scripts/closed/)")
    json = next(record for url, record in rendered.items() if url.endswith("/scripts/json"))
    assert json.rendered is not None
    assert json.rendered.problem == ""
    body = body_of(reader, json)
    assert body is not None
    assert b"made by a script: /scripts/behind-json.html" in body
    assert json.rendered.length == len(body)
    # Shells are the same bytes, and yet no duplicates of each other.
    assert not any(record.duplicate for record in rendered.values())


def archived(directory: Path) -> set[str]:
    """The URLs of the responses in the archive; warcio reads every record."""
    urls = set()
    conversions = {}
    identities = {}
    for path in sorted((directory / "archive").glob("*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, check_digests="raise"):
                record.raw_stream.read()
                url = record.rec_headers.get_header("WARC-Target-URI")
                if record.rec_type == "response":
                    urls.add(url)
                    identities[record.rec_headers.get_header("WARC-Record-ID")] = url
                if record.rec_type == "conversion":
                    conversions[record.rec_headers.get_header("WARC-Refers-To")] = url
    assert conversions
    assert {identity: identities[identity] for identity in conversions} == conversions
    return urls


class Around(http.server.BaseHTTPRequestHandler):
    """A site whose script asks for what is at an address that may not be asked; it answers there, too."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(f"{self.headers['Host']}{self.path}")
        port = self.server.server_address[1]  # type: ignore[index]
        code = f"""<script>for (const url of ["http://127.0.0.2:{port}/inside", "http://localhost:{port}/named"])
          fetch(url, {{mode: "no-cors"}}).then(() => build("got"), () => build("refused"));
          const build = (name) => document.body.insertAdjacentHTML("beforeend", `<a href="/${{name}}">x</a>`)
        </script>"""
        body = code.encode() if self.path == "/" else b""
        self.send_response(200 if self.path in ("/", "/refused") else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def test_an_address_that_must_not_be_asked_is_not_asked_by_a_script(tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("0.0.0.0", 0), Around) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]

        async def go() -> End:
            crawl = lycosa.Crawl(
                [f"http://127.0.0.1:{port}/"],
                into=tmp_path,
                public=False,
                allow=["127.0.0.1/32"],
                dns={"resolve": ["localhost:127.0.0.3"]},
                politeness={"wait": 0.0, "factor": 0.0, "address_wait": 0.0},
                site={"127.0.0.1": {"render": "auto"}},
                render={"seconds": 100.0},
            )
            return await asyncio.wait_for(crawl.wait(), 200)

        assert asyncio.run(go()) is End.FINISHED
        server.shutdown()
    here = f"127.0.0.1:{port}"
    assert sorted(Around.asked) == [f"{here}/", f"{here}/refused", f"{here}/robots.txt"]
    record = fetched(tmp_path)[f"http://{here}/"]
    assert record.rendered is not None
    assert record.rendered.why == "auto"
    assert sorted(each.partition(" ")[0] for each in record.rendered.refused) == ["address", "address"]


def test_without_rendering_nothing_behind_scripts_is_found(tmp_path: Path) -> None:
    with serving(WEB) as served:
        assert crawl(served, tmp_path) is End.FINISHED
    assert served.web.truth().compare(outcomes(tmp_path)) == []
    assert not any(record.rendered for record in fetched(tmp_path).values())
    assert DiskFiles(tmp_path)
    skipped = [record for _, _, record in CrawlReader(tmp_path).records() if isinstance(record, Skipped)]
    assert all(record.why is not Why.FAILED for record in skipped)
