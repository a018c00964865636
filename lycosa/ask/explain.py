"""Explain: everything the log knows about one URL. Where was it found, what was decided, and why?

A fold that looks only at the blocks of the log that mention the URL. The path from a seed is walked backwards: the
first page that linked to the URL, the first that linked to that page, and so on; each step is one more search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import msgspec

from lycosa.ask import mentions
from lycosa.ask.clusters import Cluster, ClusterReader
from lycosa.ask.follower import Stretch
from lycosa.ask.json_form import iso, plain
from lycosa.ask.reading import CrawlReader
from lycosa.crawl.config import Options
from lycosa.crawl.near_seeds import scope_of
from lycosa.errors import ConfigError
from lycosa.fetch.registry import known_schemes
from lycosa.fetch.robots import RobotsRules
from lycosa.pages.summary import content_of, is_failure
from lycosa.records import (
    FIRST_REQUISITE,
    Configured,
    Deferred,
    Fetched,
    Learned,
    Link,
    LinkKind,
    Links,
    Received,
    Record,
    Robots,
    Skipped,
    Why,
)
from lycosa.url.canonical import canonicalise
from lycosa.url.parts import host_of, site_of
from lycosa.url.rules import Rules

_PATH = 50
_SHOWN = 20


class Discovery(msgspec.Struct, kw_only=True):
    """A record that holds a link to the URL."""

    at: int
    source: str  # the page, "seed", or a robots.txt
    kind: str
    text: str
    nofollow: bool
    depth: int
    hops: int = 0  # redirects in a row, this one included


class RobotsView(msgspec.Struct, kw_only=True):
    """What the site's robots.txt says about the URL."""

    at: int
    status: int
    expires: int
    allowed: bool
    line: int
    rule: str
    detail: str
    unreachable: bool
    position: int
    shard: int


class Explanation(msgspec.Struct, kw_only=True):
    """All that is known about a URL."""

    url: str
    key: str
    shard: int
    state: str  # fetched, skipped, deferred, pending, not followed, unknown
    why: str
    scope: str
    inside: bool
    discoveries: int = 0
    more_discoveries: bool = False  # whether there may be more discoveries
    first: Discovery | None = None
    path: list[str] = []
    fetches: list[Fetched] = []
    skips: list[Skipped] = []
    deferrals: list[Deferred] = []
    due: int = 0
    because: str = ""  # of a page that is due for refresh: why at that time
    acts: list[tuple[str, int, str, str]] = []  # operator actions on it or its host: id, when, who, what
    learned: list[Learned] = []  # about the pattern that it is, or was, skipped for
    robots: RobotsView | None = None
    duplicates: list[str] = []
    cluster: Cluster | None = None  # of near duplicates, if `lycosa duplicates` has run


def explain(
    crawl: CrawlReader,
    text: str,
    told: Callable[[str], None] | None = None,
    logs: Sequence[Stretch] | None = None,
    most: int | None = None,
) -> Explanation:
    """Explain a URL. `logs`: the shards' logs, from a faster finder; `most`: discoveries looked at in each."""
    options = crawl.options()
    if options is None:
        raise ConfigError(f"the crawl in {crawl.directory} has not begun yet")
    rules = Rules.named(options.rules)
    url = canonicalise(text, None, rules, known_schemes())
    if url is None and "://" not in text:
        url = canonicalise(f"http://{text}", None, rules)
    if url is None:
        raise ConfigError(f"{text!r} is not a URL")
    told = told or (lambda _: None)
    told(f"looking for {url}")
    owner = crawl.splitter.shard_of(host_of(url))
    logs = [Stretch(log) for log in crawl.logs] if logs is None else logs
    found = [row for log in logs for row in islice(_discoveries(log, url), most)]
    found.sort(key=lambda row: row.at)
    own = [record for _, record in logs[owner].find(url.encode("ascii"), terms=[mentions.own(url)])]
    fetches = [row for row in own if isinstance(row, Fetched) and row.url == url]
    skips = [row for row in own if isinstance(row, Skipped) and row.url == url]
    deferrals = [row for row in own if isinstance(row, Deferred) and row.url == url]
    first = found[0] if found else None
    depth = fetches[0].depth if fetches else skips[0].depth if skips else first.depth if first else 0
    verdict = scope_of(options, crawl.files, crawl.splitter.domains).judge(url, depth)
    robots, acted = _of_host(logs, owner, url, options)
    answer = Explanation(
        url=url,
        key=f"{crawl.keyer.key(url):016x}",
        shard=owner,
        state="unknown",
        why="",
        scope=verdict.rule,
        inside=verdict.inside,
        discoveries=len(found),
        more_discoveries=most is not None and len(found) >= most,
        first=first,
        fetches=fetches,
        skips=skips,
        deferrals=deferrals[-_SHOWN:],
        robots=robots,
    )
    answer.learned = _learned(logs[owner], skips)
    answer.acts = _acts(acted, url)
    if first is not None:
        answer.path = _path(logs, first, options, told)
    if fetches and fetches[-1].digest:
        told("looking for the same content elsewhere")
        answer.duplicates = _same_content(logs, fetches[-1])
    clusters = ClusterReader.of(crawl) if fetches else None
    answer.cluster = None if clusters is None else clusters.cluster_of(url)
    _conclude(answer, found, options)
    return answer


