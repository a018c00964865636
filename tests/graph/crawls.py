"""Records of small crawls, and what their link graph is, worked out with plain dictionaries."""

from __future__ import annotations

import random

from lycosa.graph.urls import host_of_key, key_of
from lycosa.records import Fetched, Link, LinkKind, Links, Record, Seeded, Timing

Entry = tuple[int, int, Record]


def fetched(url: str, links: list[Link], status: int = 200) -> Fetched:
    return Fetched(
        at=0, url=url, depth=0, hops=0, attempt=0, status=status, type="text/html", charset="utf-8", size=1,
        length=1, digest=1, timing=Timing(), address="", links=Links.pack(links),
    )  # fmt: skip


def link(url: str, kind: LinkKind = LinkKind.ANCHOR, nofollow: bool = False) -> Link:
    return Link(url, kind, nofollow, "")


def page(url: str, *targets: str) -> Fetched:
    return fetched(url, [link(target) for target in targets])


def redirect(url: str, target: str) -> Fetched:
    return fetched(url, [link(target, LinkKind.REDIRECT)], 301)


def url(i: int) -> str:
    return f"http://{'abc'[i % 3]}.example{i % 2}.org/{'p' * (i % 4)}{i}"


def crawl(seed: int, pages: int = 40, urls: int = 25, shards: int = 3) -> list[Entry]:
    """A crawl with refetches, redirects and circles of them, canonical links, pages gone and failing."""
    rng = random.Random(seed)
    positions = [0] * shards
    entries: list[Entry] = []

    def put(shard: int, record: Record) -> None:
        entries.append((shard, positions[shard], record))
        positions[shard] += 1

    put(0, Seeded(0, Links.pack([link(url(rng.randrange(urls)), LinkKind.SEED) for _ in range(2)])))
    for _ in range(pages):
        i = rng.randrange(urls)
        shard = i % shards
        kind = rng.random()
        if kind < 0.2:
            put(shard, redirect(url(i), url(rng.randrange(urls))))
            continue
        links = [link(url(rng.randrange(urls))) for _ in range(rng.randrange(6))]
        if rng.random() < 0.2:
            links.append(link(url(rng.randrange(urls)), LinkKind.CANONICAL))
        if rng.random() < 0.3:
            links.append(link(url(rng.randrange(urls)), LinkKind.IMAGE))
        if rng.random() < 0.3:
            links.append(link(url(rng.randrange(urls)), nofollow=True))
        status = rng.choice([200] * 8 + [404, 500, 304, 410])
        put(shard, fetched(url(i), links, status))
    return entries


def truth(entries: list[Entry], canonical: bool = False) -> tuple[set[str], set[tuple[str, str]]]:
    """The nodes and the arcs, redirects resolved."""
    nodes: set[str] = set()
    rows: dict[str, list[str]] = {}
    aliases: dict[str, tuple[str, bool]] = {}
    for _, _, record in entries:
        if isinstance(record, Seeded):
            nodes |= {link.url for link in record.links}
        if not isinstance(record, Fetched) or record.status in (304, 500):
            continue
        nodes.add(record.url)
        rows[record.url] = []
        aliases.pop(record.url, None)
        for found in record.links:
            if found.kind is LinkKind.REDIRECT and record.status == 301:
                aliases[record.url] = (found.url, True)
                nodes.add(found.url)
            elif found.kind is LinkKind.CANONICAL and record.status == 200:
                if record.url not in aliases and found.url != record.url:
                    aliases[record.url] = (found.url, False)
                    nodes.add(found.url)
            elif record.status == 200 and found.kind < LinkKind.IMAGE:
                rows[record.url].append(found.url)
                nodes.add(found.url)
    used = {u: t for u, (t, redirected) in aliases.items() if (redirected or canonical) and u != t}

    def end(start: str) -> str:
        at, met = start, {start}
        while at in used:
            at = used[at]
            if at in met:
                return start
            met.add(at)
        return at

    arcs = {(end(u), end(t)) for u, targets in rows.items() for t in targets}
    arcs |= {(u, end(u) if end(u) != u else t) for u, t in used.items()}
    return nodes, arcs


def host(u: str) -> str:
    return host_of_key(key_of(u.encode())).decode()
