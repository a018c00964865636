"""What installed packages offer to a crawl, by their entry points.

Every installed package's metadata is read for it, some 50 ms with a hundred of them: once per process and group.
What reads it (`importlib.metadata`, and with it `email`) is loaded only then.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints


@cache
def entry_points(*, group: str) -> EntryPoints:
    """The entry points of a group."""
    from importlib import metadata

    return metadata.entry_points(group=group)
