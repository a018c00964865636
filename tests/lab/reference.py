"""A crawler without a crawl: breadth first, in memory, straight from `Web.respond`.

It shares with the web nothing but requests and answers, and with the crawl only the decisions that have no
state (canonical form, page, robots). What it fetches is compared with what the web says about itself, so that
neither can be wrong alone.
"""

from __future__ import annotations

from collections import Counter, deque
from urllib.parse import urlsplit

from lycosa.fetch.decode import decode
from lycosa.fetch.robots import RobotsRules
from lycosa.fetch.robots_directives import directives, merge, meta_directives
from lycosa.fetch.robots_policy import Act, Outcome, decide
from lycosa.lab.webs import Answer, Policy, Request, Sending, Web
from lycosa.lab.webs.server import body_of
from lycosa.lab.webs.truth import site_of
from lycosa.lab.webs.web import dead
from lycosa.page.registry import read_page
from lycosa.records import FIRST_REQUISITE, NOFOLLOW, LinkKind
from lycosa.url.canonical import canonicalise

NOW = 1_750_000_000.0
FAILED = {Sending.HANG_UP, Sending.RESET, Sending.GARBAGE}


class Reference:
    """Crawls a web under a policy; `statuses` has what was fetched."""

    def __init__(self, web: Web, policy: Policy, accept: str = "gzip, deflate, br, zstd") -> None:
        self.web = web
        self.policy = policy
        self.accept = accept
        self.statuses: dict[str, int] = {}
        self.locations: dict[str, str] = {}
        self.requests: Counter[str] = Counter()
        self._rules: dict[str, RobotsRules | None] = {}
        self._seen: set[str] = set()
        self._waiting: deque[tuple[str, int, int]] = deque()
        self._pages: Counter[str] = Counter()

    def run(self, seeds: list[str]) -> None:
        for seed in seeds:
            self._offer(seed, 0, 0)
        while self._waiting:
            url, depth, hops = self._waiting.popleft()
            site = site_of(url)
            if not self._allowed(url, site):
                continue
            if self.policy.site_pages and self._pages[site] >= self.policy.site_pages:
                continue
            self._pages[site] += 1
            self._fetch(url, depth, hops)

    def _offer(self, href: str, depth: int, hops: int, base: str | None = None) -> None:
        url = canonicalise(href, base)
        if url is None or url in self._seen or hops > self.policy.redirects:
            return
        if self.policy.depth and depth > self.policy.depth:
            return
        host = self.web.host(urlsplit(url).hostname or "")
        if host is None:
            return
        self._seen.add(url)
        self._waiting.append((url, depth, hops))

    def _ask(self, url: str) -> Answer | None:
        """The last answer of as many attempts as the policy has; None if there was none."""
        host = self.web.host(urlsplit(url).hostname or "")
        assert host is not None
        if dead(host):
            return None
        answer = None
        path = url[len(site_of(url)) :]
        for _ in range(self.policy.attempts):
            request = Request(path=path, at=NOW, attempt=self.requests[url], accept=self.accept)
            self.requests[url] += 1
            answer = self.web.respond(host, request)
            if answer.sending not in FAILED and answer.status not in (429, 503):
                return answer
        return None if answer is None or answer.sending in FAILED else answer

    def _allowed(self, url: str, site: str) -> bool:
        if not self.policy.robots:
            return True
        if site not in self._rules:
            self._rules[site] = self._read_rules(site)
        rules = self._rules[site]
        return rules is not None and rules.judge(self.policy.agent, url).allowed

    def _read_rules(self, site: str) -> RobotsRules | None:
        url = site + "/robots.txt"
        for hops in range(7):
            answer = self._ask(url)
            status = answer.status if answer else 0
            location = canonicalise(_header(answer, "Location"), url) if status // 100 == 3 else None
            decision = decide(Outcome(status=status, location=location or "", hops=hops), 0)
            if decision.act is Act.FOLLOW:
                url = decision.location
                continue
            if decision.act is Act.ALLOW:
                return RobotsRules.parse(b"")
            if decision.act is Act.DENY:
                return None
            assert answer is not None
            rules = RobotsRules.parse(answer.body)
            if self.policy.sitemaps:
                for sitemap in rules.sitemaps:
                    self._offer(sitemap, 0, 0)
            return rules
        raise AssertionError("decide follows at most five redirects")

    def _fetch(self, url: str, depth: int, hops: int) -> None:
        answer = self._ask(url)
        self.statuses[url] = answer.status if answer else 0
        if answer is None:
            return
        if 300 <= answer.status < 400 and (location := _header(answer, "Location")):
            self.locations[url] = canonicalise(location, url) or ""
            self._offer(location, depth, hops + 1, url)
            return
        if answer.status != 200:
            return
        sent = answer.body
        if answer.sending in (Sending.CUT, Sending.CUT_CHUNKED):
            sent = sent[: len(sent) // 2]
        elif answer.sending is Sending.WHOLE:
            assert body_of(answer) == sent
        body = decode(sent, _header(answer, "Content-Encoding"), 1 << 24).data
        page = read_page(body, _header(answer, "Content-Type") or None, url)
        tags = [value for name, value in answer.headers if name == "X-Robots-Tag"]
        said = merge(directives(tags, self.policy.agent), meta_directives(page.robots, self.policy.agent))
        if said.nofollow and self.policy.nofollow:
            return
        base = canonicalise(page.base, url) if page.base else url
        for href, kind in zip(page.hrefs, page.kinds, strict=True):
            if kind & NOFOLLOW and self.policy.nofollow:
                continue
            bare = kind & ~NOFOLLOW
            if bare == LinkKind.FORM or (bare >= FIRST_REQUISITE and not self.policy.requisites):
                continue
            self._offer(href, depth + 1, 0, base)


def _header(answer: Answer | None, name: str) -> str:
    headers = answer.headers if answer else ()
    return next((value for key, value in headers if key.lower() == name.lower()), "")
