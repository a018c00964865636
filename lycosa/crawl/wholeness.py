"""Wholeness: whether the logs of a crawl hold all that is known of them. Values in, values out.

Links are sent, and snapshots sealed, after the commit. So on a sound disk nothing knows of more records of a
shard's log than the log itself holds. A partly restored backup, or a missing segment or directory of a shard, break
that; the crawl would then fetch pages twice, or skip, as received, links that it was never sent. Sources:

- a snapshot of the shard: it was taken at a position of its log, and names the sealed segments and their sizes;
- a snapshot of another shard of the same agent: how far all of them were committed when it was sealed;
- the cursors of other shards: links (`Received`) and answers (`Duplicates`) that came from a position of its log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lycosa.errors import StorageError

_SHOWN = 3


class Known(NamedTuple):
    """Evidence that a shard's log had records up to a position."""

    shard: int
    position: int
    by: str


class MissingLog(NamedTuple):
    """A log that ends before what is known of it."""

    shard: int
    end: int
    known: int
    by: str

    def __str__(self) -> str:
        return f"the log of shard {self.shard:02d} ends at record {self.end:,} and {self.by} knows {self.known:,}"


def highest(tables: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """For each file the furthest end in any of the tables."""
    found: dict[str, int] = {}
    for table in tables:
        for name, end in table.items():
            found[name] = max(end, found.get(name, 0))
    return found


def cursor_claims(
    receiver: int, cursors: Mapping[int, int], answers: Mapping[int, int] | None = None
) -> list[Known]:
    """The ends of other logs that follow from what a shard received from them."""
    rows = [*cursors.items(), *(answers or {}).items()]
    return [Known(sender, position, f"shard {receiver:02d}") for sender, position in rows]


def missing(ends: Mapping[int, int], claims: Iterable[Known]) -> list[MissingLog]:
    """The logs that are known to have had more records than they hold, each with the largest claim."""
    found: dict[int, MissingLog] = {}
    for claim in claims:
        end = ends.get(claim.shard)
        if end is not None and claim.position > max(
            end, found[claim.shard].known if claim.shard in found else 0
        ):
            found[claim.shard] = MissingLog(claim.shard, end, claim.position, claim.by)
    return [found[number] for number in sorted(found)]


def refuse(where: str, troubles: Iterable[object]) -> None:
    """Raise an error if there are any troubles: one line, with what to do."""
    told = [str(trouble) for trouble in troubles]
    if told:
        more = f"; and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
        raise StorageError(
            f"{where} lost part of its log: {'; '.join(told[:_SHOWN])}{more}."
            f" Restore the missing files from a copy, or go on without them: lycosa repair {where}"
        )
