"""A small web drawn from a seed, with examples of everything that servers do; and the truth about it.

Hosts share addresses. Each has a few pages; its home page is linked from some page of an earlier host, so that the
whole web is found from the first, by links that go from shard to shard. Robots files are absent, open, with a
Crawl-delay, closing a folder, late, redirected to another host's, or broken; there are redirects, copies, pages
that do not exist, that fail once or twice or always, with and without Retry-After, slow ones, hosts that are dead
and names that do not exist.

The correct result for each URL is an `Expected`, for the common judge of our webs (`webs.truth`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from lycosa.fetch.protocol import Failure, FailureKind, Request
from lycosa.lab.cluster_web import SimulatedWeb
from lycosa.lab.network import Reply
from lycosa.lab.simulate_profiles import Profile, profile_of
from lycosa.lab.webs.accesses import Politeness
from lycosa.lab.webs.answers import Expected, Only
from lycosa.lab.webs.truth import Policy, Truth

DELAY = 1
ADDRESS = "127.1.0.1"
"""The first address."""
_ROBOTS = ("none", "none", "open", "delay", "folder", "late", "elsewhere", "none")
_PAGES = ("plain",) * 10 + ("redirect", "copy", "missing", "busy", "busy", "reset", "broken", "slow", "slow")
_DEAD = Failure(FailureKind.CONNECT, "nobody listens")
_RESET = Failure(FailureKind.EMPTY, "it hung up")

Answerer = Callable[[int], Reply | Failure]


class DrawnWeb(NamedTuple):
    """A web and the truth about it."""

    web: SimulatedWeb
    truth: Truth
    delays: dict[str, float]
    most: int
    """Limit of pages; 0: no limit."""


class _Drawing:
    def __init__(self, seed: int, pages: int, profile: Profile) -> None:
        self.chance = Random(f"{seed} web")
        self.profile = profile
        chance = self.chance
        self.hosts = chance.randint(*profile.hosts) if pages >= 8 else 2
        self.addresses = profile.addresses or chance.randint(1, self.hosts)
        self.names: dict[str, str] = {}
        self.answers: dict[str, Answerer] = {}
        self.expected: list[Expected] = []
        self.slow: dict[str, float] = {}
        self.delays: dict[str, float] = {}
        self.links: dict[str, list[str]] = {}
        self.bad: dict[int, str] = {}
        for number in range(1, self.hosts):
            if chance.random() < 0.12:
                self.bad[number] = chance.choice(["dead", "nowhere", "unruly"])
        for number in range(self.hosts):
            if self.bad.get(number) != "nowhere":
                self.names[self.host(number)] = f"127.1.0.{number % self.addresses + 1}"
        self.counts = [1] * self.hosts
        for _ in range(max(pages - self.hosts, 0)):
            self.counts[chance.randrange(self.hosts)] += 1

    @staticmethod
    def host(number: int) -> str:
        return f"h{number}.test"

    def url(self, number: int, page: int) -> str:
        return f"http://{self.host(number)}/" + (f"p{page}" if page else "")

    def draw(self) -> None:
        for number in range(self.hosts):
            self._draw_links(number)
        for number in range(self.hosts):
            self._draw_robots(number)
            for page in range(self.counts[number]):
                self._draw_page(number, page)

    def _draw_links(self, number: int) -> None:
        """Link every page of a host from an earlier one of it; its home page from an earlier host that works."""
        chance = self.chance
        for page in range(1, self.counts[number]):
            source = self.url(number, chance.randrange(page))
            self.links.setdefault(source, []).append(self.url(number, page))
        if number:
            good = [n for n in range(number) if n not in self.bad]
            other = chance.choice(good)
            source = self.url(other, chance.randrange(self.counts[other]))
            self.links.setdefault(source, []).append(self.url(number, 0))
        for _ in range(self.profile.links):  # and links that are found twice, perhaps by two agents
            one, two = chance.randrange(self.hosts), chance.randrange(self.hosts)
            source = self.url(one, chance.randrange(self.counts[one]))
            self.links.setdefault(source, []).append(self.url(two, chance.randrange(self.counts[two])))

    def _draw_robots(self, number: int) -> None:
        chance = self.chance
        host = self.host(number)
        kind = chance.choice(_ROBOTS)
        reply: Answerer = lambda before: Reply(b"", 404)  # noqa: E731
        if kind == "open":
            reply = _says("User-agent: *\nDisallow:\n")
        elif kind == "delay":
            self.delays[host] = DELAY
            reply = _says(f"User-agent: *\nCrawl-delay: {DELAY}\n")
        elif kind == "folder":
            reply = _says("User-agent: *\nDisallow: /closed/\n")
            closed = f"http://{host}/closed/x"
            self.links.setdefault(self.url(number, 0), []).append(closed)
            self.expected.append(Expected(closed, Only.ROBOTS))
        elif kind == "late":
            reply = lambda before: Reply(b"", 503) if before < 1 else Reply(b"", 404)  # noqa: E731
        elif kind == "elsewhere" and number and 0 not in self.bad:
            to = f"http://{self.host(0)}/robots.txt"
            if self.host(0) in self.delays:
                self.delays[host] = DELAY
            reply = lambda before: Reply(b"", 302, (("Location", to),))  # noqa: E731
        if self.bad.get(number) == "unruly":
            reply = lambda before: Reply(b"", 500)  # noqa: E731
        self.answers[f"http://{host}/robots.txt"] = reply

    def _draw_page(self, number: int, page: int) -> None:
        chance, url = self.chance, self.url(number, page)
        links = self.links.get(url, [])
        body = "".join(f'<a href="{link}">x</a>' for link in links).encode()
        kind = chance.choice(_PAGES)
        if links and kind in ("redirect", "copy", "missing", "broken"):
            kind = "plain"  # a page with links must show them
        if not links and page and kind == "plain" and chance.random() < 0.1:
            kind = "gone"
        reply: Answerer = lambda before: Reply(f"<p>{url}</p>".encode() + body)  # noqa: E731
        statuses: tuple[int, ...] = (200,)
        fails = 0
        if kind == "redirect":
            to = self.url(0, 0)
            reply, statuses = (lambda before: Reply(b"", 302, (("Location", to),))), (302,)
        elif kind == "copy":
            reply = lambda before: Reply(b"<p>the same everywhere</p>")  # noqa: E731
        elif kind == "missing":
            reply, statuses = (lambda before: Reply(b"nothing here", 404)), (404,)
        elif kind == "gone":
            reply, statuses = (lambda before: _RESET), (0,)
        elif kind == "broken":
            reply, statuses = (lambda before: Reply(b"oh", 500)), (500,)
        elif kind in ("busy", "reset"):
            fails = chance.randint(1, 2)
            good, often = reply, fails
            status = chance.choice((429, 503))
            wait = chance.choice((0, 1, 2))
            head = (("Content-Type", "text/html"), *([("Retry-After", str(wait))] if wait else []))
            failing = _RESET if kind == "reset" else Reply(b"later", status, head)
            reply = lambda before: failing if before < often else good(before)  # noqa: E731
        elif kind == "slow":
            self.slow[url] = chance.uniform(*self.profile.seconds)
        if chance.random() < self.profile.slow:
            self.slow[url] = chance.uniform(*self.profile.seconds)
        if number in self.bad:
            bad = self.bad[number]
            row = Expected(url, Only.ALL, (0,), whole_site=Only.ROBOTS_UNREACHABLE)
            if bad == "dead":
                reply = lambda before: _DEAD  # noqa: E731
                self.answers[f"http://{self.host(number)}/robots.txt"] = reply
        else:
            row = Expected(url, Only.ALL, statuses, fails=fails)
        self.answers[url] = reply
        self.expected.append(row)


def _says(text: str) -> Answerer:
    return lambda before: Reply(text.encode(), 200, (("Content-Type", "text/plain"),))


def draw_web(seed: int, pages: int = 0, profile: Profile | None = None) -> DrawnWeb:
    """The web of a seed, by its profile or the given one; with about so many pages, if given."""
    profile = profile or profile_of(seed)
    chance = Random(f"{seed} size")
    size = pages or chance.randint(*profile.pages)
    drawing = _Drawing(seed, size, profile)
    drawing.draw()
    limit = chance.randint(3, max(size // 2, 4)) if chance.random() < 0.2 else 0
    answers = drawing.answers

    def script(request: Request, before: int) -> Reply | Failure:
        found = answers.get(request.url)
        return found(before) if found is not None else Reply(b"no such page", 404)

    web = SimulatedWeb(script, drawing.names, [drawing.url(0, 0)], 0.05, drawing.slow, profile.spread)
    expected = drawing.expected
    if limit:  # which pages are fetched depends on the order
        expected = [
            Expected(row.url, Only.EITHER_WAY, row.statuses, fails=row.fails)
            if row.only is Only.ALL and row.whole_site is Only.ALL
            else row
            for row in expected
        ]
    return DrawnWeb(web, Truth(Policy(), expected, list(web.seeds), []), drawing.delays, limit)


def rules_of(
    drawn: DrawnWeb, wait: float, factor: float, address_wait: float, pages: int, apart: float
) -> Politeness:
    """The politeness promised to the servers; `apart`: how much faster than theirs an agent's clock may be."""
    return Politeness(
        wait=wait / apart,
        pages=pages,
        address_wait=address_wait / apart,
        factor=factor / apart**2,
        delays={host: delay / apart for host, delay in drawn.delays.items()},
        same_connection=True,
        connections=False,
        tolerance=0.02,
    )
