"""The seeds that a crawl's scope is relative to: a few are in its options, those of long lists in files beside its
logs.

Scopes by host, site or domain need one seed per site; only include rules, from which seeds are exempt, need them
all. Of an unrestricted crawl they need one per scheme. Options are logged in every shard and whenever one changes,
so a list of millions of sites cannot be in them: it becomes a file, which the options name (`near_files`).

    seeds-<hash>.txt := line*       canonical URLs; named by its contents, and never changed

The file is durable before the options that name it are logged. One that no options name is the rest of an import
that was interrupted; the same import makes it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice

import msgspec
import numpy as np
from xxhash import xxh3_64, xxh3_64_intdigest

from lycosa.crawl.config import Options, near_part, with_seeds
from lycosa.errors import StorageError
from lycosa.files import Appender, Files
from lycosa.seen.memory import MemorySeen
from lycosa.url.domains import Domains
from lycosa.url.scope import Scope

_FEW = 1_000
"""Seeds of one list that are kept in the options."""
_DRAFT = "seeds.part"
_PIECE = 1 << 20


def near_seeds(options: Options, files: Files) -> Iterator[str]:
    """All seeds that the scope is relative to."""
    return chain(options.near, chain.from_iterable(map(partial(lines_of, files), options.near_files)))


def scope_of(options: Options, files: Files, domains: Domains) -> Scope:
    """The scope of a crawl whose directory is `files`."""
    return Scope(options.scope, near_seeds(options, files), domains)


def lines_of(files: Files, name: str) -> Iterator[str]:
    """The lines of a file of URLs, a piece of it in memory at a time."""
    if not files.exists(name):
        raise StorageError(
            f"{files.path(name)}, the seeds that the scope is relative to, is missing: restore it"
        )
    size, rest = files.size(name), b""
    for at in range(0, size, _PIECE):
        *lines, rest = (rest + files.read_at(name, at, min(_PIECE, size - at))).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in lines)


def batched(urls: Iterable[str], most: int) -> Iterator[list[str]]:
    """URLs in lists of at most `most`."""
    left = iter(urls)
    while batch := list(islice(left, most)):
        yield batch


class Collector:
    """Collects from a list of any length what the scope needs; some 20 bytes of memory for each site."""

    def __init__(self, options: Options, files: Files, scratch: Files) -> None:
        self._options = options
        self._files = files
        self._part: Callable[[str], str] = near_part(options.scope)
        self._known = MemorySeen(scratch)
        self._few: list[str] = []
        self._out: Appender | None = None
        self._hash = xxh3_64()
        for urls in batched(near_seeds(options, files), _FEW):
            self._new(urls)

    def _new(self, urls: Sequence[str]) -> list[str]:
        """Those of the URLs that the scope does not know of."""
        parts = np.fromiter(
            (xxh3_64_intdigest(self._part(url).encode()) for url in urls), np.uint64, len(urls)
        )
        return [urls[row] for row in self._known.offer(parts, [b""] * len(urls)).new]

    def add(self, urls: Sequence[str]) -> None:
        """Add canonical URLs of the list."""
        new = self._new(urls)
        if self._out is None and len(self._few) + len(new) <= _FEW:
            self._few += new
            return
        if self._out is None:
            self._out = self._files.create(_DRAFT)
            self._write(self._few)
        self._write(new)

    def _write(self, urls: Iterable[str]) -> None:
        assert self._out is not None
        data = "".join(f"{url}\n" for url in urls).encode()
        self._hash.update(data)
        self._out.write(data)

    def options(self) -> Options:
        """The options with the collected seeds, whose file is durable then."""
        if self._out is None:
            return with_seeds(self._options, self._options, self._few)
        self._out.sync()
        self._out.close()
        name = f"seeds-{self._hash.intdigest():016x}.txt"
        self._files.rename(_DRAFT, name)
        self._files.sync_dir("")
        return msgspec.structs.replace(self._options, near_files=(*self._options.near_files, name))
