"""The keeper of robots rules: what a site's robots.txt says, asked for when it must be and not before.

A URL is judged immediately before its fetch (Manning et al. §20.2.1), by the rules that the site table points
to in the log; parsed rules are kept in a small cache. Where there are none, or they have expired, robots.txt is
asked for within the visit that needs it, on the host's own turn. Every asking is logged as `Robots`, also one
that failed: its due time then is when it may be tried again, and until then nothing of that site is fetched.

A robots.txt may redirect, on its host or to another one, whose turn may not be had now. The next visit then goes on
from there: asking for the first URL again would only be answered by the same redirect.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from lycosa.clock import Clock, milliseconds
from lycosa.crawl.harvest import Harvester
from lycosa.crawl.shard import Shard
from lycosa.crawl.sites import Site
from lycosa.fetch.protocol import Failure, Response
from lycosa.fetch.robots import RobotsRules
from lycosa.fetch.robots_policy import Act, RobotsOptions, decide, outcome_of
from lycosa.records import Link, LinkKind, Links, Robots
from lycosa.url.canonical import NO_RULES, canonicalise, schemes_from

_KEPT = 2_000
_SITEMAPS = 1_000
_PLACES = 1_000
ROBOTS_BYTES = 500 * 1024
"""What RFC 9309 §2.5 wants read, and all that the log keeps."""

Asker = Callable[[str], Awaitable[Response | Failure | None]]
"""Fetches one robots URL on the visit's turn; None: its host's turn cannot be had now."""


class Ruling(NamedTuple):
    """The rules of a site, or when to ask for them again."""

    rules: RobotsRules | None
    due: int = 0
    """With no rules: not before this time (milliseconds); 0: the turn could not be had."""
    final: bool = False
    """With no rules: they could not be had often enough; give the site's URLs up."""
    asked: bool = False
    """Robots.txt was asked for just now."""


class RulesKeeper:
    """Rules by site."""

    def __init__(
        self, *, agent: str, attempts: int, policy: RobotsOptions, clock: Clock, harvester: Harvester
    ) -> None:
        self._agent = agent
        self._attempts = attempts
        self._policy = policy
        self._clock = clock
        self._harvester = harvester
        self._cache: OrderedDict[str, tuple[int, RobotsRules]] = OrderedDict()
        self._places: OrderedDict[str, tuple[str, int]] = OrderedDict()
        """Of sites whose redirects could not be followed to the end: where to go on, and after how many."""

    async def ruling(self, shard: Shard, site: str, ask: Asker) -> Ruling:
        """The rules that hold for a site now."""
        entry = shard.sites.get(site)
        now = milliseconds(self._clock)
        if entry.robots_failures:
            if now < entry.robots_retry:
                return Ruling(None, due=entry.robots_retry, final=entry.robots_failures >= self._attempts)
        elif entry.robots_position >= 0 and now < entry.robots_expires:
            return Ruling(self._known(shard, site, entry))
        return await self._ask(shard, site, entry, ask)

    def _known(self, shard: Shard, site: str, entry: Site) -> RobotsRules:
        cached = self._cache.get(site)
        if cached is not None and cached[0] == entry.robots_position:
            self._cache.move_to_end(site)
            return cached[1]
        record = shard.log.read(entry.robots_position)
        assert isinstance(record, Robots)
        return self._remember(site, entry.robots_position, RobotsRules.parse(record.body))

    def _remember(self, site: str, position: int, rules: RobotsRules) -> RobotsRules:
        self._cache[site] = (position, rules)
        if len(self._cache) > _KEPT:
            self._cache.popitem(last=False)
        return rules

    async def _ask(self, shard: Shard, site: str, entry: Site, ask: Asker) -> Ruling:
        url, hops = self._places.pop(site, (f"{site}/robots.txt", 0))
        while True:
            answer = await ask(url)
            if answer is None:
                if hops:
                    self._places[site] = url, hops
                    if len(self._places) > _PLACES:
                        self._places.popitem(last=False)
                return Ruling(None, asked=hops > 0)
            now = milliseconds(self._clock)
            outcome = outcome_of(answer, url, hops)
            decision = decide(outcome, now, attempt=entry.robots_failures, options=self._policy)
            if decision.act is not Act.FOLLOW:
                break
            url, hops = decision.location, hops + 1
        stored = self._harvester.store(answer, now) if isinstance(answer, Response) else None
        if decision.act is Act.DENY:
            detail = f"unreachable: {decision.detail}"[:300]
            shard.append(Robots(now, site, outcome.status, b"", decision.until, stored=stored, detail=detail))
            final = entry.robots_failures >= self._attempts
            return Ruling(None, due=decision.until, final=final, asked=True)
        parsed = decision.act is Act.PARSE and isinstance(answer, Response)
        body = answer.decoded[:ROBOTS_BYTES] if parsed and isinstance(answer, Response) else b""
        rules = RobotsRules.parse(body)
        links = self._sitemaps(rules, url)
        delay = rules.crawl_delay(self._agent) or 0.0
        record = Robots(
            now, site, outcome.status, body, decision.until, links, stored, decision.detail, delay
        )
        position = shard.append(record)
        return Ruling(self._remember(site, position, rules), asked=True)

    @staticmethod
    def _sitemaps(rules: RobotsRules, url: str) -> Links:
        schemes = schemes_from(url)
        found = (canonicalise(sitemap, url, NO_RULES, schemes) for sitemap in rules.sitemaps[:_SITEMAPS])
        return Links.pack(
            Link(sitemap, LinkKind.SITEMAP, False, "") for sitemap in dict.fromkeys(found) if sitemap
        )
