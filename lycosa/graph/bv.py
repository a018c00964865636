"""Reading a BV graph, which takes some three bits per link: the successors of any node.

`BVGraph.open(files, name)` reads the three files (`bv_format` tells their layout) into memory, the lists as
they are and the offsets as an Elias-Fano sequence; without an offsets file they are found by a scan. Then:

    graph.successors(x)        one list
    graph.lists(nodes)         many lists, as one `Lists`
    graph.scan(...)            all lists in order, in pieces of bounded size
    graph.csr()                the whole graph, decoded

Files of any origin can be read, damaged and hostile ones too: every operation either answers or raises a
`StorageError` that names the file. A scan checks each list, the number of arcs and that the stream ends
where the last list does; random access checks what it reads.

Work is bounded by what the file declares: a list of d successors takes O(d), and a chain of references
longer than its `maxrefcount` is an error. (With `maxrefcount` unlimited, Exercise 20.5 of Manning et al. holds: a
chain can be as long as the graph.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.graph import bits_kernels, bv_kernels
from lycosa.graph.bv_format import Counts, Parameters, Properties, parse_properties
from lycosa.graph.offsets import Offsets

Nodes = npt.NDArray[np.int32]
Starts = npt.NDArray[np.int64]

_PIECE = 1 << 17  # successors in a piece of a scan: half a megabyte stays in the cache


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Lists side by side: the i-th is nodes[starts[i]:starts[i+1]]."""

    starts: Starts
    nodes: Nodes

    def __getitem__(self, i: int) -> Nodes:
        return self.nodes[self.starts[i] : self.starts[i + 1]]

    @property
    def count(self) -> int:
        """How many lists."""
        return len(self.starts) - 1


class Piece(NamedTuple):
    """Consecutive lists of a scan: those of node `first` and on."""

    first: int
    lists: Lists


def how_of(p: Parameters) -> tuple[int, ...]:
    """The parameters in the form that kernels take."""
    codes = (p.outdegrees, p.blocks, p.residuals, p.references, p.block_count)
    return (*map(int, codes), p.k, p.window, p.interval, p.chain)


