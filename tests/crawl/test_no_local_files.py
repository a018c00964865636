"""What comes from the web never leads to a file of this machine, by whatever way in.

The crawl has a seed that is a file, so that its scope admits the directory of the secret: nothing but the rule that
the web does not lead to files keeps it from being read.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from pathlib import Path

import pytest

from lycosa.cli.main import main
from lycosa.crawl.agent import End, build
from lycosa.crawl.config import read_options
from lycosa.files import DiskFiles
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import ScriptedFetchers
from lycosa.records import Fetched
from tests.crawl import little
from tests.crawl.recorded import MISSING, OPTIONS, Asked, Said, page, records, serving

SECRET = "a-secret-that-was-planted"
XML = (("Content-Type", "application/xml"),)
CSS = (("Content-Type", "text/css"),)


def moved(to: str, status: int = 302) -> Said:
    return Said(b"", status, (("Location", to),))


def ways(file: str) -> dict[str, dict[str, Said]]:
    """Answers by path, for each way in; `file` is the secret's URL."""
    directory, _, name = file.rpartition("/")
    sitemap = (
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>{file}</loc></url></urlset>'
    )
    index = f'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>{file}</loc></sitemap></sitemapindex>'
    feed = f'<rss version="2.0"><channel><item><link>{file}</link></item></channel></rss>'
    atom = f'<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="{file}"/></entry></feed>'
    head = "<link rel=%s href='/extra'>"
    return {
        "robots redirect": {"/robots.txt": moved(file)},
        "robots redirect, second hop": {"/robots.txt": moved("/r2"), "/r2": moved(file, 301)},
        "robots redirect in capitals": {"/robots.txt": moved(" FILE:" + file.removeprefix("file:"))},
        "robots redirect, localhost": {"/robots.txt": moved(file.replace("file:///", "file://localhost/"))},
        "robots sitemap": {"/robots.txt": Said(f"Sitemap: {file}\n".encode())},
        "redirect": {"/": moved(file)},
        "redirect of a link": {"/": page("p", "/go"), "/go": moved(file, 308)},
        "link": {"/": page("p", file)},
        "refresh": {"/": page("p", extra=f'<meta http-equiv=refresh content="0;url={file}">')},
        "base": {"/": page("p", name, extra=f"<base href='{directory}/'>")},
        "frame": {"/": page("p", extra=f"<iframe src='{file}'></iframe>")},
        "image": {"/": page("p", extra=f"<img src='{file}'>")},
        "canonical": {"/": page("p", extra=f"<link rel=canonical href='{file}'>")},
        "alternate": {"/": page("p", extra=f"<link rel=alternate href='{file}'>")},
        "import in a page": {"/": page("p", extra=f"<style>@import url({file});</style>")},
        "import in a style": {
            "/": page("p", extra=head % "stylesheet"),
            "/extra": Said(f"@import '{file}';".encode(), 200, CSS),
        },
        "sitemap": {
            "/robots.txt": Said(b"Sitemap: /map.xml\n"),
            "/map.xml": Said(sitemap.encode(), 200, XML),
        },
        "sitemap index": {
            "/robots.txt": Said(b"Sitemap: /map.xml\n"),
            "/map.xml": Said(index.encode(), 200, XML),
        },
        "sitemap in gzip": {
            "/": Said(gzip.compress(sitemap.encode()), 200, (("Content-Type", "application/gzip"),))
        },
        "rss": {"/": Said(feed.encode(), 200, (("Content-Type", "application/rss+xml"),))},
        "atom": {"/": Said(atom.encode(), 200, (("Content-Type", "application/atom+xml"),))},
    }


def test_the_web_leads_to_no_file(tmp_path: Path) -> None:
    """Each way in has a host and a secret of its own, so that a leak names its way."""
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "index.html").write_text("<p>a page without links")
    index = (shown / "index.html").as_uri()
    tables: dict[str, dict[str, Said]] = {}
    for number, way in enumerate(ways("file:///x")):
        secret = shown / f"secret{number}.html"
        secret.write_text(f"<p>{SECRET} by {way}<a href=more.html>")
        tables[f"way{number}.test"] = ways(secret.as_uri())[way]
    into = tmp_path / "crawl"
    options = {
        **OPTIONS,
        "scope": {"mode": "any"},
        "follow": {"requisites": True},
        "robots": {"first_retry": 0.05, "attempts": 2},
    }

    async def go(seeds: list[str]) -> End:
        agent = build(DiskFiles(into), read_options(options), seeds, shards=2)
        return await asyncio.wait_for(agent.run(), 240)

    with serving(lambda asked: answer(tables[asked.host.partition(":")[0]], asked)) as site:
        homes = [site.url(host=host) for host in tables]
        assert asyncio.run(go([*homes, index])) is End.FINISHED
    urls = {row.url for row in records(into) if isinstance(row, Fetched)}
    assert set(homes) <= urls, "the web is read"
    assert {url for url in urls if url.startswith("file:")} == {index}, "and the operator's own file"
    held = [repr(records(into)).encode()]
    held += [gzip.decompress(file.read_bytes()) for file in into.rglob("*.gz")]
    assert len(held) > 1, "there is an archive"
    assert not [found for one in held for found in re.findall(rb"a-secret[^<]*", one)]


def test_files_lead_to_files_and_not_above_their_directory(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "index.html").write_text("<a href=next.html>next</a> <a href=../above.html>above</a>")
    (shown / "next.html").write_text("<p>next")
    (tmp_path / "above.html").write_text(SECRET)
    into = tmp_path / "crawl"

    async def go() -> End:
        seeds = [(shown / "index.html").as_uri()]
        agent = build(DiskFiles(into), read_options({**OPTIONS, "scope": {"mode": "any"}}), seeds, shards=1)
        return await asyncio.wait_for(agent.run(), 240)

    assert asyncio.run(go()) is End.FINISHED
    names = {row.url.rpartition("/")[2] for row in records(into) if isinstance(row, Fetched)}
    assert names == {"index.html", "next.html"}


def test_the_verb_fetch_follows_robots_to_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(f"User-agent: *\nDisallow: /{SECRET}\n")
    with serving(lambda asked: answer({"/robots.txt": moved(secret.as_uri())}, asked)) as site:
        assert main(["fetch", "--allow-private", "--json", f"http://127.0.0.1:{site.port}/{SECRET}"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    (robots,) = [step for step in steps if step["step"] == "robots"]
    assert robots["text"] == "allowed: no robots.txt (status 302 without a place to go)"


def answer(table: dict[str, Said], asked: Asked) -> Said:
    return table.get(asked.path, page("home") if asked.path == "/" else MISSING)


def test_schemes_that_packages_bring_need_the_operators_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed or `scope.schemes`; and a robots.txt of the web is never looked for there."""

    class Plugged(ScriptedFetchers):
        schemes = ["http", "https", "local"]  # noqa: RUF012 - as the double has it

    monkeypatch.setattr(little, "ScriptedFetchers", Plugged)
    pages = {
        "http://a.test/": little.html("local://here/secret", "/go"),
        "http://a.test/go": little.moved("local://here/secret"),
        "http://a.test/robots.txt": little.moved("local://here/rules"),
        "local://here/secret": little.html(),
    }

    def asked(**scope: object) -> set[str]:
        ran = little.crawl(FaultyFiles(), pages, ["http://a.test/"], scope={"mode": "any", **scope})
        assert {"http://a.test/", "http://a.test/go"} <= set(ran.fetched)
        return {url for url in ran.urls if url.startswith("local:")}

    assert asked() == set()
    assert asked(schemes=["http", "local"]) == {"local://here/secret"}
