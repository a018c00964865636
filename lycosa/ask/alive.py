"""Is a crawl running? Asked from outside, without disturbing it.

The process that crawls holds a lock on DIR/lock and has written its number there. The number alone proves
nothing (numbers are used again), so the lock is tried too, and only if a process of that number lives: thus a
crawl that is about to start never finds the lock taken by somebody who only asked.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from lycosa.files import lives


def process_of(directory: Path) -> int | None:
    """The number of the process that crawls into a directory; None if there is none."""
    try:
        fd = os.open(directory / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.pread(fd, 32, 0).strip()
        if not text.isdigit() or not lives(int(text)):
            return None
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(text)
    except OSError:
        return None
    finally:
        os.close(fd)
    return None
