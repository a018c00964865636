"""Where compiled code is kept, and when its making is announced."""

from __future__ import annotations

import ast
import ctypes
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from llvmlite import binding

from lycosa import compiled
from lycosa.compiled import image as image_module
from lycosa.compiled.image import Code, Image, _pack, name_of_image, write
from lycosa.compiled.keeping import Keeping
from lycosa.compiled.objects import Loaded, Unfit, loadable_here
from lycosa.compiled.parts import name_of

PACKAGE = Path(__file__).parent.parent / "lycosa"


class Pair(NamedTuple):
    one: int
    two: float


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
        if path.parent == PACKAGE / "compiled":
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
    shutil.copytree(PACKAGE / "compiled", package / "compiled", ignore=shutil.ignore_patterns("__pycache__"))
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
    assert first.stderr.count("compiling this command's kernels") == 1
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


# -- the image

KEEPING = """
import sys
import lycosa.toy, lycosa.compiled
{use}
print("numba" in sys.modules)
lycosa.compiled.keep()
"""


def images(place: Path) -> list[Path]:
    return list(place.rglob("kernels-*.image"))


def use(place: Path, what: str) -> bool:
    """Use the toy as a process does; whether that took Numba."""
    done = run(place, KEEPING.format(use=what), NUMBA_CACHE_DIR=str(place / "own"))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip() == "True"


def test_the_second_process_loads_no_compiler(tmp_path: Path) -> None:
    package = copy_of_the_package(tmp_path) / "lycosa"
    twice = "assert lycosa.toy.twice(21) == 42"
    assert use(tmp_path, twice)
    assert len(images(tmp_path)) == 1 and not list(tmp_path.rglob("*.draft"))
    assert not use(tmp_path, twice)
    assert not use(tmp_path, f"lycosa.compiled.image.objects.loadable_here = bool; {twice}"), "LLVM loads it"
    # Arguments of another type are another matter, and what is compiled for them is added. What was loaded before
    # Numba came still is what it was.
    both = f"{twice}; assert lycosa.toy.twice(1.5) == 3.0; {twice}"
    assert use(tmp_path, both)
    assert not use(tmp_path, both)
    assert use(tmp_path, f"{both}; import numba; {both}; assert lycosa.toy.twice(1j) == 2j; {both}")
    # After an edit of any kernel there is no image yet.
    (package / "other_kernels.py").write_text("# a kernel that others may have inside")
    assert use(tmp_path, twice)
    assert len(images(tmp_path)) == 2


def placed(place: Path, data: bytes) -> Image | None:
    """The image that is found if there are these bytes in its place."""
    (place / name_of_image()).write_bytes(data)
    return Image.find(
        Keeping({"NUMBA_CACHE_DIR": str(place)}, lambda: str(place), package=place), compiled._loaded
    )


def test_an_image_that_lost_its_end_is_not_used(tmp_path: Path) -> None:
    kernel = ("lycosa.toy", "twice")
    whole = _pack({kernel: {("int64",): Code(b"code", "symbol", {"environment": b""})}})
    found = placed(tmp_path, whole)
    assert found is not None and found.fits and found.entries() == [(kernel, ("int64",))]
    assert found.code(kernel, ("int64",)) == Code(b"code", "symbol", {"environment": b""})
    assert found.code(kernel, ("float64",)) is None
    for data in (whole[:-1], whole[:60], whole[:20], b"", bytes(len(whole))):
        assert placed(tmp_path, data) is None


def test_an_image_that_others_could_have_written_is_not_used(tmp_path: Path) -> None:
    place = tmp_path / f"lycosa-kernels-{os.geteuid()}"
    place.mkdir(mode=0o700)
    (place / name_of_image()).write_bytes(_pack({}))
    chosen = Keeping({}, lambda: str(tmp_path), package=tmp_path / "read-only")
    assert Image.find(chosen, compiled._loaded) is not None
    place.chmod(0o777)
    assert Image.find(chosen, compiled._loaded) is None
    place.rename(tmp_path / "theirs")
    place.symlink_to(tmp_path / "theirs")
    (tmp_path / "theirs").chmod(0o700)
    assert Image.find(chosen, compiled._loaded) is None


def test_an_image_goes_where_only_we_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_module, "_proved", lambda draft: True)
    (tmp_path / "state" / "lycosa-kernels").mkdir(parents=True)
    (tmp_path / "state" / "lycosa-kernels").chmod(0o777)
    (tmp_path / "package").write_text("nothing can be made in a file")
    environ = {"STATE_DIRECTORY": str(tmp_path / "state")}
    chosen = Keeping(environ, lambda: str(tmp_path), package=tmp_path / "package")
    written = write({}, chosen)
    assert written == tmp_path / f"lycosa-kernels-{os.geteuid()}" / name_of_image()
    assert list((tmp_path / "state" / "lycosa-kernels").iterdir()) == []


