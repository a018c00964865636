"""What installed packages offer to a crawl, by their entry points.

Every installed package's metadata is read for it, some 50 ms with a hundred of them: once per process and group.
"""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def entry_points(*, group: str) -> metadata.EntryPoints:
    """The entry points of a group."""
    return metadata.entry_points(group=group)
