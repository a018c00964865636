"""Building the link graph of a crawl: a fold over its log, incremental, in bounded memory.

    build(files, entries, options, domain_of, reached) -> Manifest

`entries` are (shard, position, record) in the order of each shard's log. A first build takes all; a later
one needs those from `Manifest.positions` on (earlier ones are skipped) and merges them with what was
built before. `reached` tells, after they are read, the position that the reader has reached, which may be beyond
the last entry. A fetch that is taken back (`Lost`) after it was built in keeps its links until the page is fetched
again.

1. *Gather*: entries become runs of sorted URLs and links by rank (`gather`).
2. *Number*: the URLs of the build before and of all runs are merged into one sorted table. Old numbers and
   ranks ascend as new numbers do, so that a run's translation is one array, kept on disk.
3. *Choose*: of each page the last answer counts; an array tells which run has it.
4. *Sort*: links in new numbers are sorted (`sorting`) and compressed as the pages hold them.
5. *Resolve*: a link to a URL that redirects becomes a link to where the redirects end, and with the option
   `canonical` a page's canonical link counts as a redirect. Such an alias has a single link, to
   its end; its other links belong to the end. Redirects that run in a circle are not
   resolved. Sorted again, that gives the graph of out-links, its transpose, and those of hosts and domains.

Memory: `options.memory` for gathering and for sorting, one after the other; in addition the finished URL table
(some 15 bytes per URL) and three arrays of 4 bytes per URL.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from lycosa.errors import LocalError
from lycosa.files import Files
from lycosa.graph.bv_format import MOST_NODES, preset
from lycosa.graph.bv_writer import BVWriter
from lycosa.graph.gather import REDIRECTED, Answer, Gatherer, Options, read_keys, read_run
from lycosa.graph.sorting import Arcs, ArcSorter, pack, sources_of, targets_of, write_graph
from lycosa.graph.store import GraphStore, Ints, Manifest, NodeFacts, publish, read_manifest
from lycosa.graph.urls import UrlTable, UrlWriter, host_of_key, turned_host
from lycosa.records import Record

Entry = tuple[int, int, Record]

_NONE = -1


@dataclass
class _Merged:
    """All URLs under their new numbers."""

    count: int
    old: Ints  # new number of each old one


def build(
    files: Files,
    entries: Iterable[Entry],
    options: Options | None = None,
    domain_of: Callable[[str], str] = lambda host: host,
    reached: Callable[[], Mapping[int, int]] = dict,
) -> Manifest:
    """Update the graph in `files` with the entries; returns the new manifest."""
    options = options or Options()
    preset(options.preset)  # an unknown name fails before the work
    scratch = _empty(files.within("scratch"))
    before = read_manifest(files)
    if before and (before.requisites, before.nofollow) != (options.requisites, options.nofollow):
        raise LocalError("links of other kinds than before are asked for: remove the graph's directory first")
    gatherer = Gatherer(scratch, options)
    positions = dict(before.positions) if before else {}
    for shard, position, record in entries:
        if position >= positions.get(str(shard), 0):
            gatherer.add(record)
            positions[str(shard)] = position + 1
    positions |= {str(shard): position for shard, position in reached().items()}
    gatherer.seal()
    return _finish(files, scratch, gatherer, before, positions, options, domain_of)


def build_from_edges(
    files: Files,
    edges: Iterable[tuple[bytes, bytes]],
    options: Options | None = None,
    domain_of: Callable[[str], str] = lambda host: host,
) -> Manifest:
    """A new graph from pairs of URLs, in any order, with repeats."""
    options = options or Options()
    preset(options.preset)
    if read_manifest(files):
        raise LocalError("there is a graph already: choose another directory")
    scratch = _empty(files.within("scratch"))
    gatherer = Gatherer(scratch, options, replace=False)
    for source, group in groupby(edges, key=itemgetter(0)):
        gatherer.add_answer(Answer(source, [target for _, target in group]))
    gatherer.seal()
    return _finish(files, scratch, gatherer, None, {}, options, domain_of, replace=False)


def _empty(scratch: Files) -> Files:
    for name in scratch.list(""):
        scratch.remove(name)
    return scratch


def _finish(
    files: Files,
    scratch: Files,
    gatherer: Gatherer,
    before: Manifest | None,
    positions: dict[str, int],
    options: Options,
    domain_of: Callable[[str], str],
    replace: bool = True,
) -> Manifest:
    """Steps 2 to 5: make a published graph from runs."""
    generation = before.generation + 1 if before else 1
    store = GraphStore(files, before) if before else None
    merged = _number(files, scratch, store, gatherer.runs, f"urls-{generation}")
    arcs, facts = _choose(scratch, store, gatherer.runs, merged, options, replace)
    resolved = _resolution(merged.count, facts.aliases, options.canonical)
    links = f"out-{generation}"
    if len(facts.aliases):
        links = f"links-{generation}"
        arcs = _resolved(files, scratch, links, arcs, merged.count, facts.aliases, resolved, options)
    del resolved
    table = UrlTable.open(files, f"urls-{generation}")
    hosts = _Hosts(files, table, domain_of, generation)
    total = _write_all(files, scratch, arcs, merged.count, hosts, options, generation)
    facts = facts._replace(domains=hosts.domain)
    out = files.create(f"nodes-{generation}")
    out.write(facts.pack())
    out.sync()
    out.close()
    manifest = Manifest(
        generation,
        merged.count,
        total,
        hosts.count,
        hosts.domains,
        positions,
        links,
        options.canonical,
        options.requisites,
        options.nofollow,
        options.preset,
    )
    publish(files, manifest)
    _empty(scratch)
    return manifest


def _number(files: Files, scratch: Files, store: GraphStore | None, runs: int, name: str) -> _Merged:
    """Merge all URLs into the new table; each run's translation goes to the scratch file run-i.numbers."""
    streams: list[Iterator[tuple[bytes, int]]] = []

    def tagged(keys: Iterable[bytes], tag: int) -> Iterator[tuple[bytes, int]]:
        return ((key, tag) for key in keys)

    if store:
        streams.append(tagged(store.urls.iterate(), runs))
    streams += [tagged(read_keys(scratch, i), i) for i in range(runs)]
    writer = UrlWriter(files, name)
    numbers: list[list[int]] = [[] for _ in range(runs + 1)]
    outs = [scratch.create(f"run-{i}.numbers") for i in range(runs + 1)]
    batch: list[bytes] = []
    last: bytes | None = None
    number = _NONE

    def flush() -> None:
        if batch:
            writer.append(batch)
            batch.clear()
        for out, held in zip(outs, numbers, strict=True):
            out.write(np.array(held, dtype=np.int32).tobytes())
            held.clear()

    for key, tag in streams[0] if len(streams) == 1 else heapq.merge(*streams):
        if key != last:
            if len(batch) >= 1 << 14:
                flush()
            number += 1
            batch.append(key)
            last = key
        numbers[tag].append(number)
    flush()
    if number >= MOST_NODES:
        raise LocalError(f"a graph has at most {MOST_NODES} URLs")
    writer.close()
    for out in outs:
        out.close()
    return _Merged(number + 1, _numbers(scratch, runs))


