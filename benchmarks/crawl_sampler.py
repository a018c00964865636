"""A sampling profiler by room: where the CPU time of a process goes, in all its threads.

Every millisecond of CPU time (ITIMER_PROF) the stacks of all Python threads are inspected. Each thread's own
CPU clock tells how much it has used since the last sample; that is charged to its stack: to the innermost
frame of `lycosa.<room>`, and to that frame's function. Time in a library that a room called (libcurl, the
HTML parser, compression) is charged to the room's function that called it; time outside any room is charged to the
event loop, or to "threads": what a thread of a commit or snapshot used before it was sampled.

Charging CPU time instead of counting samples matters twice: the handler runs only between two bytecodes, so
a long call into C gets one late sample that must stand for all of it; and threads that compress and sync run
in parallel with the loop. Garbage collections are timed separately (they happen wherever an object happens to be
made) and subtracted from whatever they interrupted.

The cost of the sampler itself was within the noise of three paired runs (-5% to +5% of the CPU). It must be started
in the main thread; needs the clocks of POSIX threads, which macOS lacks.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from collections import defaultdict
from types import FrameType
from typing import NamedTuple

_EVERY = 0.001
_LOOP, _THREADS = "event loop", "threads"


class Profile(NamedTuple):
    """CPU seconds by where they were spent."""

    total: float
    rooms: dict[str, float]
    functions: dict[str, float]  # "room.module:function"
    lines: dict[str, float]  # "room.module:line"
    collecting: float  # of the garbage collector; in no room


class Sampler:
    """Samples between `start` and `stop`."""

    def __init__(self) -> None:
        self._rooms: defaultdict[str, float] = defaultdict(float)
        self._functions: defaultdict[str, float] = defaultdict(float)
        self._lines: defaultdict[str, float] = defaultdict(float)
        self._last: dict[int, float] = {}
        self._main = threading.get_ident()
        self._names: dict[str, tuple[str, str]] = {}
        self._collecting = self._collected = 0.0
        self._began = 0.0
        self._looking = False

    def start(self) -> None:
        gc.callbacks.append(self._on_collection)
        signal.signal(signal.SIGPROF, self._look)
        self._look(0, None)
        self._rooms.clear()
        self._functions.clear()
        self._lines.clear()
        signal.setitimer(signal.ITIMER_PROF, _EVERY, _EVERY)

    def stop(self) -> Profile:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        gc.callbacks.remove(self._on_collection)
        total = sum(self._rooms.values()) + self._collected
        return Profile(
            total,
            _largest_first(self._rooms),
            _largest_first(self._functions),
            _largest_first(self._lines),
            self._collected,
        )

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
            return
        spent = time.thread_time() - self._began
        self._collected += spent
        me = threading.get_ident()
        if me in self._last:
            self._last[me] += spent

    def _look(self, number: int, frame: FrameType | None) -> None:
        if self._looking:  # a collection within `_current_frames`, which holds a lock of the interpreter's
            return
        self._looking = True
        frames = sys._current_frames()
        self._looking = False
        for ident, current in frames.items():
            # A thread that is listed is alive while we hold the interpreter's lock, so its clock exists.
            clock = time.thread_time() if ident == self._main else _cpu_of(ident)
            before = self._last.get(ident)
            self._last[ident] = clock
            if before is None:
                before = clock if ident == self._main else 0.0
            spent = clock - before
            if spent > 0 and ident == self._main:
                self._charge(frame or current, spent, _LOOP)
            elif spent > 0:
                self._charge(current, spent, _THREADS)

    def _charge(self, frame: FrameType | None, spent: float, otherwise: str) -> None:
        while frame is not None:
            room, module = self._names_of(frame.f_globals.get("__name__", ""))
            if room:
                self._rooms[room] += spent
                self._functions[f"{module}:{frame.f_code.co_qualname}"] += spent
                self._lines[f"{module}:{frame.f_lineno}"] += spent
                return
            frame = frame.f_back
        self._rooms[otherwise] += spent
        self._functions[otherwise] += spent

    def _names_of(self, name: str) -> tuple[str, str]:
        known = self._names.get(name)
        if known is None:
            parts = name.split(".")
            known = (parts[1], ".".join(parts[1:])) if parts[0] == "lycosa" and len(parts) > 1 else ("", "")
            self._names[name] = known
        return known


def _largest_first(spent: dict[str, float]) -> dict[str, float]:
    return dict(sorted(spent.items(), key=lambda item: -item[1]))


def _cpu_of(ident: int) -> float:
    return time.clock_gettime(time.pthread_getcpuclockid(ident))
