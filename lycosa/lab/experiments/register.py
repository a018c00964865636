"""The experiments that `lycosa lab run` knows: one module per paper, loaded on demand.

A module has `PAPER`, `CLAIM` and `run(web, told)`; one that draws streams of its own instead of crawling a web has
`run_alone(urls, seed, told)`, and its web is a number of URLs. Where a user's own policy can be compared with the
paper's, `policy` names the module whose `run_policy(web, policy, name, told)` does it.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from lycosa.errors import ConfigError


class Entry(NamedTuple):
    """An experiment, before it is loaded."""

    name: str
    module: str
    paper: str
    shows: str
    policy: str = ""

    def load(self) -> Any:
        return importlib.import_module(f"lycosa.lab.experiments.{self.module}")

    def load_policy(self) -> Any:
        if not self.policy:
            able = " and ".join(entry.name for entry in EXPERIMENTS if entry.policy)
            raise ConfigError(f"{self.name} takes no policy of your own: {able} do")
        return importlib.import_module(f"lycosa.lab.experiments.{self.policy}")


EXPERIMENTS = (
    Entry(
        "sydney",
        "sydney_paper",
        "Castillo, Nelli, Panconesi: Crawling the Web with Limited Memory (2006)",
        "how long do the queues of a crawl get, under which rule? Figures 1 and 3-9, Tables 1-2",
    ),
    Entry(
        "scheduling",
        "scheduling",
        "Castillo: Effective Web Crawling (2004), chapter 6",
        "which order finds important pages early? What do connections buy? Figures 6.3-6.13, Tables 6.1-6.2",
        "scheduling_frontier",
    ),
    Entry(
        "uniqueness",
        "uniqueness",
        "Henrique, Ziviani and others: A New Approach for Verifying URL Uniqueness (2011)",
        "what does it cost to know whether a URL is new, by VEUNIQ and by DRUM? The cost table, time per cycle",
    ),
    Entry(
        "caching",
        "caching",
        "Broder, Najork, Wiener: Efficient URL Caching for World Wide Web Crawling (2003)",
        "how many links does a small cache catch, by policy, size and visits at a time? Figures 2-11",
        "caching_policy",
    ),
    Entry(
        "distribution",
        "distribution",
        "Manning, Raghavan, Schütze: Introduction to Information Retrieval (2009), chapter 20",
        "which links cross if a crawl is split by URL, host, domain, names or place? How even are the parts?",
    ),
)
"""In the order in which they are listed."""


def find(name: str) -> Entry:
    """The experiment of a name."""
    for entry in EXPERIMENTS:
        if entry.name == name:
            return entry
    known = ", ".join(entry.name for entry in EXPERIMENTS)
    raise ConfigError(f"no experiment {name!r}: there are {known}")