def _numbers(scratch: Files, run: int) -> Ints:
    return np.frombuffer(scratch.read(f"run-{run}.numbers"), dtype=np.int32)


def _choose(
    scratch: Files, store: GraphStore | None, runs: int, merged: _Merged, options: Options, replace: bool
) -> tuple[Iterator[Arcs], NodeFacts]:
    """The links of each page's last answer, sorted, and the facts of all nodes."""
    owner = np.full(merged.count, _NONE, dtype=np.int32)
    aliases: list[Ints] = []
    seeds: list[Ints] = []
    if store:
        owner[merged.old[store.facts.fetched]] = runs
        seeds.append(merged.old[store.facts.seeds])
    for i in range(runs):
        run, number = read_run(scratch, i), _numbers(scratch, i)
        owner[number[run.pages]] = i
        seeds.append(number[run.seeds])
    sorter = ArcSorter(scratch, "links", options.memory)
    if store:
        for piece in store.links().scan():
            pages = merged.old[piece.first : piece.first + piece.lists.count]
            kept = owner[pages] == runs
            degrees = np.diff(piece.lists.starts)
            targets = merged.old[piece.lists.nodes[np.repeat(kept, degrees)]]
            sorter.add(pack(np.repeat(pages[kept], degrees[kept]), targets))
        rows = store.facts.aliases.copy()
        rows[:, :2] = merged.old[rows[:, :2]]
        aliases.append(rows[owner[rows[:, 0]] == runs])
    for i in range(runs):
        run, number = read_run(scratch, i), _numbers(scratch, i)
        pages = number[run.pages]
        kept = owner[pages] == i if replace else np.ones(len(pages), dtype=bool)
        targets = number[run.targets[np.repeat(kept, run.counts)]]
        sorter.add(pack(np.repeat(pages[kept], run.counts[kept]), targets))
        rows = run.aliases.reshape(-1, 3).copy()
        rows[:, :2] = number[rows[:, :2]]
        aliases.append(rows[owner[rows[:, 0]] == i])
    all_aliases = np.concatenate(aliases) if aliases else np.empty((0, 3), dtype=np.int32)
    all_seeds = np.unique(np.concatenate(seeds)) if seeds else np.empty(0, dtype=np.int32)
    empty = np.empty(0, dtype=np.int32)
    order = np.argsort(all_aliases[:, 0], kind="stable")
    return sorter.sorted(), NodeFacts(owner != _NONE, all_aliases[order], all_seeds, empty)


