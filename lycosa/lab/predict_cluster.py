"""A prediction with several agents: members on the engine in memory, as `cluster_run` runs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lycosa.crawl.config import read_options
from lycosa.fetch.protocol import Failure, Request
from lycosa.lab.cluster_run import run_cluster
from lycosa.lab.cluster_web import SimulatedWeb
from lycosa.lab.costs import Costs
from lycosa.lab.network import Reply
from lycosa.lab.predict_network import Network
from lycosa.lab.predict_web import PredictedWeb

if TYPE_CHECKING:
    from lycosa.lab.predict import Wanted

_SHARDS = 2
"""Shards per agent."""
_LIMIT = 366 * 86_400.0
_LEASE = 900.0
_LOOK = 30.0
"""Seconds between two polls of an agent for what others did; half a second in a crawl. Here no agent dies and the
engine reports news at once, so longer intervals change when the end is noticed, and not when pages come; except
with a limit of pages, the last of which are handed on from shard to shard: then the interval is as in a crawl."""


def _unused(request: Request, before: int) -> Reply | Failure:
    raise AssertionError("the network answers")


def crawl(
    web: PredictedWeb, wanted: Wanted, costs: Costs, table: Mapping[str, Any]
) -> tuple[Network, int, int, str]:
    """Run the crawl; returns the network after it, bytes of logs and of state, and how it ended."""
    from lycosa.lab.predict import network_of

    network = network_of(web, wanted, costs, read_options(dict(table)).visits * wanted.agents)
    names = {host: site.address for host, site in web.sites.items()}
    simulated = SimulatedWeb(_unused, names, web.seeds, serve=network.serve)
    ran = run_cluster(
        wanted.seed,
        simulated,
        agents=wanted.agents,
        shards=_SHARDS * wanted.agents,
        options=table,
        lease=_LEASE,
        look=0.5 if wanted.pages else _LOOK,
        limit=_LIMIT,
    )
    if ran.failed:
        raise ran.failed[0][2]
    state = sum(len(data) for data in ran.storage.values())
    log = int((costs.page_log + costs.page_links * costs.link_log) * len(network.times))
    return network, log, state, "finished" if ran.finished else "limit"
