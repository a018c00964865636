"""A calculator: the resources of a crawl of any size, from measured costs (`lycosa.lab.costs`).

A crawl's pages per second are the minimum of

    processor    agents / (CPU of a page, and of its share of a host), each agent on a core of its own
    bandwidth    agents · link / bytes of a page
    visits       agents · visits / seconds of a fetch
    politeness   hosts · c / (c · seconds of a fetch + wait), every host having pages all the time
    engine       servers · messages per second / messages of a page (several agents)

and the days are pages over that; or those of the largest host alone, if these are more. The memory of an agent is
that of a process, and its share of all that grows with a crawl, each up to its limit (`costs.memory_of`). Disk is
archive, log, seen set, hosts and pending URLs.

What breaks first is the resource with the least reserve, by the share of it used at that speed: a processor, the
link, visits, politeness, the engine; or memory and disk of a machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lycosa.errors import ConfigError
from lycosa.frontier.waits.politeness import PolitenessOptions
from lycosa.lab.costs import Costs, Measured, memory_of

_DAY = 86_400.0
_SERVERS = 3
"""The least number of the engine's servers: a stream has three copies."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A planned crawl, and the machines for it."""

    pages: int
    agents: int
    hosts: int = 0
    """0: a hundred pages on each host."""
    largest: int = 0
    """Pages of the largest host; 0: a hundred times the mean."""
    link: float = 12_500_000.0
    """Bytes per second of an agent: 100 Mbit/s."""
    visits: int = 256
    """Visits of an agent at a time."""
    wait: float = 1.0
    pages_per_visit: int = 8
    per_machine: int = 4
    """Agents per machine: its cores."""
    machine_memory: float = 16e9
    machine_disk: float = 4e12
    pending: float = 1.0
    """Most pending URLs per page of the crawl, before admission bounds them."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The results of a plan."""

    plan: Plan
    costs: Costs
    machines: int
    servers: int
    rates: dict[str, float]
    """Pages per second that each limit allows, all agents together."""
    used: dict[str, float]
    """The share of each resource that is used."""
    seconds: float
    cpu: float
    memory: float
    """Bytes of memory of an agent."""
    held: dict[str, float]
    """The same by use."""
    disk: float
    """Bytes of disk of all agents."""
    parts: dict[str, float]
    """The same by use."""
    traffic: float
    messages: float
    """Messages per second."""

    @property
    def days(self) -> float:
        return self.seconds / _DAY

    @property
    def binding(self) -> str:
        """The limit that decides the speed."""
        return min(self.rates, key=lambda name: self.rates[name])

    @property
    def breaks_first(self) -> list[tuple[str, float]]:
        """The resources by reserve, the least first."""
        return sorted(self.used.items(), key=lambda item: -item[1])


