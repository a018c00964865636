"""The site table: what a shard knows of each site and host it has asked.

A fold over `Robots`, `Fetched` and `Deferred`: where in the log a site's robots file is and until when it
is valid, how often it could not be fetched, its Crawl-delay, how many pages the site has given, how long
its last answer took. Robots files themselves stay in the log; parsed rules are in a bounded cache of the agent.

Memory is bounded: recently used entries are objects in RAM (some 450 bytes each), the others frames in files
(`site_files`), found by an index of at most 20 bytes per entry. Without files all of them stay in RAM.

An entry from `get` or `peek` is a plain object, and changing it is all that is needed to change the table:

- an entry may be changed only right after getting it, before control returns to the event loop; later it may
  only be read. (A freeze preserves the state of entries that are got afterwards, which makes its cut consistent.)
- an entry that is still referenced is not evicted, so all holders have the same object;
- an entry is written when it is evicted, if it differs from the state in its file.

Iteration is for reading only: an entry read from a file is a copy.

    snapshot = head piece*
    head     = [version, [[file number, bytes, frames]*], entries]      MessagePack
    piece    = frame*                  entries in RAM that differ from the files, as `site_files` frames them

Older snapshots, before there were files, are pieces `[[name, [fields]]*]`; they are read as well.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator

import msgspec

from lycosa.crawl.site_files import NONE, SiteFiles, Span, frame, unframe
from lycosa.errors import ConfigError, LocalError, StorageError
from lycosa.files import Files

VERSION = 1
HOT = 20_000
_SLICE = 1_000
"""Entries per piece: some two milliseconds."""
_TRIES = 8
_MISSED = 4_096


class Site(msgspec.Struct, array_like=True, weakref=True):
    """What is known of one site (and, under its host's name, of a host)."""

    robots_position: int = -1  # of the Robots record in this shard's log; -1: never asked
    unused: int = 0  # of an older version; its place is kept, since entries are arrays
    robots_expires: int = 0  # milliseconds since the epoch
    robots_failures: int = 0  # consecutive
    robots_retry: int = 0  # while failing: earliest time of the next request
    crawl_delay: float = 0.0
    pages: int = 0
    last_ms: int = 0  # how long the last fetch took
    dns_failures: int = 0  # consecutive (hosts only)
    asked: bool = False


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Site).decode


class _Head(msgspec.Struct, array_like=True):
    version: int
    spans: list[Span]
    entries: int


class _Hot:
    """An entry in RAM."""

    __slots__ = ("name", "place", "site", "stored")

    def __init__(self, name: bytes, site: Site, place: int, stored: bytes) -> None:
        self.name = name
        self.site = site
        self.place = place  # of its frame
        self.stored = stored  # its fields as in that frame; empty: there is none, or it differs

    def row(self) -> bytes:
        """The bytes for a snapshot, beyond those in the files."""
        fields = _encode(self.site)
        return b"" if fields == self.stored else frame(self.place, self.name, fields)


