"""`merge_kernels` once more, in plain Python."""

from __future__ import annotations

MARK, CHECK = 1, 2


def group(keys: list[int], kinds: list[int]) -> list[tuple[int, bool, int | None, int]]:
    """One row a key, ascending: marked?, its first offer, its first record of either kind."""
    rows: dict[int, list] = {}
    for record, (key, kind) in enumerate(zip(keys, kinds, strict=True)):
        if kind == CHECK:
            continue
        row = rows.setdefault(key, [False, None, record])
        if kind == MARK:
            row[0] = True
        elif row[1] is None:
            row[1] = record
    return [(key, *row) for key, row in sorted(rows.items())]


def merge(old: dict[int, int], new: dict[int, int]) -> tuple[list[tuple[int, int]], list[bool]]:
    """Keys with their states or-ed, ascending; and which of the new were known."""
    both = {key: old.get(key, 0) | new.get(key, 0) for key in old.keys() | new.keys()}
    return sorted(both.items()), [key in old for key in sorted(new)]