def test_an_image_for_another_processor_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = ("lycosa.toy", "twice")
    with monkeypatch.context() as patch:
        patch.setattr(image_module, "processor", lambda: "another")
        whole = _pack({kernel: {("int64",): Code(b"code", "symbol", {})}})
    found = placed(tmp_path, whole)
    assert found is not None and not found.fits and found.code(kernel, ("int64",)) is None


def test_an_image_that_a_process_cannot_load_is_not_kept(tmp_path: Path) -> None:
    kernel = ("lycosa.compiled.proof_kernels", "weigh")
    codes = {kernel: {("int64",): Code(b"\x7fELF of no use", "nothing", {})}}
    assert write(codes, Keeping({"NUMBA_CACHE_DIR": str(tmp_path)})) is None
    assert list(tmp_path.iterdir()) == []


def object_file(code: str, model: str) -> bytes:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    machine = target.create_target_machine(reloc="static", codemodel=model)
    return bytes(machine.emit_object(binding.parse_assembly(code)))


CODE = """
@place = common global i64 0
@table = internal constant [2 x i64 (i64)*] [i64 (i64)* @half, i64 (i64)* @labs]
declare i64 @labs(i64)
define i64 @half(i64 %x) {
  %y = sdiv i64 %x, 2
  ret i64 %y
}
define i64 @call(i64 %which, i64 %x) {
  %at = getelementptr [2 x i64 (i64)*], [2 x i64 (i64)*]* @table, i64 0, i64 %which
  %f = load i64 (i64)*, i64 (i64)** %at
  %y = call i64 %f(i64 %x)
  %z = load i64, i64* @place
  %sum = add i64 %y, %z
  ret i64 %sum
}
"""


@pytest.mark.skipif(not loadable_here(), reason="LLVM loads objects here")
def test_an_object_is_put_into_memory() -> None:
    loaded = Loaded(object_file(CODE, "large"), {})
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(loaded.symbols["call"])
    assert (call(0, 84), call(1, -42)) == (42, 42)
    ctypes.c_int64.from_address(loaded.symbols["place"]).value = 1000
    assert call(0, 84) == 1042
    other = Loaded(object_file(CODE, "large"), {"labs": loaded.symbols["half"]})
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(other.symbols["call"])
    assert call(1, -42) == -21, "a helper comes before the interpreter's own symbols, and places are its own"


@pytest.mark.skipif(not loadable_here(), reason="LLVM loads objects here")
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "too short"),
        (bytes(64), "not an object file"),
        (object_file(CODE, "small"), "a reference of kind"),
        (object_file(CODE.replace("labs", "nowhere_at_all"), "large"), "no symbol nowhere_at_all"),
    ],
)
def test_an_object_of_another_kind_is_left_to_llvm(data: bytes, words: str) -> None:
    with pytest.raises(Unfit, match=words):
        Loaded(data, {})


def test_no_module_imports_the_compiler() -> None:
    """Kernels are made at import, and Numba is not needed for that."""
    code = (
        "import importlib, pkgutil, sys, lycosa\n"
        "for found in pkgutil.walk_packages(lycosa.__path__, 'lycosa.'):\n"
        "    if found.name.endswith('kernels'):\n"
        "        importlib.import_module(found.name)\n"
        "print([name for name in sys.modules if name in ('numba', 'llvmlite')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        timeout=170,
        check=True,
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "int64"),
        (1 << 63, "int64"),
        (np.uint64(1), "uint64"),
        (0.5, "float64"),
        (np.float64(0.5), "float64"),
        (True, "bool"),
        (b"", "bytes"),
        (np.zeros(2, np.uint8), "array(|u1, 1, C)"),
        (np.zeros((2, 2), np.int64).T, "array(<i8, 2, F)"),
        (np.zeros(4, np.int64)[::2], "array(<i8, 1, A)"),
        (np.frombuffer(b"ab", np.uint8), "array(|u1, 1, C readonly)"),
        ((1, 0.5), "(int64, float64)"),
        (Pair(1, 0.5), "tests.test_compiled.Pair(int64, float64)"),
    ],
)
def test_names_tell_types_apart(value: object, name: str) -> None:
    assert name_of(value) == name


def test_what_no_kernel_takes_has_no_name() -> None:
    with pytest.raises(TypeError, match="no kernel takes a dict"):
        name_of({})


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