class SiteTable:
    """Sites by name ("scheme://host:port") and hosts by name, in one table."""

    def __init__(self, files: Files | None = None, *, hot: int = HOT, seed: int = 0) -> None:
        """About `hot` entries are kept in RAM; `seed` is the crawl's own, so that no site can craft collisions."""
        if hot < 1:
            raise ConfigError("the site table keeps at least one entry in RAM")
        self._store = None if files is None else SiteFiles(files, seed=seed, moved=self._moved)
        self._limit = hot
        self._hot: OrderedDict[str, _Hot] = OrderedDict()  # the most recently used at the end
        self._old: OrderedDict[str, _Hot] = (
            OrderedDict()
        )  # used before all those; their state must still be frozen
        self._missed: set[str] = set()  # a bounded number of names that were looked up and have no entry
        self._owed: list[bytes] = []  # rows for the freeze of entries that left `_old` meanwhile
        self._len = 0
        self._cut = 0  # number of freezes so far

    def __len__(self) -> int:
        return self._len

    def __bool__(self) -> bool:
        """Always true: an empty table is still a table, and `given or made` must not replace it."""
        return True

    @property
    def nbytes(self) -> int:
        """Approximate bytes of RAM held."""
        held = 450 * (len(self._hot) + len(self._old)) + 150 * len(self._missed)
        return held + (self._store.nbytes if self._store else 0)

    def get(self, name: str) -> Site:
        """The entry of a site or host, created at the first call."""
        found = self.peek(name)
        if found is None:
            found = Site()
            self._len += 1
            self._keep(name, _Hot(_bytes(name), found, NONE, b""))
        return found

    def peek(self, name: str) -> Site | None:
        """The entry if there is one."""
        hot = self._hot.get(name)
        if hot is not None:
            self._hot.move_to_end(name)
            return hot.site
        if self._old and (hot := self._old.pop(name, None)) is not None:
            self._owed.append(hot.row())
            self._hot[name] = hot
            return hot.site
        if self._store is None or name in self._missed:
            return None
        data = _bytes(name)
        stored = self._store.find(data)
        if stored is None:
            if len(self._missed) >= _MISSED:
                self._missed.clear()
            self._missed.add(name)
            return None
        place, fields = stored
        site = _site(fields)
        self._keep(name, _Hot(data, site, place, fields))
        return site

    def asked(self) -> Iterator[tuple[str, Site]]:
        """Sites that were ever asked."""
        return ((name, site) for name, site in self.items() if site.asked)

    def items(self) -> Iterator[tuple[str, Site]]:
        """Every entry, read file by file, for reading only. One that is accessed meanwhile may come twice."""
        if self._store is not None:
            for data, fields in self._store.rows():
                name = _text(data)
                hot = self._in_ram(name)
                yield name, (_site(fields) if hot is None else hot.site)
        for name in [n for rows in (self._old, self._hot) for n, hot in rows.items() if hot.place == NONE]:
            hot = self._in_ram(name)
            if hot is not None:
                yield name, hot.site
            elif self._store is not None and (stored := self._store.find(_bytes(name))) is not None:
                yield name, _site(stored[1])  # evicted since

    # -- what is in RAM

    def _in_ram(self, name: str) -> _Hot | None:
        return self._hot.get(name) or self._old.get(name)

    def _keep(self, name: str, hot: _Hot) -> None:
        self._missed.discard(name)
        self._hot[name] = hot
        if self._store is not None:
            # Referenced entries go behind the others; if all are, the table exceeds its limit for a while.
            tries = _TRIES
            while len(self._hot) + len(self._old) > self._limit and tries:
                tries -= 1
                self._evict(self._store)

    def _evict(self, store: SiteFiles) -> None:
        if self._old:
            name, hot = self._old.popitem(last=False)
            self._owed.append(hot.row())
        else:
            name, hot = self._hot.popitem(last=False)
        fields = _encode(hot.site)
        holder = weakref.ref(hot.site)
        del hot.site
        held = holder()
        if held is not None:
            hot.site = held
            self._hot[name] = hot
        elif fields != hot.stored:
            store.write(hot.name, fields, hot.place)

    def _moved(self, name: bytes, old: int, new: int) -> None:
        hot = self._in_ram(_text(name))
        if hot is not None and hot.place == old:
            hot.place = new

    # -- Durable

    def freeze(self) -> Iterator[bytes]:
        self._thaw_old()
        spans: list[Span] = []
        if self._store is not None:
            spans = self._store.cut()
            self._store.still = True
        self._cut += 1
        self._old, self._hot = self._hot, self._old
        return self._pieces(self._cut, _Head(VERSION, spans, self._len))

    def _pieces(self, cut: int, head: _Head) -> Iterator[bytes]:
        try:
            yield _encode(head)
            while cut == self._cut and (self._old or self._owed):
                rows, self._owed = self._owed[:_SLICE], self._owed[_SLICE:]
                rows += [self._younger().row() for _ in range(min(_SLICE - len(rows), len(self._old)))]
                if piece := b"".join(rows):
                    yield piece
            if cut != self._cut:
                raise LocalError("the site table was frozen again before this freeze was through")
        finally:
            if cut == self._cut:
                self._thaw_old()
                if self._store is not None:
                    self._store.still = False

    def _younger(self) -> _Hot:
        """Move the last entry of `_old` to the front of `_hot`: the freeze no longer needs its state."""
        name, hot = self._old.popitem()
        self._hot[name] = hot
        self._hot.move_to_end(name, last=False)
        return hot

    def _thaw_old(self) -> None:
        """End the freeze: no entry's state needs to be preserved any more."""
        while self._old:
            self._younger()
        self._owed.clear()

    def files(self) -> list[str]:
        return [] if self._store is None else self._store.files()

    def settle(self) -> None:
        if self._store is not None:
            self._store.settle()

    def keep(self, named: Collection[str]) -> list[str]:
        return [] if self._store is None else self._store.keep(named)

    def thaw(self, pieces: Iterable[bytes]) -> None:
        iterator = iter(pieces)
        first = next(iterator, None)
        if first is None:
            return
        try:
            head = _decode_head(first)
        except msgspec.MsgspecError:
            self._thaw_older(first, iterator)
            return
        if head.version != VERSION:
            raise StorageError(f"the snapshot's site table has version {head.version}, not {VERSION}")
        if self._store is not None:
            self._store.open(head.spans)
            self._missed.clear()
            self._len = len(self._store)
        elif head.spans:
            raise StorageError("the snapshot's site table has files, but none were given")
        for piece in iterator:
            self._thaw_rows(piece)
        if self._len != head.entries:
            raise StorageError(
                f"the site table has {self._len} entries where the snapshot counted {head.entries}: "
                "go back to the snapshot before, or remove the crawl's snapshots to have the log read anew"
            )

    def _thaw_rows(self, piece: bytes) -> None:
        at = 0
        while at < len(piece):
            read = unframe(piece, at)
            if read is None:
                raise StorageError("the snapshot's site table is damaged: go back to the one before")
            (place, name, fields), at = read
            self._len += place == NONE
            self._keep(_text(name), _Hot(name, _site(fields), place, b""))

    def _thaw_older(self, first: bytes, others: Iterator[bytes]) -> None:
        for piece in (first, *others):
            try:
                rows = msgspec.msgpack.decode(piece, type=list[tuple[str, Site]])
            except msgspec.MsgspecError as error:
                raise StorageError(f"the snapshot's site table is not readable: {error}") from None
            for name, site in rows:
                self._len += 1
                self._keep(name, _Hot(_bytes(name), site, NONE, b""))


# Names come from canonical URLs and are ASCII; other text is encoded without errors, too.


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogatepass")


def _site(fields: bytes) -> Site:
    try:
        return _decode(fields)
    except msgspec.MsgspecError as error:
        raise StorageError(f"an entry of the site table is not readable: {error}") from None


# Made at import: msgspec crashes where two threads are the first to decode a struct, as when shards recover.
_decode_head = msgspec.msgpack.Decoder(_Head).decode