def outlook(plan: Plan, costs: Costs) -> Outlook:
    """Calculate the results of a plan."""
    for name in ("pages", "agents", "visits", "pages_per_visit", "per_machine"):
        if getattr(plan, name) < 1:
            raise ConfigError(f"{name.replace('_', ' ')}: at least 1")
    hosts = plan.hosts or max(plan.pages // 100, 1)
    if hosts > plan.pages:
        raise ConfigError("there are no more hosts than pages")
    largest = min(plan.largest or 100 * math.ceil(plan.pages / hosts), plan.pages)
    several = plan.agents > 1
    page_cpu = costs.page_cpu * (1 + costs.exchange_cpu * several)
    cpu = plan.pages * page_cpu + hosts * costs.host_cpu
    stay = plan.pages_per_visit * costs.fetch_time
    pause = max(plan.wait, PolitenessOptions().factor * costs.fetch_time) if plan.wait else 0.0
    per_host = plan.pages_per_visit / max(stay + pause, 1e-9)
    # Leases, reports and tails cost messages by time rather than by page: they are included in the cost of a page.
    sent = costs.page_links * costs.link_crosses * costs.link_sent * several
    messages = costs.page_messages * several
    rates = {
        "processor": plan.agents * plan.pages / max(cpu, 1e-9),
        "bandwidth": plan.agents * plan.link / max(costs.page_bytes + sent * costs.link_message, 1e-9),
        "visits": plan.agents * plan.visits / max(costs.fetch_time, 1e-9),
        "politeness": hosts * per_host,
    }
    rate = min(rates.values())
    servers = max(math.ceil(rate * messages / costs.message_rate), _SERVERS) if several else 0
    if several:
        rates["engine"] = servers * costs.message_rate / max(messages, 1e-12)
    seconds = max(plan.pages / rate, largest / per_host)
    met = plan.pages * costs.page_new
    waiting = plan.pages * plan.pending
    each: dict[str, float] = {"pages": plan.pages, "pending": waiting, "met": met, "hosts": hosts}
    each = {name: value / plan.agents for name, value in each.items()}
    held = memory_of(costs, **each, visits=plan.visits)
    memory = sum(held.values())
    parts = {
        "archive": plan.pages * costs.page_archive,
        "log": plan.pages * (costs.page_log + costs.page_links * costs.link_log),
        "seen set": met * costs.seen_disk,
        "hosts": hosts * costs.host_disk,
        "waiting": waiting * costs.state_disk,
    }
    machines = math.ceil(plan.agents / plan.per_machine)
    real = plan.pages / seconds
    used = {name: real / most for name, most in rates.items()}
    used["memory of a machine"] = min(plan.agents, plan.per_machine) * memory / plan.machine_memory
    used["disk of a machine"] = sum(parts.values()) / machines / plan.machine_disk
    if largest / per_host > plan.pages / rate:
        rates["largest host"] = plan.pages / (largest / per_host)
        used["largest host"] = 1.0
    return Outlook(
        plan=plan,
        costs=costs,
        machines=machines,
        servers=servers,
        rates=rates,
        used=used,
        seconds=seconds,
        cpu=cpu,
        memory=memory,
        held=held,
        disk=sum(parts.values()),
        parts=parts,
        traffic=plan.pages * costs.page_bytes,
        messages=real * messages,
    )


def agents_for(plan: Plan, costs: Costs, days: float) -> int:
    """The fewest agents that finish in so many days; a `ConfigError` names the obstacle."""
    low, high = 1, 1
    while outlook(_with(plan, high), costs).days > days:
        if high > 1 << 20:
            best = outlook(_with(plan, high), costs)
            raise ConfigError(
                f"no number of agents does it in {days:g} days: {best.binding} alone takes {best.days:.3g}"
            )
        low, high = high, high * 2
    while low < high:
        middle = (low + high) // 2
        if outlook(_with(plan, middle), costs).days <= days:
            high = middle
        else:
            low = middle + 1
    return high


def _with(plan: Plan, agents: int) -> Plan:
    return replace(plan, agents=agents)


@dataclass(frozen=True, slots=True)
class Checked:
    """A calculated value beside the measured one."""

    what: str
    unit: str
    calculated: float
    measured: float

    @property
    def error(self) -> float:
        return self.calculated / self.measured - 1 if self.measured else math.inf


def check(crawl: Measured, costs: Costs) -> list[Checked]:
    """The calculator's results for a finished crawl, beside what was measured.

    Its pages, links, hosts and longest queue are taken from it, and it is assumed not to have waited for hosts; the
    rest is calculated.
    """
    plan = Plan(
        pages=crawl.pages,
        agents=1,
        hosts=crawl.hosts,
        visits=max(crawl.visits, 1),
        largest=1,
        wait=0.0,
        link=math.inf,
        pending=crawl.pending / crawl.pages,
    )
    # On one machine with the web a fetch takes no time, and the processor is the limit.
    known = {"fetch_time": 1e-6, "page_links": crawl.links / crawl.pages}
    made = outlook(plan, costs.with_values(known, "check"))
    rows = [
        Checked("CPU", "s", made.cpu, crawl.cpu),
        Checked("memory", "B", made.memory, crawl.memory),
        Checked("log", "B", made.parts["log"], crawl.log),
        Checked("traffic", "B", made.traffic, crawl.bytes),
        Checked("URLs met", "", crawl.pages * costs.page_new, crawl.met),
    ]
    if crawl.archive:
        rows.insert(2, Checked("archive", "B", made.parts["archive"], crawl.archive))
    return rows
