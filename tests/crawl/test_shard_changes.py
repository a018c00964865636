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
FOLDS = {
    *("calendar", "revisits", "left", "links", "sites", "pages", "budgets", "yields", "joins", "totals"),
    *("cursors", "answers", "replies", "archive_ends", "content", "content_store", "changes", "settled"),
}
"""What follows the records. (The frontier's turns, and the outbox, follow the visits and the exchange besides.)"""
CHANGING = {
    *(
        "add",
        "append",
        "apply",
        "clear",
        "discard",
        "due",
        "mark",
        "mark_all",
        "note",
        "offer",
        "pop",
        "push",
    ),
    *("remove", "set", "setdefault", "thaw", "update", "withdraw"),
}
FRONTIER = {"done", "hold", "hold_all", "put", "withdraw"}
"""What records do to the frontier."""


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


def called(source: str) -> Iterator[tuple[int, str]]:
    """Where a fold of a shard is told to change: line and text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_of_shard(node.func):
            path = ast.unparse(node.func).split(".")
            at = max(n for n, name in enumerate(path[:-1]) if name in LOCAL)
            fold, does = path[at + 1], path[-1]
            changes = FRONTIER if fold == "frontier" else CHANGING if fold in FOLDS else set()
            if does in changes and (fold, does) != ("yields", "due"):
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
                source = path.read_text("utf-8")
                found += [f"{name}:{line} {text}" for line, text in (*changed(source), *called(source))]
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
    told = (
        "shard.revisits.add(row)",
        "self._shard.links.received.mark(keys)",
        "shard.frontier.put(rows, [0])",
    )
    asked = (
        "shard.revisits.next_due()",
        "shard.pages.find(key)",
        "shard.frontier.begin(now)",
        "shard.append(row)",
    )
    assert all(list(called(line)) for line in told) and not any(list(called(line)) for line in asked)
    assert all(list(changed(line)) for line in wrong) and not any(list(changed(line)) for line in right)
