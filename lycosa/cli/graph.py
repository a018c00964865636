"""`lycosa graph`: build the link graph of a crawl, query it, measure it, exchange it.

A PATH is a crawl's directory, a directory that `lycosa graph import` made, or the name of a BV graph (with
or without its `.graph`). A crawl's graph is in DIR/graph. Queries about a crawl are answered from the last
build and from what was logged since (`--no-tail`: from the build alone). DIR defaults to the
current directory.

One answer per line; with `--json` one object per line. Exit code 1: the answer is no (an unknown URL,
no path).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lycosa.cli.amounts import counted, size
from lycosa.cli.streams import Progress, announced, printable
from lycosa.errors import ConfigError, StorageError
from lycosa.files import DirectoryLock, DiskFiles
from lycosa.records import Record

if TYPE_CHECKING:
    from lycosa.ask.follower import Follower
    from lycosa.ask.reading import CrawlReader

HELP = "build and query the link graph: in, out, path, common, stats, top, export, import"
EPILOG = """\
examples:
  lycosa graph build crawl/                            build or bring up to date
  lycosa graph in crawl/ https://example.org/          who links here
  lycosa graph path crawl/ https://a.org/ https://b.org/
  lycosa graph common crawl/ https://a.org/ https://b.org/   who links to both
  lycosa graph stats crawl/ --json
  lycosa graph stats cnr-2000                          any BV graph
  lycosa graph top crawl/ --of hosts --by harmonic
  lycosa graph export crawl/ --as parquet --to links.parquet
  lycosa graph import edges.tsv --into mygraph
