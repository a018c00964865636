"""A whole cluster on a virtual clock: the right pages, once, politely; also when agents die and calls are lost."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from lycosa.fetch.protocol import Request
from lycosa.lab.cluster_network import DiceNetwork
from lycosa.lab.cluster_run import Ran, Running, run_cluster
from lycosa.lab.cluster_web import Asked, SimulatedWeb
from lycosa.lab.network import Reply
from lycosa.records import Fetched, Lost, Received, Robots, Skipped
from lycosa.url.parts import host_of, path_of

HOSTS = 10
OPTIONS: dict[str, Any] = {
    "public": False,
    "allow": ["127.0.0.0/8"],
    "scope": {"mode": "any"},
    "retry": {"first": 5.0},
}


def page(request: Request, before: int) -> Reply:
    """Hosts in a ring, each with three pages; a page links to one of the next host."""
    path, number = path_of(request.url), int(host_of(request.url)[1:-5])
    if path == "/robots.txt":
        return Reply(b"", 404)
    hrefs = [f"http://h{(number + 1) % HOSTS}.test{path}x"] if 1 < len(path) < 4 else []
    if path == "/":
        hrefs = ["/a", "/b", *(f"http://h{(number * 2 + k) % HOSTS}.test/" for k in range(2))]
    return Reply("".join(f'<a href="{href}">x</a>' for href in hrefs).encode())


WEB = SimulatedWeb(page, {f"h{n}.test": f"127.1.0.{n % 4 + 1}" for n in range(HOSTS)}, ["http://h0.test/"])
PAGES = {
    f"http://h{n}.test{path}"
    for n in range(HOSTS)
    for path in ("/", "/a", "/b", "/ax", "/bx", "/axx", "/bxx")
}


def fetched(ran: Ran) -> Counter[str]:
    """Pages by how often they are in the logs, without those that were lost with a disk."""
    found: Counter[str] = Counter()
    for rows in ran.records.values():
        for _, record in rows:
            if isinstance(record, Fetched):
                found[record.url] += 1
            elif isinstance(record, Lost):
                found[record.url] -= 1
    return found


def demand_polite(asked: list[Asked]) -> None:
    """No host and no address is asked by two at a time, whoever they are."""
    for key in (lambda row: host_of(row.url), lambda row: row.address):
        rows = defaultdict(list)
        for row in asked:
            rows[key(row)].append(row)
        for several in rows.values():
            for one, two in pairwise(sorted(several, key=lambda row: row.start)):
                assert two.start >= one.end, (one, two)


def test_three_agents_crawl_a_web_to_its_end() -> None:
    ran = run_cluster(1, WEB, agents=3, options=OPTIONS)
    assert fetched(ran) == Counter(PAGES)
    assert Counter(row.url for row in ran.asked if "robots" not in row.url) == Counter(PAGES), (
        "and asked once"
    )
    assert ran.state.finished and ran.state.end == "finished"
    assert set(ran.ends) == {"agent0", "agent1", "agent2"} == {row.agent for row in ran.asked}
    demand_polite(ran.asked)


def facts(ran: Ran) -> dict[int, set[tuple[Any, ...]]]:
    """What the log of each shard says, but for when, in which order and by which way it was learned."""
    found: dict[int, set[tuple[Any, ...]]] = {}
    for shard, rows in ran.records.items():
        here = found.setdefault(shard, set())
        for _, record in rows:
            if isinstance(record, Fetched):
                links = frozenset(record.links)
                here.add(
                    (Fetched, record.url, record.status, record.type, record.digest, record.title, links)
                )
            elif isinstance(record, Skipped):
                here.add((Skipped, record.url, record.why))
            elif isinstance(record, Robots):
                here.add((Robots, record.site, record.status, record.body, record.state))
            elif isinstance(record, Received):
                here.update((Received, link.url) for link in record.links)
    return found


def test_one_two_and_four_agents_write_the_same_logs() -> None:
    def answer(request: Request, before: int) -> Reply:
        path, host = path_of(request.url), host_of(request.url)
        if path == "/robots.txt" and host == "h3.test":
            return Reply(b"User-agent: *\nDisallow: /b\n", headers=(("Content-Type", "text/plain"),))
        if path == "/a" and host == "h5.test":
            return Reply(b"", 301, headers=(("Location", "http://h6.test/moved"),))
        return page(request, before)

    web = SimulatedWeb(answer, WEB.names, WEB.seeds)
    one, two, four = (run_cluster(9, web, agents=count, shards=8, options=OPTIONS) for count in (1, 2, 4))
    assert len({row.agent for row in four.asked}) == 4
    assert one.state.end == two.state.end == four.state.end == "finished"
    said = facts(one)
    assert {row[0] for rows in said.values() for row in rows} == {Fetched, Skipped, Robots, Received}
    assert facts(two) == facts(four) == said


def test_the_same_seed_is_the_same_run() -> None:
    runs = [
        run_cluster(
            seed,
            WEB,
            agents=2,
            options=OPTIONS,
            network=DiceNetwork(seed),
            lease=10.0,
        )
        for seed in (5, 5, 6)
    ]
    assert runs[0].asked == runs[1].asked and runs[0].told == runs[1].told
    assert runs[0].asked != runs[2].asked
    assert fetched(runs[0]) == fetched(runs[2]) == Counter(PAGES)


@pytest.mark.parametrize("seed", range(3))
def test_agents_die_and_are_cut_off_and_nothing_is_lost_or_doubled(seed: int) -> None:
    network = DiceNetwork(seed)

    async def trouble(running: Running) -> None:
        chance = Random(seed)
        await running.clock.sleep(chance.uniform(2.0, 8.0))
        victim = chance.choice(sorted(running.members))
        await running.kill(victim)
        await running.clock.sleep(chance.uniform(0.0, 15.0))
        running.start(victim)
        cut = chance.choice(sorted(running.members))
        network.cut.add(cut)
        await running.clock.sleep(chance.uniform(5.0, 25.0))
        network.cut.clear()

    ran = run_cluster(seed, WEB, agents=3, options=OPTIONS, network=network, lease=10.0, plans=[trouble])
    assert fetched(ran) == Counter(PAGES)
    assert ran.state.finished
    demand_polite(ran.asked)


def test_a_limit_of_pages_is_exact() -> None:
    options = {**OPTIONS, "limits": {"pages": 17}}
    ran = run_cluster(3, WEB, agents=3, options=options, network=DiceNetwork(3), lease=10.0)
    assert sum(fetched(ran).values()) == 17 and ran.state.end == "limit"
    demand_polite(ran.asked)
