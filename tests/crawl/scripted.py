"""A small scripted web and a crawl of it on faulty files and virtual time: the fastest whole crawl."""

from __future__ import annotations

from typing import Any, NamedTuple

from lycosa.clock import Clock
from lycosa.crawl.agent import Agent, End, build
from lycosa.crawl.config import read_options
from lycosa.fetch.protocol import Failure, FailureKind, Request
from lycosa.files import Files
from lycosa.lab import virtual
from lycosa.lab.network import Reply, Script, ScriptedFetcher, ScriptedFetchers, ScriptedResolver
from lycosa.lab.virtual import VirtualClock
from lycosa.url.parts import host_of, path_of

HOSTS = ("a.test", "b.test", "c.test", "www.d.test")
PAGES = 6
SHARDS = 4
TABLE = {host: f"127.0.0.{number}" for number, host in enumerate(HOSTS, 1)}
SEEDS = ["http://a.test/"]


def url(host: int, page: int) -> str:
    return f"http://{HOSTS[host]}/p{page}" if page else f"http://{HOSTS[host]}/"


def links_of(host: int, page: int) -> list[str]:
    """Every page links its host's next two, its home, and a page of the next host."""
    near = [url(host, (page + step) % PAGES) for step in (1, 2)]
    return [*near, url(host, 0), url((host + 1) % len(HOSTS), (page * 2) % PAGES)]


def script(request: Request, before: int) -> Reply | Failure:
    """The site: pages, a robots file, a redirect, a page that fails once, one that is busy once."""
    host, path = HOSTS.index(host_of(request.url)), path_of(request.url)
    if path == "/robots.txt":
        if host == len(HOSTS) - 1:
            return Reply(b"", 404)
        return Reply(b"User-agent: *\nDisallow: /secret\n", headers=(("Content-Type", "text/plain"),))
    if path == "/moved":
        return Reply(b"", 301, (("Location", "/p1"),))
    if path == "/flaky" and before == 0:
        return Failure(FailureKind.DISCONNECT, "the connection was reset")
    if path == "/busy" and before == 0:
        return Reply(b"", 503, (("Retry-After", "7"),))
    if path in ("/flaky", "/busy"):
        return Reply(b"<p>fine now")
    page = int(path[2:] or 0) if path == "/" or path.startswith("/p") else -1
    if page < 0:
        return Reply(b"no such page", 404)
    extra = (
        ["/moved", "/flaky", "/busy", "/secret/x", "/missing", "http://nowhere.test/"] if page == 0 else []
    )
    anchors = "".join(f'<a href="{href}">to {href}</a>' for href in [*links_of(host, page), *extra])
    return Reply(f"<title>{host} {page}</title>{anchors}".encode())


def expected() -> set[str]:
    """Every URL that the crawl must have an answer for."""
    pages = {url(host, page) for host in range(len(HOSTS)) for page in range(PAGES)}
    others = {f"http://{host}/{name}" for host in HOSTS for name in ("moved", "flaky", "busy", "missing")}
    secret = {f"http://{HOSTS[-1]}/secret/x"}  # it has no rules
    return pages | others | secret


OPTIONS: dict[str, Any] = {
    "public": False,
    "allow": ["127.0.0.0/8"],
    "scope": {"mode": "any"},
    "retry": {"first": 1.0, "growth": 2.0},
    "politeness": {"wait": 0.2, "address_wait": 0.05},
    "commit_seconds": 0.3,
}


def make_agent(
    files: Files, clock: Clock, answer: Script = script, seeds: list[str] | None = None, **options: Any
) -> tuple[Agent, ScriptedFetcher]:
    fetcher = ScriptedFetcher(answer, clock)
    agent = build(
        files,
        read_options({**OPTIONS, **options}),
        SEEDS if seeds is None else seeds,
        shards=SHARDS,
        hash_seed=7,
        clock=clock,
        fetchers=ScriptedFetchers(fetcher),
        resolver=ScriptedResolver(TABLE),
    )
    return agent, fetcher


class Run(NamedTuple):
    """What one run did."""

    end: End
    agent: Agent
    requests: list[tuple[float, float, str]]
    until: float  # the monotonic time at its end


def crawl(
    files: Files,
    start: float = 0.0,
    answer: Script = script,
    seeds: list[str] | None = None,
    **options: Any,
) -> Run:
    """A whole run on virtual time."""

    async def go(clock: VirtualClock) -> Run:
        agent, fetcher = make_agent(files, clock, answer, seeds, **options)
        end = await agent.run()
        return Run(end, agent, fetcher.requests, clock.monotonic())

    return virtual.run(go, start)
