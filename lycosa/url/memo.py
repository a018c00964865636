"""A cache of resolved hrefs for kernels: raw hrefs in one arena, with the URLs and keys they stand for.

Navigation repeats: a cache of 50,000 URLs was found to answer almost 80% of a crawl's links (Broder, Najork
and Wiener 2003), and within a site repeated links are spelled the same. So the bytes of an href, as they
stand in the page, are looked up before they are decoded or parsed, together with a *context*, the part of the base
on which their resolution depends:

    href                         context
    http://... https://...       nothing: absolute
    //...                        the scheme of the base
    /...                         the site of the base
    any other                    the directory of the base

Hrefs that depend on the whole URL of the page (`?...`, the empty href, "http:x") are not kept, and neither are
those with bytes above 0x7F, whose meaning depends on the page's encoding. A context is a 64-bit hash under
the crawl's secret seed.

An href that has no URL (`mailto:...`) is remembered as such. The memo does not tell whether a URL was seen. It is
bounded by its bytes: when an array is full everything is forgotten, which costs each href that is still in use one
parse.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh64_intdigest

from lycosa.url.key import Keyer
from lycosa.url.memo_kernels import PENDING, fill
from lycosa.url.parts import directory_of, host_of, site_of
from lycosa.url.resolve_kernels import resolve

_BYTES_PER_ENTRY = 160
"""Bytes of the arena per entry: a raw href and its URL."""
_BASES = 1_000
_LINE = 64
"""Bytes of a line of the processor's cache."""


class Base(NamedTuple):
    """The base against which relative links are resolved."""

    contexts: NDArray[np.uint64]
    """Four: for hrefs that are absolute, begin with `//`, with `/`, or otherwise; see
    `lycosa.page.link_kernels`."""
    directory: bytes
    """The URL up to the last slash of its path; then where in it the host begins and ends, and the site ends."""
    host: int
    host_end: int
    site_end: int


def _in_lines(rows: int) -> NDArray[np.uint64]:
    """Rows of zeroes, each one cache line: all that is known of an entry is loaded at once."""
    words = _LINE // 8
    memory = np.zeros((rows + 1) * words, np.uint64)
    first = -memory.ctypes.data % _LINE // 8
    return memory[first : first + rows * words].reshape(rows, words)


class LinkMemo:
    """The arrays of a memo; see `lycosa.url.memo_kernels`. `capacity` is in entries, of about 230 bytes each."""

    def __init__(self, capacity: int, keyer: Keyer) -> None:
        size = 1 << max(capacity, 64).bit_length()
        self.slots = np.zeros(2 * size, np.int32)
        rows = _in_lines(size)
        self.hashes, self.contexts, self.keys, self.hosts = rows.T[:4]
        self.places = rows.view(np.int32)[:, 8:12]
        self.stamps = rows.view(np.int64)[:, 6]
        """For callers that go over a page's links: the last page for which an entry was processed."""
        self.arena = np.empty(size * _BYTES_PER_ENTRY, np.uint8)
        self.used = np.zeros(2, np.int64)
        self._keyer = keyer
        self._bases: OrderedDict[str, Base] = OrderedDict()

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + _LINE * len(self.hashes) + self.arena.nbytes

    def __len__(self) -> int:
        return int(self.used[0])

    def clear(self) -> None:
        """Forget everything."""
        self.slots[:] = 0
        self.used[:] = 0

    def of_base(self, base: str) -> Base:
        """The `Base` of an http or https URL."""
        near = directory_of(base)
        found = self._bases.get(near)
        if found is None:
            site = site_of(base)
            names = ("absolute", "across " + site[: site.index(":")], "rooted " + site, "near " + near)
            seed = self._keyer.seed
            contexts = np.array([xxh64_intdigest(name.encode("ascii"), seed) for name in names], np.uint64)
            host = site.index(":") + 3
            found = Base(contexts, near.encode("ascii"), host, host + len(host_of(near)), len(site))
            self._bases[near] = found
            if len(self._bases) > _BASES:
                self._bases.popitem(last=False)
        return found

    def resolve(self, first: int, base: Base) -> int:
        """Resolve the plain hrefs among the entries from `first` on; returns how many are left."""
        left: int = resolve(
            *(self.places, self.keys, self.hosts, self.arena, self.used, first),
            *(base.directory, base.host, base.host_end, base.site_end, self._keyer.seed64),
        )
        return left

    def pending(self, first: int) -> tuple[NDArray[np.int64], list[bytes]]:
        """The entries from `first` on that are not resolved yet, and their raw hrefs."""
        stop = int(self.used[0])
        entries = first + np.flatnonzero(self.places[first:stop, 3] == PENDING)
        rows = self.places[entries, :2].tolist()
        return entries, [self.arena[at : at + length].tobytes() for at, length in rows]

    def answer(self, entries: NDArray[np.int64], urls: list[str | None]) -> bool:
        """Set the URLs of entries; False if there is no room for them."""
        ends: list[int] = []
        end = -1
        for url in urls:
            if url is None:
                ends.append(-1)
            else:
                end += len(url) + 1
                ends.append(end)
        joined = "\n".join([url for url in urls if url is not None]).encode("ascii")
        answers = (np.frombuffer(joined, np.uint8), np.array(ends, np.int64), *self._keyer.scan(joined))
        return bool(fill(self.places, self.keys, self.hosts, self.arena, self.used, entries, *answers))
