"""Pages that a process was reading when it ended: what is logged about them, and when their marks are removed.

See `underway` for the marks. They are handled by the agent that has the shard of a marked URL, before the URL is
visited: the log record must be durable by then, since the page may end this process, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lycosa.clock import Clock, milliseconds
from lycosa.crawl.shard import Shard
from lycosa.crawl.splitting import Splitter
from lycosa.crawl.underway import Mark, Underway, verdict
from lycosa.log.reader import LogReader
from lycosa.records import Record, Skipped
from lycosa.url.parts import host_of

Blamed = list[tuple[Mark, Shard, list[Record]]]
"""Marks, with the records that their shards' logs have of their URLs."""


class Blame:
    """Handles the marks for one agent; see the module."""

    def __init__(
        self, underway: Underway, splitter: Splitter, clock: Clock, told: Callable[[str], None] | None
    ) -> None:
        self._underway = underway
        self._splitter = splitter
        self._clock = clock
        self._told = told or (lambda text: None)
        self._logged: list[tuple[Mark, Shard, int]] = []
        """Marks, with the position up to which the log must be committed before they are removed."""

    def find(self, shards: Sequence[Shard]) -> Blamed:
        """Marked pages of these shards. Reads all of a shard's log: in a thread, if the crawl runs."""
        found: Blamed = []
        for mark in sorted(self._underway.left(), key=lambda mark: -mark.at):
            url = mark.waiting.url
            number = self._splitter.shard_of(host_of(url))
            shard = next((each for each in shards if each.number == number), None)
            if shard is not None:
                rows = LogReader(shard.log.reader.files).find(url.encode("ascii"))
                found.append((mark, shard, [row for _, row in rows if getattr(row, "url", "") == url]))
        return found

    def log(self, found: Blamed) -> None:
        """Log the verdicts on the pages. Of several marks of one URL the last counts."""
        told: set[str] = set()
        for mark, shard, records in found:
            url = mark.waiting.url
            record = verdict(mark, records, milliseconds(self._clock)) if url not in told else None
            told.add(url)
            if record is not None:
                shard.append_apart(record)
                once = "skipped" if isinstance(record, Skipped) else "tried once more"
                self._told(f"a process ended while it was reading {url}: the page is {once}")
            self._logged.append((mark, shard, shard.log.end))

    @property
    def is_open(self) -> bool:
        """Whether anything was logged that may not be durable yet."""
        return bool(self._logged)

    def forget(self) -> None:
        """Remove the marks of pages whose records are durable."""
        for row in [row for row in self._logged if row[1].log.committed >= row[2]]:
            self._underway.forget(row[0])
            self._logged.remove(row)

    def drop(self, shard: Shard) -> None:
        """The shard is another agent's: its marks stay for that agent."""
        self._logged[:] = [row for row in self._logged if row[1] is not shard]
