"""Where compiled code is kept, and when its making is announced."""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lycosa.compiled import Keeping

PACKAGE = Path(__file__).parent.parent / "lycosa"

KERNEL = """
from lycosa.compiled import njit

@njit(cache=True)
def twice(number):
    return number + number
"""

USE = """
import lycosa.toy, lycosa.compiled
assert lycosa.toy.twice(21) == 42
print(lycosa.compiled.keeping.path)
"""


def test_every_kernel_is_made_here() -> None:
    """Whoever calls numba's own njit has no place to fall back on and says nothing."""
    for path in PACKAGE.rglob("*.py"):
        if path == PACKAGE / "compiled.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "numba":
                names = {alias.name for alias in node.names}
                assert not names & {"njit", "jit", "vectorize", "guvectorize"}, path


def copy_of_the_package(place: Path) -> Path:
    """As much of the package as one kernel needs, where it cannot be written: a directory that is a file."""
    package = place / "lib" / "lycosa"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "compiled.py").write_text((PACKAGE / "compiled.py").read_text(encoding="utf-8"))
    (package / "toy.py").write_text(KERNEL)
    (package / "__pycache__").write_text("nothing can be made in a file, not by root either")
    return package.parent


USE_READ_ONLY = (
    """
import tempfile
real = tempfile.TemporaryFile
def trial(*args, dir=None, **options):
    if str(dir).startswith({package!r}):
        raise OSError(30, "Read-only file system")
    return real(*args, dir=dir, **options)
tempfile.TemporaryFile = trial
"""
    + USE
)


def run(place: Path, code: str = USE, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    nowhere = {"HOME": "/dev/null", "PYTHONPATH": str(place / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, **nowhere, **environ},
        cwd=place,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_neither_package_nor_home_can_be_written(tmp_path: Path) -> None:
    """The systemd unit of the docs: the state directory takes what is compiled, and the next start finds it."""
    copy_of_the_package(tmp_path)
    state = tmp_path / "state"
    state.mkdir()
    first = run(tmp_path, STATE_DIRECTORY=f"/proc/nowhere:{state}", TMPDIR="/proc/nowhere")
    assert first.returncode == 0, first.stderr
    assert first.stdout.strip() == str(state / "lycosa-kernels")
    assert list(state.rglob("*.nbi"))
    assert first.stderr.count("compiling for this machine") == 1
    assert "may not stay" not in first.stderr
    again = run(tmp_path, STATE_DIRECTORY=str(state))
    assert (again.returncode, again.stderr) == (0, ""), "nothing is compiled, so nothing is said"


def test_a_private_temporary_directory_is_told_of_when_something_is_compiled(tmp_path: Path) -> None:
    copy_of_the_package(tmp_path)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    first = run(tmp_path, TMPDIR=str(temporary))
    assert first.returncode == 0, first.stderr
    place = temporary / f"lycosa-kernels-{os.geteuid()}"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert f"kept in {place}, which may not stay: set NUMBA_CACHE_DIR" in first.stderr
    again = run(tmp_path, TMPDIR=str(temporary))
    assert (again.returncode, again.stderr) == (0, "")
    chosen = run(tmp_path, TMPDIR=str(temporary), NUMBA_CACHE_DIR=str(tmp_path / "own"))
    assert chosen.stdout.strip() == "None", "Numba has been told by the user"
    assert list((tmp_path / "own").rglob("*.nbi"))


# -- the choice alone


def keeping(tmp_path: Path, **environ: str) -> Keeping:
    return Keeping(environ, lambda: str(tmp_path))


def test_a_directory_of_the_cache_comes_before_one_of_the_state(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "s").mkdir()
    found = keeping(tmp_path, CACHE_DIRECTORY=str(tmp_path / "c"), STATE_DIRECTORY=str(tmp_path / "s"))
    found.choose()
    assert (found.path, found.lasting, found.warning) == (tmp_path / "c" / "lycosa-kernels", True, "")


def test_a_directory_that_others_may_read_is_ours_all_the_same(tmp_path: Path) -> None:
    """An operator has made the state readable."""
    (tmp_path / "s" / "lycosa-kernels").mkdir(parents=True, mode=0o755)
    (tmp_path / "s" / "lycosa-kernels").chmod(0o755)
    found = keeping(tmp_path, STATE_DIRECTORY=str(tmp_path / "s"))
    found.choose()
    assert found.path == tmp_path / "s" / "lycosa-kernels"


def test_what_cannot_be_written_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    state = str(tmp_path / "s")
    found = Keeping({"STATE_DIRECTORY": state}, lambda: str(tmp_path), lambda path: state not in str(path))
    found.choose()
    assert found.path == tmp_path / f"lycosa-kernels-{os.geteuid()}"
    assert not found.lasting


@pytest.mark.parametrize("planted", ["open to all", "a link", "a file"])
def test_a_temporary_directory_that_others_made_is_not_used(tmp_path: Path, planted: str) -> None:
    """Compiled code is run: a directory that somebody else can write would be theirs to run code by."""
    name = tmp_path / f"lycosa-kernels-{os.geteuid()}"
    if planted == "open to all":
        name.mkdir()
        name.chmod(0o777)
    elif planted == "a link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        name.symlink_to(tmp_path / "theirs")
    else:
        name.write_text("")
    found = keeping(tmp_path)
    found.choose()
    assert found.path is not None and found.path != name
    assert found.path.parent == tmp_path
    assert stat.S_IMODE(found.path.stat().st_mode) == 0o700


def test_what_was_compiled_with_the_installation_is_brought_along(tmp_path: Path) -> None:
    """An image for containers: compiled while it was made, and read-only when it runs."""
    package, state = tmp_path / "lib" / "lycosa", tmp_path / "state"
    for room in ("url", "seen"):
        (package / room / "__pycache__").mkdir(parents=True)
        (package / room / "__pycache__" / "k.nbi").write_text(room)
        (package / room / "__pycache__" / "k.pyc").write_text("not this")
    state.mkdir()
    for _ in range(2):
        found = Keeping({"STATE_DIRECTORY": str(state)}, package=package)
        found.choose()
    brought = {path.parent.name.partition("_")[0]: path for path in state.rglob("*") if path.is_file()}
    assert sorted(brought) == ["seen", "url"]
    assert brought["url"].read_text() == "url"


def test_code_that_was_brought_along_is_used(tmp_path: Path) -> None:
    package = copy_of_the_package(tmp_path) / "lycosa"
    (package / "__pycache__").unlink()
    assert "compiling" in run(tmp_path).stderr
    kept = [path for path in (package / "__pycache__").iterdir() if path.suffix in (".nbi", ".nbc")]
    assert kept
    # As on a read-only disk: what is there can be read, and Numba's trial of writing fails.
    blocked = USE_READ_ONLY.format(package=str(package))
    (tmp_path / "state").mkdir()
    done = run(tmp_path, blocked, STATE_DIRECTORY=str(tmp_path / "state"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == str(tmp_path / "state" / "lycosa-kernels")


def test_nowhere_to_write(tmp_path: Path) -> None:
    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    found = Keeping({}, none)
    found.choose()
    assert found.path is None
    assert "every process does this" in found.warning
