"""A web: hosts, pages and oddities together, as a pure function from request to answer.

`Web.respond` is all of it: no state, no clock, no socket. The server adds these (it counts
attempts and knows the time); a test or a simulation may call it directly.

The root host, besides its ordinary pages, has a directory of all hosts (/directory/) and the
landing pages of redirects from other hosts (/landing/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache

import msgspec

from lycosa.lab.webs import robots
from lycosa.lab.webs.answers import Answer, Expected, Only, Request, Sending, html, leaf
from lycosa.lab.webs.changes import Changes
from lycosa.lab.webs.dice import roll
from lycosa.lab.webs.options import WebOptions
from lycosa.lab.webs.pages import ASSETS, Pages
from lycosa.lab.webs.plan import DEAD_ADDRESS, TRAP_ROLES, Host, draw_plan
from lycosa.lab.webs.sections import (
    charsets,
    copies,
    directives,
    hrefs,
    packing,
    redirects,
    scripts,
    sitemaps,
    statuses,
    traps,
    types,
)
from lycosa.lab.webs.sheet import Place, Sheet
from lycosa.lab.webs.truth import Policy, TrapSite, Truth

PER_DIRECTORY = 50

WRITERS: dict[str, Callable[[Sheet], None]] = {
    "redirects": redirects.write,
    "statuses": statuses.write,
    "packing": packing.write,
    "types": types.write,
    "charsets": charsets.write,
    "hrefs": hrefs.write,
    "directives": directives.write,
    "sitemaps": sitemaps.write,
    "copies": copies.write,
    "scripts": scripts.write,
}

_ASSETS: dict[str, Answer] = {
    ASSETS[0]: Answer(200, (("Content-Type", "text/css"),), b"body{margin:1em}", lasting=True),
    ASSETS[1]: Answer(200, (("Content-Type", "text/javascript"),), b"0;", lasting=True),
    ASSETS[2]: Answer(200, (("Content-Type", "image/png"),), types.PNG, lasting=True),
}
_MISSING = html("<!DOCTYPE html><title>404</title><p>No such page.</p>", status=404)


class Web:
    """The web made from these options."""

    def __init__(self, options: WebOptions) -> None:
        self.options = options
        plan = draw_plan(options)
        self.hosts = plan.hosts
        self.addresses = plan.addresses
        self.left_out = plan.left_out
        usual = 443 if options.scheme == "https" else 80
        port = "" if options.port == usual else f":{options.port}"
        self.origins = [f"{options.scheme}://{host.name}{port}" for host in self.hosts]
        self.pages = Pages(options, self.hosts, self.origins)
        self.changes = Changes(options)
        self._by_name = {host.name: host for host in self.hosts}
        self._farms = {host.name: host for host in self.hosts if host.role == "farm"}
        self._sheets = lru_cache(maxsize=1024)(self._sheet)

    def at(self, port: int) -> Web:
        """The same web on another port."""
        return Web(msgspec.structs.replace(self.options, port=port))

    # names

    def host(self, name: str) -> Host | None:
        """The host of that name."""
        found = self._by_name.get(name)
        if found is None and (farm := self._farms.get(name.partition(".")[2])) is not None:
            return farm._replace(name=name, role=traps.FARMED)
        return found

    def url(self, host: Host, page: int = 0) -> str:
        """The canonical URL of an ordinary page."""
        return self.origins[host.number] + self.pages.path(host, page)

    def seeds(self, everything: bool = False) -> list[str]:
        """The start pages: the root's home page, from which all is found; or every host's home page."""
        hosts = self.hosts if everything else self.hosts[:1]
        return [self.url(host) for host in hosts]

    def resolve(self) -> dict[str, str]:
        """Host names and their addresses."""
        below = {f"*.{host.name}": host.address for host in self._farms.values()}
        return {host.name: host.address for host in self.hosts} | below

    def delays(self) -> dict[str, float]:
        """The hosts that ask for a wait between requests (Crawl-delay), in seconds."""
        return {host.name: self.options.crawl_delay for host in self.hosts if host.role == "delay"}

    def links(self, host: Host, page: int) -> list[str]:
        """The URLs that an ordinary page links to, as often as it does; oddities not among them."""
        local, away = self.pages.links(host, page)
        own = [self.url(host, target) for target in local]
        return own + [self.url(self.hosts[other], target) for other, target in away]

    # answers

    def counted(self, host: Host, path: str) -> bool:
        """Whether the answer depends on how often the URL was asked for before."""
        return host.role in ("reset", "hang-up") or path in self._sheets(host.number).counted

    def respond(self, host: Host, request: Request) -> Answer:
        """The answer of a host."""
        path = request.path
        if host.role == traps.FARMED and path != "/robots.txt":
            return traps.farmed(self.options.seed, host, self.origins[host.number], path)
        sheet = self._sheets(host.number)
        if maker := sheet.makers.get(path):
            answer = maker(request)
        else:
            for prefix, maker in sheet.folders:
                if path.startswith(prefix):
                    answer = maker(request)
                    break
            else:
                answer = self._ordinary(host, request, sheet)
        if host.role == "slow":
            return msgspec.structs.replace(answer, delay=self.options.slow_ms / 1000)
        if host.role in ("reset", "hang-up") and path != "/robots.txt":
            if request.attempt < self.options.failures:
                return Answer(0, sending=Sending(host.role))
            return msgspec.structs.replace(answer, lasting=False)
        return answer

    def _ordinary(self, host: Host, request: Request, sheet: Sheet) -> Answer:
        page = self.pages.page(host, request.path)
        if page is None:
            return _ASSETS.get(request.path, _MISSING)
        version = self.changes.version(host.content, page, request.at)
        etag = f'W/"{roll(self.options.seed, "etag", host.content, page, version.tag):016x}"'
        headers = (
            ("Content-Type", "text/html; charset=utf-8"),
            ("ETag", etag),
            ("Last-Modified", formatdate(int(version.since), usegmt=True)),
        )
        if _unchanged(request, etag, int(version.since)):
            return Answer(304, headers[1:])
        extra = tuple(sheet.entries) if page == 0 else ()
        body = self.pages.render(host, page, version, extra)
        still = not self.changes.rate(host.content, page)
        return packing.pack(Answer(200, headers, body, lasting=still), host.packing, request.accept)

    def _sheet(self, index: int) -> Sheet:
        host = self.hosts[index]
        sheet = Sheet(Place(self.options, host, self.origins[index], self.origins[0]))
        robots.write(sheet)
        if host.role in TRAP_ROLES:
            traps.write(sheet)
        for name in host.sections:
            WRITERS[name](sheet)
        if index == 0:
            self._write_root(sheet)
        return sheet

    def _write_root(self, sheet: Sheet) -> None:
        count = -(-len(self.hosts) // PER_DIRECTORY)
        paths = [f"/directory/{n}.html" for n in range(count)]
        sheet.put("/directory/", leaf("directory of hosts", *paths), entry=True)
        for n, path in enumerate(paths):
            homes = [f"{origin}/" for origin in self.origins[n * PER_DIRECTORY : (n + 1) * PER_DIRECTORY]]
            sheet.put(path, leaf(f"hosts, part {n}", *homes))
        if self.options.scripts:
            scripts.write_shared(sheet)
        known = {f"/landing/{host.number}.html" for host in self.hosts if "redirects" in host.sections}
        sheet.folders.append(
            (
                "/landing/",
                lambda request: redirects.landing(request.path) if request.path in known else _MISSING,
            )
        )

    # truth

    def expected(self) -> Iterator[Expected]:
        """The expectations for the URLs of this web, one by one; for traps those of their entries."""
        for host in self.hosts:
            yield from self._expected_of(host)

    def _expected_of(self, host: Host) -> Iterator[Expected]:
        origin = self.origins[host.number]
        whole = _WHOLE_SITE.get(host.role, Only.ALL)
        statuses = (0,) if dead(host) else (200,)
        fails = self.options.failures if host.role in ("reset", "hang-up", "busy") else 0
        for page in range(host.size):
            yield Expected(self.url(host, page), Only.ALL, statuses, fails=fails, whole_site=whole)
        for path in ASSETS:
            yield Expected(origin + path, Only.REQUISITES, statuses, fails=fails, whole_site=whole)
        for row in self._sheets(host.number).expected:
            yield msgspec.structs.replace(row, fails=fails) if fails else row

    def truth(self, policy: Policy | None = None) -> Truth:
        """What a correct crawler fetches under that policy."""
        trap_sites = [
            TrapSite(self.origins[host.number], host.role) for host in self.hosts if host.role in TRAP_ROLES
        ]
        return Truth(policy or Policy(), self.expected(), self.seeds(), trap_sites)


_WHOLE_SITE = {
    "closed": Only.ROBOTS,
    "broken": Only.ROBOTS_UNREACHABLE,
    "dead": Only.ROBOTS_UNREACHABLE,
}
"""Roles that determine the behaviour of all URLs of a host."""


def _unchanged(request: Request, etag: str, since: int) -> bool:
    """Whether the client has this version (RFC 9110, 13.2.2: an entity tag takes precedence over a date)."""
    if request.etag:
        return any(tag.strip() in (etag, etag[2:], "*") for tag in request.etag.split(","))
    if request.since:
        try:
            return parsedate_to_datetime(request.since).timestamp() >= since
        except (TypeError, ValueError, IndexError, OverflowError):
            return False
    return False


def dead(host: Host) -> bool:
    """Whether nothing listens at the host's address."""
    return host.address == DEAD_ADDRESS
