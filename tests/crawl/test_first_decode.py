"""msgspec crashes the process if two threads are the first to decode a struct that holds others: the second finds
what is known of the struct half made. Shards recover in threads, and frames, reports and followers are read in
them, so every such struct has a decoder that is made at import.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import msgspec.inspect

import lycosa

_APART = ("isinstance", "cast")
"""Functions that take a type and decode nothing."""


def _structs(part: object) -> Iterator[type[msgspec.Struct]]:
    """The structs that a type names."""
    if isinstance(part, msgspec.inspect.StructType):
        yield part.cls
    elif isinstance(part, msgspec.Struct):
        for name in part.__struct_fields__:
            yield from _structs(getattr(part, name))
    elif isinstance(part, list | tuple):
        for one in part:
            yield from _structs(one)


def _named(module: ModuleType, expression: ast.expr) -> set[type[msgspec.Struct]]:
    """The structs that an expression of a module stands for, if it stands for a type."""
    if not isinstance(expression, ast.Name | ast.Attribute | ast.Subscript | ast.BinOp):
        return set()
    try:
        kind = eval(ast.unparse(expression), vars(module))
        return set(_structs(msgspec.inspect.type_info(kind)))
    except Exception:  # a value of the function, or no type
        return set()


def _holds_others(struct: type[msgspec.Struct]) -> bool:
    return any(
        any(_structs(msgspec.inspect.type_info(hint))) for hint in typing.get_type_hints(struct).values()
    )


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (found for found in ast.walk(node) if isinstance(found, ast.Call))


def _made_at_import(module: ModuleType, tree: ast.Module) -> set[type[msgspec.Struct]]:
    made = set()
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.Expr):
            for call in _calls(statement):
                if ast.unparse(call.func).endswith(".Decoder") and call.args:
                    made |= _named(module, call.args[0])
    return made


def test_structs_that_hold_others_have_decoders_from_the_import() -> None:
    used: dict[type[msgspec.Struct], str] = {}
    made: set[type[msgspec.Struct]] = set()
    for found in pkgutil.walk_packages(lycosa.__path__, "lycosa."):
        spec = importlib.util.find_spec(found.name)
        assert spec is not None and spec.origin is not None
        source = Path(spec.origin).read_text(encoding="utf-8")
        if "msgspec" not in source and "Decoder" not in source and "decoded(" not in source:
            continue
        module = importlib.import_module(found.name)
        tree = ast.parse(source)
        made |= _made_at_import(module, tree)
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for call in _calls(function):
                if ast.unparse(call.func) in _APART:
                    continue
                for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
                    for struct in filter(_holds_others, _named(module, argument)):
                        used[struct] = f"{found.name}:{call.lineno}"
    late = {f"{struct.__name__} at {where}" for struct, where in used.items() if struct not in made}
    assert not late
    assert len(made) > 20
    assert "lycosa.cluster.links" in sys.modules
