"""The sites of a crawl in numbers, however many: a fold over its log that is stored in a SQLite file.

A follower reads what is new, some records at a time; the counts and the follower's place are written in one
transaction, so that each record is counted once, even after a kill. The file is a cache: if removed, it is rebuilt
from the log. It is in `serve/` of the crawl's directory, or in memory if that cannot be written.

    site        name, pages, fetches, bytes, errors (answers of 400 and above), skipped, milliseconds of all
                fetches, times of the first and the last, and which record is its newest robots.txt
    reason      why URLs of a site were skipped, with counts, and other counts: by kind "skip", "robots" (the
                rule that forbade), "wait" (why URLs were deferred), "status" (of its answers)
    slot        fetches of a site, and errors among them, by intervals of `SLOT` milliseconds
    pattern     what is, or was, quarantined as a trap: from the latest record whether it holds, why and when,
                and how many URLs were skipped for it
    place       one row: the crawl's name, the follower's place, the number of records read

SQLite is fast enough for a million sites without indexes: one for each column by which a table can be sorted would
cost more than the scans (0.4 s at a million) are worth.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from lycosa.ask.follower import Follower, Place
from lycosa.ask.reading import CrawlReader
from lycosa.errors import StorageError
from lycosa.records import Before, Deferred, Fetched, Learned, Lost, Record, Robots, Skipped, Why
from lycosa.url.parts import site_of

FILE = "sites-3.sqlite"
COLUMNS = ("site", "pages", "fetches", "bytes", "errors", "skipped", "mean_ms", "last")
"""The columns by which a table of sites can be sorted."""
PER_PAGE = 100
LAST = 10**9
"""The highest page number of the table that may be asked for."""
SLOT = 300_000
_BATCH = 20_000
_MOST = 200
"""Most rules, reasons and statuses shown for one site, and most patterns."""
_SCHEMA = """
create table if not exists site (
  site text primary key, pages int default 0, fetches int default 0, bytes int default 0,
  errors int default 0, skipped int default 0, ms int default 0, first int default 0, last int default 0,
  robots_shard int default -1, robots_at int default -1
) without rowid;
create table if not exists reason (
  site text, kind text, why text, count int, primary key (site, kind, why)
) without rowid;
create table if not exists slot (
  site text, at int, fetches int, errors int, primary key (site, at)
) without rowid;
create table if not exists pattern (
  name text primary key, holds int default 0, at int default 0, why text default '', skipped int default 0
) without rowid;
create table if not exists place (one int primary key check (one = 1), crawl text, places blob, records int);
"""


@dataclass
class _Row:
    pages: int = 0
    fetches: int = 0
    bytes: int = 0
    errors: int = 0
    skipped: int = 0
    ms: int = 0
    first: int = 1 << 60
    last: int = 0
    robots: tuple[int, int] = (-1, -1)
    reasons: dict[tuple[str, str], int] = field(default_factory=dict)
    slots: dict[int, list[int]] = field(default_factory=dict)

    def count(self, kind: str, why: str) -> None:
        self.reasons[kind, why] = self.reasons.get((kind, why), 0) + 1


@dataclass
class _Batch:
    """The counts of some records."""

    sites: dict[str, _Row] = field(default_factory=dict)
    learned: dict[str, Learned] = field(default_factory=dict)
    trapped: dict[str, int] = field(default_factory=dict)

    def site(self, name: str) -> _Row:
        return self.sites.setdefault(name, _Row())


class Quarantined(msgspec.Struct, kw_only=True):
    """A pattern whose URLs are skipped."""

    pattern: str
    since: int
    why: str
    skipped: int


class SiteRow(msgspec.Struct, kw_only=True):
    """One site."""

    site: str
    pages: int
    fetches: int
    bytes: int
    errors: int
    skipped: int
    mean_ms: int
    first: int
    last: int


class Sites:
    """The sites of one crawl. Any thread may ask; while one reads the log, others get the existing counts."""

    def __init__(self, crawl: CrawlReader, directory: Path | None) -> None:
        """`directory`: where the file may be; None: in memory."""
        self._crawl = crawl
        self._lock = threading.Lock()  # of the database
        self._reading = threading.Lock()
        self._follower: Follower | None = None
        self._database = self._open(directory)
        self._places = self._kept()

    def _open(self, directory: Path | None) -> sqlite3.Connection:
        if directory is not None:
            try:
                directory.mkdir(mode=0o700, exist_ok=True)
                return _opened(directory / FILE)
            except (OSError, sqlite3.Error):
                with suppress(OSError, sqlite3.Error):  # damaged: it is only a cache
                    (directory / FILE).unlink()
                    return _opened(directory / FILE)
        return _opened(None)

    def _kept(self) -> list[Place]:
        row = self._database.execute("select crawl, places from place").fetchone()
        if row is not None and row[0] == self._crawl.crawl:
            places = msgspec.json.decode(row[1], type=list[Place])
            with suppress(StorageError):  # the log is an older copy: rebuild
                Follower(self._crawl, places)
                return places
        with self._database:
            for table in ("site", "reason", "slot", "pattern", "place"):
                self._database.execute(f"delete from {table}")
        return []

    def catch_up(self, most: int = 1 << 60) -> int:
        """Read at most about so many new records; returns how many were read."""
        with self._reading:
            follower = self._follower or Follower(self._crawl, self._places, settled=True)
            self._follower = None  # if this fails, the next call continues from the stored place
            batch = _Batch()
            count = held = 0
            for shard, position, record in follower.read():
                _apply(batch, shard, position, record)
                count += 1
                held += 1
                if held >= _BATCH or count >= most:
                    self._write(batch, follower.places, held)
                    batch, held = _Batch(), 0
                    if count >= most:
                        return count
            if held or not self._places:
                self._write(batch, follower.places, held)
            self._follower = follower
            return count

    def _write(self, batch: _Batch, places: list[Place], count: int) -> None:
        rows = batch.sites
        with self._lock, self._database as database:
            database.executemany(
                "insert into site values (?,?,?,?,?,?,?,?,?,?,?) on conflict (site) do update set"
                " pages=pages+excluded.pages, fetches=fetches+excluded.fetches, bytes=bytes+excluded.bytes,"
                " errors=errors+excluded.errors, skipped=skipped+excluded.skipped, ms=ms+excluded.ms,"
                " first=min(first, excluded.first), last=max(last, excluded.last),"
                " robots_shard=iif(excluded.robots_at < 0, robots_shard, excluded.robots_shard),"
                " robots_at=iif(excluded.robots_at < 0, robots_at, excluded.robots_at)",
                [
                    (
                        *(site, row.pages, row.fetches, row.bytes, row.errors, row.skipped),
                        *(row.ms, row.first, row.last, *row.robots),
                    )
                    for site, row in rows.items()
                ],
            )
            database.executemany(
                "insert into reason values (?,?,?,?) on conflict (site, kind, why) do update set"
                " count=count+excluded.count",
                [(site, *of, n) for site, row in rows.items() for of, n in row.reasons.items()],
            )
            database.executemany(
                "insert into slot values (?,?,?,?) on conflict (site, at) do update set"
                " fetches=fetches+excluded.fetches, errors=errors+excluded.errors",
                [(site, at, *counts) for site, row in rows.items() for at, counts in row.slots.items()],
            )
            database.executemany(
                "insert into pattern (name, holds, at, why) values (?,?,?,?) on conflict (name) do update set"
                " holds=excluded.holds, at=excluded.at, why=excluded.why",
                [(name, row.holds, row.at, row.why) for name, row in batch.learned.items()],
            )
            database.executemany(
                "insert into pattern (name, skipped) values (?,?) on conflict (name) do update set"
                " skipped=skipped+excluded.skipped",
                list(batch.trapped.items()),
            )
            database.execute(
                "insert into place values (1,?,?,?) on conflict (one) do update set crawl=excluded.crawl,"
                " places=excluded.places, records=records+excluded.records",
                (self._crawl.crawl, msgspec.json.encode(places), count),
            )
        self._places = places

    # -- answers

    def count(self, search: str = "") -> int:
        """How many sites have these letters in their name."""
        where, values = _where(search)
        with self._lock:
            found = self._database.execute(f"select count(*) from site{where}", values).fetchone()
        return int(found[0])

    def page(
        self, search: str = "", sort: str = "pages", *, up: bool = False, number: int = 0
    ) -> list[SiteRow]:
        """One page of the table; an unknown column sorts by pages."""
        column = sort if sort in COLUMNS else "pages"
        where, values = _where(search)
        order = f"{column} {'asc' if up else 'desc'}, site"
        query = f"{_SELECT}{where} order by {order} limit ? offset ?"
        with self._lock:
            rows = self._database.execute(query, (*values, PER_PAGE, max(number, 0) * PER_PAGE)).fetchall()
        return list(_rows(rows))

    def one(self, site: str) -> SiteRow | None:
        with self._lock:
            rows = self._database.execute(f"{_SELECT} where site = ?", (site,)).fetchall()
        return next(_rows(rows), None)

    def reasons(self, site: str, kind: str = "skip") -> list[tuple[str, int]]:
        """Why URLs of a site were skipped (or another kind of count), the most frequent first."""
        query = (
            "select why, count from reason where site = ? and kind = ? and count > 0"
            " order by count desc, why limit ?"
        )
        with self._lock:
            return list(self._database.execute(query, (site, kind, _MOST)).fetchall())

    def slots(self, site: str) -> list[tuple[int, int, int]]:
        """The start, fetches and errors of each interval of time; intervals without any are left out."""
        query = "select at * ?, fetches, errors from slot where site = ? order by at"
        with self._lock:
            return list(self._database.execute(query, (SLOT, site)).fetchall())

    def quarantined(self) -> list[Quarantined]:
        """The patterns that are quarantined, those of the most skipped URLs first."""
        query = "select name, at, why, skipped from pattern where holds order by skipped desc, name limit ?"
        with self._lock:
            rows = self._database.execute(query, (_MOST,)).fetchall()
        return [Quarantined(pattern=name, since=at, why=why, skipped=n) for name, at, why, n in rows]

    def robots(self, site: str) -> Robots | None:
        """The site's newest robots.txt."""
        with self._lock:
            query = "select robots_shard, robots_at from site where site = ?"
            found = self._database.execute(query, (site,)).fetchone()
        if found is None or found[1] < 0:
            return None
        record = self._crawl.logs[found[0]].read(found[1])
        return record if isinstance(record, Robots) else None

    def close(self) -> None:
        """Close the database; waits for a batch that is being written, not for the log."""
        with self._lock:
            self._database.close()


