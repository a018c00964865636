"""What every test run needs.

Commands that tests start keep their bytecode, if need be beside the tests' other caches: there are hundreds, and
where the environment forbids bytecode each would spend a second on compiling the package's modules.

Numba keeps compiled kernels beside their sources and looks only at the kernel's own file: after an edit of a
kernel that another module's kernel calls, it would silently run the old code. So whatever was compiled before the
last edit of any kernel (or of a layout of arrays, in a `*store.py`) is removed. What `make setup` compiled is
newer, and stays.

Frontiers check themselves (`lycosa.frontier.checking`) in the tests' own processes; not in commands that tests
start, some of which are timed. `LYCOSA_CHECK=0` in the environment turns that off.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

PACKAGE = Path(__file__).parent.parent / "lycosa"

if "LYCOSA_CHECK" not in os.environ:
    os.environ["LYCOSA_CHECK"] = "1"
    importlib.import_module("lycosa.frontier.checking")  # it looks when it is imported
    del os.environ["LYCOSA_CHECK"]

hypothesis.settings.register_profile("lycosa", deadline=None)  # a busy machine is slow, and nothing else
hypothesis.settings.load_profile("lycosa")


def take_signals() -> None:
    """Of `nohup make test` or a shell's background job signals are ignored, and child processes inherit that."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGHUP, signal.SIGINT):
            if signal.getsignal(number) is signal.SIG_IGN:
                hears = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
                signal.signal(number, hears)


@pytest.fixture(autouse=True, scope="module")
def give_memory_back() -> Iterator[None]:
    """Hundreds of crawls in one process leave gigabytes of free memory unless glibc is told to return it. A crawl
    that was killed in a test never came to thaw what it had frozen for the collector."""
    yield
    gc.unfreeze()
    gc.collect()
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def pytest_configure(config: pytest.Config) -> None:
    take_signals()
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        os.environ["PYTHONPYCACHEPREFIX"] = str(PACKAGE.parent / ".pytest_cache" / "bytecode")
    if hasattr(config, "workerinput"):
        return  # the controller has seen to it
    sources = [*PACKAGE.rglob("*kernels.py"), *PACKAGE.rglob("*store.py")]
    edited = max(path.stat().st_mtime_ns for path in sources)
    for pattern in ("*.nbi", "*.nbc"):  # an image knows by itself which sources it was made of
        for path in PACKAGE.rglob(pattern):
            if path.stat().st_mtime_ns < edited:
                path.unlink(missing_ok=True)
