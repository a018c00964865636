"""Options: frozen structs that each room declares, read from TOML or keywords by one strict reader.

Unknown names are an error that names the nearest known one, if one is near: of the same table, of any other, or
of what else options are called (`flags`). Wrong types are an error that names the option. Either is a `ConfigError`
of one line.
"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from lycosa.errors import ConfigError

T = TypeVar("T", bound=msgspec.Struct)


_NEAR = 0.7
"""Least likeness (`difflib`) of a name that is suggested: of two names of eight letters, six are the same."""
_FEW = 3


def read(
    kind: type[T], given: dict[str, Any], where: str = "", flags: Callable[[], Mapping[str, str]] = dict
) -> T:
    """Options of `kind` from a plain dictionary; nested dictionaries become nested options.

    `flags`: other names of options, with what to write instead of each.
    """
    _check_names(kind, given, where, lambda name: _elsewhere(name, kind, where, flags()))
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(_plain(str(error), where)) from None


def _plain(text: str, where: str) -> str:
    """msgspec's message with the option in front: `limits.pages: expected int, got str`."""
    what, found, place = text.rpartition(" - at `")
    if not found:
        what, place = text, ""
    path = ".".join(part for part in (where, place.rstrip("`").removeprefix("$").lstrip(".")) if part)
    if what.startswith("Expected "):
        what = "e" + what[1:].replace("`", "")
    return f"{path}: {what}" if path else what


def _check_names(
    kind: type[msgspec.Struct], given: dict[str, Any], where: str, elsewhere: Callable[[str], list[str]]
) -> None:
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name, value in given.items():
        full = f"{where}.{name}" if where else name
        field = fields.get(name)
        if field is None:
            near = difflib.get_close_matches(name, fields, n=1, cutoff=_NEAR) or elsewhere(name)
            meant = " or ".join(map(repr, near[:_FEW]))
            hint = f"did you mean {meant}?" if near else "known: " + ", ".join(sorted(fields))
            raise ConfigError(f"unknown option {full!r}; {hint}")
        inner = field.type
        if _is_table(inner):
            if not isinstance(value, dict):
                raise ConfigError(f"option {full!r} is a table of options, not {value!r}")
            _check_names(inner, value, full, elsewhere)
        elif typing.get_origin(inner) is dict and isinstance(value, dict):
            kinds = typing.get_args(inner)
            for key, row in value.items() if _is_table(kinds[1]) else ():
                if not isinstance(row, dict):
                    raise ConfigError(f"option {f'{full}.{key}'!r} is a table of options, not {row!r}")
                _check_names(kinds[1], row, f"{full}.{key}", elsewhere)


def _elsewhere(name: str, kind: type[msgspec.Struct], where: str, flags: Mapping[str, str]) -> list[str]:
    """Options of any table with a name like this one, and those that are also called so."""
    found: dict[str, list[str]] = {flag: [meaning] for flag, meaning in flags.items()}
    for path in _paths(kind, where):
        found.setdefault(path.rpartition(".")[2], []).append(path)
    near = difflib.get_close_matches(name.replace("-", "_"), found, n=1, cutoff=_NEAR)
    return list(dict.fromkeys(found[near[0]])) if near else []


def _paths(kind: type[msgspec.Struct], where: str) -> Iterator[str]:
    """The full names of all options, but those in tables by host."""
    for field in msgspec.structs.fields(kind):
        full = f"{where}.{field.encode_name}" if where else field.encode_name
        if _is_table(field.type):
            yield from _paths(field.type, full)
        else:
            yield full


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
