"""robots.txt of every kind (RFC 9309), each with pages that show whether a crawler understood it.

A variant is named by the host's role. Its rules concern paths below /rules/ only (except for
`closed`), so that they never cut off ordinary pages; /rules/ pages are linked from the home page. A
forbidden page links to one more that nothing else links to: since it is unreachable, it must not be
fetched either.

The RFC decides what is right: 4xx means no rules; 5xx means that nothing may be fetched until the
file is available; redirects are followed; groups of one agent are merged; the longest match wins and
Allow wins a tie; lines beyond the first 500 KiB do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from lycosa.lab.webs.answers import Answer, Expected, Only, Request, leaf
from lycosa.lab.webs.sections import scripts
from lycosa.lab.webs.sheet import Sheet

LIMIT = 500 * 1024
"""Bytes of a robots.txt that count."""

_TYPE = ("Content-Type", "text/plain")


def _text(body: str | bytes, status: int = 200) -> Answer:
    data = body.encode() if isinstance(body, str) else body
    return Answer(status, (_TYPE,), data, lasting=True)


def _probe(sheet: Sheet, path: str, only: Only = Only.ALL) -> None:
    """A page below /rules/ and, if it is forbidden, one linked only from it."""
    behind: tuple[str, ...] = ()
    if only is not Only.ALL:
        deep = "/rules/behind/" + str(len(sheet.makers)) + ".html"
        behind = (sheet.child(deep, only),)
    sheet.put(path, leaf(f"rule {len(sheet.makers)}", *behind), entry=True, only=only)


def _probes(sheet: Sheet, allowed: list[str], forbidden: list[str]) -> None:
    for path in allowed:
        _probe(sheet, path)
    for path in forbidden:
        _probe(sheet, path, Only.ROBOTS)


def _absent(sheet: Sheet) -> Answer:
    """404: no rules."""
    _probes(sheet, ["/rules/a.html"], [])
    return _text("no such file\nUser-agent: *\nDisallow: /\n", 404)


def _empty(sheet: Sheet) -> Answer:
    """An empty file: no rules."""
    _probes(sheet, ["/rules/a.html"], [])
    return _text("")


def _plain(sheet: Sheet) -> Answer:
    """The file of hosts without a role: everything is allowed, except the data of scripts."""
    closed = f" {scripts.CLOSED}" if "scripts" in sheet.place.host.sections else ""
    return _text(f"User-agent: *\nDisallow:{closed}\n")


def _disallow(sheet: Sheet) -> Answer:
    """One directory is closed."""
    _probes(
        sheet,
        ["/rules/open.html", "/rules/closed", "/rules/Closed/a.html"],
        ["/rules/closed/a.html", "/rules/closed/", "/rules/closed/b?x=1"],
    )
    return _text("User-agent: *\nDisallow: /rules/closed/\n")


def _exception(sheet: Sheet) -> Answer:
    """The longest match wins, whatever the order; a tie allows."""
    _probes(
        sheet,
        ["/rules/shop/open/a.html", "/rules/tie/a.html", "/rules/shop"],
        ["/rules/shop/a.html", "/rules/shop/open/not/a.html"],
    )
    return _text(
        "User-agent: *\nAllow: /rules/shop/open/\nDisallow: /rules/shop/\n"
        "Disallow: /rules/shop/open/not/\nDisallow: /rules/tie/\nAllow: /rules/tie/\n"
    )


def _wildcards(sheet: Sheet) -> Answer:
    """`*` and `$`."""
    _probes(
        sheet,
        ["/rules/a.pdf?page=2", "/rules/a.pdfx", "/rules/x/public/a.html", "/rules/q.html?paint=1"],
        ["/rules/a.pdf", "/rules/x/private-1/a.html", "/rules/q.html?a=1&print=1"],
    )
    return _text(
        "User-agent: *\nDisallow: /rules/*.pdf$\nDisallow: /rules/*/private*/\nDisallow: /rules/*?*print=\n"
    )


def _agents(sheet: Sheet) -> Answer:
    """A group for our agent, and one for all others."""
    _probe(sheet, "/rules/a.html", Only.ROBOTS_OTHERS)
    _probe(sheet, "/rules/wolf/a.html", Only.ROBOTS)
    return _text(
        "User-agent: *\nDisallow: /rules/\n\nUser-agent: LYCOSA\nDisallow: /rules/wolf/\n\n"
        "User-agent: otherbot\nDisallow: /\n"
    )


def _merged(sheet: Sheet) -> Answer:
    """Groups of the same agent are one group; several agents may share one."""
    _probe(sheet, "/rules/a.html", Only.ROBOTS_OTHERS)
    _probes(sheet, [], ["/rules/one/a.html", "/rules/two/a.html"])
    return _text(
        "User-agent: otherbot\nUser-agent: lycosa\nDisallow: /rules/one/\n\n"
        "User-agent: *\nDisallow: /rules/\n\nUser-agent: lycosa\nDisallow: /rules/two/\n"
    )


def _delay(sheet: Sheet) -> Answer:
    """Crawl-delay."""
    _probes(sheet, ["/rules/a.html"], ["/rules/closed/a.html"])
    delay = sheet.place.options.crawl_delay
    return _text(f"User-agent: *\nCrawl-delay: {delay:g}\nDisallow: /rules/closed/\n")


def _crlf(sheet: Sheet) -> Answer:
    """A byte order mark and DOS line ends."""
    _probes(sheet, ["/rules/a.html"], ["/rules/closed/a.html"])
    return _text(b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /rules/closed/\r\n")


def _messy(sheet: Sheet) -> Answer:
    """Comments, blanks, empty lines within a group, odd case, unknown lines."""
    _probes(sheet, ["/rules/a.html"], ["/rules/closed/a.html", "/rules/shut/a.html"])
    return _text(
        "# a comment\n\n  uSeR-aGeNt :  *   # everybody\n\nNoindex: /rules/a.html\nhello\n"
        "\tdIsAlLoW:/rules/closed/#c\n\n\nHost: example.test\nDisallow : /rules/shut/  \n: :\n"
    )


def _huge(sheet: Sheet) -> Answer:
    """More than 500 KiB: what comes after does not count."""
    _probes(sheet, ["/rules/late/a.html"], ["/rules/early/a.html"])
    return _huge_file()


@lru_cache(maxsize=1)
def _huge_file() -> Answer:
    """Made once, however many hosts have it."""
    filler = b"".join(b"Disallow: /never/%07d/%s\n" % (n, b"x" * 70) for n in range(6000))
    body = b"User-agent: *\nDisallow: /rules/early/\n" + filler
    assert len(body) > LIMIT
    return _text(body + b"Disallow: /rules/late/\n")


def _unauthorised(sheet: Sheet) -> Answer:
    """401 is a 4xx: no rules."""
    _probes(sheet, ["/rules/a.html"], [])
    return _text("User-agent: *\nDisallow: /\n", 401)


def _forbidden(sheet: Sheet) -> Answer:
    """403 is a 4xx: no rules."""
    _probes(sheet, ["/rules/a.html"], [])
    return _text("User-agent: *\nDisallow: /\n", 403)


def _html(sheet: Sheet) -> Answer:
    """An HTML page instead of the file, as from servers that answer every address: no line of it is a rule."""
    _probes(sheet, ["/rules/a.html"], [])
    page = leaf("welcome", text="User-agent: *<br>Disallow: /<br>")
    return Answer(200, (("Content-Type", "text/html"),), page.encode(), lasting=True)


def _encoded(sheet: Sheet) -> Answer:
    """Escapes and raw UTF-8 mean the same."""
    _probes(
        sheet,
        ["/rules/cafe/a.html"],
        ["/rules/caf%C3%A9/a.html", "/rules/%E3%83%84/a.html", "/rules/a-b/x.html"],
    )
    return _text(
        "User-agent: *\nDisallow: /rules/café/\nDisallow: /rules/%E3%83%84/\nDisallow: /rules/%61-b/\n"
    )


def _redirected(sheet: Sheet) -> Answer:
    """Two redirects lead to the rules."""
    _probes(sheet, ["/rules/a.html"], ["/rules/closed/a.html"])
    origin = sheet.place.origin
    sheet.makers["/robots/old.txt"] = lambda request: Answer(302, (("Location", "new.txt"),))
    rules = _text("User-agent: *\nDisallow: /rules/closed/\n")
    sheet.makers["/robots/new.txt"] = lambda request: rules
    # Requested as rules; the truth knows that they are not pages of the site.
    for name, status, location in (("old", 302, f"{origin}/robots/new.txt"), ("new", 200, "")):
        sheet.expected.append(Expected(f"{origin}/robots/{name}.txt", Only.EITHER_WAY, (status,), location))
    return Answer(301, (("Location", "/robots/old.txt"),), lasting=True)


def _closed(sheet: Sheet) -> Answer:
    """Nothing may be fetched."""
    return _text("User-agent: *\nDisallow: /\n")


def _broken(sheet: Sheet) -> Answer:
    """500, always: nothing may be fetched."""
    return _text("oops\n", 500)


def _busy(sheet: Sheet) -> Answer:
    """503 a few times, then the rules (see `write`)."""
    _probes(sheet, ["/rules/a.html"], ["/rules/closed/a.html"])
    return _text("User-agent: *\nDisallow: /rules/closed/\n")


VARIANTS: dict[str, Callable[[Sheet], Answer]] = {
    "": _plain,
    "absent": _absent,
    "empty": _empty,
    "disallow": _disallow,
    "exception": _exception,
    "wildcards": _wildcards,
    "agents": _agents,
    "merged": _merged,
    "delay": _delay,
    "crlf": _crlf,
    "messy": _messy,
    "huge": _huge,
    "unauthorised": _unauthorised,
    "forbidden": _forbidden,
    "html": _html,
    "encoded": _encoded,
    "redirected": _redirected,
    "closed": _closed,
    "broken": _broken,
    "busy": _busy,
}


def write(sheet: Sheet) -> None:
    """Put the host's robots.txt, and its probes, in the sheet."""
    role = sheet.place.host.role
    answer = VARIANTS.get(role, _plain)(sheet)
    path = "/robots.txt"
    if "sitemaps" in sheet.place.host.sections:  # hence without a role: the plain variant
        line = f"Sitemap: {sheet.place.origin}/maps/index.xml\n".encode()
        answer = _text(answer.body + line)
    if role == "busy":
        sheet.counted.add(path)
        wait = sheet.place.options.retry_after
        failure = Answer(503, (_TYPE, ("Retry-After", str(wait))), b"later\n", wait=wait)
        times = sheet.place.options.failures
        then = answer

        def make(request: Request) -> Answer:
            return failure if request.attempt < times else then

        sheet.makers[path] = make
    else:
        fixed = answer
        sheet.makers[path] = lambda request: fixed
