"""Budgets: against plain counting, over snapshots, when they forget, and against a farm of links."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from lycosa.clock import ManualClock
from lycosa.crawl import budget_kernels as kernels
from lycosa.crawl.budgets import Budgets, _register
from lycosa.errors import ConfigError, StorageError
from lycosa.frontier import DepthOrder, Frontier, PackedFrontier, PlainFrontier
from lycosa.records import Waiting
from lycosa.url.key import Keyer
from lycosa.url.parts import host_of

KEYER = Keyer(11)


def domain_of(host: str) -> str:
    """The last two labels; hosts of .else are none of ours."""
    return "" if host.endswith(".else") else ".".join(host.split(".")[-2:])


def link(budgets: Budgets, source: str, *hosts: str) -> None:
    urls = "\n".join(f"http://{host}/{n}" for n, host in enumerate(hosts)).encode()
    budgets.note_links(source, KEYER.scan(urls)[1], urls)


def fetch(budgets: Budgets, host: str, times: int = 1) -> None:
    for _ in range(times):
        budgets.note_fetch(host)


# -- classes


def test_a_host_uses_up_its_budget() -> None:
    budgets = Budgets(5, 0, domain_of)
    assert budgets.class_of("www.a.com") == 0
    fetch(budgets, "www.a.com", 4)
    assert (budgets.class_of("www.a.com"), budgets.active) == (0, False)
    fetch(budgets, "www.a.com")
    assert (budgets.class_of("www.a.com"), budgets.active) == (1, True)
    assert budgets.class_of("other.a.com") == 0
    fetch(budgets, "www.a.com", 9)
    assert budgets.class_of("www.a.com") == 2


def test_all_hosts_of_a_domain_use_its_budget() -> None:
    budgets = Budgets(0, 10, domain_of)
    for n in range(25):
        fetch(budgets, f"h{n}.a.com")
    assert budgets.class_of("h3.a.com") == 2
    assert budgets.class_of("never-met.a.com") == 2
    assert budgets.class_of("b.com") == 0


def test_the_worse_of_both_counts() -> None:
    budgets = Budgets(2, 10, domain_of)
    fetch(budgets, "a.a.com", 9)
    assert budgets.class_of("a.a.com") == 4
    fetch(budgets, "b.a.com", 1)
    assert budgets.class_of("b.a.com") == 1


def test_no_budgets_no_classes_nothing_counted() -> None:
    budgets = Budgets(0, 0, domain_of)
    fetch(budgets, "a.com", 1000)
    link(budgets, "b.com", "a.com")
    assert (budgets.class_of("a.com"), budgets.active, budgets.nbytes) == (0, False, 0)


@pytest.mark.parametrize(("host", "domain"), [(-1, 0), (0, -1)])
def test_a_budget_below_nothing_is_refused(host: int, domain: int) -> None:
    with pytest.raises(ConfigError):
        Budgets(host, domain, domain_of)


def test_classes_end_at_255() -> None:
    budgets = Budgets(1, 0, domain_of)
    classes = []
    for _ in range(30_000):
        budgets.note_fetch("a.com")
        classes.append(budgets.class_of("a.com"))
    assert classes[:200] == list(range(1, 201))
    assert classes == sorted(classes)
    assert classes[399] == 208
    assert classes[-1] == 255


# -- in-links


def test_in_links_of_other_domains_raise_the_budget() -> None:
    budgets = Budgets(0, 10, domain_of)
    fetch(budgets, "a.com", 41)
    assert budgets.class_of("a.com") == 4
    link(budgets, "b.com", "a.com", "www.a.com")
    assert budgets.in_links("a.com") == pytest.approx(1, abs=0.1)
    assert budgets.share("a.com") == pytest.approx(2, abs=0.1)
    assert budgets.class_of("a.com") == 2
    for n in range(6):
        link(budgets, f"c{n}.com", "www.a.com")
    assert budgets.in_links("a.com") == pytest.approx(7, abs=1.5)
    assert budgets.class_of("a.com") == 1


def test_own_links_and_repeated_ones_count_nothing() -> None:
    budgets = Budgets(0, 10, domain_of)
    for n in range(50):
        link(budgets, "a.com", f"h{n}.a.com", "a.com")
    assert budgets.in_links("a.com") == 0
    for n in range(50):
        link(budgets, "b.com", f"h{n}.a.com")
    assert budgets.in_links("a.com") == pytest.approx(1, abs=0.1)


def test_links_before_the_first_page_count() -> None:
    budgets = Budgets(0, 10, domain_of)
    for n in range(5):
        link(budgets, f"b{n}.com", "a.com")
    assert budgets.in_links("a.com") == pytest.approx(5, abs=1)


def test_links_to_other_shards_and_unwanted_ones_count_nothing() -> None:
    budgets = Budgets(0, 10, domain_of)
    link(budgets, "b.com", "x.else", "a.com")
    assert budgets.in_links("x.else") == 0
    assert budgets.in_links("a.com") > 0
    urls = b"http://c.com/\nhttp://d.com/\nhttp://c.com/2"
    budgets.note_links("b.com", KEYER.scan(urls)[1], urls, np.array([False, True, False]))
    assert (budgets.in_links("c.com") > 0, budgets.in_links("d.com") > 0) == (False, True)
    fetch(budgets, "x.else", 100)
    assert budgets.class_of("x.else") == 0


def test_links_of_other_shards_count_by_the_domain_that_was_told() -> None:
    budgets = Budgets(0, 10, domain_of)
    for n in range(200):
        urls = f"http://a.com/{n}\nhttp://b.com/{n}".encode()
        sources = np.array([n % 3 + 1, 0], np.uint64)  # of the second nothing was told
        budgets.note_received(sources, KEYER.scan(urls)[1], urls)
    assert budgets.in_links("a.com") == pytest.approx(3, abs=0.3)
    assert budgets.in_links("b.com") == 0
    budgets.note_received(np.empty(0, np.uint64), np.empty(0, np.uint64), b"")


@pytest.mark.parametrize("count", [1, 3, 10, 30, 100, 1_000, 30_000])
def test_the_estimate_is_close_and_the_share_closer(count: int) -> None:
    estimates = []
    for seed in range(12):
        rows = np.zeros((8 << 4, 4), np.uint64)
        name = np.uint64(1 << 60)
        for n in range(count):
            kernels.meet(rows, 4, name, True, *_register(xxh64_intdigest(b"%d" % n, seed)))
        estimates.append(float(kernels.estimate(rows, int(kernels.find(rows, 4, name)[0]))))
    assert np.mean(estimates) == pytest.approx(count, rel=0.2)
    for estimate in estimates:
        assert abs(math.log2(1 + estimate) - math.log2(1 + count)) < 1.0


# -- beside plain counting


class Plain:
    """The same, counted exactly but for the sketches, with nothing packed and nothing forgotten."""

    def __init__(self, host_budget: int, domain_budget: int) -> None:
        self.budgets = host_budget, domain_budget
        self.hosts: Counter[str] = Counter()
        self.domains: Counter[str] = Counter()
        self.registers: dict[str, list[int]] = defaultdict(lambda: [0] * 32)

    def fetch(self, host: str) -> None:
        self.hosts[host] += 1
        self.domains[domain_of(host)] += 1

    def link(self, source: str, hosts: list[str]) -> None:
        register, rank = _register(xxh64_intdigest(source.encode(), 3))
        for domain in {domain_of(host) for host in hosts} - {source, ""}:
            self.registers[domain][register] = max(self.registers[domain][register], rank)

    def class_of(self, host: str) -> int:
        registers = self.registers[domain_of(host)]
        raw = 0.697 * 32 * 32 / sum(2.0**-r for r in registers)
        empty = registers.count(0)
        met = 32 * math.log(32 / empty) if raw <= 80 and empty else raw
        share = 1 + math.log2(1 + met)
        of_domain = self.domains[domain_of(host)] / (self.budgets[1] * share)
        return max(self.hosts[host] // self.budgets[0], int(of_domain))


HOSTS = [f"{host}.{domain}.{top}" for host in "abc" for domain in "xyz" for top in ("com", "org", "else")]
EVENTS = st.one_of(
    st.tuples(st.just("fetch"), st.sampled_from(HOSTS), st.just([])),
    st.tuples(
        st.just("link"), st.sampled_from([f"s{n}.net" for n in range(60)]), st.lists(st.sampled_from(HOSTS))
    ),
)


def applied(budgets: Budgets, events: list[tuple[str, str, list[str]]]) -> Budgets:
    for what, name, hosts in events:
        if what == "fetch":
            budgets.note_fetch(name)
        elif hosts:
            link(budgets, name, *hosts)
    return budgets


def made(hosts: int = 1 << 16, domains: int = 1 << 16) -> Budgets:
    return Budgets(2, 3, domain_of, hosts=hosts, domains=domains, seed=3)


@given(st.lists(EVENTS, max_size=200), st.integers(0, 200))
@settings(max_examples=120, deadline=None)
def test_as_plain_counting_says_and_over_a_snapshot(
    events: list[tuple[str, str, list[str]]], cut: int
) -> None:
    budgets = applied(made(), events)
    plain = Plain(2, 3)
    for what, name, hosts in events:
        if what == "fetch":
            plain.fetch(name)
        else:
            plain.link(name, hosts)
    assert {h: budgets.class_of(h) for h in HOSTS if domain_of(h)} == {
        h: plain.class_of(h) for h in HOSTS if domain_of(h)
    }
    # A snapshot and the records after it give the same as all records.
    frozen = applied(made(), events[:cut])
    pieces = frozen.freeze()
    applied(frozen, events[cut:])  # the cut was made at the call
    again = made()
    again.thaw(pieces)
    applied(again, events[cut:])
    assert list(again.freeze()) == list(budgets.freeze()) == list(frozen.freeze())
    assert again.active == budgets.active


# -- bounds


def name_of(n: int) -> int:
    return int(xxh64_intdigest(b"%d" % n, 9)) or 1


def test_a_full_table_forgets_the_smallest_then_the_oldest() -> None:
    """Against a model: sets of eight by the top four bits."""
    rng = random.Random(5)
    rows = np.zeros((8 << 4, 4), np.uint64)
    sets: dict[int, list[list[int]]] = defaultdict(list)  # [name, pages, sketch as a dictionary would be]
    sketches: dict[int, dict[int, int]] = {}
    for _ in range(6_000):
        name = name_of(int(rng.paretovariate(0.4)) % 400)
        mine = sets[name >> 60]
        row = next((row for row in mine if row[0] == name), None)
        if row is None:
            if len(mine) == 8:
                mine.remove(min(mine, key=lambda r: (r[1], sum(sketches[r[0]].values()))))
            row = [name, 0]
            mine.append(row)
            sketches[name] = {}
        if rng.random() < 0.5:
            row[1] += 1
            assert kernels.count(rows, 4, np.uint64(name), True) == row[1]
        else:
            register, rank = _register(rng.getrandbits(64))
            kernels.meet(rows, 4, np.uint64(name), True, register, rank)
            sketches[name][register] = max(rank, sketches[name].get(register, 0))
    assert sum(map(len, sets.values())) == 128
    for number, mine in sets.items():
        got = rows[8 * number : 8 * number + 8]
        assert got[:, :2].tolist() == mine
        for row in got:
            registers = {n: int(row[2 + n // 16]) >> 4 * (n % 16) & 15 for n in range(32)}
            assert {n: rank for n, rank in registers.items() if rank} == sketches[int(row[0])]


def test_memory_is_bounded_and_the_large_are_remembered() -> None:
    budgets = Budgets(100, 100, domain_of, hosts=1024, domains=1024)
    fetch(budgets, "www.large.com", 150)
    for n in range(20_000):
        fetch(budgets, f"h{n}.d{n}.com")
        link(budgets, "www.large.com", f"other{n}.com")
    assert budgets.class_of("www.large.com") == 1
    assert budgets.nbytes <= 1024 * (16 + 32) + 16 * 16_384
    again = Budgets(100, 100, domain_of, hosts=1024, domains=1024)
    again.thaw(budgets.freeze())
    assert list(again.freeze()) == list(budgets.freeze())
    smaller = Budgets(100, 100, domain_of, hosts=256, domains=256)
    smaller.thaw(budgets.freeze())
    assert smaller.class_of("www.large.com") == 1


def test_a_small_crawl_has_small_tables() -> None:
    budgets = Budgets(10, 10, domain_of)
    for n in range(20):
        fetch(budgets, f"h.d{n}.com")
    assert budgets.nbytes <= 20_000 + 16 * 16_384


# -- snapshots


def test_budgets_that_come_and_go() -> None:
    both = Budgets(2, 2, domain_of)
    fetch(both, "a.com", 4)
    pieces = list(both.freeze())
    hosts_alone = Budgets(2, 0, domain_of)
    hosts_alone.thaw(pieces)
    assert hosts_alone.class_of("a.com") == 2
    later = Budgets(2, 2, domain_of)
    later.thaw(hosts_alone.freeze())
    assert later.class_of("a.com") == 2
    fetch(later, "b.a.com")
    assert later.class_of("b.a.com") == 0  # its domain is counted from here on
    later.thaw([])
    assert later.class_of("a.com") == 2


@given(st.lists(st.binary(max_size=64), max_size=3), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_pieces_are_taken_or_refused(pieces: list[bytes], headed: bool) -> None:
    whole = applied(made(), [("fetch", "a.x.com", [])])
    if headed:
        pieces = [*list(whole.freeze())[:2], *pieces]
    budgets = made()
    try:
        budgets.thaw(pieces)
    except StorageError:
        return
    budgets.note_fetch("a.x.com")
    assert 0 <= budgets.class_of("a.x.com") <= 255


# -- the farm


class Web:
    """One hostile domain of many hosts that link among themselves, and honest ones that link to each other."""

    def __init__(self, hosts: int) -> None:
        self.links: dict[str, list[str]] = {}
        rng = random.Random(8)
        self.farm = [f"http://h{n}.farm.com/" for n in range(hosts)]
        honest = [[f"http://www.honest{n}.com/{page}" for page in range(8)] for n in range(50)]
        self.honest = [url for site in honest for url in site]
        for n, url in enumerate(self.farm):
            self.links[url] = [*rng.sample(self.farm, 20), self.farm[(n + 1) % hosts]]
        for site in honest:
            for url in site:
                self.links[url] = [*site[:3], *(rng.choice(honest)[0] for _ in range(2))]
            self.links[site[0]] += site
        self.links[honest[0][0]] += [site[0] for site in honest] + [self.farm[0]]
        self.seeds = [honest[0][0], self.farm[0]]


def crawl(web: Web, budgets: Budgets, frontier: Frontier, clock: ManualClock) -> list[str]:
    """Every page in the order in which the frontier gave them; frontier and budgets as a shard uses them."""
    known: set[str] = set()
    order: list[str] = []

    def judge(host: str) -> bool:
        """Give a host its class; whether it is higher than the one it had."""
        return frontier.demote(host, budgets.class_of(host))

    def put(urls: list[str]) -> None:
        new = list(dict.fromkeys(url for url in urls if url not in known))
        known.update(new)
        frontier.put([Waiting(url, KEYER.key(url)) for url in new], [0] * len(new))
        if budgets.active:
            for host in dict.fromkeys(map(host_of, new)):
                judge(host)

    put(web.seeds)
    while len(order) < len(known):
        host = frontier.begin(clock.monotonic())
        if host is None:
            clock.advance(0.5)
        elif budgets.active and judge(host):
            frontier.end(host, clock.monotonic())  # others of its domain used the budget up meanwhile
        else:
            waiting = frontier.take(host)
            assert waiting is not None
            order.append(waiting.url)
            frontier.done(waiting.key)
            budgets.note_fetch(host)
            links = web.links[waiting.url]
            urls = "\n".join(links).encode()
            budgets.note_links(domain_of(host), KEYER.scan(urls)[1], urls)
            put(links)
            frontier.end(host, clock.monotonic() + 1.0)
            clock.advance(0.1)
    return order


@pytest.mark.parametrize(
    ("make", "hosts"),
    [(PlainFrontier, 150), (lambda clock: PackedFrontier(clock, DepthOrder(), KEYER.seed), 1_000)],
    ids=["plain", "packed"],  # the plain one looks at every host for every visit
)
def test_a_farm_of_links_waits_until_the_honest_are_served(
    make: Callable[[ManualClock], Frontier], hosts: int
) -> None:
    web = Web(hosts)
    free, held = (
        crawl(web, Budgets(0, budget, domain_of), make(clock), clock)
        for budget, clock in ((0, ManualClock()), (20, ManualClock()))
    )
    everything = {*web.farm, *web.honest}
    # Nothing is forgotten either way.
    assert len(free) == len(held) == len(everything)
    assert set(free) == set(held) == everything
    honest = set(web.honest)

    def farmed(order: list[str]) -> int:
        """Pages of the farm before the last honest one."""
        return max(n for n, url in enumerate(order) if url in honest) + 1 - len(honest)

    # Without budgets the farm has nearly all of its pages before the honest are through. With them it gets its
    # budget (20 pages, twice as many for its one in-link, the honest domain of the seed) and turns that no honest
    # host could take; then, when the honest are done, all of its pages.
    assert farmed(free) > 0.9 * hosts
    assert 40 <= farmed(held) < 70
    assert set(held[70 - len(web.farm) :]) <= set(web.farm)
