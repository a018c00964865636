"""Options: frozen structs that each room declares, read from TOML or keywords by one strict reader.

Unknown names are an error that names the nearest known one; wrong types are an error that names the
option. Either is a `ConfigError` of one line.
"""

from __future__ import annotations

import difflib
import typing
from typing import Any, TypeVar

import msgspec

from lycosa.errors import ConfigError

T = TypeVar("T", bound=msgspec.Struct)


def read(kind: type[T], given: dict[str, Any], where: str = "") -> T:
    """Options of `kind` from a plain dictionary; nested dictionaries become nested options."""
    _check_names(kind, given, where)
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


def _check_names(kind: type[msgspec.Struct], given: dict[str, Any], where: str) -> None:
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name, value in given.items():
        full = f"{where}.{name}" if where else name
        field = fields.get(name)
        if field is None:
            near = difflib.get_close_matches(name, fields, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(sorted(fields))
            raise ConfigError(f"unknown option {full!r}; {hint}")
        inner = field.type
        if _is_table(inner):
            if not isinstance(value, dict):
                raise ConfigError(f"option {full!r} is a table of options, not {value!r}")
            _check_names(inner, value, full)
        elif typing.get_origin(inner) is dict and isinstance(value, dict):
            kinds = typing.get_args(inner)
            for key, row in value.items() if _is_table(kinds[1]) else ():
                if not isinstance(row, dict):
                    raise ConfigError(f"option {f'{full}.{key}'!r} is a table of options, not {row!r}")
                _check_names(kinds[1], row, f"{full}.{key}")


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
