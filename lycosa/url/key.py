"""The key of a URL: 64 bits that stand for it wherever URLs are counted in millions.

    key       = top 16 bits of host_hash  .  low 48 bits of url_hash
    host_hash = XXH64(seed, host)          the host as `lycosa.url.parts.host_of` cuts it, as bytes
    url_hash  = XXH64(seed, canonical URL)

Keys therefore sort by server: the keys of a host are neighbours in a sorted store. Two URLs of one host
collide with probability 2^-48; a host with 100 million URLs loses about 18 of them. Hash structures must
index by `mix(key)`, since the top bits of keys are one value per host.

The seed is the crawl's own and secret enough: XXH64 is no cryptographic hash, and with a known seed a site
could craft URLs that collide. XXH64 rather than the newer XXH3: on URLs (tens of bytes) they are about as
fast, and XXH64 is a page of code, so that the kernel which hashes a page's links in place is small
enough to check; XXH3 has four paths by length and a table of secrets.

`Keyer.scan` is the fast path, one pass of a compiled kernel over the packed links of a record;
`Keyer.scan_plain` does the same with the `xxhash` library; the tests compare the two. They agree even for lines
that are not canonical URLs: a line without `://` has an empty host.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh64_intdigest

Keys = NDArray[np.uint64]
HostHashes = NDArray[np.uint64]

_LOW_48 = (1 << 48) - 1
_HIGH_16 = 0xFFFF << 48
_ALL = (1 << 64) - 1

# An odd multiplication and a folded shift are each one to one on 64 bits; two of each spread every bit of
# the input over the output. The constants are those of MurmurHash3's finaliser (public domain).
MIX_1 = 0xFF51AFD7ED558CCD
MIX_2 = 0xC4CEB9FE1A85EC53
UNMIX_1 = pow(MIX_1, -1, 1 << 64)
UNMIX_2 = pow(MIX_2, -1, 1 << 64)
_SHIFT = np.uint64(33)
_MIX_1, _MIX_2 = np.uint64(MIX_1), np.uint64(MIX_2)
_UNMIX_1, _UNMIX_2 = np.uint64(UNMIX_1), np.uint64(UNMIX_2)


def mix(key: int) -> int:
    """A one-to-one scrambling of 64 bits: every bit of the key changes about half of the result's."""
    key ^= key >> 33
    key = key * MIX_1 & _ALL
    key ^= key >> 33
    key = key * MIX_2 & _ALL
    return key ^ key >> 33


def unmix(mixed: int) -> int:
    """The key whose `mix` this is. (A shift of 33, more than half of 64, undoes itself.)"""
    mixed ^= mixed >> 33
    mixed = mixed * UNMIX_2 & _ALL
    mixed ^= mixed >> 33
    mixed = mixed * UNMIX_1 & _ALL
    return mixed ^ mixed >> 33


def mix_array(keys: Keys) -> Keys:
    """`mix` of every key. Kernels call `lycosa.url.key_kernels.mix`."""
    mixed = (keys ^ (keys >> _SHIFT)) * _MIX_1
    mixed = (mixed ^ (mixed >> _SHIFT)) * _MIX_2
    return mixed ^ (mixed >> _SHIFT)


def unmix_array(mixed: Keys) -> Keys:
    """`unmix` of every value."""
    keys = (mixed ^ (mixed >> _SHIFT)) * _UNMIX_2
    keys = (keys ^ (keys >> _SHIFT)) * _UNMIX_1
    return keys ^ (keys >> _SHIFT)


def _host_bytes(url: bytes) -> bytes:
    """As `lycosa.url.parts.host_of`, on bytes, and defined for every line."""
    _, mark, rest = url.partition(b"://")
    if not mark:
        return b""
    host = rest.partition(b"/")[0]
    if host.startswith(b"["):
        return host[: host.find(b"]") + 1]
    return host.partition(b":")[0]


class Keyer:
    """Keys under one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed & _ALL
        self._kernel: Callable[[bytes, np.uint64, Keys, HostHashes], None] | None = None
        self.seed64 = np.uint64(self.seed)
        self._last_scan: tuple[bytes, Keys, HostHashes] = (
            b"",
            np.empty(0, np.uint64),
            np.empty(0, np.uint64),
        )
        self._last_key: tuple[str | None, int] = (None, 0)

    def key(self, url: str) -> int:
        """The key of a canonical URL."""
        last = self._last_key
        if last[0] is url:  # several folds ask for the key of the same record's URL in a row
            return last[1]
        data = url.encode("ascii")
        high = xxh64_intdigest(_host_bytes(data), self.seed) & _HIGH_16
        key = int(high | xxh64_intdigest(data, self.seed) & _LOW_48)
        self._last_key = (url, key)
        return key

    def remember_key(self, url: str, key: int) -> None:
        """Cache a key for the next call of `key` with this very string object."""
        self._last_key = (url, key)

    def host_hash(self, host: str) -> int:
        """64 bits of a host; the top 16 begin the keys of all its URLs."""
        return int(xxh64_intdigest(host.encode("ascii"), self.seed))

    def scan(self, urls: bytes) -> tuple[Keys, HostHashes]:
        """Keys and host hashes of canonical URLs joined by newlines (as in `records.Links.urls`).

        The arrays must not be changed: a later call with the same object (several folds scan one record) returns
        the same ones.
        """
        last = self._last_scan
        if urls is last[0]:
            return last[1], last[2]
        count = urls.count(b"\n") + 1 if urls else 0
        keys = np.empty(count, np.uint64)
        hosts = np.empty(count, np.uint64)
        kernel = self._kernel
        if kernel is None:
            # Compiled code takes 0.1 s and 60 MB to load, so it is loaded at the first scan.
            from lycosa.url.key_kernels import scan

            kernel = self._kernel = scan
        if count:
            kernel(urls, self.seed64, keys, hosts)
        self._last_scan = (urls, keys, hosts)
        return keys, hosts

    def remember(self, urls: bytes, keys: Keys, hosts: HostHashes) -> None:
        """Cache the keys and host hashes of URLs that were just packed, for the next `scan` of them."""
        self._last_scan = (urls, keys, hosts)

    def scan_plain(self, urls: bytes) -> tuple[Keys, HostHashes]:
        """What `scan` returns, line by line with the library."""
        lines = urls.split(b"\n") if urls else []
        hosts = [xxh64_intdigest(_host_bytes(line), self.seed) for line in lines]
        keys = [
            host & _HIGH_16 | xxh64_intdigest(line, self.seed) & _LOW_48
            for host, line in zip(hosts, lines, strict=True)
        ]
        return np.array(keys, np.uint64), np.array(hosts, np.uint64)
