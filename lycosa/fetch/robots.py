"""robots.txt: which rule, if any, decides about a URL (RFC 9309).

    RobotsRules.parse(body).judge("Lycosa/0.1 (+https://example.org)", url) -> Judgement

Parsing (§2.2; what is lenient is what google/robotstxt is lenient about, so that a file means here what its
author saw it mean there):

    file   = [BOM or a beginning of it] *line, of which the first 500 KiB count; a line cut there is dropped
    line   = [key sep value] ["#" comment] (CR LF / LF / CR), of which 16,663 bytes count
    sep    = ":", or white space if the line then has exactly two words ("Disallow /x")
    key    = in any case, and whatever follows it up to the separator ("Disallowed:" is Disallow):
               user-agent | useragent | user agent
               disallow | dissallow | dissalow | disalow | diasllow | disallaw
               allow;  sitemap | site-map;  crawl-delay | crawldelay | crawl delay

- NUL bytes are dropped; a file that starts with a UTF-16 byte order mark is read as UTF-16.
- A group is one or more user-agent lines and the rules up to the next user-agent line after a rule. Any
  other line (Sitemap, unknown keys, blank lines) neither opens nor closes a group. Rules before the first
  user-agent line belong to nobody. Crawl-delay is given to the agents named just before it.

Which group (§2.2.1). The *product token* of an agent is what is before its first "/" ("Lycosa"; for
"Mozilla/5.0 (compatible; NAME/1.0)" it is NAME). A group's user-agent line names the token at its start: the
longest run of letters, "-" and "_"; or, since real names hold digits and more, all up to white space or "/".
Comparison ignores case. All groups that name the token are merged; if there is none, all "*" groups; if none, all
is allowed. A "*" with anything before it is no wildcard: "foobot*" names foobot, and not foobot-news.

Which rule (§2.2.2). Both sides are brought to one form: escapes of unreserved characters are undone,
everything that is neither unreserved nor reserved (RFC 3986) is escaped, escapes are upper case. "/" and
"%2F" stay different, as do all reserved characters; "*" and "$" of a URL are "%2A" and "%24". "*" stands
for any run, "$" for the end if it is last. The matching rule with the most octets decides; Allow wins ties.
"/robots.txt" is always allowed. An Allow ".../index.htm(l)" also allows ".../", alone.

Where the references disagree: the URL is normalised too and "%62" is "b", as the RFC has it and Google's
matcher has not; agents match by whole tokens and unknown lines do not end groups, as in RFC and Google's
matcher but not in Protego; a final "$" is never a literal, and a pattern that starts with neither "/" nor "*"
matches nothing (as in Google's matcher; Protego differs). "foo*bot" names foo, as in Google's matcher; Protego
takes it for a pattern.

Time and memory are linear in the size of the file, whatever is in it: of several Crawl-delays for a group's agents
only the longest is kept, once for all of them.

How rules are compared and found fast is in `robots_match`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lycosa.fetch.robots_match import Judgement, Rule, RuleSet, path_of

__all__ = ["LIMIT", "LINE_LIMIT", "MAX_CRAWL_DELAY", "Judgement", "RobotsRules", "path_of", "product_token"]

LIMIT = 500 * 1024
"""Bytes of a robots.txt that count (RFC 9309 §2.5 asks for at least these)."""
LINE_LIMIT = 2083 * 8 - 1
"""Bytes of a line that count."""
MAX_CRAWL_DELAY = 86_400.0
"""Seconds; a longer Crawl-delay counts as this long."""
_AGENTS_KEPT = 16
"""Compiled rule sets kept per file; a crawl asks for one agent."""

_RULE, _LINE = 500, 300
"""Bytes of memory that a rule and a user-agent line take, besides their text."""

_TOKEN = re.compile(r"[A-Za-z_-]+")
_COMPATIBLE = re.compile(r"\(\s*compatible;\s*([^\s/;,()]+)", re.I)
_DELAY = re.compile(rb"\+?(\d+(?:[.,]\d*)?|[.,]\d+)\s*(?:s|secs?|seconds?)?", re.I)

_USER_AGENT = (b"user-agent", b"useragent", b"user agent")
_DISALLOW = (b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw")
_SITEMAP = (b"sitemap", b"site-map")
_CRAWL_DELAY = (b"crawl-delay", b"crawldelay", b"crawl delay")


class _Agent(NamedTuple):
    """One user-agent line, and what it governs."""

    text: str  # its value, as written
    name: str  # up to white space or "/", in lower case
    token: str  # the letters, "-" and "_" at the start of the name
    rules: list[Rule]  # shared with the other lines of its group
    delay: list[float]  # the longest Crawl-delay, if any: shared with the other lines that it is given to


def product_token(agent: str) -> str:
    """The name by which robots files address an agent, in lower case."""
    name = agent.strip()
    if name[:8].lower() == "mozilla/" and (inner := _COMPATIBLE.search(name)):
        name = inner.group(1)
    return name.partition("/")[0].rstrip().lower()


def _token(name: str) -> str:
    found = _TOKEN.match(name)
    return found.group() if found else ""


class RobotsRules:
    """A parsed robots.txt."""

    __slots__ = ("_agents", "_chosen", "sitemaps")

    def __init__(self, agents: list[_Agent], sitemaps: tuple[str, ...]) -> None:
        self._agents = agents
        self._chosen: dict[str, RuleSet] = {}
        self.sitemaps = sitemaps
        """The sitemaps it names, as written, without repeats."""

    @staticmethod
    def parse(body: bytes) -> RobotsRules:
        """Parse a body; any bytes are accepted."""
        agents: list[_Agent] = []
        sitemaps: dict[str, None] = {}
        rules: list[Rule] = []
        naming = False  # no rule since the last user-agent line: another one joins its group
        delayed = False  # a Crawl-delay since then: it is not for further user-agent lines
        delays: list[float] = []  # shared by the agents to which a Crawl-delay now applies
        for number, line in enumerate(_lines(body), 1):
            if b"#" in line:
                line = line[: line.index(b"#")]
            key, colon, value = line.partition(b":")
            if not colon:
                words = line.split()
                if len(words) != 2:
                    continue
                key, value = words
            key = key.strip().lower()
            value = value.strip()
            if key.startswith(_DISALLOW) or key.startswith(b"allow"):
                naming = False
                if value and agents:
                    rules.append(Rule(number, key[0] == 0x61, value, line))
            elif key.startswith(_USER_AGENT):
                if not naming:
                    rules = []
                if delayed or not naming:
                    delays = []
                naming, delayed = True, False
                text = value.decode("utf-8", "replace")
                words_of = text.lower().split(None, 1)
                name = words_of[0].partition("/")[0] if words_of else ""
                agents.append(_Agent(text, name, _token(name), rules, delays))
            elif key.startswith(_CRAWL_DELAY):
                delayed = True
                if (delay := _delay(value)) is not None:
                    delays[:] = [max(delay, *delays)] if delays else [delay]
            elif value and key.startswith(_SITEMAP):
                sitemaps[value.decode("utf-8", "replace")] = None
        return RobotsRules(agents, tuple(sitemaps))

    def judge(self, agent: str, url: str) -> Judgement:
        """May `agent` fetch `url`, and which line says so?"""
        return (self._chosen.get(agent) or self._choose(agent)).judge(path_of(url))

    def crawl_delay(self, agent: str) -> float | None:
        """Seconds to wait between fetches, at most `MAX_CRAWL_DELAY`; None if the site does not say.

        If there are several for the same agent, the longest.
        """
        delays = [delay for line in self._lines_for(agent) for delay in line.delay]
        return max(delays, default=None)

    def only(self, agent: str) -> RobotsRules:
        """The same rules for `agent` alone, ready to judge, and without the sitemaps: what a cache should keep."""
        lines = self._lines_for(agent)
        if lines:
            delay = self.crawl_delay(agent)
            merged = _merged(lines)
            lines = [lines[0]._replace(rules=merged, delay=[] if delay is None else [delay])]
        kept = RobotsRules(lines, ())
        kept._choose(agent)
        return kept

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, about, once an agent has asked."""
        rules = {id(line.rules): line.rules for line in self._agents}
        held = sum(_RULE + 3 * len(rule.text) for part in rules.values() for rule in part)
        return held + _LINE * len(self._agents) + sum(_LINE + len(sitemap) for sitemap in self.sitemaps)

    def _choose(self, agent: str) -> RuleSet:
        if len(self._chosen) >= _AGENTS_KEPT:
            self._chosen.clear()
        lines = self._lines_for(agent)
        chosen = self._chosen[agent] = RuleSet(_merged(lines), lines[0].text if lines else "")
        return chosen

    def _lines_for(self, agent: str) -> list[_Agent]:
        """The user-agent lines whose groups together are this agent's."""
        name = product_token(agent)
        found: list[_Agent] = []
        if name and name != "*":
            found = [line for line in self._agents if name in (line.name, line.token)]
            if not found and " " not in name and (token := _token(name)):
                found = [line for line in self._agents if line.name == token]
        return found or [line for line in self._agents if line.name == "*"]


def _merged(lines: list[_Agent]) -> list[Rule]:
    """The rules of several lines; lines of one group share one list, which counts once."""
    rules = {id(line.rules): line.rules for line in lines}
    return [rule for part in rules.values() for rule in part]


def _lines(body: bytes) -> list[bytes]:
    whole = len(body) <= LIMIT or body[LIMIT] in b"\r\n" or body[LIMIT - 1] in b"\r\n"
    body = body[:LIMIT]
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        body = body.decode("utf-16", "replace").encode("utf-8", "replace")
    for bom in (b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"):
        if body.startswith(bom):
            body = body[len(bom) :]
            break
    if b"\0" in body:
        body = body.replace(b"\0", b"")
    lines = body.splitlines()
    if not whole and lines:
        lines.pop()
    if len(body) > LINE_LIMIT:
        return [line if len(line) <= LINE_LIMIT else line[:LINE_LIMIT] for line in lines]
    return lines


def _delay(value: bytes) -> float | None:
    found = _DELAY.fullmatch(value)
    if found is None:
        return None
    return min(float(found.group(1).replace(b",", b".")), MAX_CRAWL_DELAY)
