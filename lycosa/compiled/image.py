"""The image: one file with the machine code of all kernels used so far, which is loaded without the compiler.

    image   = MAGIC length(u64, little-endian) index object*
    index   = pickle of {"cpu": str, "size": of all objects,
                         "entries": {(module, kernel): {(type name, ...): entry}}}
    entry   = (offset, size, symbol, {environment: pickle of its constants})    offset: from the end of the index
    object  = an object file as LLVM made it for Numba, with everything that the kernel calls inside

An object is loaded into memory (by `lycosa.compiled.objects`, or else by LLVM: `llvmlite.binding`, 55 MB); its
symbol is the entry point that Numba has made for calls from Python. Only the kernels that are called are loaded.

An image is valid for one version each of Python, Numba, llvmlite and NumPy, one state of the kernels' sources and
of Numba's settings (a digest of these is in its name), and one kind of processor (in the index). It is written to a
temporary name and renamed. Before that, another process loads all of it and calls a kernel through it
(`lycosa.compiled.proof`): an image that would crash a process is not put into place.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import pickle
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lycosa.compiled import objects
from lycosa.compiled.keeping import Keeping
from lycosa.compiled.parts import Parts, directory_of

MAGIC = b"lycosa kernels 1\n"
DRAFT = "LYCOSA_KERNELS_DRAFT"
"""An environment variable that names the one image a process must use: one that is to be proved."""
_PACKAGE = Path(__file__).parent.parent
_PROCESSOR = (
    *("vendor_id", "cpu family", "model", "stepping", "flags"),
    *("CPU implementer", "CPU variant", "CPU part", "CPU revision", "Features"),
)
_OF_NO_MATTER = ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES", "NUMBA_NUM_THREADS")

Kernel = tuple[str, str]
"""A kernel's module, and its name in it."""
Types = tuple[str, ...]


class Code(NamedTuple):
    """The machine code of a kernel for some types."""

    object: bytes
    symbol: str
    environments: dict[str, bytes]


def name_of_image() -> str:
    """The file name of the image that fits this process."""
    digest = hashlib.sha256(platform.machine().encode())
    digest.update(np.__version__.encode())
    for package in ("numba", "llvmlite"):
        digest.update((directory_of(package) / "_version.py").read_bytes())
    for name, value in sorted(os.environ.items()):
        if name.startswith("NUMBA_") and name not in _OF_NO_MATTER:
            digest.update(f"{name}={value}\0".encode())
    for folder, folders, names in os.walk(_PACKAGE):
        folders[:] = sorted(each for each in folders if not each.startswith(("__", ".")))
        for name in sorted(names):
            if name.endswith(("kernels.py", "store.py")):  # these have the layouts of arrays
                digest.update(Path(folder, name).read_bytes())
    return f"kernels-{sys.implementation.cache_tag}-{digest.hexdigest()[:20]}.image"


def processor() -> str:
    """The processor that code is compiled for here, found without loading LLVM."""
    with suppress(OSError, ValueError), Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
        first = list(iter(lambda: lines.readline().strip(), ""))  # the first core: the others are the same
        found = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first)}
        if known := [found[name] for name in _PROCESSOR if name in found]:
            return "; ".join(known)
    from llvmlite import binding

    return f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"


class Image:
    """An image in a file, and the machine code that was loaded from it."""

    def __init__(self, data: mmap.mmap | bytes, parts: Parts) -> None:
        length = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
        self._base = len(MAGIC) + 8 + length
        self._data = data
        self._index: dict[str, Any] = pickle.loads(data[len(MAGIC) + 8 : self._base])
        if len(data) != self._base + self._index["size"]:
            raise ValueError("an image that has lost its end")
        self._loader = _Loader(parts)
        self._fits: bool | None = None

    @classmethod
    def find(cls, keeping: Keeping, parts: Parts) -> Image | None:
        """The image that fits this process, if there is one."""
        if draft := os.environ.get(DRAFT):
            return cls._open(Path(draft), parts)
        with suppress(OSError, ImportError):
            name = name_of_image()
            for place in keeping.places():
                if (place / name).exists() and keeping.trusted(place):
                    return cls._open(place / name, parts)
        return None

    @classmethod
    def _open(cls, path: Path, parts: Parts) -> Image | None:
        with (
            suppress(OSError, ValueError, KeyError, EOFError, pickle.UnpicklingError),
            path.open("rb") as file,
        ):
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if data[: len(MAGIC)] == MAGIC:
                return cls(data, parts)
        return None

    @property
    def fits(self) -> bool:
        """Whether the image was made for this kind of processor."""
        if self._fits is None:
            self._fits = self._index["cpu"] == processor()
        return self._fits

    def entries(self) -> list[tuple[Kernel, Types]]:
        """The kernels and types for which there is code."""
        return [(kernel, types) for kernel, found in self._index["entries"].items() for types in found]

    def code(self, kernel: Kernel, types: Types) -> Code | None:
        """The code of a kernel for some types."""
        entry = self._index["entries"].get(kernel, {}).get(types)
        if entry is None or not self.fits:
            return None
        offset, size, symbol, environments = entry
        start = self._base + offset
        return Code(self._data[start : start + size], symbol, environments)

    def load(self, kernel: Kernel, types: Types) -> Any | None:
        """The entry point of a kernel for some types."""
        code = self.code(kernel, types)
        if code is None:
            return None
        return self._loader.load(kernel, code)


