"""The site table, the calendar and the store of left-behind records compared with SQLite, on the same operations.

    python benchmarks/sqlite_stores.py                    a million entries each: some minutes, CPU only
    python benchmarks/sqlite_stores.py --entries 100000

Each store has a separate process. Times are CPU microseconds of that process (all threads) per operation:

- fill     so many entries go in: sites in the order of their discovery, due times over 30 days, links left behind
           for 50,000 hosts;
- use      a fifth as many operations: a site is found and rewritten (three in four of a tenth of the sites);
           entries that are due come out, 1,000 at a time, and as many are added; the first entry of the next
           queue in turn comes out, and one goes in.

Ours: a freeze with `settle` after every 100,000 operations, pieces dropped. SQLite: one table with the key as its
B-tree (`WITHOUT ROWID`), WAL, synchronous=OFF, 16 MB of cache, prepared statements, a transaction per 1,000
operations, a checkpoint after every 100,000. (It is not charged for keeping two snapshots, which a crawl needs.)
The cache of sites in front of the files would be the same for both, so it is left out.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from lycosa.crawl.site_files import SiteFiles
from lycosa.crawl.sites import Site
from lycosa.files import DiskFiles
from lycosa.frontier import Calendar, Entry, PackedLeftBehind
from lycosa.records import Deferred, Why

COMMIT, FREEZE = 1_000, 100_000
QUEUES = 50_000
DAY = 86_400_000
START = 1_750_000_000_000


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Sqlite:
    """A connection with the settings above, and its transactions."""

    def __init__(self, directory: Path, table: str) -> None:
        self.db = sqlite3.connect(directory / "store.db", isolation_level=None, cached_statements=64)
        for line in ("journal_mode=WAL", "synchronous=OFF", "cache_size=-16384", "wal_autocheckpoint=0"):
            self.db.execute(f"PRAGMA {line}")
        self.db.execute(f"CREATE TABLE {table} WITHOUT ROWID")
        self.db.execute("BEGIN")

    def step(self, n: int) -> None:
        if n % COMMIT == 0:
            self.db.execute("COMMIT")
            if n % FREEZE == 0:
                self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.db.execute("BEGIN")


def site(n: int) -> bytes:
    return f"https://www.site-{n * 2654435761 % (1 << 32):010d}.example.org:443".encode()


FIELDS = [msgspec.msgpack.encode(Site(pages=n, asked=True)) for n in range(200)]


def sites_ours(directory: Path, entries: int) -> tuple[Callable[[int], None], Callable[[int], None]]:
    store = SiteFiles(DiskFiles(directory), seed=7)

    def step(n: int) -> None:
        if n % FREEZE == 0:
            store.cut()
            store.settle()
            store.keep(store.files())

    def fill(n: int) -> None:
        store.write(site(n), FIELDS[1], 0)
        step(n)

    def use(n: int) -> None:
        name = site(pick(entries))
        found = store.find(name)
        assert found is not None
        store.write(name, FIELDS[n % 200], found[0])
        step(n)

    return fill, use


def sites_sqlite(directory: Path, entries: int) -> tuple[Callable[[int], None], Callable[[int], None]]:
    sql = Sqlite(directory, "sites (name BLOB PRIMARY KEY, fields BLOB)")

    def fill(n: int) -> None:
        sql.db.execute("INSERT INTO sites VALUES (?, ?)", (site(n), FIELDS[1]))
        sql.step(n)

    def use(n: int) -> None:
        name = site(pick(entries))
        found = sql.db.execute("SELECT fields FROM sites WHERE name = ?", (name,)).fetchone()
        assert found is not None
        sql.db.execute("UPDATE sites SET fields = ? WHERE name = ?", (FIELDS[n % 200], name))
        sql.step(n)

    return fill, use


DRAW = random.Random(1)


def pick(entries: int) -> int:
    return DRAW.randrange(entries // 10 if DRAW.random() < 0.75 else entries)


def deferred(n: int) -> Deferred:
    due = START + DRAW.randrange(30 * DAY)
    url = f"https://www.site-{n}.example.org/page/{n}.html"
    return Deferred(START, url, "", 3, 1, 1, Why.RETRY, due)


def calendar_ours(directory: Path, entries: int) -> tuple[Callable[[int], None], Callable[[int], None]]:
    calendar = Calendar(DiskFiles(directory))
    calendar.due(START)
    ready: list[Deferred] = []
    now = START

    def fill(n: int) -> None:
        calendar.add(deferred(n))
        if n % FREEZE == 0:
            for _ in calendar.freeze():
                pass
            calendar.settle()
            calendar.keep(calendar.files())

    def use(n: int) -> None:
        nonlocal now
        while not ready:
            ready.extend(calendar.due(now))
            if not ready:
                now += 600_000
        ready.pop()
        fill(n)

    return fill, use


def calendar_sqlite(directory: Path, entries: int) -> tuple[Callable[[int], None], Callable[[int], None]]:
    sql = Sqlite(directory, "calendar (due INTEGER, seq INTEGER, record BLOB, PRIMARY KEY (due, seq))")
    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Deferred).decode
    ready: list[Deferred] = []
    seq = 0
    now = START

    def fill(n: int) -> None:
        nonlocal seq
        seq += 1
        row = deferred(n)
        sql.db.execute("INSERT INTO calendar VALUES (?, ?, ?)", (row.due, seq, encode(row)))
        sql.step(n)

    def use(n: int) -> None:
        nonlocal now
        while not ready:
            rows = sql.db.execute(
                "SELECT due, seq, record FROM calendar WHERE due <= ? ORDER BY due, seq LIMIT 1000", (now,)
            ).fetchall()
            if rows:
                last = rows[-1][:2]
                sql.db.execute("DELETE FROM calendar WHERE (due, seq) <= (?, ?)", last)
                ready.extend(decode(row[2]) for row in rows)
            else:
                now += 600_000
        ready.pop()
        fill(n)

    return fill, use


def left_ours(directory: Path, entries: int) -> tuple[Callable[[int], None], Callable[[int], None]]:
    left = PackedLeftBehind(DiskFiles(directory))

    def fill(n: int) -> None:
        left.push(1 + DRAW.randrange(QUEUES), Entry(n, n % 60))
        if n % FREEZE == 0:
            for _ in left.freeze():
                pass
            left.settle()
            left.keep(left.files())

    def use(n: int) -> None:
        queue = left.next_queue()
        assert queue is not None and left.pop(queue) is not None
        fill(n)

    return fill, use


def left_sqlite(directory: Path, entries: int) -> tuple[Callable[[int], None], Callable[[int], None]]:
    sql = Sqlite(
        directory,
        "left (queue INTEGER, seq INTEGER, position INTEGER, cursor INTEGER, PRIMARY KEY (queue, seq))",
    )
    seq = queue = 0

    def fill(n: int) -> None:
        nonlocal seq
        seq += 1
        sql.db.execute("INSERT INTO left VALUES (?, ?, ?, ?)", (1 + DRAW.randrange(QUEUES), seq, n, n % 60))
        sql.step(n)

    def use(n: int) -> None:
        nonlocal queue
        first = "SELECT queue, seq, position, cursor FROM left WHERE queue > ? ORDER BY queue, seq LIMIT 1"
        row = sql.db.execute(first, (queue,)).fetchone() or sql.db.execute(first, (0,)).fetchone()
        queue = row[0]
        sql.db.execute("DELETE FROM left WHERE queue = ? AND seq = ?", row[:2])
        fill(n)

    return fill, use


STORES: dict[str, Callable[[Path, int], Any]] = {
    f"{store} {kind}": make
    for store, kinds in {
        "sites": {"ours": sites_ours, "sqlite": sites_sqlite},
        "calendar": {"ours": calendar_ours, "sqlite": calendar_sqlite},
        "left": {"ours": left_ours, "sqlite": left_sqlite},
    }.items()
    for kind, make in kinds.items()
}


def measure(name: str, entries: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as warm:  # compiles kernels, loads modules
        fill, use = STORES[name](Path(warm), 2_000)
        for n in range(20_000):
            fill(n)
        for n in range(1, 2_001):
            use(n)
    DRAW.seed(1)
    with tempfile.TemporaryDirectory() as place:
        before = resident()
        fill, use = STORES[name](Path(place), entries)
        began = time.process_time()
        for n in range(entries):
            fill(n)
        filled = time.process_time()
        operations = entries // 5
        for n in range(1, operations + 1):
            use(n)
        used = time.process_time()
        disk = sum(path.stat().st_size for path in Path(place).iterdir())
        return {
            "store": name,
            "fill": (filled - began) / entries * 1e6,
            "use": (used - filled) / operations * 1e6,
            "ram": (resident() - before) / entries,
            "disk": disk / entries,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, args.entries)))
        return
    print(
        "| store | fill, us | use, us | RAM, bytes an entry | disk, bytes an entry |\n|---|---|---|---|---|"
    )
    for name in STORES:
        command = [sys.executable, __file__, "--entries", str(args.entries), "--one", name]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print("| {store} | {fill:.1f} | {use:.1f} | {ram:.0f} | {disk:.0f} |".format(**row), flush=True)


if __name__ == "__main__":
    main()
