"""The report's first pass: everything that can be computed record by record.

Limits; the report's notes say so when one is reached:

    SITES       sites of one shard in the table; those met later share one row, "others"
    NAMES       media types, error kinds and the like: they come from sites, which can invent them
    BROKEN      keys of broken URLs kept for the second pass
    REDIRECTS   redirects whose chains are looked at
    DIGESTS     duplicates that are grouped
    WAITING     deferred URLs of one shard for which it is known whether they are still pending

A fetch's time goes into a histogram with steps of a quarter octave, so medians are accurate to a tenth without a
list of times.
"""

from __future__ import annotations

from array import array
from typing import Any

import msgspec

from lycosa.ask.json_form import iso
from lycosa.ask.report import (
    ActRow,
    DeferredCount,
    Forbidden,
    PageRow,
    Report,
    RobotsPart,
    RuleRow,
    SiteRow,
    TrapRow,
    Traps,
    Truncated,
    UrlRules,
)
from lycosa.ask.report_tables import NAMES, OTHERS, Places, SiteSums, Table, Times, Top
from lycosa.ask.report_time import Timeline
from lycosa.records import (
    Configured,
    Deferred,
    Fetched,
    Learned,
    LinkKind,
    Record,
    Robots,
    Seeded,
    Skipped,
    Why,
)
from lycosa.url.key import Keyer
from lycosa.url.parts import site_of

SITES = 100_000
BROKEN = 500_000
REDIRECTS = 1_000_000
DIGESTS = 4_000_000
WAITING = 200_000
_SEEDS = 5
_SLOW_PAGES = 3
"""With fewer pages a site's median means little."""
_SILENT = frozenset((Why.FAILED, Why.DNS, Why.ADDRESS, Why.ROBOTS, Why.ROBOTS_UNREACHABLE))
"""Reasons for skipping a URL which imply that its site was asked, or could not be."""


