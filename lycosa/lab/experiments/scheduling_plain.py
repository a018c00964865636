"""The crawl of `scheduling_kernels` in its simplest form: lists, and the best of them. The tests compare the two;
and, for the orders that a frontier has, let a production frontier choose instead of `PlainScheduler`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from lycosa.lab.experiments.scheduling_sim import Setting


class Scheduler(Protocol):
    """What chooses sites and pages. `begin` and `take` return None if there is nothing."""

    def put(self, pages: Sequence[int], source: int | None, now: float) -> None: ...

    def begin(self, now: float) -> int | None: ...

    def take(self, site: int) -> int | None: ...

    def end(self, site: int, now: float, ready: float) -> None: ...

    def next_ready(self) -> float | None: ...

    def fetched(self, page: int, visits: int, now: float) -> None:
        """A page was fetched and its links were put; `visits` visits are under way."""


@dataclass
class _Connection:
    site: int
    left: int
    page: int | None = None
    answers: float = 0.0  # when
    work: float = 0.0  # seconds at the site's own bandwidth
    expected: float = 0.0  # predicted bytes per second


def crawl(
    links: Sequence[Sequence[int]],
    sources: Sequence[int],
    sizes: Sequence[float],
    latency: Sequence[float],
    bandwidth: Sequence[float],
    setting: Setting,
    scheduler: Scheduler,
) -> list[tuple[int, float, int]]:
    """(page, time, connections open) in the order in which pages come."""
    now = 0.0
    open_: list[_Connection] = []
    came: list[tuple[int, float, int]] = []
    measured: dict[int, float] = {}  # bandwidths of sites from which a page has come
    expected = 0.0

    def may_begin() -> bool:
        """Whether there is a connection, and room on the link for its predicted bandwidth."""
        return len(open_) < setting.r and not 0 < setting.fill * setting.link <= expected

    scheduler.put(sources, None, now)
    scheduler.fetched(-1, 0, now)
    while True:
        while may_begin():
            if (site := scheduler.begin(now)) is None:
                break
            mean = sum(measured.values()) / len(measured) if measured else 0.0
            guess = measured.get(site, mean)
            open_.append(_Connection(site, setting.c, answers=now + latency[site], expected=guess))
            expected += guess
        moving = [one for one in open_ if one.page is not None]
        flow = sum(bandwidth[one.site] for one in moving)
        speed = min(1.0, setting.link / flow) if flow else 1.0
        ends = [(now + one.work / speed if one.page is not None else one.answers, one) for one in open_]
        when, which = min(ends, key=lambda end: end[0], default=(float("inf"), None))
        ready = scheduler.next_ready()
        if ready is not None and may_begin() and max(ready, now) <= when:
            when, which = max(ready, now), None
        if when == float("inf"):
            return came
        for one in moving:
            one.work -= (when - now) * speed
        now = when
        if which is None:
            continue
        done = which.page
        if done is not None:
            came.append((done, now, len(open_)))
            measured.setdefault(which.site, bandwidth[which.site])
            scheduler.put(links[done], done, now)
        which.page = scheduler.take(which.site) if which.left else None
        if which.page is None:
            open_.remove(which)
            expected = expected - which.expected if open_ else 0.0
            scheduler.end(which.site, now, now + setting.w)
        else:
            which.left -= 1
            which.work = sizes[which.page] / bandwidth[which.site]
        if done is not None:
            scheduler.fetched(done, len(open_), now)


class PlainScheduler:
    """All orders, by scanning everything."""

    def __init__(
        self,
        setting: Setting,
        links: Sequence[Sequence[int]],
        sites: Sequence[int],
        oracle: Sequence[float],
        ranks: Callable[[list[int], list[int]], dict[int, float]],
    ) -> None:
        """`ranks(fetched, known)`: PageRank of the known pages, up to a factor."""
        self._setting, self._links, self._sites, self._oracle, self._ranks = (
            setting,
            links,
            sites,
            oracle,
            ranks,
        )
        self._known: dict[int, int] = {}  # page -> depth, in the order found
        self._score: dict[int, float] = {}
        self._key: dict[int, float] = {}
        self._ranked: set[int] = set()
        self._waiting: dict[int, list[int]] = {}
        self._aside: list[int] = []
        self._ready: dict[int, float] = {}
        self._place: dict[int, int] = {}
        self._places = 0
        self._busy: set[int] = set()
        self._fetched: list[int] = []
        self._since = 0

    def put(self, pages: Sequence[int], source: int | None, now: float) -> None:
        kind = self._setting.order
        gift = 0.0 if source is None or not pages else self._score.get(source, 0.0) / len(pages)
        for page in pages:
            if page in self._known:
                inside = page in self._waiting.get(self._sites[page], [])
                if kind == "partial" and source is not None and page not in self._ranked and inside:
                    self._key[page] += gift
                    self._score[page] = self._key[page]
                continue
            self._known[page] = 0 if source is None else self._known[source] + 1
            if kind == "optimal":
                self._key[page] = self._oracle[page]
            elif kind in ("depth", "listed", "length"):
                self._key[page] = -self._known[page]
            else:
                self._key[page] = self._score[page] = 1 / len(pages) if source is None else gift
                if kind == "batch" and source is not None:
                    self._score[page] = 0.0
            if kind == "batch":
                self._aside.append(page)
            else:
                self._wait(page, now)

    def _wait(self, page: int, now: float) -> None:
        site = self._sites[page]
        self._waiting.setdefault(site, []).append(page)
        if site not in self._busy and site not in self._place:
            self._ready[site] = max(self._ready.get(site, 0.0), now)
            self._in_line(site)

    def _in_line(self, site: int) -> None:
        self._place[site] = self._places
        self._places += 1

    def _best(self, site: int) -> int:
        order = {page: number for number, page in enumerate(self._known)}
        return min(self._waiting[site], key=lambda page: (-self._key[page], order[page]))

    def begin(self, now: float) -> int | None:
        able = [site for site in self._place if self._ready[site] <= now]
        if not able:
            return None

        def rank(site: int) -> tuple[float, float, int]:
            kind = self._setting.order
            if kind == "length":
                first = float(len(self._waiting[site]))
            else:
                first = -site if kind == "listed" else self._key[self._best(site)]
            return -first, self._ready[site], self._place[site]

        best = min(able, key=rank)
        del self._place[best]
        self._busy.add(best)
        return best

    def take(self, site: int) -> int | None:
        if not self._waiting.get(site):
            return None
        page = self._best(site)
        self._waiting[site].remove(page)
        return page

    def end(self, site: int, now: float, ready: float) -> None:
        self._busy.discard(site)
        self._ready[site] = ready
        if self._waiting.get(site):
            self._in_line(site)

    def next_ready(self) -> float | None:
        return min((self._ready[site] for site in self._place), default=None)

    def fetched(self, page: int, visits: int, now: float) -> None:
        if page >= 0:
            self._fetched.append(page)
            self._since += 1
        kind, k = self._setting.order, self._setting.between
        over = kind == "batch" and self._aside and not visits and not self._place
        if kind == "batch" and self._aside and page >= 0 and visits < self._setting.halt:
            over = over or self._since >= k // 10
        if not over and not (kind == "partial" and self._since >= k):
            return
        self._since = 0
        if self._fetched:
            self._score = self._ranks(self._fetched, list(self._known))
        self._ranked = set(self._known)
        for pages in self._waiting.values():
            for one in pages:
                self._key[one] = self._score[one]
        if kind == "batch":
            chosen = sorted(self._aside, key=lambda one: -self._score[one])[:k]
            self._aside = [one for one in self._aside if one not in set(chosen)]
            for one in chosen:
                self._key[one] = self._score[one]
                self._wait(one, now)
