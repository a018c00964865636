"""The limit of open files, and how many visits it leaves room for.

Many systems give a process 1,024 descriptors although it may have far more, so a crawl raises its *soft* limit
to the *hard* one when it starts; the processes that it starts inherit that. What it gets is shared out: a reserve
for logs, stores, archive, name lookups and the loop, the rest for connections. A visit has one connection, but
libcurl closes one that has ended only when it next opens another, so three descriptors are counted for each
visit: its own, and two that may not be closed yet (`connections` bounds them).
"""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

_WITHOUT_LIMIT = 1 << 16
"""What is asked for where the hard limit is "unlimited": not every system takes that word for the soft one."""
_BESIDES = 48
_PER_SHARD = 4
_PER_VISIT = 3


def raise_limit() -> int:
    """Raise the soft limit as far as may be; the limit that holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, _WITHOUT_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # then the old one holds
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return soft if soft != resource.RLIM_INFINITY else _WITHOUT_LIMIT


def fitting(visits: int, shards: int, limit: int) -> int:
    """How many of the visits wanted at a time a process of so many shards has descriptors for."""
    free = limit - _open_now() - _BESIDES - _PER_SHARD * shards
    return max(min(visits, free // _PER_VISIT), 1)


def connections(visits: int) -> int:
    """How many connections may be in libcurl's hands with so many visits at a time."""
    return 2 * visits


def _open_now() -> int:
    for place in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            return sum(1 for _ in Path(place).iterdir())
    return 0