class FirstPass:
    """Counts, shard by shard: `apply` each record of a shard in order, then `end_shard`."""

    def __init__(self, keyer: Keyer, top: int) -> None:
        self._key = keyer.key
        self._top = top
        self.records = 0
        self._fetches = self._pages = self._bytes = self._decoded = self._links = 0
        self._first = self._last = 0
        self._statuses, self._types, self._depths = Table(), Table(), Table()
        self._skipped, self._errors, self._robots = Table(), Table(), Table()
        self._times = Times()
        self._timeline = Timeline()
        self._slowest: Top[PageRow] = Top(top)
        self._largest: Top[PageRow] = Top(top)
        self._cut: Top[PageRow] = Top(top)
        self._cut_by: dict[str, int] = {}
        self._seeds: list[str] = []
        self._seed_count = 0
        self._options = b""
        self._configured = -1
        self._deferred: dict[str, DeferredCount] = {}
        self._due: dict[str, int] = {}
        self._robots_files = 0
        self.broken = Places(BROKEN)
        self.redirects = Places(REDIRECTS)
        self.targets = array("Q")
        self.digests = array("Q")
        self.digests_lost = 0
        self._site_count = self._silent_count = 0
        self.duplicates = 0
        self._sites_lost = self._rules_lost = self._waiting_lost = False
        self._largest_sites: Top[SiteRow] = Top(top)
        self._troubled: Top[SiteRow] = Top(top)
        self._slow_sites: Top[SiteRow] = Top(top)
        self._forbidden_urls = 0
        self._forbidden: Top[Forbidden] = Top(top)
        self._traps: dict[str, TrapRow] = {}
        self._acts: dict[str, ActRow] = {}
        self._trapped = 0
        self._joins: dict[str, RuleRow] = {}
        self._joined = 0
        self._begin_shard()

    def _begin_shard(self) -> None:
        self._sites: dict[str, SiteSums] = {}
        self._rules: dict[tuple[str, str], list[Any]] = {}
        self._waiting: dict[str, tuple[str, int]] = {}
        self._open_broken: dict[int, tuple[int, int]] = {}

    # -- records

    def apply(self, shard: int, position: int, record: Record, current: bool = True) -> None:
        """The next record; `current`: whether a Fetched is the current fetch of its page."""
        self.records += 1
        if isinstance(record, Fetched):
            self._note_fetch(record)
            if current:
                self._note_page(shard, position, record)
        elif isinstance(record, Skipped):
            self._skip(shard, position, record)
        elif isinstance(record, Deferred):
            self._defer(record)
        elif isinstance(record, Robots):
            self._robots_files += 1
            name = f"status {record.status}" if record.status else "no answer"
            self._robots.add(name, example=record.site)
            self._site(record.site)
            if record.unreachable:
                self._errors.add("robots.txt " + name, example=record.site)
        elif isinstance(record, Seeded):
            self._seed_count += len(record.links)
            if len(self._seeds) < _SEEDS:
                self._seeds += [link.url for link in record.links][: _SEEDS - len(self._seeds)]
        elif isinstance(record, Learned):
            self._learn(record)
        elif isinstance(record, Configured):
            for ident, at, who, what in record.acts:
                self._acts.setdefault(ident, ActRow(at=iso(at), who=who, what=what))
            if record.at >= self._configured:
                self._options, self._configured = record.options, record.at

    def _learn(self, record: Learned) -> None:
        if record.what == "rule" and (record.subject in self._joins or len(self._joins) < SITES):
            rule = self._joins.setdefault(
                record.subject, RuleRow(rule=record.subject, applied=True, since=None, why="")
            )
            rule.applied, rule.since, rule.why = record.holds, iso(record.at), record.why
            rule.examples = record.examples
        row = self._traps.get(record.subject)
        if record.what != "trap" or (row is None and len(self._traps) >= SITES):
            return
        if row is None:
            row = self._traps[record.subject] = TrapRow(
                pattern=record.subject, quarantined=True, since=None, why=""
            )
        row.quarantined, row.since, row.why = record.holds, iso(record.at), record.why
        row.examples = record.examples or row.examples

    def _note_fetch(self, record: Fetched) -> None:
        """Count what holds for every fetch, whatever happened to the page since."""
        size, total = record.size, record.timing.total
        self._fetches += 1
        self._bytes += size
        self._decoded += record.length
        if not self._first or record.at < self._first:
            self._first = record.at
        self._last = max(self._last, record.at)
        self._times.add(total)
        self._timeline.add(record.at, size)
        site = self._site(site_of(record.url))
        site.bytes += size
        site.times.add(total)
        site.slowest = max(site.slowest, total)
        if self._waiting:
            self._waiting.pop(record.url, None)

    def _note_page(self, shard: int, position: int, record: Fetched) -> None:
        url, status, size, total = record.url, record.status, record.size, record.timing.total
        self._pages += 1
        self._links += len(record.links)
        self._statuses.add(str(status), size)
        self._types.add(record.type or "unknown", size)
        self._depths.add(str(record.depth), size)
        self.duplicates += record.duplicate
        site = self._site(site_of(url))
        site.pages += 1
        if self._slowest.wants(total):
            self._slowest.offer(total, _page(record))
        if self._largest.wants(record.length):
            self._largest.offer(record.length, _page(record))
        if record.truncated:
            self._cut_by[record.truncated] = self._cut_by.get(record.truncated, 0) + 1
            if self._cut.wants(size):
                self._cut.offer(size, _page(record))
        if status >= 400:
            site.errors += 1
            self._break(shard, position, url)
        elif self._open_broken:
            self._open_broken.pop(self._key(url), None)
        if 300 <= status < 400 and record.links.kinds[:1] == bytes([LinkKind.REDIRECT]):
            target = record.links.urls.partition(b"\n")[0].decode("ascii")
            if self.redirects.add(self._key(url), shard, position):
                self.targets.append(self._key(target))
        elif record.duplicate and 200 <= status < 300:
            if len(self.digests) < DIGESTS:
                self.digests.append(record.digest)
            else:
                self.digests_lost += 1

    def _site(self, name: str) -> SiteSums:
        site = self._sites.get(name)
        if site is None:
            if len(self._sites) >= SITES:
                self._sites_lost = True
                name = OTHERS
            site = self._sites.setdefault(name, SiteSums())
        return site

    def _break(self, shard: int, position: int, url: str) -> None:
        """Note that the latest answer for the URL is an error; a later success removes the note."""
        self._open_broken[self._key(url)] = shard, position
        if len(self._open_broken) > BROKEN:
            self._settle_broken()

    def _settle_broken(self) -> None:
        for key, (shard, position) in self._open_broken.items():
            self.broken.add(key, shard, position)
        self._open_broken.clear()

    def _skip(self, shard: int, position: int, record: Skipped) -> None:
        self._skipped.add(record.why, example=record.url)
        self._waiting.pop(record.url, None)
        if record.why in _SILENT:
            self._site(site_of(record.url))
        if record.why in (Why.FAILED, Why.DNS):
            self._errors.add(_kind(record.detail) or record.why, example=record.url)
            self._site(site_of(record.url)).failed += 1
            self._break(shard, position, record.url)
        elif record.why is Why.TRAP:
            self._trapped += 1
            trap = self._traps.get(record.detail.partition(" ")[0])
            if trap is not None:
                trap.skipped += 1
        elif record.why is Why.VARIANT:
            self._joined += 1
            rule = self._joins.get(record.detail.partition(" ")[0])
            if rule is not None:
                rule.skipped += 1
        elif record.why is Why.ROBOTS:
            self._forbidden_urls += 1
            name = site_of(record.url), record.detail
            row = self._rules.get(name)
            if row is not None:
                row[0] += 1
            elif len(self._rules) < SITES:
                self._rules[name] = [1, record.url]
            else:
                self._rules_lost = True

    def _defer(self, record: Deferred) -> None:
        row = self._deferred.setdefault(record.why, DeferredCount(name=record.why))
        row.times += 1
        if record.why in (Why.RETRY, Why.BUSY, Why.DNS):
            self._errors.add(_kind(record.detail) or record.why, example=record.url or record.site)
        if record.url:
            if len(self._waiting) < WAITING or record.url in self._waiting:
                self._waiting[record.url] = record.why, record.due
            else:
                self._waiting_lost = True

    # -- the end of a shard, and of all

    def end_shard(self) -> None:
        """All records of a shard have been applied: the counts of its sites are complete."""
        for name, site in self._sites.items():
            if name == OTHERS:
                continue
            self._site_count += site.pages > 0
            self._silent_count += not site.pages
            trouble = site.errors + site.failed
            for top, weight in ((self._largest_sites, site.pages), (self._troubled, trouble)):
                if weight and top.wants(weight):
                    top.offer(weight, site.row(name))
            if site.pages >= _SLOW_PAGES and self._slow_sites.wants(median := site.times.median()):
                self._slow_sites.offer(median, site.row(name))
        for (name, rule), (urls, example) in self._rules.items():
            self._forbidden.offer(urls, Forbidden(site=name, rule=rule, urls=urls, example=example))
        for why, due in self._waiting.values():
            self._deferred[why].waiting += 1
            self._due[why] = min(self._due.get(why, due), due)
        self._settle_broken()
        self._begin_shard()

    def write(self, report: Report) -> None:
        """Put all that this pass knows into the report."""
        for why, due in self._due.items():
            self._deferred[why].next_due = iso(due)
        report.began, report.ended = iso(self._first), iso(self._last)
        report.seconds = (self._last - self._first) / 1000
        report.seeds, report.seed_count = self._seeds, self._seed_count
        report.user_agent = str(_option(self._options, "fetch", "user_agent") or "")
        report.records, report.pages, report.links = self.records, self._pages, self._links
        report.fetches = self._fetches
        report.bytes, report.decoded = self._bytes, self._decoded
        report.sites, report.silent_sites = self._site_count, self._silent_count
        report.median_ms = self._times.median()
        report.statuses = sorted(self._statuses.counts(), key=lambda row: row.name)
        report.types = self._types.counts()
        report.depths = sorted(self._depths.counts(), key=lambda row: (len(row.name), row.name))
        report.skipped, report.errors = self._skipped.reasons(), self._errors.reasons()
        report.deferred = sorted(self._deferred.values(), key=lambda row: -row.times)
        report.largest_sites = self._largest_sites.rows()
        report.troubled_sites = self._troubled.rows()
        report.slowest_sites = self._slow_sites.rows()
        report.slowest, report.largest = self._slowest.rows(), self._largest.rows()
        report.robots = RobotsPart(
            files=self._robots_files,
            statuses=self._robots.reasons(),
            forbidden_urls=self._forbidden_urls,
            forbidden=self._forbidden.rows(),
        )
        given_up = set(_option(self._options, "traps", "release") or ())
        for row in self._traps.values():
            if row.quarantined and row.pattern in given_up:
                row.quarantined, row.why = False, "released by the operator"
        rows = sorted(self._traps.values(), key=lambda row: (not row.quarantined, -row.skipped, row.pattern))
        held = sum(row.quarantined for row in rows)
        report.acts = [self._acts[ident] for ident in sorted(self._acts)]
        report.traps = Traps(
            quarantined=held, released=len(rows) - held, urls=self._trapped, largest=rows[: self._top]
        )
        rules = sorted(self._joins.values(), key=lambda row: (not row.applied, -row.skipped, row.rule))
        applied = sum(row.applied for row in rules)
        report.rules = UrlRules(
            applied=applied,
            withdrawn=len(rules) - applied,
            urls=self._joined,
            largest=rules[: self._top],
        )
        report.truncated = Truncated(
            pages=sum(self._cut_by.values()), by_limit=self._cut_by, largest=self._cut.rows()
        )
        report.timeline = self._timeline.moments()
        report.notes += self._notes()

    @property
    def visits(self) -> int:
        """Visits that the crawl allows at a time; 0 if unknown."""
        found = _option(self._options, "visits")
        return found if isinstance(found, int) else 0

    def _notes(self) -> list[str]:
        said = (
            (
                self._sites_lost,
                f"a shard has more than {SITES:,} sites: those met later are not counted, and in no table of sites",
            ),
            (
                self._rules_lost,
                f"a shard has more than {SITES:,} robots rules that forbade: some are missing",
            ),
            (self._types.full, f"more than {NAMES:,} media types: the rest is in {OTHERS!r}"),
            (self._errors.full, f"more than {NAMES:,} kinds of errors: the rest is in {OTHERS!r}"),
            (self._depths.full, f"more than {NAMES:,} depths: the rest is in {OTHERS!r}"),
            (self.broken.lost, f"more than {BROKEN:,} broken URLs: {self.broken.lost:,} were not looked up"),
            (
                self.redirects.lost,
                f"more than {REDIRECTS:,} redirects: {self.redirects.lost:,} are in no chain",
            ),
            (
                self.digests_lost,
                f"more than {DIGESTS:,} duplicates: {self.digests_lost:,} are in no group",
            ),
            (self._waiting_lost, f"more than {WAITING:,} deferred URLs in a shard: more wait than is said"),
        )
        return [text for met, text in said if met]


def _page(record: Fetched) -> PageRow:
    return PageRow(
        url=record.url,
        status=record.status,
        type=record.type,
        bytes=record.size,
        length=record.length,
        total_ms=record.timing.total,
        title=record.title,
        truncated=record.truncated,
    )


def _kind(detail: str) -> str:
    """The word with which an error's detail begins: "timeout: no first byte ..." is "timeout"."""
    return detail.partition(":")[0].strip()[:40]


def _option(options: bytes, *names: str) -> Any:
    """An option by its name, read without parsing all options (their form may differ); None if not there."""
    try:
        found = msgspec.json.decode(options) if options else {}
        for name in names:
            found = found[name]
    except (msgspec.MsgspecError, KeyError, TypeError):
        return None
    return found
