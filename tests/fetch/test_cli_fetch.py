"""`lycosa fetch` from the outside: what it prints, where, and with which exit code."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from lycosa.cli.main import main

from .servers import Answer, Handler, name_server, read_head, serving

PAGE = b"<p>hello"
ROBOTS = b"User-agent: *\nDisallow: /private\nCrawl-delay: 7\nSitemap: http://site.test/map.xml\n"


def web(
    robots: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(ROBOTS), ROBOTS),
) -> Handler:
    """A small site; `robots` is the whole answer for its robots.txt."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            path = (await read_head(reader)).split()[1]
            if path == b"/robots.txt":
                writer.write(robots)
            elif path == b"/moved":
                writer.write(b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n")
            elif path == b"/evil":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: a\x1b[2Jb\r\nContent-Length: 0\r\n\r\n")
            elif path == b"/gone":
                writer.close()
                return
            else:
                body = gzip.compress(PAGE)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n")
                writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()

    return handler


Run = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    async def run(*argv: str) -> tuple[int, str, str]:
        capfdbinary.readouterr()
        code = await asyncio.to_thread(main, ["fetch", *argv])
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


LOCAL = ("--resolve", "*.test:127.0.0.1", "--allow", "private")


async def test_every_step_is_shown(run: Run) -> None:
    async with serving(web()) as site:
        code, out, err = await run(*LOCAL, site.url("/page"))
    assert code == 0 and err == ""
    steps = [line.split()[1] for line in out.splitlines()]
    assert steps == ["url", "dns", "guard", "robots", "http"]
    assert all(" ms  " in line for line in out.splitlines())
    assert "127.0.0.1 may be asked" in out
    assert "allowed: no rule applies; Crawl-delay 7 s" in out
    assert "HTTP/1.1 200, text/html" in out and "8 decoded" in out


async def test_json_has_it_all(run: Run) -> None:
    async with serving(web()) as site:
        code, out, err = await run(*LOCAL, "--json", "--user-agent", "me/1", site.url("/page"))
    assert code == 0 and err == ""
    found = json.loads(out)
    assert [step["step"] for step in found["steps"]] == ["url", "dns", "guard", "robots", "http"]
    assert all(step["ok"] and step["ms"] >= 0 for step in found["steps"])
    assert found["steps"][3]["crawl_delay"] == 7
    assert found["response"]["status"] == 200
    assert ["Content-Type", "text/html"] in found["response"]["headers"]
    assert "User-Agent: me/1" in found["response"]["request"]


async def test_the_body_alone_and_the_head_alone(run: Run) -> None:
    async with serving(web()) as site:
        code, out, err = await run(*LOCAL, "--body", site.url("/page"))
        assert (code, out) == (0, PAGE.decode())
        assert "robots" in err
        code, out, err = await run(*LOCAL, "--head", site.url("/page"))
        assert code == 0 and out.startswith("HTTP/1.1 200 OK\r\n") and out.endswith("\r\n\r\n")


async def test_robots_says_no(run: Run) -> None:
    async with serving(web()) as site:
        code, out, err = await run(*LOCAL, site.url("/private/x"))
        assert code == 1
        assert err == "lycosa fetch: robots: not allowed by line 2: Disallow: /private; Crawl-delay 7 s\n"
        assert "http " not in out.split("✓")[-1]
        code, out, err = await run(*LOCAL, "--no-robots", site.url("/private/x"))
        assert code == 0 and err == ""
        assert "not allowed by line 2" in out and "HTTP/1.1 200" in out


async def test_robots_that_are_missing_broken_or_elsewhere(run: Run) -> None:
    async with serving(web(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")) as site:
        code, out, _ = await run(*LOCAL, site.url("/private"))
        assert code == 0 and "allowed: no robots.txt (status 404)" in out
    async with serving(web(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")) as site:
        code, _, err = await run(*LOCAL, site.url("/page"))
        assert code == 4 and "robots.txt could not be fetched" in err and err.count("\n") == 1
        code, out, _ = await run(*LOCAL, "--no-robots", site.url("/page"))
        assert code == 0
    async with serving(web()) as real:
        there = f"http://other.test:{real.port}/robots.txt".encode()
        moved = b"HTTP/1.1 301 Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % there
        async with serving(web(moved)) as site:
            code, out, err = await run(*LOCAL, site.url("/private"))
            assert code == 1 and "Disallow: /private" in err
            assert "other.test" in out  # its address was looked up and checked too


async def test_a_redirect_of_robots_to_a_refused_address_stops_there(run: Run) -> None:
    moved = b"HTTP/1.1 301 Moved\r\nLocation: http://169.254.169.254/robots.txt\r\nContent-Length: 0\r\n\r\n"
    async with serving(web(moved)) as site:
        code, _, err = await run(*LOCAL, site.url("/page"))
    assert code == 1
    assert "metadata" in err


async def test_networks_are_named_as_in_a_crawl(run: Run) -> None:
    where = ("--resolve", "site.test:127.0.0.1")
    async with serving(web()) as site:
        for allowed in (("--allow", "private"), ("--allow", "127.0.0.0/8"), ("--allow-private",)):
            code, _, err = await run(*where, *allowed, "--only-network", "127.0.0.1", site.url("/page"))
            assert (code, err) == (0, ""), allowed
        seen = site.connections
        code, _, err = await run(
            *where, "--allow", "private", "--only-network", "10.0.0.0/8", site.url("/page")
        )
        assert (code, err) == (1, "lycosa fetch: guard: 127.0.0.1 is outside of --only-network 10.0.0.0/8\n")
        code, _, err = await run("--allow", "private", "--only-network", "127.0.0.1", "http://far.example/")
        assert code == 4 and "not looked up: --only-network" in err and err.count("\n") == 1
        assert site.connections == seen


async def test_the_guard_says_no(run: Run) -> None:
    async with serving(web()) as site:
        code, _, err = await run("--resolve", "site.test:127.0.0.1", site.url("/page"))
        assert code == 1
        assert err.startswith("lycosa fetch: guard: 127.0.0.1 is in 127.0.0.0/8 (loopback)")
        assert site.connections == 0


async def test_the_name_does_not_exist(run: Run) -> None:
    async with name_server() as names:
        names.names["here.test"] = [Answer(("127.0.0.1",))]
        code, _, err = await run("--nameserver", f"127.0.0.1:{names.port}", "http://no.test/")
        assert code == 4
        assert err.startswith("lycosa fetch: dns: no.test: nxdomain")
        async with serving(web()) as site:
            where = ("--nameserver", f"127.0.0.1:{names.port}", "--allow", "private")
            code, _, _ = await run(*where, site.url("/page", host="here.test"))
            assert code == 0


async def test_the_site_fails(run: Run) -> None:
    async with serving(web()) as site:
        code, _, err = await run(*LOCAL, site.url("/gone"))
    assert code == 4
    assert err.startswith("lycosa fetch: http: empty:") and err.count("\n") == 1


async def test_redirects_are_shown_not_followed(run: Run) -> None:
    async with serving(web()) as site:
        code, out, _ = await run(*LOCAL, site.url("/moved"))
    assert code == 0
    assert f"redirects to http://site.test:{site.port}/there" in out


async def test_robots_that_redirect_where_no_connection_is_kept(run: Run) -> None:
    """The server answers once on a connection, and closes it when it is asked again."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await read_head(reader)).split()[1]
        if path == b"/robots.txt":
            writer.write(b"HTTP/1.1 302 Found\r\nLocation: /rules\r\nContent-Length: 0\r\n\r\n")
        else:
            body = b"User-agent: *\nDisallow: /no\n"
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        await read_head(reader)

    async with serving(handler) as site:
        code, _, err = await run(*LOCAL, site.url("/no"))
        assert (code, err) == (1, "lycosa fetch: robots: not allowed by line 2: Disallow: /no\n")
        assert (await run(*LOCAL, site.url("/yes")))[0] == 0


async def test_nothing_a_site_sends_reaches_the_terminal_raw(run: Run) -> None:
    async with serving(web()) as site:
        code, out, err = await run(*LOCAL, site.url("/evil"))
    assert code == 0
    assert "\x1b[2J" not in out + err


async def test_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    code, out, _ = await run(f"file://{tmp_path}/a.txt")
    assert code == 0 and "text/plain, 4 bytes" in out


@pytest.mark.parametrize(
    "argv",
    [
        ["nonsense:x"],
        ["http://"],
        ["--timeout", "0", "http://a.test/"],
        ["--resolve", "oops", "http://a.test/"],
        ["--header", "oops", "http://127.0.0.1:1/"],
        ["--nameserver", "oops", "http://a.test/"],
    ],
)
async def test_mistakes_get_one_line(run: Run, argv: list[str]) -> None:
    code, _, err = await run(*argv)
    assert code == 2
    assert err.startswith("lycosa fetch: ") and err.count("\n") == 1
