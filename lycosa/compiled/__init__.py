"""Compiled functions: the program's only access to Numba, which avoids loading it where possible.

Every kernel of the program is made by the `njit` of this module, in every process: the command line, a program that
uses the library, an agent's process, a test. Making one costs nothing. At the first call with arguments of some
types its machine code is

1. loaded from the image (`lycosa.compiled.image`), without the compiler; or else
2. requested from Numba, which loads cached code (`lycosa.compiled.keeping`) or compiles it.

`keep` adds what came from Numba to the image, so that later processes need no compiler. After an edit of any
kernel a new image is begun.

Numba reports that it compiles something at the moment it finds no cached code. The logger `lycosa` logs that once
per process (on standard error in a program that has not set up logging), naming the place if the code will not
last.

Names of Numba in kernels (`carray`, intrinsics) are `Later`: they are looked up when something is compiled.
"""

from __future__ import annotations

import importlib
import logging
import os
import pickle
import threading
import types
from collections.abc import Callable
from typing import Any

from lycosa.compiled import parts as _parts
from lycosa.compiled.image import Code, Image, write
from lycosa.compiled.keeping import Keeping

_log = logging.getLogger("lycosa")
_lock = threading.RLock()
_numbering = threading.RLock()
"""Held while the numbers of types are used, and while they change."""
_kernels: list[Kernel] = []
keeping = Keeping()


class _State:
    """The state of this process."""

    ours = False
    """Whether the dispatcher's numbers of types are still ours, and not yet Numba's."""
    heard = False
    """Whether we listen to Numba's compile events."""
    image: Image | None = None
    sought = False


def _numba_comes() -> None:
    """Numba is about to be imported, and will number types anew: forget all entry points found by our numbers."""
    with _numbering:  # not `_lock`: its holder may be waiting for this import
        _State.ours = False
        for kernel in _kernels:
            kernel._clear()


_loaded, _State.ours = _parts.load(_numba_comes)
_manager = _loaded.conversions.new_type_manager()
_conversions = _loaded.conversions.get_pointer(_manager)
"""The type conversions that the dispatcher may use: none."""


def _numba() -> Any:
    """Import Numba, and listen to its compile events."""
    import numba

    if not _State.heard:
        from numba.core import event

        _State.heard = True
        event.register("numba:compile", _announcer())  # type: ignore[no-untyped-call]
    return numba


class Later:
    """A reference to an object of another module that is needed only for compiling."""

    def __init__(self, module: str, name: str = "") -> None:
        self._found = (module, name)

    def made(self) -> Any:
        """The object itself."""
        module, name = self._found
        found = importlib.import_module(module)
        return getattr(found, name) if name else found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made(), name)


class _Intrinsic(Later):
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._intrinsic: Any = None

    def made(self) -> Any:
        if self._intrinsic is None:
            from numba.extending import intrinsic

            self._intrinsic = intrinsic(self._function)
        return self._intrinsic


def intrinsic(function: Callable[..., Any]) -> Any:
    """As `numba.extending.intrinsic`, but created only when it is needed."""
    return _Intrinsic(function)


_Dispatcher: Any = _loaded.dispatcher.Dispatcher


