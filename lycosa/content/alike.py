"""An index of sketches, with a memory limit, that finds earlier pages similar to a given one.

Each page is a *row*: its key, its place (any 64 bits chosen by the owner, for instance where its record is), its
simhash and its 128 bins (152 bytes, in the file `rows`, in the order of adding). Rows are found by *entries* of 64
bits: a 32-bit hash above, the number of the row below. A page has one entry for each of its 42 bands (see
`sketches`), by which similar pages find it, and one for its key. A page that is added *hidden* has only the last:
it is kept, but `find` does not return it. So one of many similar pages can represent them all (see `clusters`).

Entries are first kept in memory, in a hash table; when that has used up the limit, they are sorted into a *run*:

    run     = entry:u64 *          ascending
    fences  = hash:u32 *           in memory: the hash of every 512th entry

so that a band is looked up with one read of 4 KB in each run. Four runs of about the same size are merged into one.

A page that is removed, or added again, loses its bit among the *live* rows; its entries are dropped when runs are
merged. Candidates are checked against the rows, so that a collision of hashes costs a read but is never in an
answer.

`save` makes everything durable; `manifest.json`, the last file written, names it. An index is opened as it was last
saved; a caller that adds pages from a log continues from there, and keeps its position in the manifest's `note`.
Cost: 500 bytes per page on disk, 160 for a hidden one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np

from lycosa.content import alike_kernels as kernels
from lycosa.content.sketch_kernels import BANDS
from lycosa.content.sketches import Sketch, similarities
from lycosa.files import Files, write_whole

ROW: Final = np.dtype([("key", "<u8"), ("place", "<u8"), ("simhash", "<u8"), ("least", "u1", 128)])
FENCE: Final = 512
FAN: Final = 4
_EACH = BANDS + 1
_COST = _EACH * 20 + ROW.itemsize
"""Bytes of memory of a page that is not in a run yet."""
_SLICE = 1 << 19
"""Entries that are merged at a time."""


class Alike(msgspec.Struct, frozen=True, gc=False):
    """A page similar to the one that was looked up."""

    key: int
    similarity: float
    """Estimated Jaccard similarity of their shingles."""
    distance: int
    """Bits in which their simhashes differ."""
    place: int = 0
    """The place that the owner gave with the page."""


class _Run:
    """A sorted file of entries."""

    def __init__(self, files: Files, name: str, count: int) -> None:
        self.files, self.name, self.count = files, name, count
        self._fences: Any = None

    @property
    def fences(self) -> Any:
        if self._fences is None:
            parts = []
            for at in range(0, self.count, _SLICE):
                entries = self.slice(at, min(self.count, at + _SLICE))
                parts.append((entries[::FENCE] >> np.uint64(32)).astype(np.uint32))
            self._fences = np.concatenate(parts) if parts else np.zeros(0, np.uint32)
        return self._fences

    def slice(self, start: int, end: int) -> Any:
        return np.frombuffer(self.files.read_at(self.name, 8 * start, 8 * (end - start)), "<u8")

    def rows_of(self, hashes: Any) -> Any:
        """The numbers of rows that have an entry of one of these hashes."""
        firsts = np.maximum(np.searchsorted(self.fences, hashes, "left") - 1, 0)
        # A hash that fills whole blocks belongs to a very common page: a few blocks of it are enough.
        lasts = np.minimum(np.searchsorted(self.fences, hashes, "right"), firsts + 4)
        parts = [
            self.files.read_at(self.name, 8 * FENCE * first, 8 * FENCE * (last - first))
            for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
        ]
        entries = np.frombuffer(b"".join(parts), "<u8")
        wanted = np.repeat(hashes, [len(part) // 8 for part in parts])
        return entries[entries >> np.uint64(32) == wanted] & np.uint64(0xFFFFFFFF)


class AlikeIndex:
    """An index of sketches in a directory; `memory` bytes of entries and rows are kept before they go to disk."""

    def __init__(self, files: Files, memory: int = 32 << 20) -> None:
        self._files = files
        self._room = max(16, memory // _COST)
        self._runs: list[_Run] = []
        self._sealed = 0
        """Rows that are in the file."""
        self._live = np.zeros(1024, np.bool_)
        self._made = 0
        self.note: Any = None
        """The note saved last with the index, of plain values."""
        self._clear()
        if files.exists("manifest.json"):
            said = msgspec.json.decode(files.read("manifest.json"))
            self._runs = [_Run(files, name, count) for name, count in said["runs"]]
            self._sealed, self._made, self.note = said["rows"], said["made"], said.get("note")
            bits = np.frombuffer(files.read(said["live"]), np.uint8)
            self._live = np.unpackbits(bits).astype(np.bool_)
            files.truncate("rows", self._sealed * ROW.itemsize)
            kept = {"manifest.json", "rows", said["live"], *(run.name for run in self._runs)}
            for name in files.list(""):
                if name not in kept:
                    files.remove(name)
        else:
            files.create("rows").close()

    def _clear(self) -> None:
        slots = 1 << (self._room * _EACH).bit_length()
        self._entries = np.empty(self._room * _EACH, np.uint64)
        self._nexts = np.empty(self._room * _EACH, np.int32)
        self._heads = np.full(slots, -1, np.int32)
        self._tail = np.empty(self._room, ROW)
        self._count = self._used = 0

    def __len__(self) -> int:
        """Pages in the index."""
        return int(np.count_nonzero(self._live[: self._sealed + self._count]))

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        fences = sum(0 if run._fences is None else run._fences.nbytes for run in self._runs)
        parts = (self._entries, self._nexts, self._heads, self._tail, self._live)
        return fences + sum(part.nbytes for part in parts)

    def add(self, key: int, sketch: Sketch, place: int = 0, *, hidden: bool = False) -> None:
        """Add a page, or replace it. A page without words is not added. `hidden`: similar pages do not find it."""
        self.remove(key)
        if not sketch.least:
            return
        if self._count == self._room:
            self._seal()
        number = self._sealed + self._count
        if number >= len(self._live):
            self._live = np.concatenate([self._live, np.zeros(len(self._live), np.bool_)])
        row = self._tail[self._count]
        row["key"], row["place"], row["simhash"] = key, place, sketch.simhash
        row["least"] = np.frombuffer(sketch.least, np.uint8)
        bands = np.zeros(0, np.uint64) if hidden else _hashes(sketch)
        hashes = np.append(bands, _key_hash(key)).astype(np.uint64)
        fresh = hashes << np.uint64(32) | np.uint64(number)
        kernels.put(self._entries, self._nexts, self._heads, self._used, fresh)
        self._used += len(fresh)
        self._count += 1
        self._live[number] = True

    def get(self, key: int) -> tuple[Sketch, int] | None:
        """The sketch of a page, without its bands, and its place; None if it is not there."""
        numbers = self._candidates(np.array([_key_hash(key)], np.uint64))
        for row in self._rows(numbers):
            if row["key"] == np.uint64(key):
                return Sketch(int(row["simhash"]), row["least"].tobytes()), int(row["place"])
        return None

    def remove(self, key: int) -> bool:
        """Remove a page; returns whether it was there."""
        numbers = self._candidates(np.array([_key_hash(key)], np.uint64))
        rows = self._rows(numbers)
        mine = numbers[rows["key"] == np.uint64(key)]
        self._live[mine] = False
        return len(mine) > 0

    def find(self, sketch: Sketch, least: float = 0.8, most: int = 20) -> list[Alike]:
        """Up to `most` pages with an estimated similarity of `least` or more, the most similar first."""
        if not sketch.least:
            return []
        numbers = self._candidates(_hashes(sketch))
        rows = self._rows(numbers)
        like = similarities(sketch.least, rows["least"])
        found = [
            Alike(
                int(rows["key"][n]),
                float(like[n]),
                (int(rows["simhash"][n]) ^ sketch.simhash).bit_count(),
                int(rows["place"][n]),
            )
            for n in np.nonzero(like >= least)[0]
        ]
        return sorted(found, key=lambda one: (-one.similarity, one.distance, one.key))[:most]

    def _candidates(self, hashes: Any) -> Any:
        """The numbers of live rows that have an entry of one of these hashes."""
        near = np.empty(4096, np.uint64)
        count = kernels.get(self._entries, self._nexts, self._heads, hashes << np.uint64(32), near)
        parts = [near[:count], *(run.rows_of(hashes) for run in self._runs)]
        numbers = np.unique(np.concatenate(parts)).astype(np.int64)
        return numbers[self._live[numbers]]

    def _rows(self, numbers: Any) -> Any:
        rows = np.empty(len(numbers), ROW)
        for n, number in enumerate(numbers.tolist()):
            if number >= self._sealed:
                rows[n] = self._tail[number - self._sealed]
            else:
                data = self._files.read_at("rows", number * ROW.itemsize, ROW.itemsize)
                rows[n] = np.frombuffer(data, ROW)[0]
        return rows

    # -- files

    def _seal(self) -> None:
        """Write the entries in memory as a run."""
        if self._count == 0:
            return
        entries = np.sort(self._entries[: self._used])
        self._runs.append(self._write([entries[self._live[entries & np.uint64(0xFFFFFFFF)]]]))
        out = self._files.append("rows")
        out.write(self._tail[: self._count].tobytes())
        out.sync()
        out.close()
        self._sealed += self._count
        self._clear()
        while len(self._runs) >= FAN and self._runs[-FAN].count <= FAN * self._runs[-1].count:
            self._merge(self._runs[-FAN:])

    def _write(self, parts: Any) -> _Run:
        self._made += 1
        name = f"run-{self._made:06d}"
        out = self._files.create(name)
        count = 0
        for part in parts:
            out.write(part.astype("<u8").tobytes())
            count += len(part)
        out.sync()
        out.close()
        return _Run(self._files, name, count)

    def _merge(self, runs: list[_Run]) -> None:
        """Merge several runs into one, a range of hashes at a time."""
        pieces = max(1, -(-sum(run.count for run in runs) // _SLICE))
        edges = [(piece << 32) // pieces for piece in range(pieces + 1)]

        def merged() -> Any:
            for low, high in pairwise(edges):
                parts = []
                for run in runs:
                    first = max(0, int(np.searchsorted(run.fences, low, "left")) - 1) * FENCE
                    last = min(run.count, int(np.searchsorted(run.fences, high, "left")) * FENCE)
                    part = run.slice(first, last)
                    parts.append(part[(part >> np.uint64(32) >= low) & (part >> np.uint64(32) < high)])
                entries = np.sort(np.concatenate(parts))
                yield entries[self._live[entries & np.uint64(0xFFFFFFFF)]]

        whole = self._write(merged())
        self._runs = [run for run in self._runs if run not in runs] + [whole]

    def save(self, note: Any = None) -> None:
        """Make all additions durable, together with the note."""
        self.note = note
        self._seal()
        before = self._files.read("manifest.json") if self._files.exists("manifest.json") else b""
        self._made += 1
        live = f"live-{self._made:06d}"
        write_whole(self._files, live, np.packbits(self._live).tobytes())
        said = {
            "rows": self._sealed,
            "made": self._made,
            "live": live,
            "runs": [[run.name, run.count] for run in self._runs],
            "note": note,
        }
        write_whole(self._files, "manifest.json", msgspec.json.encode(said))
        if before:
            old = msgspec.json.decode(before)
            kept = {run.name for run in self._runs}
            for name in [old["live"], *(name for name, _ in old["runs"])]:
                if name not in kept:
                    self._files.remove(name)


def note_of(files: Files) -> Any:
    """The note of the index in a directory, which somebody else may be adding to; None if there is none."""
    if not files.exists("manifest.json"):
        return None
    return msgspec.json.decode(files.read("manifest.json")).get("note")


def _hashes(sketch: Sketch) -> Any:
    """32 bits for each band, its number mixed in."""
    bands = np.frombuffer(sketch.bands, "<u4").astype(np.uint64) ^ np.arange(
        BANDS, dtype=np.uint64
    ) << np.uint64(32)
    return _short(bands)


def _key_hash(key: int) -> int:
    return int(_short(np.array([key ^ 0x5DEECE66D], np.uint64))[0])


def _short(values: Any) -> Any:
    with np.errstate(over="ignore"):
        values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return values >> np.uint64(32)
