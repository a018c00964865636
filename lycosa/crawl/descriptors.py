"""The limit of open files, and how many visits it leaves room for.

Many systems give a process 1,024 descriptors although it may have far more, so a crawl raises its *soft* limit
to the *hard* one when it starts; its child processes inherit that. The limit is divided: a reserve
for logs, stores, archive, name lookups and the loop, the rest for connections. A visit has one connection, but
libcurl closes an ended one only when it next opens another, so three descriptors are counted for each
visit: its own, and two that may not be closed yet (`connections` bounds them).
"""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

_WITHOUT_LIMIT = 1 << 16
"""The limit to request if the hard limit is "unlimited": not every system accepts that as the soft one."""
_BESIDES = 48
_PER_SHARD = 4
_PER_VISIT = 3


def raise_limit() -> int:
    """Raise the soft limit as far as allowed; returns the limit that is in force then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, _WITHOUT_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # if it fails, the old limit stays
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return soft if soft != resource.RLIM_INFINITY else _WITHOUT_LIMIT


def fitting(visits: int, shards: int, limit: int) -> int:
    """How many of the wanted simultaneous visits a process with so many shards has descriptors for."""
    free = limit - _open_now() - _BESIDES - _PER_SHARD * shards
    return max(min(visits, free // _PER_VISIT), 1)


def connections(visits: int) -> int:
    """How many connections libcurl may hold with so many simultaneous visits."""
    return 2 * visits


def _open_now() -> int:
    for place in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            return sum(1 for _ in Path(place).iterdir())
    return 0
