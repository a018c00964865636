"""A built graph on disk: one directory, with a manifest that names the files of its generation.

    graph.json          the manifest, swapped atomically once all files of generation g are durable
    urls-g              the URLs (`urls`)
    out-g.*  in-g.*     links and their transpose, redirects resolved (`bv_format`)
    links-g.*           links as the pages hold them; only where it differs from out-g
    nodes-g             what is known of the nodes beside their links, below
    hosts-g  domains-g  names of hosts and registered domains, by key, as in `urls`
    host-out-g.*  host-in-g.*  domain-out-g.*  domain-in-g.*
                        who links to whom among them, without links to oneself

    nodes    := magic sizes fetched aliases seeds domains crc
    magic    := "LYNODES1"              sizes: 4 × 8 bytes, the bytes of each part
    fetched  := a bit a node, most significant first: its links are known
    aliases  := (node target kind)*     4 bytes each; kind 1: redirected, 2: canonical
    seeds    := node*                   4 bytes each
    domains  := domain*                 4 bytes per host: the number of its registered domain
    crc      := CRC32C of everything before, 4 bytes; all integers little-endian

The files of the generation before the last are kept, for readers that opened the manifest just before a
build.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import google_crc32c
import msgspec
import numpy as np
import numpy.typing as npt

from lycosa.errors import ConfigError, StorageError
from lycosa.files import Files, write_whole
from lycosa.graph.bv import BVGraph
from lycosa.graph.urls import UrlTable, turned_host

Ints = npt.NDArray[np.int32]

MANIFEST = "graph.json"
_NODES = b"LYNODES1"
_FILE = re.compile(r"(?:urls|nodes|hosts|domains|links|out|in|(?:host|domain)-(?:out|in))-(\d+)(?:\.\w+)?")


class Manifest(msgspec.Struct, frozen=True):
    """The current generation, and what it was built from."""

    generation: int
    nodes: int
    arcs: int
    hosts: int
    domains: int
    positions: dict[str, int]  # shard -> the first position that is not in the graph yet
    links: str  # the graph of links as the pages hold them: "links-g" or "out-g"
    canonical: bool
    requisites: bool
    nofollow: bool
    preset: str
    version: int = 1


class NodeFacts(NamedTuple):
    """What is known of nodes beside their links."""

    fetched: npt.NDArray[np.bool_]
    aliases: Ints  # rows of node, target, kind
    seeds: Ints
    domains: Ints  # of each host

    def pack(self) -> bytes:
        parts = [
            np.packbits(self.fetched).tobytes(),
            self.aliases.astype("<i4").tobytes(),
            self.seeds.astype("<i4").tobytes(),
            self.domains.astype("<i4").tobytes(),
        ]
        body = _NODES + b"".join(len(part).to_bytes(8, "little") for part in parts) + b"".join(parts)
        return body + int(google_crc32c.value(body)).to_bytes(4, "little")

    @staticmethod
    def unpack(data: bytes, nodes: int, hosts: int, name: str) -> NodeFacts:
        """The facts of a file; a `StorageError` that names it if it is damaged."""
        bad = StorageError(f"{name} is damaged: build the graph anew")
        head = len(_NODES) + 32
        if len(data) < head + 4 or data[: len(_NODES)] != _NODES:
            raise bad
        if int(google_crc32c.value(data[:-4])).to_bytes(4, "little") != data[-4:]:
            raise bad
        sizes = [int.from_bytes(data[8 + 8 * i : 16 + 8 * i], "little") for i in range(4)]
        if head + sum(sizes) + 4 != len(data):
            raise bad
        if sizes[0] != (nodes + 7) // 8 or sizes[1] % 12 or sizes[2] % 4 or sizes[3] != 4 * hosts:
            raise bad
        at = np.cumsum([head, *sizes])
        fetched = np.unpackbits(np.frombuffer(data[at[0] : at[1]], dtype=np.uint8))[:nodes].astype(bool)
        aliases, seeds, domains = (
            np.frombuffer(data[at[i] : at[i + 1]], dtype="<i4").astype(np.int32) for i in (1, 2, 3)
        )
        aliases = aliases.reshape(-1, 3)
        for numbers in (aliases[:, :2], seeds):
            if numbers.size and (numbers.min() < 0 or numbers.max() >= nodes):
                raise bad
        return NodeFacts(fetched, aliases, seeds, domains)


class Names:
    """Hosts or domains by number: sorted by their reversed names."""

    def __init__(self, table: UrlTable) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    def names(self, numbers: npt.ArrayLike) -> list[str]:
        """The names of these numbers; that of URLs without a host is empty."""
        keys = self._table.keys(numbers)
        return ["" if key == b"!" else turned_host(key).decode("utf-8", "surrogateescape") for key in keys]

    def number(self, name: str) -> int | None:
        """The number of a name, if it has one."""
        key = turned_host(name.encode("utf-8", "surrogateescape")) if name else b"!"
        found = int(self._table.numbers_of_keys([key])[0])
        return found if found >= 0 else None


class GraphStore:
    """A built graph; its parts are read at their first use."""

    def __init__(self, files: Files, manifest: Manifest) -> None:
        self._files = files
        self.manifest = manifest
        self._graphs: dict[str, BVGraph] = {}
        self._tables: dict[str, UrlTable] = {}
        self._facts: NodeFacts | None = None

    @classmethod
    def open(cls, files: Files) -> GraphStore:
        """The graph in a directory; `ConfigError` if there is none yet."""
        manifest = read_manifest(files)
        if manifest is None:
            raise ConfigError("there is no graph yet: run `lycosa graph build DIR` first")
        return cls(files, manifest)

    def graph(self, name: str) -> BVGraph:
        """One of out, in, host-out, host-in, domain-out, domain-in."""
        if name not in self._graphs:
            graph = BVGraph.open(self._files, f"{name}-{self.manifest.generation}")
            m = self.manifest
            expected = {"host": m.hosts, "domain": m.domains}.get(name.partition("-")[0], m.nodes)
            if graph.nodes != expected:
                raise StorageError(f"{graph.name}.properties is of another graph: build the graph anew")
            self._graphs[name] = graph
        return self._graphs[name]

    def links(self) -> BVGraph:
        """Links as the pages hold them, redirects not resolved."""
        if self.manifest.links.startswith("out-"):
            return self.graph("out")
        return BVGraph.open(self._files, self.manifest.links)

    def _table(self, name: str, count: int) -> UrlTable:
        if name not in self._tables:
            table = UrlTable.open(self._files, f"{name}-{self.manifest.generation}")
            if len(table) != count:
                raise StorageError(f"{table.name} is of another graph: build the graph anew")
            self._tables[name] = table
        return self._tables[name]

    @property
    def urls(self) -> UrlTable:
        return self._table("urls", self.manifest.nodes)

    @property
    def hosts(self) -> Names:
        return Names(self._table("hosts", self.manifest.hosts))

    @property
    def domains(self) -> Names:
        return Names(self._table("domains", self.manifest.domains))

    @property
    def facts(self) -> NodeFacts:
        if self._facts is None:
            name = f"nodes-{self.manifest.generation}"
            m = self.manifest
            self._facts = NodeFacts.unpack(self._files.read(name), m.nodes, m.hosts, name)
        return self._facts


def read_manifest(files: Files) -> Manifest | None:
    """The manifest, if the directory has one."""
    if not files.exists(MANIFEST):
        return None
    try:
        manifest = msgspec.json.decode(files.read(MANIFEST), type=Manifest)
    except msgspec.MsgspecError as error:
        raise StorageError(f"{MANIFEST} is damaged ({error}): remove it and build the graph anew") from None
    if (
        manifest.version != 1
        or min(manifest.nodes, manifest.hosts, manifest.domains, manifest.generation) < 0
    ):
        raise StorageError(f"{MANIFEST} is of a version that this program cannot read: build the graph anew")
    return manifest


def publish(files: Files, manifest: Manifest) -> None:
    """Make the manifest's generation the current one, and remove files from two generations back."""
    files.sync_dir("")
    write_whole(files, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    for name in files.list(""):
        found = _FILE.fullmatch(name)
        if found and int(found[1]) < manifest.generation - 1:
            files.remove(name)