def _discoveries(log: Stretch, url: str, before: int | None = None) -> Iterator[Discovery]:
    """Every record of a log, except Received copies, that holds a link to the URL; in the log's order."""
    for _, record in log.find(url.encode("ascii"), taken_back=True, before=before):
        links = getattr(record, "links", None)
        if isinstance(links, Links) and not isinstance(record, Received):
            for link in links:
                if link.url == url:
                    yield _discovery(record, link)


def _discovery(record: Record, link: Link) -> Discovery:
    source, depth = "seed", 0
    if isinstance(record, Fetched):
        source = record.url
        depth = record.depth + (0 if link.kind is LinkKind.REDIRECT else 1)
    elif isinstance(record, Robots):
        source = f"{record.site}/robots.txt"
    return Discovery(
        at=record.at,
        source=source,
        kind=link.kind.name.lower(),
        text=link.text,
        nofollow=link.nofollow,
        depth=depth,
        hops=record.hops + 1 if isinstance(record, Fetched) and link.kind is LinkKind.REDIRECT else 0,
    )


def _path(
    logs: Sequence[Stretch], first: Discovery, options: Options, told: Callable[[str], None]
) -> list[str]:
    """The chain from a seed to the page that first linked here."""
    path: list[str] = []
    step: Discovery | None = first
    while step is not None and len(path) < _PATH:
        path.append(step.source)
        if step.source == "seed" or step.source.endswith("/robots.txt") or step.source in path[:-1]:
            break
        told(f"who linked to {step.source} first?")
        # The source was discovered before it was fetched, and it linked here when fetched; unless clocks differ.
        source = step.source
        earlier = _firsts(logs, source, options, step.at) or _firsts(logs, source, options, first.at)
        followed = [row for row in earlier if _follows(options, row)]
        step = min(followed or earlier, key=lambda row: row.at, default=None)
    return path[::-1]


def _firsts(logs: Sequence[Stretch], url: str, options: Options, before: int) -> list[Discovery]:
    """Of each log the first discovery of a URL, and the first that was followed: the rest is not read."""
    found: list[Discovery] = []
    for log in logs:
        first: Discovery | None = None
        for row in _discoveries(log, url, before):
            if row.at > before:
                continue
            first = first or row
            if _follows(options, row):
                found.append(row)
                break
        if first is not None:
            found.append(first)
    return found


def _follows(options: Options, row: Discovery) -> bool:
    """Whether the crawl follows a link: links of its kind are followed, and it is not marked nofollow."""
    return options.follow.follows(LinkKind[row.kind.upper()]) and not row.nofollow


def _of_host(
    logs: Sequence[Stretch], shard: int, url: str, options: Options
) -> tuple[RobotsView | None, list[Configured]]:
    """What the log has about the URL's host, in one pass: its site's rules, and options that name it."""
    site = site_of(url)
    last: tuple[int, Robots] | None = None
    named: list[Configured] = []
    about = (mentions.rules(site), mentions.ACTS)
    for position, record in logs[shard].find((host_of(url) or site).encode("ascii"), terms=about):
        if isinstance(record, Robots) and record.site == site:
            last = position, record
        elif isinstance(record, Configured) and record.acts:
            named.append(record)
    return None if last is None else _robots(*last, shard, url, options), named


def _robots(position: int, record: Robots, shard: int, url: str, options: Options) -> RobotsView:
    judgement = RobotsRules.parse(record.body).judge(options.robots.agent, url)
    return RobotsView(
        at=record.at,
        status=record.status,
        expires=record.expires,
        allowed=judgement.allowed and not record.unreachable,
        line=judgement.line,
        rule=judgement.rule,
        detail=record.detail,
        unreachable=record.unreachable,
        position=position,
        shard=shard,
    )


def _learned(log: Stretch, skips: Sequence[Skipped]) -> list[Learned]:
    """What was learned about the patterns that a URL was skipped for."""
    patterns = {row.detail.partition(" ")[0] for row in skips if row.why in (Why.TRAP, Why.VARIANT)}
    return [
        record
        for pattern in sorted(patterns)
        for _, record in log.find(pattern.encode(), terms=[mentions.own(pattern)])
        if isinstance(record, Learned) and record.subject == pattern
    ][-_SHOWN:]


def _acts(of_host: Sequence[Configured], url: str) -> list[tuple[str, int, str, str]]:
    """What an operator did with the URL (as a seed) or with its host."""
    about = f"site {host_of(url)} "
    given = [act for row in of_host for act in row.acts if url in act[3].split(" ")]
    ordered = [act for row in of_host for act in row.acts if f"{act[3]} ".startswith(about)]
    return sorted({*given, *ordered})[-_SHOWN:]


