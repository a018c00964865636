"""The keeper of robots rules: what a site's robots.txt says, requested only when needed.

A URL is judged immediately before its fetch (Manning et al. §20.2.1), by the rules that the site table points to in
the log. Parsed rules are kept in a cache: only those for this crawl's agent, of at most `KEPT` bytes. If there are
none, or they have expired, robots.txt is requested within the visit that needs it, on its host's turn. Every
request is logged as `Robots`, including failed ones: its due time then is when it may be tried again, and until
then nothing of that site is fetched.

A robots.txt may redirect, on its host or to another one, whose turn may not be available now. The next visit then
continues from there: requesting the first URL again would only be answered by the same redirect.
"""

from __future__ import annotations

import asyncio
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
from lycosa.records import Link, LinkKind, Links, Robots, RobotsState
from lycosa.url.canonical import NO_RULES, canonicalise, schemes_from

KEPT = 64 << 20
"""Approximate bytes of parsed rules that are kept."""
_LARGE = 1 << 15
"""Bytes of a robots.txt that are parsed in a few milliseconds; larger ones are parsed in a thread."""
_ENTRY = 1_000
_SITEMAPS = 1_000
_PLACES = 1_000
ROBOTS_BYTES = 500 * 1024
"""The size that RFC 9309 §2.5 requires to be parsed, and the most that the log keeps."""

_STATES = {Act.PARSE: RobotsState.READ, Act.ALLOW: RobotsState.NONE, Act.DENY: RobotsState.UNREACHABLE}

Asker = Callable[[str], Awaitable[Response | Failure | None]]
"""Fetches one robots URL on the visit's turn; None: its host's turn is not available now."""


class Ruling(NamedTuple):
    """The rules of a site, or when to request them again."""

    rules: RobotsRules | None
    due: int = 0
    """Without rules: not before this time (milliseconds); 0: the turn was not available."""
    final: bool = False
    """Without rules: too many attempts have failed; give the site's URLs up."""
    asked: bool = False
    """Whether robots.txt was requested just now."""
    detail: str = ""
    """The reason if the request just now failed."""


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
        self._cache: OrderedDict[str, tuple[int, RobotsRules, int]] = OrderedDict()
        self.nbytes = 0
        """Approximate bytes of parsed rules held."""
        self._places: OrderedDict[str, tuple[str, int]] = OrderedDict()
        """For sites whose redirects could not be followed to the end: the next URL, and the redirects so far."""

    async def ruling(self, shard: Shard, site: str, ask: Asker) -> Ruling:
        """The rules that apply to a site now."""
        entry = shard.sites.get(site)
        now = milliseconds(self._clock)
        if entry.robots_failures:
            if now < entry.robots_retry:
                return Ruling(None, due=entry.robots_retry, final=entry.robots_failures >= self._attempts)
        elif entry.robots_position >= 0 and now < entry.robots_expires:
            return Ruling(await self._known(shard, site, entry))
        return await self._ask(shard, site, entry, ask)

    async def _known(self, shard: Shard, site: str, entry: Site) -> RobotsRules:
        position = entry.robots_position
        cached = self._cache.get(site)
        if cached is not None and cached[0] == position:
            self._cache.move_to_end(site)
            return cached[1]
        if not shard.log.holds(position):
            shard.log.keep(await asyncio.to_thread(shard.log.fetch, position))
        record = shard.log.read(position)
        assert isinstance(record, Robots)
        _, own = await self._parse(record.body)
        return self._remember(site, position, own)

    async def _parse(self, body: bytes) -> tuple[RobotsRules, RobotsRules]:
        """All rules of a robots.txt, and those for this crawl."""

        def parse() -> tuple[RobotsRules, RobotsRules]:
            rules = RobotsRules.parse(body)
            return rules, rules.only(self._agent)

        return parse() if len(body) < _LARGE else await asyncio.to_thread(parse)

    def _remember(self, site: str, position: int, rules: RobotsRules) -> RobotsRules:
        self._forget(self._cache.pop(site, None))
        size = rules.nbytes + len(site) + _ENTRY
        self._cache[site] = (position, rules, size)
        self.nbytes += size
        while self.nbytes > KEPT and len(self._cache) > 1:
            self._forget(self._cache.popitem(last=False)[1])
        return rules

    def _forget(self, entry: tuple[int, RobotsRules, int] | None) -> None:
        if entry is not None:
            self.nbytes -= entry[2]

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
        response = answer if isinstance(answer, Response) else None
        body = response.decoded[:ROBOTS_BYTES] if response and decision.act is Act.PARSE else b""
        rules, own = await self._parse(body)
        record = Robots(
            at=now,
            site=site,
            status=outcome.status,
            body=body,
            expires=decision.until,
            links=self._sitemaps(rules, url),
            stored=self._harvester.store(response, now) if response else None,
            detail=decision.detail[:300],
            delay=own.crawl_delay(self._agent) or 0.0,
            state=_STATES[decision.act],
        )
        position = shard.append(record)
        if record.unreachable:
            final = entry.robots_failures >= self._attempts
            return Ruling(None, due=decision.until, final=final, asked=True, detail=record.detail)
        return Ruling(self._remember(site, position, own), asked=True)

    @staticmethod
    def _sitemaps(rules: RobotsRules, url: str) -> Links:
        schemes = schemes_from(url)
        found = (canonicalise(sitemap, url, NO_RULES, schemes) for sitemap in rules.sitemaps[:_SITEMAPS])
        return Links.pack(
            Link(sitemap, LinkKind.SITEMAP, False, "") for sitemap in dict.fromkeys(found) if sitemap
        )
