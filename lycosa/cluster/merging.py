"""The statuses of several agents as the status of one crawl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from lycosa.crawl.status import Status

_LEAST = frozenset(("frontier.next_due",))
"""Meters of which the crawl's is the smallest that is not 0; of all others it is the sum."""


def merged_meters(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """The meters of several agents, by name."""
    found: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            if name in _LEAST:
                found[name] = min(value, found.get(name) or value) if value else found.get(name, 0.0)
            else:
                found[name] = found.get(name, 0.0) + value
    return dict(sorted(found.items()))


def merged(
    parts: Sequence[Status],
    *,
    at: float,
    pid: int,
    state: str,
    elapsed: float,
    pages_before: int,
    rss: int,
    memory_limit: int,
    page_limit: int,
    errors_before: Mapping[str, int],
) -> Status:
    """One status; what is the crawl's own is given. `errors_before`: those that others met in this run."""
    total = Status(
        at=at,
        pid=pid,
        state=state,
        elapsed=elapsed,
        pages=0,
        pages_run=0,
        bytes=0,
        links=0,
        duplicates=0,
        statuses={},
        skipped={},
        errors=dict(errors_before),
        pending=0,
        left_behind=0,
        deferred=0,
        visits=0,
        hosts=0,
        rss=rss,
        memory_limit=memory_limit,
        page_limit=page_limit,
        meters=merged_meters([part.meters for part in parts]),
    )
    counts = (
        *(
            "pages",
            "fetches",
            "bytes",
            "links",
            "duplicates",
            "pending",
            "left_behind",
            "deferred",
            "visits",
            "hosts",
        ),
        "rss",
    )
    for part in parts:
        for name in counts:
            setattr(total, name, getattr(total, name) + getattr(part, name))
        for name in ("statuses", "skipped", "errors"):
            table: dict[str, int] = getattr(total, name)
            for word, count in getattr(part, name).items():
                table[word] = table.get(word, 0) + count
    for name in ("statuses", "skipped", "errors"):
        setattr(total, name, dict(sorted(getattr(total, name).items())))
    total.pages_run = max(total.pages - pages_before, 0)
    total.next_due = total.meters.get("frontier.next_due", 0.0)
    return msgspec.structs.replace(total)
