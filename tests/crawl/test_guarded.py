"""The guard in a whole crawl: what is not public is never connected to, whatever names and pages say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from lycosa.crawl.agent import End, build
from lycosa.crawl.config import read_options
from lycosa.fetch.dns import DnsFailure, Resolution, Resolver
from lycosa.files import DiskFiles
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import Reply
from lycosa.records import Robots, Skipped, Why
from lycosa.url.parts import host_of
from tests.crawl.little import Ran, html, moved
from tests.crawl.little import crawl as crawl_little
from tests.crawl.recorded import Answer, Asked, Said, Site, fetched, page, records, serving

PUBLIC = "192.0.32.8"
"""A public address, which only the scripted network ever hears of."""


def crawl(pages: Mapping[str, object], seeds: list[str], names: Mapping[str, str] | Resolver) -> Ran:
    """On the scripted network, with the guard as it is by default."""
    return crawl_little(FaultyFiles(), pages, seeds, names=names, allow=[])  # type: ignore[arg-type]


REFUSED = [
    "127.0.0.1",
    "127.255.1.2",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "fe80::1",
    "fd00::1",
    "::ffff:127.0.0.1",
    "64:ff9b::7f00:1",
]


@pytest.mark.parametrize("address", REFUSED)
def test_a_name_of_a_private_address_is_skipped(address: str) -> None:
    ran = crawl({}, ["http://inside.test/"], {"inside.test": address})
    assert ran.end is End.FINISHED
    assert ran.sent == []
    (skipped,) = [row for row in ran.records if isinstance(row, Skipped)]
    assert skipped.why is Why.ADDRESS
    assert address in skipped.detail, "and the record says which"


def test_a_public_address_is_asked() -> None:
    ran = crawl({"http://out.test/": html()}, ["http://out.test/"], {"out.test": PUBLIC})
    assert ran.fetched == {"http://out.test/": 200}
    assert {row.address for row in ran.sent} == {PUBLIC}


def test_links_and_redirects_into_the_private_network_are_refused() -> None:
    names = {"out.test": PUBLIC, "inside.test": "10.0.0.1", "meta.test": "169.254.169.254"}
    pages = {
        "http://out.test/": html("http://inside.test/admin", "/go"),
        "http://out.test/go": moved("http://meta.test/latest/meta-data/"),
    }
    ran = crawl(pages, ["http://out.test/"], names)
    assert {row.address for row in ran.sent} == {PUBLIC}
    assert ran.skipped == {
        "http://inside.test/admin": Why.ADDRESS,
        "http://meta.test/latest/meta-data/": Why.ADDRESS,
    }


def test_robots_that_redirect_into_the_private_network_are_not_followed() -> None:
    names = {"out.test": PUBLIC, "inside.test": "10.0.0.1"}
    pages = {"http://out.test/": html(), "http://out.test/robots.txt": moved("http://inside.test/robots.txt")}
    ran = crawl(pages, ["http://out.test/"], names)
    assert {row.address for row in ran.sent} == {PUBLIC}
    assert ran.fetched == {}, "rules that cannot be had forbid"
    assert all("inside.test" in row.detail for row in ran.records if isinstance(row, Robots))


@pytest.mark.parametrize("scope", [{"blocklist": [".bad.test"]}, {"exclude_domains": ["bad.test"]}])
def test_robots_that_redirect_to_an_excluded_host_are_not_followed(scope: dict[str, object]) -> None:
    pages = {
        "http://out.test/": html(),
        "http://out.test/robots.txt": moved("http://x.bad.test/robots.txt"),
        "http://x.bad.test/robots.txt": Reply(b"", 404),
    }
    ran = crawl_little(FaultyFiles(), pages, ["http://out.test/"], scope={"mode": "any", **scope})
    assert {host_of(row.url) for row in ran.sent} == {"out.test"}
    assert ran.fetched == {}, "rules that cannot be had forbid"
    assert all("x.bad.test" in row.detail for row in ran.records if isinstance(row, Robots))


@pytest.mark.parametrize(
    "to", ["http://127.0.0.1:22/", "http://[::1]/robots.txt", "//169.254.169.254/latest"]
)
def test_robots_that_redirect_to_a_private_address_are_not_followed(to: str) -> None:
    class Literal:
        async def resolve(self, host: str) -> Resolution | DnsFailure:
            return Resolution((PUBLIC if host == "out.test" else host.strip("[]"),), 0.0)

        async def close(self) -> None:
            """There is nothing to close."""

    pages = {"http://out.test/": html(), "http://out.test/robots.txt": moved(to)}
    ran = crawl(pages, ["http://out.test/"], Literal())
    assert {row.address for row in ran.sent} == {PUBLIC}
    assert ran.fetched == {}


def test_robots_that_redirect_to_another_port_stay_at_the_checked_address() -> None:
    pages = {
        "http://out.test/": html("/secret"),
        "http://out.test/robots.txt": moved("http://out.test:8080/robots.txt"),
        "http://out.test:8080/robots.txt": Reply(b"User-agent: *\nDisallow: /secret"),
    }
    ran = crawl(pages, ["http://out.test/"], Rebinding([(PUBLIC,), (PUBLIC,), ("127.0.0.1",)]))
    assert {row.address for row in ran.sent} == {PUBLIC}, "the name is not asked for another one"
    assert ran.fetched == {"http://out.test/": 200}  # by the next visit: another port is another connection


def test_a_name_that_robots_redirect_to_is_judged_each_time() -> None:
    class Turning:
        asked = 0

        async def resolve(self, host: str) -> Resolution | DnsFailure:
            if host == "out.test":
                return Resolution((PUBLIC,), 0.0)
            self.asked += 1
            return Resolution((PUBLIC if self.asked == 1 else "10.0.0.1",), 0.0)

        async def close(self) -> None:
            """There is nothing to close."""

    names = Turning()
    pages = {
        "http://out.test/": html(),
        "http://out.test/robots.txt": moved("http://turn.test/robots.txt"),
        "http://turn.test/robots.txt": Reply(b"", 500),
    }
    ran = crawl(pages, ["http://out.test/"], names)
    assert names.asked == 3, "once an attempt"
    assert {row.address for row in ran.sent} == {PUBLIC}
    assert ran.urls.count("http://turn.test/robots.txt") == 1
    assert (
        "no address that may be asked" in [row for row in ran.records if isinstance(row, Robots)][-1].detail
    )


class Rebinding:
    """A name that answers with a public address first, and with a private one ever after."""

    def __init__(self, answers: list[tuple[str, ...]]) -> None:
        self._answers = answers
        self.asked = 0

    async def resolve(self, host: str) -> Resolution | DnsFailure:
        answer = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        return Resolution(answer, 0.0)

    async def close(self) -> None:
        """There is nothing to close."""


def test_a_name_that_changes_its_answer_is_judged_anew_each_time() -> None:
    names = Rebinding([(PUBLIC,), (PUBLIC,), ("127.0.0.1",)])
    pages = {"http://turn.test/": html(*(f"/p{n}" for n in range(40)))}
    ran = crawl(pages, ["http://turn.test/"], names)
    assert names.asked >= 3
    assert {row.address for row in ran.sent} == {PUBLIC}
    assert 1 < len(ran.fetched) < 41
    assert set(ran.skipped.values()) == {Why.ADDRESS}
    assert len(ran.fetched) + len(ran.skipped) == 41, "each has its answer"


def test_of_several_addresses_only_the_allowed_is_asked() -> None:
    names = Rebinding([("127.0.0.1", "10.0.0.1", PUBLIC)])
    ran = crawl({"http://mixed.test/": html()}, ["http://mixed.test/"], names)
    assert {row.address for row in ran.sent} == {PUBLIC}
    assert ran.fetched == {"http://mixed.test/": 200}


def test_addresses_in_urls_are_judged_like_names() -> None:
    """However they are written: the canonical form of each of these is 127.0.0.1."""
    seeds = ["http://127.0.0.1/", "http://2130706433/a", "http://0x7f.1/b", "http://[::ffff:7f00:1]/c"]

    class Literal:
        async def resolve(self, host: str) -> Resolution | DnsFailure:
            return Resolution((host.strip("[]"),), 0.0)

        async def close(self) -> None:
            """There is nothing to close."""

    ran = crawl({}, seeds, Literal())
    assert ran.sent == []
    assert len(ran.skipped) == 4 and set(ran.skipped.values()) == {Why.ADDRESS}


# -- over real sockets: 127.0.0.2 is allowed and stands for the public web, 127.0.0.3 is not


@contextmanager
def two_sites(answer: Answer) -> Iterator[tuple[Site, Site]]:
    """An allowed site and a forbidden one, on the same port of two addresses of loopback."""
    with (
        serving(answer, "127.0.0.2") as allowed,
        serving(lambda asked: page("forbidden"), "127.0.0.3", allowed.port) as refused,
    ):
        yield allowed, refused


def run(into: Path, site: Site, seeds: list[str], resolver: Resolver | None = None, **more: object) -> End:
    options = {
        "public": False,
        "allow": ["127.0.0.2/32"],
        "scope": {"mode": "any"},
        "politeness": {"wait": 0.05, "address_wait": 0.0, "factor": 0.0, "pages_per_visit": 2},
        "dns": {"resolve": ["good.test:127.0.0.2", "bad.test:127.0.0.3"]},
        "robots": {"first_retry": 0.05, "attempts": 2},
        **more,
    }

    async def go() -> End:
        agent = build(DiskFiles(into), read_options(options), seeds, shards=2, resolver=resolver)
        return await asyncio.wait_for(agent.run(), 240)

    return asyncio.run(go())


def test_no_connection_is_opened_to_a_refused_address(tmp_path: Path) -> None:
    def answer(asked: Asked) -> Said:
        port = asked.host.partition(":")[2]
        if asked.path == "/":
            bad = (f"http://bad.test:{port}/x", f"http://127.0.0.3:{port}/y", f"http://localhost:{port}/z")
            return page("home", *bad, "/go", "/there")
        if asked.path == "/go":
            return Said(b"", 302, (("Location", f"http://bad.test:{port}/go"),))
        if asked.path == "/there":
            return Said(b"", 307, (("Location", f"//127.0.0.3:{port}/there"),))
        return Said(b"", 404)

    with two_sites(answer) as (allowed, refused):
        assert run(tmp_path, allowed, [allowed.url(host="good.test")]) is End.FINISHED
    assert refused.asked == []
    assert allowed.paths() == ["/", "/go", "/there"]
    why = {
        row.url.split(f"{allowed.port}")[1]: row.why for row in records(tmp_path) if isinstance(row, Skipped)
    }
    assert why == dict.fromkeys(("/x", "/y", "/z", "/go", "/there"), Why.ADDRESS)


def test_robots_redirects_open_no_connection_to_a_refused_address(tmp_path: Path) -> None:
    def answer(asked: Asked) -> Said:
        host, _, port = asked.host.partition(":")
        to = {"good.test": "bad.test", "fine.test": "127.0.0.3", "nice.test": "localhost"}[host]
        return Said(b"", 302, (("Location", f"http://{to}:{port}/robots.txt"),))

    hosts = ["good.test", "fine.test", "nice.test"]
    resolve = [*(f"{host}:127.0.0.2" for host in hosts), "bad.test:127.0.0.3"]
    with two_sites(answer) as (allowed, refused):
        seeds = [allowed.url(host=host) for host in hosts]
        assert run(tmp_path, allowed, seeds, dns={"resolve": resolve}) is End.FINISHED
    assert refused.asked == []
    assert fetched(tmp_path) == []
    assert {row.path for row in allowed.asked} == {"/robots.txt"}


def test_a_crawl_confined_to_networks_connects_nowhere_else(tmp_path: Path) -> None:
    """By link, redirect and robots.txt; and names that nobody gave are not even asked for."""

    def answer(asked: Asked) -> Said:
        port = asked.host.partition(":")[2]
        if asked.path == "/robots.txt":
            return Said(b"", 302, (("Location", f"http://bad.test:{port}/robots.txt"),))
        return page("home", f"http://127.0.0.3:{port}/y", "/go", "http://elsewhere.example/")

    asked = ["http://127.0.0.2:{}/go", "http://bad.test:{}/x"]
    confined = {"allow": ["private"], "only_networks": ["127.0.0.2/32"]}
    with two_sites(answer) as (allowed, refused):
        seeds = [allowed.url(host="good.test"), *(url.format(allowed.port) for url in asked)]
        assert run(tmp_path, allowed, seeds, robots={"obey": False}, **confined) is End.FINISHED
        skipped = {row.url: row for row in records(tmp_path) if isinstance(row, Skipped)}
        assert run(tmp_path / "ruled", allowed, seeds[:1], **confined) is End.FINISHED
    assert refused.asked == []
    outside = [row for row in skipped.values() if row.why is Why.ADDRESS]
    assert {row.url.partition(f"{allowed.port}")[2] for row in outside} == {"/x", "/y"}
    assert all(row.detail == "127.0.0.3 is outside of --only-network 127.0.0.2/32" for row in outside)
    elsewhere = skipped["http://elsewhere.example/"]
    assert elsewhere.why is Why.DNS and "--only-network keeps the crawl on this machine" in elsewhere.detail


def test_a_proxy_outside_of_the_networks_is_not_connected_to(tmp_path: Path) -> None:
    with two_sites(lambda asked: page("home")) as (allowed, refused):
        for address, only in (("127.0.0.3", "127.0.0.2"), ("127.0.0.2", "127.0.0.2")):
            run(
                tmp_path / address,
                allowed,
                ["http://far.example/"],
                fetch={"proxy": f"http://{address}:{allowed.port}"},
                only_networks=[only],
                robots={"obey": False},
                retry={"attempts": 1},
            )
    assert refused.asked == []
    assert [asked.host for asked in allowed.asked] == ["far.example"]


def test_a_rebinding_name_never_reaches_the_refused_address(tmp_path: Path) -> None:
    """The name is resolved for each visit; kept connections do not outlive the judgement."""
    names = Rebinding([("127.0.0.2",), ("127.0.0.2",), ("127.0.0.3",)])

    def answer(asked: Asked) -> Said:
        return page("p", *(f"/{n}" for n in range(12))) if asked.path != "/robots.txt" else Said(b"", 404)

    with two_sites(answer) as (allowed, refused):
        assert run(tmp_path, allowed, [allowed.url(host="turn.test")], names) is End.FINISHED
    assert refused.asked == []
    pages = fetched(tmp_path)
    assert 1 <= len(pages) < 13
    assert {row.address for row in pages} == {"127.0.0.2"}
    skipped = [row for row in records(tmp_path) if isinstance(row, Skipped)]
    assert {row.why for row in skipped} == {Why.ADDRESS}
    assert len(skipped) + len(pages) == 13
