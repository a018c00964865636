"""The seeds that a crawl's scope is relative to: a few are in its options, those of long lists in files beside its
logs.

Scopes by host, site or domain need one seed per site; only include rules, from which seeds are exempt, need them
all. Of an unrestricted crawl they need one per scheme. Options are logged in every shard and whenever one changes,
so a list of millions of sites cannot be in them: it becomes a file, which the options name (`near_files`).

    seeds-<hash>.txt := line*       canonical URLs; named by its contents, and never changed

An import writes it (`Collector` in `importing`), and makes it durable before the options that name it are logged.
One that no options name is the rest of an import that was interrupted; the same import makes it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

from lycosa.crawl.config import Options
from lycosa.errors import StorageError
from lycosa.files import Files
from lycosa.url.domains import Domains
from lycosa.url.scope import Scope

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
