"""Fetches to fill page tables with."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from lycosa.pages.summary import Summary, joined, of_fetch, of_loss
from lycosa.records import NO_LINKS, Before, Fetched, Lost, Timing


def fetched(second: int, status: int = 200, digest: int = 1, **changed: Any) -> Fetched:
    """A fetch of a page at that second."""
    fields: dict[str, Any] = {
        "at": second * 1000 + 1,
        "url": "http://a.test/",
        "depth": 0,
        "hops": 0,
        "attempt": 0,
        "status": status,
        "type": "text/html",
        "charset": "utf-8",
        "size": 10,
        "length": 10,
        "digest": digest,
        "timing": Timing(),
        "address": "10.0.0.1",
        "links": NO_LINKS,
    }
    return Fetched(**{**fields, **changed})


def summed(*records: Fetched) -> Summary:
    """Their summary; their positions are 1, 2, 3 ..."""
    found = of_fetch(records[0], 1)
    for position, record in enumerate(records[1:], 2):
        found = joined(found, of_fetch(record, position))
    return found


def _summary(kind: str, position: int, second: int, digest: int, weight: int) -> Summary:
    if kind == "lost":
        return of_loss(Lost(second, "", 0, 0, "f", 1, 200, 1, 0, digest, bool(digest % 2)), position)
    status = {"page": 200, "gone": 404, "failed": 503, "confirmed": 304}[kind]
    return of_fetch(
        fetched(
            second, status, digest, before=Before.PAGE, etag="x" * (digest % 2), weight=weight, content=digest
        ),
        position,
    )


summaries = st.builds(
    _summary,
    st.sampled_from(["page", "page", "gone", "failed", "confirmed", "lost"]),
    st.integers(1, (1 << 40) - 1),
    st.integers(0, 1 << 20),
    st.integers(1, 3),
    st.sampled_from([0, 0, 1, 31]),
)
fetches = st.lists(summaries, min_size=1, max_size=12)
