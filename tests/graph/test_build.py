"""Building: equal to plain dictionaries, in one go and in steps, in much memory and in little."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.errors import ConfigError, LocalError, StorageError
from lycosa.files import DiskFiles
from lycosa.graph.build import build
from lycosa.graph.gather import Gatherer, Options
from lycosa.graph.sorting import ArcSorter, pack, sources_of, targets_of
from lycosa.graph.store import GraphStore, NodeFacts
from tests.graph.crawls import Entry, crawl, fetched, host, link, page, redirect, truth, url


def domain(name: str) -> str:
    return ".".join(name.split(".")[-2:])


def arcs_of(store: GraphStore, name: str = "out") -> set[tuple[str, str]]:
    graph = store.graph(name)
    lists = graph.csr()
    sources = np.repeat(np.arange(graph.nodes), np.diff(lists.starts))
    if name.startswith("host"):
        label = store.hosts.names
    elif name.startswith("domain"):
        label = store.domains.names
    else:
        label = store.urls.urls
    return set(zip(label(sources), label(lists.nodes), strict=True))


def check(store: GraphStore, entries: list[Entry], canonical: bool = False) -> None:
    nodes, arcs = truth(entries, canonical)
    assert set(store.urls.urls(np.arange(len(store.urls)))) == nodes
    assert arcs_of(store) == arcs
    assert store.manifest.arcs == len(arcs)
    assert arcs_of(store, "in") == {(b, a) for a, b in arcs}
    hosts = {(host(a), host(b)) for a, b in arcs if host(a) != host(b)}
    assert arcs_of(store, "host-out") == hosts
    assert arcs_of(store, "host-in") == {(b, a) for a, b in hosts}
    domains = {(domain(a), domain(b)) for a, b in hosts if domain(a) != domain(b)}
    assert arcs_of(store, "domain-out") == domains
    assert arcs_of(store, "domain-in") == {(b, a) for a, b in domains}


@given(st.integers(0, 1 << 30), st.booleans(), st.sampled_from([1, 2000, 1 << 26]))
@settings(max_examples=25, deadline=None)
def test_one_build_is_the_truth(
    tmp_path_factory: pytest.TempPathFactory, seed: int, canonical: bool, memory: int
) -> None:
    files = DiskFiles(tmp_path_factory.mktemp("b"))
    entries = crawl(seed)
    build(files, entries, Options(memory=memory, canonical=canonical), domain)
    check(GraphStore.open(files), entries, canonical)
    assert files.list("scratch") == []


@given(st.integers(0, 1 << 30), st.lists(st.integers(0, 60), min_size=1, max_size=3), st.booleans())
@settings(max_examples=25, deadline=None)
def test_builds_in_steps_are_one_build(
    tmp_path_factory: pytest.TempPathFactory, seed: int, cuts: list[int], canonical: bool
) -> None:
    files = DiskFiles(tmp_path_factory.mktemp("b"))
    entries = crawl(seed, pages=60)
    options = Options(memory=3000, canonical=canonical)
    for cut in [*sorted(cuts), len(entries)]:
        build(files, entries[:cut], options, domain)  # what was built before is passed over
        check(GraphStore.open(files), entries[:cut], canonical)
    generation = GraphStore.open(files).manifest.generation
    assert {name for name in files.list("") if name.startswith("urls-")} == {
        f"urls-{g}" for g in (generation, generation - 1) if g > 0
    }


def test_redirects_are_resolved_and_circles_left(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    a, b, c, d, e = (f"http://x.org/{name}" for name in "abcde")
    records = [page(a, b), redirect(b, c), redirect(c, d), page(d), redirect(e, e)]
    loop = [redirect("http://y.org/1", "http://y.org/2"), redirect("http://y.org/2", "http://y.org/1")]
    into = [page("http://z.org/", "http://y.org/1", e)]
    build(files, [(0, i, r) for i, r in enumerate(records + loop + into)], None, domain)
    assert arcs_of(GraphStore.open(files)) == {
        (a, d),
        (b, d),
        (c, d),
        ("http://y.org/1", "http://y.org/2"),
        ("http://y.org/2", "http://y.org/1"),
        ("http://z.org/", "http://y.org/1"),
        ("http://z.org/", e),
    }
    store = GraphStore.open(files)
    raw = store.links()
    number = store.urls.number(a)
    assert number is not None
    assert store.urls.urls(raw.successors(number)) == [b]


def test_a_later_answer_replaces_an_earlier_one(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    a, b, c = "http://x.org/a", "http://x.org/b", "http://x.org/c"
    build(files, [(0, 0, page(a, b))], None, domain)
    build(files, [(0, 1, fetched(a, [link(c)], 500)), (0, 2, fetched(a, [], 304))], None, domain)
    assert arcs_of(GraphStore.open(files)) == {(a, b)}
    build(files, [(0, 3, page(a, c))], None, domain)
    assert arcs_of(GraphStore.open(files)) == {(a, c)}
    build(files, [(0, 4, fetched(a, [link(b)], 404))], None, domain)
    store = GraphStore.open(files)
    assert arcs_of(store) == set()
    assert store.manifest.positions == {"0": 5}
    assert store.manifest.nodes == 3
    facts = store.facts
    assert [store.urls.url(int(i)) for i in np.flatnonzero(facts.fetched)] == [a]


def test_kinds_of_links_are_options(tmp_path: Path) -> None:
    from lycosa.records import LinkKind

    a, b, c, d = (f"http://x.org/{name}" for name in "abcd")
    entry = [(0, 0, fetched(a, [link(b), link(c, LinkKind.IMAGE), link(d, nofollow=True)]))]
    expected = {
        (False, True): {(a, b), (a, d)},
        (True, True): {(a, b), (a, c), (a, d)},
        (False, False): {(a, b)},
    }
    for i, ((requisites, nofollow), arcs) in enumerate(expected.items()):
        files = DiskFiles(tmp_path / str(i))
        build(files, entry, Options(requisites=requisites, nofollow=nofollow))
        assert arcs_of(GraphStore.open(files)) == arcs
        with pytest.raises(LocalError, match="other kinds"):
            build(files, entry, Options(requisites=not requisites, nofollow=nofollow))


def test_an_empty_crawl_and_no_graph(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    with pytest.raises(ConfigError, match="graph build"):
        GraphStore.open(files)
    manifest = build(files, [], None, domain)
    assert (manifest.nodes, manifest.arcs, manifest.hosts) == (0, 0, 0)
    check(GraphStore.open(files), [])
    build(files, [(0, 0, page(url(1), url(2)))], None, domain)
    assert arcs_of(GraphStore.open(files)) == {(url(1), url(2))}


def test_an_interrupted_build_leaves_the_last_one(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    build(files, [(0, 0, page(url(1), url(2)))], None, domain)

    def broken() -> list[Entry]:
        raise RuntimeError("pulled")

    class Failing:
        def __iter__(self) -> object:
            yield (0, 1, page(url(3), url(4)))
            broken()

    with pytest.raises(RuntimeError):
        build(files, Failing(), Options(memory=1), domain)  # type: ignore[arg-type]  # an iterable will do
    assert arcs_of(GraphStore.open(files)) == {(url(1), url(2))}
    build(files, [(0, 1, page(url(3), url(4)))], None, domain)
    assert arcs_of(GraphStore.open(files)) == {(url(1), url(2)), (url(3), url(4))}


def test_memory_bounds_the_runs(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    gatherer = Gatherer(files, Options(memory=50_000))
    most = 0
    for i in range(300):
        gatherer.add(page(f"http://x.org/{i}", *(f"http://x.org/{i}/{j}" for j in range(20))))
        most = max(most, gatherer.held)
    gatherer.seal()
    assert gatherer.runs > 10
    assert most <= 50_000


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=200))
@settings(deadline=None)
def test_arcs_in_little_memory_sort_as_in_much(
    tmp_path_factory: pytest.TempPathFactory, arcs: list[tuple[int, int]]
) -> None:
    sorter = ArcSorter(DiskFiles(tmp_path_factory.mktemp("s")), "a", 0)
    sorter._room = 7  # the least that is allowed is far more than these
    for i in range(0, len(arcs), 5):
        part = arcs[i : i + 5]
        sorter.add(pack([a for a, _ in part], [b for _, b in part]))
    pieces = list(sorter.sorted())
    out = [
        pair
        for piece in pieces
        for pair in zip(sources_of(piece).tolist(), targets_of(piece).tolist(), strict=True)
    ]
    assert out == sorted(set(arcs))


def test_many_runs_are_merged(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    sorter = ArcSorter(DiskFiles(tmp_path), "a", 0)
    sorter._room = 50
    words = rng.integers(0, 1 << 62, size=20_000).astype(np.uint64)
    for i in range(0, len(words), 100):
        sorter.add(words[i : i + 100])
    assert np.array_equal(np.concatenate(list(sorter.sorted())), np.unique(words))
    assert list(tmp_path.iterdir()) == []


@given(st.binary(max_size=120), st.integers(0, 130))
def test_damaged_facts_are_refused(extra: bytes, cut: int) -> None:
    whole = NodeFacts(
        np.array([True, False, True]), np.array([[0, 1, 1]], dtype=np.int32), np.array([2], dtype=np.int32),
        np.array([0], dtype=np.int32),
    ).pack()  # fmt: skip
    again = NodeFacts.unpack(whole, 3, 1, "n")
    assert again.fetched.tolist() == [True, False, True]
    assert again.aliases.tolist() == [[0, 1, 1]]
    with pytest.raises(StorageError, match="n is damaged"):
        NodeFacts.unpack(whole, 2, 1, "n")
    for data in (whole[:cut] if cut < len(whole) else b"", whole + extra + b"x", b"LYNODES1" + extra):
        with pytest.raises(StorageError):
            NodeFacts.unpack(data, 3, 1, "n")
