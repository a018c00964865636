"""`lycosa crawl`, run as users run it: what it does, and what it says when they err."""

from __future__ import annotations

import argparse
import base64
import contextlib
import errno
import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from lycosa.cli import crawl as crawling
from lycosa.cli.amounts import duration, size
from lycosa.cli.main import main
from lycosa.cli.panel import Panel
from lycosa.cli.screen import Speed, choose_mode
from lycosa.crawl.config import Options
from lycosa.crawl.manifest import FORMAT
from lycosa.crawl.status import Status
from lycosa.errors import ConfigError
from lycosa.files import DirectoryLock
from lycosa.records import Fetched, Skipped, Why
from tests.crawl.recorded import FLAGS, Said, Site, chain, fetched, page, pages, records, serving

Capture = pytest.CaptureFixture[str]
COUNT = 24


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(chain(COUNT)) as running:
        yield running


def refused(capsys: Capture, code: int, *args: str) -> str:
    """Run a command that must fail with that code and one line; the line."""
    assert main(["crawl", *args]) == code
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("lycosa crawl: ")
    assert captured.out == ""
    return lines[0]


def contents(directory: Path) -> dict[str, str]:
    """Every file below a directory, by a digest; who holds the lock does not count."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


# -- what it does


def test_a_crawl_and_its_summary(site: Site, tmp_path: Path, capsys: Capture) -> None:
    into = tmp_path / "deep" / "crawl"
    assert main(["crawl", site.url(), "--into", str(into), *FLAGS]) == 0
    out = capsys.readouterr().out
    assert f"finished: {COUNT} pages in" in out
    assert f"lycosa report {into}" in out
    assert len(fetched(into)) == COUNT
    assert main(["crawl", site.url(), "--into", str(into), *FLAGS]) == 0
    out = capsys.readouterr().out
    assert out.startswith("finished: 0 pages in ") and f" (0.0/s); {COUNT} in all" in out
    assert len(site.paths()) == COUNT


def test_lines_when_it_is_no_terminal(site: Site, tmp_path: Path, capsys: Capture) -> None:
    flags = [flag for flag in FLAGS if flag != "--quiet"]
    assert main(["crawl", site.url(), "--into", str(tmp_path / "c"), *flags]) == 0
    captured = capsys.readouterr()
    assert "crawling into" in captured.err
    assert "pages" in captured.err and "pending" in captured.err
    assert captured.out.startswith("finished: ")


def test_json_lines(site: Site, tmp_path: Path, capsys: Capture) -> None:
    flags = [flag for flag in FLAGS if flag != "--quiet"]
    assert main(["crawl", site.url(), "--into", str(tmp_path / "c"), "--json", *flags]) == 0
    captured = capsys.readouterr()
    rows = [json.loads(line) for line in captured.out.splitlines()]
    last = rows[-1]
    assert (last["state"], last["pages"], last["pending"]) == ("finished", COUNT, 0)
    said = [row for row in rows if "note" in row]
    assert said and all(row["level"] == "info" and row["at"] <= time.time() for row in said)
    assert captured.err == ""


def test_max_pages_is_exact_and_counts_all_runs(site: Site, tmp_path: Path, capsys: Capture) -> None:
    into = str(tmp_path / "c")
    for limit in (5, 5, 9):
        assert main(["crawl", site.url(), "--into", into, "--max-pages", str(limit), *FLAGS]) == 0
        out = capsys.readouterr().out
        assert out.startswith("limit: ")
        assert "to continue, raise --max-pages" in out and "same command" not in out
        assert len(fetched(into)) == len(site.paths()) == limit
    assert main(["crawl", "--into", into, *FLAGS]) == 0, "the seeds are in the crawl"
    assert len(fetched(into)) == COUNT


def test_max_bytes_and_max_time(tmp_path: Path, capsys: Capture) -> None:
    with serving(chain(200, size=20_000)) as site:
        into = str(tmp_path / "bytes")
        assert main(["crawl", site.url(), "--into", into, "--max-bytes", "200kB", *FLAGS]) == 0
        assert capsys.readouterr().out.startswith("limit: ")
        assert 10 <= len(fetched(into)) <= 19
        slow = ["--wait", "100ms", "--pages-per-visit", "1"]
        assert (
            main(["crawl", site.url(), "--into", str(tmp_path / "t"), *FLAGS, *slow, "--max-time", "1.5s"])
            == 0
        )
        assert capsys.readouterr().out.startswith("limit: ")
        assert len(fetched(tmp_path / "t")) <= 16


def test_bandwidth_is_capped(tmp_path: Path) -> None:
    """240 kB at 100 kB/s: the first second's worth is free, the rest takes its time."""
    with serving(chain(12, size=20_000)) as site:
        began = time.monotonic()
        assert main(["crawl", site.url(), "--into", str(tmp_path / "c"), "--bandwidth", "100kB", *FLAGS]) == 0
        assert time.monotonic() - began > 1.0
    assert len(fetched(tmp_path / "c")) == 12


