"""Traps like those of real software: calendars, shops, forums, each a site that has real pages as well.

    python -m benchmarks.traps_sites [--off] [--pages 6000]

`lycosa.lab.experiments.traps` crawls the traps of the embedded web; these were written independently of the code
that finds traps, with other templates: navigation, sidebars with a text that changes at every look, dates in words,
pages of days below those of months. All 13 sites are crawled at once, on virtual time. Real pages are counted once
each, by whatever URL; all other fetches are wasted.
"""

from __future__ import annotations

import argparse
import calendar
import hashlib
import re
from collections import Counter
from collections.abc import Callable
from random import Random
from urllib.parse import parse_qsl, quote, urlsplit

from lycosa.crawl.agent import build
from lycosa.crawl.config import read_options
from lycosa.fetch.protocol import Request
from lycosa.lab import virtual
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import Reply, ScriptedFetcher, ScriptedFetchers, ScriptedResolver
from lycosa.lab.virtual import VirtualClock
from lycosa.records import Fetched, Learned, Record

REAL = 40
"""Real pages of a site, and of the trap itself where it leads to some."""
WORDS = ["".join(Random(n).choices("aeioustrnlmdpcbg", k=3 + n % 7)) for n in range(4000)]
MONTHS = [name.lower() for name in calendar.month_name[1:]]
Query = dict[str, str]
Answer = Callable[[str, Query, str], str | None]
"""The main part of a page, by its path, its query, and a text unique to it; None: there is no such page."""


def prose(*seed: object, words: int = 150) -> str:
    return " ".join(Random(repr(seed)).choices(WORDS, k=words))


def links(*urls: str) -> str:
    return "".join(f"<a href='{url.replace('&', '&amp;')}'>see</a> " for url in urls)


def events(path: str, query: Query, token: str) -> str | None:
    """A calendar in the query: months, weeks and days."""
    if path != "/events":
        return None
    year, month, day = int(query["year"]), int(query["month"]), query.get("day")
    name = calendar.month_name[month]

    def url(view: str, at: int, more: str = "") -> str:
        return f"/events?view={view}&year={at // 12}&month={at % 12 + 1}{more}"

    at = year * 12 + month - 1
    near = links(url("month", at - 1), url("month", at + 1), url("week", at))
    days = links(*(url("day", at, f"&day={n}") for n in range(1, 29)))
    what = f"{day} {name} {year}" if day else f"{name} {year}"
    return f"<p>Events for {what}</p><p>There are no events for this time. Please look again later.</p>{near}{days}"


def agenda(path: str, query: Query, token: str) -> str | None:
    """A calendar in the path, with names of months."""
    found = re.fullmatch(r"/agenda/(\d+)/(\w+)/(?:\d+/)?", path)
    if not found or found[2] not in MONTHS:
        return None
    at = int(found[1]) * 12 + MONTHS.index(found[2])
    near = [f"/agenda/{n // 12}/{MONTHS[n % 12]}/" for n in (at - 1, at, at + 1)]
    days = links(near[0], near[2], *(f"{near[1]}{n}/" for n in range(1, 29)))
    return (
        f"<p>{found[2].title()}: nothing is planned yet for the time that you chose in our agenda.</p>{days}"
    )


def document(path: str, query: Query, token: str) -> str | None:
    """Session ids in the path, a new one in every answer."""
    found = re.fullmatch(r"(?:/\(S\(\w+\)\))?/doc-(\d+)\.aspx", path)
    if not found or int(found[1]) >= REAL:
        return None
    number = int(found[1])
    return prose("doc", number) + links(
        *(f"/(S({token}))/doc-{(number + n) % REAL}.aspx" for n in range(1, 8))
    )


def view(path: str, query: Query, token: str) -> str | None:
    """Session ids in the query."""
    number = int(query.get("id", 0))
    if path != "/view":
        return None
    return prose("view", number) + links(
        *(f"/view?id={(number + n) % REAL}&PHPSESSID={token}" for n in range(1, 8))
    )


