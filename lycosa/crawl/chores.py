"""An agent's work for its shards besides visits, each chore in a task of its own, most of it in threads:

    merge       the store answers for some of the URLs that wait in it
    fetch       a record that was left behind is read
    rescope     a slice of the pass over a shard's log after a change of scope
    survey      a continuous crawl surveys its pages, or gives them due times; URLs held by a trap come back
    rank        ranks are calculated, or rebuilt from the logs

One of each kind runs at a time: of the first two one per shard, of the others one per agent. `step` starts what is
due. None starts for a shard that is leaving, and `end` waits for those under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from enum import Enum, auto

from lycosa.clock import Clock, milliseconds
from lycosa.crawl.admission import ANSWERS
from lycosa.crawl.content_seen import ContentSeen
from lycosa.crawl.pulse import Pulse
from lycosa.crawl.ranking import Ranker
from lycosa.crawl.refreshing import Refreshing
from lycosa.crawl.rescoping import Rescoping
from lycosa.crawl.shard import Shard
from lycosa.crawl.shard_set import ShardSet
from lycosa.crawl.steady import SteadyTask
from lycosa.log.log_pass import LogPass
from lycosa.records import Record

LOW_WATER = 1_000
"""Below this many pending URLs a shard has its store answer, or a small crawl would look finished."""
_ALL = -1
"""In place of a shard's number: the whole agent."""


class Chore(Enum):
    """The kinds of chores; see the module."""

    MERGE = auto()
    FETCH = auto()
    RESCOPE = auto()
    SURVEY = auto()
    RANK = auto()


