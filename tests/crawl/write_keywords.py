"""Writes `lycosa/crawl/keywords.py`, the options as type checkers see them, from the options themselves.

    python -m tests.crawl.write_keywords

`test_keywords` fails while the file is not what this writes.
"""

from __future__ import annotations

import typing
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal

import msgspec

import lycosa
from lycosa.crawl.config import Options
from lycosa.crawl.splitting import SplitterOptions

PLACE = Path(lycosa.__path__[0], "crawl", "keywords.py")
_NOT_FOR_PEOPLE = {"near", "near_files", "steered"}
"""Options that the program keeps by itself."""
_HEAD = '''"""The options of a crawl as keywords of `lycosa.Crawl`, for type checkers.

Written by `python -m tests.crawl.write_keywords` from the options' structs: change those. What is left out has the
default of its struct.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict
'''


def shown(kind: Any) -> str:
    """A struct's field's type as a caller may give it."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return named(kind)
    if origin is tuple:
        assert args[1:] == (...,), kind
        return f"list[{shown(args[0])}] | tuple[{shown(args[0])}, ...]"
    if origin is dict:
        return f"Mapping[{shown(args[0])}, {shown(args[1])}]"
    if origin is Literal:
        return "Literal[" + ", ".join(f'"{value}"' for value in args) + "]"
    if origin is typing.Union or origin is UnionType:
        return " | ".join(map(shown, args))
    if kind is NoneType:
        return "None"
    assert kind in (int, float, str, bool), f"say how {kind} is shown"
    return str(kind.__name__)


def named(kind: type[msgspec.Struct]) -> str:
    return "CrawlKeywords" if kind is Options else kind.__name__.removesuffix("Options") + "Keywords"


def classes(kind: type[msgspec.Struct], done: dict[str, str]) -> None:
    """The class of a struct, after those of the structs in it."""
    about = (kind.__doc__ or "").splitlines()[0]
    lines = [f"class {named(kind)}(TypedDict, total=False):", f'    """{about}"""', ""]
    for field in msgspec.structs.fields(kind):
        if field.name in _NOT_FOR_PEOPLE:
            continue
        for inner in (field.type, *typing.get_args(field.type)):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct) and named(inner) not in done:
                classes(inner, done)
        lines.append(f"    {field.name}: {shown(field.type)}")
    done[named(kind)] = "\n".join(lines)


def written() -> str:
    done: dict[str, str] = {}
    classes(Options, done)
    classes(SplitterOptions, done)
    return _HEAD + "".join(f"\n\n{text}\n" for text in done.values())


if __name__ == "__main__":
    PLACE.write_text(written(), encoding="utf-8")
