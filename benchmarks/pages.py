"""The page table of one shard in counts that do not depend on the machine: bytes per page, and I/O.

    python benchmarks/pages.py                      1 and 10 million pages, some minutes and 2 GB of disk
    python benchmarks/pages.py --millions 1

Pages are noted as in a crawl: each once, then a tenth of them again; a snapshot every 12,500 fetches, which
is every 200,000 records of an agent with 16 shards. Lookups are of random pages. Noting reads nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path

from lycosa.files import DiskFiles
from lycosa.pages.packed import PackedPages
from lycosa.pages.summary import Summary

_EVERY = 12_500
_LOOKUPS = 2_000
_MIX = 0x9E3779B97F4A7C15


class CountedFiles(DiskFiles):
    """Counts reads and their bytes."""

    reads = 0
    bytes_read = 0

    def read_at(self, name: str, offset: int, length: int) -> bytes:
        data = super().read_at(name, offset, length)
        self.reads += 1
        self.bytes_read += len(data)
        return data


def key(number: int) -> int:
    return number * _MIX % (1 << 64)


def measure(pages: int, memory: int, place: Path) -> dict[str, object]:
    files = CountedFiles(place)
    table = PackedPages(files, memory=memory)
    source = random.Random(1)
    fetches = most_files = most_ram = 0

    def note(number: int) -> None:
        nonlocal fetches, most_files, most_ram
        fetches += 1
        content = source.getrandbits(32)
        table.note(
            key(number),
            Summary(fetches, 2, 1, 0, 1, 0, content, content, 1_700_000_000, 1_700_000_000, 1_700_000_000, 0),
        )
        if fetches % _EVERY == 0:
            most_files = max(most_files, len(table.runs))
            most_ram = max(most_ram, table.nbytes)
            list(table.freeze())
            table.settle()
            table.keep([])

    for number in range(pages):
        note(number)
    for _ in range(pages // 10):
        note(source.randrange(pages))
    list(table.freeze())
    table.settle()
    list(table.freeze())
    table.keep([])
    disk = sum(run.size for run in table.runs)
    rows = sum(run.rows for run in table.runs)
    merging = files.bytes_read
    table.find(0)  # loads the indexes
    before = files.reads
    for _ in range(_LOOKUPS):
        assert table.find(key(source.randrange(pages))) is not None
    return {
        "pages": pages,
        "fetches": fetches,
        "files": len(table.runs),
        "most files": most_files,
        "disk bytes a page": round(disk / pages, 2),
        "rows a page": round(rows / pages, 3),
        "RAM bytes a page": round(table.nbytes / pages, 3),
        "most RAM": most_ram,
        "bytes read by merges, a fetch": round(merging / fetches, 1),
        "reads a lookup": round((files.reads - before) / _LOOKUPS, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 10])
    parser.add_argument("--memory", type=int, default=1 << 20, help="bytes of rows in RAM")
    args = parser.parse_args()
    for millions in args.millions:
        with tempfile.TemporaryDirectory() as place:
            print(json.dumps(measure(round(millions * 1e6), args.memory, Path(place))), flush=True)


if __name__ == "__main__":
    main()