def _resolution(nodes: int, aliases: Ints, canonical: bool) -> Ints:
    """Where each node's redirects end; itself if it has none, or if they run in a circle."""
    to = np.arange(nodes, dtype=np.int32)
    rows = aliases if canonical else aliases[aliases[:, 2] == REDIRECTED]
    to[rows[:, 0]] = rows[:, 1]
    step = to.copy()
    for _ in range(32):  # doubles the steps taken, up to more than there are nodes
        further = to[to]
        if np.array_equal(further, to):
            break
        to = further
    circling = step[to] != to
    to[circling] = np.flatnonzero(circling).astype(np.int32)
    return to


def _resolved(
    files: Files,
    scratch: Files,
    name: str,
    arcs: Iterator[Arcs],
    nodes: int,
    aliases: Ints,
    to: Ints,
    options: Options,
) -> Iterator[Arcs]:
    """Write the links as they are, and return them resolved and sorted again."""
    sorter = ArcSorter(scratch, "resolved", options.memory)

    def passing() -> Iterator[Arcs]:
        for piece in arcs:
            sorter.add(pack(to[sources_of(piece)], to[targets_of(piece)]))
            yield piece

    writer = BVWriter(files, name, preset(options.preset))
    write_graph(writer, passing(), nodes)
    writer.close(nodes)
    used = aliases if options.canonical else aliases[aliases[:, 2] == REDIRECTED]
    ends = np.where(to[used[:, 0]] != used[:, 0], to[used[:, 0]], used[:, 1])
    sorter.add(pack(used[:, 0], ends))
    return sorter.sorted()


class _Hosts:
    """Where each host's URLs begin, and the domain of each host. Writes the tables of names of both."""

    def __init__(
        self, files: Files, table: UrlTable, domain_of: Callable[[str], str], generation: int
    ) -> None:
        self.starts = table.host_starts()
        self.count = len(self.starts) - 1
        keys = [_host_key(key) for key in table.keys(self.starts[:-1])]
        writer = UrlWriter(files, f"hosts-{generation}")
        writer.append(keys)
        writer.close()
        names = [
            domain_of("" if key == b"!" else turned_host(key).decode("utf-8", "surrogateescape"))
            for key in keys
        ]
        domain_keys = [
            turned_host(name.encode("utf-8", "surrogateescape")) if name else b"!" for name in names
        ]
        different = sorted(set(domain_keys))
        rank = {key: i for i, key in enumerate(different)}
        self.domain = np.array([rank[key] for key in domain_keys], dtype=np.int32)
        self.domains = len(different)
        writer = UrlWriter(files, f"domains-{generation}")
        writer.append(different)
        writer.close()

    def of(self, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The host of each node."""
        return np.searchsorted(self.starts, nodes, "right") - 1


def _host_key(key: bytes) -> bytes:
    host = host_of_key(key)
    return turned_host(host) if host else b"!"


def _write_all(
    files: Files,
    scratch: Files,
    arcs: Iterator[Arcs],
    nodes: int,
    hosts: _Hosts,
    options: Options,
    generation: int,
) -> int:
    """Write out-links, in-links, hosts and domains; returns the number of arcs."""
    memory, parameters = options.memory, preset(options.preset)
    back = ArcSorter(scratch, "back", memory // 2)
    between = ArcSorter(scratch, "hosts", memory // 4)
    total = 0

    def passing() -> Iterator[Arcs]:
        nonlocal total
        for piece in arcs:
            for i in range(0, len(piece), 1 << 20):
                part = piece[i : i + (1 << 20)]
                sources, targets = sources_of(part), targets_of(part)
                back.add(pack(targets, sources))
                a, b = hosts.of(sources), hosts.of(targets)
                other = a != b
                between.add(pack(a[other], b[other]))
            total += len(piece)
            yield piece

    def write(name: str, sorted_arcs: Iterable[Arcs], count: int) -> None:
        writer = BVWriter(files, f"{name}-{generation}", parameters)
        write_graph(writer, sorted_arcs, count)
        writer.close(count)

    write("out", passing(), nodes)
    write("in", back.sorted(), nodes)
    host_back = ArcSorter(scratch, "host-back", memory // 4)
    domain = ArcSorter(scratch, "domains", memory // 4)
    domain_back = ArcSorter(scratch, "domain-back", memory // 4)

    def passing_hosts() -> Iterator[Arcs]:
        for piece in between.sorted():
            sources, targets = sources_of(piece), targets_of(piece)
            host_back.add(pack(targets, sources))
            a, b = hosts.domain[sources], hosts.domain[targets]
            other = a != b
            domain.add(pack(a[other], b[other]))
            domain_back.add(pack(b[other], a[other]))
            yield piece

    write("host-out", passing_hosts(), hosts.count)
    write("host-in", host_back.sorted(), hosts.count)
    write("domain-out", domain.sorted(), hosts.domains)
    write("domain-in", domain_back.sorted(), hosts.domains)
    return total
