"""What every test run needs.

Commands that tests start keep their bytecode, if need be beside the tests' other caches: there are hundreds, and
where the environment forbids bytecode each would spend a second on compiling the package's modules.

Numba keeps compiled kernels beside their sources and looks only at the kernel's own file: after an edit of a
kernel that another module's kernel calls, it would silently run the old code. So whatever was compiled before the
last edit of any kernel (or of a layout of arrays, in a `*store.py`) is removed. What `make setup` compiled is
newer, and stays.

Properties are tried with a third of the examples that they ask for, and always with the same ones: a run says
whether the program is as it was. `LYCOSA_EXAMPLES=all` tries all, and others each time (`make test-slow`).

Frontiers check themselves (`lycosa.frontier.checking`) in the tests' own processes; not in commands that tests
start, some of which are timed. `LYCOSA_CHECK=0` in the environment turns that off.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import importlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from lycosa.compiled import Kernel
from lycosa.crawl.status import resident

PACKAGE = Path(__file__).parent.parent / "lycosa"
LOCKS = PACKAGE.parent / ".pytest_cache" / "kernels"

if "LYCOSA_CHECK" not in os.environ:
    os.environ["LYCOSA_CHECK"] = "1"
    importlib.import_module("lycosa.frontier.checking")  # it looks when it is imported
    del os.environ["LYCOSA_CHECK"]

SOME = os.environ.get("LYCOSA_EXAMPLES") != "all"
FEWER, LEAST = 3, 15
# No deadline: a busy machine is slow, and nothing else.
hypothesis.settings.register_profile("all", deadline=None)
hypothesis.settings.register_profile("some", deadline=None, derandomize=True)
hypothesis.settings.load_profile("some" if SOME else "all")


def take_signals() -> None:
    """Of `nohup make test` or a shell's background job signals are ignored, and child processes inherit that."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGHUP, signal.SIGINT):
            if signal.getsignal(number) is signal.SIG_IGN:
                hears = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
                signal.signal(number, hears)


def pytest_collection_finish() -> None:
    """What there is now stays to the end: the collector need not look at the modules and tests again and again. A
    crawl freezes and thaws what it finds, for the same reason; here that would thaw the tests, too, and keep what
    earlier crawls left until somebody collects everything."""
    gc.collect()
    gc.freeze()
    gc.freeze = gc.unfreeze = lambda: None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Hundreds of crawls in one process leave gigabytes: each is a ring of objects that only a full collection
    finds, which Python puts off, and glibc keeps what was freed."""
    yield
    if resident() > _Memory.enough:
        gc.collect()
        if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
            trim(0)
        _Memory.enough = resident() + MORE


MORE = 300 << 20


class _Memory:
    enough = 0


def fewer(known: hypothesis.settings) -> hypothesis.settings:
    wanted = min(known.max_examples, max(LEAST, known.max_examples // FEWER))
    return hypothesis.settings(known, max_examples=wanted)


@pytest.hookimpl(trylast=True)  # by then Hypothesis has marked its own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fewer examples where a test says how many it wants; state machines say it on their class."""
    held: dict[tuple[int, str], tuple[Any, str]] = {}
    for item in items if SOME else ():
        if item.get_closest_marker("hypothesis") is None or not isinstance(item, pytest.Function):
            continue
        for holder, name in ((item.function, "_hypothesis_internal_use_settings"), (item.cls, "settings")):
            if isinstance(getattr(holder, name, None), hypothesis.settings):
                held[id(holder), name] = holder, name  # classes share inherited functions
    for holder, name in held.values():
        setattr(holder, name, fewer(getattr(holder, name)))


def compile_once() -> None:
    """Of several workers that need kernels of the same room one compiles, and the others load what it has made."""
    make = Kernel._compile_for_args

    def locked(kernel: Kernel, *args: Any) -> Any:
        room = "-".join(kernel.__module__.split(".")[:2])
        with (LOCKS / f"{room}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return make(kernel, *args)

    LOCKS.mkdir(parents=True, exist_ok=True)
    Kernel._compile_for_args = locked  # type: ignore[method-assign]


def pytest_configure(config: pytest.Config) -> None:
    take_signals()
    compile_once()
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        os.environ["PYTHONPYCACHEPREFIX"] = str(PACKAGE.parent / ".pytest_cache" / "bytecode")
    if hasattr(config, "workerinput"):
        return  # the controller has seen to it
    sources = [*PACKAGE.rglob("*kernels.py"), *PACKAGE.rglob("*store.py")]
    edited = max(path.stat().st_mtime_ns for path in sources)
    stale = False
    for pattern in ("*.nbi", "*.nbc"):  # an image knows by itself which sources it was made of
        for path in PACKAGE.rglob(pattern):
            if path.stat().st_mtime_ns < edited:
                path.unlink(missing_ok=True)
                stale = True
    if stale and config.getoption("numprocesses", None):  # once, and not by every worker in its first tests
        subprocess.run([sys.executable, "-m", "lycosa.crawl.warming"], cwd=PACKAGE.parent, check=False)
