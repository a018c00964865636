"""URLs by number: sorted by reversed host and then path, front-coded in blocks.

The number of a URL is its place in the order of *keys*. Keys put what belongs together side by side, which is
what makes the graph's lists short (seed 003 §20.4):

    url  := ("http" | "https") "://" host [":" port] path        path begins with "/"
    key  := reversed-host " " ("h" | "s") port? path
    key  := "!" url                                                for any other bytes

A name is reversed label by label (`www.stanford.edu` -> `edu.stanford.www`), an address stays as it is. The
mapping is one to one on all byte strings. No byte of a host sorts below the space, so that a host's URLs lie
together, before those of its subdomains; other schemes' URLs come first or last, by their "!".

The file, immutable once written, all integers little-endian:

    file    := magic count block data-length blocks offsets tail
    magic   := "LYURLS1\\n"       count, data-length: 8 bytes; block: 4 bytes, keys in a block
    blocks  := the keys, `block` at a time; the first of a block whole, the others by what they share
    whole   := length bytes                       lengths are varints: seven bits a byte, low first
    other   := shared length bytes                `shared` bytes as the key before, then `length` others
    offsets := 8 bytes a block: where it starts in `blocks`
    tail    := CRC32C of everything before, 4 bytes

Opening a table checks the CRC and then every key, so that the kernels that search it can trust it. A search
goes by halves over the blocks' first keys, then through one block, comparing no byte twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import google_crc32c
import numpy as np
import numpy.typing as npt

from lycosa.errors import LocalError, StorageError
from lycosa.files import Files
from lycosa.graph import urls_kernels

MAGIC = b"LYURLS1\n"
BLOCK = 64
"""Keys in a block: more make a smaller table and a slower search."""

MOST_LENGTH = 1 << 20
"""Bytes of a key, at most."""

_HEAD = len(MAGIC) + 8 + 4 + 8
_AT_ONCE = 1 << 14

_SITE = re.compile(
    rb"http(s?)://(\[[0-9a-f:.]+\]|[^\x00-\x20/:@\[\]#?\\]+)(?::([0-9]+))?",
)
_ADDRESS = re.compile(rb"[0-9.]+|\[.*")


def _turned(host: bytes) -> bytes:
    return host if _ADDRESS.fullmatch(host) else b".".join(host.split(b".")[::-1])


@lru_cache(maxsize=1 << 14)
def _head_of(site: bytes) -> bytes:
    """The key up to the path, of all URLs of this site; empty if they are kept as they are."""
    cut = _SITE.fullmatch(site)
    if cut is None:
        return b""
    secure, host, port = cut.groups()
    turned = _turned(host)
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
        _turned(host),
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
    return b"" if key[:1] == b"!" else _turned(key.partition(b" ")[0])


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


class UrlWriter:
    """Writes a table from strictly ascending keys."""

    def __init__(self, files: Files, name: str, block: int = BLOCK) -> None:
        if not 1 <= block <= 1 << 16:
            raise LocalError(f"a block of {block} keys: 1 … 65536 can be had")
        self._files, self._name, self._block = files, name, block
        self._data = files.create(f"{name}.data")
        self._offsets: list[npt.NDArray[np.int64]] = []
        self._last = b""
        self.count = 0

    def append(self, keys: Sequence[bytes]) -> None:
        """The next keys."""
        for i in range(0, len(keys), _AT_ONCE):
            self._append(keys[i : i + _AT_ONCE])

    def _append(self, keys: Sequence[bytes]) -> None:
        if max(map(len, keys)) > MOST_LENGTH:
            raise LocalError(f"a URL is longer than {MOST_LENGTH} bytes")
        data, starts = packed([self._last, *keys])
        out = np.empty(len(data) + 20 * len(keys), dtype=np.uint8)
        offsets = np.empty(len(keys) // self._block + 1, dtype=np.int64)
        size, blocks = urls_kernels.encode(data, starts, self.count, self._block, out, offsets)
        if size < 0:
            raise LocalError("URLs that do not ascend strictly")
        self._offsets.append(offsets[:blocks] + self._data.size)
        self._data.write(out[:size].tobytes())
        self.count += len(keys)
        self._last = keys[-1]

    def close(self) -> None:
        """Seal the table."""
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
        self._offsets = np.frombuffer(data, dtype="<i8", count=blocks, offset=_HEAD + size).astype(np.int64)
        self.longest = int(urls_kernels.check(self._data, self._offsets, self.count, self.block, MOST_LENGTH))
        if self.longest < 0:
            raise bad

    @classmethod
    def open(cls, files: Files, name: str) -> UrlTable:
        return cls(files.read(name), name)

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return int(self._data.nbytes + self._offsets.nbytes)

    def numbers_of_keys(self, keys: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """The number of each key, −1 where there is none."""
        data, starts = packed(keys)
        out = np.empty(len(keys), dtype=np.int64)
        urls_kernels.search(self._data, self._offsets, self.count, self.block, data, starts, out)
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
        room = np.empty(max(1, self.longest), dtype=np.uint8)
        starts = np.empty(len(wanted) + 1, dtype=np.int64)
        out = np.empty(max(4096, 100 * len(wanted)), dtype=np.uint8)
        done, size = 0, 0
        starts[0] = 0
        while True:
            done, size = urls_kernels.decode(
                self._data, self._offsets, self.block, wanted, done, size, room, out, starts
            )
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
        out = np.empty(1024, dtype=np.int64)
        room = np.empty(max(1, self.longest), dtype=np.uint8)
        while True:
            hosts = urls_kernels.hosts(self._data, self._offsets, self.count, self.block, room, out)
            if hosts <= len(out) - 1:
                out[hosts] = self.count
                return out[: hosts + 1]
            out = np.empty(hosts + 1, dtype=np.int64)
