"""URLs by number: sorted by reversed host and then path, front-coded in blocks.

The number of a URL is its place in the order of *keys*. Keys put related URLs side by side, which makes the
graph's lists short (Manning et al. §20.4):

    url  := ("http" | "https") "://" host [":" port] path        path begins with "/"
    key  := reversed-host " " ("h" | "s") port? path
    key  := "!" url                                                for any other bytes

A name is reversed label by label (`www.stanford.edu` -> `edu.stanford.www`), an address stays as it is. The
mapping is one to one on all byte strings. No byte of a host sorts below the space, so that a host's URLs lie
together, before those of its subdomains; other schemes' URLs come first or last, by their "!".

The file, immutable once written, all integers little-endian:

    file    := magic count block data-length blocks offsets tail
    magic   := "LYURLS1\\n"       count, data-length: 8 bytes; block: 4 bytes, keys in a block
    blocks  := the keys, `block` at a time: whole (other* | zstd frame of other*)
    whole   := length bytes                       lengths are varints: seven bits a byte, low first
    other   := shared length bytes                `shared` bytes as the key before, then `length` others
    offsets := 8 bytes per block: where it starts in `blocks`; the top bit is set if it has a zstd frame
    tail    := CRC32C of everything before, 4 bytes

A block's tail is compressed where that pays: where URLs carry long queries (programs for a playground, say),
which would take most of the room. Ordinary URLs are left as they are, some 13 bytes each, because a search in
a compressed block costs its decompression.

Opening a table checks the CRC and then every key, so that the kernels that search it can trust it. A search
is a binary search over the blocks' first keys, then a scan of one block, comparing no byte twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import google_crc32c
import numpy as np
import numpy.typing as npt
import zstandard

from lycosa.errors import LocalError, StorageError
from lycosa.files import Files
from lycosa.graph import urls_kernels

MAGIC = b"LYURLS1\n"
BLOCK = 64
"""Keys in a block: more make a smaller table and a slower search."""

MOST_LENGTH = 1 << 20
"""Bytes of a key, at most."""

_PAYS = 1024  # bytes of a block's tail from which compression is tried
_SHARE = 0.6  # of its size, at most, for a compressed tail to be kept
_LEVEL = 9
_MOST_TAIL = 1 << 28  # bytes of a decompressed tail
_GROUP = 256  # blocks decompressed at a time
_PACKED = np.int64(-(1 << 63))
_HEAD = len(MAGIC) + 8 + 4 + 8
_AT_ONCE = 1 << 14

_SITE = re.compile(
    rb"http(s?)://(\[[0-9a-f:.]+\]|[^\x00-\x20/:@\[\]#?\\]+)(?::([0-9]+))?",
)
_ADDRESS = re.compile(rb"[0-9.]+|\[.*")


def turned_host(host: bytes) -> bytes:
    """A name with its labels reversed, an address as it is; its own inverse."""
    return host if _ADDRESS.fullmatch(host) else b".".join(host.split(b".")[::-1])


@lru_cache(maxsize=1 << 14)
def _head_of(site: bytes) -> bytes:
    """The key up to the path, of all URLs of this site; empty if they are kept as they are."""
    cut = _SITE.fullmatch(site)
    if cut is None:
        return b""
    secure, host, port = cut.groups()
    turned = turned_host(host)
    return b"" if turned[:1] == b"!" else b"%b %b%b" % (turned, b"s" if secure else b"h", port or b"")


def key_of(url: bytes) -> bytes:
    """The key by which a URL is sorted."""
    slash = url.find(b"/", 8)  # the first that can end a site
    head = _head_of(url[:slash]) if slash > 0 else b""
    return head + url[slash:] if head else b"!" + url


@lru_cache(maxsize=1 << 14)
def _site_of(head: bytes) -> bytes:
    host, _, rest = head.partition(b" ")
    return b"http%b://%b%b%b" % (
        b"s" if rest[:1] == b"s" else b"",
        turned_host(host),
        b":" if len(rest) > 1 else b"",
        rest[1:],
    )


def url_of(key: bytes) -> bytes:
    """The URL of a key."""
    if key[:1] == b"!":
        return key[1:]
    slash = key.find(b"/")
    return _site_of(key[:slash]) + key[slash:]


def host_of_key(key: bytes) -> bytes:
    """The host of a key's URL; empty for URLs of other schemes."""
    return b"" if key[:1] == b"!" else turned_host(key.partition(b" ")[0])


