"""A crawl that runs in this process: an agent, from its beginning to its clean end.

`Agent.run` starts visits and chores, and ends when

- nothing is pending, waiting, deferred within the horizon, in flight or under way between shards, seen twice
  without an append between (*finished*), or
- a limit of the run is reached (*limit*), or `stop` was called (*stopped*).

The end is always the same: visits under way may finish for a few seconds, then everything is committed, a
snapshot taken, and the mark of a running process removed. The next run continues from there.

An agent that has all shards is alone: it ends by itself, and keeps the mark. One of several (`Team`) has some of
the shards, which may change while it runs. It never ends by itself, since others may find links for it: a process
that sees all agents decides that, takes the snapshots, and keeps the mark.

    running     a file that exists while a process crawls: if found at the start, the last stop was unclean
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum

from lycosa.archive.writer import Archive
from lycosa.clock import Clock, milliseconds
from lycosa.crawl.acts import Act, applied, done, seeds_of
from lycosa.crawl.ahead import Longest
from lycosa.crawl.blaming import Blame
from lycosa.crawl.chores import Chores
from lycosa.crawl.config import Options
from lycosa.crawl.delivery import Exchange
from lycosa.crawl.limits import RunQuota
from lycosa.crawl.moving import Mover
from lycosa.crawl.pulse import Pulse
from lycosa.crawl.refreshing import Refreshing
from lycosa.crawl.saving import Saver
from lycosa.crawl.scheduling import Scheduler
from lycosa.crawl.shard import Shard
from lycosa.crawl.shard_set import ShardSet
from lycosa.crawl.status import Ahead, Reporter, Status, totals_of
from lycosa.crawl.steady import SteadyTask
from lycosa.crawl.totals import Totals, summed
from lycosa.crawl.underway import Underway
from lycosa.files import Files
from lycosa.meters import Meters
from lycosa.records import Link, LinkKind, Links, Seeded, Skipped

RUNNING = "running"
_SEEDS = 5_000
"""Seeds in one record: a record that is left behind is read as a whole at every return to it."""
_COLLECTED = (10_000, 5, 20)
"""How many containers more are made than freed before the young ones are collected (1 ms), how many of these
collections there are before one of the middle generation (3 ms), and how many of those before a full one, which
blocks the loop for 20 to 60 ms when 100,000 links are under way. Full ones are more than ten times as rare as by
Python's settings; all of them find next to nothing."""


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Exempt existing objects from garbage collection, and make collections of the others rare."""
    gc.freeze()
    before = gc.get_threshold()
    if is_mine := before[0] < _COLLECTED[0]:  # else another agent of this process takes care of it
        gc.set_threshold(*_COLLECTED)
    try:
        yield
    finally:
        if is_mine:
            gc.set_threshold(*before)
        gc.unfreeze()


class End(StrEnum):
    """The reason why a run ended."""

    FINISHED = "finished"
    LIMIT = "limit"
    STOPPED = "stopped"


class Agent:
    """An open crawl in this process."""

    def __init__(
        self,
        *,
        shards: ShardSet,
        visits: Scheduler,
        chores: Chores,
        saver: Saver,
        moves: Mover,
        exchange: Exchange,
        blame: Blame,
        quota: RunQuota,
        archive: Archive | None,
        clock: Clock,
        pulse: Pulse,
        meters: Meters,
        underway: Underway,
        refreshing: Refreshing | None,
        mark: Files | None,
        changed: Callable[[Options], None],
    ) -> None:
        """`underway`: the pages that are being read. `mark`: where the mark of a running process is; without one
        the agent is one of several, and does not end by itself. `changed`: passes on new options."""
        self.shards = shards
        self.visits = visits
        self.chores = chores
        self.saver = saver
        self.moves = moves
        self.exchange = exchange
        self.archive = archive
        self.meters = meters
        self.underway = underway
        self._blame = blame
        self._quota = quota
        self._clock = clock
        self._pulse = pulse
        self._refreshing = refreshing
        self._mark = mark
        self._changed = changed
        self.refused_seeds: list[tuple[str, str]] = []
        """Seeds that the scope excludes, each with the rule that does."""
        self._ending = asyncio.Event()
        self._asked: End | None = None
        self._reporter = Reporter(self.totals().pages)
        self._longest = Longest(shards, clock)
        self._cpu_before = time.process_time()  # the machine's, even if the crawl's clock is simulated
        meters.gauge("agent.cpu", lambda: time.process_time() - self._cpu_before)

    @property
    def options(self) -> Options:
        return self.shards.options

    # -- before the run

    def begin(self, seeds: Sequence[str], archive_ends: Mapping[str, int], *, unclean: bool) -> None:
        """Log new options and seeds, and complete what the last stop interrupted.

        `archive_ends` are those of all shards of the crawl. `unclean`: whether the last process that had these
        shards was interrupted.
        """
        if self.archive is not None:
            self.archive.recover(archive_ends)  # before anything is stored
        for shard in self.shards:
            if self._refreshing is not None:
                self._refreshing.mend(shard)
            self.shards.configure(shard)
        self.exchange.catch_up()
        self._sow(seeds)
        self._blame.log(self._blame.find(self.shards))
        for shard in self.shards if unclean else ():
            shard.hold_all(self.options.politeness)
        if self._mark is not None and self.options.steered.paused:
            self.visits.pause()

    def _sow(self, seeds: Sequence[str]) -> None:
        now = milliseconds(self._clock)
        new: dict[Shard, list[str]] = {}
        for url in seeds:
            shard = self.shards.of_url(url)
            if shard is None:
                continue
            judged = shard.scope.judge(url, 0)
            known = shard.knows(url)
            if not judged.inside:
                self.refused_seeds.append((url, judged.rule))
                if not known:
                    shard.append(Skipped(now, url, 0, judged.why, judged.rule))
            if not known:
                new.setdefault(shard, []).append(url)
        for owner, urls in new.items():
            for start in range(0, len(urls), _SEEDS):
                rows = (Link(url, LinkKind.SEED, False, "") for url in urls[start : start + _SEEDS])
                owner.append(Seeded(now, Links.pack(rows)))

    # -- the run

    async def run(self) -> End:
        """Crawl until the end; see the module."""
        self._quota.start()
        self._cpu_before = time.process_time()
        if self._blame.is_open or self.exchange.is_behind:
            # Durable before any page is read: a page that ended a process may end this one, too.
            await self.saver.commit()
            self._blame.forget()
        committing = self.saver.run(
            self.options.commit_seconds, self._ending, self._pulse, self._blame.forget
        )
        committer = SteadyTask(committing)
        for shard in self.shards:
            self.chores.rank_log(shard)
        with _rarely_collected():
            try:
                end = await self._loop()
            except Exception as error:
                self._pulse.fail(error)
            finally:
                self._ending.set()
                await committer  # never cancelled: a commit under way must end
                await self._wind_up()
        self._pulse.check()
        return end

    async def _loop(self) -> End:
        quiet = False
        while True:
            self._pulse.check()
            if self._asked is not None:
                return self._asked
            if self._quota.reached():
                return End.LIMIT
            now = self._clock.monotonic()
            self.chores.step()
            self.visits.start(now)
            if self._mark is not None and self._is_idle():
                # Idle twice with no append between: all that was under way has arrived and brought nothing.
                ends = [shard.log.end for shard in self.shards]
                await self.saver.commit()
                if self._is_idle() and ends == [shard.log.end for shard in self.shards]:
                    if quiet:
                        return End.FINISHED
                    quiet = True
                    continue
            quiet = False
            patience = min(self.visits.patience(now), self.chores.patience())
            await self._pulse.rest(max(patience, 0.001))  # never a busy loop, whatever the times are

    def _is_idle(self) -> bool:
        """Whether there is nothing to do, now or within the horizon."""
        if len(self.visits) or self.chores.is_busy() or self.exchange.is_behind:
            return False
        return not any(shard.has_work(self._horizon()) for shard in self.shards)

    def is_idle(self, shard: Shard) -> bool:
        """Whether there is nothing left to do for one shard, now or within the horizon."""
        number = shard.number
        if self.chores.is_busy(number) or self.shards.is_leaving(number) or self.visits.of(number):
            return False
        return not shard.has_work(self._horizon())

    def _horizon(self) -> int:
        return milliseconds(self._clock) + int(self.options.horizon * 1000)

    async def _wind_up(self) -> None:
        """Let visits finish, then save everything; a failure on the way leaves what is durable."""
        self.visits.let_end()
        await self.visits.end(grace=0.0 if self._pulse.failure else None)
        await self.chores.end_all()
        try:
            if self._pulse.failure is None:
                await self.saver.commit()
                self._blame.forget()
                await self.saver.snapshot()
                if self._mark is not None:  # the snapshot is sealed and no fetch was made since
                    self._mark.remove(RUNNING)
                    self._mark.sync_dir("")
        finally:
            await self.visits.close()
            self.underway.close()
            for shard in self.shards:
                shard.log.close()
            if self.archive is not None:
                self.archive.close()

    # -- called from outside

    def stop(self) -> bool:
        """End the run cleanly; False if already requested."""
        first = self._asked is None
        self._asked = End.STOPPED
        self.visits.let_end()
        self._pulse.wake()
        return first

    def pause(self) -> None:
        """Start no more visits until `go_on`."""
        self.visits.pause()

    def go_on(self) -> None:
        self.visits.go_on()

    def reconfigure(self, options: Options) -> None:
        """Apply changed options, of those that can change while the crawl runs."""
        self.shards.reconfigure(options)
        self._quota.change(options.limits)
        self._changed(options)
        self._pulse.wake()

    async def act(self, act: Act) -> str | None:
        """Carry out an operator's act; returns the answer to it. On return it is committed in the logs.

        None: the run is about to end, and the act is for the next. `ConfigError` if it cannot be done. A repeated
        act is not done again, except for its seeds, which may have been lost and do no harm twice.
        """
        if self._ending.is_set():
            return None
        options = self.options
        if not options.steered.has(act.id):
            options = applied(options, act)
            self.reconfigure(options)
        refused = len(self.refused_seeds)
        self._sow(seeds_of(options, act))
        if act.what == "pause":
            self.visits.pause()
        elif act.what == "go-on":
            self.visits.go_on()
        await asyncio.shield(SteadyTask(self.saver.commit()))  # it must end, even if the caller is cancelled
        if act.what == "stop":
            self.stop()
        return done(self.refused_seeds[refused:])

    def wake(self) -> None:
        """Something has arrived from outside: links, or permission to fetch more pages."""
        self._pulse.wake()

    def read_meters(self) -> dict[str, float]:
        return self.meters.read()

    def ahead(self) -> list[Ahead]:
        """The hosts with the most URLs pending."""
        return self._longest.rows()

    def status(self, state: str = "running") -> Status:
        """The present status."""
        at = self._clock.wall()
        shards = {row.number: ("", totals_of(row, self.visits.of(row.number), at)) for row in self.shards}
        return self._reporter.status(state, shards, self.read_meters(), self.options, self.ahead())

    def totals(self) -> Totals:
        """The totals of the crawl, over all runs."""
        return summed(shard.totals for shard in self.shards)