def test_seeds_from_a_file_and_from_standard_input(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {f"/{name}": page(name) for name in "abcd"}
    with serving(pages(table)) as site:
        seeds = tmp_path / "seeds.txt"
        seeds.write_text(f"# mine\n\n  {site.url('/a')}  \n{site.url('/b')}\r\n")
        given = f"{site.url('/c')}\n".encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        into = str(tmp_path / "c")
        assert main(["crawl", site.url("/d"), "--seeds", str(seeds), "--into", into, *FLAGS]) == 0
        assert sorted(site.paths()) == ["/a", "/b", "/d"]
        assert main(["crawl", "--seeds", "-", "--into", into, *FLAGS]) == 0
        assert sorted(site.paths()) == ["/a", "/b", "/c", "/d"]


def test_a_toml_file_and_the_command_line_wins(site: Site, tmp_path: Path) -> None:
    toml = tmp_path / "crawl.toml"
    toml.write_text(
        f"""
        seeds = ["{site.url()}"]
        into = "from-toml"
        public = false
        allow = ["127.0.0.0/8"]
        [politeness]
        wait = 0.0
        address_wait = 0.0
        factor = 0.0
        [dns]
        resolve = ["*.test:127.0.0.1"]
        [fetch]
        user_agent = "from-toml/1.0"
        headers = ["X-One: 1"]
        [limits]
        pages = 4
        """
    )
    assert main(["crawl", "--config", str(toml), "--quiet"]) == 0
    into = tmp_path / "from-toml"
    assert len(fetched(into)) == 4
    assert site.asked[0].headers["user-agent"] == "from-toml/1.0"
    more = [
        "--max-pages",
        "6",
        "--user-agent",
        "mine/2.0",
        "--header",
        "X-Two: 2",
        "--set",
        "limits.seconds=60",
    ]
    assert main(["crawl", "--config", str(toml), "--quiet", *more]) == 0
    assert len(fetched(into)) == 6
    last = site.asked[-1].headers
    assert (last["user-agent"], last["x-one"], last["x-two"]) == ("mine/2.0", "1", "2")


def gathered(*args: str) -> dict[str, object]:
    """The options that a command line comes to."""
    parser = argparse.ArgumentParser()
    crawling.configure(parser)
    return crawling.gather(parser.parse_args(args))[0]


def test_a_site_of_ones_own(site: Site, tmp_path: Path, capsys: Capture) -> None:
    into = ["--into", str(tmp_path / "x")]
    fast = {"wait": 0.0, "factor": 0.0, "address_wait": 0.0, "pages_per_visit": 1000}
    assert gathered("a.test", *into, "--own-site")["politeness"] == fast
    said = ["--wait", "2s", "--set", "politeness.factor=3"]
    assert gathered("a.test", *into, "--own-site", *said)["politeness"] == {**fast, "wait": 2.0, "factor": 3}
    config = tmp_path / "crawl.toml"
    config.write_text("[politeness]\npages_per_visit = 5\n")
    slower = gathered("a.test", *into, "--own-site", "--config", str(config))
    assert slower["politeness"] == {**fast, "pages_per_visit": 5}
    assert "politeness" not in gathered("a.test", *into)
    assert gathered("www.a.example", "b.a.example", *into, "--own-site", "--scope", "domain")
    assert "choose --scope host" in refused(capsys, 2, "a.test", *into, "--own-site", "--scope", "any")
    two = refused(capsys, 2, "a.example", "b.example", *into, "--own-site")
    assert "seeds are of 2 domains (a.example, b.example)" in two
    assert not (tmp_path / "x").exists()


def test_a_crawl_goes_on_as_one_of_ones_own_site(site: Site, tmp_path: Path, capsys: Capture) -> None:
    into = ["--into", str(tmp_path / "x")]
    assert main(["crawl", site.url(), *into, *FLAGS, "--max-pages", "3", "--quiet"]) == 0
    before = gathered(*into)
    assert before["politeness"]["wait"] != 0.0 or before["politeness"]["pages_per_visit"] != 1000  # type: ignore[index]
    after = gathered(*into, "--own-site")
    assert after["politeness"]["pages_per_visit"] == 1000 and after["politeness"]["wait"] == 0.0  # type: ignore[index]
    assert {**after, "politeness": 0} == {**before, "politeness": 0}
    capsys.readouterr()
    assert "domains" in refused(capsys, 2, "http://else.example/", *into, "--own-site"), (
        "the old seed counts, too"
    )


def test_headers_cookies_and_basic_auth_are_sent(tmp_path: Path) -> None:
    jar = tmp_path / "cookies.txt"
    jar.write_text("site.test\tFALSE\t/\tFALSE\t0\tkept\tyes\nother.test\tFALSE\t/\tFALSE\t0\telse\tno\n")
    answer = pages({"/": page("home", "/next"), "/next": page("next")})
    with serving(answer) as site:
        args = [
            "--header",
            "X-Team: crawlers",
            "--cookie",
            "a=1",
            "--cookie",
            "b=2",
            "--cookie-file",
            str(jar),
        ]
        args += ["--auth", f"{site.url('')}=user:pa:ss", "--user-agent", "who/1.0 (+https://example.org/)"]
        assert main(["crawl", site.url(), "--into", str(tmp_path / "c"), *FLAGS, *args]) == 0
    assert [row.path for row in site.asked] == ["/robots.txt", "/", "/next"]
    for row in site.asked:
        assert row.headers["x-team"] == "crawlers"
        assert row.headers["cookie"] == "a=1; b=2; kept=yes"
        assert row.headers["authorization"] == "Basic " + base64.b64encode(b"user:pa:ss").decode()
        assert row.headers["user-agent"] == "who/1.0 (+https://example.org/)"


def test_a_proxy_gets_every_request(tmp_path: Path) -> None:
    """The server plays the proxy: it is asked for whole URLs, of names that no resolver here knows."""
    home = "http://far.example/"
    answer = pages({home: page("home", "/next"), home + "next": page("next")})
    with serving(answer) as proxy:
        args = ["--proxy", f"http://127.0.0.1:{proxy.port}", "--private", "--quiet", "--wait", "0s"]
        assert main(["crawl", home, "--into", str(tmp_path / "c"), *args]) == 0
    assert [row.path for row in proxy.asked] == [home + "robots.txt", home, home + "next"]
    assert {row.host for row in proxy.asked} == {"far.example"}


def test_a_blocklist_and_scope_rules_end_to_end(tmp_path: Path) -> None:
    blocklist = tmp_path / "hosts"
    blocklist.write_text("0.0.0.0 blocked.test\n*.ads.test  # all of them\n")
    hosts = ["site.test", "blocked.test", "x.ads.test", "other.test", "cdn.other.test", "far.test"]

    def answer(asked: object) -> Said:
        links = [
            f"http://{host}:{site.port}/{name}" for host in hosts for name in ("a", "private/b", "c.pdf")
        ]
        return page("any", *links)

    with serving(answer) as site:
        args = [
            "--include-domain",
            "other.test",
            "--exclude-host",
            "cdn.other.test",
            "--include-host",
            "blocked.test",
        ]
        args += ["--include-domain", "ads.test", "--blocklist", str(blocklist)]
        args += ["--exclude-path", "/private", "--exclude", r"\.pdf$"]
        assert main(["crawl", site.url(), "--into", str(tmp_path / "c"), *FLAGS, *args]) == 0
    asked = {(row.host.partition(":")[0], row.path) for row in site.asked if row.path != "/robots.txt"}
    assert asked == {("site.test", "/"), ("site.test", "/a"), ("other.test", "/a")}


def test_include_rules_narrow_and_seeds_are_exempt(tmp_path: Path) -> None:
    with serving(lambda asked: page("any", "/docs/a", "/blog/b", "/docs/c?x=1")) as site:
        args = ["--include-path", "/docs/", "--include", r"/[ac]"]
        assert main(["crawl", site.url("/start"), "--into", str(tmp_path / "c"), *FLAGS, *args]) == 0
    assert sorted(site.paths()) == ["/docs/a", "/docs/c?x=1", "/start"]


def test_depth_site_limit_and_requisites(tmp_path: Path) -> None:
    def crawled(name: str, *args: str) -> list[str]:
        asked = len(site.asked)
        assert main(["crawl", site.url(), "--into", str(tmp_path / name), *FLAGS, *args]) == 0
        return sorted(row.path for row in site.asked[asked:] if row.path != "/robots.txt")

    image = '<img src="/i.png"><script src="/s.js"></script>'
    table = {"/": page("0", "/1", extra=image), "/1": page("1", "/2"), "/2": page("2", "/3")}
    with serving(pages(table)) as site:
        assert crawled("depth", "--max-depth", "1") == ["/", "/1"]
        assert crawled("site", "--max-pages-per-site", "3") == ["/", "/1", "/2"]
        assert crawled("whole", "--requisites") == ["/", "/1", "/2", "/3", "/i.png", "/s.js"]
        assert crawled("plain") == ["/", "/1", "/2", "/3"]


def test_a_few_pages_because_of_a_redirect_are_explained(tmp_path: Path, capsys: Capture) -> None:
    away = Said(b"", 301, (("Location", "http://elsewhere.test/"),))
    with serving(pages({"/": away})) as site:
        assert main(["crawl", site.url(), "--into", str(tmp_path / "c"), *FLAGS]) == 0
    assert "redirects to http://elsewhere.test/, out of scope" in capsys.readouterr().out


def test_a_scorer_that_only_the_log_names_is_not_run(site: Site, tmp_path: Path, capsys: Capture) -> None:
    """A directory that somebody gave you must not run their code."""
    into, code = str(tmp_path / "c"), tmp_path / "scorer.py"
    code.write_text("def score(url, depth, text, source):\n    return 0.5\n")
    scorer = f"{code}:score"
    flags = ["--scorer", scorer, "--max-pages", "5", "--wait", "0", *FLAGS]
    assert main(["crawl", site.url(), "--into", into, *flags]) == 0
    capsys.readouterr()
    ran = tmp_path / "ran"
    code.write_text(f"open({str(ran)!r}, 'w')\n" + code.read_text())
    said = refused(capsys, 2, "--into", into)
    assert f"the scorer {scorer!r}" in said and f"--scorer {scorer}" in said
    assert not ran.exists()
    assert main(["crawl", "--into", into, "--scorer", scorer]) == 0
    assert ran.exists(), "named here, too: the crawl goes on with its other options as they were"
    assert "5 in all" in capsys.readouterr().out


def test_what_only_the_log_names_of_this_machine_is_not_used(
    site: Site, tmp_path: Path, capsys: Capture
) -> None:
    """A directory that somebody gave you must not send your cookies through their proxy."""
    into, cookies = str(tmp_path / "c"), tmp_path / "cookies.txt"
    cookies.write_text("bank.test\tTRUE\t/\tFALSE\t0\tsession\tsecret\n")
    name = ["--cookie-file", str(cookies)]
    assert main(["crawl", site.url(), "--into", into, *name, "--max-pages", "5", "--wait", "0", *FLAGS]) == 0
    capsys.readouterr()
    asked = len(site.paths())
    said = refused(capsys, 2, "--into", into)
    assert f"the cookies in {str(cookies)!r}" in said and f"with {' '.join(name)};" in said
    assert len(site.paths()) == asked
    assert main(["crawl", "--into", into, *name]) == 0
    assert "5 in all" in capsys.readouterr().out, "it went on with the other options as they were"


def test_every_such_option_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {place: f"/{place}" for place in crawling._CONSENT}
    given = {
        table: {place.partition(".")[2]: value for place, value in values.items() if place.startswith(table)}
        for table in ("fetch", "frontier", "render")
    }
    log = msgspec.convert(given, Options)
    monkeypatch.setattr(crawling, "_options_of", lambda into: log)
    assert crawling._going_on(given, tmp_path) == msgspec.to_builtins(log)
    for place in values:
        table, _, name = place.partition(".")
        rest = {**given, table: {key: value for key, value in given[table].items() if key != name}}
        with pytest.raises(ConfigError, match=re.escape(f"/{place};")):
            crawling._going_on(rest, tmp_path)
    wider = {**given, "visits": 3}
    assert crawling._going_on(wider, tmp_path) is wider, "the options of the command, and no others"


def test_released_patterns_add_up_and_leave_the_other_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = msgspec.convert({"visits": 7, "traps": {"release": ["*.a.test"]}}, Options)
    monkeypatch.setattr(crawling, "_options_of", lambda into: log)
    (tmp_path / "crawl.json").write_text("{}")
    given = gathered("--into", str(tmp_path), "--release", "http://b.test/**")
    assert given["visits"] == 7
    assert given["traps"]["release"] == ["*.a.test", "http://b.test/**"]  # type: ignore[index]
    with pytest.raises(ConfigError, match="'shop' is not a pattern"):
        gathered("--into", str(tmp_path), "--release", "shop")
    on = gathered("http://b.test/", "--into", str(tmp_path / "new"), "--traps", "on")
    assert on["traps"] == {"quarantine": True}
    rules = gathered("http://b.test/", "--into", str(tmp_path / "new"), "--url-rules", "apply")
    assert rules["variants"] == {"apply": True}


def test_without_an_archive(site: Site, tmp_path: Path) -> None:
    assert main(["crawl", site.url(), "--into", str(tmp_path / "c"), "--no-archive", *FLAGS]) == 0
    assert not list((tmp_path / "c").rglob("*.warc.gz"))
    assert all(row.stored is None for row in fetched(tmp_path / "c"))


# -- mistakes: one line, a code, and nothing touched


MISTAKES: list[tuple[list[str], str]] = [
    (["http://", "--private"], "is not a URL that can be crawled"),
    (["http://exa mple.org/", "--private"], "is not a URL"),
    (["mailto:me@example.org", "--private"], "is not a URL"),
    (["ftp://example.org/", "--private"], "is not a URL"),
    (["http://site.test/", "--user-agent", "nobody"], "so that site owners can reach you"),
    (["http://site.test/", "--private", "--include", "("], "not a regular expression"),
    (["http://site.test/", "--private", "--exclude", "(a+)+$"], "can take forever"),
    (["http://site.test/", "--private", "--include-path", "docs"], "include_paths"),
    (["http://site.test/", "--private", "--include-host", "no host"], "include_hosts"),
    (["http://site.test/", "--private", "--resolve", "site.test"], "write it as host:address"),
    (["http://site.test/", "--private", "--resolve", "site.test:nowhere"], "write it as host:address"),
    (["http://site.test/", "--private", "--allow", "10.0.0.0/99"], "is not a network"),
    (["http://site.test/", "--private", "--proxy", "carrier-pigeon://x"], "is not a proxy"),
    (["http://site.test/", "--private", "--proxy", "http://:0"], "is not a proxy"),
    (["http://site.test/", "--private", "--header", "no colon"], "is not a header"),
    (["http://site.test/", "--private", "--header", "Host: me"], "leave it out"),
    (["http://site.test/", "--private", "--cookie", "crumb"], "is not a cookie"),
    (["http://site.test/", "--private", "--cookie-file", "/nowhere/jar"], "/nowhere/jar: No such file"),
    (["http://site.test/", "--private", "--auth", "user:pass"], "--auth HOST=USER:PASSWORD"),
    (["http://site.test/", "--private", "--blocklist", "/nowhere/list"], "/nowhere/list: No such file"),
    (["http://site.test/", "--private", "--resolve-file", "/nowhere/hosts"], "/nowhere/hosts"),
    (["http://site.test/", "--private", "--rules", "drop-sesions"], "did you mean"),
    (["http://site.test/", "--private", "--max-pages", "-3"], "limits: pages must be at least 0"),
    (["http://site.test/", "--private", "--visits", "0"], "visits must be at least 1"),
    (["http://site.test/", "--private", "--shards", "0"], "1 to 4096 shards"),
    (["http://site.test/", "--private", "--set", "limits.pages=many"], "limits.pages"),
    (["http://site.test/", "--private", "--set", "limits.page=3"], "did you mean 'pages'"),
    (["http://site.test/", "--private", "--set", "limits"], "--set takes option=value"),
    (["http://site.test/", "--private", "--set", "visits=2", "--set", "visits.x=1"], "is a table of options"),
    (["--seeds", "/nowhere/seeds"], "/nowhere/seeds: No such file"),
    ([], "give at least one seed"),
]


@pytest.mark.parametrize(
    ("args", "words"), MISTAKES, ids=[" ".join(args)[-30:] or "-" for args, _ in MISTAKES]
)
def test_a_mistake_gets_one_line_and_touches_nothing(
    args: list[str], words: str, tmp_path: Path, capsys: Capture
) -> None:
    into = tmp_path / "new"
    assert words in refused(capsys, 2, *args, "--into", str(into))
    assert not into.exists() or list(into.iterdir()) == [into / "lock"]


def test_a_mistake_does_not_harm_a_crawl_that_is_there(site: Site, tmp_path: Path, capsys: Capture) -> None:
    into = tmp_path / "c"
    assert main(["crawl", site.url(), "--into", str(into), *FLAGS]) == 0
    capsys.readouterr()
    before = contents(into)
    for args, _ in MISTAKES:
        if args and "0" not in args:  # shards are fixed: --shards is not read again
            refused(capsys, 2, *args, "--into", str(into))
    assert contents(into) == before


def test_no_directory(capsys: Capture) -> None:
    assert "--into DIR" in refused(capsys, 2, "http://example.org/")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seeds = 3", "seeds is a list of URLs"),
        ("[politness]\nwait = 1", "did you mean 'politeness'"),
        ("[politeness]\nwiat = 1", "did you mean 'wait'"),
        ("[limits]\npages = 'many'", "limits.pages"),
        ("limits = 3", "'limits' is a table of options"),
        ("fetch = 3", "'fetch' is a table of options"),
        ("visits = [", "is not valid TOML"),
        ("visits = 3\nvisits = 4", "is not valid TOML"),
        ("scope = {mode = 'galaxy'}", "scope.mode"),
        ("near = 5", "near"),
    ],
)
def test_a_wrong_toml(text: str, words: str, tmp_path: Path, capsys: Capture) -> None:
    toml = tmp_path / "crawl.toml"
    toml.write_text(text)
    into = tmp_path / "new"
    args = [
        "http://site.test/",
        "--private",
        "--config",
        str(toml),
        "--into",
        str(into),
        "--header",
        "X-A: b",
    ]
    assert words in refused(capsys, 2, *args)
    assert not into.exists()


