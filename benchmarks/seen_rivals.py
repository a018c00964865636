"""Common alternatives, on the same stream under the same memory cap, each in a separate process.

Run as `python seen_rivals.py NAME STREAM CAP PLACE`: prints one JSON object. STREAM is a file of keys, mapped, so
that making the stream leaves no free memory behind that a rival could use uncounted. A rival whose process grows
past the cap (over its size before the first URL) is stopped there, and reports after how many URLs. Rivals that
need a package which is not installed say so.

All get 64-bit keys in batches of 60, in the order of the stream, and must tell which are new. Scrapy's
filter takes requests, so it gets URLs made from the keys; making the requests is included in its time,
since a crawl pays for it too.
"""

from __future__ import annotations

import json
import math
import resource
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lycosa.lab.experiments.uniqueness_stream import links

Check = Callable[[np.ndarray], int]
"""Takes keys, returns how many of them were new."""

NAMES = (
    "lycosa auto", "lycosa memory", "lycosa veuniq", "python set", "sqlite", "lmdb", "rocksdb", "scrapy", "bloom",
)  # fmt: skip


def ours(kind: str) -> Callable[[int, Path], tuple[Check, Callable[[], int]]]:
    def make(cap: int, place: Path) -> tuple[Check, Callable[[], int]]:
        from lycosa.files import DiskFiles
        from lycosa.seen.stores import open_store

        store = open_store(kind, DiskFiles(place), cap)
        payloads = [b"x" * 60] * 60

        def check(keys: np.ndarray) -> int:
            new = len(store.offer(keys, payloads).new)
            while store.due:
                new += len(store.merge())
            return new

        def finish() -> int:
            new = 0
            while store.waiting:
                new += len(store.merge())
            for _piece in store.freeze():
                pass
            store.settle()
            close = getattr(store, "close", None)
            if close is not None:
                close()
            return new

        return check, finish

    return make


def nothing() -> int:
    return 0


def python_set(cap: int, place: Path) -> tuple[Check, Callable[[], int]]:
    known: set[int] = set()

    def check(keys: np.ndarray) -> int:
        before = len(known)
        known.update(keys.tolist())
        return len(known) - before

    return check, nothing


def sqlite(cap: int, place: Path) -> tuple[Check, Callable[[], int]]:
    base = sqlite3.connect(place / "seen.db")
    base.execute("PRAGMA journal_mode=WAL")
    base.execute("PRAGMA synchronous=NORMAL")
    base.execute(f"PRAGMA cache_size=-{cap // 1024}")
    base.execute("CREATE TABLE seen (key INTEGER PRIMARY KEY) WITHOUT ROWID")
    pending = [0]

    def check(keys: np.ndarray) -> int:
        before = base.total_changes
        rows = [(key,) for key in keys.view(np.int64).tolist()]
        base.executemany("INSERT OR IGNORE INTO seen VALUES (?)", rows)
        pending[0] += 1
        if pending[0] % 1000 == 0:
            base.commit()
        return base.total_changes - before

    def finish() -> int:
        base.commit()
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        base.close()
        return 0

    return check, finish


def with_lmdb(cap: int, place: Path) -> tuple[Check, Callable[[], int]]:
    import lmdb

    base = lmdb.open(str(place), map_size=64 << 30, writemap=True, map_async=True)
    holder = {"txn": base.begin(write=True), "batches": 0}

    def check(keys: np.ndarray) -> int:
        data = keys.astype(">u8").tobytes()
        put = holder["txn"].put
        new = 0
        for at in range(0, len(data), 8):
            new += put(data[at : at + 8], b"", overwrite=False)
        holder["batches"] += 1
        if holder["batches"] % 1000 == 0:
            holder["txn"].commit()
            holder["txn"] = base.begin(write=True)
        return new

    def finish() -> int:
        holder["txn"].commit()
        base.sync(True)
        base.close()
        return 0

    return check, finish