class Kernel(_Dispatcher):  # type: ignore[misc]  # an extension module has no types
    """A function whose machine code, for the types of its arguments, is loaded or made at the first call."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        if function.__defaults__ or function.__kwdefaults__ or function.__closure__:
            raise TypeError(f"{function.__qualname__}: a kernel has no defaults and no closure")
        super().__init__(_conversions, len(names), 1, names, (), 0, 0, 1)
        self.py_func = function
        self.__code__ = code
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.options = options
        self._made: Any = None
        self._ready: dict[tuple[str, ...], Any] = {}
        self._from_numba: dict[tuple[str, ...], Any] = {}
        _kernels.append(self)

    @property
    def ready(self) -> list[tuple[str, ...]]:
        """The types for which it is compiled and loaded."""
        return list(self._ready)

    def typeof_pyval(self, value: Any) -> Any:
        """The type of an argument. The dispatcher calls this once for each type."""
        if _State.ours:
            return _parts.code_of(_parts.name_of(value))
        from numba.core.typing.typeof import Purpose, typeof

        return typeof(value, Purpose.argument)  # type: ignore[no-untyped-call]

    def _compile_for_args(self, *args: Any) -> Any:
        """The entry point for these arguments, which the dispatcher then calls; called if it knows none."""
        with _lock:
            found = tuple(map(_parts.name_of, args))
            entry = self._ready.get(found)
            if entry is None:
                entry = _kept(self, found)
            if entry is None:
                _numba()
                wanted = tuple(map(self.typeof_pyval, args))  # by now they are Numba's
                entry = self.real().compile(wanted)
                self._from_numba[found] = wanted
            self._ready[found] = entry  # a reference that keeps it alive: the dispatcher holds none
            with _numbering:
                self._insert([self.typeof_pyval(value)._code for value in args], entry)
            return entry

    def real(self) -> Any:
        """Numba's own dispatcher, for compiling; it sees Numba's objects in place of ours (`Later`)."""
        if self._made is None:
            function = self.py_func
            seen = dict(function.__globals__)
            copy = types.FunctionType(self.__code__, seen, function.__name__)
            copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
            copy.__doc__ = function.__doc__
            self._made = _jit(copy, self.options)
            for name in self.__code__.co_names:
                if isinstance(value := seen.get(name), Kernel):
                    seen[name] = value.real()
                elif isinstance(value, Later):
                    seen[name] = value.made()
        return self._made

    def codes(self) -> dict[tuple[str, ...], Code]:
        """The machine code that Numba has made, by the names of types."""
        found: dict[tuple[str, ...], Code] = {}
        for names, wanted in self._from_numba.items():
            kept = self._made._cache
            if not hasattr(kept, "_cache_file"):
                continue  # there was no place to keep it
            content = kept._cache_file.load(kept._index_key(wanted, self._made.targetctx.codegen()))
            if content is None:
                continue
            (_, kind, data), about, environment, *_, others = content
            environments = {each.env_name: pickle.dumps(each.consts) for each in (*others, environment)}
            if kind == "object" and not any(b"numba" in constants for constants in environments.values()):
                found[names] = Code(data[0], about.llvm_cpython_wrapper_name, environments)
        return found


def njit(**options: Any) -> Callable[[Any], Any]:
    """As `numba.njit`, applied at the first call and only if necessary; with parentheses, without a signature."""

    def decorate(function: Callable[..., Any]) -> Any:
        if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
            return function
        return Kernel(function, options)

    return decorate


def _jit(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Numba's dispatcher, which caches its code where possible."""
    numba = _numba()
    wanted = dict(options)
    if keeping.chosen and keeping.path is None:
        wanted["cache"] = False
    try:
        return numba.njit(**wanted)(function)
    except RuntimeError:  # "cannot cache function ...: no locator available"
        if keeping.chosen or not wanted.get("cache"):
            raise
        keeping.choose()
        if keeping.path is not None:
            # For this process, in which Numba has read its environment, and for those that it starts.
            os.environ["NUMBA_CACHE_DIR"] = str(keeping.path)
            numba.config.CACHE_DIR = str(keeping.path)
        return _jit(function, options)


def _image() -> Image | None:
    if not _State.sought:
        _State.sought = True
        _State.image = Image.find(keeping, _loaded)
    return _State.image


def _kept(kernel: Kernel, names: tuple[str, ...]) -> Any | None:
    """The entry point of a kernel from the image."""
    if (image := _image()) is not None:
        try:
            return image.load((kernel.__module__, kernel.__name__), names)
        except (RuntimeError, LookupError) as error:  # although it was proved: go on without the image
            _log.debug("%s of the image: %s", kernel.__name__, error)
            _State.image = None
    return None


def keep() -> None:
    """Add the code that came from Numba to the image, for later processes."""
    with _lock:
        try:
            _keep()
        except Exception:
            # It uses Numba's internals, which may differ in another version: that costs time, no more.
            _log.debug("no image of the kernels can be made", exc_info=True)


def _keep() -> None:
    fresh = [kernel for kernel in _kernels if kernel._from_numba and kernel.__module__.startswith("lycosa.")]
    if not fresh:
        return
    from lycosa.compiled import proof_kernels

    proof_kernels.prove()
    if proof_kernels.weigh._from_numba and proof_kernels.weigh not in fresh:
        fresh.append(proof_kernels.weigh)
    codes = {(kernel.__module__, kernel.__name__): kernel.codes() for kernel in fresh}
    # Another process may have written since this one began.
    if (before := Image.find(keeping, _loaded)) is not None:
        for kernel, names in before.entries():
            if names not in codes.setdefault(kernel, {}) and (code := before.code(kernel, names)) is not None:
                codes[kernel][names] = code
    for each in fresh:
        each._from_numba.clear()
    if any(codes.values()):
        write(codes, keeping)


def _announcer() -> Any:
    from numba.core import event

    class Announcer(event.Listener):
        """Logs once that kernels are being compiled."""

        said = False

        def on_start(self, event: Any) -> None:
            if not self.said and event.data["dispatcher"].py_func.__module__.startswith("lycosa."):
                self.said = True
                _log.warning(
                    "lycosa: compiling this command's kernels (once after an installation, up to a minute%s) ...",
                    keeping.warning,
                )

        def on_end(self, event: Any) -> None:
            """Single kernels are not logged."""

    return Announcer()
