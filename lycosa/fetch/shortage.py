"""Shortages of this machine: failures that are ours and not a site's.

A crawler that runs out of descriptors, memory or ports cannot open a connection. The site is not to blame, so the
failure must not count against it: a fetcher returns `FailureKind.LOCAL` (a resolver `DnsKind.LOCAL`), and the visit
puts its URL back.

`errno` says what is short, where we can see it: at our own calls, and in libcurl's `OS_ERRNO`. Where a library only
says that something failed (c-ares, libcurl's own name lookups), `descriptors_left` tries whether descriptors can be
opened now.

`EADDRNOTAVAIL` of a connection means that no port is left, but only for IPv4: a machine without IPv6 returns the
same for any IPv6 address, and that is not temporary.
"""

from __future__ import annotations

import errno
import os

_SHORT = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS))


def is_shortage(number: int | None) -> bool:
    """Whether an `errno` says that this machine lacks something for the moment."""
    return number in _SHORT


def is_connect_shortage(number: int, address: str) -> bool:
    """As `is_shortage`, for an attempt to connect to an address: ports may be lacking, too."""
    return number in _SHORT or (number == errno.EADDRNOTAVAIL and ":" not in address)


def descriptors_left(count: int) -> bool:
    """Whether so many descriptors can be opened now."""
    opened: list[int] = []
    try:
        for _ in range(count):
            fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            opened.append(fd)
    except OSError as error:
        return not is_shortage(error.errno)
    finally:
        for fd in opened:
            os.close(fd)
    return True
