"""Coming back: how a continuous crawl carries out the decisions of `lycosa.refresh`.

**A fetched page** gets a `Deferred(refresh)` right after its Fetched, with the time at which it is due and the
reason (`comes_back`). The entry waits in the shard's calendar of revisits. Since a due time depends on the price of
a fetch, which changes, an entry comes up halfway, is judged again, and waits on if it is early; that is not logged.

**Due pages** become pending (`release`), as many as the budget allows, the earliest due first. An entry
older than the last fetch of its page is dropped: the page was fetched again for another reason.

**A survey** of the page tables, periodic and in a thread, learns the priors of sites, finds the price at
which the pages ask for as many fetches as are available, and computes how fresh the collection is.

**Hints** (`lycosa.crawl.hearing`): sitemaps, feeds, lifetimes and pages that newly link a page move its due time,
by what such hints have been worth on its site; and a page that leads to new ones is worth more.

**Pages that are gone** (4xx) are due again after as long as they have been gone, a day at least. **An unreachable
host** rests, an hour at first and twice as long after each further failure; its pages wait without being requested,
except one.

**The budget**: see `lycosa.refresh.budget`.

**The beginning.** Pages fetched while the crawl was not continuous have no due time (`Shard.unscheduled`): a pass
over the log gives them one. A crash can leave a Fetched without its Deferred, but only as the last record:
it gets one at the start."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import numpy as np

from lycosa.clock import Clock, milliseconds
from lycosa.crawl.harvest import Earlier
from lycosa.crawl.hearing import Hearing
from lycosa.crawl.shard import Shard
from lycosa.frontier import Order
from lycosa.log.log_pass import LogPass
from lycosa.pages.rows import NO_ROWS, Rows
from lycosa.pages.summary import Summary
from lycosa.records import Before, Deferred, Fetched, Waiting, Why
from lycosa.refresh import importance
from lycosa.refresh.budget import Budget
from lycosa.refresh.figures import GONE, Figures, columns, judged
from lycosa.refresh.hints import effective
from lycosa.refresh.options import Policy, RefreshOptions
from lycosa.refresh.priors import Priors
from lycosa.refresh.rates import DAY, DEFAULT, Looks, Weights, posterior, rate
from lycosa.refresh.value import freshness, intervals, price
from lycosa.url.parts import host_of, site_of

SAMPLE = 100_000
"""Approximate number of pages of an agent that a survey examines."""
_AGAIN = 600.0
_FEW = 50
"""A survey is due after this many seconds, or fetches (or a fifth of the pages, if that is more)."""
_FIRST = 10.0
"""Seconds after which the first survey takes place."""
_AT_ONCE = 256
_EARLY, _PART = 60.0, 0.1
"""A page that is due within this many seconds, or within this part of its interval, may as well be fetched now."""
_HOUR = 3_600.0
_REST = 30 * DAY
_HOSTS = 10_000
_MOST_GAIN = 4.0
_STEERED = 100.0
"""Fetches that must have been available before it counts how many were made."""


class Refreshing:
    """Decides for one agent when pages are fetched again; see the module."""

    def __init__(
        self, options: RefreshOptions, shards: Sequence[Shard], order: Order, clock: Clock, size: int = 1
    ) -> None:
        """`size`: how many agents share the budget."""
        self._options = options
        self._policy = Policy(options.policy)
        self._shards = shards
        self._order = order
        self._clock = clock
        self._priors = Priors()
        self._price = 0.0
        self.figures: Figures | None = None
        self._surveyed = clock.monotonic()
        self._since = 0  # fetches since then
        self._came = 0  # fetches of known pages since the price was steered
        self._steered_at = clock.monotonic()
        self._gain = 1.0
        self._budget = Budget(options, clock.monotonic(), size)
        self._resting: dict[str, tuple[int, int]] = {}
        self._hearing = Hearing()
        self._out: dict[int, int] = {}  # when pages were called that have not been fetched since

    # -- after a fetch

    def weigh(self, waiting: Waiting) -> int:
        """The importance of a page."""
        kind = self._options.importance
        if kind == "depth":
            return importance.by_depth(waiting.depth)
        if kind == "equal":
            return importance.ONE
        return max(importance.ONE - min(self._order.levels([waiting], None)[0], 15), importance.LEAST)

    def comes_back(
        self, shard: Shard, record: Fetched, earlier: Earlier | None = None, held: float = 0.0
    ) -> Deferred:
        """When the page of a Fetched that was just logged is due again, and why.

        `earlier`: what was known of it; `held`: seconds for which the answer is said to be valid."""
        key = shard.keyer.key(record.url)
        found = shard.pages.find(key)
        assert found is not None
        self._note(record, found)
        self._out.pop(key, None)
        now = milliseconds(self._clock)
        old, expected = (
            (None, 0.0) if earlier is None else (earlier.record, self._expected(key, earlier, now))
        )
        for other in self._hearing.hear(shard, record, key, found, expected=expected, old=old, held=held):
            if (known := shard.pages.find(other)) is not None:
                self._hearing.call(shard, other, self._due(other, known, now)[0])
        due, why = self._due(key, found, now)
        site = site_of(record.url)
        return Deferred(
            *(record.at, record.url, site, record.depth, 0, 0, Why.REFRESH, due, why), before=Before.PAGE
        )

    def _note(self, record: Fetched, found: Summary) -> None:
        self._resting.pop(host_of(record.url), None)
        known = record.before is Before.PAGE
        self._since += 1
        self._came += known
        if known:
            gained = found.changes > 0 and found.changed == found.last
        else:
            gained = record.status < 300 and not record.duplicate
        self._budget.note(known, gained, record.size)

    def _due(self, key: int, found: Summary, now: int) -> tuple[int, str]:
        """When a page is due, in milliseconds, and why."""
        options = self._options
        if found.failures:
            wait = min(_HOUR * 2.0 ** min(found.failures, 20), options.longest)
            return now + int(wait * 1000), f"it failed {found.failures} times in a row"
        if found.status == 4:
            gone = found.last - found.changed
            wait = min(max(gone, DAY), options.longest)
            return (found.last + int(wait)) * 1000, f"it has been gone for {_span(gone)}"
        belief = self._belief(key, found)
        weight = importance.importance_of([found.weight]) * self._hearing.hubs.factor(key)
        wait = float(intervals(belief, weight, self.price, self._policy)[0])
        wait, hint = self._hinted(key, found.last, now / 1000, belief, wait)
        wait = min(max(wait, options.shortest), options.longest)
        seen = f"{found.changes} changes seen in {found.fetches} fetches"
        often = f"it changes every {_span(1 / float(rate(belief)[0]))}"
        return (found.last + int(wait)) * 1000, f"{often} ({seen}), importance {weight[0]:.2g}{hint}"

    def _belief(self, key: int, found: Summary) -> Weights:
        """The estimated distribution of a page's rate of change."""
        looks = Looks.of(found.still, max(found.last - found.first - found.still, 0), found.changes)
        return posterior(looks, self._priors.of(np.array([key >> 48], np.int64)))

    def _expected(self, key: int, earlier: Earlier, now: int) -> float:
        """The probability that a page had changed before it was fetched now, by its rate alone."""
        found = earlier.summary
        if found is None or not found.fetches:
            return 0.0
        return 1 - float(
            freshness(self._belief(key, found), np.array([max(now / 1000 - found.last, 0.0)]))[0]
        )

    def _hinted(self, key: int, last: int, now: float, belief: Weights, wait: float) -> tuple[float, str]:
        """The seconds after which a page is due, and the hints for it: when its effective age is `wait`."""
        hints, site, since = self._hearing.hints, key >> 48, max(now - last, 0.0)
        ratio, why = hints.ratio(site, key, now)
        if self._policy is not Policy.VALUE or ratio == 1.0 or not since:
            return wait, ""
        moved = wait + since - effective(belief, since, ratio)
        if (until := hints.expires(site, key, now)) is not None:
            moved = min(moved, max(until - last, wait))
        return max(moved, 0.0), f"; {why}" if why and moved < wait else ""

    @property
    def price(self) -> float:
        """The price of a fetch according to the last survey; before the first, as if nothing were known of any
        page."""
        if not self._price:
            pages = max(self.pages, 1)
            each = np.ones(1)
            self._price = price(DEFAULT[None, :], each, self._rate / pages, self._policy)
        return self._price

    @property
    def pages(self) -> int:
        return sum(shard.totals.pages for shard in self._shards)

    # -- after a failure

    def postponed(self, waiting: Waiting, down: bool, detail: str) -> Deferred:
        """The deferral of a known page that could not be fetched now; `down`: its whole host is unreachable."""
        now, host = milliseconds(self._clock), host_of(waiting.url)
        wait = min(_HOUR * 2.0 ** min(waiting.attempt, 20), self._options.longest)
        due = now + int(wait * 1000)
        if down and (until := self.resting(host)) is None:
            failures = self._resting.pop(host, (0, 0))[0]
            due = now + int(min(_HOUR * 2.0**failures, _REST) * 1000)
            if len(self._resting) >= _HOSTS:
                del self._resting[next(iter(self._resting))]
            self._resting[host] = (min(failures + 1, 20), due)
        elif down and until is not None:
            due = until
        row = (now, waiting.url, site_of(waiting.url), waiting.depth, 0, waiting.attempt, Why.REFRESH, due)
        return Deferred(*row, detail[:300], before=Before.PAGE)

    def resting(self, host: str) -> int | None:
        """The time until which an unreachable host is not asked for known pages; None: it may be asked."""
        found = self._resting.get(host)
        return found[1] if found is not None and found[1] > milliseconds(self._clock) else None

    # -- the budget

    @property
    def _rate(self) -> float:
        return self._budget.rate(self.pages, self._clock.monotonic())

    def patience_for(self, kind: int) -> float:
        """Seconds until the budget allows another fetch of a new URL (0) or of a known page (1); one at least."""
        return self._budget.patience(kind, self.pages, self._clock.monotonic())

    def may_discover(self) -> bool:
        """Whether a new URL may be fetched now; if so, it is counted as fetched."""
        return self._budget.take_new(self.pages, self._clock.monotonic())

    # -- due pages

    def release(self, shard: Shard, now_ms: int) -> None:
        """Make due pages pending, as many as the budget and the shard's memory allow."""
        dues = (shard.revisits.next_due(), self._hearing.next_due(shard))
        if not any(due is not None and due <= now_ms for due in dues):
            return
        self._budget.fill(self.pages, self._clock.monotonic())
        items = self._answer_calls(shard, now_ms)
        looked, room = 0, shard.room_for_due()
        while (
            looked < _AT_ONCE and (most := min(self._budget.known, room - len(items), _AT_ONCE - looked)) > 0
        ):
            rows = shard.pages_due(now_ms, most)
            if not rows:
                break
            looked += len(rows)
            for row in rows:
                key = shard.keyer.key(row.url)
                if self._is_due(shard, row, key, now_ms):
                    items.append(Waiting(row.url, key, row.depth, row.hops, row.attempt, Before.PAGE))
                    self._budget.take_known()
        if items:
            shard.come_back(items)

    def _answer_calls(self, shard: Shard, now: int) -> list[Waiting]:
        """Pages that a hint has made due; see `lycosa.crawl.hearing`."""
        items: list[Waiting] = []
        for key in self._hearing.due(shard, now) if self._budget.known and shard.room_for_due() else ():
            found = shard.pages.find(key)
            if (
                key in self._out
                or found is None
                or not found.position
                or found.failures
                or found.status == GONE
            ):
                continue
            due = self._due(key, found, now)[0]
            if not _is_near(due, found.last, now):
                continue  # it was fetched meanwhile, or the price has risen: its calendar entry applies
            if not shard.log.holds(found.position):
                shard.log.keep(shard.log.fetch(found.position))
            record = shard.log.read(found.position)
            if not isinstance(record, Fetched) or self.resting(host := host_of(record.url)) is not None:
                continue
            if self._budget.host_waits(host, now) is None:
                items.append(Waiting(record.url, key, record.depth, 0, 0, Before.PAGE))
                if len(self._out) >= _HOSTS:
                    del self._out[next(iter(self._out))]
                self._out[key] = now
                self._budget.take_known()
        return items

    def _is_due(self, shard: Shard, row: Deferred, key: int, now: int) -> bool:
        """Whether an entry's page is to be fetched; if not, it waits on, unless the entry is out of date."""
        found = shard.pages.find(key)
        if found is None or found.last > row.at // 1000 + 1:
            return False
        if row.at <= self._out.get(key, 0):
            return False  # it was called after that, and is under way
        host = host_of(row.url)
        due = self.resting(host)
        if due is None and not row.attempt:
            due = self._due(key, found, now)[0]
            if _is_near(due, found.last, now):
                due = None
        if due is None:
            due = self._budget.host_waits(host, now)
        if due is None:
            return True
        wait = max(due - now, 1000)
        due = due if wait < 6 * _HOUR * 1000 else now + wait // 2
        shard.put_off(
            Deferred(
                *(row.at, row.url, row.site, row.depth, row.hops, row.attempt, Why.REFRESH, due, row.detail),
                before=Before.PAGE,
            )
        )
        return False

    # -- surveys

    @property
    def survey_due(self) -> bool:
        if not self._since:
            return False
        if self.figures is None and self._clock.monotonic() - self._surveyed >= _FIRST:
            return True
        if self._since >= max(_FEW, self.pages // 5):
            return True
        return self._clock.monotonic() - self._surveyed >= _AGAIN

    async def survey(self) -> None:
        """Examine the page tables; learn, and set the price."""
        pages = self.pages
        fetches = self._steered(self._rate)
        step = max(pages // SAMPLE, 1)
        tables = [shard.pages.rows() for shard in self._shards]
        self._surveyed, self._since = self._clock.monotonic(), 0
        self._budget.surveyed(self._surveyed)
        now = milliseconds(self._clock)
        learned = await asyncio.to_thread(self._learn, tables, step, pages, fetches, now, self._budget.saved)
        if learned is not None:
            self._priors, found = learned
            self.figures = found._replace(asked=found.asked / self._gain)
            self._price = found.price

    def _steered(self, fetches: float) -> float:
        """The number of fetches per second for which the price is set, so that as many are made as are available.

        Hints delay unchanged pages more than they hasten others: pages ask for fewer fetches than the price
        alone implies."""
        now = self._clock.monotonic()
        available = fetches * (now - self._steered_at)
        if available >= _STEERED:
            self._gain = (
                min(self._gain * 1.1, _MOST_GAIN)
                if self._came < 0.9 * available
                else max(self._gain * 0.95, 1.0)
            )
            self._came, self._steered_at = 0, now
        return fetches * self._gain

    def _learn(
        self, tables: Sequence[Iterator[Rows]], step: int, pages: int, fetches: float, now: int, saved: float
    ) -> tuple[Priors, Figures] | None:
        rows = np.concatenate([NO_ROWS, *(_some(part, step) for table in tables for part in table)])
        rows = rows[rows["fetches"] > 0]
        if not len(rows):
            return None
        priors, _, found = judged(columns(rows), pages, fetches, now, self._options, saved)
        return priors, found

    def figure(self, name: str) -> float:
        """A figure of the last survey, in a form that can be summed over agents: shares and ages multiplied by
        the pages, the error squared. 0 before the first survey."""
        found = self.figures
        if found is None:
            return 0.0
        if name == "variance":
            return (found.error * found.pages) ** 2
        value = float(getattr(found, name))
        return value * found.pages if name in ("fresh", "plain", "age") else value

    # -- pages without a due time

    def mend(self, shard: Shard) -> None:
        """Handle a Fetched that a crash left as the last record, without its Deferred."""
        last = shard.log.read(shard.log.end - 1) if shard.log.end and shard.continuous else None
        if isinstance(last, Fetched):
            shard.append(self.comes_back(shard, last))

    async def schedule(self, shard: Shard) -> None:
        """Give due times to some of the pages that were fetched before the crawl was continuous."""
        start, stop = shard.unscheduled
        reading = LogPass(shard.log.reader.files, start)
        while reading.position < stop:
            rows = await asyncio.to_thread(reading.take_records, min(stop, shard.log.committed))
            if not rows:
                return  # the rest is not committed yet
            for position, record in rows:
                if isinstance(record, Fetched):
                    self._schedule(shard, position, record)
            shard.scheduled(reading.position)
            await asyncio.sleep(0)
        shard.scheduled(None)

    def _schedule(self, shard: Shard, position: int, record: Fetched) -> None:
        key = shard.keyer.key(record.url)
        found = shard.pages.find(key)
        if found is None or found.position != position:
            return  # it was fetched again, and has its entry; or it never had any content
        now = milliseconds(self._clock)
        due, why = self._due(key, found, now)
        row = (now, record.url, site_of(record.url), record.depth, 0, 0, Why.REFRESH, max(due, now), why)
        shard.append(Deferred(*row, before=Before.PAGE))


def _is_near(due: int, last: int, now: int) -> bool:
    """Whether a page that is due at `due`, and was last fetched at `last` (seconds), may be fetched now."""
    return due - now <= 1000 * min(_EARLY, _PART * (due / 1000 - last))


def _some(part: Rows, step: int) -> Rows:
    """One row in `step`, chosen by key."""
    return part if step == 1 else part[part["key"] % np.uint64(step) == 0]


def _span(seconds: float) -> str:
    for unit, size in (("d", DAY), ("h", _HOUR), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s"