def story(path: str, query: Query, token: str) -> str | None:
    """Links that carry the URL they were on."""
    if not path.startswith("/story/"):
        return None
    number = int(path[7:])
    return prose("story", number) + links(
        *(f"/story/{(number + n) % REAL}?ref={number}-{token[:6]}" for n in range(1, 6))
    )


def knowledge(path: str, query: Query, token: str) -> str | None:
    """A page for every name."""
    if not path.startswith("/kb/"):
        return None
    names = ["-".join(Random(path + str(n)).choices(WORDS, k=2)) for n in range(6)]
    return (
        f"<p>We could not find {path[4:]}. Try one of these topics, which others have found useful.</p>"
        + links(*names)
    )


def browse(path: str, query: Query, token: str) -> str | None:
    """Pages of a list without a last one."""
    if path != "/browse":
        return None
    page = int(query.get("page", 1))
    rows = "".join(f"<p>{prose('row', page, n, words=12)}</p>" for n in range(5))
    return (rows if page <= 8 else "<p>No results. There is nothing on this page of the list.</p>") + links(
        f"/browse?page={page + 1}"
    )


def catalogue(path: str, query: Query, token: str) -> str | None:
    """Filters in every order."""
    if path != "/catalogue":
        return None
    values = {"colour": "rgbk", "size": "sml", "brand": "abcde", "price": "123", "sort": "pn"}
    goods = "".join(
        f"<p>{prose('goods', n, words=14)}</p>"
        for n in Random(repr(sorted(query.items()))).sample(range(REAL), 5)
    )
    before = "".join(f"{name}={value}&" for name, value in query.items())
    return goods + links(
        *(
            f"/catalogue?{before}{name}={each}"
            for name in values
            if name not in query
            for each in values[name]
        )
    )


def tagged(path: str, query: Query, token: str) -> str | None:
    """Tags in every combination."""
    if not path.startswith("/tags/"):
        return None
    tags = path[6:].split("+")
    goods = "".join(
        f"<p>{prose('goods', n, words=14)}</p>" for n in Random(repr(sorted(tags))).sample(range(REAL), 3)
    )
    return goods + links(*(f"/tags/{'+'.join([*tags, each])}" for each in WORDS[:20] if each not in tags))


def login(path: str, query: Query, token: str) -> str | None:
    """Forms that remember the previous page."""
    if path not in ("/login", "/register"):
        return None
    here = quote(f"{path}?to={query.get('to', '')}")
    return (
        f"<p>Please {path[1:]} with your user name and your password to go on to the page you want.</p>"
        + links(f"/login?to={here}", f"/register?to={here}")
    )


def shop(path: str, query: Query, token: str) -> str | None:
    """Relative links that grow."""
    if not path.startswith("/shop/"):
        return None
    return prose("shop") + links("products/", "about/", "help/index.html", "support/")


def record(path: str, query: Query, token: str) -> str | None:
    """Consecutive numbers, most of which do not exist."""
    if not path.startswith("/record/"):
        return None
    number = int(path[8:])
    if number < REAL:
        return prose("record", number) + links(f"/record/{number + 1}")
    return f"<p>The record {number} does not exist in the database, or was removed by its owner.</p>" + links(
        *(f"/record/{n}" for n in (number + 1, number + 10, number * 2))
    )


def find(path: str, query: Query, token: str) -> str | None:
    """Ampersands that are escaped once more on each page."""
    if path != "/find":
        return None
    words = "&".join(f"{name}={value}" for name, value in query.items())
    return prose("find") + links(f"/find?{words}&amp;o=1", f"/find?{words.replace('&', '&amp;')}&o=2")


