"""The index of near duplicates at the size of a large crawl: bytes per page, memory, and the cost of a lookup.

    python benchmarks/alike_scale.py DIR DIR ... [--pages 10000000] [--sample 2000] [--into PLACE]

Each DIR has real pages (`*.html`). A sample of them is sketched, and the index filled with copies of that sample:
in every copy all bins and bands are xored with numbers specific to the copy, so that its pages are as similar to
each other as the real ones are, and pages of two copies are unrelated. The runs are written in the index's own
format, `FAN` + 1 of them, as many as a large index has; they are made from whole copies, not page by page, since
that would take an hour and measure nothing else.

A lookup is `AlikeIndex.find` for pages of random copies, which must find the page itself (`missed` counts those
that do not), in a newly opened index: its CPU, the reads of its files and their bytes. `grown` is the growth of the
process since before the index was opened, lookups included.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sketches import texts_of
from lycosa.content.alike import FAN, ROW, AlikeIndex, _key_hash, _short
from lycosa.content.sketch_kernels import BANDS
from lycosa.content.sketches import Sketch, sketch
from lycosa.files import DiskFiles

_HALF = np.uint64(32)


class Copies:
    """A sample of real sketches, repeated any number of times."""

    def __init__(self, sample: list[Sketch]) -> None:
        self.size = len(sample)
        self.least = np.array([np.frombuffer(each.least, np.uint8) for each in sample])
        self.bands = np.array([np.frombuffer(each.bands, "<u4") for each in sample])
        self.simhashes = np.array([each.simhash for each in sample], np.uint64)

    @staticmethod
    def _salts(copy: int) -> tuple[Any, Any, Any]:
        source = np.random.default_rng(copy)
        return (
            source.integers(0, 256, 128, np.uint8),
            source.integers(0, 1 << 32, BANDS, np.uint32),
            source.integers(0, 1 << 63, 1, np.uint64),
        )

    def rows(self, copy: int) -> tuple[Any, Any]:
        """The rows of a copy, and the entries of its bands and keys, unsorted."""
        least, bands, simhash = self._salts(copy)
        numbers = np.arange(copy * self.size, (copy + 1) * self.size, dtype=np.uint64)
        rows = np.zeros(self.size, ROW)
        rows["key"], rows["simhash"], rows["least"] = numbers, self.simhashes ^ simhash, self.least ^ least
        mixed = (self.bands ^ bands).astype(np.uint64) ^ (np.arange(BANDS, dtype=np.uint64) << _HALF)
        keys = _short(numbers ^ np.uint64(0x5DEECE66D))
        entries = np.concatenate([_short(mixed), keys[:, None]], axis=1) << _HALF | numbers[:, None]
        return rows, entries.ravel()

    def sketch(self, copy: int, row: int) -> Sketch:
        least, bands, simhash = self._salts(copy)
        return Sketch(
            int(self.simhashes[row] ^ simhash[0]),
            (self.least[row] ^ least).tobytes(),
            (self.bands[row] ^ bands).astype("<u4").tobytes(),
        )


class Counted(DiskFiles):
    """Files whose reads are counted."""

    reads = octets = 0

    def read_at(self, name: str, offset: int, length: int) -> bytes:
        self.reads += 1
        self.octets += length
        return super().read_at(name, offset, length)


def fill(place: Path, copies: Copies, count: int) -> None:
    """Write an index with so many copies."""
    index = AlikeIndex(DiskFiles(place), memory=1 << 20)
    assert _key_hash(5) == int(_short(np.array([5 ^ 0x5DEECE66D], np.uint64))[0])
    index._live = np.ones(count * copies.size, np.bool_)
    parts = np.array_split(np.arange(count), FAN + 1)
    with (place / "rows").open("wb") as out:
        for number, part in enumerate(parts):
            found = []
            for copy in part.tolist():
                rows, entries = copies.rows(copy)
                out.write(rows.tobytes())
                found.append(entries)
            whole = np.concatenate(found)
            del found
            whole.sort()
            index._runs.append(index._write([whole]))
            print(f"run {number + 1} of {len(parts)}: {len(whole):,} entries", flush=True)
    index._sealed = count * copies.size
    index.save()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sites", type=Path, nargs="+")
    parser.add_argument("--pages", type=int, default=10_000_000)
    parser.add_argument("--sample", type=int, default=2000)
    parser.add_argument("--lookups", type=int, default=200)
    parser.add_argument("--memory", type=int, default=32 << 20)
    parser.add_argument("--into", type=Path, default=None)
    args = parser.parse_args()
    each = -(-args.sample // len(args.sites))
    sample = [sketch(text) for site in args.sites for text in texts_of(site, each)]
    copies = Copies(sample)
    count = max(FAN + 1, args.pages // copies.size)
    source = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-", dir=args.into) as folder:
        place = Path(folder)
        begun = time.process_time()
        fill(place, copies, count)
        built = time.process_time() - begun
        pages = count * copies.size
        size = sum(path.stat().st_size for path in place.iterdir())
        child = os.fork()  # so that memory used for filling is not counted
        if child:
            os.waitpid(child, 0)
            return
        files = Counted(place)
        before = resident()
        index = AlikeIndex(files, memory=args.memory)
        index.find(copies.sketch(0, 0))  # loads the fences
        spent, reads, octets, found, missed = [], [], [], [], 0
        for _ in range(args.lookups):
            copy, row = source.randrange(count), source.randrange(copies.size)
            wanted = copies.sketch(copy, row)
            files.reads = files.octets = 0
            begun = time.process_time()
            answer = index.find(wanted, 0.8, most=1000)
            spent.append(time.process_time() - begun)
            reads.append(files.reads)
            octets.append(files.octets)
            found.append(len(answer))
            missed += copy * copies.size + row not in {one.key for one in answer}
        print(
            f"{pages:,} pages ({count:,} copies of {copies.size:,} real ones), {len(index._runs)} runs;"
            f" load {os.getloadavg()[0]:.1f}"
        )
        print(f"disk: {size / pages:.0f} bytes a page; filled in {built:.0f} s of CPU")
        print(
            f"memory: limit {args.memory >> 20} MiB for what is not on disk;"
            f" index {index.nbytes / (1 << 20):.1f} MiB, grown {(resident() - before) / (1 << 20):.1f} MiB"
        )
        spent.sort()
        print(
            f"lookup: {1e6 * statistics.median(spent):,.0f} µs of CPU (nine of ten below"
            f" {1e6 * spent[len(spent) * 9 // 10]:,.0f}), {statistics.mean(reads):.0f} reads of"
            f" {statistics.mean(octets) / 1000:,.0f} KB, {statistics.mean(found):.1f} pages alike by .8;"
            f" {missed} missed"
        )
        os._exit(0)


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
