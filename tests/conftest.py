"""What every test run needs.

Numba keeps compiled kernels beside their sources and looks only at the kernel's own file: after an edit of a
kernel that another module's kernel calls, it would silently run the old code. So whenever any kernel
changed since the last run, all of them are compiled anew. (So it does with a layout of arrays, in a `*store.py`.)
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "lycosa"


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return  # the controller has seen to it
    digest = hashlib.sha256()
    for path in sorted([*PACKAGE.rglob("*kernels.py"), *PACKAGE.rglob("*store.py")]):
        digest.update(path.read_bytes())
    stamp = PACKAGE / "__pycache__" / "kernels.sha256"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    for pattern in ("*.nbi", "*.nbc"):
        for path in PACKAGE.rglob(pattern):
            path.unlink(missing_ok=True)
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(digest.hexdigest())
