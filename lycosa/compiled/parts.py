"""The parts of Numba that run compiled code, without the compiler.

`import numba` loads the compiler: 0.4 s and 70 MB, and 80 MB more with the first kernel. To call machine code only
five small extension modules of Numba are needed: the dispatcher, which finds the entry point for the types of a
call's arguments, and the modules that entry points call (to take arrays apart, to count references, to raise). They
are loaded here from their files, without the package around them.

The dispatcher identifies types by numbers, which are given by whoever initialises it: Numba does so when it is
imported. Until then the numbers are ours (`code_of`), for names that distinguish types at least as finely as Numba
does (`name_of`). `on_numba` is called before any import of Numba: from then on the numbers are Numba's.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_NUMBERS = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)
_NAMES = {
    "dispatcher": "numba._dispatcher",
    "dynfunc": "numba._dynfunc",
    "helpers": "numba._helperlib",
    "runtime": "numba.core.runtime._nrt_python",
    "conversions": "numba.core.typeconv._typeconv",
}
_DEVICE = "numba._devicearray"


class Parts(NamedTuple):
    """Numba's extension modules."""

    dispatcher: Any
    dynfunc: Any
    helpers: Any
    runtime: Any
    conversions: Any


class Type:
    """A value's type as the dispatcher sees it."""

    __slots__ = ("_code",)

    def __init__(self, code: int) -> None:
        self._code = code


_types = {name: Type(code) for code, name in enumerate(_NUMBERS)}


def directory_of(package: str) -> Path:
    """Where a package is, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"no package {package}")
    return Path(next(iter(spec.submodule_search_locations)))


def load(on_numba: Callable[[], None]) -> tuple[Parts, bool]:
    """Numba's parts, and whether the numbers of types are ours."""
    if "numba" not in sys.modules:
        try:
            parts = _alone()
        except (ImportError, OSError, AttributeError, TypeError, SystemError):
            pass  # a Numba that is built in another way: all of it, then
        else:
            sys.meta_path.insert(0, _Watch(on_numba))
            return parts, True
    return Parts(**{field: importlib.import_module(name) for field, name in _NAMES.items()}), False


def _alone() -> Parts:
    root = directory_of("numba")
    # The dispatcher looks for one of its siblings, by name and through the package: both are lent to it.
    package: Any = types.ModuleType("numba")
    try:
        sys.modules["numba"] = package
        package._devicearray = sys.modules[_DEVICE] = _extension(root, _DEVICE)
        parts = Parts(**{field: _extension(root, name) for field, name in _NAMES.items()})
    finally:
        for name in ("numba", _DEVICE):
            sys.modules.pop(name, None)
    parts.dispatcher.typeof_init(_Omitted, {name: _types[name]._code for name in _NUMBERS})
    return parts


def _extension(root: Path, name: str) -> types.ModuleType:
    stem = root.joinpath(*name.split(".")[1:])
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = f"{stem}{suffix}"
        if Path(path).exists():
            loader = importlib.machinery.ExtensionFileLoader(name, path)
            spec = importlib.util.spec_from_file_location(name, path, loader=loader)
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            return module
    raise ImportError(f"no extension module {name}")


class _Omitted:
    """Stands for Numba's type of an argument that takes its default: kernels have none."""


class _Watch:
    """An import hook that is called before Numba is imported."""

    def __init__(self, heard: Callable[[], None]) -> None:
        self._heard = heard

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec that others find, with a loader that calls us first. (Finding a spec does not import yet.)"""
        if name != "numba":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            self._heard()  # somebody else may find it
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def heard(module: types.ModuleType) -> None:
            self._heard()
            execute(module)

        loader.exec_module = heard
        return spec


def name_of(value: Any) -> str:
    """The name of a value's type as an argument; TypeError if it has none here."""
    kind = type(value)
    if kind is np.ndarray:
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        state = ("" if flags.writeable else " readonly") + ("" if flags.aligned else " unaligned")
        return f"array({_dtype(value.dtype)}, {value.ndim}, {layout}{state})"
    if kind is int:
        return "int64"
    if kind is float:
        return "float64"
    if kind is complex:
        return "complex128"
    if kind is bool or kind is np.bool_:
        return "bool"
    if kind is bytes:
        return "bytes"
    if isinstance(value, tuple):
        named = "" if kind is tuple else f"{kind.__module__}.{kind.__qualname__}"
        return f"{named}({', '.join(map(name_of, value))})"
    if isinstance(value, np.generic):
        name = value.dtype.name
        return name if name in _NUMBERS else f"scalar({_dtype(value.dtype)})"
    raise TypeError(f"no kernel takes a {kind.__name__}")


def _dtype(dtype: np.dtype[Any]) -> str:
    return dtype.str if dtype.fields is None else repr(dtype)


def code_of(name: str) -> Type:
    """The number of a type's name, while numbers are ours."""
    return _types.setdefault(name, Type(len(_types)))
