"""Prediction of a crawl: the production agent on a virtual clock, with models of the web and the network.

    predicted = predict(from_web(web), Wanted(visits=64))

Everything above the network is production code: shards, frontier, politeness, robots, retries, log, snapshots; with
several agents also members, leases, exchange and quota, on the engine in memory. Time is virtual, so a prediction
takes as long as its computation; the same web, numbers and seed give the same prediction.

Disk and memory are calculated: bodies are not made (see `predict_network`), so the archive is pages times the space
of a page there (for a recorded crawl its own), and memory is that of a process, of the most URLs pending and of
those met. The log's size is that of the log that the simulated agent wrote; with several agents it is calculated,
too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lycosa.crawl.agent import build
from lycosa.crawl.config import read_options
from lycosa.crawl.warming import warm
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles, scratch
from lycosa.lab import virtual
from lycosa.lab.costs import Costs, memory_of
from lycosa.lab.network import ScriptedResolver
from lycosa.lab.predict_network import Network, fetchers_of
from lycosa.lab.predict_web import PredictedWeb
from lycosa.lab.simulate_loop import AgentLoop
from lycosa.lab.virtual import VirtualClock
from lycosa.url.domains import Domains

_COMMIT = 60.0
_COMMIT_TEAM = 5.0
"""Virtual seconds between two commits: no crash is simulated, but links to other shards wait for a commit."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The crawl that is to be predicted; None: a crawl's default."""

    agents: int = 1
    visits: int | None = None
    wait: float | None = None
    pages_per_visit: int | None = None
    order: str | None = None
    link: float = 0.0
    """Bytes per second of the whole crawl; 0: no limit."""
    errors: float = 0.0
    """Share of requests that fail."""
    pages: int = 0
    """Limit of pages; 0: none."""
    seed: int = 0
    options: dict[str, Any] | None = None
    """Further options of the crawl; the fields above override them."""

    def table(self) -> dict[str, Any]:
        """The options of the crawl."""
        made: dict[str, Any] = {}
        for name, value in (self.options or {}).items():
            made[name] = dict(value) if isinstance(value, dict) else value
        said = {
            ("", "visits"): self.visits,
            ("politeness", "wait"): self.wait,
            ("politeness", "pages_per_visit"): self.pages_per_visit,
            ("frontier", "order"): self.order,
            ("limits", "pages"): self.pages or None,
        }
        for (room, name), value in said.items():
            if value is not None:
                (made.setdefault(room, {}) if room else made)[name] = value
        return made


@dataclass(frozen=True, slots=True)
class Predicted:
    """The predicted results."""

    web: PredictedWeb
    wanted: Wanted
    pages: int
    requests: int
    failed: int
    seconds: float
    to_90: float
    """Seconds until nine tenths of the pages were fetched."""
    hosts: int
    hosts_at_90: int
    """Hosts that had pending URLs at that time."""
    last_host: str
    last_host_pages: int
    bound: dict[str, float]
    """Shares of the time by limiting factor (`predict_network`)."""
    traffic: int
    archive: int
    log: int
    state: int
    memory: int
    most_waiting: int
    cpu: float
    """Seconds of CPU that the real crawl takes, all agents together."""
    simulated_cpu: float
    """Seconds of CPU that the prediction took."""
    end: str
    order: list[str] = field(repr=False)
    """URLs in the order of their answers."""
    times: list[float] = field(repr=False)
    """The times of these answers."""

    @property
    def binding(self) -> str:
        return max(self.bound, key=lambda name: self.bound[name])

    @property
    def speed(self) -> float:
        """Simulated seconds per second of CPU."""
        return self.seconds / max(self.simulated_cpu, 1e-9)