def rocksdb(cap: int, place: Path) -> tuple[Check, Callable[[], int]]:
    from rocksdict import BlockBasedOptions, Cache, Options, Rdict

    options = Options(raw_mode=True)
    options.set_write_buffer_size(cap // 4)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(cap // 2))
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    base = Rdict(str(place / "rocks"), options)

    def check(keys: np.ndarray) -> int:
        data = keys.astype(">u8").tobytes()
        new = 0
        for at in range(0, len(data), 8):
            key = data[at : at + 8]
            if key not in base:
                base[key] = b""
                new += 1
        return new

    def finish() -> int:
        base.flush()
        base.close()
        return 0

    return check, finish


def scrapy(cap: int, place: Path) -> tuple[Check, Callable[[], int]]:
    from scrapy.dupefilters import RFPDupeFilter
    from scrapy.http import Request

    held = RFPDupeFilter()

    def check(keys: np.ndarray) -> int:
        requests = [Request(f"http://h{key >> 48:x}.example/{key:x}") for key in keys.tolist()]
        return sum(not held.request_seen(request) for request in requests)

    return check, nothing


def bloom(cap: int, place: Path) -> tuple[Check, Callable[[], int]]:
    """Seven probes in an array of the cap's size: loses URLs, the share of which the driver reports."""
    from numba import njit

    order = int(math.log2(cap * 8))
    bits = np.zeros(1 << (order - 3), np.uint8)
    shift = np.uint64(64 - order)

    @njit
    def fill(keys: np.ndarray, bits: np.ndarray, shift: np.uint64) -> int:
        new = 0
        for i in range(keys.size):
            x = keys[i]
            fresh = False
            for _ in range(7):
                x = (x ^ (x >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
                at = x >> shift
                mask = np.uint8(1 << (at & np.uint64(7)))
                if not bits[at >> np.uint64(3)] & mask:
                    fresh = True
                    bits[at >> np.uint64(3)] |= mask
            new += fresh
        return new

    return (lambda keys: int(fill(keys, bits, shift))), nothing


MAKERS = {
    "lycosa auto": ours("auto"),
    "lycosa memory": ours("memory"),
    "lycosa veuniq": ours("veuniq"),
    "python set": python_set,
    "sqlite": sqlite,
    "lmdb": with_lmdb,
    "rocksdb": rocksdb,
    "scrapy": scrapy,
    "bloom": bloom,
}


def rss() -> int:
    """Anonymous memory only: pages of mapped files can be reclaimed by the system."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def write_stream(path: Path, count: int, stored: int) -> None:
    """The stream as a file."""
    np.save(path, np.concatenate(list(links(stored, count))))


def run(name: str, stream: Path, cap: int, place: Path) -> dict[str, Any]:
    keys = np.asarray(np.load(stream, mmap_mode="c"))
    batches = [keys[at : at + 60] for at in range(0, len(keys), 60)]
    try:
        check, finish = MAKERS[name](cap, place)
    except ImportError as error:
        return {"rival": name, "missing": str(error)}
    warm = np.arange(60, dtype=np.uint64) + np.uint64(1 << 63)
    new = check(warm) - 60
    before, peak, offered, stopped = rss(), 0, 0, False
    seconds = 0.0
    for number, batch in enumerate(batches):
        started = time.perf_counter()
        new += check(batch)
        seconds += time.perf_counter() - started
        offered += len(batch)
        if number % 500 == 0:
            peak = max(peak, rss() - before)
            if peak > cap * 1.1:
                stopped = True
                break
    peak = max(peak, rss() - before)
    started = time.perf_counter()
    new += finish()
    seconds += time.perf_counter() - started
    disk = sum(path.stat().st_blocks * 512 for path in place.rglob("*") if path.is_file())
    exact = len(np.unique(keys[:offered]))
    return {
        "rival": name,
        "offered": offered,
        "unique": exact,
        "checks_per_second": offered / seconds,
        "ram": peak,
        "ram_per_url": peak / exact,
        "disk_per_url": disk / exact,
        "lost": exact - new,
        "stopped_by_cap": stopped,
    }


if __name__ == "__main__":
    _, chosen, keys_file, most, where = sys.argv
    print(json.dumps(run(chosen, Path(keys_file), int(most), Path(where))))