def test_a_toml_that_is_not_there_or_not_text(tmp_path: Path, capsys: Capture) -> None:
    assert "No such file" in refused(capsys, 2, "--config", str(tmp_path / "none.toml"))
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    assert "is not valid TOML" in refused(capsys, 2, "--config", str(tmp_path / "bytes.toml"))


def test_amounts_that_are_none(tmp_path: Path, capsys: Capture) -> None:
    for args in (
        ["--max-bytes", "many"],
        ["--max-time", "soon"],
        ["--max-pages", "ten"],
        ["--no-such-option"],
    ):
        with pytest.raises(SystemExit) as caught:
            main(["crawl", "http://site.test/", "--into", str(tmp_path / "c"), *args])
        assert caught.value.code == 2
        error = capsys.readouterr().err
        assert args[0] in error
        assert len(error.splitlines()) <= 2, "a line of usage and a line of error"


def test_a_directory_of_something_else(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("...")
    before = contents(tmp_path)
    said = refused(capsys, 2, "http://site.test/", "--into", str(tmp_path), *FLAGS)
    assert "holds something else (letters)" in said
    assert contents(tmp_path) == before
    assert not (tmp_path / "lock").exists()


def test_a_file_in_place_of_the_directory(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("mine")
    assert "cannot crawl into" in refused(
        capsys, 2, "http://site.test/", "--into", str(tmp_path / "file"), *FLAGS
    )
    below = str(tmp_path / "file" / "below")
    assert "cannot crawl into" in refused(capsys, 2, "http://site.test/", "--into", below, *FLAGS)


def test_a_directory_that_may_not_be_written(tmp_path: Path, capsys: Capture) -> None:
    """/proc takes no new directories, not even from root."""
    if not Path("/proc/self").exists():
        tmp_path.chmod(0o500)
        into = tmp_path / "crawl"
    else:
        into = Path("/proc/lycosa/crawl")
    code = main(["crawl", "http://site.test/", "--into", str(into), *FLAGS])
    error = capsys.readouterr().err
    assert (code, len(error.splitlines())) == (3, 1)
    assert str(into) in error


def test_a_second_process(site: Site, tmp_path: Path, capsys: Capture) -> None:
    into = tmp_path / "c"
    assert main(["crawl", site.url(), "--into", str(into), *FLAGS]) == 0
    capsys.readouterr()
    lock = DirectoryLock(into)
    before = contents(into)
    said = refused(capsys, 2, site.url(), "--into", str(into), *FLAGS)
    lock.release()
    assert f"in use by process {os.getpid()}" in said
    assert contents(into) == before


# -- damage


@pytest.fixture
def done(site: Site, tmp_path: Path, capsys: Capture) -> Path:
    """A crawl of two runs, hence with two snapshots, in one shard."""
    into = tmp_path / "done"
    for limit in ("9", "18"):
        args = ["--max-pages", limit, "--shards", "1", "--set", "commit_seconds=0.05", *FLAGS]
        assert main(["crawl", site.url(), "--into", str(into), *args]) == 0
    capsys.readouterr()
    assert len(list(into.glob("shards/00/snapshots/*"))) == 2
    return into


def flip(path: Path, at: int) -> None:
    """Change one byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def test_a_damaged_manifest(done: Path, site: Site, capsys: Capture) -> None:
    (done / "crawl.json").write_text('{"format": 1, "crawl"')
    before = contents(done)
    assert "crawl.json is damaged" in refused(capsys, 3, site.url(), "--into", str(done), *FLAGS)
    assert contents(done) == before


def test_a_manifest_of_a_newer_format(done: Path, site: Site, capsys: Capture) -> None:
    manifest = json.loads((done / "crawl.json").read_text())
    manifest |= {"format": FORMAT + 1, "version": "9.9", "unheard": [1]}
    (done / "crawl.json").write_text(json.dumps(manifest))
    before = contents(done)
    said = refused(capsys, 2, site.url(), "--into", str(done), *FLAGS)
    assert f"format {FORMAT + 1}" in said and "9.9" in said
    assert contents(done) == before


def test_a_directory_that_was_brought_from_a_cluster(done: Path, site: Site, capsys: Capture) -> None:
    """The next `cluster fetch` would throw its pages away."""
    manifest = json.loads((done / "crawl.json").read_text())
    (done / "crawl.json").write_text(json.dumps({**manifest, "cluster": True}))
    before = contents(done)
    assert "copy of a cluster's crawl" in refused(capsys, 2, site.url(), "--into", str(done), *FLAGS)
    assert contents(done) == before


def test_a_missing_list_of_suffixes(done: Path, site: Site, capsys: Capture) -> None:
    (done / "public_suffix.dat").unlink()
    assert "public_suffix.dat" in refused(capsys, 3, site.url(), "--into", str(done), *FLAGS)


def test_a_damaged_log_is_told_and_left_as_it_is(done: Path, site: Site, capsys: Capture) -> None:
    """Damage in the middle of what was committed: cutting it off would lose pages without a word."""
    for snapshot in done.glob("shards/00/snapshots/*"):
        snapshot.unlink()  # else recovery would not read that far
    (segment,) = done.glob("shards/00/log/*.seg")
    flip(segment, 200)
    before = contents(done)
    said = refused(capsys, 3, site.url(), "--into", str(done), *FLAGS)
    assert "is damaged at byte" in said and segment.name in said
    after = contents(done)
    assert after.pop("status.json") != before.pop("status.json"), "whoever asks is told"
    assert after == before


@pytest.mark.parametrize("which", [1, 2], ids=["the newest", "both"])
def test_damaged_snapshots_cost_time_and_nothing_else(done: Path, site: Site, which: int) -> None:
    """The older one does, with a longer tail of the log; without any, the whole log does."""
    snapshots = sorted(done.glob("shards/00/snapshots/*"))
    for path in snapshots[-which:]:
        flip(path, path.stat().st_size // 2)
    asked = len(site.paths())
    assert main(["crawl", site.url(), "--into", str(done), *FLAGS]) == 0
    assert len(site.paths()) - asked == COUNT - 18, "nothing is fetched again"
    urls = [row.url for row in fetched(done)]
    assert len(urls) == len(set(urls)) == COUNT


def test_a_torn_tail_is_cut_and_the_crawl_goes_on(done: Path, site: Site) -> None:
    (segment,) = done.glob("shards/00/log/*.seg")
    with segment.open("ab") as file:
        file.write(os.urandom(100))
    assert main(["crawl", site.url(), "--into", str(done), *FLAGS]) == 0
    urls = [row.url for row in fetched(done)]
    assert len(urls) == len(set(urls)) == COUNT


# -- a full disk


FULL = """
import errno, os, pathlib, sys
real, left, below = os.write, int(sys.argv[1]), ""
def take(size, path):
    global left
    left -= size if path.startswith(below) else 0
    if left < 0 and path.startswith(below):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
def write(fd, data):
    if fd > 2:
        take(len(data), os.readlink(f"/proc/self/fd/{fd}") if below else "")
    return real(fd, data)
os.write = write
written = pathlib.Path.write_bytes
def write_bytes(path, data):
    take(len(data), str(path))
    return written(path, data)
pathlib.Path.write_bytes = write_bytes
def posix_fallocate(fd, at, size, real=os.posix_fallocate):
    take(size, os.readlink(f"/proc/self/fd/{fd}") if below else "")
    return real(fd, at, size)
os.posix_fallocate = posix_fallocate
from lycosa.cli.main import main
if not left:
    below = sys.argv[sys.argv.index("--into") + 1]  # the crawl's disk alone is full
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("room", [400_000, 420_000])
def test_a_full_disk(room: int, site: Site, tmp_path: Path, capsys: Capture) -> None:
    """The list of suffixes alone takes some 350 kB; then the log and the archive run out of room."""
    into = tmp_path / "c"
    args = ["crawl", site.url(), "--into", str(into), "--set", "commit_seconds=0.02", *FLAGS]
    with serving(chain(60, size=20_000)) as site:
        args[1] = site.url()
        slow = ["--wait", "10ms", "--pages-per-visit", "1", "--set", "archive.level=0"]
        ran = subprocess.run(
            [sys.executable, "-c", FULL, str(room), *args, *slow], capture_output=True, text=True, timeout=170
        )
        assert ran.returncode == 3, ran.stderr
        assert len(ran.stderr.splitlines()) == 1, ran.stderr
        assert "the disk is full: free some room, then run the same command again" in ran.stderr
        capsys.readouterr()
        assert main(["status", str(into)]) == 0
        assert f"{into}: stopped: the disk was full, " in capsys.readouterr().out
        assert main(args) == 0
    urls = [row.url for row in fetched(into)]
    assert len(urls) == len(set(urls)) == 60


@pytest.mark.skipif(sys.platform != "linux", reason="finds the names of open files in /proc")
def test_a_full_disk_at_a_resume(tmp_path: Path, site: Site, capsys: Capture) -> None:
    """Not a byte more fits: one line, and whoever asks is told why; afterwards the crawl goes on. (Several agents
    write in processes of their own: the next test fills a disk for them.)"""
    done = tmp_path / "c"
    args = ["crawl", site.url(), "--into", str(done), *FLAGS]
    assert main([*args, "--shards", "4", "--max-pages", "5"]) == 0
    args += ["--agents", "1"]
    status = json.loads((done / "status.json").read_text())
    (done / "status.json").write_text(json.dumps({**status, "state": "running"}))  # it was killed
    ran = subprocess.run(
        [sys.executable, "-c", FULL, "0", *args], capture_output=True, text=True, timeout=170, check=False
    )
    assert ran.returncode == 3, ran.stderr
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
    assert "the disk is full" in ran.stderr
    capsys.readouterr()
    assert main(["status", str(done)]) == 0
    assert f"{done}: stopped: the disk was full, " in capsys.readouterr().out
    assert main(args) == 0
    assert len(fetched(done)) == COUNT


DISK = "lycosa-disk-"


@pytest.fixture
def disk() -> Iterator[Path]:
    """A disk of 2 MB. Not below the directories that pytest clears: a run that is killed leaves its disk mounted,
    and the next one takes that away."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounts a small disk")
    place = Path(tempfile.gettempdir(), f"{DISK}{os.getpid()}")
    for left in place.parent.glob(f"{DISK}*"):
        if left == place or not Path("/proc", left.name.removeprefix(DISK)).exists():
            unmount(left)
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(place)], check=False).returncode:
        place.rmdir()
        pytest.skip("no mount here")
    yield place
    unmount(place)


def unmount(place: Path) -> None:
    """At once, and for whoever still has a file open there when that is closed."""
    subprocess.run(["umount", "--lazy", str(place)], check=False, capture_output=True)
    with contextlib.suppress(OSError):
        place.rmdir()


def test_a_disk_that_is_full_or_may_not_be_written(site: Site, disk: Path, capsys: Capture) -> None:
    into = disk / "c"
    args = ["crawl", site.url(), "--into", str(into), "--max-pages", "5", *FLAGS]
    assert main(args) == 0
    with (disk / "ballast").open("wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(b"x" * 1000)
    args[5] = "9"
    for agents in ("1", "2"):
        capsys.readouterr()
        assert "disk is full" in refused(capsys, 3, *args[1:], "--agents", agents)
        assert main(["status", str(into)]) == 0
        assert "stopped: the disk was full" in capsys.readouterr().out
    assert "disk is full" in refused(capsys, 3, site.url(), "--into", str(disk / "new"), *FLAGS)
    (disk / "ballast").unlink()
    assert main(args) == 0
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    capsys.readouterr()
    for where in (into, disk / "other"):
        assert "no permission" in refused(capsys, 3, site.url(), "--into", str(where), *FLAGS)
    assert main(["graph", "build", str(into)]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """A limit of the system (ulimit -f) on the size of a file is such a failure, too."""
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (450_000, 450_000))

    with serving(chain(60, size=20_000)) as site:
        args = ["crawl", site.url(), "--into", str(tmp_path / "c"), "--set", "archive.level=0", *FLAGS]
        command = [sys.executable, "-m", "lycosa.cli.main", *args]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=170, preexec_fn=limit)
        if ran.returncode == 0:
            pytest.fail("the archive stayed below the limit: " + ran.stdout)
        assert ran.returncode == 3, ran.stderr
        assert len(ran.stderr.splitlines()) == 1, ran.stderr
        assert os.strerror(errno.EFBIG) in ran.stderr
        assert main(args) == 0
    assert len(fetched(tmp_path / "c")) == 60


# -- Ctrl-C


def start(args: list[str], until: str) -> subprocess.Popen[str]:
    """Start the command and wait until a line of its progress has that."""
    command = [sys.executable, "-m", "lycosa.cli.main", "crawl", *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    for line in process.stdout:
        if until in line:
            return process
    raise AssertionError(process.stderr.read())


def slow_chain(site: Site, into: Path, *more: str) -> list[str]:
    flags = [flag for flag in FLAGS if flag != "--quiet"]
    return [
        site.url(),
        "--into",
        str(into),
        "--json",
        *flags,
        "--wait",
        "50ms",
        "--pages-per-visit",
        "1",
        *more,
    ]


def wait_for_pages(site: Site, count: int) -> None:
    """Until the site has been asked for so many."""
    while len(site.paths()) < count:
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly_and_the_same_command_goes_on(number: signal.Signals, tmp_path: Path) -> None:
    with serving(chain(200)) as site:
        args = slow_chain(site, tmp_path / "c")
        process = start(args, '"state":"running"')
        wait_for_pages(site, 2)
        process.send_signal(number)
        out, err = process.communicate()
        assert process.returncode == 0
        rows = [json.loads(line) for line in out.splitlines()]
        assert any("stopping" in row.get("note", "") for row in rows)
        assert rows[-1]["state"] == "stopped"
        assert err == ""
        assert not (tmp_path / "c" / "running").exists(), "a clean stop"
        assert 0 < len(fetched(tmp_path / "c")) < 200
        assert main(["crawl", site.url(), "--into", str(tmp_path / "c"), *FLAGS]) == 0
    assert len(fetched(tmp_path / "c")) == 200
    assert len(site.paths()) == len(set(site.paths())) == 200, "nothing was asked for twice"


def test_after_a_signal_the_summary_says_how_to_go_on(tmp_path: Path) -> None:
    with serving(chain(200)) as site:
        args = [arg for arg in slow_chain(site, tmp_path / "c") if arg != "--json"]
        command = [sys.executable, "-m", "lycosa.cli.main", "crawl", *args]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        while "crawling into" not in (line := process.stderr.readline()):
            assert line, "it ended"
        wait_for_pages(site, 2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 0
    assert "stopping" in err
    assert out.startswith("stopped: ")
    assert "run the same command to resume" in out


def test_a_site_that_never_answers_does_not_hold_the_stop_and_a_second_one_ends_at_once(
    tmp_path: Path,
) -> None:
    hanging = Said(b"", delay=60.0)
    table = {"/": page("home", "/hang"), "/hang": hanging}
    with serving(pages(table)) as site:
        process = start(slow_chain(site, tmp_path / "c"), '"pages":1')
        while "/hang" not in site.paths():
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        for line in process.stdout:
            if "stopping" in line:
                break
        time.sleep(0.2)
        assert process.poll() is None, "it gives the fetch under way some time"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        assert process.returncode == 130
        assert err.splitlines() == ["lycosa crawl: ended at once; run the same command to resume"]
        table["/hang"] = page("awake")
        assert main(["crawl", site.url(), "--into", str(tmp_path / "c"), *FLAGS]) == 0
    assert [row.url for row in fetched(tmp_path / "c")] == [site.url(), site.url("/hang")]


# -- the guard, by default


def test_loopback_is_refused_unless_allowed(site: Site, tmp_path: Path, capsys: Capture) -> None:
    flags = [flag for flag in FLAGS if flag not in ("--allow", "127.0.0.0/8")]
    args = ["crawl", site.url(), f"http://127.0.0.1:{site.port}/", f"http://localhost:{site.port}/"]
    assert main([*args, "--into", str(tmp_path / "c"), *flags]) == 1
    assert site.asked == []
    assert "skipped: address 3" in capsys.readouterr().out
    skipped = [row for row in records(tmp_path / "c") if isinstance(row, Skipped)]
    assert {row.why for row in skipped} == {Why.ADDRESS}


def test_every_record_of_a_crawl_is_well_formed(site: Site, tmp_path: Path) -> None:
    assert main(["crawl", site.url(), "--into", str(tmp_path / "c"), *FLAGS]) == 0
    rows = records(tmp_path / "c")
    assert len([row for row in rows if isinstance(row, Fetched)]) == COUNT
    assert all(msgspec.msgpack.decode(msgspec.msgpack.encode(row), type=type(row)) == row for row in rows)


# -- the screen


def a_status(**fields: object) -> Status:
    known: dict[str, object] = dict.fromkeys(Status.__struct_fields__, 0)
    known |= {"state": "running", "meters": {}, "statuses": {"2xx": 40, "4xx": 2}, "skipped": {"robots": 7}}
    known |= {"errors": {"timeout": 3}, "elapsed": 12.5, "pages": 42, "bytes": 1_500_000, "rss": 90_000_000}
    return Status(**{**known, **fields})  # type: ignore[arg-type]


def panel(width: int, **fields: object) -> str:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(Panel("lycosa · here", console).made(a_status(**fields), speed=2.0))
    return captured.get()


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_hides_no_number(width: int) -> None:
    big = {"pages": 12_345_678, "bytes": 9_876_500_000, "pending": 23_456_789, "left_behind": 345_678}
    shown = panel(width, **big, page_limit=20_000_000, deferred=45_678, visits=256, hosts=567_890)
    assert all(len(line) <= width for line in shown.splitlines())
    assert "…" not in shown
    for words in (
        "pages 12,345,678",
        "bytes 9.9 GB",
        "pending 23,456,789",
        "left behind 345,678",
        "deferred 45,678",
        "visits 256 at 567,890 hosts",
        "elapsed 12s",
        "pages/s 2.0",
        "2xx 40",
        "5xx 0",
    ):
        assert words in shown, words


def test_the_screen_counts_in_plain_words() -> None:
    shown = panel(120, hosts=1, page_limit=1, meters={"scorer.failed": 1.0})
    assert "at 1 host" in shown and "hosts" not in shown
    assert "42 of 1 page, about 0.0s left" in shown.splitlines()[-1].strip()
    assert "scorer failed 1 time: " in shown
    assert "scorer" not in panel(120)


def test_the_live_panel_shows_what_was_promised() -> None:
    shown = panel(120, page_limit=100, pending=1234, deferred=5, visits=6, hosts=7)
    for words in (
        "pages 42",
        "pages/s 2.0",
        "1.5 MB",
        "pending 1,234",
        "deferred 5",
        "6 at 7 hosts",
        "4xx 2",
    ):
        assert words in " ".join(shown.split()), words
    assert "timeout 3" in shown and "robots 7" in shown
    assert "42 of 100 pages, about 29s left" in shown


def test_speed_is_that_of_the_last_seconds() -> None:
    speed = Speed()
    assert speed.add(a_status(elapsed=0.0, pages=0)) == 0.0
    assert speed.add(a_status(elapsed=10.0, pages=100)) == 10.0
    for second in range(11, 30):
        last = speed.add(a_status(elapsed=float(second), pages=100 + (second - 10) * 5))
    assert last == 5.0


@pytest.mark.parametrize(
    ("json_lines", "quiet", "terminal", "mode"),
    [
        (True, True, True, "json"),
        (False, True, True, "quiet"),
        (False, False, True, "live"),
        (False,) * 3 + ("lines",),
    ],
)
def test_how_progress_is_shown(json_lines: bool, quiet: bool, terminal: bool, mode: str) -> None:
    assert choose_mode(json_lines, quiet, lambda: terminal) == mode


@pytest.mark.parametrize(
    ("text", "value"),
    [("4096", 4096), ("64k", 64_000), ("10MB", 10**7), ("1.5GiB", 3 << 29), (" 2 kb ", 2000)],
)
def test_sizes(text: str, value: int) -> None:
    assert size(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("90", 90), ("1.5s", 1.5), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("50ms", 0.05)],
)
def test_durations(text: str, value: float) -> None:
    assert duration(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "many", "10XB", "-5", "1.2.3", "5 parsecs", "0x10", "1e3", "NaN"])
def test_what_is_no_amount(text: str) -> None:
    for kind in (size, duration):
        with pytest.raises(argparse.ArgumentTypeError, match="write"):
            kind(text)
