"""Slow results are computed beside the answers: in a thread of their own, cached, and recomputed when outdated.

    report = Making(make=..., version=...)
    report.look() -> Look(made, telling)

An answer never waits longer than `PATIENCE`: the caller gets the last result, if any, and the progress of the next
one, if it is being made. `version` is called at each look; when it differs from that of the result, `make` is
started again, one at a time. With `rest`, a result stays valid for so many times the time it took, whatever has
changed: a running crawl has another version each second. What `make` raises, the next look raises.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

PATIENCE = 0.12
"""Seconds that an answer may wait for a result being made: a small crawl's report is there at once."""

Tell = Callable[[str, int], None]
"""Called with the current step, and how much of it is done."""


class Look(NamedTuple, Generic[T]):
    """The current result and progress."""

    made: T | None
    telling: str
    """What is being done to make it, or a newer one; empty if nothing is."""


class Making(Generic[T]):
    """A result that takes long to make."""

    def __init__(self, make: Callable[[Tell], T], version: Callable[[], object], rest: float = 0.0) -> None:
        """`version`: returns quickly what the result depends on."""
        self._rest = rest
        self._make = make
        self._version = version
        self._lock = threading.Lock()
        self._made: T | None = None
        self._of: object = None
        self._error: Exception | None = None
        self._rests = float("-inf")
        self._under_way: threading.Event | None = None
        self._telling = ""

    def look(self) -> Look[T]:
        """The last result; starts making one if there is none, or it is outdated."""
        version = self._version()
        with self._lock:
            due = self._made is None or (self._of != version and time.monotonic() >= self._rests)
            if self._under_way is None and due:
                self._under_way = threading.Event()
                self._telling = "it has just begun"
                threading.Thread(target=self._run, args=(version, self._under_way), daemon=True).start()
            waiting = self._under_way
        if waiting is not None:
            waiting.wait(PATIENCE)
        with self._lock:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            return Look(self._made, self._telling if self._under_way is not None else "")

    def _run(self, version: object, done: threading.Event) -> None:
        began = time.monotonic()
        made: T | None = None
        error: Exception | None = None
        try:
            made = self._make(self._tell)
        except Exception as raised:
            error = raised
        with self._lock:
            if error is None:
                self._made, self._of = made, version
            self._error = error
            self._rests = time.monotonic() + self._rest * (time.monotonic() - began)
            self._under_way = None
        done.set()

    def _tell(self, what: str, count: int) -> None:
        self._telling = f"{what}, {count:,} so far" if count else what
