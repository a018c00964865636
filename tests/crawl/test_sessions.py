"""Sessions: a crawl that logs in by a form, keeps its cookies, and says nothing of its secrets."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

import lycosa
from lycosa.cli.main import main
from lycosa.crawl.acts import applied
from lycosa.crawl.agent import build
from lycosa.crawl.config import Options, read_options
from lycosa.crawl.sessions import looks_like_logout
from lycosa.crawl.steering import new_act
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles
from lycosa.records import Fetched, Skipped, Why
from tests.crawl.recorded import MISSING, OPTIONS, Asked, Said, Site, page, records, serving

PASSWORD = "p&ss w\u00f6rd-1"
HTML = ("Content-Type", "text/html; charset=utf-8")


class Club:
    """A site for members: a login with a token against forged requests, and a session that may end."""

    def __init__(self, lives: int = 1_000_000) -> None:
        self.lives = lives  # pages until a session ends
        self.logins = 0
        self.sessions: dict[str, int] = {}
        self.forbidden: set[str] = set()

    def __call__(self, asked: Asked) -> Said:
        path = asked.path.partition("?")[0]
        cookies = dict(part.split("=", 1) for part in asked.headers.get("cookie", "").split("; ") if part)
        if path == "/robots.txt":
            assert not cookies
            return Said(b"User-agent: *\nDisallow: /login\n")
        if path == "/login":
            return self._login(asked, cookies)
        if path == "/logout":
            self.sessions.clear()
            return page("bye")
        mine = cookies.get("sid", "")
        if self.sessions.get(mine, 0) <= 0 or path in self.forbidden:
            return Said(b"", 302, (("Location", f"/login?next={path}"),))
        self.sessions[mine] -= 1
        if path == "/":
            return page("home", "/1", "/2", "/3", "/logout", "/private")
        return page(path, "/", "/sign-out") if path[1:].isdigit() or path == "/private" else MISSING

    def _login(self, asked: Asked, cookies: dict[str, str]) -> Said:
        form = (
            '<form action="/search"><input name=q></form>'
            '<form method=post action="/login"><input type=hidden name=csrf value="tok3n-1">'
            "<input name=user><input type=password name=pass><button name=go value=1>Log in</button></form>"
        )
        if asked.form is None:
            return Said(form.encode(), 200, (HTML, ("Set-Cookie", "pre=tok3n-1; HttpOnly")))
        sent = {name: value[0] for name, value in parse_qs(asked.form.decode()).items()}
        self.logins += 1
        if cookies.get("pre") != "tok3n-1" or sent != {
            "csrf": "tok3n-1",
            "go": "1",
            "user": "me",
            "pass": PASSWORD,
        }:
            return Said(form.encode())
        name = f"sid-secret-{self.logins}"
        self.sessions[name] = self.lives
        return Said(b"", 303, (("Location", "/"), ("Set-Cookie", f"sid={name}; Path=/")))


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYCOSA_SECRET_CLUB", PASSWORD)


def table(site: Site, **more: Any) -> dict[str, Any]:
    login = {
        "page": site.url("/login"),
        "fields": {"user": "me"},
        "secrets": {"pass": "env:LYCOSA_SECRET_CLUB"},
    }
    return {"site.test": {"login": {**login, **more.pop("login", {})}, **more}}


def crawl(site: Site, into: Path, tables: dict[str, Any], told: list[str] | None = None) -> None:
    async def go() -> None:
        options = read_options({**OPTIONS, "site": tables})
        heard = None if told is None else told.append
        await build(DiskFiles(into), options, [site.url()], shards=1, told=heard).run()

    asyncio.run(go())


def outcomes(into: Path) -> dict[str, str]:
    """What became of each path: its last status, or why it was skipped."""
    found = {}
    for row in records(into):
        if isinstance(row, Fetched):
            found["/" + row.url.split("/", 3)[3]] = str(row.status)
        elif isinstance(row, Skipped):
            found["/" + row.url.split("/", 3)[3]] = row.why.value
    return found


def everything(into: Path) -> bytes:
    """All that the crawl wrote: files as they are, and what is packed in them."""
    held = [repr(records(into)).encode()]
    for path in into.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            held.append(gzip.decompress(data) if path.suffix == ".gz" else data)
    return b"".join(held)


@pytest.mark.usefixtures("secret")
def test_a_login_opens_the_site_and_leaves_no_trace(tmp_path: Path) -> None:
    club = Club()
    with serving(club) as site:
        crawl(site, tmp_path, table(site))
    assert club.logins == 1
    found = outcomes(tmp_path)
    assert found == {
        **dict.fromkeys(("/", "/1", "/2", "/3", "/private"), "200"),
        **dict.fromkeys(("/logout", "/sign-out"), "login"),
    }
    (why, *_) = [row for row in records(tmp_path) if isinstance(row, Skipped)]
    assert why.why is Why.LOGIN and "looks like a logout" in why.detail
    written = everything(tmp_path)
    assert b"<title>/private" in written and b"Cookie: ..." in written
    for text in (PASSWORD.encode(), b"p%26ss", b"sid-secret", b"tok3n-1"):
        assert text not in written, text


@pytest.mark.usefixtures("secret")
def test_a_session_that_ends_is_begun_again(tmp_path: Path) -> None:
    club = Club(lives=2)
    with serving(club) as site:
        crawl(site, tmp_path, table(site))
    assert club.logins > 1
    assert [path for path, status in outcomes(tmp_path).items() if status == "200"] == [
        "/",
        "/1",
        "/2",
        "/3",
        "/private",
    ]


@pytest.mark.usefixtures("secret")
def test_a_page_that_never_opens_does_not_log_in_for_ever(tmp_path: Path) -> None:
    club = Club()
    club.forbidden = {"/1", "/2", "/3", "/private"}
    with serving(club) as site:
        crawl(site, tmp_path, table(site, login={"attempts": 2}))
    assert club.logins == 3, "the first, and two in vain"
    assert {outcomes(tmp_path)[path] for path in club.forbidden} == {"302"}


def test_a_wrong_password_is_said_once_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LYCOSA_SECRET_CLUB", "a-wrong-one")
    club, told = Club(), list[str]()
    with serving(club) as site:
        crawl(site, tmp_path, table(site), told)
    assert club.logins == 1
    assert outcomes(tmp_path) == {"/": "login"}
    (line,) = [line for line in told if "login" in line]
    assert line.startswith("no login at site.test: the site asks for the password again")
    assert b"a-wrong-one" not in everything(tmp_path) + repr(told).encode()


def test_cookies_are_kept_for_their_host_and_for_later_runs(tmp_path: Path) -> None:
    """Without a login: a host's own cookies go back to it, and to no other."""
    seen: list[tuple[str, str, str]] = []

    def answer(asked: Asked) -> Said:
        host = asked.host.partition(":")[0]
        seen.append((host, asked.path, asked.headers.get("cookie", "")))
        body = page("p", f"http://two.test:{site.port}/", "/next")
        more = ("Set-Cookie", f"at={host}; Domain=test"), ("Set-Cookie", "no=1; Domain=evil.example")
        return body._replace(headers=(HTML, *more)) if asked.path == "/" else body

    with serving(answer) as site:
        options = {**OPTIONS, "robots": {"obey": False}, "scope": {"mode": "any"}}
        tables: dict[str, Any] = {"*.test": {"cookies": "kept"}}
        lycosa.Crawl([site.url(host="one.test")], into=tmp_path, site=tables, **options).run()
        first = {(host, path): cookie for host, path, cookie in seen}
        lycosa.Crawl([site.url("/more", host="one.test")], into=tmp_path, site=tables, **options).run()
    assert first == {
        ("one.test", "/"): "",
        ("two.test", "/"): "",
        ("one.test", "/next"): "at=one.test",
        ("two.test", "/next"): "at=two.test",
    }
    assert seen[-1] == ("one.test", "/more", "at=one.test"), "the second run has the first one's"


