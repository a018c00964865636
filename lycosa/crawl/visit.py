"""A visit: one stay at a host, up to *c* pages over one connection, then a wait.

For each URL that the frontier gives for the host these steps follow in this order; each may be the last:

    scope now       the scope may be narrower than when the link was found       -> Skipped(scope)
    site limit      the site has its full number, and this is none of its pages  -> Skipped(site-limit)
    session         the site has a login that failed, or the URL would log out   -> Skipped(login)
    content seen    URLs of its pattern keep giving nothing new                  -> Skipped(trap)
    address         DNS, then the guard, then the address's own turn             -> Skipped(dns), ...
    robots          the site's rules, requested if needed                        -> Skipped(robots), Deferred
    login           by the site's form, if it has one and this is the first page
    quota           the run's limit of pages, unless it is a page already
    fetch           from the address that was checked                            -> Fetched, ...
    render          if a browser should render it (`lycosa.crawl.rendering`)     part of its Fetched

Every outcome is one record in the shard's log. A URL whose turn did not come (the address was busy, the run
stops) is put back and nothing is logged: it is still pending.

A visit has one connection, which ends with it. So a host has one connection at a time, an address has one whichever
hosts it serves and whichever agents ask them, and each new connection waits its turn: if the server closes the
connection, or if the next URL is at another port of the host, the visit ends. Only the redirects of a robots.txt on
its own host are followed within the visit, each new connection after the host's wait.

A shortage on this machine (descriptors, memory, ports) is no failure of the site: the URL is put back, the operator
is told, and no visit begins for a moment (`short_until`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from lycosa.clock import Clock, milliseconds
from lycosa.crawl.config import Options
from lycosa.crawl.errands import STOPPED, StoppedError
from lycosa.crawl.harvest import Alike, Crop, Earlier, Harvester
from lycosa.crawl.limits import RunQuota
from lycosa.crawl.rules import RulesKeeper
from lycosa.crawl.sessions import Came, Session, Sessions
from lycosa.crawl.shard import Shard
from lycosa.crawl.site_options import Setting, Settings
from lycosa.fetch.dns import DnsFailure, DnsKind, Resolver
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.protocol import Failure, FailureKind, Fetcher, Kind, Request, Response
from lycosa.frontier import pages_per_visit, retry_due, wait_after
from lycosa.meters import Meters
from lycosa.records import Before, Deferred, Fetched, Record, Skipped, Waiting, Why
from lycosa.refresh.hints import lifetime
from lycosa.url.parts import host_of, site_of

if TYPE_CHECKING:
    from lycosa.crawl.content_seen import ContentSeen
    from lycosa.crawl.harvest import Render
    from lycosa.crawl.near_pages import NearPages
    from lycosa.crawl.refreshing import Refreshing
    from lycosa.crawl.rendering import Rendering, Rendition
    from lycosa.page.protocol import Page
    from lycosa.records import Links

_AGAIN = frozenset((429, 500, 502, 503, 504))
"""Statuses that ask to come back later."""
_SLOW_DOWN = frozenset((429, 503))
_DOWN = frozenset((FailureKind.CONNECT, FailureKind.TIMEOUT, FailureKind.TLS, FailureKind.EMPTY))
"""Failures that usually concern the whole host."""
_UNHAD = {Why.FAILED, Why.DNS, Why.ROBOTS, Why.ROBOTS_UNREACHABLE, Why.ADDRESS}
"""Reasons why a page cannot be fetched now, and perhaps later: a continuous crawl does not give it up."""
_FULL = 60.0
"""Seconds that a host waits if its next URL is a new one, while a continuous crawl has no room for new pages."""
_CHAIN = 16
"""Number of a page's fetches that are searched for a content that it had before."""
_STALE = 10_000
_POLL = 0.1
"""Seconds between two tries at another host's turn."""
_SHORT_WAIT = 1.0
_TOLD_EVERY = 60.0
"""Seconds that the crawl waits for resources of this machine, and between two messages about it."""


class Addresses(Protocol):
    """One connection at a time to each address, and a wait after it, whichever agent asks."""

    async def begin(self, address: str, now: float) -> float:
        """0.0: the connection may be opened, and is counted as open. Else: when to try again."""
        ...

    def end(self, address: str, now: float) -> None:
        """The connection granted last for this address is closed."""
        ...