class BVGraph:
    """A graph in memory, compressed."""

    def __init__(
        self, data: bytes, properties: Properties, offsets: bytes | None = None, name: str = "graph"
    ):
        self.name = name
        self.properties = properties
        self.nodes = properties.nodes
        self.arcs = properties.arcs
        self._end = 8 * len(data)
        if self.nodes > self._end:
            raise StorageError(f"{name}.graph is damaged: {len(data)} bytes cannot hold {self.nodes} lists")
        self._data = bits_kernels.padded(data)
        self._how = how_of(properties.parameters)
        self._offsets = self._found() if offsets is None else self._read(offsets)
        self._bits = self._offsets[self.nodes]

    @classmethod
    def open(cls, files: Files, name: str) -> BVGraph:
        """The graph of the files `name`.graph, .properties and, if it is there, .offsets."""
        properties = parse_properties(files.read(f"{name}.properties"), f"{name}.properties")
        offsets = files.read(f"{name}.offsets") if files.exists(f"{name}.offsets") else None
        return cls(files.read(f"{name}.graph"), properties, offsets, name)

    @property
    def parameters(self) -> Parameters:
        return self.properties.parameters

    @property
    def bits(self) -> int:
        """Length of the stream."""
        return self._bits

    @property
    def nbytes(self) -> int:
        """Memory taken: stream and offsets."""
        return int(self._data.nbytes) + self._offsets.nbytes

    @property
    def offsets(self) -> Offsets:
        """The bit position of each list, and of the end."""
        return self._offsets

    def _damaged(self, what: str, ending: str = ".graph") -> StorageError:
        return StorageError(f"{self.name}{ending} is damaged: {what}; make it anew, or take another copy")

    def _read(self, data: bytes) -> Offsets:
        stream, end = bits_kernels.padded(data), 8 * len(data)
        count = self.nodes + 1
        if count > end:
            raise self._damaged(f"it ends before offset {end}", ".offsets")

        def pieces() -> Iterator[npt.NDArray[np.int64]]:
            position, last, left = 0, 0, count
            while left:
                gaps = np.empty(min(left, _PIECE), dtype=np.int64)
                code = int(self.parameters.offsets)
                done, position = bits_kernels.read_many(stream, position, end, code, 0, gaps)
                if done < len(gaps):
                    raise self._damaged("it ends too early", ".offsets")
                # No sum can wrap: 2^20 gaps below 2^40 each.
                if np.any(gaps > self._end):
                    raise self._damaged("an offset lies behind the end of the lists", ".offsets")
                gaps[0] += last
                values = np.cumsum(gaps)
                last, left = int(values[-1]), left - len(gaps)
                yield values

        try:
            return Offsets(count, self._end, pieces())
        except ValueError as error:
            raise self._damaged(str(error), ".offsets") from None

    def _found(self) -> Offsets:
        def pieces() -> Iterator[npt.NDArray[np.int64]]:
            for positions, _ in self._scan(0, Counts(), True):
                yield positions

        return Offsets(self.nodes + 1, self._end, pieces())

    def _scan(
        self, first: int, counts: Counts, locate: bool
    ) -> Iterator[tuple[npt.NDArray[np.int64], Piece]]:
        """All lists from `first` (whose window is decoded for it), with their positions if asked for."""
        window = self.parameters.window
        spent = np.zeros(10, dtype=np.int64)
        most = min(1 << 17, self.nodes) + window
        lists = np.empty(_PIECE, dtype=np.int32)
        starts = np.zeros(most + 1, dtype=np.int64)
        kept = 0  # lists before x that `lists` begins with
        x, arcs = first, 0
        position = 0 if first == 0 else self._offsets[first]
        if first > 0 and window:
            x_from = max(0, first - window)
            before = self.lists(np.arange(x_from, first, dtype=np.int64))
            kept = first - x_from
            if len(before.nodes) > len(lists) // 2:
                lists = np.empty(2 * len(before.nodes), dtype=np.int32)
            lists[: len(before.nodes)] = before.nodes
            starts[: kept + 1] = before.starts
        while x < self.nodes:
            stop = min(self.nodes, x + most - kept)
            positions = np.empty(stop - x if locate else 0, dtype=np.int64)
            after, position, status, degree = bv_kernels.scan(
                self._data,
                position,
                self._end,
                self.nodes,
                x,
                stop,
                self._how,
                lists,
                starts,
                kept,
                positions,
                spent,
            )
            if status == bv_kernels.CORRUPT:
                raise self._damaged(f"the list of node {after} makes no sense")
            done = after - x
            if done:
                begin, end = int(starts[kept]), int(starts[kept + done])
                arcs += end - begin
                if arcs > self.arcs:
                    raise self._damaged(f"it has more than the {self.arcs} arcs that its properties tell")
                yield (
                    positions[:done],
                    Piece(x, Lists(starts[kept : kept + done + 1] - begin, lists[begin:end].copy())),
                )
            x = after
            # Keep the window's lists at the front and go on behind them.
            total = kept + done
            keep = min(window, total)
            begin, end = int(starts[total - keep]), int(starts[total])
            tail = lists[begin:end]
            if status == bv_kernels.FULL and (end - begin) + degree > len(lists):
                lists = np.empty(2 * ((end - begin) + int(degree)), dtype=np.int32)
            lists[: end - begin] = tail.copy()
            starts[: keep + 1] = starts[total - keep : total + 1] - begin
            kept = keep
        if first == 0 and arcs != self.arcs:
            raise self._damaged(f"it has {arcs} arcs where its properties tell {self.arcs}")
        if locate:
            empty = Piece(x, Lists(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32)))
            yield np.array([position], dtype=np.int64), empty
        elif position != self._bits:
            raise self._damaged("the last list does not end where the offsets tell")
        names = list(Counts.__dataclass_fields__)
        for name, value in zip(names, spent, strict=False):
            setattr(counts, name, int(value))

    def scan(self, first: int = 0, counts: Counts | None = None) -> Iterator[Piece]:
        """All lists from node `first` on, in pieces of some hundred thousand successors.

        `counts` is filled at the end (all but `chain_total`).
        """
        for _, piece in self._scan(first, counts or Counts(), False):
            yield piece

    def count(self) -> Counts:
        """Scan the whole graph and count what its bits are spent on."""
        counts = Counts()
        for _ in self.scan(0, counts):
            pass
        return counts

    def csr(self) -> Lists:
        """The whole graph, decoded."""
        starts, nodes, arcs = [np.zeros(1, dtype=np.int64)], [], 0
        for piece in self.scan():
            starts.append(piece.lists.starts[1:] + arcs)
            nodes.append(piece.lists.nodes)
            arcs += len(piece.lists.nodes)
        return Lists(np.concatenate(starts), np.concatenate(nodes) if nodes else np.empty(0, dtype=np.int32))

    def _located(self, nodes: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], Starts, npt.NDArray[np.int64]]:
        wanted = np.ascontiguousarray(nodes, dtype=np.int64)
        if wanted.ndim != 1:
            raise ValueError("nodes must be a flat array")
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= self.nodes):
            raise IndexError(f"nodes are numbered 0 … {self.nodes - 1}")
        starts = np.zeros(len(wanted) + 1, dtype=np.int64)
        positions = np.empty(len(wanted), dtype=np.int64)
        o = self._offsets
        bad = bv_kernels.degrees_of(
            self._data,
            self._end,
            self.nodes,
            self._how,
            o.low,
            o.width,
            o.high,
            o.samples,
            wanted,
            starts[1:],
            positions,
        )
        if bad >= 0:
            raise self._damaged(f"the list of node {wanted[bad]} makes no sense")
        return wanted, starts, positions

    def degrees(self, nodes: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """How many successors each of the nodes has."""
        return self._located(nodes)[1][1:]

    def lists(self, nodes: npt.ArrayLike) -> Lists:
        """The successors of each of the nodes, in their order."""
        wanted, starts, positions = self._located(nodes)
        np.cumsum(starts, out=starts)
        try:
            out = np.empty(int(starts[-1]), dtype=np.int32)
        except (MemoryError, ValueError):
            raise self._damaged(f"{starts[-1]} successors of {len(wanted)} nodes are too many") from None
        o = self._offsets
        bad = bv_kernels.lists_of(
            self._data,
            self._end,
            self.nodes,
            self._how,
            o.low,
            o.width,
            o.high,
            o.samples,
            wanted,
            positions,
            starts,
            out,
        )
        if bad >= 0:
            raise self._damaged(f"the list of node {wanted[bad]} makes no sense")
        return Lists(starts, out)

    def successors(self, x: int) -> Nodes:
        """The successors of x, ascending."""
        return self.lists(np.array([x], dtype=np.int64)).nodes
