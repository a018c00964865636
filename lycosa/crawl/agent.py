"""The agent: one process, one event loop, its shards. Here everything is put together.

`build` is the composition root: read it from top to bottom to see who is handed what. `Agent.run` starts visits
while there are hosts that are ready, commits about once a second, takes a snapshot now and then, and ends when

- nothing is pending, waiting, deferred within the horizon, in flight or on its way between shards, seen twice
  without an append between (*finished*), or
- a limit of the run is reached (*limit*), or somebody called `stop` (*stopped*).

Whatever the end, it is the same: visits under way may finish for a few seconds, then everything is committed, a
snapshot taken, and the mark of a running process removed. The next run goes on from there.

An agent that has all shards is alone: it ends by itself, and the mark is its own. One of several has some of the
shards, which may change while it runs: `adopt` opens a shard that nobody has, `hand_over` saves one and
lets it go. It never ends by itself, since others may find links for it: somebody who sees all agents does that,
and keeps the mark.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial

import msgspec

from lycosa.archive.writer import Archive
from lycosa.clock import Clock, SystemClock, milliseconds
from lycosa.crawl import descriptors
from lycosa.crawl import manifest as manifests
from lycosa.crawl.budgets import Budgets
from lycosa.crawl.config import Options, canonical_seeds, decode_options, encode_options, with_seeds
from lycosa.crawl.exchange import Exchange
from lycosa.crawl.harvest import Crop, Harvester
from lycosa.crawl.hosts import OwnHosts
from lycosa.crawl.limits import RunLimits, RunQuota
from lycosa.crawl.machine import fitted, memory_limit
from lycosa.crawl.manifest import Manifest
from lycosa.crawl.rank_fold import RankFold
from lycosa.crawl.ranking import Ranker, make_order, ranked
from lycosa.crawl.refreshing import Refreshing
from lycosa.crawl.rescoping import Rescoping
from lycosa.crawl.rules import RulesKeeper
from lycosa.crawl.saving import Ledger, Saver
from lycosa.crawl.shard import ContentIndex, Shard, followed_kinds
from lycosa.crawl.sites import SiteTable
from lycosa.crawl.splitting import Splitter, SplitterOptions
from lycosa.crawl.steady import SteadyTask
from lycosa.crawl.totals import Totals, summed
from lycosa.crawl.underway import NAME as READING
from lycosa.crawl.underway import Mark, Underway, verdict
from lycosa.crawl.visit import Addresses, FetcherTable, Hosts, Visitor
from lycosa.fetch.dns import Resolver
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.registry import FetchContext, Fetchers, make_resolver
from lycosa.fetch.robots_policy import RobotsOptions as RobotsPolicy
from lycosa.files import DiskFiles, Files
from lycosa.frontier import (
    AddressTable,
    Calendar,
    Judging,
    PackedFrontier,
    PackedLeftBehind,
    Room,
    Sampler,
    ScoredOrder,
    Scorer,
    wait_after,
)
from lycosa.log.log import SEGMENT_BYTES, Log
from lycosa.log.log_pass import LogPass
from lycosa.log.reader import LogReader
from lycosa.meters import Meters
from lycosa.page.linking import Linker
from lycosa.page.protocol import Limits as PageLimits
from lycosa.page.registry import Parsers
from lycosa.page.scan import ScanParser
from lycosa.pages.packed import PackedPages
from lycosa.records import Configured, Link, LinkKind, Links, Record, Seeded, Skipped
from lycosa.seen.cache import CachedSeen, ScatterCache
from lycosa.seen.memory import MemorySeen
from lycosa.seen.stores import open_store
from lycosa.url.hrefs import HrefMemo
from lycosa.url.key import Keyer
from lycosa.url.memo import LinkMemo
from lycosa.url.parts import host_of
from lycosa.url.rules import Rules
from lycosa.url.scope import Scope

_GRACE = 5.0
"""Seconds that visits under way are given to finish when the crawl stops."""

_SEEDS = 5_000
"""Seeds in one record: a record that is left behind is read whole whenever it is come back to."""
_HOT_SITES = 40_000
"""Sites that an agent keeps in RAM, some 400 bytes each; the others are on disk."""
_PAGE_ROWS = 16 << 20
"""Bytes of the page table that an agent keeps in RAM; the rest is on disk."""
_LOW_WATER = 1_000
"""A shard with fewer pending URLs has its store answer what waits, or a small crawl would look finished."""
_ANSWERS = 500
"""URLs that the store has answered for that are put into the frontier between two breaths of the loop."""
_IDLE = 10.0
"""Seconds that a continuous crawl without anything to do waits at a time."""
_LEAST_CACHE = 1 << 10
"""The exchange has a URL cache before it even if the stores have none."""


class End(StrEnum):
    """Why a run ended."""

    FINISHED = "finished"
    LIMIT = "limit"
    STOPPED = "stopped"


def build(
    files: Files,
    options: Options,
    seeds: Sequence[str] = (),
    *,
    shards: int | None = None,
    hash_seed: int | None = None,
    splitter: SplitterOptions | None = None,
    clock: Clock | None = None,
    fetchers: FetcherTable | None = None,
    resolver: Resolver | None = None,
    meters: Meters | None = None,
    on_crop: Callable[[Crop], Awaitable[None]] | None = None,
    told: Callable[[str], None] | None = None,
    scorer: Scorer | None = None,
    team: Team | None = None,
) -> Agent:
    """Open (or begin) the crawl in `files` and recover it; nothing is fetched before `run`.

    Without a `team` the agent has all shards and is ready to run; with one it has those of its part, and `begin`
    must be called when all of the team have recovered.
    """
    clock = clock or SystemClock()
    meters = meters or Meters()
    manifest = manifests.open_or_create(files, milliseconds(clock), shards, hash_seed, splitter)
    domains = manifests.domains_of(files)
    keyer = Keyer(manifest.hash_seed)
    split = Splitter(manifest.shards, domains, manifest.splitter)
    rules = Rules.named(options.rules)
    urls = canonical_seeds(seeds, rules)
    order = make_order(options.frontier, manifest.hash_seed, scorer)
    by_rank = ranked(order)
    judging = order if options.frontier.quality and isinstance(order, Judging) else None
    levelling = asyncio.Lock()
    ranker = None
    if by_rank is not None:
        fold = RankFold(keyer, options.frontier.rank_memory, followed_kinds(options.follow))
        ranker = Ranker(by_rank, fold, lock=levelling, clock=clock, meters=meters)
    limit = memory_limit()
    frontier_bytes, seen_bytes = fitted(options, limit, team.size if team else 1)
    if (frontier_bytes, seen_bytes) != (options.frontier.memory, options.seen.memory) and told is not None:
        told(
            f"the defaults want more than {limit >> 20} MB of memory: frontier.memory is {frontier_bytes >> 20} MB"
            f" and seen.memory {seen_bytes >> 20} MB in this run"
        )
    sampler = Sampler(msgspec.structs.replace(options.frontier, memory=frontier_bytes))
    lent = team is not None  # shards come and go, and are recovered in threads
    room = GuardedRoom(frontier_bytes) if lent else Room(frontier_bytes)
    # Mercator's three a thread are those of the whole crawl; each shard has its share.
    back_queues = -(-(options.frontier.back_queues or 3 * options.visits) // manifest.shards)
    # What is kept in RAM of tables on disk is shared out, too; a shard's least is enough to work with.
    hot_sites = max(_HOT_SITES // manifest.shards, 500)
    page_rows = max(_PAGE_ROWS // manifest.shards, 1 << 18)
    tails = max(min(frontier_bytes // manifest.shards // 400, 1 << 14), 256)

    def scope_of(configured: Options) -> Scope:
        return Scope(configured.scope, configured.near, domains)

    def domain_in(number: int) -> Callable[[str], str]:
        """The domain of a host of that shard; "" for hosts of others."""
        return lambda host: domains.domain(host) if split.shard_of(host) == number else ""

    archive = None
    if options.archive.keep:
        obeyed = "obeyed" if options.robots.obey else "ignored"
        info = {"http-header-user-agent": options.fetch.user_agent, "robots": obeyed}
        archive = Archive(
            files.within("archive"),
            options.archive,
            clock,
            crawl=manifest.crawl,
            agent=team.name if team else "",
            info=info,
            random=team.random if team else os.urandom,
        )
    cache = ScatterCache(options.seen.cache or _LEAST_CACHE)
    memory = seen_bytes // manifest.shards
    content = ContentIndex(total=manifest.shards)

    def open_shard(number: int) -> Shard:
        """A shard as it is before recovery. Nothing of it is shared with others but cache and content."""
        place = files.within(manifests.shard_directory(number))
        store = open_store(options.seen.store, place.within("seen"), memory)
        contents = MemorySeen(place.within("content"))
        urls_seen, index = cache, content
        if lent:
            # What one shard sent must not hold back a link of another, whose record may be all that is left.
            share = max(options.seen.cache // manifest.shards, _LEAST_CACHE)
            urls_seen = ScatterCache(1 << (share.bit_length() - 1))
            index = ContentIndex(total=manifest.shards)
        index.stores[number] = contents
        log = Log(place.within("log"), team.segment_bytes if team else SEGMENT_BYTES)
        if by_rank is not None and log.end:
            by_rank.resume()
        return Shard(
            number,
            log=log,
            seen=CachedSeen(urls_seen, store, meters) if options.seen.cache else store,
            store=store,
            cache=urls_seen,
            frontier=PackedFrontier(clock, order, manifest.hash_seed, back_queues=back_queues),
            calendar=Calendar(place.within("calendar")),
            revisits=Calendar(place.within("revisits")),
            left=PackedLeftBehind(place.within("left"), tails=tails),
            sites=SiteTable(place.within("sites"), hot=hot_sites, seed=manifest.hash_seed),
            pages=PackedPages(place.within("pages"), memory=page_rows),
            budgets=Budgets(
                options.frontier.host_budget,
                options.frontier.domain_budget,
                domain_in(number),
                seed=manifest.hash_seed,
            ),
            content=index,
            content_store=contents,
            order=order,
            keyer=keyer,
            splitter=split,
            sampler=sampler,
            room=room,
            scope_of=scope_of,
            clock=clock,
            noted=ranker.note if ranker else None,
            low_rank=judging.is_low if judging else None,
        )

    owned = range(manifest.shards) if team is None else sorted(team.owned)
    all_shards = [open_shard(number) for number in owned]
    saver = Saver(
        files=files,
        shards=all_shards,
        archive=archive,
        store=options.seen.store,
        clock=clock,
        exchange=team.exchange if team else None,
        ledger=team.ledger if team else None,
    )
    all_shards = saver.shards
    saver.recover(told)
    before = decode_options(all_shards[0].options) if all_shards and all_shards[0].options else None
    if not lent:  # a team's options know all its seeds
        options = with_seeds(options, before, urls)

    guard = AddressGuard(options.allow, options.only_networks)
    fetch = options.fetch
    if team is not None and fetch.bandwidth:
        fetch = msgspec.structs.replace(fetch, bandwidth=max(fetch.bandwidth // team.size, 1))
    visits = max(options.visits // team.size, 1) if team else options.visits
    if fetchers is None:
        wanted, limit = visits, descriptors.raise_limit()
        visits = descriptors.fitting(wanted, len(all_shards) or manifest.shards, limit)
        if visits < wanted and told is not None:
            told(
                f"the limit of {limit:,} open files leaves room for {visits} visits at a time, not {wanted}:"
                " raise it (ulimit -n, or LimitNOFILE= of a service)"
            )
        most = min(fetch.connections, descriptors.connections(visits))
        fetch = msgspec.structs.replace(fetch, connections=most)
    fetchers = fetchers or Fetchers(FetchContext(fetch, clock, meters, guard))
    limits: RunQuota = (
        team.quota
        if team
        else RunLimits(options.limits, all_shards, clock, continuous=options.refresh.continuous)
    )
    page_limits = PageLimits(repeats=False)
    parsers = Parsers.load(page_limits, ScanParser(page_limits, deferred=True))
    meters.gauge("page.failed", lambda: parsers.failed)
    if isinstance(order, ScoredOrder):
        meters.gauge("scorer.failed", lambda: order.failed)
    underway = Underway(None)
    if isinstance(files, DiskFiles):  # only a file of the machine can be mapped
        underway = Underway(files.root / (f"{READING}-{team.name}" if team else READING))
    schemes = frozenset(fetchers.schemes)
    hrefs = HrefMemo(
        options.href_cache // 4, rules, meters, schemes
    )  # of what is not HTML, and of the odd ones
    harvester = Harvester(
        archive=archive,
        parsers=parsers,
        memo=hrefs,
        linker=Linker(LinkMemo(options.href_cache, keyer), hrefs, keyer, rules, page_limits, meters, schemes),
        seen_content=content.knows,
        agent=options.robots.agent,
        schemes=schemes,
        underway=underway,
    )
    refreshing = None
    if options.refresh.continuous:
        refreshing = Refreshing(options.refresh, all_shards, order, clock, team.size if team else 1)
    visitor = Visitor(
        options=options,
        fetchers=fetchers,
        resolver=resolver or make_resolver(options.dns, guard, clock, meters),
        guard=guard,
        addresses=team.addresses if team else AddressTable(options.politeness.address_wait),
        rules=RulesKeeper(
            agent=options.robots.agent,
            attempts=options.robots.attempts,
            policy=RobotsPolicy(first_retry=options.robots.first_retry),
            clock=clock,
            harvester=harvester,
        ),
        harvester=harvester,
        quota=limits,
        hosts=OwnHosts(lambda host: saver.find(split.shard_of(host)), clock, team.hosts if team else None),
        clock=clock,
        meters=meters,
        on_crop=on_crop,
        may_ask=team.may_ask if team else _always,
        told=told,
        refreshing=refreshing,
    )
    agent = Agent(
        manifest=manifest,
        options=options,
        shards=all_shards,
        open_shard=open_shard,
        content=content,
        splitter=split,
        saver=saver,
        team=team,
        visitor=visitor,
        limits=limits,
        archive=archive,
        clock=clock,
        meters=meters,
        ranker=ranker,
        levelling=levelling,
        room=room,
        visits=visits,
        underway=underway,
        told=told,
        refreshing=refreshing,
    )
    if team is None:
        agent.begin(urls, saver.archive_ends())
    return agent


def _always(shard: int, address: str) -> bool:
    """Nobody else has our shards."""
    return True


class GuardedRoom(Room):
    """The memory of frontiers some of which are just being recovered, in threads."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._lock = threading.Lock()

    def tell(self, shard: int, used: int, held: int | None = None) -> None:
        with self._lock:
            super().tell(shard, used, held)

    def forget(self, shard: int) -> None:
        with self._lock:
            super().forget(shard)


