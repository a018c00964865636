"""Writing a BV graph, list by list, in bounded memory.

    writer = BVWriter(files, "out", Parameters())
    writer.append(starts, nodes)      the lists of the next nodes, side by side; any number of times
    properties = writer.close(nodes)  seals the three files

`.graph` and `.offsets` grow as lists come in; `.properties`, without which nobody takes the others for a
graph, is written last and whole. Memory is the piece handed in, the lists of the window, and a buffer of a
few MB.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lycosa.errors import LocalError
from lycosa.files import Appender, Files, write_whole
from lycosa.graph import bits_kernels, bv_plan_kernels, bv_write_kernels
from lycosa.graph.bv import Lists, Nodes, Starts, how_of
from lycosa.graph.bv_format import MOST_NODES, UNLIMITED, Counts, Parameters, Properties

_WORDS = 1 << 17  # of a buffer
_AT_ONCE = 1 << 16  # lists compressed in one go


class _BitFile:
    """A file of bits: words are filled from the front and leave when they are whole."""

    def __init__(self, out: Appender, words: int = _WORDS) -> None:
        self._out = out
        self.words = np.zeros(words, dtype=np.uint64)
        self.position = 0  # in `words`
        self.gone = 0  # bits written out

    @property
    def bits(self) -> int:
        return self.gone + self.position

    def drain(self, least: int = 0) -> None:
        """Write out whole words; have at least `least` words free behind the rest."""
        whole = self.position >> 6
        self._out.write(bits_kernels.bytes_of(self.words, 64 * whole))
        rest = self.words[whole]
        size = max(len(self.words), least + 8)
        if size != len(self.words):
            self.words = np.zeros(size, dtype=np.uint64)
        else:
            self.words[: whole + 2] = 0
        self.words[0] = rest
        self.gone += 64 * whole
        self.position -= 64 * whole

    def close(self) -> None:
        self.drain()
        self._out.write(bits_kernels.bytes_of(self.words, self.position))
        self._out.sync()
        self._out.close()


class BVWriter:
    """Compresses lists as they come."""

    def __init__(self, files: Files, name: str, parameters: Parameters | None = None) -> None:
        self._files = files
        self._name = name
        self.parameters = parameters or Parameters()
        files.remove(f"{name}.properties")  # until the new one is there, the files are no graph
        self._graph = _BitFile(files.create(f"{name}.graph"))
        self._offsets = _BitFile(files.create(f"{name}.offsets"))
        self._how = how_of(self.parameters)
        self._spent = np.zeros(11, dtype=np.int64)
        self._nodes = 0
        self._arcs = 0
        self._before = Lists(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32))
        self._chains = np.empty(0, dtype=np.int64)
        self._most = -1  # the largest successor so far
        self._offset(np.zeros(1, dtype=np.int64))

    @property
    def nodes(self) -> int:
        """How many lists were appended."""
        return self._nodes

    @property
    def bits(self) -> int:
        """Length of the stream so far."""
        return self._graph.bits

    def _offset(self, gaps: npt.NDArray[np.int64]) -> None:
        code = int(self.parameters.offsets)
        for i in range(0, len(gaps), 1 << 14):
            part = gaps[i : i + (1 << 14)]
            self._offsets.drain(2 * len(part) + 8)  # a gap below 2^62 takes less than two words
            self._offsets.position = bits_kernels.write_many(
                self._offsets.words, self._offsets.position, part, code, 0
            )

    def append(self, starts: npt.ArrayLike, nodes: npt.ArrayLike) -> None:
        """The lists of the next nodes: the i-th is nodes[starts[i]:starts[i+1]], strictly ascending."""
        begin = np.ascontiguousarray(starts, dtype=np.int64)
        given = np.asarray(nodes)
        if len(begin) < 1 or begin[0] != 0 or begin[-1] != len(given) or np.any(np.diff(begin) < 0):
            raise LocalError("lists whose starts do not match their nodes")
        if len(given):
            if given.min() < 0 or given.max() >= MOST_NODES:
                raise LocalError(f"a successor outside 0 … {MOST_NODES - 1}")
            rising = np.empty(len(given), dtype=bool)
            rising[0] = True
            np.greater(given[1:], given[:-1], out=rising[1:])
            rising[begin[:-1][begin[:-1] < len(given)]] = True
            if not rising.all():
                raise LocalError("a list of successors that does not ascend strictly")
            self._most = max(self._most, int(given.max()))
        if self._nodes + len(begin) - 1 > MOST_NODES:
            raise LocalError(f"a graph has at most {MOST_NODES} nodes")
        lists = np.ascontiguousarray(given, dtype=np.int32)
        for i in range(0, len(begin) - 1, _AT_ONCE):
            j = min(i + _AT_ONCE, len(begin) - 1)
            self._compress(begin[i : j + 1] - begin[i], lists[begin[i] : begin[j]])

    def _compress(self, starts: Starts, nodes: Nodes) -> None:
        kept = self._before.count
        offset = int(self._before.starts[-1])
        all_starts = np.concatenate([self._before.starts, starts[1:] + offset])
        all_nodes = np.concatenate([self._before.nodes, nodes])
        total = len(all_starts) - 1
        chains = np.concatenate([self._chains, np.zeros(total - kept, dtype=np.int64)])
        chosen = np.empty(0, dtype=np.int64)
        p = self.parameters
        if p.thorough and p.window and p.chain != UNLIMITED:
            chosen = np.zeros(total, dtype=np.int64)
            bv_plan_kernels.plan(all_nodes, all_starts, kept, total, self._nodes, self._how, chains, chosen)
        at = kept
        while at < total:
            ends = np.empty(total - at, dtype=np.int64)
            begun = self._graph.position
            after, self._graph.position = bv_write_kernels.compress(
                all_nodes,
                all_starts,
                at,
                total,
                self._nodes,
                self._how,
                chains,
                chosen,
                self._graph.words,
                begun,
                ends,
                self._spent,
            )
            done = after - at
            self._nodes += done
            if done:
                self._offset(np.diff(ends[:done], prepend=begun))
            degree = int(all_starts[after + 1] - all_starts[after]) if after < total else 0
            # A successor takes at most 2·32+1 bits by δ, γ, ζ and nibble codes; Golomb's unary part may take
            # as many bits as the graph has nodes, so double the buffer until a list fits.
            need = 2 * degree + 64 if done else 2 * len(self._graph.words)
            self._graph.drain(need if after < total else 0)
            at = after
        keep = min(self.parameters.window, total)
        begin = int(all_starts[total - keep])
        self._before = Lists(all_starts[total - keep :] - begin, all_nodes[begin:].copy())
        self._chains = chains[total - keep :]
        self._arcs += len(nodes)

    def close(self, nodes: int | None = None) -> tuple[Properties, Counts]:
        """Seal the files. `nodes`, if given, says how many there are; those without a list have none."""
        total = self._nodes if nodes is None else nodes
        if total < self._nodes or self._most >= total:
            raise LocalError(f"a graph of {total} nodes with lists of or links to others")
        while self._nodes < total:
            count = min(total - self._nodes, 1 << 20)
            self.append(np.zeros(count + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
        bits = self._graph.bits
        self._graph.close()
        self._offsets.close()
        counts = Counts(*(int(value) for value in self._spent))
        properties = Properties(total, self._arcs, self.parameters)
        write_whole(self._files, f"{self._name}.properties", properties.text(counts, bits).encode("ascii"))
        return properties, counts
