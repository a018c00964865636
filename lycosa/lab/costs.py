"""What a crawl costs, as measured: the numbers with which `predict` and `plan` calculate.

Each cost has its value, a description, and where it was measured. All are for pages of about 22 kB with some 43
links, one agent on one core of the machine that the documents name; `--cost NAME=VALUE` overrides one, and a
recorded crawl gives its own (`measured`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lycosa.errors import ConfigError
from lycosa.frontier.options import FrontierOptions
from lycosa.seen.stores import SeenOptions

_CRAWL = "docs/benchmarks/crawl.md"
_MEMORY = "docs/benchmarks/crawl-memory.md"
_BOUNDED = "docs/benchmarks/bounded.md"
_AGENTS = "docs/benchmarks/agents.md"
_PAPERS = "docs/reproduction.md"
_LAB = "docs/lab.md"
_MEMO = 1 << 17
_PAGE_TABLE = 16 << 20
_CONTENTS = 8 << 20
_HOT_HOSTS = 40_000


def _cost(value: float, unit: str, what: str, where: str) -> Any:
    return field(default=value, metadata={"unit": unit, "what": what, "where": where})


@dataclass(frozen=True, slots=True)
class Costs:
    """For the costs see the module's text; `origins` has the sources of values that are not the defaults."""

    page_cpu: float = _cost(418e-6, "s/page", "CPU of an agent, archive included", f"{_CRAWL}: lycosa")
    page_bytes: float = _cost(22_600, "B/page", "body over the network", f"{_CRAWL}: KB/page")
    page_links: float = _cost(43, "links/page", "links of a page, each once", f"{_CRAWL}: links/page")
    page_new: float = _cost(3.0, "URLs/page", "URLs met for each page fetched, itself included", "assumed")
    page_archive: float = _cost(
        8_000, "B/page", "archive: request and response", "ratio 2.97 of records of 20 KB"
    )
    page_log: float = _cost(100, "B/page", "log, without links", f"{_BOUNDED}: what links leave of 665 B")
    link_log: float = _cost(7, "B/link", "log, a link", f"{_BOUNDED}: 665 MB of 1M pages with 80 links")
    page_messages: float = _cost(0.05, "messages/page", "to the engine: tails, exchange, leases", "assumed")
    link_message: float = _cost(50, "B/link", "a link that is sent, on the wire", f"{_AGENTS}: frames")
    link_crosses: float = _cost(
        0.15, "share", "links to other agents' hosts", f"{_PAPERS}: distribution, 10M"
    )
    link_sent: float = _cost(0.076, "share", "of those, sent: the cache has the rest", f"{_AGENTS}: 4 agents")
    agent_memory: float = _cost(
        81e6,
        "B/agent",
        "a process that has fetched a page: interpreter, libraries, kernels",
        f"{_LAB}: memory",
    )
    visit_memory: float = _cost(
        120e3, "B/visit", "a connection, its buffers, a page under way", f"{_LAB}: memory, fitted"
    )
    pending_memory: float = _cost(
        61.5, "B/URL", "the frontier, a pending URL", f"{_MEMORY}: random order, own count"
    )
    memo_memory: float = _cost(
        370, "B/URL", "memos of links, of 131,072 URLs an agent", f"{_LAB}: memory, fitted"
    )
    page_memory: float = _cost(48, "B/page", "page table, of 16 MiB an agent", "lycosa.pages.rows: a row")
    content_memory: float = _cost(
        9.8, "B/page", "contents met, of 8 MiB an agent", f"{_MEMORY}: as of the seen set"
    )
    seen_memory: float = _cost(9.8, "B/URL", "seen set in memory", f"{_MEMORY}: the seen set, a URL")
    seen_disk: float = _cost(8, "B/URL", "seen set on disk (veuniq)", "a key")
    host_memory: float = _cost(400, "B/host", "a host in memory, of 40,000 an agent", "lycosa.crawl.agent")
    host_disk: float = _cost(400, "B/host", "a host on disk: rules, times", "as in memory")
    host_cpu: float = _cost(
        0.0014, "s/host", "CPU of a host: robots.txt, TLS", f"{_CRAWL}: tls not kept, twice"
    )
    exchange_cpu: float = _cost(0.07, "share", "CPU that other agents cost an agent", f"{_AGENTS}: 2 agents")
    fetch_time: float = _cost(
        1.0, "s/page", "from asking to the last byte", "assumed: 0.5 s, 20 kB at 40 kB/s"
    )
    message_rate: float = _cost(
        20_000, "messages/s", "of a server of the engine", "assumed: 0.5M URLs/s in frames"
    )
    state_disk: float = _cost(
        41, "B/URL", "what waits, on disk", f"{_BOUNDED}: 41 MB left behind of 1M pages"
    )
    origins: Mapping[str, str] = field(default_factory=dict)
    """The sources of values that are not the defaults."""

    def rows(self) -> list[tuple[str, float, str, str, str]]:
        """(name, value, unit, what, where) of each cost."""
        made = []
        for name, one in self.__dataclass_fields__.items():
            if name != "origins":
                about = one.metadata
                where = self.origins.get(name, about["where"])
                made.append((name, getattr(self, name), about["unit"], about["what"], where))
        return made

    def with_values(self, values: Mapping[str, float], origin: str) -> Costs:
        """The same with some values replaced."""
        known = [name for name, *_ in self.rows()]
        for name, value in values.items():
            if name not in known:
                raise ConfigError(f"there is no cost {name!r}: there are {', '.join(known)}")
            if not value >= 0:
                raise ConfigError(f"the cost {name} must be at least 0, not {value}")
        return replace(self, **values, origins={**self.origins, **dict.fromkeys(values, origin)})


