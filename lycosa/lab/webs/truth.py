"""The truth about a web: what a correct crawler fetches, must not ask for, and may fetch or not.

The assumptions of *correct* are a `Policy`. Under the default one, a crawler that starts at the web's
seeds

- follows links to all hosts of the web, and to none outside it;
- obeys robots.txt as the agent `lycosa` (RFC 9309; 5xx and unreachable files forbid the whole
  site);
- does not follow nofollow links, reads the sitemaps that robots files name, and fetches no
  requisites and runs no scripts;
- follows at most ten redirects in a row: a URL to which ten led is fetched, one to which eleven led
  is not;
- makes three attempts where an attempt fails (no answer, 429, 503);
- otherwise fetches each URL once, whatever its status, and keeps the received part of a body cut short.

Every URL is then exactly one of

    must        fetched, to an answer (its status among `Expected.statuses`),
                or three times in vain (status 0)
    must_not    never asked for
    may         either is right; endless places are here too

Limits make the outcome depend on the order, so the truth turns them into bounds. With `site_pages`,
a site with more than that many URLs has all of its URLs in `may` and a `Bound` on their
number. With `depth`, a crawler may reach a URL by a longer way than the shortest, so all except the
seeds are in `may`; trap URLs that no path is short enough to reach are in `must_not`.

/robots.txt is not included: it is asked for as rules, not as a page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from lycosa.lab.webs.answers import Expected, Only
from lycosa.lab.webs.sections.traps import ENTRIES, steps


class Verdict(StrEnum):
    MUST = "must"
    MUST_NOT = "must-not"
    MAY = "may"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The crawler's settings. The defaults are Lycosa's own, but without limits."""

    agent: str = "lycosa"
    robots: bool = True
    """Whether robots.txt is asked for and obeyed; if not, the sitemaps it names stay unknown too."""
    nofollow: bool = True
    """Whether nofollow is honoured."""
    sitemaps: bool = True
    requisites: bool = False
    render: bool = False
    """Whether pages that are empty without their scripts are rendered."""
    redirects: int = 10
    attempts: int = 3
    site_pages: int = 0
    """Limit of pages per site; 0: no limit."""
    depth: int = 0
    """Limit of links from a seed; 0: no limit."""


class TrapSite(NamedTuple):
    """A site that has no end, and the reason."""

    site: str
    role: str


class Bound(NamedTuple):
    """Between `least` and `most` URLs of the site are fetched; `most` 0: no upper bound."""

    site: str
    least: int
    most: int


def judge(expected: Expected, policy: Policy) -> Verdict:
    """The verdict on a URL under a policy, apart from limits."""
    if _forbidden(expected.only, policy) or _forbidden(expected.whole_site, policy):
        return Verdict.MUST_NOT
    if expected.hops > policy.redirects:
        return Verdict.MUST_NOT
    if expected.only in (Only.EITHER_WAY, Only.TRAP):
        return Verdict.MAY
    return Verdict.MUST if expected.fails < policy.attempts else Verdict.MAY


def _forbidden(only: Only, policy: Policy) -> bool:
    ours = policy.agent.lower() == "lycosa"
    match only:
        case Only.NOT_A_LINK | Only.OUTSIDE:
            return True
        case Only.ROBOTS | Only.ROBOTS_UNREACHABLE:
            return policy.robots
        case Only.ROBOTS_OTHERS:
            return policy.robots and not ours
        case Only.NOFOLLOW:
            return policy.nofollow
        case Only.NOFOLLOW_OURS:
            return policy.nofollow and ours
        case Only.SITEMAPS:
            return not (policy.sitemaps and policy.robots)
        case Only.REQUISITES:
            return not policy.requisites
        case Only.RENDERED:
            return not policy.render
        case _:
            return False


def site_of(url: str) -> str:
    """Scheme, host and port of a canonical URL: everything before the path."""
    return url[: url.index("/", url.index("://") + 3)]