class Chores:
    """Runs the chores of one agent; see the module."""

    def __init__(
        self,
        *,
        shards: ShardSet,
        clock: Clock,
        pulse: Pulse,
        visits: Callable[[], int],
        ranker: Ranker | None,
        refreshing: Refreshing | None,
        content_seen: ContentSeen,
    ) -> None:
        """`visits`: returns how many are under way. `refreshing`: set if the crawl is continuous."""
        self._shards = shards
        self._clock = clock
        self._pulse = pulse
        self._visits = visits
        self._ranker = ranker
        self._refreshing = refreshing
        self._content_seen = content_seen
        self._tasks: dict[tuple[Chore, int], asyncio.Task[None]] = {}
        self._unranked: list[tuple[Shard, int]] = []
        """Shards whose logs, up to a position, are not yet in the ranks."""
        self._rescopings: dict[int, Rescoping] = {}
        self._slicing = asyncio.Lock()
        """One slice of a log is read for ranks at a time, and none while a shard leaves."""

    def _start(self, chore: Chore, number: int, work: Awaitable[bool | None]) -> None:
        made = asyncio.create_task if chore is Chore.RANK else SteadyTask
        self._tasks[chore, number] = made(self._do(chore, number, work))

    async def _do(self, chore: Chore, number: int, work: Awaitable[bool | None]) -> None:
        news: bool | None = True
        try:
            news = await work
        except Exception as error:
            self._pulse.fail(error)
        finally:
            del self._tasks[chore, number]
            if news is not False:
                self._pulse.wake()

    def is_busy(self, number: int | None = None) -> bool:
        """Whether a chore is under way that may bring URLs (to a shard)."""
        if number is not None:
            return (Chore.MERGE, number) in self._tasks
        return any(chore in (Chore.MERGE, Chore.RESCOPE) for chore, _ in self._tasks)

    async def end(self, number: int) -> None:
        """Wait until no thread reads files of a shard that is leaving."""
        while own := [task for (_, at), task in self._tasks.items() if at == number]:
            await asyncio.wait(own)
        if common := [
            task for (chore, at), task in self._tasks.items() if at == _ALL and chore is not Chore.RANK
        ]:
            await asyncio.wait(common)
        async with self._slicing:
            self._end_rescoping(number)

    async def end_all(self) -> None:
        ranking = self._tasks.get((Chore.RANK, _ALL))
        if ranking is not None:
            ranking.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    # -- what is due

    def step(self) -> None:
        """Start the chores that are due."""
        now_ms = milliseconds(self._clock)
        for shard in self._shards:
            shard.release_due(now_ms)
            if not self._shards.is_leaving(shard.number):
                self._tend(shard, now_ms)
        self._rescope()
        self._rank()
        self._survey()

    def _tend(self, shard: Shard, now_ms: int) -> None:
        number = shard.number
        if self._refreshing is not None:
            self._refreshing.release(shard, now_ms)
        if shard.admission.replenish():
            self._pulse.wake()
        if shard.admission.coming is not None and (Chore.FETCH, number) not in self._tasks:
            self._start(Chore.FETCH, number, self._fetch(shard, shard.admission.coming[1].position))
        low = shard.links.found.waiting and shard.frontier.pending < LOW_WATER
        if (low or shard.links.found.due) and (Chore.MERGE, number) not in self._tasks:
            self._start(Chore.MERGE, number, self._merge(shard))

    def patience(self) -> float:
        """Seconds until something that is deferred is due."""
        now_ms = milliseconds(self._clock)
        timeout = float("inf")
        for shard in self._shards:
            due = shard.calendar.next_due()
            if due is not None and not shard.is_full:  # if it is full, what is due waits for room
                timeout = min(timeout, (due - now_ms) / 1000)
            if self._refreshing is not None and (due := shard.revisits.next_due()) is not None:
                timeout = min(timeout, max((due - now_ms) / 1000, self._refreshing.patience_for(1)))
        return timeout

    async def _fetch(self, shard: Shard, position: int) -> None:
        """Load a record that was left behind into memory."""
        shard.log.keep(await asyncio.to_thread(shard.log.fetch, position))

    async def _merge(self, shard: Shard) -> None:
        merge = shard.links.found.plan()
        if merge is None:
            return
        try:
            await asyncio.to_thread(merge.run)
        except BaseException:
            shard.links.found.abandon(merge)
            raise
        shard.merged(merge)
        more = True
        while more:
            more = shard.admission.put_answered(ANSWERS)
            await asyncio.sleep(0)

    # -- a change of scope

    def _rescope(self) -> None:
        """Start the next slice of a pass over the log of a shard whose scope changed."""
        for number, known in list(self._rescopings.items()):
            if not known.is_wanted or self._shards.find(number) is not known.shard:
                self._end_rescoping(number)
        for shard in self._shards:
            number, change = shard.number, shard.rescoping
            if change is not None and number not in self._rescopings and not self._shards.is_leaving(number):
                self._rescopings[number] = Rescoping(shard, change, self._clock)
        if self._rescopings and (Chore.RESCOPE, _ALL) not in self._tasks:
            self._start(Chore.RESCOPE, _ALL, self._pass_on())

    async def _pass_on(self) -> bool:
        """Do one slice for the first shard, in turn, that need not wait for a commit or for room."""
        for number, rescoping in list(self._rescopings.items()):
            if number not in self._rescopings or self._shards.is_leaving(number) or not rescoping.is_wanted:
                continue
            self._rescopings[number] = self._rescopings.pop(number)  # moved to the end of the turn
            if await rescoping.step():
                return True
        return False

    def _end_rescoping(self, number: int) -> None:
        rescoping = self._rescopings.pop(number, None)
        if rescoping is not None:
            rescoping.close()

    # -- ranks

    def rank_log(self, shard: Shard) -> None:
        """Add a shard's log, up to its present end, to the ranks: their fold has no snapshot."""
        self._unranked.append((shard, shard.log.committed))

    def _rank(self) -> None:
        ranker = self._ranker
        if ranker is None or (Chore.RANK, _ALL) in self._tasks:
            return
        pages = sum(shard.totals.pages for shard in self._shards)
        if self._unranked:
            ends = self._unranked.copy()
            self._unranked.clear()
            self._start(Chore.RANK, _ALL, ranker.rebuild(self._slices(ends), pages))
        elif ranker.due(pages, self._visits(), self._shards.options.visits):
            frontiers = [shard.frontier for shard in self._shards]
            self._start(Chore.RANK, _ALL, ranker.recalculate(frontiers))

    async def _slices(self, ends: Sequence[tuple[Shard, int]]) -> AsyncIterator[list[Record]]:
        """The records of some shards' logs, each up to a position, as threads read them."""
        for shard, end in ends:
            reading = LogPass(shard.log.reader.files)
            while reading.position < end:
                async with self._slicing:
                    if self._shards.is_leaving(shard.number) or self._shards.find(shard.number) is not shard:
                        break  # its files may have been removed
                    rows = await asyncio.to_thread(reading.take_records, end)
                yield [record for _, record in rows]

    # -- pages to be fetched again

    def _survey(self) -> None:
        if (Chore.SURVEY, _ALL) in self._tasks:
            return
        for shard in self._shards:
            if 0 < shard.returning < shard.log.committed and not self._shards.is_leaving(shard.number):
                self._start(Chore.SURVEY, _ALL, self._content_seen.bring_back(shard))
                return
        if self._refreshing is None:
            return
        for shard in self._shards:
            if len(shard.unscheduled) == 2 and not self._shards.is_leaving(shard.number):
                self._start(Chore.SURVEY, _ALL, self._refreshing.schedule(shard))
                return
        if self._refreshing.survey_due:
            self._start(Chore.SURVEY, _ALL, self._refreshing.survey())
