"""Sorting arcs in bounded memory, and writing sorted arcs as a graph.

An arc is packed into one 64-bit word, the source above the target, so that the order of words is the order
of arcs. A `ArcSorter` gathers words up to its memory, sorts and spills them; at the end the spilled runs are
merged block by block: of the blocks at the head of each run, everything up to the smallest of their last
words is final. Repeats disappear on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from lycosa.files import Files
from lycosa.graph.bv_writer import BVWriter

Arcs = npt.NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)
_LEAST = 1 << 16  # words in memory, at least
_MOST_RUNS = 256  # merged at once


def pack(sources: npt.ArrayLike, targets: npt.ArrayLike) -> Arcs:
    """Arcs as words."""
    return (np.asarray(sources).astype(np.uint64) << _HIGH) | np.asarray(targets).astype(np.uint64)


def sources_of(arcs: Arcs) -> npt.NDArray[np.int64]:
    return (arcs >> _HIGH).astype(np.int64)


def targets_of(arcs: Arcs) -> npt.NDArray[np.int64]:
    return (arcs & _LOW).astype(np.int64)


def unique(arcs: Arcs) -> Arcs:
    """Sorted arcs without repeats."""
    if len(arcs) < 2:
        return arcs
    keep = np.empty(len(arcs), dtype=bool)
    keep[0] = True
    np.not_equal(arcs[1:], arcs[:-1], out=keep[1:])
    return arcs if keep.all() else arcs[keep]


class ArcSorter:
    """Arcs in, in any order; arcs out, sorted and each once."""

    def __init__(self, files: Files, name: str, memory: int) -> None:
        self._files, self._name = files, name
        self._room = max(_LEAST, memory // 20)  # words; sorting and dropping repeats takes about twice that
        self._held: list[Arcs] = []
        self._count = 0
        self._runs: list[str] = []
        self._made = 0
        self.spilled = 0  # words written to disk, to be told

    def add(self, arcs: Arcs) -> None:
        for i in range(0, len(arcs), self._room):
            part = arcs[i : i + self._room]
            if self._count + len(part) > self._room:
                self._spill()
            self._held.append(part)
            self._count += len(part)

    def _taken(self) -> Arcs:
        arcs = np.concatenate(self._held) if self._held else np.empty(0, dtype=np.uint64)
        self._held, self._count = [], 0
        arcs.sort()
        return unique(arcs)

    def _spill(self) -> None:
        if self._count:
            self._write(iter([self._taken()]))
        if len(self._runs) >= _MOST_RUNS:
            runs, self._runs = self._runs, []
            self._write(self._merge(runs))

    def _write(self, parts: Iterator[Arcs]) -> None:
        name = f"{self._name}-{self._made}"
        self._made += 1
        out = self._files.create(name)
        for part in parts:
            out.write(part.tobytes())
            self.spilled += len(part)
        out.close()
        self._runs.append(name)

    def _merge(self, runs: list[str]) -> Iterator[Arcs]:
        at_once = max(1 << 12, self._room // (2 * len(runs)))
        heads = [np.empty(0, dtype=np.uint64) for _ in runs]
        offsets = [0] * len(runs)
        while True:
            for i, name in enumerate(runs):
                if not len(heads[i]) and offsets[i] >= 0:
                    data = self._files.read_at(name, offsets[i], 8 * at_once)
                    heads[i] = np.frombuffer(data, dtype=np.uint64)
                    offsets[i] = offsets[i] + len(data) if len(data) == 8 * at_once else -1
            alive = [i for i in range(len(runs)) if len(heads[i])]
            if not alive:
                break
            bound = min((heads[i][-1] for i in alive if offsets[i] >= 0), default=None)
            parts = []
            for i in alive:
                cut = len(heads[i]) if bound is None else int(np.searchsorted(heads[i], bound, "right"))
                parts.append(heads[i][:cut])
                heads[i] = heads[i][cut:]
            arcs = np.concatenate(parts)
            arcs.sort()
            yield unique(arcs)  # all arcs up to `bound`, so that none of them comes again
        for name in runs:
            self._files.remove(name)

    def sorted(self) -> Iterator[Arcs]:
        """All arcs, in ascending pieces. Once."""
        if not self._runs:
            arcs = self._taken()
            if len(arcs):
                yield arcs
            return
        self._spill()
        runs, self._runs = self._runs, []
        yield from self._merge(runs)


def write_graph(writer: BVWriter, arcs: Iterable[Arcs], nodes: int) -> None:
    """Append sorted arcs, as lists of all nodes up to the last one with any; `close(nodes)` does the rest."""
    rest = np.empty(0, dtype=np.uint64)

    def put(part: Arcs) -> None:
        sources = sources_of(part)
        first = writer.nodes
        degrees = np.bincount(sources - first)
        starts = np.zeros(len(degrees) + 1, dtype=np.int64)
        np.cumsum(degrees, out=starts[1:])
        writer.append(starts, targets_of(part))

    for piece in arcs:
        for i in range(0, len(piece), 1 << 21):
            whole = np.concatenate([rest, piece[i : i + (1 << 21)]])
            # The last source's list may go on in the next piece.
            cut = int(np.searchsorted(whole, (whole[-1] >> _HIGH) << _HIGH))
            if cut:
                put(whole[:cut])
            rest = whole[cut:]
    if len(rest):
        put(rest)
    if writer.nodes > nodes:
        raise ValueError(f"arcs from node {writer.nodes - 1} in a graph of {nodes}")
