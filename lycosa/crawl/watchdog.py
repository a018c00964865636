"""The watchdog of a crawling process: it reports where the event loop is stuck, and ends a reader that never ends.

    the loop has not moved for `NOTICE` seconds     one line: the page that is being parsed, and the function
    one page has been parsed for `LIMIT` seconds    one line, and the process ends; its mark stays (`underway`)
    Ctrl-C while the loop does not move             the process ends at once

A thread looks once a second. Seconds are counted by its own looks: a process that was stopped, or that a busy
machine kept waiting, has lost none. If native code holds the interpreter lock the thread cannot look, and no signal
is handled; then the operating system's timer of processor time ends the process, after twice the limit.

It belongs to commands, which own their process: it may end the process, and uses a timer and SIGINT.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from lycosa.crawl.underway import PageReading, Underway

NOTICE = 10
LIMIT = 60
_CODE = 5
"""The commands' exit code for an internal limit."""
_INTERRUPTED = 3
"""Looks without movement after which Ctrl-C ends the process instead of the loop, which would not notice it."""


class Looks:
    """Decides what to do at each look. No clock: a look is a second."""

    def __init__(self, notice: int, limit: int) -> None:
        self._notice = notice
        self._limit = limit
        self._beat = -1
        self._seen: dict[PageReading, int] = {}
        self.still = 0
        """Looks since the loop last moved."""

    def look(self, beat: int, readings: list[PageReading]) -> tuple[bool, PageReading | None]:
        """Whether to report that nothing moves, and the page whose reader is to be ended."""
        self.still = self.still + 1 if beat == self._beat else 0
        self._beat = beat
        self._seen = {reading: self._seen.get(reading, -1) + 1 for reading in readings}
        stuck = next((reading for reading, looks in self._seen.items() if looks >= self._limit), None)
        return self.still == self._notice, stuck


class Watchdog:
    """Watches over the running loop from its start to `stop`."""

    def __init__(
        self,
        underway: Underway,
        say: Callable[[str], None] | None = None,
        end: Callable[[int], object] = os._exit,
        *,
        every: float = 1.0,
    ) -> None:
        self._underway = underway
        self._say = say or _to_stderr
        self._end = end
        self._watch = Looks(NOTICE, LIMIT)
        self._limit = LIMIT
        self._every = every
        self._beats = 0
        self._stopped = threading.Event()
        self._loop_thread = threading.get_ident()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, *, interrupts: bool = False) -> None:
        """Begin, in the loop's thread. `interrupts`: handle Ctrl-C, which the loop's own handler receives as
        well."""
        self._loop = asyncio.get_running_loop()
        self._move()
        self._wind()
        if interrupts:
            signal.signal(signal.SIGINT, self._interrupted)
            signal.siginterrupt(signal.SIGINT, False)
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop watching. A reader that is still at work is watched until it ends."""
        self._loop = None
        self._stopped.set()

    def _move(self) -> None:
        self._beats += 1
        if self._loop is not None:
            self._loop.call_later(self._every, self._move)

    def _run(self) -> None:
        try:
            while not self._stopped.wait(self._every) or self._underway.now():
                self._wind()
                self._look()
                if self._stopped.is_set():
                    threading.Event().wait(self._every)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _wind(self) -> None:
        """Set the timer: after so much more processor time SIGPROF, which has no handler, ends the process."""
        signal.setitimer(signal.ITIMER_PROF, 2 * self._limit)

    def _look(self) -> None:
        readings = self._underway.now()
        told, stuck = self._watch.look(self._beats, readings)
        if stuck is not None:
            self._say(
                f"reading {stuck.url} has taken {self._limit} s, in {_place(stuck.thread)}: the process ends."
                f" The page is tried once more when the crawl goes on, then skipped"
            )
            self._end(_CODE)
        elif told:
            reading = next(
                (f", reading {row.url}" for row in readings if row.thread == self._loop_thread), ""
            )
            self._say(f"nothing has moved for {self._watch.still} s{reading}: {_place(self._loop_thread)}")

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if self._watch.still >= _INTERRUPTED:
            self._say("ended at once, since nothing moves; run the same command to resume")
            self._end(130)


def _to_stderr(text: str) -> None:
    print(f"lycosa: {text}", file=sys.stderr, flush=True)


def _place(thread: int) -> str:
    """The innermost function of this program that a thread is in."""
    frame = sys._current_frames().get(thread)
    inner = "" if frame is None else f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}"
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("lycosa.") and name != __name__:
            return f"{name}.{frame.f_code.co_name}"
        frame = frame.f_back
    return inner or "a thread that has ended"