def packed(keys: Sequence[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Byte strings side by side, and where each starts."""
    starts = np.zeros(len(keys) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, keys), dtype=np.int64, count=len(keys)), out=starts[1:])
    return np.frombuffer(b"".join(keys), dtype=np.uint8), starts


def unpacked(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> list[bytes]:
    """The inverse of `packed`."""
    whole = data.tobytes()
    bounds = starts.tolist()
    return [whole[a:b] for a, b in pairwise(bounds)]


def _whole_end(data: bytes, at: int) -> int:
    """The place behind the whole key at `at` of good data."""
    length = shift = 0
    while True:
        byte = data[at]
        at += 1
        length |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return at + length


class UrlWriter:
    """Writes a table from strictly ascending keys."""

    def __init__(self, files: Files, name: str, block: int = BLOCK) -> None:
        if not 1 <= block <= 1 << 16:
            raise LocalError(f"a block of {block} keys: 1 … 65536 can be had")
        self._files, self._name, self._block = files, name, block
        self._data = files.create(f"{name}.data")
        self._offsets: list[npt.NDArray[np.int64]] = []
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self._pending: list[bytes] = []  # keys that do not fill a block yet
        self._last = b""
        self._written = 0

    @property
    def count(self) -> int:
        """How many keys were appended."""
        return self._written + len(self._pending)

    def append(self, keys: Sequence[bytes]) -> None:
        """The next keys."""
        self._pending += keys
        step = max(1, _AT_ONCE // self._block) * self._block
        whole = len(self._pending) // self._block * self._block
        for i in range(0, whole, step):
            self._write(self._pending[i : min(i + step, whole)])
        del self._pending[:whole]

    def _write(self, keys: list[bytes]) -> None:
        if max(map(len, keys)) > MOST_LENGTH:
            raise LocalError(f"a URL is longer than {MOST_LENGTH} bytes")
        data, starts = packed([self._last, *keys])
        out = np.empty(len(data) + 20 * len(keys), dtype=np.uint8)
        offsets = np.empty(len(keys) // self._block + 2, dtype=np.int64)
        size, blocks = urls_kernels.encode(data, starts, self._written, self._block, out, offsets)
        if size < 0:
            raise LocalError("URLs that do not ascend strictly")
        offsets[blocks] = size
        self._put(out[:size].tobytes(), offsets[: blocks + 1])
        self._written += len(keys)
        self._last = keys[-1]

    def _put(self, coded: bytes, bounds: npt.NDArray[np.int64]) -> None:
        """Write coded blocks, with compressed tails where that pays."""
        places = np.empty(len(bounds) - 1, dtype=np.int64)
        for i, (a, b) in enumerate(pairwise(bounds.tolist())):
            places[i] = self._data.size
            if b - a >= _PAYS:
                tail = _whole_end(coded, a)
                frame = self._compressor.compress(coded[tail:b])
                if b - tail >= _PAYS and len(frame) <= _SHARE * (b - tail):
                    self._data.write(coded[a:tail] + frame)
                    places[i] |= _PACKED
                    continue
            self._data.write(coded[a:b])
        self._offsets.append(places)

    def close(self) -> None:
        """Seal the table."""
        if self._pending:
            self._write(self._pending)
            self._pending = []
        size = self._data.size
        self._data.close()
        offsets = np.concatenate(self._offsets) if self._offsets else np.empty(0, dtype=np.int64)
        draft = f"{self._name}.part"
        out = self._files.create(draft)
        crc = 0

        def put(data: bytes) -> None:
            nonlocal crc
            crc = google_crc32c.extend(crc, data)
            out.write(data)

        put(MAGIC + self.count.to_bytes(8, "little") + self._block.to_bytes(4, "little"))
        put(size.to_bytes(8, "little"))
        for at in range(0, size, 1 << 20):
            put(self._files.read_at(f"{self._name}.data", at, min(1 << 20, size - at)))
        put(offsets.astype("<i8").tobytes())
        out.write(int(crc).to_bytes(4, "little"))
        out.sync()
        out.close()
        self._files.remove(f"{self._name}.data")
        self._files.rename(draft, self._name)
        self._files.sync_dir(self._name.rpartition("/")[0])


def write_urls(files: Files, name: str, urls: Iterable[bytes], block: int = BLOCK) -> int:
    """Write the table of these URLs, in any order, with repeats; returns how many there are without."""
    writer = UrlWriter(files, name, block)
    writer.append(sorted({key_of(url) for url in urls}))
    writer.close()
    return writer.count


class UrlTable:
    """A table in memory."""

    def __init__(self, data: bytes, name: str = "urls") -> None:
        self.name = name
        raw = np.frombuffer(data, dtype=np.uint8)
        bad = StorageError(f"{name} is damaged: build the graph anew, or take another copy")
        if len(raw) < _HEAD + 4 or data[: len(MAGIC)] != MAGIC:
            raise bad
        if google_crc32c.value(data[:-4]).to_bytes(4, "little") != data[-4:]:
            raise bad
        self.count = int.from_bytes(data[8:16], "little")
        self.block = int.from_bytes(data[16:20], "little")
        size = int.from_bytes(data[20:28], "little")
        if not self.block or self.count > len(raw):
            raise bad
        blocks = -(-self.count // self.block)
        if _HEAD + size + 8 * blocks + 4 != len(raw):
            raise bad
        self._data = raw[_HEAD : _HEAD + size]
        offsets = np.frombuffer(data, dtype="<i8", count=blocks, offset=_HEAD + size).astype(np.int64)
        self._packed = offsets < 0
        self._bounds = np.append(offsets & ~_PACKED, size)
        self._offsets = self._bounds[:-1]
        self._decompressor = zstandard.ZstdDecompressor()
        self.longest = 0
        try:
            self._check()
        except (ValueError, zstandard.ZstdError):
            raise bad from None

    def _check(self) -> None:
        """`ValueError` or `ZstdError` if these are not ascending keys in blocks at their offsets."""
        bounds = self._bounds
        if bounds[0] != 0 or np.any(bounds[1:] <= bounds[:-1]):
            raise ValueError("offsets")
        before = np.empty(0, dtype=np.uint8)
        for first in range(0, len(self._offsets), _GROUP):
            blocks = np.arange(first, min(first + _GROUP, len(self._offsets)))
            if self._packed[blocks].any():
                for b in blocks[self._packed[blocks]].tolist():  # what `_flat` relies on
                    if urls_kernels.whole_end(self._data, bounds[b], bounds[b + 1]) < 0:
                        raise ValueError("a key")
            data, offsets, count = self._flat(blocks)
            longest = int(urls_kernels.check(data, offsets, count, self.block, MOST_LENGTH, before))
            if longest < 0:
                raise ValueError("keys")
            self.longest = max(self.longest, longest)
            last = self._decoded(data, offsets, np.array([count - 1]))
            before = np.frombuffer(last[0], dtype=np.uint8)

    def _flat(
        self, blocks: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], int]:
        """Ascending blocks, decompressed and side by side, where each starts, and how many keys they hold."""
        count = self.block * len(blocks)
        if len(blocks) and blocks[-1] == len(self._offsets) - 1:
            count -= self.block * len(self._offsets) - self.count
        ends = self._bounds
        if not self._packed[blocks].any() and len(blocks) and blocks[-1] - blocks[0] == len(blocks) - 1:
            start = self._offsets[blocks[0]]
            return self._data[start : ends[blocks[-1] + 1]], self._offsets[blocks] - start, count
        parts = []
        for b in blocks.tolist():
            a, end = int(ends[b]), int(ends[b + 1])
            if not self._packed[b]:
                parts.append(self._data[a:end].tobytes())
                continue
            coded = self._data[a:end].tobytes()
            tail = _whole_end(coded, 0)
            frame = coded[tail:]
            if zstandard.frame_content_size(frame) > _MOST_TAIL:
                raise ValueError("a block")
            parts.append(coded[:tail] + self._decompressor.decompress(frame, max_output_size=_MOST_TAIL))
        data, starts = packed(parts)
        return data, starts[:-1], count

    @classmethod
    def open(cls, files: Files, name: str) -> UrlTable:
        return cls(files.read(name), name)

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return int(self._data.nbytes + self._bounds.nbytes + self._packed.nbytes)

    def numbers_of_keys(self, keys: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """The number of each key, −1 where there is none."""
        data, starts = packed(keys)
        out = np.empty(len(keys), dtype=np.int64)
        urls_kernels.search(
            self._data, self._offsets, self._packed, self.count, self.block, data, starts, out
        )
        # Keys that belong in compressed blocks are given as the block's number, from −2 down.
        later = np.flatnonzero(out <= -2)
        if len(later):
            blocks = -2 - out[later]
            different = np.unique(blocks)
            for i in range(0, len(different), _GROUP):
                group = different[i : i + _GROUP]
                here = later[(blocks >= group[0]) & (blocks <= group[-1])]
                flat, offsets, count = self._flat(group)
                plain = np.zeros(len(group), dtype=bool)
                data, starts = packed([keys[q] for q in here.tolist()])
                found = np.empty(len(here), dtype=np.int64)
                urls_kernels.search(flat, offsets, plain, count, self.block, data, starts, found)
                moved = group[found // self.block] * self.block + found % self.block
                out[here] = np.where(found >= 0, moved, -1)
        return out

    def numbers(self, urls: Sequence[str]) -> npt.NDArray[np.int64]:
        """The number of each URL, −1 where there is none."""
        return self.numbers_of_keys([key_of(url.encode("utf-8", "surrogateescape")) for url in urls])

    def number(self, url: str) -> int | None:
        """The number of a URL, if it has one."""
        found = int(self.numbers([url])[0])
        return found if found >= 0 else None

    def keys(self, numbers: npt.ArrayLike) -> list[bytes]:
        """The keys of these numbers."""
        wanted = np.ascontiguousarray(numbers, dtype=np.int64)
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= self.count):
            raise IndexError(f"URLs are numbered 0 … {self.count - 1}")
        blocks = wanted // self.block
        if not self._packed[blocks].any():
            return self._decoded(self._data, self._offsets, wanted)
        order = np.argsort(wanted, kind="stable")
        keys: list[bytes] = [b""] * len(wanted)
        different = np.unique(blocks)
        for i in range(0, len(different), _GROUP):
            group = different[i : i + _GROUP]
            low, high = np.searchsorted(blocks[order], [group[0], group[-1] + 1])
            here = order[low:high]
            data, offsets, _ = self._flat(group)
            local = np.searchsorted(group, blocks[here]) * self.block + wanted[here] % self.block
            for q, key in zip(here.tolist(), self._decoded(data, offsets, local), strict=True):
                keys[q] = key
        return keys

    def _decoded(
        self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]
    ) -> list[bytes]:
        """Keys by number from blocks that are not compressed."""
        room = np.empty(max(1, self.longest), dtype=np.uint8)
        starts = np.empty(len(wanted) + 1, dtype=np.int64)
        out = np.empty(max(4096, 100 * len(wanted)), dtype=np.uint8)
        done, size = 0, 0
        starts[0] = 0
        while True:
            done, size = urls_kernels.decode(data, offsets, self.block, wanted, done, size, room, out, starts)
            if done == len(wanted):
                return unpacked(out[:size], starts)
            larger = np.empty(2 * len(out) + self.longest, dtype=np.uint8)
            larger[:size] = out[:size]
            out = larger

    def urls(self, numbers: npt.ArrayLike) -> list[str]:
        """The URLs of these numbers."""
        return [url_of(key).decode("utf-8", "surrogateescape") for key in self.keys(numbers)]

    def url(self, number: int) -> str:
        """The URL of a number."""
        return self.urls([number])[0]

    def iterate(self, first: int = 0) -> Iterator[bytes]:
        """All keys in order."""
        for at in range(first, self.count, _AT_ONCE):
            yield from self.keys(np.arange(at, min(at + _AT_ONCE, self.count)))

    def host_starts(self) -> npt.NDArray[np.int64]:
        """The first number of each host, and the count: hosts lie together."""
        found: list[npt.NDArray[np.int64]] = []
        room = np.empty(max(1, self.longest), dtype=np.uint8)
        last: bytes | None = None
        for first in range(0, len(self._offsets), _GROUP):
            blocks = np.arange(first, min(first + _GROUP, len(self._offsets)))
            data, offsets, count = self._flat(blocks)
            out = np.empty(count, dtype=np.int64)
            hosts = int(urls_kernels.hosts(data, count, self.block, room, out))
            ends = self._decoded(data, offsets, np.array([0, count - 1]))
            same = last is not None and host_of_key(last) == host_of_key(ends[0])
            found.append(out[1 if same else 0 : hosts] + first * self.block)
            last = ends[1]
        return np.concatenate([*found, np.array([self.count], dtype=np.int64)])
