"""The plan of a web: its hosts, how large each is, its address and its behaviour.

Sizes follow a power law (the k-th host has about k**-skew of the first's pages) and add up to
`options.pages`. Host 0, the largest, is the *root*: plain in every way, it lists all hosts, so that
everything is found from its home page.

A host has either a *role*, which determines the behaviour of all its pages, or any number of *sections*,
directories of oddities (`lycosa.lab.webs.sections`), or neither. Roles are given to the smallest
hosts, because several make a host slow to crawl or forbid it whole; at least a quarter of the hosts
stay plain. With too few hosts for every role, the roles at the end of the list are left out;
`Plan.left_out` names them. When there are many hosts, roles repeat until three in ten
have one, and sections until one in ten has.

Several hosts share a registered domain, and some share an address, as on real hosting: so rules and
waits per host, per domain and per address can be distinguished.
"""

from __future__ import annotations

from typing import NamedTuple

from lycosa.lab.webs.dice import roll
from lycosa.lab.webs.options import WebOptions

ROBOTS_ROLES = (
    "disallow",
    "exception",
    "wildcards",
    "agents",
    "closed",
    "absent",
    "messy",
    "redirected",
    "busy",
    "broken",
    "forbidden",
    "crlf",
    "huge",
    "html",
    "encoded",
    "merged",
    "delay",
    "unauthorised",
    "empty",
)
"""Variants of robots.txt; `lycosa.lab.webs.robots` makes them."""

CLASSIC_TRAPS = ("calendar", "sessions", "deeper")
MORE_TRAPS = ("joined", "escaped", "repeated", "anything", "facets", "farm")
TRAP_ROLES = CLASSIC_TRAPS + MORE_TRAPS
"""Endless hosts; `lycosa.lab.webs.sections.traps` makes them."""

SECTIONS = (
    "redirects",
    "statuses",
    "packing",
    "types",
    "charsets",
    "hrefs",
    "directives",
    "sitemaps",
    "copies",
)

DEAD_ADDRESS = "127.0.200.1"
"""Nothing listens here."""


class Host(NamedTuple):
    """One host. `content` is the host whose pages it shows: itself, unless it is a mirror."""

    number: int
    name: str
    address: str
    size: int
    role: str = ""
    sections: tuple[str, ...] = ()
    content: int = 0
    style: int = 0
    packing: str = ""
    salt: int = 0

    @property
    def twin(self) -> bool:
        """Whether it is a mirror or has one: its pages must not name their own host."""
        return self.role in ("mirror", "mirrored")


class Plan(NamedTuple):
    hosts: tuple[Host, ...]
    addresses: tuple[str, ...]
    """The addresses to listen on."""
    left_out: tuple[str, ...]
    """Roles and sections for which there was no host."""


