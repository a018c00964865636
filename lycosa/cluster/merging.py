"""What the agents of one machine say, as the status of one crawl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lycosa.cluster.control import Report
from lycosa.crawl.status import Status

_LEAST = frozenset(("frontier.next_due",))
"""Meters of which the crawl's is the smallest that is not 0; of all others it is the sum."""
_ERROR = "error."


def merged_meters(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
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
    reports: Sequence[Report],
    meters: Mapping[str, float],
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
    """One status: the reports on all shards, and the meters of all agents. `errors_before`: those that others met
    in this run."""
    totals = [report.totals for report in reports]
    pages = sum(row.pages for row in totals)
    errors = {name.removeprefix(_ERROR): int(n) for name, n in meters.items() if name.startswith(_ERROR)}
    return Status(
        at=at,
        pid=pid,
        state=state,
        elapsed=elapsed,
        pages=pages,
        pages_run=max(pages - pages_before, 0),
        fetches=sum(row.fetches for row in totals),
        bytes=sum(row.bytes for row in totals),
        links=sum(row.links for row in totals),
        duplicates=sum(row.duplicates for row in totals),
        statuses=_added([row.statuses for row in totals]),
        skipped=_added([row.skipped for row in totals]),
        errors=_added([errors_before, errors]),
        pending=sum(row.pending for row in totals),
        left_behind=sum(row.left_behind for row in totals),
        deferred=sum(row.deferred for row in totals),
        next_due=meters.get("frontier.next_due", 0.0),
        visits=int(meters.get("visits.active", 0)),
        hosts=int(meters.get("frontier.hosts", 0)),
        rss=rss,
        memory_limit=memory_limit,
        page_limit=page_limit,
        meters=dict(meters),
    )


def _added(tables: Sequence[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for table in tables:
        for word, count in table.items():
            found[word] = found.get(word, 0) + count
    return dict(sorted(found.items()))
