"""Code from outside the project: what installed packages offer to a crawl by their entry points, and functions that
the operator names.

Finding entry points reads the metadata of every installed package (some 50 ms with a hundred of them), so it is
done once per process. The modules for it (`importlib.metadata`, and with it `email`) are loaded only then.
"""

from __future__ import annotations

import importlib
import inspect
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints


def entry_points(*, group: str) -> EntryPoints:
    """The entry points of a group."""
    found: EntryPoints = _all_entry_points().select(group=group)
    return found


@cache
def _all_entry_points() -> Any:  # its class does not exist in later versions of Python
    from importlib import metadata

    return metadata.entry_points()


def load_function(named: str, what: str, /, **takes: object) -> Any:
    """The function that `module:function` or `file.py:function` names; a `ConfigError` message begins with `what`.

    It must accept as many positional arguments as `takes` has, in that order.
    """
    found = load_named(named, what)
    place, _, name = named.rpartition(":")
    try:
        inspect.signature(found).bind(*takes.values())
    except TypeError:
        raise ConfigError(f"{what}: {name} in {place} must take {', '.join(takes)}") from None
    except ValueError:  # a function without an inspectable signature
        pass
    return found


def load_named(named: str, what: str) -> Any:
    """The callable that `module:name` or `file.py:name` names, whatever its parameters."""
    place, colon, name = named.rpartition(":")
    if not colon or not place or not name:
        raise ConfigError(f"{what}: {named!r} is not of the form module:function or file.py:function")
    module = _from_file(place, what) if place.endswith(".py") else _from_module(place, what)
    found = getattr(module, name, None)
    if found is None:
        raise ConfigError(f"{what}: {place} has no function {name!r}")
    if not callable(found):
        raise ConfigError(f"{what}: {name} in {place} is not a function")
    return found


def _from_file(place: str, what: str) -> Any:
    import importlib.util

    path = Path(place).expanduser()
    if not path.is_file():
        raise ConfigError(f"{what}: there is no file {place}")
    spec = importlib.util.spec_from_file_location(f"lycosa_operator_{path.stem}", path)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{what}: {place} cannot be loaded: {told(error)}") from None
    return module


def _from_module(place: str, what: str) -> Any:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            hint = "; for a file give its path, file.py:function"
            raise ConfigError(f"{what}: there is no module {place}{hint}") from None
        raise ConfigError(f"{what}: {place} cannot be imported: {told(error)}") from None
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{what}: {place} cannot be imported: {told(error)}") from None


def told(error: BaseException) -> str:
    """An error of the operator's code in one line; his `__str__` may fail, too."""
    line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
    try:
        text = str(error.msg if isinstance(error, SyntaxError) else error)
    except Exception:
        text = "?"
    return f"{type(error).__name__}: {' '.join(text.split())[:200]}{line}"