class Hosts(Protocol):
    """The turns of hosts, for a visit that needs that of another host than its own."""

    async def claim(self, host: str) -> bool:
        """Take the host's turn, if it may be asked now; a caller who gets it must `end` it."""
        ...

    def end(self, host: str, ready: float) -> None:
        """The turn is over; the host may be asked again from `ready` on (monotonic)."""
        ...


class FetcherTable(Protocol):
    """Fetchers by scheme."""

    @property
    def schemes(self) -> list[str]: ...

    def for_scheme(self, scheme: str) -> Fetcher | None: ...

    async def close(self) -> None: ...


class Stay:
    """The state of one visit."""

    def __init__(self, shard: Shard, host: str, setting: Setting, session: Session | None) -> None:
        self.shard = shard
        self.host = host
        self.setting = setting  # of the host; looked up again for every page
        self.session = session
        self.open: Waiting | None = None  # the URL that was taken and has no record yet
        self.address = ""
        self.site = ""  # the site of the visit's connection; "": there is none yet, or none any more
        self.asked = 0  # requests that used the network
        self.rested = 0  # the number of requests when the visit last waited, for requests of a page's scripts
        self.borrowed = False  # the address's turn belongs to another stay
        self.last = 0.0  # duration of the last request in seconds
        self.crawl_delay = 0.0
        self.retry_after: float | None = None
        self.lent = False  # another host of its address was asked since
        self.over = False  # the site has had enough, or the connection ended
        self.ready: float | None = None  # when to come back, if not decided by politeness


def _settings(options: Options) -> Settings:
    return Settings(options.site, options.politeness, options.scope.max_pages_per_site)