"""

_WORDS = {  # question -> its arguments, and how many there may be
    "build": ("DIR", 1, 1),
    "in": ("[DIR] URL …", 1, 1 << 30),
    "out": ("[DIR] URL …", 1, 1 << 30),
    "path": ("[DIR] URL URL", 2, 3),
    "common": ("[DIR] URL …", 1, 1 << 30),
    "stats": ("PATH", 1, 1),
    "top": ("PATH", 1, 1),
    "export": ("PATH --to FILE", 1, 1),
    "import": ("FILE --into PATH", 1, 1),
}


_DOING = {
    "build": "building the link graph",
    "stats": "measuring the graph",
    "top": "ranking",
    "export": "writing",
    "import": "reading",
}
"""Operations that take long, with the message shown for them."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=list(_WORDS), metavar="WHAT", help=", ".join(_WORDS))
    parser.add_argument(
        "words", nargs="*", default=[], metavar="PATH or URL", help="a directory or graph; URLs to ask about"
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    made = parser.add_argument_group("build, import")
    made.add_argument(
        "--memory",
        type=size,
        default=256 << 20,
        metavar="SIZE",
        help="memory for collecting and sorting (256MiB)",
    )
    made.add_argument(
        "--preset", metavar="NAME", help="fast, default or small (also of export --as webgraph)"
    )
    made.add_argument(
        "--canonical", action="store_true", help="build: resolve canonical links like redirects"
    )
    made.add_argument(
        "--requisites", action="store_true", help="build: count images, scripts, styles as links"
    )
    made.add_argument("--into", metavar="PATH", help="import: a new BV graph, or for URLs a directory")
    made = parser.add_argument_group("in, out, path, common")
    made.add_argument("--no-tail", action="store_true", help="answer only from the last build")
    made.add_argument("--out", action="store_true", help="common: targets common to all, instead of sources")
    made = parser.add_argument_group("stats, top, export")
    made.add_argument("--quick", action="store_true", help="stats: without strong components and reach")
    made.add_argument("--count", type=int, default=20, metavar="N", help="top: number of rows (20)")
    made.add_argument("--by", choices=["pagerank", "harmonic", "in-degree"], default="pagerank", help="top")
    made.add_argument("--of", choices=["urls", "hosts", "domains"], default="urls", help="top, export")
    made.add_argument(
        "--as", dest="form", choices=["edges", "parquet", "webgraph"], default="edges", help="export"
    )
    made.add_argument("--to", metavar="FILE", help="export: where to; - for standard output (edges only)")
    made.add_argument("--numbers", action="store_true", help="export: node numbers, not URLs")


def run(args: argparse.Namespace) -> int:
    words, least, most = _WORDS[args.what]
    if not least <= len(args.words) <= most:
        raise ConfigError(f"usage: lycosa graph {args.what} {words}")
    for option in ("to",) if args.what == "export" else ("into",) if args.what == "import" else ():
        if getattr(args, option) is None:
            raise ConfigError(f"usage: lycosa graph {args.what} {words}")
    action = {
        "build": _build,
        "in": _ask,
        "out": _ask,
        "path": _path,
        "common": _common,
        "stats": _stats,
        "top": _top,
        "export": _export,
        "import": _import,
    }[args.what]
    if args.count < 1:
        raise ConfigError(f"--count takes a number of rows: 1 or more, not {args.count}")
    with announced("graph", _DOING.get(args.what, "reading what was logged since the last build")):
        return action(args)


def _say(args: argparse.Namespace, row: dict[str, Any], text: str) -> None:
    print(json.dumps(row) if args.json else text)


def _is_crawl(path: Path) -> bool:
    from lycosa.crawl import manifest

    return (path / manifest.NAME).exists()


def _graph_directory(path: Path) -> Path | None:
    """Where the graph of a directory is, if it has one."""
    for directory in (path / "graph", path):
        if (directory / "graph.json").exists():
            return directory
    return None


def _follower(crawl: CrawlReader, positions: dict[str, int], *, settled: bool) -> Follower:
    """Hands out what a crawl has logged after these positions."""
    from lycosa.ask.follower import Follower, Place

    places = [Place.at(positions.get(str(shard), 0)) for shard in range(crawl.manifest.shards)]
    return Follower(crawl, places, settled=settled)


def _counted(entries: Iterator[tuple[int, int, Record]], told: Progress) -> Iterator[tuple[int, int, Record]]:
    for number, entry in enumerate(entries, 1):
        yield entry
        if not number & 0x3FF:
            told("reading the log", number)


def _build(args: argparse.Namespace) -> int:
    from lycosa.ask.reading import CrawlReader
    from lycosa.graph.build import build
    from lycosa.graph.gather import Options
    from lycosa.graph.store import GraphStore, read_manifest

    path = Path(args.words[0])
    crawl = CrawlReader(path)  # reports an error if it is not a crawl
    files = DiskFiles(path / "graph")
    lock = DirectoryLock(path / "graph")
    try:
        before = read_manifest(files)
        options = Options(
            memory=args.memory,
            preset=args.preset or "default",
            canonical=args.canonical,
            requisites=args.requisites,
        )
        follower = _follower(crawl, before.positions if before else {}, settled=True)
        with Progress("graph") as told:
            made = build(
                files,
                _counted(follower.read(), told),
                options,
                crawl.splitter.domains.domain,
                lambda: follower.positions,
            )
    finally:
        lock.release()
    graph = GraphStore(files, made).graph("out")
    row = {
        "nodes": made.nodes,
        "arcs": made.arcs,
        "hosts": made.hosts,
        "domains": made.domains,
        "bits_per_link": graph.bits / max(1, made.arcs),
        "generation": made.generation,
    }
    text = (
        f"{counted(made.nodes, 'URL')} on {counted(made.hosts, 'host')} of {counted(made.domains, 'domain')},"
        f" {counted(made.arcs, 'link')}, "
        f"{row['bits_per_link']:.2f} bits per link"
    )
    _say(args, row, text)
    return 0


def _server(args: argparse.Namespace) -> tuple[Any, list[str]]:
    """The connectivity server, and the URLs of the query in canonical form."""
    from lycosa.ask.reading import CrawlReader
    from lycosa.graph.connectivity import Connectivity
    from lycosa.url.canonical import canonicalise

    words = list(args.words)
    path = Path()
    if "://" not in words[0]:
        path = Path(words.pop(0))
        if not path.is_dir():
            raise ConfigError(f"{path} is neither a directory nor a URL")
    urls = []
    for word in words:
        url = canonicalise(word)
        if url is None:
            raise ConfigError(f"{word!r} is not a URL such as https://example.org/")
        urls.append(url)
    if not urls:
        raise ConfigError("no URL was given")
    store = _store(path)
    tail: Iterator[Record] = iter(())
    if not args.no_tail and _is_crawl(path):
        follower = _follower(CrawlReader(path), store.manifest.positions, settled=False)
        tail = (record for _, _, record in follower.read())
    return Connectivity(store, tail), urls


def _must(path: Path) -> Path:
    directory = _graph_directory(path)
    if directory is None:
        hint = (
            f"run `lycosa graph build {path}` first" if _is_crawl(path) else "give the directory of a crawl"
        )
        raise ConfigError(f"{path} has no link graph: {hint}")
    return directory


def _store(path: Path) -> Any:
    from lycosa.graph.store import GraphStore

    return GraphStore.open(DiskFiles(_must(path)))


def _ask(args: argparse.Namespace) -> int:
    server, urls = _server(args)
    answers = server.ask(urls, args.what)
    unknown = 0
    for i, url in enumerate(urls):
        if answers.numbers[i] < 0:
            unknown += 1
            if args.json:
                print(json.dumps({"url": url, "known": False, args.what: []}))
            else:
                print(f"lycosa graph: {url} is not in the graph", file=sys.stderr)
            continue
        found = server.urls(answers.lists[i])
        if args.json:
            print(json.dumps({"url": url, "known": True, args.what: found}))
        else:
            prefix = f"{url}\t" if len(urls) > 1 else ""
            sys.stdout.write("".join(f"{prefix}{other}\n" for other in found))
    return 1 if unknown else 0


def _path(args: argparse.Namespace) -> int:
    server, urls = _server(args)
    if len(urls) != 2:
        raise ConfigError("a path has two ends: give two URLs")
    found = server.path(*urls)
    if args.json:
        print(json.dumps({"from": urls[0], "to": urls[1], "path": found}))
    elif found is None:
        print(f"lycosa graph: no links lead from {urls[0]} to {urls[1]}", file=sys.stderr)
    else:
        print("\n".join(found))
    return 1 if found is None else 0


def _common(args: argparse.Namespace) -> int:
    server, urls = _server(args)
    found = server.common(urls, "out" if args.out else "in")
    if args.json:
        print(json.dumps({"urls": urls, "common": found}))
    else:
        sys.stdout.write("".join(f"{url}\n" for url in found))
    return 0 if found else 1


def _bv(path: Path) -> Any:
    """A BV graph, by the name of its files."""
    from lycosa.graph.bv import BVGraph

    name = path.name
    for ending in (".graph", ".properties", ".offsets"):
        name = name.removesuffix(ending)
    if not (path.parent / f"{name}.properties").exists():
        raise ConfigError(
            f"{path} is not a graph: neither a directory with one nor a BV graph ({name}.properties)"
        )
    return BVGraph.open(DiskFiles(path.parent), name)


def _stats(args: argparse.Namespace) -> int:
    import numpy as np

    from lycosa.graph.stats import measure

    path = Path(args.words[0])
    if path.is_dir():
        store = _store(path)
        seeds = store.facts.seeds
        stats = measure(
            store.graph("out"),
            seeds=seeds if len(seeds) else None,
            host_starts=store.urls.host_starts(),
            deep=not args.quick,
        )
        more = {"hosts": store.manifest.hosts, "domains": store.manifest.domains}
        more["fetched"] = int(store.facts.fetched.sum())
        more["bytes_per_url"] = store.urls.nbytes / max(1, stats.nodes)
        names = store.urls.urls
    else:
        stats, more, names = measure(_bv(path), deep=not args.quick), {}, None
    row = {**msgspec.to_builtins(stats), **more}
    if names is not None:
        for side in ("out", "in"):
            most = row[side]["most_at"]
            row[side]["most_url"] = names(np.array([most]))[0] if most >= 0 else None
    if args.json:
        print(json.dumps(row))
        return 0
    for line in _lines(row):
        print(line)
    return 0


def _lines(row: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in row.items():
        if name == "most_at" and "most_url" in row:
            continue  # people want the URL, not the number
        label = f"{prefix}{name.replace('_', ' ')}"
        if isinstance(value, dict):
            yield from _lines(value, f"{label} ")
        elif isinstance(value, float):
            yield f"{label:<28} {value:,.3f}"
        elif isinstance(value, int):
            yield f"{label:<28} {value:,}"
        elif isinstance(value, str):
            yield f"{label:<28} {printable(value)}"
        elif isinstance(value, list):
            shown = " ".join(f"{item:,}" for item in value[:12])
            yield f"{label:<28} {shown}{' …' if len(value) > 12 else ''}"


def _named(path: Path, of: str) -> tuple[Any, Any]:
    """The graph of URLs, hosts or domains, and the names of its nodes (None for a plain BV graph)."""
    if not path.is_dir():
        if of != "urls":
            raise ConfigError(f"a plain BV graph has no {of}")
        return _bv(path), None
    store = _store(path)
    if of == "urls":
        return store.graph("out"), store.urls.urls
    names = store.hosts if of == "hosts" else store.domains
    return store.graph(f"{of[:-1]}-out"), names.names


def _top(args: argparse.Namespace) -> int:
    import numpy as np

    from lycosa.graph.pagerank import harmonic, pagerank, pieces, top

    graph, names = _named(Path(args.words[0]), args.of)
    by = args.by
    note = ""
    if by == "pagerank":
        ranks = pagerank(graph)
        values = ranks.values
        note = (
            f"damping 0.85, {len(ranks.history)} iterations, last change {ranks.history[-1]:.1e}"
            if len(values)
            else ""
        )
    elif by == "harmonic":
        centrality = harmonic(graph)
        values = centrality.values
        if centrality.sampled < graph.nodes:
            note = f"estimated from {centrality.sampled:,} of {graph.nodes:,} nodes"
    else:
        values = np.zeros(graph.nodes)
        for _, lists in pieces(graph):
            values += np.bincount(lists.nodes, minlength=graph.nodes)
    chosen = top(values, args.count)
    labels = names(chosen) if names is not None else [str(i) for i in chosen]
    for label, i in zip(labels, chosen.tolist(), strict=True):
        _say(args, {"name": label, "number": i, by: float(values[i])}, f"{values[i]:<14.8g} {label}")
    if note and not args.json:
        sys.stdout.flush()
        print(f"({note})", file=sys.stderr)
    return 0


def _export(args: argparse.Namespace) -> int:
    from lycosa.graph.bv_format import preset
    from lycosa.graph.exchange import copy_graph, write_edges, write_parquet

    path, to = Path(args.words[0]), Path(args.to)
    if args.to == "-" and args.form != "edges":
        raise ConfigError(f"only edges go to standard output: give --to a file for --as {args.form}")
    graph, labels = _named(path, args.of)
    if args.numbers:
        labels = None
    try:
        if args.form == "webgraph":
            parameters = preset(args.preset) if args.preset else None
            copy_graph(graph, DiskFiles(to.parent), to.name, parameters)
            count = graph.arcs
        elif args.form == "parquet":
            count = write_parquet(graph, to, labels)
        elif args.to == "-":
            count = write_edges(graph, sys.stdout.buffer, labels)
            return 0
        else:
            with to.open("wb") as out:
                count = write_edges(graph, out, labels)
    except OSError as error:
        raise StorageError(f"cannot write {to}: {error.strerror or error}") from None
    _say(args, {"arcs": count, "to": str(to)}, f"{counted(count, 'link')} written to {to}")
    return 0


def _import(args: argparse.Namespace) -> int:
    from itertools import chain, islice

    from lycosa.graph.bv_format import preset
    from lycosa.graph.exchange import copy_graph, import_numbers, parse_edges, transpose

    path, into = Path(args.words[0]), Path(args.into)
    parameters = preset(args.preset or "default")
    files = DiskFiles(into.parent)
    if args.words[0] != "-" and (path.suffix in (".graph", ".properties") or not path.is_file()):
        graph = _bv(path)
        made = copy_graph(graph, files, into.name, parameters)
    else:
        try:
            source = sys.stdin.buffer if args.words[0] == "-" else path.open("rb")
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror or error}") from None
        with source:
            edges = parse_edges(source)
            first = list(islice(edges, 1))
            edges = chain(first, edges)
            if first and not first[0][0].isdigit():
                return _import_urls(args, edges, into)
            made = import_numbers(edges, files, into.name, parameters, args.memory)
    from lycosa.graph.bv import BVGraph

    graph = BVGraph.open(files, into.name)
    transpose(graph, files, f"{into.name}-t", parameters, args.memory)
    row = {"nodes": made.nodes, "arcs": made.arcs, "bits_per_link": graph.bits / max(1, made.arcs)}
    _say(
        args,
        {**row, "to": str(into)},
        f"{counted(made.nodes, 'node')}, {counted(made.arcs, 'link')}, {row['bits_per_link']:.2f} bits per link:"
        f" {into} and its transpose {into}-t",
    )
    return 0


def _import_urls(args: argparse.Namespace, edges: Any, into: Path) -> int:
    from lycosa.graph.build import build_from_edges
    from lycosa.graph.gather import Options
    from lycosa.url.domains import Domains

    domains = Domains(Domains.bundled_list())
    options = Options(memory=args.memory, preset=args.preset or "default")
    made = build_from_edges(DiskFiles(into), edges, options, domains.domain)
    _say(
        args,
        {"nodes": made.nodes, "arcs": made.arcs, "hosts": made.hosts, "to": str(into)},
        f"{counted(made.nodes, 'URL')} on {counted(made.hosts, 'host')}, {counted(made.arcs, 'link')}: {into}",
    )
    return 0
