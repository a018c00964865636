"""Report: what happened in a crawl, as numbers and lists that fit on a page.

A fold over the logs of all shards, in two passes, on a crawl that runs or has ended; torn tails are not
errors.

1. `report_fold`: counts, tables and top lists; for each broken URL, redirect and duplicate only a key.
2. `report_links`: which pages hold links to the broken URLs, and which pages share the most frequent
   contents. It reads no further than the first pass did, and is left out where there is nothing to find.

Memory is bounded whatever the crawl's size: top lists are heaps; tables of sites belong to one shard at a
time (a site's records all lie in one shard's log) and have a limit; sets of keys have limits. Where a limit
was reached, `notes` says so.

The structs here are also the JSON document of `lycosa report --json`: field names as below, times in ISO 8601,
durations in milliseconds where named `_ms`, sizes in bytes. `fetches` counts Fetched records (answers of any
status); `pages` counts the URLs that have one, each by its current fetch (see `versions`); `urls` counts URLs,
`sites` those that gave a page; `silent_sites` those that were asked, or could not be, and gave none. Times, `bytes`
and `decoded` as totals and of sites, and the timeline are of all fetches; all else is of pages.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lycosa.ask.alive import process_of
from lycosa.ask.clusters import Cluster, ClusterReader, Proposal
from lycosa.ask.follower import Stretch
from lycosa.ask.json_form import iso
from lycosa.ask.reading import CrawlReader
from lycosa.ask.versions import Versions
from lycosa.records import Fetched

Told = Callable[[str, int], None]
"""Called now and then with the current activity and the number of records read."""


class Count(msgspec.Struct, kw_only=True):
    """One row of a table of counts: of pages, and the bytes of their current fetches."""

    name: str
    pages: int = 0
    bytes: int = 0


class Reason(msgspec.Struct, kw_only=True):
    """Why URLs were skipped, or why attempts failed."""

    name: str
    count: int = 0
    examples: list[str] = []


class DeferredCount(msgspec.Struct, kw_only=True):
    """Deferred URLs by reason."""

    name: str
    times: int = 0
    waiting: int = 0  # of them still waiting
    next_due: str | None = None


class SiteRow(msgspec.Struct, kw_only=True):
    """One site."""

    site: str
    pages: int = 0
    bytes: int = 0
    errors: int = 0  # answers of status 400 and above
    failed: int = 0  # URLs given up: no answer, no address
    median_ms: int = 0  # of a fetch, accurate to a tenth
    slowest_ms: int = 0


class PageRow(msgspec.Struct, kw_only=True):
    """One page."""

    url: str
    status: int
    type: str
    bytes: int  # as sent
    length: int  # decoded
    total_ms: int
    title: str = ""
    truncated: str = ""


class Chain(msgspec.Struct, kw_only=True):
    """Successive redirects; of a loop, each member once."""

    urls: list[str]
    hops: int


class Redirects(msgspec.Struct, kw_only=True):
    """How redirects are chained. A chain begins at a redirect that no other one leads to."""

    pages: int = 0
    lengths: dict[int, int] = {}  # hops -> chains
    chains: list[Chain] = []  # the longest, with at least two hops
    loops: list[Chain] = []
    loop_count: int = 0


class DuplicateGroup(msgspec.Struct, kw_only=True):
    """Pages with exactly the same content."""

    digest: str
    pages: int
    bytes: int  # of one of them, decoded
    title: str
    urls: list[str]  # the first few


class Duplicates(msgspec.Struct, kw_only=True):
    """Successful pages whose content had been fetched before, at another URL."""

    pages: int = 0
    groups: int = 0
    largest: list[DuplicateGroup] = []
    answers: int = 0  # answers of any status with content fetched before: what `lycosa status` counts


class Clusters(msgspec.Struct, kw_only=True):
    """Pages with nearly the same content, as of the last `lycosa duplicates`."""

    clusters: int = 0
    pages: int = 0
    across: int = 0  # pages that resemble one of another host
    largest: list[Cluster] = []


class TrapRow(msgspec.Struct, kw_only=True):
    """A pattern of URLs that kept giving nothing new."""

    pattern: str
    quarantined: bool  # False: it was, and was released
    since: str | None
    why: str
    skipped: int = 0  # URLs, in total
    examples: list[str] = []


class ActRow(msgspec.Struct, kw_only=True):
    """An action of the operator on the running crawl."""

    at: str | None
    who: str
    what: str


class Traps(msgspec.Struct, kw_only=True):
    """Patterns that were quarantined, and the URLs skipped because of it."""

    quarantined: int = 0
    released: int = 0
    urls: int = 0  # skipped; some may have been restored since
    largest: list[TrapRow] = []


class RuleRow(msgspec.Struct, kw_only=True):
    """A rule about URLs that lead to the same page, which the crawl has learned."""

    rule: str
    applied: bool  # False: it was, and was withdrawn
    since: str | None
    why: str
    skipped: int = 0  # URLs, in total
    examples: list[str] = []


class UrlRules(msgspec.Struct, kw_only=True):
    """Rules about URLs that lead to the same page: those that were applied, and those proposed for review."""

    applied: int = 0
    withdrawn: int = 0
    urls: int = 0  # skipped; some may have been restored since
    largest: list[RuleRow] = []
    proposed: list[Proposal] = []  # by `lycosa duplicates`


class Forbidden(msgspec.Struct, kw_only=True):
    """A robots rule that kept URLs from being fetched."""

    site: str
    rule: str  # "line 3: Disallow: /private"
    urls: int
    example: str


class RobotsPart(msgspec.Struct, kw_only=True):
    """The effect of robots files."""

    files: int = 0
    statuses: list[Reason] = []
    forbidden_urls: int = 0
    forbidden: list[Forbidden] = []


class Truncated(msgspec.Struct, kw_only=True):
    """Bodies that were cut at a limit."""

    pages: int = 0
    by_limit: dict[str, int] = {}
    largest: list[PageRow] = []


class Holder(msgspec.Struct, kw_only=True):
    """A page that holds a link."""

    url: str  # or "seed", or that of a robots.txt
    text: str
    kind: str


class BrokenLink(msgspec.Struct, kw_only=True):
    """A URL that gave an error, or no answer, and who links to it."""

    url: str
    status: int  # 0: no answer
    why: str  # "status 404", "failed: timeout ...", "dns: ..."
    links: int  # pages that hold a link to it
    holders: list[Holder]  # the first few


class Broken(msgspec.Struct, kw_only=True):
    """Broken links, most linked first."""

    urls: int = 0
    links: int = 0
    shown: list[BrokenLink] = []


class Moment(msgspec.Struct, kw_only=True):
    """What happened in an interval of time, according to the log."""

    at: str
    seconds: float
    pages: int  # fetches, whether of new pages or of known ones
    bytes: int


class Gauge(msgspec.Struct, kw_only=True):
    """What the process reported about itself at a time (meters.jsonl)."""

    at: str
    visits: int
    pending: int
    left_behind: int
    deferred: int
    hosts: int
    rss: int
    running: bool = True  # False: the last line of a run
    pages: int = 0
    bytes: int = 0
    errors: int = 0  # failed attempts of this run


class Active(msgspec.Struct, kw_only=True):
    """Visits under way over time, from the gauges; pauses between runs do not count (seed 001, §6.4)."""

    limit: int = 0  # *r*: visits allowed at a time, as configured last
    most: int = 0
    mean: float = 0.0
    half: float = 0.0  # share of the time in which at least half of those allowed were under way


class FreshRow(msgspec.Struct):
    """How fresh the pages of a host are, or all pages, as far as can be known."""

    host: str  # "": the whole crawl
    pages: int
    fresh: float  # the share, weighted by importance, of pages that have not changed since their fetch,
    error: float  # plus or minus this: two standard deviations
    plain: float  # the share, not weighted
    age: float  # seconds for which pages have been out of date, averaged over all pages


class Report(msgspec.Struct, kw_only=True):
    """The whole report."""

    directory: str
    crawl: str
    version: str
    shards: int
    created: str | None
    generated: str | None
    running: bool
    began: str | None = None  # first and last answer
    ended: str | None = None
    seconds: float = 0.0  # between them, pauses of the crawl included
    seeds: list[str] = []
    seed_count: int = 0
    user_agent: str = ""
    records: int = 0
    pages: int = 0
    bytes: int = 0
    decoded: int = 0
    links: int = 0
    sites: int = 0
    silent_sites: int = 0
    median_ms: int = 0
    statuses: list[Count] = []
    types: list[Count] = []
    depths: list[Count] = []
    skipped: list[Reason] = []
    errors: list[Reason] = []
    deferred: list[DeferredCount] = []
    largest_sites: list[SiteRow] = []
    troubled_sites: list[SiteRow] = []  # most errors and failures
    slowest_sites: list[SiteRow] = []  # by median, of sites with some pages
    slowest: list[PageRow] = []
    largest: list[PageRow] = []
    redirects: Redirects = msgspec.field(default_factory=Redirects)
    duplicates: Duplicates = msgspec.field(default_factory=Duplicates)
    clusters: Clusters = msgspec.field(default_factory=Clusters)
    traps: Traps = msgspec.field(default_factory=Traps)
    rules: UrlRules = msgspec.field(default_factory=UrlRules)
    robots: RobotsPart = msgspec.field(default_factory=RobotsPart)
    truncated: Truncated = msgspec.field(default_factory=Truncated)
    broken: Broken = msgspec.field(default_factory=Broken)
    timeline: list[Moment] = []
    gauges: list[Gauge] = []
    active: Active = msgspec.field(default_factory=Active)
    notes: list[str] = []
    fetches: int = 0
    acts: list[ActRow] = []
    freshness: list[FreshRow] = []  # of a continuous crawl: the whole, then the hosts with the most pages


def make_report(
    crawl: CrawlReader, *, at: int, top: int = 20, broken: int = 500, told: Told | None = None
) -> Report:
    """The report of a crawl as of `at`: lists of `top` rows, and of `broken` broken links."""
    from lycosa.ask.report_fold import FirstPass
    from lycosa.ask.report_links import SecondPass
    from lycosa.ask.report_time import activity, read_gauges

    told = told or (lambda _what, _count: None)
    manifest = crawl.manifest
    report = Report(
        directory=str(crawl.directory),
        crawl=manifest.crawl,
        version=manifest.version,
        shards=manifest.shards,
        created=iso(manifest.created),
        generated=iso(at),
        running=process_of(crawl.directory) is not None,
    )
    first = FirstPass(crawl.keyer, top)
    versions = Versions(crawl)
    stretches = [Stretch(log, 0, versions.end(shard)) for shard, log in enumerate(crawl.logs)]
    for shard, stretch in enumerate(stretches):
        for position, record in stretch.read():
            first.apply(shard, position, record, versions.is_current(shard, position))
            if not first.records & 0xFFF:
                told("reading the log", first.records)
        first.end_shard()
    first.write(report)
    second = SecondPass(crawl, first, top, broken)
    if second.needed:
        read = 0
        for shard, stretch in enumerate(stretches):
            for position, record in stretch.read():
                if not isinstance(record, Fetched) or versions.is_current(shard, position):
                    second.apply(shard, position, record)
                read += 1
                if not read & 0xFFF:
                    told("finding who links to broken pages", read)
    second.write(report)
    report.gauges = read_gauges(crawl.directory)
    report.active = activity(report.gauges, first.visits)
    _add_clusters(report, crawl, top)
    report.freshness = _freshness(crawl, at, top)
    return report


def _add_clusters(report: Report, crawl: CrawlReader, top: int) -> None:
    found = ClusterReader.of(crawl)
    if found is None:
        return
    clusters, pages, across = found.counts()
    report.clusters = Clusters(clusters=clusters, pages=pages, across=across, largest=found.largest(top))
    report.rules.proposed = found.proposals[:top]


def _freshness(crawl: CrawlReader, at: int, top: int) -> list[FreshRow]:
    options = crawl.options()
    if options is None or not options.refresh.continuous:
        return []
    from lycosa.ask.freshness import freshness

    found = freshness(crawl, at, options.refresh)
    if found is None:
        return []
    rows = [("", found.whole), *found.hosts[:top]]
    return [FreshRow(host, row.pages, row.fresh, row.error, row.plain, row.age) for host, row in rows]
