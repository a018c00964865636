"""Is a crawl running? Asked from outside, without disturbing it.

The process that crawls holds a lock on DIR/lock and has written its number there. The number alone proves
nothing (numbers are used again), so the lock is tried too, and only if a process of that number lives: thus a
crawl that is about to start never finds the lock taken by somebody who only asked.
"""

from __future__ import annotations

from lycosa.files import process_of as process_of
