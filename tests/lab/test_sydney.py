"""The Sydney experiment: the kernel, its plain twin and the product do the same, page by page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.errors import ConfigError
from lycosa.frontier.sydney.room import ALL
from lycosa.graph.bv import Lists
from lycosa.lab.experiments import sydney, sydney_paper
from lycosa.lab.experiments.sydney import BFS, Plan, Rule, Subject, Trace, crawl, plan_of
from lycosa.lab.experiments.sydney_frontier import crawl_through, keys_of
from lycosa.lab.experiments.sydney_plain import PlainCrawl
from lycosa.lab.experiments.web import from_synthetic
from lycosa.lab.faults import FaultyFiles

Graph = list[list[int]]


def lists_of(graph: Sequence[Sequence[int]]) -> Lists:
    starts = np.zeros(len(graph) + 1, np.int64)
    np.cumsum([len(row) for row in graph], out=starts[1:])
    return Lists(starts, np.array([w for row in graph for w in row], np.int32))


def subject_of(graph: Graph, sources: Sequence[int] = (0,), seed: int = 0) -> Subject:
    lists = lists_of(graph)
    start = np.array(sources, np.int64)
    depths = sydney.reach(lists, start)
    ranks = np.bincount(lists.nodes, minlength=lists.count).astype(np.float64)
    return Subject(lists, start, keys_of(depths, seed), depths, ranks, {"in-degree": ranks})


@st.composite
def graphs(draw: st.DrawFn, most: int = 40) -> Graph:
    """Some pages, with a hub or two, so that samples matter."""
    n = draw(st.integers(1, most))
    nodes = st.integers(0, n - 1)
    graph = [sorted(set(draw(st.lists(nodes, max_size=4)))) for _ in range(n)]
    for hub in draw(st.lists(nodes, max_size=3)):
        graph[hub] = sorted({*graph[hub], *draw(st.lists(nodes, min_size=n // 2, max_size=n))})
    return graph


def random_graph(n: int, degree: int, seed: int) -> Graph:
    """A web of pages that link near, and of some that link to very many."""
    random = np.random.default_rng(seed)
    graph: Graph = []
    for v in range(n):
        count = int(random.integers(0, degree)) if random.random() < 0.9 else int(random.integers(0, n // 3))
        near = (v + random.integers(1, 12, count // 2)) % n
        graph.append(sorted({*near.tolist(), *random.integers(0, n, count - count // 2).tolist()}))
    return graph


RULES = st.builds(
    Rule,
    name=st.just("any"),
    t=st.sampled_from([1, 2, 3, 8, ALL]),
    again=st.sampled_from([0, 1, 5, ALL]),
    shuffled=st.booleans(),
    pending=st.sampled_from(["fifo", "lifo"]),
    left=st.sampled_from(["fifo", "lifo", "emptied", "none"]),
    budget=st.sampled_from([0.0, 0.1, 0.3, 0.8]),
    whole=st.booleans(),
    shallow=st.integers(0, 3),
    quality=st.booleans(),
)
MODES = st.builds(
    Rule,
    name=st.just("frontier"),
    t=st.sampled_from([1, 2, 3, 8, ALL]),
    mode=st.sampled_from(["adaptive", "sample", "fixed"]),
    room=st.sampled_from([0.0, 0.1, 0.3, 0.8]),
    shallow=st.integers(0, 3),
)


def the_same(subject: Subject, plan: Plan, graph: Graph) -> Trace:
    """Crawl with the kernel and with its twin."""
    trace = crawl(subject, plan)
    plain = PlainCrawl(graph, subject.keys.tolist(), plan)
    plain.run(subject.sources.tolist())
    assert trace.order.tolist() == plain.order
    assert trace.peak == max(p + s for _, p, s in plain.sizes)
    assert trace.peak_at == next(at for at, p, s in plain.sizes if p + s == trace.peak)
    assert trace.peak_p == max(p for _, p, _ in plain.sizes)
    assert trace.peak_s == max(s for _, _, s in plain.sizes)
    for name in ("left", "returns", "barren", "dropped", "forgotten"):
        assert getattr(trace, name) == getattr(plain, name), name
    assert trace.returned == len(plain.returned)
    for at, (p, s) in enumerate(trace.curve.tolist()):
        inside = [a + b for pages, a, b in plain.sizes if pages // trace.stride == at]
        assert p + s == max(inside)
    return trace


@settings(max_examples=80, deadline=None)
@given(graphs(), st.one_of(RULES, MODES), st.data())
def test_kernel_and_plain_twin_are_one(graph: Graph, rule: Rule, data: st.DataObject) -> None:
    sources = data.draw(st.lists(st.integers(0, len(graph) - 1), min_size=1, max_size=3))
    subject = subject_of(graph, sources)
    reached = int(np.count_nonzero(subject.depths >= 0))
    trace = the_same(subject, plan_of(rule, subject, reached, base=data.draw(st.integers(0, 5))), graph)
    whole = sorted(np.flatnonzero(subject.depths >= 0).tolist())
    if rule.left != "none" and not rule.budget and rule.mode != "fixed":
        assert sorted(trace.order.tolist()) == whole, "a page was lost"
    else:
        assert set(trace.order.tolist()) <= set(whole)
        assert len(set(trace.order.tolist())) == len(trace.order)
    if rule.budget and not rule.mode:
        most = max(int(rule.budget * reached), 1)
        beyond = max(np.diff(subject.lists.starts).max(), len(sources)) if rule.whole else 0
        assert trace.peak <= most + beyond


FRONTIER = [
    Rule("t=1", t=1, mode="sample"),
    Rule("t=3", t=3, mode="sample"),
    Rule("t=8", t=8, mode="sample"),
    Rule("all", mode="sample"),
    Rule("adaptive", mode="adaptive", room=0.1),
    Rule("adaptive, wide", mode="adaptive", room=0.5),
    Rule("fixed", t=4, mode="fixed", room=0.05),
    Rule("truncated", t=3, mode="truncated"),
    Rule("shallow", t=2, mode="sample", shallow=2),
    Rule("quality", t=4, mode="sample", quality=True),
]


@pytest.mark.parametrize(
    ("rule", "seed"), [pytest.param(rule, 1 + at % 2, id=rule.name) for at, rule in enumerate(FRONTIER)]
)
def test_the_product_does_the_same(rule: Rule, seed: int) -> None:
    graph = random_graph(400, 6, seed)
    subject = subject_of(graph, [0, 7], seed)
    reached = int(np.count_nonzero(subject.depths >= 0))
    assert reached > 200
    product = crawl_through(FaultyFiles(), subject, rule, reached, seed)
    trace = the_same(subject, plan_of(rule, subject, reached, product.base), graph)
    assert product.order == trace.order.tolist()
    assert (product.peak, product.peak_p, product.peak_s) == (trace.peak, trace.peak_p, trace.peak_s)
    assert product.returns == trace.returns
    assert (product.dropped > 0) == (trace.forgotten > 0)
    if rule.mode in ("sample", "adaptive") and rule.t != ALL and rule.name != "shallow":
        assert trace.returns, "nothing was left behind: the test shows nothing"


def star(leaves: int) -> Graph:
    """A page that links to many that link nowhere."""
    return [list(range(1, leaves + 1)), *([] for _ in range(leaves))]


def run(graph: Graph, rule: Rule) -> Trace:
    subject = subject_of(graph)
    return the_same(subject, plan_of(rule, subject, len(graph)), graph)


def test_a_star_by_hand() -> None:
    bfs = run(star(100), BFS)
    assert (bfs.peak, bfs.peak_at, bfs.returns) == (100, 1, 0)
    assert bfs.order.tolist() == list(range(101)), "a page whose links all enter gives them in its own order"
    eight = run(star(100), Rule("t=8", t=8))
    # Twelve returns: eleven of eight links and one of four. The page itself waits in S meanwhile.
    assert (eight.peak, eight.peak_p, eight.peak_s) == (9, 8, 1)
    assert (eight.returned, eight.returns, eight.left, eight.barren) == (1, 12, 12, 0)
    assert eight.order.tolist() != list(range(101)), "a sample of a page is not its first links"
    assert sorted(eight.order.tolist()) == list(range(101))
    whole = run(star(100), Rule("t=8, back with all", t=8, again=ALL))
    assert (whole.peak, whole.returns) == (92, 1)
    cut = run(star(100), Rule("truncated", t=8, left="none"))
    assert (len(cut.order), cut.forgotten) == (9, 1)
    tight = run(star(100), Rule("budget", t=8, budget=0.05))  # 5 places: 5 links, none for the page
    assert (len(tight.order), tight.peak, tight.dropped, tight.forgotten) == (6, 5, 3, 1)


def test_a_link_found_elsewhere_makes_a_return_barren() -> None:
    # Page 0 leaves one of 1 and 2 behind; whichever is fetched links to the other.
    trace = run([[1, 2], [2], [1]], Rule("t=1", t=1))
    assert (trace.left, trace.returns, trace.barren) == (1, 1, 1)
    assert sorted(trace.order.tolist()) == [0, 1, 2]


def test_depth_first_goes_down_before_it_goes_on() -> None:
    tree = [[1, 4], [2, 3], [], [], [5, 6], [], []]
    rule = Rule("depth-first", t=1, shuffled=False, left="lifo")
    assert run(tree, rule).order.tolist() == list(range(7))
    assert run(tree, Rule("lifo", shuffled=False, pending="lifo")).order.tolist() == list(range(7))
    assert run(tree, BFS).order.tolist() == [0, 1, 4, 2, 3, 5, 6]


def test_shares_are_of_what_breadth_first_reaches() -> None:
    graph = [*star(9), [0], [10]]  # two pages that nothing leads to
    subject = subject_of(graph)
    rules = [BFS, Rule("t=4", t=4), Rule("truncated", t=4, left="none")]
    rows = {row.rule: row for _, _, row in sydney.experiment(subject, rules)}
    assert rows["breadth-first"].coverage == rows["t=4"].coverage == 1.0
    assert rows["t=4"].peak == 0.5 and rows["t=4"].of_bfs == 5 / 9
    assert rows["t=4"].returned == 0.1 and rows["t=4"].returns == 0.2
    assert rows["truncated"].coverage == 0.5
    # Page 0 has one link into it, from outside; each leaf has one.
    assert rows["breadth-first"].worth == {"in-degree": [0.2, 0.5, 0.8, 1.0]}
    assert rows["truncated"].worth == {"in-degree": [0.2, 0.5, None, 0.5]}


def test_the_start_reaches_most_and_is_near() -> None:
    # 0 has most links, nearly all to dead ends, and one long way to the rest; from 13 everything is near.
    graph: Graph = [list(range(1, 10)), *([] for _ in range(8)), [10], [11], [12], [13], [0, 9, 10, 11, 12]]
    assert sydney.best_start(lists_of(graph)) == 13
    with pytest.raises(ConfigError, match="no nodes"):
        sydney.best_start(lists_of([]))


def test_a_rule_that_gives_nothing_is_refused() -> None:
    subject = subject_of(star(3))
    with pytest.raises(ConfigError, match="at least one link"):
        plan_of(Rule("t=0", t=0), subject, 4)


def test_the_papers_tables_and_figures() -> None:
    web = from_synthetic(1_000, 2, lambda _: None)
    result = sydney_paper.run(web, lambda _: None)
    names = [figure.name for figure in result.figures]
    assert names[:6] == ["Figure 1", "Figure 3", "Figure 4", "Figure 5", "Figure 6", "Figure 7"]
    assert names[6:8] == ["Figure 8, t=8", "Figure 8, t=16"] and len(names) == 11
    by_name = {line.what: line for line in result.lines}
    assert by_name["t=8: longest queue"].paper == 0.07 and by_name["t=8: pages visited again"].paper == 0.022
    assert by_name["t=16, truncated: PageRank"].paper == 0.89
    assert by_name["t=8, budget 3%: coverage"].paper == 0.938
    assert by_name["t=8: covers everything"].verdict == "holds"
    # The same numbers as the experiment itself has.
    subject = sydney_paper.subject_of(web, lambda _: None)
    rows = {rule.name: row for rule, _, row in sydney.experiment(subject, sydney_paper.chosen_rules())}
    assert by_name["t=16: longest queue"].ours == rows["t=16"].peak
    assert by_name["t=8, truncated: coverage"].ours == rows["t=8, truncated"].coverage
    assert [line.ours for line in sydney_paper.run(web, lambda _: None).lines] == [
        line.ours for line in result.lines
    ]