SITES: dict[str, tuple[Answer, str, str]] = {
    "events": (events, "/events?view=month&year=2026&month=11", ""),
    "agenda": (agenda, "/agenda/2026/november/", ""),
    "document": (document, "/doc-0.aspx", r"doc-\d+"),
    "view": (view, "/view?id=0", r"id=\d+"),
    "story": (story, "/story/0", r"/story/\d+"),
    "knowledge": (knowledge, "/kb/start", ""),
    "browse": (browse, "/browse?page=1", r"page=[1-8]$"),
    "catalogue": (catalogue, "/catalogue", ""),
    "tagged": (tagged, f"/tags/{WORDS[0]}", ""),
    "login": (login, "/login?to=/", ""),
    "shop": (shop, "/shop/", ""),
    "record": (record, "/record/0", r"/record/[1-3]?\d$"),
    "find": (find, "/find?a=1&b=2", ""),
}
"""For each: its answers, its start, and the common part of the URLs of a real page of the trap."""


def respond(request: Request, before: int) -> Reply:
    parts = urlsplit(request.url)
    name = (parts.hostname or "").split(".")[1]
    answer, entry, _ = SITES[name]
    token = hashlib.md5(request.url.encode()).hexdigest()
    found = re.fullmatch(r"/(?:articles/(\d+)\.html)?", parts.path)
    if found and int(found[1] or 0) < REAL:
        number = int(found[1] or 0)
        near = [f"/articles/{n}.html" for n in range(number, min(number + 6, REAL))]
        main: str | None = prose(name, number) + links(*near, *([] if found[1] else [entry]))
    else:
        main = answer(parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)), token)
    if main is None:
        return Reply(b"<p>There is no such page.</p>", 404)
    side = prose("side", int(token, 16) % 300, words=25)
    head = links("/", "/articles/0.html", "/articles/1.html")
    return Reply(
        f"<title>{name}</title><nav>{head}</nav><main><h1>{name}</h1>{main}</main><aside><p>{side}</p></aside>".encode()
    )


def page_of(name: str, url: str) -> str:
    """The real page that a URL shows; "" if none."""
    found = re.search(r"/articles/\d+", url) or (SITES[name][2] and re.search(SITES[name][2], url))
    return found[0] if found else "home" if urlsplit(url).path == "/" else ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--off", action="store_true", help="without looking for traps")
    parser.add_argument("--pages", type=int, default=6000, help="given up after so many")
    args = parser.parse_args()
    hosts = [f"www.{name}.test" for name in SITES]
    options = {
        "public": False,
        "allow": ["127.0.0.0/8"],
        "politeness": {"wait": 0.2, "address_wait": 0.0},
        "archive": {"keep": False},
        "limits": {"pages": args.pages},
        "traps": {"quarantine": not args.off},
    }

    async def go(clock: VirtualClock) -> list[Record]:
        agent = build(
            FaultyFiles(),
            read_options(options),
            [f"http://{host}/" for host in hosts],
            shards=4,
            hash_seed=7,
            clock=clock,
            fetchers=ScriptedFetchers(ScriptedFetcher(respond, clock)),
            resolver=ScriptedResolver({host: f"127.0.0.{n}" for n, host in enumerate(hosts, 1)}),
        )
        print(await agent.run())
        return [row for shard in agent.shards for _, row in shard.log.reader.scan()]

    rows = virtual.run(go, 0.0)
    fetched: Counter[str] = Counter()
    real: dict[str, set[str]] = {name: set() for name in SITES}
    for row in rows:
        if isinstance(row, Fetched):
            name = row.url.split(".")[1]
            fetched[name] += 1
            real[name] |= {page_of(name, row.url)} - {""}
    learned = Counter(
        row.subject.split(".")[1]
        for row in rows
        if isinstance(row, Learned) and row.what == "trap" and row.holds
    )
    print("site        fetched  wasted  real pages  of  patterns")
    for name, (_, _, shown) in SITES.items():
        every = REAL + 1 + (0 if not shown else 8 if name == "browse" else REAL)
        had = len(real[name])
        print(
            f"{name:10}  {fetched[name]:7}  {fetched[name] - had:6}  {had:10}  {every:2}  {learned[name]:8}"
        )
    whole = sum(map(len, real.values()))
    print(f"{sum(fetched.values())} fetched, {sum(fetched.values()) - whole} wasted, {whole} real pages")


if __name__ == "__main__":
    main()
