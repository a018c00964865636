"""One connection a visit and one an address, seen from the server's side."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lycosa.cluster.api import Crawl
from lycosa.crawl.agent import End
from tests.crawl.counted import Counted, Say, counted, page

WAIT = 0.25
LINKS = b"".join(b"<a href=/p%d>x</a>" % n for n in range(4))
CLOSINGS: dict[str, tuple[bytes, tuple[bytes, ...], bool]] = {
    "HTTP/1.0": (b"HTTP/1.0", (), False),
    "close": (b"HTTP/1.1", (b"Connection: close",), False),
    "a list": (b"HTTP/1.1", (b"Connection: close, x",), False),
    "a list the other way": (b"HTTP/1.1", (b"Connection: x,  Close",), False),
    "two lines": (b"HTTP/1.1", (b"Connection: x", b"Connection: close"), False),
    "said but not done": (b"HTTP/1.1", (b"Connection: close, x",), True),
    "done but not said": (b"HTTP/1.1", (), False),
    "kept alive and closed": (b"HTTP/1.0", (b"Connection: keep-alive",), False),
}


def saying(version: bytes, lines: tuple[bytes, ...], stays: bool) -> Say:
    def say(path: str, head: bytes) -> tuple[bytes, bool]:
        return page(b"" if path == "/robots.txt" else LINKS, *lines, version=version), stays

    return say


def crawl(into: Path, site: Counted, names: dict[str, str], agents: int = 1, **politeness: Any) -> End:
    async def go() -> End:
        made = Crawl(
            [f"http://{name}:{site.port}/" for name in names],
            into=into,
            agents=agents,
            public=False,
            allow=["private"],
            scope={"mode": "host"},
            dns={"resolve": [f"{name}:{address}" for name, address in names.items()]},
            politeness={"wait": WAIT, "factor": 0.0, "address_wait": 0.05, **politeness},
        )
        return await made.wait()

    return asyncio.run(go())


@pytest.mark.parametrize("how", CLOSINGS)
def test_where_the_server_closes_each_new_connection_waits_its_turn(tmp_path: Path, how: str) -> None:
    with counted(saying(*CLOSINGS[how])) as site:
        assert crawl(tmp_path, site, {"a.test": "127.0.0.2"}) is End.FINISHED
    assert sorted(site.asked) == sorted(
        [("a.test", "/robots.txt"), ("a.test", "/"), *(("a.test", f"/p{n}") for n in range(4))]
    ), "each once"
    assert site.most == {"127.0.0.2": 1}
    assert len(site.times) == 6, "and each over a connection of its own"
    opened = sorted(start for _, start, _ in site.times)
    assert opened[-1] - opened[0] >= 5 * WAIT / 2, "five waits lie between them; half of it were late looks"


def test_a_kept_connection_serves_a_visit_and_ends_with_it(tmp_path: Path) -> None:
    with counted(saying(b"HTTP/1.1", (), True)) as site:
        assert crawl(tmp_path, site, {"a.test": "127.0.0.2"}, pages_per_visit=3) is End.FINISHED
    assert site.most == {"127.0.0.2": 1}
    assert [site.requests[number] for number in sorted(site.requests)] == [3, 3]


@pytest.mark.parametrize("agents", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_hosts_of_one_address_never_have_two_sockets_open(tmp_path: Path, agents: int) -> None:
    """Neither in one agent nor in two, idle ones included."""
    names = {f"h{n}.t{n}.test": "127.0.0.2" for n in range(6)}
    with counted(saying(b"HTTP/1.1", (), True)) as site:
        assert crawl(tmp_path, site, names, agents, pages_per_visit=2) is End.FINISHED
    assert len(site.asked) == 6 * 6
    assert site.most == {"127.0.0.2": 1}