def predict(web: PredictedWeb, wanted: Wanted, costs: Costs | None = None) -> Predicted:
    """Run the prediction to its end."""
    costs = costs or Costs()
    if wanted.agents < 1:
        raise ConfigError("--agents must be at least 1")
    began = time.process_time()
    if wanted.agents == 1:
        network, log, state, end = _alone(web, wanted, costs)
    else:
        from lycosa.lab.predict_cluster import crawl

        network, log, state, end = crawl(web, wanted, costs, _table(wanted))
    took = time.process_time() - began
    times = np.array(network.times)
    if not len(times):
        raise ConfigError("no page was fetched: does the web contain its seeds?")
    at = max(int(0.9 * len(times)) - 1, 0)
    last = max(network.last, key=lambda host: network.last[host])
    archive = costs.page_archive * len(times)
    if web.archive_share:
        archive = web.archive_share * network.bytes
    elif network.bytes:
        archive *= network.bytes / len(times) / costs.page_bytes
    each: dict[str, float] = {
        "pages": len(times),
        "pending": network.most_waiting,
        "met": len(network.web.pages),
        "hosts": len(network.per_host),
    }
    each = {name: value / wanted.agents for name, value in each.items()}
    held = memory_of(costs, **each, visits=network.visits / wanted.agents)
    whole = sum(network.bound.values()) or 1.0
    return Predicted(
        web=web,
        wanted=wanted,
        pages=len(times),
        requests=network.requests,
        failed=network.failed,
        seconds=float(times[-1]),
        to_90=float(times[at]),
        hosts=len(network.per_host),
        hosts_at_90=network.hosts_left[at],
        last_host=last,
        last_host_pages=network.per_host[last],
        bound={name: value / whole for name, value in network.bound.items()},
        traffic=network.bytes,
        archive=int(archive),
        log=log,
        state=state,
        memory=int(wanted.agents * sum(held.values())),
        most_waiting=network.most_waiting,
        cpu=len(times) * costs.page_cpu + len(network.per_host) * costs.host_cpu,
        simulated_cpu=took,
        end=end,
        order=network.order,
        times=network.times,
    )


def prepare(wanted: Wanted) -> None:
    """Compile what such a crawl needs and read the list of public suffixes, so that these do not count as time of
    the first prediction in a process."""
    warm(read_options(_table(wanted)))
    Domains(Domains.bundled_list())


def _table(wanted: Wanted) -> dict[str, Any]:
    """Options of the simulated crawl: those wanted, and those that the model needs."""
    table = wanted.table()
    fixed = {
        "public": False,
        "allow": ["127.0.0.0/8"],
        "commit_seconds": _COMMIT if wanted.agents == 1 else _COMMIT_TEAM,
    }
    rooms = {"scope": {"mode": "any"}, "archive": {"keep": False}}
    return {**table, **fixed, **rooms}


def network_of(web: PredictedWeb, wanted: Wanted, costs: Costs, visits: int) -> Network:
    """The network for a crawl with so many visits at a time, all agents together."""
    return Network(web, link=wanted.link, errors=wanted.errors, visits=visits, costs=costs, seed=wanted.seed)


def _alone(web: PredictedWeb, wanted: Wanted, costs: Costs) -> tuple[Network, int, int, str]:
    """Predict a crawl with one agent."""
    options = read_options(_table(wanted))

    network = network_of(web, wanted, costs, options.visits)

    async def go(clock: VirtualClock) -> str:
        agent = build(
            files,
            options,
            web.seeds,
            shards=1,
            hash_seed=wanted.seed + 1,
            clock=clock,
            fetchers=fetchers_of(network),
            resolver=ScriptedResolver({host: site.address for host, site in web.sites.items()}),
        )
        return (await agent.run()).value

    with scratch("lycosa-predict-") as place:
        files = DiskFiles(place)
        end = virtual.run(go, loop=AgentLoop())
        every = {path: path.stat().st_size for path in place.rglob("*") if path.is_file()}
    log = sum(size for path, size in every.items() if "log" in path.parts)
    return network, log, sum(every.values()) - log, end