class _Loader:
    """Makes functions from machine code."""

    def __init__(self, parts: Parts) -> None:
        self._dynfunc = parts.dynfunc
        self._helpers: dict[str, int] = dict(parts.helpers.c_helpers)  # the mathematical functions of C
        for helpers, prefix in (
            (parts.helpers.c_helpers, "numba_"),
            (parts.dynfunc.c_helpers, "numba_"),
            (parts.runtime.c_helpers, "NRT_"),
        ):
            for name, address in helpers.items():
                self._helpers[name if name.startswith("_") else prefix + name] = address
        self._engine: _Engine | None = None

    def load(self, kernel: Kernel, code: Code) -> Any:
        """The function, callable from Python with arguments of exactly its types."""
        find, keep = self._placed(code)
        module, name = kernel
        environment = None
        for symbol, constants in code.environments.items():
            environment = self._dynfunc.Environment(vars(sys.modules[module]))
            environment.consts[:] = pickle.loads(constants)
            if address := find(symbol):
                # Machine code holds the address but no reference: the environment must never be freed.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(environment))
                ctypes.c_void_p.from_address(address).value = id(environment)
        address = find(code.symbol)
        if not address:
            raise LookupError(f"no {code.symbol} in the code of {module}.{name}")
        return self._dynfunc.make_function(sys.modules[module], name, "", address, environment, (keep,))

    def _placed(self, code: Code) -> tuple[Callable[[str], int | None], Any]:
        """Load an object into memory; a function from symbols to addresses, and what keeps the object loaded."""
        if objects.loadable_here():
            with suppress(objects.Unfit):
                loaded = objects.Loaded(code.object, self._helpers)
                return loaded.symbols.get, loaded
        if self._engine is None:
            self._engine = _Engine(self._helpers)
        return self._engine.add(code.object), self._engine


class _Engine:
    """LLVM's loader of object files."""

    def __init__(self, helpers: Mapping[str, int]) -> None:
        from llvmlite import binding

        self._binding = binding
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        for name, address in helpers.items():
            binding.add_symbol(name, address)
        machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(jit=True)
        self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)

    def add(self, data: bytes) -> Callable[[str], int | None]:
        """Load an object into memory; a function from names of functions and other symbols to addresses."""
        self._engine.add_object_file(self._binding.ObjectFileRef.from_data(data))
        self._engine.finalize_object()
        return lambda name: self._engine.get_global_value_address(name) or None


def write(codes: Mapping[Kernel, Mapping[Types, Code]], keeping: Keeping) -> Path | None:
    """Prove and write an image with that code; None if there is no place for it, or it is not sound."""
    name = name_of_image()
    data = _pack(codes)
    for place in _writable(keeping):
        with suppress(OSError):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not keeping.trusted(place):
                continue
            handle, draft = tempfile.mkstemp(prefix=name, suffix=".draft", dir=place)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                if not _proved(draft):
                    return None
                Path(draft).replace(place / name)
            finally:
                Path(draft).unlink(missing_ok=True)
            return place / name
    return None


def _writable(keeping: Keeping) -> Iterable[Path]:
    """The place chosen for Numba's code, if one was; otherwise the usual places."""
    return [keeping.path] if keeping.path is not None else keeping.places()


def _pack(codes: Mapping[Kernel, Mapping[Types, Code]]) -> bytes:
    entries: dict[Kernel, dict[Types, tuple[int, int, str, dict[str, bytes]]]] = {}
    objects: list[bytes] = []
    at = 0
    for kernel, found in codes.items():
        for types, code in found.items():
            entry = (at, len(code.object), code.symbol, code.environments)
            entries.setdefault(kernel, {})[types] = entry
            objects.append(code.object)
            at += len(code.object)
    index = pickle.dumps({"cpu": processor(), "size": at, "entries": entries})
    return b"".join((MAGIC, len(index).to_bytes(8, "little"), index, *objects))


def _proved(draft: str) -> bool:
    """Whether another process can load everything of an image, and calls a kernel of it with the right result."""
    environment = {**os.environ, DRAFT: draft, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "lycosa.compiled.proof"]
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