class Team:
    """What makes an agent one of several: its part of the shards, and what it shares with the others."""

    def __init__(
        self,
        *,
        name: str,
        owned: Sequence[int],
        size: int,
        exchange: Exchange,
        addresses: Addresses,
        hosts: Hosts,
        quota: RunQuota,
        ledger: Ledger,
        may_ask: Callable[[int, str], bool] | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """The exchange carries all links between shards, whoever has them; whoever holds the leases sees to
        snapshots. `may_ask`: whether a shard's hosts may be asked (at an address) now."""
        self.ledger = ledger
        self.may_ask = may_ask or _always
        self.segment_bytes = segment_bytes
        self.random = random
        """Names records of the archive."""
        self.name = name
        """Goes into the names of the agent's archive files."""
        self.owned = owned
        self.size = size
        """How many agents share the crawl's visits and its bandwidth."""
        self.exchange = exchange
        self.addresses = addresses
        self.hosts = hosts
        self.quota = quota


class Agent:
    """A crawl that is open in this process."""

    def __init__(
        self,
        *,
        manifest: Manifest,
        options: Options,
        shards: Sequence[Shard],
        open_shard: Callable[[int], Shard],
        content: ContentIndex,
        splitter: Splitter,
        saver: Saver,
        visitor: Visitor,
        limits: RunQuota,
        archive: Archive | None,
        clock: Clock,
        meters: Meters,
        ranker: Ranker | None,
        levelling: asyncio.Lock,
        room: Room,
        visits: int,
        underway: Underway,
        team: Team | None = None,
        told: Callable[[str], None] | None = None,
        refreshing: Refreshing | None = None,
    ) -> None:
        """`visits`: at a time, at most. `refreshing`: the crawl is continuous."""
        self.manifest = manifest
        self.options = options
        self.shards = shards
        self.meters = meters
        self._splitter = splitter
        self._saver = saver
        self._visitor = visitor
        self._limits = limits
        self._archive = archive
        self._clock = clock
        self._ranker = ranker
        self._levelling = levelling
        """Levelling the frontiers anew and freezing them exclude each other."""
        self._room = room
        self.underway = underway
        """The pages that are being read."""
        self._told = told or (lambda text: None)
        self._blamed: list[tuple[Mark, Shard, int]] = []
        """Marks of an earlier process, and how far the log must be committed before they may go."""
        self._ranking: asyncio.Task[None] | None = None
        self._unranked: list[tuple[Shard, int]] = []
        """Shards whose logs the ranks do not know yet, up to a position."""
        self._open_shard = open_shard
        self._content = content
        self._team = team
        self._may_ask = team.may_ask if team else _always
        self._most_visits = visits
        self._refused: list[tuple[str, str]] = []
        self._visits: dict[asyncio.Task[None], int] = {}
        """Visits under way, and the shard of each."""
        self._merges: dict[int, asyncio.Task[None]] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}
        """Of shards: a record that was left behind is being read."""
        self._rescopings: dict[int, Rescoping] = {}
        """Passes over the logs of shards whose scope changed, and"""
        self._passing: asyncio.Task[None] | None = None
        self._slicing = asyncio.Lock()
        """the slice that is under way: one at a time, so that commits have threads."""
        self.refreshing = refreshing
        self._surveying: asyncio.Task[None] | None = None
        """A survey of the pages, or a pass that gives them due times."""
        self._wake = asyncio.Event()
        self._ending = asyncio.Event()
        self._failure: BaseException | None = None
        self._stopped = False
        self._paused = False
        self._next_shard = -1
        self._leaving: set[int] = set()
        self._last_snapshot = clock.monotonic()
        self._cpu_before = time.process_time()  # of the machine, also where the crawl's clock is not
        self._gauges()

    # -- before the run

    @property
    def saver(self) -> Saver:
        """Commits, snapshots, and how far recovery came."""
        return self._saver

    @property
    def archive(self) -> Archive | None:
        return self._archive

    def begin(
        self, seeds: Sequence[str], archive_ends: Mapping[str, int], *, unclean: bool | None = None
    ) -> None:
        """Log what is new in the options and the seeds, and make up for what the last stop cut short.

        `archive_ends` are those of all shards of the crawl. `unclean`: whether the last process that had these
        shards was cut short; None: the mark tells, and is set.
        """
        self._saver.recover_archive(archive_ends)
        now = milliseconds(self._clock)
        encoded = encode_options(self.options)
        for shard in self.shards:
            if self.refreshing is not None:
                self.refreshing.mend(shard)
            if shard.options != encoded:
                shard.append(Configured(now, encoded))
        self._saver.catch_up()
        for url in seeds:
            found = self._saver.find(self._splitter.shard_of(host_of(url)))
            if found is None:
                continue
            verdict = found.scope.judge(url, 0)
            if not verdict.inside:
                self._refused.append((url, verdict.rule))
                if not found.knows(url):
                    found.append(Skipped(now, url, 0, verdict.why, verdict.rule))
        for owner, urls in self._new_seeds(seeds):
            for start in range(0, len(urls), _SEEDS):
                rows = (Link(url, LinkKind.SEED, False, "") for url in urls[start : start + _SEEDS])
                owner.append(Seeded(now, Links.pack(rows)))
        self._blame(self._find_blamed(self.shards))
        if self._saver.begin_running() if unclean is None else unclean:
            self._wait_for_all(self.shards)

    def _find_blamed(self, shards: Sequence[Shard]) -> list[tuple[Mark, Shard, list[Record]]]:
        """Pages of these shards that a process was reading when it ended, and what their logs have of them.

        Reads all of a shard's log, so in a thread while the crawl runs.
        """
        found = []
        for mark in sorted(self.underway.left(), key=lambda mark: -mark.at):
            url = mark.waiting.url
            number = self._splitter.shard_of(host_of(url))
            shard = next((each for each in shards if each.number == number), None)
            if shard is not None:
                rows = LogReader(shard.log.reader.files).find(url.encode("ascii"))
                found.append((mark, shard, [row for _, row in rows if getattr(row, "url", "") == url]))
        return found

    def _blame(self, found: Sequence[tuple[Mark, Shard, list[Record]]]) -> None:
        """Log which pages a process was reading when it ended: see `underway`. Of a URL's marks the last counts."""
        told: set[str] = set()
        for mark, shard, records in found:
            url = mark.waiting.url
            record = verdict(mark, records, milliseconds(self._clock)) if url not in told else None
            told.add(url)
            if record is not None:
                shard.append_apart(record)
                once = "skipped" if isinstance(record, Skipped) else "tried once more"
                self._told(f"a process ended while it was reading {url}: the page is {once}")
            self._blamed.append((mark, shard, shard.log.end))

    def _forget_blamed(self) -> None:
        """What the log says durably need not be marked any more."""
        for row in [row for row in self._blamed if row[1].log.committed >= row[2]]:
            self.underway.forget(row[0])
            self._blamed.remove(row)

    def _new_seeds(self, seeds: Sequence[str]) -> list[tuple[Shard, list[str]]]:
        by_shard: dict[int, tuple[Shard, list[str]]] = {}
        for url in seeds:
            shard = self._saver.find(self._splitter.shard_of(host_of(url)))
            if shard is not None and not shard.knows(url):
                by_shard.setdefault(shard.number, (shard, []))[1].append(url)
        return list(by_shard.values())

    def _wait_for_all(self, shards: Sequence[Shard]) -> None:
        """After an unclean stop every host counts as asked now: nobody knows whom the last process asked."""
        now = self._clock.monotonic()
        politeness = self.options.politeness
        for shard in shards:
            shard.frontier.hold_all(now + politeness.wait)
            for name, site in shard.sites.asked():
                wait = wait_after(politeness, site.crawl_delay, None, site.last_ms / 1000)
                if wait > politeness.wait:
                    shard.frontier.hold(host_of(name + "/"), now + wait)

    # -- the agent's shards change

    async def adopt(
        self,
        number: int,
        *,
        unclean: bool = True,
        apart: bool = False,
        mend: Callable[[Shard], Iterable[Record]] | None = None,
    ) -> None:
        """Open a shard that no agent has, and go on with it. `unclean`: its last holder may have been cut short.

        Whoever calls it sees to it that the archive holds all that the shard's log points at, and that senders
        elsewhere begin at its cursors. `apart`: recover it in a thread. `mend`: what is to be logged before the
        shard goes on. All of that is durable before the first visit; if the ledger refuses it, the shard is not
        one of this agent's afterwards.
        """
        if apart:
            shard = await asyncio.to_thread(self._opened, number)
        else:
            shard = self._opened(number)
        if self.refreshing is not None:
            self.refreshing.mend(shard)
        encoded = encode_options(self.options)
        if shard.options != encoded:
            shard.append(Configured(milliseconds(self._clock), encoded))
        for record in mend(shard) if mend is not None else ():
            shard.append(record)
        found = await asyncio.to_thread(self._find_blamed, [shard]) if apart else self._find_blamed([shard])
        self._blame(found)
        if unclean:
            self._wait_for_all([shard])
        await self._saver.commit(shard)  # before its visits: what was blamed may end this process, too
        if shard.log.committed < shard.log.end:
            await self.drop(shard)  # it was lost meanwhile
            return
        self._forget_blamed()
        self._content.stores[number] = shard.content_store
        ranked_to = shard.log.committed
        await self._saver.commit()
        self._saver.add(shard)
        self._unranked.append((shard, ranked_to))
        self.reconfigure(self.options)  # they may have changed while it was not one of ours
        self._saver.catch_up(running=True)
        self._wake.set()

    def _opened(self, number: int) -> Shard:
        """A shard at the end of its log. May run in a thread."""
        shard = self._open_shard(number)
        self._saver.recover_one(shard)
        return shard

    async def hand_over(self, number: int, *, keep_named: bool = False) -> None:
        """Let a shard's visits end, save it, and have it no more.

        `keep_named`: whoever calls it still wants to know where the snapshot is, and forgets it then.
        """
        shard = self._saver.find(number)
        if shard is None:
            return
        try:
            await self.leave(number)
            await self._end_threads(number)
            self._saver.remove(shard)  # from here on nothing is delivered to it
            await self._saver.commit(shard)
            async with self._levelling:
                await self._saver.snapshot(shard)
        finally:
            self._leaving.discard(number)
        shard.log.close()
        self._room.forget(number)
        if not keep_named:
            self._saver.forget(shard)
        del self._content.stores[number]
        await self._saver.commit()
        self._saver.catch_up(running=True)
        self._wake.set()

    async def leave(self, number: int) -> None:
        """Begin no more visits of a shard, and let those under way end; `hand_over` or `drop` come next."""
        self._leaving.add(number)
        await self._end_visits([task for task, at in self._visits.items() if at == number], _GRACE)

    def let_visits_end(self, on: bool) -> None:
        """Whether visits under way are to end with the page that they are at, and none is to begin."""
        self._visitor.stopping = on

    async def drop(self, shard: Shard) -> None:
        """Let a shard go that is another agent's by now: nothing of it is saved, or written, any more."""
        number = shard.number
        self._leaving.add(number)
        try:
            self._saver.lose(shard)
            await self.cut_visits(number)
            await self._end_threads(number)
            await self._saver.settle_lost(shard)
        finally:
            self._leaving.discard(number)
        shard.log.close()
        self._blamed = [row for row in self._blamed if row[1] is not shard]
        self._room.forget(number)
        self._content.stores.pop(number, None)
        self._wake.set()

    async def _end_threads(self, number: int) -> None:
        """Until no thread reads files of a shard that is leaving: none begins any more."""
        while under_way := [tasks[number] for tasks in (self._merges, self._fetches) if number in tasks]:
            await asyncio.wait(under_way)
        if self._passing is not None:
            await asyncio.wait([self._passing])
        if self._surveying is not None:
            await asyncio.wait([self._surveying])
        async with self._slicing:
            self._end_rescoping(number)

    async def cut_visits(self, number: int) -> None:
        """End the visits of a shard at once, and their connections: its hosts are about to be another agent's."""
        while visits := [task for task, at in self._visits.items() if at == number and not task.done()]:
            for task in visits:
                task.cancel()
            await asyncio.wait(visits, timeout=1.0)  # again, if somewhere a cancellation was forgotten

    def reconfigure(self, options: Options) -> None:
        """The seeds that the scope is relative to have changed: the log of every shard says so."""
        self.options = options
        encoded = encode_options(options)
        for shard in self.shards:
            if shard.options != encoded:
                shard.append(Configured(milliseconds(self._clock), encoded))
        self._wake.set()

    async def snapshot(self) -> None:
        """Write the state of every shard that moved; for whoever sees to that in the agent's place."""
        async with self._levelling:
            await self._saver.snapshot()

    @staticmethod
    async def _end_visits(visits: Sequence[asyncio.Task[None]], grace: float) -> None:
        """Wait for visits to end; those that take longer are cut short."""
        if not visits:
            return
        _, late = await asyncio.wait(visits, timeout=grace)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    # -- the run

    async def run(self) -> End:
        """Crawl until the end; see the module."""
        self._limits.start()
        self._cpu_before = time.process_time()
        if self._blamed or self._saver.is_behind:
            # Durable before anything is read: a page that ended a process may end this one, too.
            await self._saver.commit()
            self._forget_blamed()
        committer = SteadyTask(self._commit_loop())
        self._unranked = [(shard, shard.log.committed) for shard in self.shards if shard.log.committed]
        gc.freeze()  # what is there now stays: the collector need not look at it again and again
        try:
            end = await self._loop()
        except Exception as error:
            # A commit that failed elsewhere comes first: whoever commits after it only trips over it.
            self._failure = self._failure or error
            raise self._failure from None
        finally:
            self._ending.set()
            await committer  # never cancelled: a commit under way must end
            await self._wind_up()
            gc.unfreeze()
        if self._failure is not None:
            raise self._failure
        return end

    async def _loop(self) -> End:
        quiet = False
        while True:
            if self._failure is not None:
                raise self._failure
            if self._stopped:
                return End.STOPPED
            if self._limits.reached():
                return End.LIMIT
            now = self._clock.monotonic()
            self._release_due()
            self._rescope()
            self._rank_if_due()
            self._survey_if_due()
            if self._may_begin(now):
                self._start_visits(now)
            if self._team is None and self._idle():
                # Idle twice with no append between: what was on its way has arrived and brought nothing.
                ends = [shard.log.end for shard in self.shards]
                await self._saver.commit()
                if self._idle() and ends == [shard.log.end for shard in self.shards]:
                    if quiet:
                        return End.FINISHED
                    quiet = True
                    continue
            quiet = False
            await self._pause(now)

    def _start_visits(self, now: float) -> None:
        count = len(self.shards)
        misses = 0
        may_open = (
            self._limits.open() or self.refreshing is not None
        )  # pages take nothing of a limit of pages
        while len(self._visits) < self._most_visits and misses < count and may_open:
            self._next_shard = (self._next_shard + 1) % count
            shard = self.shards[self._next_shard]
            host = shard.frontier.begin(now) if self._may_visit(shard) else None
            if host is None:
                misses += 1
                continue
            misses = 0
            if shard.is_over_budget(host):
                shard.frontier.end(host, now)  # its class is higher now: others go first
                continue
            task = asyncio.create_task(self._visitor.visit(shard, host))
            self._visits[task] = shard.number
            task.add_done_callback(self._visit_ended)

    def _may_begin(self, now: float) -> bool:
        """Whether visits may begin, of whatever shard."""
        return not self._paused and not self._visitor.stopping and now >= self._visitor.short_until

    def _may_visit(self, shard: Shard) -> bool:
        return shard.number not in self._leaving and self._may_ask(shard.number, "")

    def _visit_ended(self, task: asyncio.Task[None]) -> None:
        self._visits.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()
        self._wake.set()

    def _rank_if_due(self) -> None:
        ranker = self._ranker
        if ranker is None or self._ranking is not None:
            return
        if self._unranked:
            ends, self._unranked = self._unranked, []
            self._ranking = asyncio.create_task(self._read_ranks(ranker, ends))
            return
        pages = sum(shard.totals.pages for shard in self.shards)
        if ranker.due(pages, len(self._visits), self.options.visits):
            self._ranking = asyncio.create_task(self._rank(ranker))

    async def _rank(self, ranker: Ranker) -> None:
        try:
            await ranker.recalculate([shard.frontier for shard in self.shards])
        except Exception as error:
            self._failure = self._failure or error
        finally:
            self._ranking = None
            self._wake.set()

    async def _read_ranks(self, ranker: Ranker, ends: Sequence[tuple[Shard, int]]) -> None:
        """The fold of ranks has no snapshot: it is made again from the logs, while the crawl goes on."""
        try:
            await ranker.rebuild(self._slices(ends), sum(shard.totals.pages for shard in self.shards))
        except Exception as error:
            self._failure = self._failure or error
        finally:
            self._ranking = None

    async def _slices(self, ends: Sequence[tuple[Shard, int]]) -> AsyncIterator[list[Record]]:
        """The records of some shards' logs up to a position each, as threads read them."""
        for shard, end in ends:
            reading = LogPass(shard.log.reader.files)
            while reading.position < end:
                async with self._slicing:
                    if shard.number in self._leaving or self._saver.find(shard.number) is not shard:
                        break  # its files may be gone
                    rows = await asyncio.to_thread(reading.take_records, end)
                yield [record for _, record in rows]

    def _release_due(self) -> None:
        now_ms = milliseconds(self._clock)
        for shard in self.shards:
            shard.release_due(now_ms)
            if self.refreshing is not None and shard.number not in self._leaving:
                self.refreshing.release(shard, now_ms)
            if shard.admission.replenish():
                self._wake.set()
            if shard.admission.coming is not None and self._may_read(shard.number):
                self._fetches[shard.number] = SteadyTask(
                    self._fetch(shard, shard.admission.coming[1].position)
                )
            low = shard.seen.waiting and shard.frontier.pending < _LOW_WATER
            if (low or shard.seen.due) and shard.number not in self._merges:
                self._merges[shard.number] = SteadyTask(self._merge(shard))

    def _survey_if_due(self) -> None:
        if self.refreshing is None or self._surveying is not None:
            return
        for shard in self.shards:
            if len(shard.unscheduled) == 2 and shard.number not in self._leaving:
                self._surveying = SteadyTask(self._survey(self.refreshing.schedule(shard)))
                return
        if self.refreshing.survey_due:
            self._surveying = SteadyTask(self._survey(self.refreshing.survey()))

    async def _survey(self, doing: Awaitable[None]) -> None:
        try:
            await doing
        except Exception as error:
            self._failure = self._failure or error
        finally:
            self._surveying = None
            self._wake.set()

    def _may_read(self, number: int) -> bool:
        return number not in self._fetches and number not in self._leaving

    async def _fetch(self, shard: Shard, position: int) -> None:
        """Have a record that was left behind in memory."""
        try:
            shard.log.keep(await asyncio.to_thread(shard.log.fetch, position))
        except Exception as error:
            self._failure = self._failure or error
        finally:
            del self._fetches[shard.number]
            self._wake.set()

    async def _merge(self, shard: Shard) -> None:
        """Have the store of a shard answer some of what waits in it, in a thread."""
        try:
            merge = shard.seen.plan()
            if merge is not None:
                try:
                    await asyncio.to_thread(merge.run)
                except BaseException:
                    shard.seen.abandon(merge)
                    raise
                shard.merged(merge)
                more = True
                while more:
                    more = shard.admission.put_answered(_ANSWERS)
                    await asyncio.sleep(0)
        except Exception as error:
            self._failure = self._failure or error
        finally:
            del self._merges[shard.number]
            self._wake.set()

    def _rescope(self) -> None:
        """Begin the next slice of a pass over the log of a shard whose scope changed."""
        for number, known in list(self._rescopings.items()):
            if not known.is_wanted or self._saver.find(number) is not known.shard:
                self._end_rescoping(number)
        for shard in self.shards:
            number, change = shard.number, shard.rescoping
            if change is not None and number not in self._rescopings and number not in self._leaving:
                self._rescopings[number] = Rescoping(shard, change, self._clock)
        if self._rescopings and self._passing is None:
            self._passing = SteadyTask(self._pass_on())

    async def _pass_on(self) -> None:
        """One slice: of the shards in turn, the first that need not wait for a commit or for room."""
        try:
            for number, rescoping in list(self._rescopings.items()):
                if number not in self._rescopings or number in self._leaving or not rescoping.is_wanted:
                    continue
                self._rescopings[number] = self._rescopings.pop(number)  # the last of them now
                if await rescoping.step():
                    self._wake.set()
                    break
        except Exception as error:
            self._failure = self._failure or error
            self._wake.set()
        finally:
            self._passing = None

    def _end_rescoping(self, number: int) -> None:
        rescoping = self._rescopings.pop(number, None)
        if rescoping is not None:
            rescoping.close()

    def _idle(self) -> bool:
        """Nothing to do, now or within the horizon."""
        if self._visits or self._merges or self._passing is not None or self._saver.is_behind:
            return False
        return all(map(self._has_nothing, self.shards))

    def _has_nothing(self, shard: Shard) -> bool:
        due = shard.calendar.next_due()
        if shard.frontier.pending or shard.seen.waiting or len(shard.outbox) or len(shard.left):
            return False
        if self.refreshing is not None:
            return False  # there is always something to come back to
        if shard.rescoping is not None or shard.admission.coming is not None:
            return False
        return due is None or due > milliseconds(self._clock) + int(self.options.horizon * 1000)

    def is_idle(self, shard: Shard) -> bool:
        """Nothing is left to do for one shard, now or within the horizon."""
        number = shard.number
        busy = number in self._merges or number in self._leaving or number in self._visits.values()
        return not busy and self._has_nothing(shard)

    def visits_of(self, number: int) -> int:
        """Visits under way to hosts of a shard."""
        return sum(1 for at in self._visits.values() if at == number)

    async def _pause(self, now: float) -> None:
        """Until something changes, or something is due."""
        timeout = 1.0
        if self.refreshing is not None and not self._visits:
            timeout = _IDLE
        if now < self._visitor.short_until:
            timeout = self._visitor.short_until - now
        if len(self._visits) < self._most_visits and self._may_begin(now):
            for shard in self.shards:
                ready = shard.frontier.next_ready() if self._may_visit(shard) else None
                if ready is not None:
                    timeout = min(timeout, ready - now)
        now_ms = milliseconds(self._clock)
        for shard in self.shards:
            due = shard.calendar.next_due()
            if due is not None and not shard.is_full:  # if it is, what is due waits for room
                timeout = min(timeout, (due - now_ms) / 1000)
            if self.refreshing is not None and (due := shard.revisits.next_due()) is not None:
                timeout = min(timeout, max((due - now_ms) / 1000, self.refreshing.patience_for(1)))
        await self._nap(max(timeout, 0.001), self._wake)  # never a busy loop, whatever the times say
        self._wake.clear()

    async def _nap(self, seconds: float, unless: asyncio.Event) -> None:
        """Let time pass, but not past the event."""
        sleeper = asyncio.ensure_future(self._clock.sleep(seconds))
        waker = asyncio.ensure_future(unless.wait())
        try:
            await asyncio.wait((sleeper, waker), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()
            waker.cancel()

    async def _commit_loop(self) -> None:
        try:
            while not self._ending.is_set():
                await self._nap(self.options.commit_seconds, self._ending)
                await self._saver.commit()
                self._wake.set()
                if self._blamed:
                    self._forget_blamed()
                if self._snapshot_due():
                    self._last_snapshot = self._clock.monotonic()
                    async with self._levelling:
                        await self._saver.snapshot()
        except Exception as error:
            self._failure = self._failure or error
            self._wake.set()

    def _snapshot_due(self) -> bool:
        if self._team is not None:
            return False  # whoever holds the leases sees to it
        wanted = self.options.snapshot
        since = self._clock.monotonic() - self._last_snapshot
        return self._saver.records >= wanted.records or (since >= wanted.seconds and self._saver.records > 0)

    async def _wind_up(self) -> None:
        """Let visits finish, then save everything; a failure on the way leaves what is durable."""
        self._visitor.stopping = True
        await self._end_visits(list(self._visits), 0.0 if self._failure else _GRACE)
        under_way = [*self._merges.values(), *self._fetches.values()]
        if self._passing is not None:
            under_way.append(self._passing)
        if self._surveying is not None:
            under_way.append(self._surveying)
        if under_way:
            await asyncio.wait(under_way)
        if self._ranking is not None:
            self._ranking.cancel()
            await asyncio.wait((self._ranking,))
        try:
            if self._failure is None:
                await self._saver.commit()
                self._forget_blamed()
                await self._saver.snapshot()
                if self._team is None:
                    self._saver.end_running()
        finally:
            await self._visitor.close()
            self.underway.close()
            for shard in self.shards:
                shard.log.close()
            if self._archive is not None:
                self._archive.close()

    # -- asked from outside

    def stop(self) -> bool:
        """End the run cleanly; False if that was asked before."""
        first = not self._stopped
        self._stopped = True
        self._visitor.stopping = True
        self._wake.set()
        return first

    def pause(self) -> None:
        """Start no more visits until `go_on`."""
        self._paused = True

    def go_on(self) -> None:
        self._paused = False
        self._wake.set()

    @property
    def refused_seeds(self) -> list[tuple[str, str]]:
        """Seeds that the scope excludes, and the rule that does."""
        return self._refused

    def read_meters(self) -> dict[str, float]:
        return self.meters.read()

    def wake(self) -> None:
        """Something has come from outside: links, or leave to ask for more pages."""
        self._wake.set()

    def totals(self) -> Totals:
        """The crawl in numbers, all runs together."""
        return summed(shard.totals for shard in self.shards)

    def _gauges(self) -> None:
        gauge = self.meters.gauge
        shards = self.shards
        gauge("frontier.pending", lambda: sum(s.frontier.pending for s in shards))
        gauge("frontier.in_flight", lambda: sum(s.frontier.in_flight for s in shards))
        gauge("frontier.hosts", lambda: sum(s.frontier.hosts for s in shards))
        gauge("frontier.bytes", lambda: sum(s.frontier.nbytes for s in shards))
        gauge("frontier.used", lambda: sum(s.frontier.used for s in shards))
        gauge("frontier.left_behind", lambda: sum(len(s.left) for s in shards))
        gauge("frontier.left_bytes", lambda: sum(s.left.nbytes for s in shards))
        gauge("frontier.returns", lambda: sum(s.admission.returns for s in shards))
        gauge("frontier.dropped", lambda: sum(s.admission.dropped for s in shards))
        gauge("frontier.deferred", lambda: sum(len(s.calendar) for s in shards))
        gauge("frontier.next_due", self._next_due)
        if (refreshing := self.refreshing) is not None:
            gauge("refresh.waiting", lambda: sum(len(s.revisits) for s in shards))
            for name in ("pages", "fresh", "variance", "plain", "age", "asked"):
                gauge(f"refresh.{name}", partial(refreshing.figure, name))
        gauge("seen.urls", lambda: sum(len(s.seen) for s in shards))
        gauge("seen.waiting", lambda: sum(s.seen.waiting for s in shards))
        gauge("seen.bytes", lambda: sum(s.store.nbytes for s in shards))
        gauge("sites.known", lambda: sum(len(s.sites) for s in shards))
        gauge("exchange.offered", lambda: sum(s.outbox.offered for s in shards))
        gauge("exchange.sent", lambda: sum(s.outbox.sent for s in shards))
        gauge("log.records", lambda: sum(s.log.end for s in shards))
        gauge("log.committed", lambda: sum(s.log.committed for s in shards))
        gauge("visits.active", lambda: len(self._visits))
        gauge("agent.cpu", lambda: time.process_time() - self._cpu_before)

    def _next_due(self) -> float:
        """Seconds until the first of what is deferred is due; 0 if nothing is."""
        dues = [due for shard in self.shards if (due := shard.calendar.next_due()) is not None]
        return max(min(dues) / 1000 - self._clock.wall(), 0.0) if dues else 0.0
