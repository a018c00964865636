"""The folds of a shard are changed by the shard, whose records they follow, and by nobody else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec

import lycosa
from lycosa.crawl.sites import Site

PACKAGE = Path(lycosa.__file__).parent
ROOMS = ("crawl", "cluster")
OWN = {"crawl/shard.py", "crawl/admission.py", "crawl/sites.py"}
"""The shard, and its parts."""
NAMES = {"shard", "_shard"}
"""What a shard is called where it is somebody's; and, besides,"""
LOCAL = NAMES | {"sender", "receiver", "owner"}
"""where it is handled."""


def changed(source: str) -> Iterator[tuple[int, str]]:
    """Where something of a shard is set: line and text."""
    fields = {field.name for field in msgspec.structs.fields(Site)}
    for node in ast.walk(ast.parse(source)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = list(node.targets)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in [each for whole in targets for each in ast.walk(whole)]:
            if not isinstance(target, ast.Attribute | ast.Subscript) or isinstance(target.ctx, ast.Load):
                continue
            if _is_of_shard(target) or _is_of_site(target, fields):
                yield node.lineno, ast.unparse(node)


def _is_of_shard(target: ast.Attribute | ast.Subscript) -> bool:
    """`shard.x`, `self._shard.x[...]`, `turn.shard.x.y` are; `self._shard` and `shards[...]` are not."""
    inner = target.value
    while isinstance(inner, ast.Attribute | ast.Subscript):
        if isinstance(inner, ast.Attribute) and inner.attr in NAMES:
            return True
        inner = inner.value
    return isinstance(inner, ast.Name) and inner.id in LOCAL


def _is_of_site(target: ast.Attribute | ast.Subscript, fields: set[str]) -> bool:
    """A field of an entry of the site table, of whatever is not ourselves."""
    if not isinstance(target, ast.Attribute) or target.attr not in fields - {"pages", "asked", "unused"}:
        return False
    return not (isinstance(target.value, ast.Name) and target.value.id in ("self", "turn"))


def test_nobody_else_sets_what_a_shard_has() -> None:
    found = []
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            name = path.relative_to(PACKAGE).as_posix()
            if name not in OWN:
                found += [f"{name}:{line} {text}" for line, text in changed(path.read_text("utf-8"))]
    assert not found


def test_what_is_looked_for_is_found() -> None:
    wrong = (
        "shard.replies = []",
        "self._shard.cursors[3] = 7",
        "turn.shard.totals.pages += 1",
        "del held.shard.archive_ends[name]",
        "host.dns_failures = 0",
    )
    right = ("self._shard = shard", "shards[3] = shard", "turn.crawl_delay = 2.0", "held.shard = shard")
    assert all(list(changed(line)) for line in wrong) and not any(list(changed(line)) for line in right)
