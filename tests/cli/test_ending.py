"""How a crawl ends: what it says, and with which code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.cli.main import main
from lycosa.log import reader
from lycosa.records import Record, decode
from tests.crawl.recorded import FLAGS, Said, chain, page, pages, serving

Capture = pytest.CaptureFixture[str]
QUICK = [*FLAGS, "--set", "horizon=0.0", "--set", "robots.first_retry=60.0"]


def test_what_to_do_after_each_limit(tmp_path: Path, capsys: Capture) -> None:
    """The same command does nothing once a limit over all runs is reached."""
    with serving(chain(60, size=2000)) as site:
        slow = ["--wait", "50ms", "--pages-per-visit", "1"]
        for flags, advice in (
            (["--max-pages", "3"], "to continue, raise --max-pages"),
            (["--max-bytes", "4kB"], "to continue, raise --max-bytes"),
            (["--max-time", "0.5s", *slow], "run the same command to resume"),
        ):
            into = str(tmp_path / flags[0])
            assert main(["crawl", site.url(), "--into", into, *FLAGS, *flags]) == 0
            assert f"({advice})" in capsys.readouterr().out
            assert main(["status", into]) == 0
            assert advice in capsys.readouterr().out


def test_pages_that_were_fetched_again_are_not_more_pages(tmp_path: Path, capsys: Capture) -> None:
    with serving(chain(3)) as site:
        into = str(tmp_path / "crawl")
        assert main(["crawl", site.url(), "--into", into, *FLAGS]) == 0
        first = capsys.readouterr().out
        assert main(["crawl", "--into", into, "--refetch", site.url(), *FLAGS]) == 0
        again = capsys.readouterr().out
    assert "; 3 in all, " in first
    assert again.startswith("finished: 0 pages in ") and "; 3 in all by 4 fetches, " in again


def nothing(capsys: Capture, code: int, *args: str) -> str:
    """A crawl that fetches nothing: one line says why."""
    assert main(["crawl", *args]) == code
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith("lycosa crawl: nothing was fetched: http://")
    assert said.out.startswith(("finished: 0 pages", "limit: 0 pages"))
    return line


def test_nothing_because_robots_forbid_it(tmp_path: Path, capsys: Capture) -> None:
    table = {"/": page("home"), "/robots.txt": Said(b"User-agent: *\nDisallow: /")}
    with serving(pages(table)) as site:
        line = nothing(capsys, 1, site.url(), "--into", str(tmp_path / "c"), *QUICK)
        assert line.endswith(f"{site.url()}: line 2: Disallow: / (robots)")
        assert main(["crawl", site.url(), "--into", str(tmp_path / "j"), "--json", *QUICK]) == 1
        said = capsys.readouterr()
        assert json.loads(said.out.splitlines()[-1])["pages"] == 0
        assert said.err.startswith("lycosa crawl: nothing was fetched: ")


def test_nothing_because_the_seed_is_out_of_scope(tmp_path: Path, capsys: Capture) -> None:
    with serving(chain(1)) as site:
        flags = [*QUICK, "--exclude-host", "site.test"]
        line = nothing(capsys, 2, site.url(), "--into", str(tmp_path / "c"), *flags)
    assert line.endswith("(scope): change the seeds or the scope")


@pytest.mark.parametrize("robots", [Said(b"", status=503), None])
def test_nothing_because_the_site_fails(robots: Said | None, tmp_path: Path, capsys: Capture) -> None:
    """It answers with errors, or nobody is there."""
    with serving(pages({"/robots.txt": robots or page("x")})) as site:
        seed = site.url()
        if robots is not None:
            line = nothing(capsys, 4, seed, "--into", str(tmp_path / "c"), *QUICK)
            assert line.endswith("robots.txt could not be fetched: status 503 (robots-unreachable)")
    if robots is None:
        line = nothing(capsys, 4, seed, "--into", str(tmp_path / "c"), *QUICK)
        assert "robots.txt could not be fetched: " in line and "Failed to connect" in line


def test_nothing_because_the_address_is_private(tmp_path: Path, capsys: Capture) -> None:
    flags = ["--private", "--resolve", "site.test:127.0.0.1", "--quiet", "--set", "horizon=0.0"]
    line = nothing(capsys, 1, "http://site.test/", "--into", str(tmp_path / "c"), *flags)
    assert "(address)" in line


def test_a_crawl_that_has_pages_and_finds_no_more_is_done(tmp_path: Path, capsys: Capture) -> None:
    with serving(chain(2)) as site:
        for _ in range(2):
            assert main(["crawl", site.url(), "--into", str(tmp_path / "c"), *FLAGS]) == 0
    assert capsys.readouterr().err == ""


def test_failures_of_a_scorer_are_shown_everywhere(tmp_path: Path, capsys: Capture) -> None:
    scorer = tmp_path / "scorer.py"
    scorer.write_text("def score(url, depth, text, source):\n    return 1 / 0\n")
    into = str(tmp_path / "c")
    with serving(chain(4)) as site:
        flags = [*FLAGS, "--scorer", f"{scorer}:score", "--agents", "1"]
        flags.remove("--quiet")
        assert main(["crawl", site.url(), "--into", into, *flags]) == 0
    said = capsys.readouterr()
    assert "note: scorer failed 4 times: the order's own level was taken" in said.out
    assert "the scorer failed: ZeroDivisionError: division by zero (http://" in said.err
    assert main(["status", into]) == 0
    assert "scorer       failed 4 times" in capsys.readouterr().out
    assert main(["report", into]) == 0
    assert "note: in the last run the scorer failed 4 times" in capsys.readouterr().out


def test_a_run_that_does_nothing_reads_nothing_of_the_log(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished crawl that is run again says its numbers from its snapshots; a redirect is told of its own run."""
    away = Said(b"", 302, (("Location", "http://elsewhere.test/"),))
    with serving(pages({**{f"/{n}": page(f"{n}", f"/{n + 1}") for n in range(40)}, "/away": away})) as site:
        # One shard: with more, the start reads what may be on its way between them.
        command = ["--into", str(tmp_path / "c"), "--shards", "1", *QUICK]
        assert main(["crawl", site.url("/0"), *command]) == 0
        first = capsys.readouterr().out
        assert "41 in all" in first and "redirects to" not in first
        decoded: list[memoryview] = []

        def counting(row: memoryview) -> Record:
            decoded.append(row)
            return decode(row)

        monkeypatch.setattr(reader, "decode", counting)
        assert main(["crawl", site.url("/0"), *command]) == 0
        assert "finished: 0 pages" in (said := capsys.readouterr().out) and "41 in all" in said
        few = len(decoded)
        assert few <= 5
        assert main(["crawl", site.url("/away"), *command]) == 0
        said = capsys.readouterr().out
        assert f"note: {site.url('/away')} redirects to http://elsewhere.test/, out of scope" in said
        assert len(decoded) <= few + 20
        assert main(["crawl", site.url("/0"), *command]) == 0
        assert "redirects to" not in capsys.readouterr().out