@pytest.mark.parametrize(
    ("login", "words"),
    [
        ({"page": "http://other.test/login"}, "a URL of the host"),
        ({"secrets": {}}, "login.secrets says where"),
        ({"secrets": {"pass": "secret"}}, "env:LYCOSA_SECRET_"),
        ({"secrets": {"pass": "env:HOME"}}, "env:LYCOSA_SECRET_"),
        ({"secrets": {"pass": "file:../x"}}, "file:NAME"),
        ({"pgae": "x"}, "pgae"),
    ],
)
def test_mistakes(login: dict[str, Any], words: str) -> None:
    right = {"page": "http://a.test/login", "secrets": {"pass": "env:LYCOSA_SECRET_X"}}
    with pytest.raises(ConfigError, match=words):
        read_options({"public": False, "site": {"a.test": {"login": {**right, **login}}}})


def test_a_secret_that_is_missing_is_heard_of_at_the_start(tmp_path: Path) -> None:
    tables: Any = {
        "a.test": {"login": {"page": "http://a.test/login", "secrets": {"pass": "env:LYCOSA_SECRET_MISSING"}}}
    }
    with pytest.raises(ConfigError, match="the environment has no LYCOSA_SECRET_MISSING"):
        lycosa.Crawl(["http://a.test/"], into=tmp_path / "c", site=tables, **OPTIONS).run()
    assert not (tmp_path / "c" / "crawl.json").exists()


@pytest.mark.usefixtures("secret")
def test_a_directory_alone_does_not_log_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Club()) as site:
        crawl(site, tmp_path, table(site))
    assert main(["crawl", "--into", str(tmp_path)]) == 2
    assert "logs in at site.test with secrets of yours" in capsys.readouterr().err


def test_whoever_steers_a_crawl_does_not_send_its_secrets_elsewhere() -> None:
    login = '{page = "http://evil.test/", secrets = {p = "env:LYCOSA_SECRET_CLUB"}}'
    act = new_act("set", (f'site={{"evil.test" = {{login = {login}}}}}',))
    with pytest.raises(ConfigError, match="a login cannot be changed"):
        applied(Options(public=False), act)
    held = new_act("set", ('site={"evil.test" = {hold = true}}',))
    assert applied(Options(public=False), held).site["evil.test"].hold


def test_what_looks_like_a_logout() -> None:
    out = ["/logout", "/user/sign_out?x=1", "/?action=logout", "/log-off.php", "/Account/LogOff", "/signout/"]
    stay = ["/blog/outdoor", "/login", "/catalog/out", "/signs/outside", "/?q=logouts"]
    assert [path for path in out if not looks_like_logout("http://a.test" + path)] == []
    assert [path for path in stay if looks_like_logout("http://a.test" + path)] == []