class Visitor:
    """Carries out visits."""

    def __init__(
        self,
        *,
        options: Options,
        fetchers: FetcherTable,
        resolver: Resolver,
        guard: AddressGuard,
        addresses: Addresses,
        rules: RulesKeeper,
        harvester: Harvester,
        quota: RunQuota,
        hosts: Hosts,
        clock: Clock,
        meters: Meters,
        on_crop: Callable[[Crop], Awaitable[None]] | None = None,
        may_ask: Callable[[int, str], bool] = lambda shard, address: True,
        told: Callable[[str], None] | None = None,
        refreshing: Refreshing | None = None,
        content_seen: ContentSeen | None = None,
        near: NearPages | None = None,
        rendering: Rendering | None = None,
        shard_of: Callable[[str], Shard | None] = lambda host: None,
        sessions: Sessions | None = None,
    ) -> None:
        """`may_ask`: whether a shard's hosts may be asked now, at an address ("": at none yet). `told` is called
        with messages for the operator. `refreshing`: set if the crawl is continuous."""
        self._may_ask = may_ask
        self._options = options
        self._fetchers = fetchers
        self._resolver = resolver
        self._guard = guard
        self._addresses = addresses
        self._rules = rules
        self._harvester = harvester
        self._quota = quota
        self._hosts = hosts
        self._clock = clock
        self._refreshing = refreshing
        self._content_seen = content_seen
        self._near = near
        self._rendering = rendering
        self._shard_of = shard_of
        self._sessions = sessions or Sessions(None, clock)
        self._on_crop = on_crop
        self._failures = meters.counter
        self._pages = meters.counter("fetch.pages")
        self._bytes = meters.counter("fetch.bytes")
        self._settings = _settings(options)
        self._stale: set[str] = set()
        """Hosts whose last request found that a kept connection had ended."""
        self._told = told or (lambda _: None)
        self._told_next = 0.0
        self.short_until = 0.0
        """The time (monotonic) until which no visit should begin: this machine lacks some resource."""
        self.stopping = False

    async def close(self) -> None:
        """Close all connections."""
        if self._rendering is not None:
            await self._rendering.close()
        await self._fetchers.close()
        await self._resolver.close()
        self._harvester.close()
        if self._near is not None:
            self._near.close()

    def change(self, options: Options) -> None:
        """The operator has changed options: they apply from the next page on."""
        self._options, self._settings = options, _settings(options)

    def holds(self, host: str) -> bool:
        """Whether the operator holds a host."""
        return self._settings.of(host).hold

    async def visit(self, shard: Shard, host: str) -> None:
        """Visit a host whose turn the shard's frontier has begun."""
        turn = self._turn(shard, host)
        try:
            await self._stay(turn)
            await self._sessions.save(host, self._settings.of(host))
        finally:
            self._hang_up(turn)
            now = self._clock.monotonic()
            if turn.address:
                self._addresses.end(turn.address, now)
            ready = turn.ready if turn.ready is not None else now
            if turn.asked and host:  # files have no host that needs a rest
                politeness = self._settings.of(host).politeness
                wait = wait_after(politeness, turn.crawl_delay, turn.retry_after, turn.last)
                ready = max(ready, now + wait)
            shard.admission.replenish_host(host)  # before its turn ends: then the host is not forgotten
            shard.frontier.end(host, ready)

    def _turn(self, shard: Shard, host: str) -> Stay:
        setting = self._settings.of(host)
        return Stay(shard, host, setting, self._sessions.of(host, setting))

    async def _stay(self, turn: Stay) -> None:
        idle = 0
        while not self.stopping:
            turn.setting = setting = self._settings.of(turn.host)
            if setting.hold or turn.asked >= pages_per_visit(setting.politeness, turn.crawl_delay):
                return
            turn.session = self._sessions.of(turn.host, setting)
            if not self._may_ask(turn.shard.number, turn.address):
                return
            waiting = turn.shard.frontier.take(turn.host)
            if waiting is None:
                return
            before, turn.open = turn.asked, waiting
            try:
                go_on = await self._one(turn, waiting)
            finally:
                if turn.open is not None:
                    turn.shard.frontier.put_back(waiting)
            if not go_on or turn.over or (turn.asked and turn.address and not turn.site):
                return
            idle = idle + 1 if turn.asked == before else 0
            if idle >= 50:
                await asyncio.sleep(0)  # a long run of skips must not block the loop
                idle = 0

    async def _one(self, turn: Stay, waiting: Waiting) -> bool:
        """Process one URL; False if the visit is to end. A URL that got no record is put back."""
        shard, url = turn.shard, waiting.url
        if not shard.scope.inside(url, waiting.depth):
            verdict = shard.scope.judge(url, waiting.depth)
            return self._skip(turn, verdict.why, verdict.rule)
        setting = turn.setting
        if setting.depth is not None and waiting.depth > setting.depth:
            return self._skip(
                turn, Why.SCOPE, f"depth {waiting.depth} is more than {setting.depth} of its site"
            )
        limit = setting.pages
        is_page = waiting.before is Before.PAGE  # limits of pages do not apply to fetching it again
        if limit and not is_page and shard.sites.get(site_of(url)).pages >= limit:
            return self._skip(turn, Why.SITE_LIMIT, f"{limit} pages a site")
        session = turn.session
        if session is not None and (refused := session.refuses(url)):
            return self._skip(turn, Why.LOGIN, refused)
        if self._content_seen is not None and (held := self._content_seen.holds(shard, waiting)):
            return self._skip(turn, *held)
        scheme = url[: url.index(":")]
        fetcher = self._fetchers.for_scheme(scheme)
        if fetcher is None:
            return self._skip(turn, Why.SCHEME, scheme)
        site = site_of(url)
        if turn.asked and fetcher.needs_address and turn.site != site:
            return False  # it needs another connection, which waits its turn
        if is_page and self._refreshing and (until := self._refreshing.resting(turn.host)) is not None:
            return self._defer(turn, Why.REFRESH, until, waiting.attempt, "its host could not be reached")
        if fetcher.needs_address and not turn.address:
            arrived = await self._arrive(turn, waiting)
            if arrived is not None:
                return arrived
        if self._options.robots.obey and scheme in ("http", "https"):
            ruled = await self._judge(turn, waiting, site, fetcher)
            if ruled is not None:
                return ruled
        if session is not None and session.login is not None and not session.logged_in:
            entered = await self._log_in(turn, session)
            if entered is not None:
                return entered
        if not self._may_ask(shard.number, turn.address):
            return False
        if not is_page and not self._quota.take(shard.number):
            # A continuous crawl then has all its pages, for good: new URLs go behind known ones.
            turn.ready = self._clock.monotonic() + (1.0 if self._refreshing is None else _FULL)
            return False
        if not is_page and self._refreshing and not self._refreshing.may_discover():
            self._quota.give_back(shard.number)
            turn.ready = self._clock.monotonic() + min(self._refreshing.patience_for(0), _FULL)
            return False
        return await self._fetch(turn, waiting, fetcher)

    # -- the address

    async def _arrive(self, turn: Stay, waiting: Waiting) -> bool | None:
        """Find the host's address and get its turn. None: done; else what `_one` returns."""
        found = await self._resolver.resolve(turn.host)
        if isinstance(found, DnsFailure):
            if found.kind is DnsKind.LOCAL:
                return self._short(turn, f"no name can be asked for: {found.detail}")
            return self._no_address(turn, waiting, found)
        refusals = []
        for address in found.addresses:
            why = self._guard.refuses(address)
            if why is None:
                return await self._take_turn(turn, address)
            refusals.append(why)
        hint = "" if any(map(self._guard.outside, found.addresses)) else " (see --allow)"
        return self._skip(turn, Why.ADDRESS, f"{'; '.join(refusals)[:250]}{hint}")

    async def _take_turn(self, turn: Stay, address: str) -> bool | None:
        again = await self._addresses.begin(address, self._clock.monotonic())
        if again:
            turn.ready = again
            return False
        turn.address = address
        return None

    def _no_address(self, turn: Stay, waiting: Waiting, failure: DnsFailure) -> bool:
        shard = turn.shard
        self._failures("error.dns").add()
        failed = shard.sites.get(turn.host).dns_failures + 1
        now = milliseconds(self._clock)
        due = None if failure.final else retry_due(self._options.retry, failed, now)
        if due is None:
            return self._skip(turn, Why.DNS, f"{failure.kind}: {failure.detail}")
        site = site_of(waiting.url)
        shard.append(Deferred(now, "", site, 0, 0, failed, Why.DNS, due, f"{failure.kind}: {failure.detail}"))
        return False

    # -- robots

    async def _judge(self, turn: Stay, waiting: Waiting, site: str, fetcher: Fetcher) -> bool | None:
        """Check the site's rules. None: allowed; else what `_one` returns."""
        shard = turn.shard
        ruling = await self._rules.ruling(shard, site, lambda url: self._ask_robots(turn, url, fetcher))
        turn.crawl_delay = shard.sites.get(site).crawl_delay
        if ruling.rules is None:
            detail = "robots.txt could not be fetched" + (f": {ruling.detail}" if ruling.detail else "")
            if ruling.final:
                return self._skip(turn, Why.ROBOTS_UNREACHABLE, detail)
            if ruling.due:
                return self._defer(turn, Why.ROBOTS_UNREACHABLE, ruling.due, waiting.attempt, detail)
            turn.ready = self._clock.monotonic() + turn.setting.politeness.wait
            return False
        judgement = ruling.rules.judge(self._options.robots.agent, waiting.url)
        if not judgement.allowed:
            return self._skip(turn, Why.ROBOTS, f"line {judgement.line}: {judgement.rule}"[:300])
        if ruling.asked and pages_per_visit(turn.setting.politeness, turn.crawl_delay) <= turn.asked:
            return False  # robots.txt was this visit's only request
        if turn.lent or (turn.asked and fetcher.needs_address and turn.site != site):
            return False  # the request for robots.txt used up the connection; the address rests
        return None

    async def _ask_robots(self, turn: Stay, url: str, fetcher: Fetcher) -> Response | Failure | None:
        host = host_of(url)
        if not self._may_ask(turn.shard.number, turn.address):
            return None
        if host == turn.host:
            if turn.asked and turn.site != site_of(url):
                self._hang_up(turn)
                await self._clock.sleep(wait_after(turn.setting.politeness, 0.0, None, turn.last))
            elif turn.lent:
                await self._clock.sleep(self._options.politeness.address_wait)
            outcome = await self._request(turn, url, fetcher, Kind.ROBOTS)
            if self._not_asked(turn, outcome):
                return None
            if self._first_stale(host, outcome):  # again, over a new connection, after the wait
                return await self._ask_robots(turn, url, fetcher)
            return outcome
        return await self._ask_elsewhere(turn, host, url)

    async def _ask_elsewhere(self, turn: Stay, host: str, url: str) -> Response | Failure | None:
        """Request a robots.txt to which another host redirected: take that host's turn, or wait for it.

        The host need not be near a seed (RFC 9309 §2.3.1.2), but must not be one that the operator excludes.
        """
        if (excluded := turn.shard.scope.excludes(host)) is not None:
            return Failure(FailureKind.REFUSED_ADDRESS, excluded.rule, transient=False)
        fetcher = self._fetchers.for_scheme(url[: url.index(":")])
        if fetcher is None:
            return Failure(FailureKind.UNSUPPORTED, f"no fetcher for {url}", transient=False)
        if not await self._hosts.claim(host):
            return None
        other = self._turn(turn.shard, host)
        try:
            there = await self._settle_in(turn, other, fetcher)
            if there is not True:
                return there or None
            outcome = await self._request(other, url, fetcher, Kind.ROBOTS)
            if self._not_asked(turn, outcome):
                return None
            return None if self._first_stale(host, outcome) else outcome
        finally:
            self.leave(other)

    async def _settle_in(self, turn: Stay, other: Stay, fetcher: Fetcher) -> bool | Failure:
        """Find the address of a host whose turn was claimed for this visit, and get its turn; False: not now."""
        if not fetcher.needs_address:
            return True
        host = other.host
        found = await self._resolver.resolve(host)
        if isinstance(found, DnsFailure):
            if found.kind is DnsKind.LOCAL:
                return self._short(turn, f"no name can be asked for: {found.detail}")
            return Failure(FailureKind.CONNECT, f"{host}: {found.detail}", transient=not found.final)
        allowed = [address for address in found.addresses if self._guard.refuses(address) is None]
        if not allowed:
            return Failure(FailureKind.REFUSED_ADDRESS, f"{host} has no address that may be asked")
        if turn.address in allowed:  # this visit has its turn already, and its connection
            other.address, other.borrowed = turn.address, True
            turn.lent = True
            self._hang_up(turn)
            await self._clock.sleep(self._options.politeness.address_wait)
            return True
        return await self._take_turn(other, allowed[0]) is None

    def leave(self, other: Stay) -> None:
        """End the turn of another host."""
        self._hang_up(other)
        now = self._clock.monotonic()
        if other.address and not other.borrowed:
            self._addresses.end(other.address, now)
        wait = 0.0
        if other.asked:
            wait = wait_after(other.setting.politeness, other.crawl_delay, other.retry_after, other.last)
        self._hosts.end(other.host, now + wait)

    # -- requests of a page's scripts (`lycosa.crawl.errands`)

    def _render(self, turn: Stay, response: Response) -> Render | None:
        """The step that renders a page; None: no page is rendered."""
        rendering = self._rendering
        if rendering is None:
            return None
        when = turn.setting.render or self._options.render.when
        if when == "never":
            return None

        async def render(page: Page, links: Links) -> Rendition | None:
            if not rendering.wants(when, response, page, links):
                return None
            if self.stopping:
                raise StoppedError
            return await rendering.render(self, turn, when, response)

        return render

    def _alike(self, turn: Stay, waiting: Waiting) -> Alike | None:
        """The step that finds the page that another one is like; None: this is not wanted."""
        near = self._near
        return None if near is None else partial(near.earlier, turn.shard, waiting)

    async def lodge(self, turn: Stay, url: str, until: float) -> Stay | str:
        """Claim the turn of another host than the visit's, waiting for it; or the reason why it is not available. A
        caller who gets it must `leave`."""
        host = host_of(url)
        fetcher = self._fetchers.for_scheme(url[: url.index(":")])
        if fetcher is None:
            return "scheme"
        while not await self._hosts.claim(host):
            if (
                self.stopping
                or self._clock.monotonic() >= until
                or not self._may_ask(turn.shard.number, turn.address)
            ):
                return STOPPED if self.stopping else "turn (of its host)"
            await self._clock.sleep(_POLL)
        other = self._turn(self._shard_of(host) or turn.shard, host)
        there: bool | Failure | str = "turn (of its address)"
        try:
            while not (there := await self._settle_in(turn, other, fetcher)):
                if self.stopping or turn.over or self._clock.monotonic() >= until:
                    return "turn (of its address)"
                await self._clock.sleep(_POLL)
        finally:
            if there is not True:
                self.leave(other)
        if isinstance(there, Failure):
            return f"address ({there.detail})"
        return other

    async def errand(self, turn: Stay, url: str, headers: tuple[tuple[str, str], ...]) -> Response | str:
        """Send a request of a page's scripts on a turn, as politely as for a page; or the reason why it is not
        sent."""
        site, scheme = site_of(url), url[: url.index(":")]
        fetcher = self._fetchers.for_scheme(scheme)
        if fetcher is None:
            return "scheme"
        if self.stopping:
            return STOPPED
        if turn.over:
            return "turn (its host wants none now)"
        if self._options.robots.obey:
            ruling = await self._rules.ruling(
                turn.shard, site, lambda robots: self._ask_robots(turn, robots, fetcher)
            )
            turn.crawl_delay = max(turn.crawl_delay, turn.shard.sites.get(site).crawl_delay)
            if ruling.rules is None:
                return "robots (could not be fetched)"
            judgement = ruling.rules.judge(self._options.robots.agent, url)
            if not judgement.allowed:
                return f"robots (line {judgement.line}: {judgement.rule})"[:200]
        outcome: Response | Failure | None = None
        while outcome is None:
            await self._rest(turn, site)
            if self.stopping or not self._may_ask(turn.shard.number, turn.address):
                return STOPPED
            outcome = await self._request(turn, url, fetcher, Kind.PAGE, more=headers)
            if self._not_asked(turn, outcome):
                return STOPPED
            if self._first_stale(turn.host, outcome):
                outcome = None
        if isinstance(outcome, Failure):
            self._failures(f"error.{outcome.kind}").add()
            return f"failed ({outcome.kind}: {outcome.detail})"[:200]
        if outcome.status in _SLOW_DOWN:
            turn.over, turn.retry_after = True, outcome.retry_after
        return outcome

    async def _rest(self, turn: Stay, site: str) -> None:
        """Wait, if the next request belongs to the next visit, or needs another connection."""
        politeness = turn.setting.politeness
        since = turn.asked - turn.rested
        if since >= pages_per_visit(politeness, turn.crawl_delay) or (turn.asked and turn.site != site):
            self._hang_up(turn)
            wait = wait_after(politeness, turn.crawl_delay, None, turn.last)
            await self._clock.sleep(max(wait, self._options.politeness.address_wait))
            turn.rested, turn.lent = turn.asked, False

    def _first_stale(self, host: str, outcome: Response | Failure) -> bool:
        """Whether a kept connection had ended, which counts as no attempt; the second time in a row it does."""
        if not (isinstance(outcome, Failure) and outcome.kind is FailureKind.STALE):
            self._stale.discard(host)
            return False
        first = host not in self._stale
        if len(self._stale) >= _STALE:
            self._stale.clear()
        self._stale.add(host)
        return first

    # -- the session

    async def _log_in(self, turn: Stay, session: Session) -> bool | None:
        """Log in at the visit's host. None: done, and the visit goes on; else what `_one` returns."""
        came = await session.log_in(lambda url, body: self._ask_login(turn, url, body))
        if came is Came.OUT:
            self._told(f"{session.problem}; its pages are skipped (--refetch failed fetches them later)")
            return True  # the URL is put back, and skipped at once
        if came is Came.LATER:
            if not turn.over and session.failures:
                now = milliseconds(self._clock)
                due = retry_due(self._options.retry, session.failures, now) or now
                turn.ready = self._clock.monotonic() + (due - now) / 1000
            return False
        politeness = turn.setting.politeness
        return False if turn.asked >= pages_per_visit(politeness, turn.crawl_delay) else None

    async def _ask_login(self, turn: Stay, url: str, body: bytes | None) -> Response | Failure | None:
        """Send one request of a login, after the host's wait if the visit has had all its pages."""
        fetcher = self._fetchers.for_scheme(url[: url.index(":")])
        if fetcher is None or not self._may_ask(turn.shard.number, turn.address):
            return None
        politeness = turn.setting.politeness
        rest = turn.asked >= pages_per_visit(politeness, turn.crawl_delay)
        if turn.asked and (rest or turn.site != site_of(url)):
            self._hang_up(turn)
            await self._clock.sleep(wait_after(politeness, turn.crawl_delay, None, turn.last))
        outcome = await self._request(turn, url, fetcher, Kind.PAGE, body=body)
        if self._not_asked(turn, outcome):
            return None
        return None if self._first_stale(turn.host, outcome) else outcome

    # -- the fetch

    async def _request(
        self,
        turn: Stay,
        url: str,
        fetcher: Fetcher,
        kind: Kind,
        old: Fetched | None = None,
        more: tuple[tuple[str, str], ...] = (),
        body: bytes | None = None,
    ) -> Response | Failure:
        """Request a URL over the visit's connection, or over a new one if it has none; and process the outcome.

        `old`: what is known of the page, of which no second copy is wanted. `more`: headers, besides the site's.
        `body`: a form to be posted.
        """
        site = site_of(url)
        turn.asked += 1
        shard, address = turn.shard.number, turn.address
        may_send = (lambda: self._may_ask(shard, address)) if address else None
        began = self._clock.monotonic()
        headers = turn.setting.headers + more
        request = Request(url, address, headers, kind=kind, reuse=turn.site == site, may_send=may_send)
        # A rendered document may have changed although the response has not.
        if old is not None and old.status < 300 and (old.etag or old.modified) and old.rendered is None:
            request = msgspec.structs.replace(request, etag=old.etag, modified=old.modified)
        session = turn.session if kind is Kind.PAGE else None
        if session is not None:
            cookie = session.sent(url, self._clock.wall())
            request = msgspec.structs.replace(request, cookie=cookie, body=body)
        try:
            outcome = await fetcher.fetch(request)
        except asyncio.CancelledError:
            turn.last = self._clock.monotonic() - began  # if cancelled: the site was kept busy nevertheless
            raise
        turn.last = outcome.timing.total / 1000
        gone = isinstance(outcome, Failure) or outcome.closed or bool(outcome.truncated)
        turn.site = "" if gone else site
        if isinstance(outcome, Failure) and outcome.kind is FailureKind.LOCAL:
            turn.asked -= 1  # nothing reached the host
        if session is not None and isinstance(outcome, Response):
            return session.took(outcome, self._clock.wall())
        return outcome

    def _hang_up(self, turn: Stay) -> None:
        """End the visit's connection, if its fetcher keeps any."""
        if turn.asked and turn.address:
            for scheme in ("http", "https"):
                keeper = getattr(self._fetchers.for_scheme(scheme), "let_go", None)
                if keeper is not None:
                    keeper(turn.host)
        turn.site = ""

    def _not_asked(self, turn: Stay, outcome: Response | Failure) -> bool:
        """Whether the site was not asked, for a reason of ours: then the visit ends, and the URL stays pending."""
        if isinstance(outcome, Failure) and outcome.kind is FailureKind.LOCAL:
            self._short(turn, outcome.detail)
            return True
        if isinstance(outcome, Failure) and outcome.kind is FailureKind.LATE:
            turn.over = True
            return True
        return False

    def _short(self, turn: Stay, detail: str) -> bool:
        """This machine lacks a resource: the visit ends, and its URL stays pending."""
        now = self._clock.monotonic()
        turn.over = True
        turn.ready = self.short_until = now + _SHORT_WAIT
        self._failures("error.local").add()
        if now >= self._told_next:
            self._told_next = now + _TOLD_EVERY
            self._told(
                f"this machine is short of something ({detail}): the sites wait, and none is given up for it;"
                " raise the limit of open files (ulimit -n), or lower --visits"
            )
        return False

    async def _fetch(self, turn: Stay, waiting: Waiting, fetcher: Fetcher) -> bool:
        kept = False
        try:
            earlier = await self._earlier(turn.shard, waiting) if self._refreshing else None
            old = earlier.record if earlier else None
            outcome = await self._request(turn, waiting.url, fetcher, Kind.PAGE, old)
            session = turn.session
            if session is not None and isinstance(outcome, Response) and session.ended(waiting.url, outcome):
                return True  # it is put back, and fetched again after the login
            kept = await self._record(turn, waiting, outcome, earlier)
        except StoppedError:
            turn.over = True
        finally:
            if not kept and waiting.before is not Before.PAGE:
                self._quota.give_back(turn.shard.number)
        return True

    async def _earlier(self, shard: Shard, waiting: Waiting) -> Earlier:
        """What the log knows of a page that is about to be fetched."""
        assert self._refreshing is not None
        weight = self._refreshing.weigh(waiting)
        found = shard.pages.find(waiting.key) if waiting.before is Before.PAGE else None
        position = found.position if found is not None else 0
        record = await self._read(shard, position) if position else None
        return Earlier(position, record if isinstance(record, Fetched) else None, weight, found)

    @staticmethod
    async def _read(shard: Shard, position: int) -> Record:
        if not shard.log.holds(position):
            shard.log.keep(await asyncio.to_thread(shard.log.fetch, position))
        return shard.log.read(position)

    async def _known_before(self, shard: Shard, record: Fetched, old: Fetched | None) -> Fetched | None:
        """The last fetch of the same page with the same content, if that is not long ago."""
        for _ in range(_CHAIN):
            if old is None or old.digest == record.digest:
                return old
            read = await self._read(shard, old.previous) if old.previous else None
            old = read if isinstance(read, Fetched) else None
        return None

    async def _record(
        self,
        turn: Stay,
        waiting: Waiting,
        outcome: Response | Failure,
        earlier: Earlier | None = None,
    ) -> bool:
        """Log the outcome of a fetch; True if it was a page."""
        now = milliseconds(self._clock)
        first_stale = self._first_stale(turn.host, outcome)
        if isinstance(outcome, Failure):
            turn.over = True
            if first_stale:
                return False  # does not count as an attempt: the next visit opens a connection of its own
            if self._not_asked(turn, outcome):
                return False
            self._failures(f"error.{outcome.kind}").add()
            due = retry_due(self._options.retry, waiting.attempt + 1, now) if outcome.transient else None
            detail = f"{outcome.kind}: {outcome.detail}"
            if due is None:
                self._skip(turn, Why.FAILED, detail, down=outcome.kind in _DOWN)
            else:
                self._defer(turn, Why.RETRY, due, waiting.attempt + 1, detail)
            return False
        if outcome.status in _AGAIN:
            slow = outcome.status in _SLOW_DOWN
            wish = outcome.retry_after if slow else None
            due = retry_due(self._options.retry, waiting.attempt + 1, now, wish)
            if slow:
                turn.over = True
                turn.retry_after = wish
            if due is not None:
                self._failures(f"error.http-{outcome.status}").add()
                why = Why.BUSY if slow else Why.RETRY
                self._defer(turn, why, due, waiting.attempt + 1, f"status {outcome.status}")
                return False
        crop = await self._harvester.harvest(
            waiting, outcome, now, earlier, self._render(turn, outcome), self._alike(turn, waiting)
        )
        own = None
        if earlier is not None and earlier.record is not None and crop.record.digest:
            own = await self._known_before(turn.shard, crop.record, earlier.record)
        if own is not None and crop.record.duplicate != own.duplicate:
            crop = crop._replace(record=msgspec.structs.replace(crop.record, duplicate=own.duplicate))
        elif own is None and crop.record.duplicate and not turn.shard.is_duplicate(crop.record):
            crop = crop._replace(record=msgspec.structs.replace(crop.record, duplicate=False))
        if self._content_seen is not None:
            crop = self._content_seen.judged(turn.shard, crop)
        self._settle(turn)
        position = turn.shard.append(crop.record, again=own is not None)
        if self._refreshing is not None:
            held = lifetime(*(outcome.header(name) or "" for name in ("cache-control", "expires", "date")))
            turn.shard.append(self._refreshing.comes_back(turn.shard, crop.record, earlier, held))
        if self._content_seen is not None:
            self._content_seen.learn(turn.shard)
        if self._near is not None:
            await self._near.note(turn.shard, crop.record, position)
        self._pages.add()
        self._bytes.add(crop.record.size)
        if self._on_crop is not None:
            await self._on_crop(crop)
        return True

    def _skip(self, turn: Stay, why: Why, detail: str, *, down: bool = False) -> bool:
        waiting = self._settle(turn)
        if self._refreshing is not None and waiting.before is Before.PAGE and why in _UNHAD:
            down |= why in (Why.DNS, Why.ROBOTS_UNREACHABLE)
            turn.shard.append(self._refreshing.postponed(waiting, down, f"{why}: {detail}"))
            return True
        now = milliseconds(self._clock)
        turn.shard.append(Skipped(now, waiting.url, waiting.depth, why, detail[:300]))
        return True

    def _defer(self, turn: Stay, why: Why, due: int, attempt: int, detail: str) -> bool:
        waiting = self._settle(turn)
        now = milliseconds(self._clock)
        site = site_of(waiting.url)
        turn.shard.append(
            Deferred(
                *(now, waiting.url, site, waiting.depth, waiting.hops, attempt, why, due, detail[:300]),
                before=waiting.before,
            )
        )
        return True

    @staticmethod
    def _settle(turn: Stay) -> Waiting:
        """Close the open URL, which is about to get its record; returns it."""
        waiting = turn.open
        assert waiting is not None
        turn.open = None
        turn.shard.keyer.remember_key(waiting.url, waiting.key)
        return waiting