_SELECT = (
    "select site, pages, fetches, bytes, errors, skipped, iif(fetches, ms / fetches, 0) as mean_ms, first, last"
    " from site"
)


def _opened(path: Path | None) -> sqlite3.Connection:
    database = sqlite3.connect(path or ":memory:", check_same_thread=False)
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = off")  # a cache: if damaged by a power cut it is rebuilt
    database.executescript(_SCHEMA)
    database.commit()
    return database


def _where(search: str) -> tuple[str, tuple[str, ...]]:
    if not search:
        return "", ()
    literal = search.lower().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return " where site like ? escape '\\'", (f"%{literal}%",)


def _rows(rows: list[tuple[Any, ...]]) -> Iterator[SiteRow]:
    for site, pages, fetches, size, errors, skipped, mean, first, last in rows:
        yield SiteRow(
            site=site,
            pages=pages,
            fetches=fetches,
            bytes=size,
            errors=errors,
            skipped=skipped,
            mean_ms=mean,
            first=first if fetches else 0,
            last=last,
        )


def _apply(batch: _Batch, shard: int, position: int, record: Record) -> None:
    if isinstance(record, Fetched):
        row = batch.site(site_of(record.url))
        row.fetches += 1
        row.pages += record.before is not Before.PAGE
        row.bytes += record.size
        row.errors += record.status >= 400
        row.ms += record.timing.total
        row.first, row.last = min(row.first, record.at), max(row.last, record.at)
        row.count("status", str(record.status))
        slot = row.slots.setdefault(record.at // SLOT, [0, 0])
        slot[0] += 1
        slot[1] += record.status >= 400
    elif isinstance(record, Lost):
        row = batch.site(site_of(record.url))
        row.fetches -= 1
        row.pages -= not record.remains
        row.bytes -= record.size
        row.errors -= record.status >= 400
    elif isinstance(record, Skipped):
        row = batch.site(site_of(record.url))
        row.skipped += 1
        row.count("skip", record.why)
        if record.why is Why.ROBOTS:
            row.count("robots", record.detail)
        elif record.why is Why.TRAP:
            pattern = record.detail.partition(" ")[0]
            batch.trapped[pattern] = batch.trapped.get(pattern, 0) + 1
    elif isinstance(record, Deferred):
        batch.site(record.site or site_of(record.url)).count("wait", record.why)
    elif isinstance(record, Robots):
        batch.site(record.site).robots = (shard, position)
    elif isinstance(record, Learned) and record.what == "trap":
        batch.learned[record.subject] = record
