"""Is a crawl running? Asked from outside, without disturbing it.

The process that crawls holds a lock on DIR/lock and has written its process id there. The id alone proves nothing
(ids are reused), so the lock is tried too, but only if a process with that id is alive: thus a crawl that is about
to start never finds the lock taken by a process that was only asking.
"""

from __future__ import annotations

from lycosa.files import process_of as process_of
