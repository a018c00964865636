"""Budgets: how many pages of a host and a domain the crawl has fetched, and how many they deserve.

A fold over `Fetched` and `Received`. It gives every host a *class*: how many budgets it has used up,

    class(host) = max(pages(host) // host_budget, pages(domain) // (domain_budget * share(domain)))
    share       = 1 + log2(1 + domains that link to it)

and the frontier lets hosts of a higher class wait while there are hosts of a lower one (`Frontier.demote`). So one
huge or hostile domain cannot take over the crawl, nothing is forgotten, and no visit is idle because of a budget.

In-links. As in IRLbot (Lee, Leonard, Wang, Loguinov 2008), a domain's budget is raised by the number of *other
registered domains* that link to it: links are free, hosts are free, domains cost something. Links within a domain
do not count, nor does a second link from the same domain. IRLbot gives budgets in proportion to in-degree, between
two bounds; here the share grows with its logarithm, since under some suffixes of the list's private section names
are free after all: doubling a farm of domains gains one more domain_budget, and a domain known to everybody gets
some twenty times as much as an unknown one.

A domain belongs to one shard, which sees the links of its own pages, and links received from other shards, which
report the domain of their page by 32 bits of its hash. Links that the sender's URL cache held back are not reported
again, so the count of a domain covers those domains that were the first to link any of its URLs, or did so long
after.

Bounds. Each table (hosts, domains) has at most as many rows as the constructor says, 16 and 32 bytes each. When it
is full (see `budget_kernels`) a new name replaces, among eight that its hash chooses, the one of fewest pages, of
these the one of fewest in-links, then the oldest. A forgotten name begins anew, with nothing used up and no
in-links. It has had no more pages than seven others, so the names that budgets are meant for are remembered.
In-links are counted from the first one on, before any page was fetched.

Same records, same numbers: nothing here depends on time, on chance, or on the order of a set.

    snapshot = head rows*
    head     = [version, host bits, host rows, domain bits, domain rows]     MessagePack
    rows     = row*                    of hosts, then of domains, in the order of the tables; u64, little-endian

A budget of 0 means none, and nothing is counted for it. A budget that is set later begins to count from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray
from xxhash import xxh64_intdigest

from lycosa.crawl import budget_kernels as kernels
from lycosa.errors import ConfigError, StorageError
from lycosa.url.key import mix
from lycosa.url.parts import host_of

VERSION = 1
ROWS = 1 << 16
HIGHEST = 255
_PLAIN = 200
_MEMO = 1 << 14
_PIECE = 1 << 14
_FIRST_BITS = 4

Words = NDArray[np.uint64]


class _Head(msgspec.Struct, array_like=True):
    version: int
    host_bits: int
    host_rows: int
    domain_bits: int
    domain_rows: int


class _Table:
    """Names with counts; grows up to a bound, then forgets."""

    def __init__(self, most: int, columns: int) -> None:
        self.bits = _FIRST_BITS
        self._most_bits = max((most // kernels.WAYS).bit_length() - 1, self.bits)
        self.rows: Words = np.zeros((kernels.WAYS << self.bits, columns), np.uint64)

    def count(self, name: int) -> int:
        """Count one more page; returns the total."""
        word = np.uint64(name)
        while (pages := kernels.count(self.rows, self.bits, word, self.full)) < 0:
            self._split()
        return int(pages)

    def meet_all(self, hosts: Words, at: int, memo: Words, own: int, register: int, rank: int) -> int:
        """Add a source to the domains of hosts; returns the first row whose host is not in the memo, or the end."""
        word = np.uint64(own)
        while True:
            at, why = kernels.meet_all(self.rows, self.bits, hosts, at, memo, word, self.full, register, rank)
            if why != kernels.NO_ROOM:
                return int(at)
            self._split()

    def find(self, name: int) -> int:
        """The row of a name; -1 if there is none."""
        at, here = kernels.find(self.rows, self.bits, np.uint64(name))
        return int(at) if here else -1

    def pages(self, name: int) -> int:
        at = self.find(name)
        return int(self.rows[at, kernels.PAGES]) if at >= 0 else 0

    def filled(self) -> Words:
        """A copy of the rows that are not empty, in order."""
        return np.ascontiguousarray(self.rows[self.rows[:, kernels.NAME] != 0])

    def refill(self, bits: int, rows: Words) -> None:
        """Restore the table from which these rows come."""
        self.bits = min(max(bits, _FIRST_BITS), self._most_bits)
        self.rows = np.zeros((kernels.WAYS << self.bits, self.rows.shape[1]), np.uint64)
        at = 0
        while (at := kernels.refill(self.rows, self.bits, rows, at, self.full)) < len(rows):
            self._split()

    @property
    def full(self) -> bool:
        """Whether it has reached its maximum size."""
        return self.bits >= self._most_bits

    def _split(self) -> None:
        new: Words = np.zeros((2 * len(self.rows), self.rows.shape[1]), np.uint64)
        kernels.split(self.rows, new, self.bits + 1)
        self.rows, self.bits = new, self.bits + 1


class Budgets:
    """How much of their budgets the hosts and domains of one shard have used; see the module."""

    def __init__(
        self,
        host_budget: int,
        domain_budget: int,
        domain_of: Callable[[str], str],
        *,
        hosts: int = ROWS,
        domains: int = ROWS,
        seed: int = 0,
    ) -> None:
        """Budgets in pages, 0 for none; at most about `hosts` and `domains` are remembered.

        `domain_of` gives the registered domain of a host; empty if the host is none of this shard's.
        """
        if host_budget < 0 or domain_budget < 0:
            raise ConfigError("a budget is a number of pages, or 0 for none")
        self._host_budget = host_budget
        self._domain_budget = domain_budget
        self._domain_of = domain_of
        self._seed = seed
        self._hosts = _Table(hosts, 2) if host_budget else None
        self._domains = _Table(domains, 4) if domain_budget else None
        self._memo: Words = np.zeros((_MEMO if domain_budget else 0, 2), np.uint64)
        """Hashes of hosts with those of their domains; 0: not a host of this shard."""
        self._active = False

    @property
    def active(self) -> bool:
        """Whether any budget is used up: until then every class is 0 and none need be looked up."""
        return self._active

    @property
    def by_domain(self) -> bool:
        """Whether domains have budgets; if not, links need not be noted."""
        return self._domains is not None

    @property
    def nbytes(self) -> int:
        tables = [table for table in (self._hosts, self._domains) if table is not None]
        return sum(table.rows.nbytes for table in tables) + self._memo.nbytes

    # -- the fold

    def note_fetch(self, host: str) -> None:
        """A page of the host was fetched."""
        if self._hosts is not None and self._hosts.count(self._hash(host)) >= self._host_budget:
            self._active = True
        if self._domains is not None and (domain := self._domain_of(host)):
            self._active |= self._domains.count(self._hash(domain)) >= self._domain_budget

    def note_links(
        self, source: str | int, hosts: Words, urls: bytes, wanted: NDArray[np.bool_] | None = None
    ) -> None:
        """A page of the domain `source` links to these URLs (as in `Links.urls`), whose hosts have these hashes.

        A number stands for a domain of which only a hash is known. With `wanted`, only those links count. Links to
        other shards' hosts do not count here.
        """
        if self._domains is None:
            return
        own = self._hash(source) if isinstance(source, str) else int(mix(source)) or 1
        register, rank = _register(own)
        targets = hosts if wanted is None else hosts[wanted]
        at = 0
        while (at := self._domains.meet_all(targets, at, self._memo, own, register, rank)) < len(targets):
            self._learn(targets[at], hosts, urls)

    def note_received(self, sources: Words, hosts: Words, urls: bytes) -> None:
        """Another shard sent links; `sources` are hashes of the domains of their pages (0: unknown)."""
        for source in np.unique(sources).tolist():
            if source:
                self.note_links(source, hosts, urls, sources == np.uint64(source))

    def _learn(self, host: np.uint64, hosts: Words, urls: bytes) -> None:
        row = int(np.argmax(hosts == host))
        name = self._domain_of(host_of(urls.split(b"\n", row + 1)[row].decode("ascii")))
        slot = int(host) % _MEMO
        self._memo[slot ^ 1] = self._memo[slot]
        self._memo[slot] = host, self._hash(name) if name else 0

    # -- answers

    def class_of(self, host: str) -> int:
        """How many budgets a host has used up: 0 to 255, above 200 by logarithm."""
        if not self._active:
            return 0
        used = 0
        if self._hosts is not None:
            used = self._hosts.pages(self._hash(host)) // self._host_budget
        if self._domains is not None and (domain := self._domain_of(host)):
            pages = self._domains.pages(self._hash(domain))
            if pages >= self._domain_budget:
                used = max(used, int(pages / (self._domain_budget * self.share(domain))))
        if used <= _PLAIN:
            return used
        return min(_PLAIN + int(8 * math.log2(used / _PLAIN)), HIGHEST)

    def share(self, domain: str) -> float:
        """A domain's budget as a multiple of domain_budget: 1 + log2(1 + domains that link to it)."""
        return 1.0 + math.log2(1.0 + self.in_links(domain))

    def in_links(self, domain: str) -> float:
        """The approximate number of other domains that link to a domain."""
        at = -1 if self._domains is None else self._domains.find(self._hash(domain))
        return 0.0 if self._domains is None or at < 0 else float(kernels.estimate(self._domains.rows, at))

    def _hash(self, name: str) -> int:
        return int(xxh64_intdigest(name.encode("utf-8", "surrogatepass"), self._seed)) or 1  # 0: an empty row

    # -- Durable

    def freeze(self) -> Iterator[bytes]:
        nothing: Words = np.empty((0, 1), np.uint64)
        hosts = nothing if self._hosts is None else self._hosts.filled()
        domains = nothing if self._domains is None else self._domains.filled()
        head = _Head(
            VERSION,
            0 if self._hosts is None else self._hosts.bits,
            len(hosts),
            0 if self._domains is None else self._domains.bits,
            len(domains),
        )
        return _pieces(head, hosts, domains)

    def thaw(self, pieces: Iterable[bytes]) -> None:
        parts = list(pieces)
        if not parts:
            return
        try:
            head = _decode_head(parts[0])
        except msgspec.MsgspecError as error:
            raise StorageError(f"the snapshot's budgets are not readable: {error}") from None
        if head.version != VERSION:
            raise StorageError(f"the snapshot's budgets have version {head.version}, not {VERSION}")
        data = b"".join(parts[1:])
        middle = 16 * head.host_rows
        sound = 0 <= head.host_bits < 32 and 0 <= head.domain_bits < 32 and 0 <= middle <= len(data)
        if not sound or len(data) != middle + 32 * head.domain_rows:
            raise StorageError("the snapshot's budgets are damaged: go back to the one before")
        for table, bits, part, budget in (
            (self._hosts, head.host_bits, data[:middle], self._host_budget),
            (self._domains, head.domain_bits, data[middle:], self._domain_budget),
        ):
            if table is not None and part:
                rows = np.frombuffer(part, "<u8").astype(np.uint64).reshape(-1, table.rows.shape[1])
                table.refill(bits, rows)
                self._active |= int(rows[:, kernels.PAGES].max()) >= budget


def _register(source: int) -> tuple[int, int]:
    """The register of a sketch that a source goes to, and its rank there."""
    rest = source >> 5
    rank = (rest & -rest).bit_length() if rest else kernels.RANKS
    return source & (kernels.REGISTERS - 1), min(rank, kernels.RANKS)


def _pieces(head: _Head, hosts: Words, domains: Words) -> Iterator[bytes]:
    yield msgspec.msgpack.encode(head)
    for rows in (hosts, domains):
        for start in range(0, len(rows), _PIECE):
            yield rows[start : start + _PIECE].astype("<u8").tobytes()


# Made at import: msgspec crashes if two threads are the first to decode a struct, as when shards recover.
_decode_head = msgspec.msgpack.Decoder(_Head).decode