def given(texts: list[str], costs: Costs) -> Costs:
    """Costs overridden by `NAME=VALUE` texts."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            values[name.strip()] = float(value)
        except ValueError:
            raise ConfigError(f"--cost {text!r}: write it like page_cpu=0.0009") from None
        if not equals:
            raise ConfigError(f"--cost {text!r}: write it like page_cpu=0.0009")
    return costs.with_values(values, "--cost")


def measured(directory: Path, costs: Costs) -> tuple[Costs, Measured]:
    """The costs of a recorded crawl, as far as it shows them; and the crawl itself."""
    crawl = Measured.of(directory)
    pages = crawl.pages
    held = memory_of(costs, **crawl.size)
    memory = crawl.memory - sum(held.values()) + held["process"]
    values = {
        "page_cpu": crawl.cpu / pages,
        "host_cpu": 0.0,  # included in page_cpu
        "page_bytes": crawl.bytes / pages,
        "page_links": crawl.links / pages,
        "page_new": max(crawl.met / pages, 1.0),
        "link_log": max(crawl.log - pages * costs.page_log, 0.0) / max(crawl.links, 1),
        "agent_memory": max(memory, 0.0),
    }
    if crawl.archive:
        values["page_archive"] = crawl.archive / pages
    return costs.with_values(values, f"measured: {directory}"), crawl


def memory_of(
    costs: Costs, *, pages: float, pending: float, met: float, hosts: float, visits: float
) -> dict[str, float]:
    """Bytes of RAM of one agent, by use; the pages, URLs and hosts are its share.

    Each has a bound of its own, beyond which the rest lies on disk or is forgotten. A host has one visit at a time.
    """
    return {
        "process": costs.agent_memory,
        "visits": costs.visit_memory * min(visits, hosts),
        "frontier": min(costs.pending_memory * pending, float(FrontierOptions().memory)),
        "seen set": min(costs.seen_memory * met, float(SeenOptions().memory)),
        "memos of links": costs.memo_memory * min(met, _MEMO),
        "page table": min(costs.page_memory * pages, float(_PAGE_TABLE)),
        # Of each digest on disk 1/64 byte stays in memory: its place in its file.
        "contents": min(costs.content_memory * pages, float(_CONTENTS)) + pages / 64,
        "hosts": costs.host_memory * min(hosts, _HOT_HOSTS),
    }


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of a crawl on one machine, from its status, its meters and the sizes of its files."""

    name: str
    pages: int
    hosts: int
    links: int
    met: int
    """URLs that it knows."""
    seconds: float
    cpu: float
    bytes: int
    archive: int
    log: int
    memory: int
    """Peak of resident bytes in its meters."""
    pending: int
    """Peak number of pending URLs."""
    seen_bytes: int
    visits: int
    """Peak number of visits under way."""

    @property
    def size(self) -> dict[str, float]:
        """The quantities on which its memory depends."""
        names = ("pages", "pending", "met", "hosts", "visits")
        return {name: float(getattr(self, name)) for name in names}

    @classmethod
    def of(cls, directory: Path) -> Measured:
        """Read the measurements; a `ConfigError` says what is missing."""
        try:
            status = json.loads((directory / "status.json").read_bytes())
            meters = status["meters"]
            rows = [
                json.loads(line) for line in (directory / "meters.jsonl").read_text().splitlines() if line
            ]
            pages, fetched = int(status["pages"]), int(status["pages_run"])
        except (OSError, ValueError, KeyError):
            raise ConfigError(
                f"{directory} has no status.json and meters.jsonl of a crawl that has run"
            ) from None
        if not pages or pages != fetched:
            raise ConfigError(
                f"{directory}: costs can be measured only on a crawl of exactly one run with at least one page"
            )
        return cls(
            name=directory.resolve().name,
            pages=pages,
            hosts=int(meters["sites.known"]),
            links=int(status["links"]),
            met=int(meters["seen.urls"]),
            seconds=float(status["elapsed"]),
            cpu=float(meters["agent.cpu"]),
            bytes=int(status["bytes"]),
            archive=_size(directory, "archive/*"),
            log=_size(directory, "shards/*/log/*"),
            memory=max(int(status["rss"]), *(int(row.get("rss", 0)) for row in rows), 0),
            pending=max([int(_meter(row, "frontier.pending")) for row in rows] + [0]),
            seen_bytes=int(meters["seen.bytes"]),
            visits=max([int(_meter(row, "visits.active")) for row in rows] + [0]),
        )


def _meter(row: dict[str, Any], name: str) -> float:
    return float(row.get("meters", row).get(name, 0))


def _size(place: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in place.glob(pattern) if path.is_file())
