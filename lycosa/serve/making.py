"""What takes long is made beside the answers: in a thread of its own, kept, and made anew when it has become old.

    report = Making(make=..., version=...)
    report.look() -> Look(made, telling)

An answer never waits longer than `PATIENCE`: whoever looks is given what was made last, if anything, and told how
far the next one is, if it is being made. `version` is asked for at each look; when it is another one than that of
what there is, `make` is begun again, one at a time. With `rest`, what has been made is good enough for so many
times what it took, whatever has changed: a crawl that runs has another version each second. What `make` raises, the
next look raises.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

PATIENCE = 0.12
"""Seconds that an answer may wait for what is being made: a small crawl's report is there at once."""

Tell = Callable[[str, int], None]
"""Hears what is being done, and how much of it is done."""


class Look(NamedTuple, Generic[T]):
    """What there is."""

    made: T | None
    telling: str
    """What is being done to make it, or a newer one; empty: nothing."""


class Making(Generic[T]):
    """One thing that takes long to make."""

    def __init__(self, make: Callable[[Tell], T], version: Callable[[], object], rest: float = 0.0) -> None:
        """`version`: what the thing depends on, quickly."""
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
        """What there is now; begins to make it if there is none, or an old one."""
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
