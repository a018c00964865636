"""The web that a predicted crawl meets: pages by URL, sites by host; from numbers or from a crawl's log.

    from_web(web)           a web of the lab: synthetic, or any other (`lycosa.lab.experiments.web`)
    from_records(records)   what a crawl has fetched, with statuses, sizes, times, links and robots files

Of a recorded crawl only what it fetched is included; links to other URLs are left out, since they were out of
scope, forbidden or beyond its limit. A site's times are the medians of its fetches: to connect, from then to the
first byte, and bytes per remaining time. What was retried fails as often as it did, and what was given up always;
whether a failure was a timeout is not known.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from xxhash import xxh3_64_intdigest

from lycosa.errors import ConfigError
from lycosa.lab.experiments.web import Web
from lycosa.records import (
    Deferred,
    Fetched,
    Link,
    LinkKind,
    Record,
    Robots,
    RobotsState,
    Seeded,
    Skipped,
    Why,
)
from lycosa.url.key import Keys
from lycosa.url.parts import host_of

NEVER = 1_000_000
"""The number of failures of a page that never answered."""
_INSTANT = 1e12
"""Bytes per second of a site whose bodies always came with their first byte."""


@dataclass(slots=True)
class Site:
    """What is known about a host."""

    address: str
    connect: float
    """Seconds to connect,"""
    latency: float
    """then until the first byte,"""
    bandwidth: float
    """then bytes per second."""
    robots: bytes | None = None
    """Its robots.txt; None if it has none."""


@dataclass(slots=True)
class Page:
    """The answer of a URL."""

    status: int
    size: int
    links: Sequence[str] = ()
    location: str = ""
    failures: int = 0
    """How often it fails before it answers."""
    busy: float = 0.0
    """Seconds of Retry-After in these failures (503); 0: it closes the connection instead."""


@dataclass(slots=True)
class PredictedWeb:
    """See the module's text."""

    name: str
    seeds: list[str]
    pages: dict[str, Page]
    sites: dict[str, Site]
    recorded: float = 0.0
    """Seconds that the recorded crawl took; 0: there is no recorded crawl."""
    archive_share: float = 0.0
    """Bytes in the archive per byte of body, in the recorded crawl; 0: not known."""
    notes: dict[str, str] = field(default_factory=dict)
    met: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    """Keys of the links that the recorded crawl met, in order."""


def address_of(number: int) -> str:
    """A unique loopback address for each of 16 million sites."""
    number += 1
    return f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def from_web(web: Web) -> PredictedWeb:
    """A web of numbers, or of a crawl's link graph."""
    urls = [web.url(page) for page in range(web.pages)]
    sites: dict[str, Site] = {}
    for number, home in enumerate(web.homes.tolist()):
        sites[host_of(urls[home])] = Site(
            address_of(number),
            float(web.latency[number]),
            float(web.latency[number]),
            float(web.bandwidth[number]),
        )
    pages = {
        url: Page(200, int(web.sizes[page]), [urls[to] for to in web.lists[page].tolist()])
        for page, url in enumerate(urls)
    }
    notes = {"times": web.come_by["times"], "sites from": web.come_by["sites from"]}
    return PredictedWeb(
        web.name, [urls[page] for page in np.unique(web.start).tolist()], pages, sites, notes=notes
    )


def from_records(name: str, records: Iterable[Record]) -> PredictedWeb:
    """The web as a crawl's records describe it."""
    pages: dict[str, Page] = {}
    found: dict[str, list[Link]] = {}
    seeds: dict[str, None] = {}
    waits: dict[str, list[float]] = defaultdict(list)
    connects: dict[str, list[float]] = defaultdict(list)
    speeds: dict[str, list[float]] = defaultdict(list)
    addresses: dict[str, str] = {}
    robots: dict[str, bytes] = {}
    met = array("Q")
    deferred: dict[str, Deferred] = {}
    lost: set[str] = set()
    began, ended, stored, bodies = 0, 0, 0, 0
    for record in records:
        if isinstance(record, Seeded):
            seeds |= dict.fromkeys(link.url for link in record.links)
        elif isinstance(record, Deferred) and record.url and record.why in (Why.RETRY, Why.BUSY):
            deferred[record.url] = record
        elif isinstance(record, Skipped) and record.why is Why.FAILED:
            lost.add(record.url)
        elif isinstance(record, Robots) and record.state is RobotsState.READ:
            robots[host_of(record.site + "/")] = record.body
        elif isinstance(record, Fetched):
            host, timing = host_of(record.url), record.timing
            began = min(began or record.at, record.at - timing.total)
            ended = max(ended, record.at)
            addresses.setdefault(host, record.address)
            began_at = max(timing.connect, timing.dns)
            waits[host].append((timing.first_byte - began_at) / 1000)
            if timing.connect > timing.dns:
                connects[host].append((timing.connect - timing.dns) / 1000)
            if record.size and timing.total > timing.first_byte:
                speeds[host].append(record.size / (timing.total - timing.first_byte) * 1000)
            if record.stored is not None and not record.duplicate and record.body is None:
                stored += record.stored.length
                bodies += record.size
            pages[record.url] = Page(record.status, max(record.size, 1))
            found[record.url] = list(record.links)
            met.extend(xxh3_64_intdigest(url) for url in record.links.urls.split(b"\n") if url)
    for url in lost - pages.keys():
        pages[url] = Page(503, 1, failures=NEVER)
        found[url] = []
    for url, late in deferred.items():
        if url in pages:
            pages[url].failures = max(pages[url].failures, late.attempt)
            pages[url].busy = (late.due - late.at) / 1000 if late.why is Why.BUSY else 0.0
    if not pages:
        raise ConfigError(f"{name} has fetched no page: there is nothing to predict from")
    for url, links in found.items():
        page = pages[url]
        if 300 <= page.status < 400:
            page.location = next((link.url for link in links if link.kind is LinkKind.REDIRECT), "")
        elif page.status == 200:
            page.links = [link.url for link in links if link.url in pages and not link.nofollow]
        if 300 <= page.status < 400 and page.location not in pages:
            page.status, page.location = 404, ""  # the redirect leads out of the crawl
    alone = {address: address_of(number) for number, address in enumerate(dict.fromkeys(addresses.values()))}
    sites = {
        host: Site(
            alone[address],
            median(connects[host] or [0.0]),
            median(waits[host]),
            median(speeds[host] or [_INSTANT]),
            robots.get(host),
        )
        for host, address in addresses.items()
    }
    started = [url for url in seeds if url in pages] or [next(iter(pages))]
    return PredictedWeb(
        name,
        started,
        pages,
        sites,
        recorded=(ended - began) / 1000,
        archive_share=stored / bodies if bodies else 0.0,
        notes={"times": "those of the recorded fetches, by host", "sites from": "hosts of URLs"},
        met=np.frombuffer(met, np.uint64) if met else np.empty(0, np.uint64),
    )
