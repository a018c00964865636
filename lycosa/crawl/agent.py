"""The composition root: `build` assembles an agent. Read it from top to bottom to see which part receives what.

An `Agent` (`running`) consists of its shards (`shard_set`), their visits (`scheduling`), the work besides visits
(`chores`), commits and snapshots (`saving`), and the movement of shards (`moving`). If it is one of several, a
`Team` provides its connections to the others; a single agent is built with the default `Team`, in which it is
alone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache

import msgspec

from lycosa.archive.writer import Archive
from lycosa.clock import Clock, SystemClock, milliseconds
from lycosa.content.yields import ROWS, Yields
from lycosa.crawl import descriptors, near_seeds
from lycosa.crawl import manifest as manifests
from lycosa.crawl.acts import latest, resumed
from lycosa.crawl.admission import Shared
from lycosa.crawl.blaming import Blame
from lycosa.crawl.budgets import Budgets
from lycosa.crawl.chores import Chores
from lycosa.crawl.config import Options, canonical_seeds, decode_options, renders, with_seeds
from lycosa.crawl.content_seen import ContentSeen
from lycosa.crawl.delivery import Exchange, OwnExchange
from lycosa.crawl.gauges import show
from lycosa.crawl.harvest import Crop, Harvester
from lycosa.crawl.hosts import OwnHosts
from lycosa.crawl.limits import RunLimits, RunQuota
from lycosa.crawl.link_store import LinkStore
from lycosa.crawl.machine import fitted, memory_limit
from lycosa.crawl.moving import Mover
from lycosa.crawl.pulse import Pulse
from lycosa.crawl.rank_fold import RankFold
from lycosa.crawl.ranking import Ranker, make_order, ranked
from lycosa.crawl.refreshing import Refreshing
from lycosa.crawl.rules import RulesKeeper
from lycosa.crawl.running import RUNNING as RUNNING
from lycosa.crawl.running import Agent as Agent
from lycosa.crawl.running import End as End
from lycosa.crawl.saving import Ledger, OwnDisk, Saver
from lycosa.crawl.scheduling import Scheduler
from lycosa.crawl.sessions import Sessions
from lycosa.crawl.shard import ContentIndex, Shard, followed_kinds
from lycosa.crawl.shard_set import ShardSet
from lycosa.crawl.sites import SiteTable
from lycosa.crawl.splitting import Splitter, SplitterOptions
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
from lycosa.seen.cache import ScatterCache
from lycosa.seen.contents import Contents
from lycosa.seen.stores import open_store
from lycosa.url.hrefs import HrefMemo
from lycosa.url.key import Keyer
from lycosa.url.memo import LinkMemo
from lycosa.url.rules import Rules
from lycosa.url.scope import Scope, ScopeOptions

_HOT_SITES = 40_000
"""Sites that an agent keeps in RAM, some 400 bytes each; the others are on disk."""
_PAGE_ROWS = 16 << 20
"""Bytes of the page table that an agent keeps in RAM; the rest is on disk."""
_LEAST_CACHE = 1 << 10
"""Minimum size of the URL cache for the exchange, even if the stores have none."""


def _always(shard: int, address: str) -> bool:
    """For an agent whose shards nobody else can have."""
    return True


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's connections to the others, if it is one of several. The defaults are those of a single agent.

    The exchange carries all links between shards, whoever has them; the holder of the leases takes care of
    snapshots.
    """

    name: str = ""
    """Part of the names of the agent's archive files."""
    size: int = 1
    """Number of agents that share the crawl's visits and its bandwidth."""
    exchange: Exchange | None = None
    addresses: Addresses | None = None
    hosts: Hosts | None = None
    quota: RunQuota | None = None
    ledger: Ledger = OwnDisk()
    may_ask: Callable[[int, str], bool] = _always
    """Whether a shard's hosts may be asked (at an address) now."""
    segment_bytes: int = 0
    random: Callable[[int], bytes] = os.urandom
    """Source of random bytes for the ids of archive records."""


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
    """Open (or create) the crawl in `files` and recover it; nothing is fetched before `run`.

    Without a `team` the agent has all shards and is ready to run; with one it has its part of the shards, and
    `begin` must be called when all agents of the team have recovered.
    """
    alone = team is None
    team = team or Team()
    if renders(options):
        from lycosa.render.browser import find

        find(options.render.browser)  # fails before a directory is made
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
    # Mercator's three per thread are for the whole crawl; each shard has its share.
    back_queues = -(-(options.frontier.back_queues or 3 * options.visits) // manifest.shards)
    # The RAM for tables on disk is divided, too; the minimum per shard suffices to work with.
    hot_sites = max(_HOT_SITES // manifest.shards, 500)
    page_rows = max(_PAGE_ROWS // manifest.shards, 1 << 18)
    tails = max(min(frontier_bytes // manifest.shards // 400, 1 << 14), 256)

    @lru_cache(maxsize=4)
    def scope_by(of: ScopeOptions, near: tuple[str, ...], near_files: tuple[str, ...]) -> Scope:
        return near_seeds.scope_of(Options(scope=of, near=near, near_files=near_files), files, domains)

    def scope_of(configured: Options) -> Scope:
        """All shards share it: of a list of many sites it has some megabytes."""
        return scope_by(configured.scope, configured.near, configured.near_files)

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
        """A shard before recovery. It shares nothing with other shards but cache and content."""
        place = files.within(manifests.shard_directory(number))
        store = open_store(options.seen.store, place.within("seen"), memory)
        contents = Contents(place.within("content"), memory=page_rows // 2)
        urls_seen, index = cache, content
        if not alone:
            # A link sent by one shard must not hold back the same link of another, which may be its last trace.
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
            yields=Yields(ROWS // manifest.shards),
            content=index,
            content_store=contents,
            shared=shared,
        )

    pulse = Pulse(clock)
    shards_here = ShardSet(options, split, clock)
    for number in range(manifest.shards) if alone else ():  # those of a team are opened one by one
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
    if alone:  # a team's options contain all its seeds
        before = latest([decode_options(shard.options) for shard in shards_here if shard.options])
        options = shards_here.options = with_seeds(resumed(options, before), before, urls)
        if options.steered.paused and told is not None:
            told("the crawl is paused: lycosa control DIR go-on has it go on")

    guard = AddressGuard(options.allow, options.only_networks)
    fetch = options.fetch
    if fetch.bandwidth:
        fetch = msgspec.structs.replace(fetch, bandwidth=max(fetch.bandwidth // team.size, 1))
    most_visits = max(options.visits // team.size, 1)
    ceiling = float("inf")
    if fetchers is None:
        wanted, limit = most_visits, descriptors.raise_limit()
        most_visits = descriptors.fitting(wanted, len(shards_here) or manifest.shards, limit)
        if most_visits < wanted and told is not None:
            told(
                f"the limit of {limit:,} open files leaves room for {most_visits} visits at a time, not {wanted}:"
                " raise it (ulimit -n, or LimitNOFILE= of a service)"
            )
        ceiling = descriptors.fitting(1 << 20, len(shards_here) or manifest.shards, limit)
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
        order.told = told
        meters.gauge("scorer.failed", lambda: order.failed)
    underway = Underway(None)
    if isinstance(files, DiskFiles):  # only a file on disk can be mapped
        underway = Underway(files.root / (READING if alone else f"{READING}-{team.name}"))
    schemes = frozenset(fetchers.schemes)
    hrefs = HrefMemo(
        options.href_cache // 4, rules, meters, schemes
    )  # for what is not HTML, and for unusual pages
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
    rendering = None
    if renders(options):
        from lycosa.crawl.rendering import Rendering  # only a crawl that renders needs it

        rendering = Rendering(
            options.render, clock=clock, meters=meters, user_agent=options.fetch.user_agent, told=told
        )
    near = None
    if options.duplicates.alike != "expand":
        from lycosa.crawl.near_pages import NearPages  # it loads main text and sketches

        near = NearPages(files.within("near" if alone else f"near-{team.name}"), shards_here.find)
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
        content_seen=(content_seen := ContentSeen(clock, shards_here.staying)),
        near=near,
        rendering=rendering,
        shard_of=shards_here.of_host,
        sessions=Sessions(files, clock),
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
        content_seen=content_seen,
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

    def changed(options: Options) -> None:
        """Pass new options to all parts that hold some."""
        visitor.change(options)
        visits.change(int(min(max(options.visits // team.size, 1), ceiling)))

    show(meters, shards_here, clock, refreshing)
    meters.gauge("visits.active", visits.__len__)
    meters.gauge("frontier.limit", lambda: frontier_bytes)
    meters.gauge("seen.limit", lambda: seen_bytes)
    agent = Agent(
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
        changed=changed,
    )
    if alone:
        agent.begin(urls, saver.archive_ends(), unclean=(unclean := files.exists(RUNNING)))
        if not unclean:
            write_whole(files, RUNNING, b"")
    return agent
