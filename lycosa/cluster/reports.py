"""An agent's reports on its shards, and the end of the crawl, which the holder of shard 0 watches over.

A report is written when it has news that may decide about the end, when its numbers changed and some time has
passed, and now and then in any case (`control` defines the end, and why it takes two looks).

Before an agent answers a new round, it has copied its archive to where it is kept: when a crawl is over, the death
of an agent and its disk loses nothing. So reaching a limit takes a round as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from lycosa.clock import Clock
from lycosa.cluster.control import About, Control, Ending, Report, State, Wanted
from lycosa.cluster.held import Held, HeldShards
from lycosa.cluster.names import exchange_of
from lycosa.cluster.streaming import StreamExchange
from lycosa.crawl.agent import Agent
from lycosa.crawl.status import totals_of
from lycosa.engine.protocol import Engine, got

_NEWS = 4
"""Looks, and at least `_SECONDS`, between reports that differ in numbers only; news about the end is told at
once."""
_SECONDS = 1.0
_STALE = 10.0
"""Seconds after which a report is repeated, whether or not anything changed."""


class ShardReporter:
    """Reports on the shards that an agent holds, and detects the end."""

    def __init__(
        self,
        *,
        me: str,
        engine: Engine,
        control: Control,
        about: About,
        held: HeldShards,
        agent: Agent,
        exchange: StreamExchange,
        clock: Clock,
        state: Callable[[], State],
        noted: Callable[[State], None],
        bring: Callable[[], Awaitable[None]],
    ) -> None:
        """`state`: the crawl's, as far as it is known; `noted`: called with a newer one.

        `bring`: copies the archive to where it is kept.
        """
        self._me = me
        self._engine = engine
        self._control = control
        self._about = about
        self._held = held
        self._agent = agent
        self._exchange = exchange
        self._clock = clock
        self._state = state
        self._noted = noted
        self._bring = bring
        self._answered = 0
        """The round that our reports answer."""
        self._last = 0
        """The round that was begun when a limit was reached; 0: none."""
        self._ending = Ending(about.shards)
        self._reported: dict[int, tuple[Report, float]] = {}

    async def report(self) -> None:
        if (round_ := self._state().round) > self._answered:
            await self._bring()
            self._answered = round_
        now = self._clock.monotonic()
        for number in self._reported.keys() - self._held.keys():
            del self._reported[number]
        told: list[Report] = []
        for held in self._held.crawling():
            report = self._report_on(held)
            before, at = self._reported.get(held.number, (None, 0.0))
            news = before is None or (
                _differs(report, before) and now - at >= max(_NEWS * self._about.look, _SECONDS)
            )
            if news or now - at >= _STALE or (before is not None and _matters(report, before)):
                self._reported[held.number] = (report, now)
                told.append(report)
        await asyncio.gather(*map(self._control.report, told))  # at once, so that they arrive together, too

    async def last_word(self, held: Held) -> None:
        """Report a shard that is about to be handed over: its present numbers; of its closed exchange, the last
        ones."""
        before, _ = self._reported.get(held.number, (None, 0.0))
        if before is not None:
            now = self._report_on(held)
            await self._control.report(
                msgspec.structs.replace(now, idle=False, sent=before.sent, received=before.received)
            )

    def _report_on(self, held: Held) -> Report:
        shard, number = held.shard, held.number
        assert shard is not None
        rate = held.pace.add(self._clock.monotonic(), shard.totals.fetched)
        committed = shard.log.committed == shard.log.end
        return Report(
            shard=number,
            agent=self._me,
            epoch=held.holding.epoch,
            round=self._answered,
            end=shard.log.end,
            committed=shard.log.committed,
            received=max(
                self._exchange.received(number), shard.received
            ),  # the exchange may be closed already
            sent=self._exchange.sent(number),
            acts=self._agent.options.steered.ids if shard.log.committed > shard.configured else (),
            idle=committed and self._exchange.is_quiet(number) and self._agent.is_idle(shard),
            totals=totals_of(shard, self._agent.visits.of(number), self._clock.wall(), rate),
        )

    async def look_for_end(self) -> None:
        """Watch over the end and the limits, if we hold shard 0."""
        held, known = self._held.get(0), self._state()
        if held is None or held.shard is None or known.finished or known.wanted is not Wanted.RUNNING:
            return
        limits = self._agent.options.limits
        limited = limits.pages or limits.bytes or limits.seconds
        if not limited and not all(each.idle for each, _ in self._reported.values()):
            self._ending.look({}, {}, known.round)  # not even ours are idle: no need to ask for others
            return
        state = await self._control.state()
        reports = {n: row for n, row in (await self._control.reports()).items() if n < self._about.shards}
        if self._limit_reached(reports, state):
            if not self._last:
                self._noted(await self._control.next_round(state.round + 1))
                self._last = state.round + 1  # only now: if the call above failed, it is repeated
            elif len(reports) == self._about.shards and all(
                each.round >= self._last for each in reports.values()
            ):
                await self._control.finish("limit", state.round)
            return
        self._last = 0
        if len(reports) < self._about.shards or not all(each.idle for each in reports.values()):
            self._ending.look({}, {}, state.round)
            return
        last = await asyncio.gather(
            *(self._engine.stream(exchange_of(number)).ends() for number in range(self._about.shards))
        )
        ends = {number: got(row).newest for number, row in enumerate(last)}
        verdict = self._ending.look(reports, ends, state.round)
        if verdict.over:
            await self._control.finish("finished", state.round)
        elif verdict.round > state.round:
            self._noted(await self._control.next_round(verdict.round))

    def _limit_reached(self, reports: Mapping[int, Report], state: State) -> bool:
        limits = self._agent.options.limits
        if limits.seconds and state.since and self._clock.wall() - state.since / 1000 >= limits.seconds:
            return True
        rows = list(reports.values())
        if limits.bytes and sum(row.totals.bytes for row in rows) >= limits.bytes:
            return True
        if self._agent.options.refresh.continuous:
            return False  # known pages continue to be fetched again
        pages = sum(row.totals.pages for row in rows)
        # Uncommitted records could still be lost, and their pages be fetched again.
        return bool(limits.pages) and pages >= limits.pages and all(row.end == row.committed for row in rows)


def _matters(report: Report, before: Report) -> bool:
    """Whether the end of the crawl may depend on the news in a report."""
    if (report.epoch, report.round, report.idle) != (before.epoch, before.round, before.idle):
        return True
    if report.acts != before.acts:
        return True  # the operator waits for its acts
    return report.idle and _differs(report, before)


def _differs(report: Report, before: Report) -> bool:
    """Whether a report has any news besides the time."""
    plain = msgspec.structs.replace
    numbers = plain(report.totals, at=before.totals.at, rate=before.totals.rate)
    return plain(report, totals=numbers) != before
