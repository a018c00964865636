"""Traps: how many fetches a crawl of an embedded web with every trap wastes, and what it misses.

The web is answered within the process and time is virtual, so the crawl is the production one and takes as long as
its CPU time. Wasted is every fetch of a URL of a trap beyond its entry (`Truth.wasted`); missed is what according
to the truth must be fetched and was not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lycosa.crawl.agent import End, build
from lycosa.crawl.config import read_options
from lycosa.fetch.dns import DnsFailure, Resolution
from lycosa.fetch.protocol import Failure, FailureKind, Request
from lycosa.files import Files
from lycosa.lab import virtual
from lycosa.lab.network import Reply, ScriptedFetcher, ScriptedFetchers, ScriptedResolver
from lycosa.lab.virtual import VirtualClock
from lycosa.lab.webs import Web, WebOptions
from lycosa.lab.webs.answers import Request as Asked
from lycosa.records import Fetched, Learned, Skipped, Why
from lycosa.url.parts import host_of, path_of

KINDS: Final = ("redirects", "statuses", "types", "charsets", "hrefs", "directives", "sitemaps", "copies")
"""Oddities that can be simulated without sockets."""


class Outcome(msgspec.Struct):
    """The results of a crawl."""

    end: End
    fetched: int
    wasted: dict[str, int]
    """By the role of the trap."""
    missed: list[str]
    learned: list[Learned]
    held: int

    @property
    def share(self) -> float:
        """The wasted share of all fetches."""
        return sum(self.wasted.values()) / max(self.fetched, 1)


class _Names(ScriptedResolver):
    """Resolves the names of a web, and those below the names of farms."""

    async def resolve(self, host: str) -> Resolution | DnsFailure:
        found = await super().resolve(host)
        return (
            await super().resolve(f"*.{host.partition('.')[2]}") if isinstance(found, DnsFailure) else found
        )


def web_of(hosts: int, pages: int, seed: int = 1, kinds: tuple[str, ...] = KINDS) -> Web:
    """A web with every trap."""
    return Web(
        WebOptions(
            hosts=hosts, pages=pages, seed=seed, page_bytes=1500, links=12, kinds=kinds, every_trap=True
        )
    )


def crawl(files: Files, web: Web, options: Mapping[str, Any], shards: int = 4) -> Outcome:
    """Crawl a web from its seeds, on virtual time."""

    def script(request: Request, before: int) -> Reply | Failure:
        host = web.host(host_of(request.url))
        assert host is not None
        answer = web.respond(host, Asked(path=path_of(request.url), attempt=before))
        if not answer.status:
            return Failure(FailureKind.DISCONNECT, "the connection was reset")
        # A date has no meaning on virtual time.
        headers = [row for row in answer.headers if row[0] != "Retry-After" or row[1].isdigit()]
        return Reply(answer.body, answer.status, tuple(headers))

    async def go(clock: VirtualClock) -> tuple[End, list[Any]]:
        agent = build(
            files,
            read_options(
                {
                    "public": False,
                    "allow": ["127.0.0.0/8"],
                    "scope": {"mode": "any"},
                    "retry": {"first": 1.0, "growth": 2.0},
                    "politeness": {"wait": 0.2, "address_wait": 0.0},
                    "archive": {"keep": False},
                    **options,
                }
            ),
            web.seeds(),
            shards=shards,
            hash_seed=7,
            clock=clock,
            fetchers=ScriptedFetchers(ScriptedFetcher(script, clock)),
            resolver=_Names(web.resolve()),
        )
        end = await agent.run()
        return end, [record for shard in agent.shards for _, record in shard.log.reader.scan()]

    end, records = virtual.run(go, 0.0)
    truth = web.truth()
    fetched = {record.url for record in records if isinstance(record, Fetched)}
    wasted: dict[str, int] = {}
    for url in truth.wasted(fetched):
        host = web.host(host_of(url))
        assert host is not None
        wasted[host.role] = wasted.get(host.role, 0) + 1
    answered = {url for url in truth.must if truth.expected[url].statuses != (0,)}
    return Outcome(
        end,
        len(fetched),
        wasted,
        sorted(answered - fetched),
        [record for record in records if isinstance(record, Learned)],
        sum(isinstance(record, Skipped) and record.why is Why.TRAP for record in records),
    )
