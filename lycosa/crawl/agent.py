"""The agent: one process, one event loop, its shards. Here everything is put together.

`build` is the composition root: read it from top to bottom to see who is handed what. An `Agent` is its shards
(`shard_set`), their visits (`scheduling`), what is done beside these (`chores`), commits and snapshots (`saving`),
and shards that come and go (`moving`). `Agent.run` has visits begin and chores done, and ends when

- nothing is pending, waiting, deferred within the horizon, in flight or on its way between shards, seen twice
  without an append between (*finished*), or
- a limit of the run is reached (*limit*), or somebody called `stop` (*stopped*).

Whatever the end, it is the same: visits under way may finish for a few seconds, then everything is committed, a
snapshot taken, and the mark of a running process removed. The next run goes on from there.

An agent that has all shards is alone: it ends by itself, and the mark is its own. One of several (`Team`) has some
of the shards, which may change while it runs. It never ends by itself, since others may find links for it: somebody
who sees all agents does that, takes the snapshots, and keeps the mark.

    running     a file that is there while a process crawls: found at the start, the last stop was unclean
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum

import msgspec

from lycosa.archive.writer import Archive
from lycosa.clock import Clock, SystemClock, milliseconds
from lycosa.content.change import content_digest
from lycosa.crawl import descriptors
from lycosa.crawl import manifest as manifests
from lycosa.crawl.admission import Shared
from lycosa.crawl.blaming import Blame
from lycosa.crawl.budgets import Budgets
from lycosa.crawl.chores import Chores
from lycosa.crawl.config import Options, canonical_seeds, decode_options, with_seeds
from lycosa.crawl.delivery import Exchange, OwnExchange
from lycosa.crawl.gauges import show
from lycosa.crawl.harvest import Crop, Harvester
from lycosa.crawl.hosts import OwnHosts
from lycosa.crawl.limits import RunLimits, RunQuota
from lycosa.crawl.link_store import LinkStore
from lycosa.crawl.machine import fitted, memory_limit
from lycosa.crawl.manifest import Manifest
from lycosa.crawl.moving import Mover
from lycosa.crawl.pulse import Pulse
from lycosa.crawl.rank_fold import RankFold
from lycosa.crawl.ranking import Ranker, make_order, ranked
from lycosa.crawl.refreshing import Refreshing
from lycosa.crawl.rules import RulesKeeper
from lycosa.crawl.saving import Ledger, OwnDisk, Saver
from lycosa.crawl.scheduling import Scheduler
from lycosa.crawl.shard import ContentIndex, Shard, followed_kinds
from lycosa.crawl.shard_set import ShardSet
from lycosa.crawl.sites import SiteTable
from lycosa.crawl.splitting import Splitter, SplitterOptions
from lycosa.crawl.steady import SteadyTask
from lycosa.crawl.totals import Totals, summed
from lycosa.crawl.underway import NAME as READING
from lycosa.crawl.underway import Underway
from lycosa.crawl.visit import Addresses, FetcherTable, Hosts, Visitor
from lycosa.fetch.dns import Resolver
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.registry import FetchContext, Fetchers, make_resolver
from lycosa.fetch.robots_policy import RobotsOptions as RobotsPolicy
from lycosa.files import DiskFiles, Files, write_whole
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
)
from lycosa.log.log import SEGMENT_BYTES, Log
from lycosa.meters import Meters
from lycosa.page.linking import Linker
from lycosa.page.protocol import Limits as PageLimits
from lycosa.page.registry import Parsers
from lycosa.page.scan import ScanParser
from lycosa.pages.packed import PackedPages
from lycosa.records import Link, LinkKind, Links, Seeded, Skipped
from lycosa.seen.cache import ScatterCache
from lycosa.seen.memory import MemorySeen
from lycosa.seen.stores import open_store
from lycosa.url.hrefs import HrefMemo
from lycosa.url.key import Keyer
from lycosa.url.memo import LinkMemo
from lycosa.url.rules import Rules
from lycosa.url.scope import Scope

RUNNING = "running"
_SEEDS = 5_000
"""Seeds in one record: a record that is left behind is read whole whenever it is come back to."""
_HOT_SITES = 40_000
"""Sites that an agent keeps in RAM, some 400 bytes each; the others are on disk."""
_PAGE_ROWS = 16 << 20
"""Bytes of the page table that an agent keeps in RAM; the rest is on disk."""
_LEAST_CACHE = 1 << 10
"""The exchange has a URL cache before it even if the stores have none."""


class End(StrEnum):
    """Why a run ended."""

    FINISHED = "finished"
    LIMIT = "limit"
    STOPPED = "stopped"


def _always(shard: int, address: str) -> bool:
    """Nobody else has our shards."""
    return True


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent has of others, if it is one of several. As it is here nobody else has anything.

    The exchange carries all links between shards, whoever has them; whoever holds the leases sees to snapshots.
    """

    name: str = ""
    """Goes into the names of the agent's archive files."""
    owned: Sequence[int] = ()
    """The shards that it begins with."""
    size: int = 1
    """How many agents share the crawl's visits and its bandwidth."""
    exchange: Exchange | None = None
    addresses: Addresses | None = None
    hosts: Hosts | None = None
    quota: RunQuota | None = None
    ledger: Ledger = OwnDisk()
    may_ask: Callable[[int, str], bool] = _always
    """Whether a shard's hosts may be asked (at an address) now."""
    segment_bytes: int = 0
    random: Callable[[int], bytes] = os.urandom
    """Names records of the archive."""


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
    alone = team is None
    team = team or Team()
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
    frontier_bytes, seen_bytes = fitted(options, limit, team.size)
    if (frontier_bytes, seen_bytes) != (options.frontier.memory, options.seen.memory) and told is not None:
        told(
            f"the defaults want more than {limit >> 20} MB of memory: frontier.memory is {frontier_bytes >> 20} MB"
            f" and seen.memory {seen_bytes >> 20} MB in this run"
        )
    sampler = Sampler(msgspec.structs.replace(options.frontier, memory=frontier_bytes))
    room = Room(frontier_bytes)
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
            agent=team.name,
            info=info,
            random=team.random,
        )
    cache = ScatterCache(options.seen.cache or _LEAST_CACHE)
    memory = seen_bytes // manifest.shards
    content = ContentIndex(total=manifest.shards)

    shared = Shared(
        order=order,
        keyer=keyer,
        splitter=split,
        sampler=sampler,
        room=room,
        clock=clock,
        scope_of=scope_of,
        noted=ranker.note if ranker else None,
        low_rank=judging.is_low if judging else None,
    )

    def open_shard(number: int) -> Shard:
        """A shard as it is before recovery. Nothing of it is shared with others but cache and content."""
        place = files.within(manifests.shard_directory(number))
        store = open_store(options.seen.store, place.within("seen"), memory)
        contents = MemorySeen(place.within("content"))
        urls_seen, index = cache, content
        if not alone:
            # What one shard sent must not hold back a link of another, whose record may be all that is left.
            share = max(options.seen.cache // manifest.shards, _LEAST_CACHE)
            urls_seen = ScatterCache(1 << (share.bit_length() - 1))
            index = ContentIndex(total=manifest.shards)
        index.stores[number] = contents
        log = Log(place.within("log"), team.segment_bytes or SEGMENT_BYTES)
        if by_rank is not None and log.end:
            by_rank.resume()
        return Shard(
            number,
            log=log,
            links=LinkStore(store, urls_seen, meters if options.seen.cache else None),
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
            shared=shared,
        )

    pulse = Pulse(clock)
    shards_here = ShardSet(options, split, clock)
    for number in range(manifest.shards) if alone else sorted(team.owned):
        shards_here.add(open_shard(number))
    exchange = team.exchange or OwnExchange(shards_here, clock)
    saver = Saver(
        files=files,
        shards=shards_here,
        archive=archive,
        store=options.seen.store,
        clock=clock,
        exchange=exchange,
        ledger=team.ledger,
        levelling=levelling,
        wanted=options.snapshot if alone else None,
    )
    saver.recover(told)
    if alone:  # a team's options know all its seeds
        before = decode_options(shards_here[0].options) if shards_here[0].options else None
        options = shards_here.options = with_seeds(options, before, urls)

    guard = AddressGuard(options.allow, options.only_networks)
    fetch = options.fetch
    if fetch.bandwidth:
        fetch = msgspec.structs.replace(fetch, bandwidth=max(fetch.bandwidth // team.size, 1))
    most_visits = max(options.visits // team.size, 1)
    if fetchers is None:
        wanted, limit = most_visits, descriptors.raise_limit()
        most_visits = descriptors.fitting(wanted, len(shards_here) or manifest.shards, limit)
        if most_visits < wanted and told is not None:
            told(
                f"the limit of {limit:,} open files leaves room for {most_visits} visits at a time, not {wanted}:"
                " raise it (ulimit -n, or LimitNOFILE= of a service)"
            )
        most = min(fetch.connections, descriptors.connections(most_visits))
        fetch = msgspec.structs.replace(fetch, connections=most)
    fetchers = fetchers or Fetchers(FetchContext(fetch, clock, meters, guard))
    limits = team.quota or RunLimits(
        options.limits, shards_here, clock, continuous=options.refresh.continuous
    )
    page_limits = PageLimits(repeats=False)
    parsers = Parsers.load(page_limits, ScanParser(page_limits, deferred=True))
    meters.gauge("page.failed", lambda: parsers.failed)
    if isinstance(order, ScoredOrder):
        meters.gauge("scorer.failed", lambda: order.failed)
    underway = Underway(None)
    if isinstance(files, DiskFiles):  # only a file of the machine can be mapped
        underway = Underway(files.root / (READING if alone else f"{READING}-{team.name}"))
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
        refreshing = Refreshing(options.refresh, shards_here, order, clock, team.size)
    visitor = Visitor(
        options=options,
        fetchers=fetchers,
        resolver=resolver or make_resolver(options.dns, guard, clock, meters),
        guard=guard,
        addresses=AddressTable(options.politeness.address_wait) if team.addresses is None else team.addresses,
        rules=RulesKeeper(
            agent=options.robots.agent,
            attempts=options.robots.attempts,
            policy=RobotsPolicy(first_retry=options.robots.first_retry),
            clock=clock,
            harvester=harvester,
        ),
        harvester=harvester,
        quota=limits,
        hosts=OwnHosts(shards_here.of_host, clock, team.hosts),
        clock=clock,
        meters=meters,
        on_crop=on_crop,
        may_ask=team.may_ask,
        told=told,
        refreshing=refreshing,
    )
    visits = Scheduler(
        shards=shards_here,
        visitor=visitor,
        quota=limits,
        clock=clock,
        pulse=pulse,
        most=most_visits,
        may_ask=team.may_ask,
        continuous=refreshing is not None,
    )
    chores = Chores(
        shards=shards_here,
        clock=clock,
        pulse=pulse,
        visits=visits.__len__,
        ranker=ranker,
        refreshing=refreshing,
    )
    blame = Blame(underway, split, clock, told)
    moves = Mover(
        shards=shards_here,
        open_shard=open_shard,
        saver=saver,
        exchange=exchange,
        visits=visits,
        chores=chores,
        blame=blame,
        content=content,
        room=room,
        pulse=pulse,
        refreshing=refreshing,
    )
    show(meters, shards_here, clock, refreshing)
    meters.gauge("visits.active", visits.__len__)
    agent = Agent(
        name=team.name,
        manifest=manifest,
        shards=shards_here,
        visits=visits,
        chores=chores,
        saver=saver,
        moves=moves,
        exchange=exchange,
        blame=blame,
        quota=limits,
        archive=archive,
        clock=clock,
        pulse=pulse,
        meters=meters,
        underway=underway,
        refreshing=refreshing,
        mark=files if alone else None,
    )
    if alone:
        agent.begin(urls, saver.archive_ends(), unclean=(unclean := files.exists(RUNNING)))
        if not unclean:
            write_whole(files, RUNNING, b"")
    return agent


class Agent:
    """A crawl that is open in this process."""

    def __init__(
        self,
        *,
        name: str,
        manifest: Manifest,
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
    ) -> None:
        """`underway`: the pages that are being read. `mark`: where the mark of a running process is; without one
        the agent is one of several, and does not end by itself."""
        self.name = name
        self.manifest = manifest
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
        self.refused_seeds: list[tuple[str, str]] = []
        """Seeds that the scope excludes, and the rule that does."""
        self._ending = asyncio.Event()
        self._asked: End | None = None
        self._cpu_before = time.process_time()  # of the machine, also where the crawl's clock is not
        meters.gauge("agent.cpu", lambda: time.process_time() - self._cpu_before)

    @property
    def options(self) -> Options:
        return self.shards.options

    # -- before the run

    def begin(self, seeds: Sequence[str], archive_ends: Mapping[str, int], *, unclean: bool) -> None:
        """Log what is new in the options and the seeds, and make up for what the last stop cut short.

        `archive_ends` are those of all shards of the crawl. `unclean`: whether the last process that had these
        shards was cut short.
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
            # Durable before anything is read: a page that ended a process may end this one, too.
            await self.saver.commit()
            self._blame.forget()
        if self._refreshing is not None:
            await asyncio.to_thread(content_digest, b"<p>compiled before it is needed")
        committing = self.saver.run(
            self.options.commit_seconds, self._ending, self._pulse, self._blame.forget
        )
        committer = SteadyTask(committing)
        for shard in self.shards:
            self.chores.rank_log(shard)
        gc.freeze()  # what is there now stays: the collector need not look at it again and again
        try:
            end = await self._loop()
        except Exception as error:
            self._pulse.fail(error)
        finally:
            self._ending.set()
            await committer  # never cancelled: a commit under way must end
            await self._wind_up()
            gc.unfreeze()
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
                # Idle twice with no append between: what was on its way has arrived and brought nothing.
                ends = [shard.log.end for shard in self.shards]
                await self.saver.commit()
                if self._is_idle() and ends == [shard.log.end for shard in self.shards]:
                    if quiet:
                        return End.FINISHED
                    quiet = True
                    continue
            quiet = False
            patience = min(self.visits.patience(now), self.chores.patience())
            await self._pulse.rest(max(patience, 0.001))  # never a busy loop, whatever the times say

    def _is_idle(self) -> bool:
        """Nothing to do, now or within the horizon."""
        if len(self.visits) or self.chores.is_busy() or self.exchange.is_behind:
            return False
        return not any(shard.has_work(self._horizon()) for shard in self.shards)

    def is_idle(self, shard: Shard) -> bool:
        """Nothing is left to do for one shard, now or within the horizon."""
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
                if self._mark is not None:  # the snapshot is sealed and nothing was asked since
                    self._mark.remove(RUNNING)
                    self._mark.sync_dir("")
        finally:
            await self.visits.close()
            self.underway.close()
            for shard in self.shards:
                shard.log.close()
            if self.archive is not None:
                self.archive.close()

    # -- asked from outside

    def stop(self) -> bool:
        """End the run cleanly; False if that was asked before."""
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
        """The seeds that the scope is relative to have changed."""
        self.shards.reconfigure(options)
        self._pulse.wake()

    def wake(self) -> None:
        """Something has come from outside: links, or leave to ask for more pages."""
        self._pulse.wake()

    def read_meters(self) -> dict[str, float]:
        return self.meters.read()

    def totals(self) -> Totals:
        """The crawl in numbers, all runs together."""
        return summed(shard.totals for shard in self.shards)
