"""Settings of single sites: which hold for a host, and that a crawl goes by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import lycosa
from lycosa.ask.json_form import shown_options
from lycosa.crawl.config import encode_options, read_options
from lycosa.crawl.site_options import Settings, SiteOptions
from lycosa.errors import ConfigError
from lycosa.frontier import PolitenessOptions
from lycosa.records import Skipped, Why
from tests.crawl.recorded import OPTIONS, chain, serving


def test_the_longest_name_that_fits_holds() -> None:
    tables = {
        "*.example.org": SiteOptions(wait=1.5, pages=7),
        "*.docs.example.org": SiteOptions(wait=2.5),
        "example.org": SiteOptions(depth=1),
    }
    settings = Settings(tables, PolitenessOptions(wait=9.0), 99)
    found = {
        host: (held.politeness.wait, held.pages, held.depth)
        for host in (
            "example.org",
            "www.example.org",
            "a.docs.example.org",
            "docs.example.org",
            "org",
            "example.com",
        )
        for held in (settings.of(host),)
    }
    assert found == {
        "example.org": (9.0, 99, 1),
        "www.example.org": (1.5, 7, None),
        "a.docs.example.org": (2.5, 99, None),
        "docs.example.org": (2.5, 99, None),
        "org": (9.0, 99, None),
        "example.com": (9.0, 99, None),
    }


@pytest.mark.parametrize(
    ("site", "words"),
    [
        ({"http://a.test": {}}, "give a host"),
        ({"A.test": {}}, "lower case"),
        ({"a.test": {"wait": -1}}, "at least 0"),
        ({"a.test": {"wiat": 1}}, "wiat"),
        ({"a.test": {"headers": ["nothing"]}}, "Name: value"),
    ],
)
def test_mistakes(site: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_options({"public": False, "site": site})


def test_headers_of_a_site_are_not_shown() -> None:
    options = read_options({"public": False, "site": {"a.test": {"headers": ["X-Key: secret"]}}})
    assert shown_options(encode_options(options))["site"]["a.test"]["headers"] == ["X-Key:..."]
    assert b"secret" in msgspec.json.encode(options)


def test_a_crawl_goes_by_them_and_by_others_later(tmp_path: Path) -> None:
    """Two hosts of one server; the first has a header, a depth and a number of pages of its own."""
    options: dict[str, Any] = {**OPTIONS, "dns": {"resolve": ["*.test:127.0.0.1"]}, "scope": {"mode": "any"}}
    with serving(chain(10)) as site:
        seeds = [site.url(host="one.test"), site.url(host="two.test")]
        tables: dict[str, Any] = {
            "one.test": {"depth": 2, "headers": ["X-Key: mine"]},
            "two.test": {"pages": 3},
        }
        lycosa.Crawl(seeds, into=tmp_path, site=tables, **options).run()
        assert sorted(site.paths("one.test")) == ["/", "/1", "/2", "/3", "/4"], "two links from its seed"
        assert len(site.paths("two.test")) == 3
        keys = {(row.host.partition(":")[0], row.headers.get("x-key")) for row in site.asked}
        assert keys == {("one.test", "mine"), ("two.test", None)}
        skipped = [row for _, _, row in lycosa.open(tmp_path).records() if isinstance(row, Skipped)]
        assert {row.why for row in skipped} == {Why.SCOPE, Why.SITE_LIMIT}
        lycosa.Crawl(seeds, into=tmp_path, site={"two.test": {"pages": 5}}, **options).run()
        assert len(site.paths("one.test")) == 10, "what was too deep is not any more"
        assert len(site.paths("two.test")) == 5
