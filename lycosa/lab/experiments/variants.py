"""Variants of URLs: how many fetches are saved by the rules that a crawl learns, and whether anything is lost.

A web in which most URLs lead to a page that other URLs lead to as well, answered in the process on virtual time:

    shop.test           /item/7?sid=...     session ids: every page links to all items, with an id of its own
    list.test           /list/?page=3&sort=price    three orders of the same page
    print.test          /print/a/7.html     the print view of /a/7.html: the same text, fewer links
    m.test, copy.test   the second is a mirror of the first
    www.v.test, v.test  a mirror too: with and without www

and some that only look like this:

    lang.test           /doc/7?lang=de      another text for each language
    wiki.test           /w/7?rev=2          the parameter matters from page 10 on, and not before
    blog.test           /p/7 and /print/p/7, which say different things

A *wrong join* is a URL that was finally skipped because of a rule, and whose text is on no page that was fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from lycosa.crawl.agent import End, build
from lycosa.crawl.config import read_options
from lycosa.fetch.protocol import Failure, Request
from lycosa.files import Files
from lycosa.lab import virtual
from lycosa.lab.network import Reply, ScriptedFetcher, ScriptedFetchers, ScriptedResolver
from lycosa.lab.virtual import VirtualClock
from lycosa.records import Fetched, Learned, Skipped, Why
from lycosa.url.parts import host_of, path_of

HOSTS: Final = (
    *("shop.test", "list.test", "print.test", "m.test", "copy.test", "www.v.test", "v.test"),
    *("lang.test", "wiki.test", "blog.test"),
)
SORTS: Final = ("price", "name", "date")
TURNS: Final = 10
"""From this page on a revision of wiki.test matters."""


class Outcome(msgspec.Struct):
    """The results of a crawl."""

    end: End
    fetched: int
    skipped: int
    """URLs whose last record says that they were skipped for a rule."""
    missed: list[str]
    """Texts of the web that were not fetched."""
    wrong: list[str]
    """Wrong joins that remained."""
    learned: list[Learned]


class _Web:
    """The web of the experiment: `size` pages of each kind, `sessions` ids."""

    def __init__(self, size: int, sessions: int) -> None:
        self.size, self.sessions = size, sessions

    def text(self, url: str) -> str:
        """The text of the page at a URL: equal texts are one page."""
        host, path = host_of(url), path_of(url)
        where, _, query = path.partition("?")
        given = {name: values[0] for name, values in parse_qs(query).items()}
        match host:
            case "shop.test":
                return _words("shop", where)
            case "list.test":
                rows = [_words("list", given.get("page", "0"), n) for n in range(4)]
                return "</p><p>".join(
                    sorted(rows, key=lambda row: Random(given.get("sort", "") + row).random())
                )
            case "print.test":
                return _words("print", where.removeprefix("/print"))
            case "m.test" | "copy.test":
                return _words("m", where)
            case "v.test" | "www.v.test":
                return _words("v", where)
            case "wiki.test":
                number = int(where.rpartition("/")[2] or 0)
                return _words("wiki", number, given.get("rev", "") if number >= TURNS else "")
            case _:
                return _words(url)

    def page(self, url: str) -> str:
        """The text, whatever the order of its parts."""
        return " ".join(sorted(self.text(url).split("</p><p>")))

    def links(self, url: str) -> list[str]:
        host, path = host_of(url), path_of(url)
        all_pages = range(1, self.size + 1)
        match host:
            case "shop.test":
                seed = Random(url).randrange(self.sessions)
                mark = f"{Random(seed).getrandbits(52):013x}a1"
                return [f"/item/{n}?sid={mark}" for n in all_pages]
            case "list.test":
                return [f"/list/?page={n}&sort={sort}" for n in all_pages for sort in SORTS]
            case "print.test":
                if path.startswith("/print/"):
                    return [f"/a/{n}.html" for n in all_pages[:5]]
                return [link for n in all_pages for link in (f"/a/{n}.html", f"/print/a/{n}.html")]
            case "blog.test":
                return [link for n in all_pages for link in (f"/p/{n}", f"/print/p/{n}")]
            case "lang.test":
                return [f"/doc/{n}?lang={each}" for n in all_pages for each in ("en", "de", "fr")]
            case "wiki.test":
                return [f"/w/{n}?rev={rev}" for n in all_pages for rev in range(4)]
            case _:
                return [f"/{n}/" for n in all_pages]

    def answer(self, request: Request, _: int) -> Reply | Failure:
        path = path_of(request.url)
        if path == "/robots.txt":
            return Reply(b"", 404)
        anchors = "".join(f'<a href="{url.replace("&", "&amp;")}">x</a>' for url in self.links(request.url))
        return Reply(f"<main><p>{self.text(request.url)}</p></main><nav>{anchors}</nav>".encode())


def _words(*parts: object) -> str:
    random = Random(repr(parts))
    return " ".join("".join(random.choices("abcdefghij", k=6)) for _ in range(30))


def crawl(
    files: Files, options: Mapping[str, Any], size: int = 30, sessions: int = 12, shards: int = 4
) -> Outcome:
    """Crawl that web from its home pages."""
    web = _Web(size, sessions)

    async def go(clock: VirtualClock) -> tuple[End, list[Any]]:
        agent = build(
            files,
            read_options(
                {
                    "public": False,
                    "allow": ["127.0.0.0/8"],
                    "scope": {"mode": "any"},
                    "politeness": {"wait": 0.2, "address_wait": 0.0},
                    "archive": {"keep": False},
                    **options,
                }
            ),
            [f"http://{host}/" for host in HOSTS],
            shards=shards,
            hash_seed=7,
            clock=clock,
            fetchers=ScriptedFetchers(ScriptedFetcher(web.answer, clock)),
            resolver=ScriptedResolver(dict.fromkeys(HOSTS, "127.0.0.1")),
        )
        end = await agent.run()
        return end, [record for shard in agent.shards for _, record in shard.log.reader.scan()]

    end, records = virtual.run(go, 0.0)
    fetched = {record.url for record in records if isinstance(record, Fetched)}
    held = {record.url for record in records if isinstance(record, Skipped) and record.why is Why.VARIANT}
    known = fetched | held
    had = {web.page(url) for url in fetched}
    met = {f"http://{host_of(url)}{link}" for url in fetched for link in web.links(url)}
    return Outcome(
        end,
        len(fetched),
        len(held - fetched),
        sorted(url for url in met - known if web.page(url) not in had),
        sorted(url for url in held - fetched if web.page(url) not in had),
        [record for record in records if isinstance(record, Learned)],
    )