def _same_content(logs: Sequence[Stretch], fetched: Fetched) -> list[str]:
    """Other URLs whose content has the same digest."""
    needle = msgspec.msgpack.encode(fetched.digest)
    urls: set[str] = set()
    for log in logs:
        for _, record in log.find(needle, taken_back=True, terms=[mentions.content(fetched.digest)]):
            if isinstance(record, Fetched) and record.digest == fetched.digest and record.url != fetched.url:
                urls.add(record.url)
                if len(urls) >= _SHOWN:
                    return sorted(urls)
    return sorted(urls)


def _conclude(answer: Explanation, found: list[Discovery], options: Options) -> None:
    """The state in one word, and the reason in one line."""
    rows: list[Fetched | Skipped | Deferred] = [*answer.fetches, *answer.skips, *answer.deferrals]
    last = max(rows, key=lambda row: row.at, default=None)
    latest = answer.deferrals[-1] if answer.deferrals else None
    if last is not None and latest is not None and latest.why is Why.REFRESH and latest.at >= last.at:
        answer.due, answer.because = latest.due, latest.detail  # it is a page, and will be fetched again
        last = answer.fetches[-1] if answer.fetches else last
    if isinstance(last, Fetched):
        answer.state, answer.why = "fetched", f"status {last.status}"
        if len(answer.fetches) > 1:
            told = [content_of(row) for row in answer.fetches if not is_failure(row.status)]
            changes = sum(a != b for a, b in pairwise(told))
            answer.why += f", fetched {len(answer.fetches)} times, changed {changes}"
        if last.like:
            answer.why += f"; its links are not followed, since it says nearly what {last.like} says"
    elif isinstance(last, Skipped):
        answer.state, answer.why = "skipped", f"{last.why}: {last.detail}" if last.detail else str(last.why)
    elif isinstance(last, Deferred):
        answer.state, answer.why, answer.due = "deferred", f"{last.why}: {last.detail}".rstrip(": "), last.due
    elif not found:
        answer.state, answer.why = "unknown", "no page of this crawl links to it, and it is no seed"
    elif not answer.inside:
        answer.state, answer.why = "not followed", f"out of scope: {answer.scope}"
    else:
        links = [row for row in found if options.follow.follows(LinkKind[row.kind.upper()])]
        if not links:
            requisite = LinkKind[found[0].kind.upper()] >= FIRST_REQUISITE
            reason = "it is only a requisite (see --requisites)" if requisite else f"only as {found[0].kind}"
            answer.state, answer.why = "not followed", reason
        elif not options.follow.nofollow and all(row.nofollow for row in links):
            answer.state, answer.why = "not followed", "every link to it says nofollow"
            if options.duplicates.alike != "expand":
                answer.why += " or is on a near duplicate of another page"
        elif all(row.hops > options.follow.redirects for row in links):
            answer.state = "not followed"
            answer.why = f"only a redirect leads to it, after {options.follow.redirects} others in a row"
        elif options.frontier.admit in ("adaptive", "sample"):
            answer.state, answer.why = "pending", "found, in scope, and not yet its turn"
        else:
            # The log says what was found, not whether the frontier had room for it.
            answer.state = "pending"
            admit = options.frontier.admit
            answer.why = f"found and in scope; not yet its turn, or dropped (frontier.admit is {admit})"


def find(
    crawl: CrawlReader,
    text: str,
    told: Callable[[str], None] | None = None,
    logs: Sequence[Stretch] | None = None,
    most: int | None = None,
) -> Explanation:
    """Explain a URL; one without a scheme as http, and if the crawl does not know that, as https."""
    text = text.strip()
    if not text:
        raise ConfigError("give the URL to explain")
    if "://" in text or text.startswith("file:"):
        if canonicalise(text) is None:
            raise ConfigError(f"{text!r} is not a URL that a crawl could meet")
        return explain(crawl, text, told, logs, most)
    first = explain(crawl, f"http://{text}", told, logs, most)
    if first.state != "unknown":
        return first
    second = explain(crawl, f"https://{text}", told, logs, most)
    return second if second.state != "unknown" else first


def as_plain(found: Explanation) -> dict[str, Any]:
    """The explanation as plain values for JSON."""
    lists = {name: getattr(found, name) for name in ("fetches", "skips", "deferrals", "learned")}
    rest = msgspec.structs.replace(found, fetches=[], skips=[], deferrals=[], learned=[])
    document: dict[str, Any] = msgspec.to_builtins(rest)
    document["due"] = iso(found.due)
    document["acts"] = [{"at": iso(at), "who": who, "what": what} for _, at, who, what in found.acts]
    for name in ("first", "robots"):
        if document[name] is not None:
            for field in ("at", "expires"):
                if field in document[name]:
                    document[name][field] = iso(document[name][field])
    for name, records in lists.items():
        rows = [plain(found.shard, 0, record) for record in records]
        document[name] = [{k: v for k, v in row.items() if k != "position"} for row in rows]
    return document
