"""An agent that no longer reaches the servers, but still reaches the web, stops in time; then all agree again.

The agent lives in a network namespace with two cables, one to the web and one to the NATS server, which is cut.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lycosa.crawl.splitting import Splitter
from lycosa.crawl.warming import warm
from lycosa.lab.chaos_agents import AgentProcess
from lycosa.lab.chaos_crawl import ClusterCrawl, options_for
from lycosa.lab.chaos_verdict import judge
from lycosa.lab.namespaces import Namespace, why_not
from lycosa.lab.nats_servers import Server, configuration, free_ports
from lycosa.lab.webs import Access, Politeness, Web, WebOptions, WebServer
from lycosa.url.domains import Domains
from tests.crawl.test_truth import none
from tests.servers import demand_binary

WEB_LINK, NATS_LINK = 0, 1
ADDRESSES = 8
SHARDS = 6
LEASE = 3.0
WAIT = 0.4
PATIENCE = 120.0
"""Seconds to wait for what is certain to come, on however busy a machine."""
WEB = WebOptions(
    hosts=20,
    pages=1_000,
    page_bytes=1_500,
    links=12,
    local_share=0.5,
    skew=0.1,
    kinds=("robots", "redirects", "copies"),
    crawl_delay=0.3,
    change_share=0.0,
)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    if reason := why_not():
        pytest.skip(f"no partition can be made: {reason}")
    with Namespace(links=2, addresses=ADDRESSES) as made:
        yield made


class Nats:
    """One server, at our end of the cable."""

    def __init__(self, directory: Path, address: str) -> None:
        demand_binary()
        port, http = free_ports(2)
        config = configuration("n1", port, http, str(directory / "store"))
        self.url = f"nats://{address}:{port}"
        self._server = Server(
            "n1", directory, port, http, config.replace(f"127.0.0.1:{port}", f"{address}:{port}")
        )

    async def __aenter__(self) -> Nats:
        self._server.start()
        await until(lambda: (self._server.ask("/healthz") or {}).get("status") == "ok", PATIENCE)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.stop()


@asynccontextmanager
async def agents(*made: AgentProcess) -> AsyncIterator[None]:
    try:
        for agent in made:
            agent.start()
        yield
    finally:
        for agent in made:
            agent.kill()


async def until(true: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.05)


def test_a_cut_is_silent(namespace: Namespace) -> None:
    """At the other end nobody is told: connecting takes until it is given up. At ours nothing changes."""
    words = (
        "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]))"
    )

    def reach(link: int, seconds: float = PATIENCE) -> str:
        address, port = servers[link].getsockname()
        line = namespace.command([sys.executable, "-c", words, address, str(port), str(seconds)])
        return subprocess.run(line, capture_output=True, text=True, timeout=240, check=False).stderr

    servers = [socket.create_server((namespace.outside(link, 1), 0)) for link in (WEB_LINK, NATS_LINK)]
    try:
        assert reach(WEB_LINK) == reach(NATS_LINK) == ""
        namespace.cut(NATS_LINK)
        assert reach(WEB_LINK) == "" and "TimeoutError" in reach(NATS_LINK, 0.5)
        socket.create_connection(servers[NATS_LINK].getsockname(), PATIENCE).close()
        namespace.mend(NATS_LINK)
        assert reach(NATS_LINK) == ""  # at the second try, if the first comes before the link is up
    finally:
        for server in servers:
            server.close()


@pytest.mark.timeout(1_200)
async def test_an_agent_cut_off_stops_in_time_and_agrees_afterwards(
    tmp_path: Path, namespace: Namespace
) -> None:
    """With every run of the tests. In time is before the others begin, which no slow machine changes."""
    warm()  # once, and not by both agents at the same time
    addresses = [namespace.outside(WEB_LINK, number + 1) for number in range(ADDRESSES)]
    web = Web(WEB)
    web.addresses = tuple(addresses)
    async with Nats(tmp_path / "nats", namespace.outside(NATS_LINK)) as nats, WebServer(web) as server:
        web = server.web
        log = server.log
        crawl = ClusterCrawl("cut", [nats.url], tmp_path)
        resolve = {host.name: addresses[host.number % ADDRESSES] for host in web.hosts}
        politeness = {"wait": WAIT, "address_wait": 0.02, "factor": 0.0, "pages_per_visit": 2}
        allowed = [f"{address}/32" for address in addresses]
        options = options_for(web, resolve, allowed, politeness=politeness)
        await asyncio.to_thread(
            crawl.create, options, web.seeds(), shards=SHARDS, lease=LEASE, replicas=1, start=False
        )
        outside = AgentProcess("outside", tmp_path / "outside", tmp_path / "o.txt", crawl.agent_command)
        inside = AgentProcess(
            "inside",
            tmp_path / "inside",
            tmp_path / "i.txt",
            lambda directory: namespace.command(crawl.agent_command(directory)),
        )

        def from_inside(access: Access) -> bool:
            return access.peer.startswith(f"{namespace.inside(WEB_LINK)}:")

        def asked(of_inside: bool, since: float) -> set[str]:
            """Hosts that one of the two has asked since then."""
            rows = (row for row in log.accesses if row.start > since and from_inside(row) == of_inside)
            return {row.host for row in rows}

        async def held(name: str) -> set[int]:
            await asyncio.sleep(0.05)
            return {shard for shard, who in (await crawl.holders()).items() if who.startswith(name)}

        async with agents(outside, inside):
            await crawl.open()
            try:
                # None begins without the other, or there would be little left to cut it off from.
                await until(lambda: all("waiting" in each.said() for each in (outside, inside)), PATIENCE)
                await asyncio.to_thread(crawl.operate, "start")
                # Both at work, each on hosts of its own.
                while len(await held("inside")) < 3 or len(await held("outside")) < 3:
                    pass
                begun = time.monotonic()
                await until(lambda: len(asked(True, begun)) > 2 and len(asked(False, begun)) > 2, PATIENCE)
                shards = await held("inside")
                splitter = Splitter(SHARDS, Domains(Domains.bundled_list()))
                his = {host.name for host in web.hosts if splitter.shard_of(host.name) in shards}
                cut = time.monotonic()
                namespace.cut(NATS_LINK)
                # The others take over what was his; he still reaches the web all the while.
                while not shards <= await held("outside"):
                    pass
                await until(lambda: bool(his & asked(False, cut)), PATIENCE)
                taken = time.monotonic()
                last = max(row.start for row in log.accesses if from_inside(row))
                first = min(
                    row.start
                    for row in log.accesses
                    if row.host in his and row.start > cut and not from_inside(row)
                )
                assert last < first, (
                    f"asked {last - cut:.1f} s after the cut; others began after {first - cut:.1f}"
                )
                assert inside.working, inside.said()
                namespace.mend(NATS_LINK)
                await until(lambda: bool(asked(True, taken)), PATIENCE)  # he is one of them again
                while not (await crawl.state()).finished:
                    assert (
                        time.monotonic() < taken + 2 * PATIENCE
                        and inside.code in (None, 0)
                        and outside.code in (None, 0)
                    )
                    await asyncio.sleep(0.2)
                await until(lambda: not inside.alive and not outside.alive, PATIENCE)
                assert (inside.code, outside.code) == (0, 0), inside.said() + outside.said()
                records = list(await crawl.gather(tmp_path / "result"))
            finally:
                await crawl.close()
    rules = Politeness(
        wait=WAIT, pages=2, address_wait=0.02, delays=web.delays(), same_connection=False, tolerance=0.05
    )
    none(judge(records, crawl.archive, log, web.truth(), rules).faults)