def draw_plan(options: WebOptions) -> Plan:
    """The plan for these options."""
    sizes = _sizes(options)
    roles, left_out = _roles(options)
    addresses = _addresses(options)
    _settle_sizes(sizes, roles)
    names = _names(options)
    places: list[list[str]] = [[] for _ in range(options.hosts)]
    open_hosts = [k for k in range(1, options.hosts) if roles[k] == ""]
    wanted = [name for name in SECTIONS if options.has(name)] + ["scripts"] * options.scripts
    if open_hosts:
        repeats = max(1, options.hosts // 10 // max(1, len(wanted)))
        for number in range(repeats):
            for at, name in enumerate(wanted):
                host = open_hosts[(number * len(wanted) + at) % len(open_hosts)]
                if name not in places[host]:
                    places[host].append(name)
    else:
        left_out += tuple(wanted)
    hosts = []
    for k in range(options.hosts):
        content = k - 1 if roles[k] == "mirror" else k
        numbers = roll(options.seed, "host", content)
        packing = ("", "", "gzip", "br", "deflate", "zstd", "gzip", "chunked")[numbers >> 8 & 7]
        address = addresses[k % len(addresses)]
        if roles[k] == "dead":
            address = DEAD_ADDRESS
        hosts.append(
            Host(
                number=k,
                name=address if options.flat else names[k],
                address=address,
                size=sizes[k],
                role=roles[k],
                sections=tuple(places[k]),
                content=content,
                style=numbers % 3,
                packing=packing if options.has("packing") else "",
                salt=numbers >> 16,
            )
        )
    return Plan(tuple(hosts), addresses, left_out)


def _sizes(options: WebOptions) -> list[int]:
    weights = [(k + 1) ** -options.skew for k in range(options.hosts)]
    spare = options.pages - options.hosts
    scale = spare / sum(weights)
    sizes = [1 + int(weight * scale) for weight in weights]
    sizes[0] += options.pages - sum(sizes)
    return sizes


def _settle_sizes(sizes: list[int], roles: list[str]) -> None:
    """Give hosts with roles some pages, taken from the root; the sum stays."""
    for k, role in enumerate(roles):
        want = sizes[k]
        if role == "mirrored":
            want = max(sizes[k], 12)
        elif role == "mirror":
            want = sizes[k - 1]
        elif role:
            want = max(sizes[k], 4)
        # The root keeps at least one page; a very small web has no more to give.
        change = min(want - sizes[k], sizes[0] - 1)
        if role == "mirror" and change < want - sizes[k]:
            roles[k] = roles[k - 1] = ""
            continue
        sizes[k] += change
        sizes[0] -= change


def _roles(options: WebOptions) -> tuple[list[str], tuple[str, ...]]:
    """A role, or none, for every host; and those left out."""
    wanted: list[tuple[str, ...]] = []  # each a run of adjacent hosts
    if options.has("copies"):
        wanted.append(("mirrored", "mirror"))
    if options.traps or options.every_trap:
        wanted += [(role,) for role in CLASSIC_TRAPS]
    if options.every_trap:
        wanted += [(role,) for role in MORE_TRAPS if role != "farm" or not options.flat]
    if options.has("slow"):
        wanted.append(("slow",))
    if options.has("flapping"):
        wanted += [("reset",), ("hang-up",)]
    if options.has("robots"):
        wanted += [(role,) for role in ROBOTS_ROLES]
    if options.has("dead") and options.addresses == "many":
        wanted.append(("dead",))
    roles = [""] * options.hosts
    least_plain = max(2, options.hosts // 4)
    length = sum(map(len, wanted))
    repeats = max(1, options.hosts * 3 // 10 // length) if length else 0
    free = options.hosts  # hosts from this index on have a role
    left: list[str] = []
    for number in range(repeats):
        for run in wanted:
            if number and run == ("dead",) and options.flat:
                continue  # there is only one dead address, hence only one flat name for it
            if free - len(run) < least_plain:
                if number == 0:
                    left += run
                continue
            free -= len(run)
            roles[free : free + len(run)] = run
    return roles, tuple(left)


def _addresses(options: WebOptions) -> tuple[str, ...]:
    if options.addresses == "single":
        return ("127.0.0.1",)
    # Four in five hosts have their own address, the others share.
    count = options.hosts if options.flat else max(1, options.hosts * 4 // 5)
    count = min(count, options.max_addresses)
    return tuple(f"127.0.{1 + k // 250}.{1 + k % 250}" for k in range(count))


def _names(options: WebOptions) -> list[str]:
    """Names under .test, reserved for tests; registered domains are its direct children."""
    names: list[str] = []
    seen: set[str] = set()
    domain = "site0"
    for k in range(options.hosts):
        number = roll(options.seed, "name", k)
        if k == 0:
            name = "site0.test"
        elif number % 4 == 0:  # a further host of the previous domain
            prefix = ("www", "blog", "shop", "docs", "a.b")[number >> 8 & 7 if number >> 8 & 7 < 5 else 0]
            name = f"{prefix}.{domain}.test"
        else:
            domain = f"site{k}"
            name = f"{domain}.test" if number >> 4 & 1 else f"www.{domain}.test"
        if name in seen:
            name = f"h{k}.{domain}.test"
        seen.add(name)
        names.append(name)
    return names
