"""`--refetch`: what failed, a URL, what matches; each once more, and counted once."""

from __future__ import annotations

from pathlib import Path

import pytest

import lycosa
from lycosa.cli.main import main
from lycosa.clock import SystemClock
from lycosa.crawl.refetching import Wish, refetch
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles
from lycosa.records import Deferred, Why
from lycosa.url.rules import NO_RULES
from tests.crawl.made import MadeCrawl
from tests.crawl.recorded import Asked, Said, Site, page, serving


class Changing:
    """A site of four pages of which one fails until it is mended."""

    def __init__(self) -> None:
        self.mended = False

    def __call__(self, asked: Asked) -> Said:
        if asked.path == "/bad":
            return page("bad") if self.mended else Said(b"", 500)
        table = {"/": page("home", "/a", "/b", "/bad"), "/a": page("a"), "/b": page("b")}
        return table.get(asked.path, Said(b"", 404))


def crawl(site: Site, into: Path, *more: str) -> None:
    words = ["crawl", site.url(host="127.0.0.1"), "--into", str(into), "--private", "--own-site", "--quiet"]
    words += ["--allow", "127.0.0.0/8", "--shards", "2", "--set", "retry.attempts=1", "--set", "horizon=1"]
    assert main([*words, *more]) == 0


def test_what_failed_and_what_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = Changing()
    with serving(answers) as site:
        crawl(site, tmp_path)
        before = len(site.paths())
        crawl(site, tmp_path)
        assert len(site.paths()) == before, "the same command asks for nothing again"
        answers.mended = True
        crawl(site, tmp_path, "--refetch", "failed")
        assert site.paths()[before:] == ["/bad"]
        assert "1 URL to fetch once more" in capsys.readouterr().err
        crawl(site, tmp_path, "--refetch", "failed")
        assert site.paths()[before + 1 :] == [], "it failed no more"
        crawl(site, tmp_path, "--refetch", site.url("/a", "127.0.0.1") + "#part")
        assert site.paths()[before + 1 :] == ["/a"]
        crawl(site, tmp_path, "--refetch", "/(a|b)$")
        assert sorted(site.paths()[before + 2 :]) == ["/a", "/b"]
    saved = lycosa.open(tmp_path)
    assert {found.status for found in saved.pages()} == {200}
    assert len(list(saved.pages())) == 4, "each page counts once"
    found = saved.page(site.url("/a", "127.0.0.1"))
    assert found is not None and len(found.history) == 3


def test_a_page_that_is_to_be_refreshed_some_day_is_due_now(tmp_path: Path) -> None:
    made = MadeCrawl(tmp_path)
    made.configure()
    for name, why in (("refreshed", Why.REFRESH), ("retried", Why.RETRY)):
        made.fetch(f"http://a.test/{name}", 200)
        made.defer(f"http://a.test/{name}", why, made.tick() + 86_400_000)
    made.close()
    assert refetch(DiskFiles(tmp_path), Wish(["a.test"], NO_RULES), SystemClock()) == 1
    found = [row for _, _, row in made.reader().records() if isinstance(row, Deferred)]
    assert found[-1].url == "http://a.test/refreshed" and found[-1].due == found[-1].at


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="not a regular expression"):
        Wish(["("], NO_RULES)
    with pytest.raises(ConfigError, match="not a URL"):
        Wish(["http://"], NO_RULES)
    with pytest.raises(ConfigError, match="give failed, a URL or a pattern"):
        Wish([""], NO_RULES)
    words = [
        "crawl",
        "http://127.0.0.1/",
        "--into",
        str(tmp_path / "none"),
        "--private",
        "--refetch",
        "failed",
    ]
    assert main(words) == 2
    assert "has no crawl yet" in capsys.readouterr().err