class Truth:
    """The verdict on every URL of a web under one policy."""

    def __init__(
        self,
        policy: Policy,
        expected: Iterable[Expected],
        seeds: list[str],
        traps: list[TrapSite],
    ) -> None:
        self.policy = policy
        self.seeds = seeds
        self.expected: dict[str, Expected] = {}
        self.must: set[str] = set()
        self.must_not: set[str] = set()
        self.may: set[str] = set()
        """URLs that can be listed; `allows` also accepts the endless ones."""
        self.bounds: list[Bound] = []
        self._traps = dict(traps)
        sets = {Verdict.MUST: self.must, Verdict.MUST_NOT: self.must_not, Verdict.MAY: self.may}
        for row in expected:
            self.expected[row.url] = row
            sets[judge(row, policy)].add(row.url)
        sizes = Counter(map(site_of, self.must))
        self.largest_site = max(sizes.values(), default=0)
        """The most URLs of a site that must be fetched: a `site_pages` somewhat above this limits traps only."""
        if policy.site_pages:
            self._limit_sites(sizes, policy.site_pages)
        else:
            self.bounds += [Bound(trap.site, sizes[trap.site], 0) for trap in traps]
        if policy.depth:
            self._to_may(self.must - set(seeds))
            self.bounds = [bound._replace(least=0) for bound in self.bounds]

    def _limit_sites(self, sizes: Counter[str], most: int) -> None:
        possible = Counter(map(site_of, self.must | self.may))
        cut = {site for site, count in possible.items() if count > most} | set(self._traps)
        self._to_may(
            {
                url
                for url in self.must
                if site_of(url) in cut or self.expected[url].via in cut or site_of(self.seeds[0]) in cut
            }
        )
        for site in sorted(cut):
            # A trap's ordinary pages are all near its home page, and a crawl that misses one has filled the
            # limit with the trap. For another site only one page is certain: a page excluded by the limit may
            # have been the only way to others.
            least = min(most, sizes[site]) if site in self._traps else min(1, sizes[site])
            self.bounds.append(Bound(site, least, most))

    def _to_may(self, urls: set[str]) -> None:
        self.must -= urls
        self.may |= urls

    def verdict(self, url: str) -> Verdict | None:
        """The verdict on a URL; None if the web has no such URL, so that asking for it is a mistake."""
        if url in self.must:
            return Verdict.MUST
        if url in self.must_not:
            return Verdict.MUST_NOT
        if url in self.may and not self.policy.depth:
            return Verdict.MAY
        far = self.steps(url)
        if far is not None:
            within = not self.policy.depth or far + 1 <= self.policy.depth
            return Verdict.MAY if within else Verdict.MUST_NOT
        return Verdict.MAY if url in self.may else None

    def steps(self, url: str) -> int | None:
        """The least number of links from the entry of a trap to one of its URLs; None if it is of no trap."""
        site = site_of(url)
        role = self._traps.get(site)
        if role is not None:
            return steps(role, url[len(site) :])
        scheme, _, name = site.partition("://")
        above = f"{scheme}://{name.partition('.')[2]}"
        return 1 if self._traps.get(above) == "farm" and url == site + "/" else None

    def wasted(self, fetched: Iterable[str]) -> set[str]:
        """The URLs among those fetched that were unnecessary: traps, beyond their entries."""
        return {url for url in fetched if self.steps(url)}

    def compare(self, fetched: Mapping[str, int] | Iterable[str]) -> list[str]:
        """How a crawl differs from the truth: a line for each difference, none if it was correct.

        `fetched` has the URLs that were asked for (robots files aside); as a mapping, with the
        final status of each, 0 where every attempt failed.
        """
        statuses = fetched if isinstance(fetched, Mapping) else None
        urls = set(fetched)
        return [
            *self._compare_sets(urls),
            *self._compare_statuses(statuses or {}),
            *self._compare_bounds(urls),
        ]

    def _compare_sets(self, urls: set[str]) -> Iterator[str]:
        for url in sorted(self.must - urls):
            row = self.expected[url]
            if row.statuses != (0,):  # no answer cannot be distinguished from not having asked
                yield f"not fetched: {url}"
        for url in sorted(urls - self.must):
            verdict = self.verdict(url)
            if verdict is Verdict.MUST_NOT:
                row_ = self.expected.get(url)
                why = row_.only or row_.whole_site or f"{row_.hops} redirects" if row_ else "depth"
                yield f"must not be fetched ({why}): {url}"
            elif verdict is None:
                yield f"no such URL: {url}"

    def _compare_statuses(self, statuses: Mapping[str, int]) -> Iterator[str]:
        for url, status in sorted(statuses.items()):
            row = self.expected.get(url)
            if row is None or url in self.must_not:
                continue
            passing = row.fails >= self.policy.attempts and status in (0, 429, 503)
            if status not in row.statuses and not passing:
                wanted = " or ".join(map(str, row.statuses))
                yield f"status {status} instead of {wanted}: {url}"

    def _compare_bounds(self, urls: set[str]) -> Iterator[str]:
        counts = Counter(map(site_of, urls))
        for bound in self.bounds:
            count = counts[bound.site]
            if count < bound.least:
                yield f"{count} pages instead of at least {bound.least}: {bound.site}"
            if bound.most and count > bound.most:
                yield f"{count} pages instead of at most {bound.most}: {bound.site}"


def lines(truth: Truth) -> Iterator[bytes]:
    """The truth as JSON lines: one for every URL, then one for every bound."""
    encode = msgspec.json.Encoder().encode
    for url, row in truth.expected.items():
        fields = {
            "url": url,
            "verdict": truth.verdict(url),
            "statuses": row.statuses,
            "why": row.only or row.whole_site,
            "location": row.location,
            "hops": row.hops,
            "truncated": row.truncated,
        }
        yield encode(fields) + b"\n"
    for bound in truth.bounds:
        yield encode({"site": bound.site, "least": bound.least, "most": bound.most}) + b"\n"


__all__ = ["ENTRIES", "Bound", "Policy", "TrapSite", "Truth", "Verdict", "judge", "lines", "site_of"]
