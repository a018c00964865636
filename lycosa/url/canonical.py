"""The canonical form of a URL: the one spelling under which it is logged, hashed, compared and fetched.

    canonical = scheme "://" [host [":" port]] "/" rest
    scheme    = lower-case letters, digits, "+", "-", "."
    host      = name as ASCII (IDNA), dotted IPv4, or "[" IPv6 "]"; empty only for file
    port      = decimal, never the scheme's default
    rest      = path after its first slash, then "?" and the query if there is one; never a fragment

A canonical URL is ASCII without spaces, control characters or newlines, at most `MAX_URL` characters, and
its own canonical form. `lycosa.records.Links`, which joins URLs with newlines, and `lycosa.url.parts`, which slices
without parsing, rely on this.

The form is WHATWG's (the URL living standard, serialised without fragment) as the native library computes
it, with these deliberate differences:

- credentials (`user:password@`) are dropped: they do not name a resource, must not get into logs and
  archives, and a page could otherwise make the crawler send any credentials. Credentials for a site are an
  option of the crawl;
- schemes that nothing can fetch (`mailto:`, `javascript:`, `data:` ...) have no canonical form; the caller gives
  the set of schemes that have one, by default `SCHEMES`;
- every scheme but `file` needs a host, and every URL has a path: `x://host?q` is `x://host/?q`;
- `///host/path` below an http URL is `//host/path`, and `^` in a path is `%5E`. The standard says so; the
  library (2026.5) does not yet. Since this is done here, the form does not change with the library's version;
- a segment such as `c:` or `c|` before `..` is removed, as any other; the library takes it for a Windows drive,
  which only `file` URLs have, and keeps it;
- lone surrogates, which HTML cannot hold but Python's strings can, become U+FFFD as in browsers;
- in `file` URLs the library joins repeated slashes at the start of the path and drops the host before a
  drive letter; on a POSIX file system that names the same file.

Text longer than `MAX_URL`, fragment and spaces around it aside, is refused before parsing, and so is what
grows beyond it in parsing (a letter outside ASCII takes up to 12 bytes once escaped). 8,192 is where common
servers stop reading a request line.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from url import URL, URLError

from lycosa.url.parts import site_of
from lycosa.url.rules import NO_RULES, Rules

__all__ = ["MAX_URL", "NO_RULES", "SCHEMES", "WEB", "Rules", "canonicalise", "schemes_from"]

MAX_URL: Final = 8192

SCHEMES: Final = frozenset({"http", "https", "file"})
"""The schemes that a crawl can fetch without extensions."""
WEB: Final = frozenset({"http", "https"})

# A URL that the rules still change after so many rounds is built to do so ("%%%%33341": every round
# uncovers the next escape). Refusing it keeps the form idempotent and its cost bounded.
_ROUNDS: Final = 8

_parse = URL.parse
_EDGES = "".join(map(chr, range(33)))  # cut by the parser too
_SLASHES = re.compile(r"[\x00-\x20]*[/\\][\t\n\r]*[/\\][\t\n\r]*[/\\]")
_AUTHORITY = re.compile(r"[^/?]*")
_EXTRA = re.compile(r"[\x00-\x20]*[/\\\t\n\r]+")
_DRIVE = re.compile(r"(?:(?<=[/\\])[A-Za-z][:|]|^[A-Za-z]\|)(?=[/\\]|$)")
_KEPT = re.compile(r"/[A-Za-z][:|]/")
_REMOVED = str.maketrans("", "", "\t\n\r")  # by the parser, wherever they stand
_HIDDEN = "~lycosa~drive~"


@lru_cache(maxsize=64)
def _base(text: str) -> URL:
    """The parsed base, cached: the links of a page share one, so a small cache is enough. Raises as the parser
    does."""
    if len(text) > MAX_URL:
        text = _cut(text)
    try:
        parsed = _parse(text)
    except UnicodeEncodeError:
        parsed = _parse(_scalars(text))
    if _keeps_drive(url := str(parsed)):
        parsed = _parse(_without_drive(_scalars(text), None, url))
    return parsed


def _keeps_drive(url: str) -> bool:
    """Whether the library's serialisation has a segment that it takes for a drive and keeps in spite of `..`."""
    return _KEPT.search(url) is not None and not url.startswith("file:")


def _without_drive(text: str, base: str | None, url: str) -> str:
    """`text` resolved against `base` with drives hidden from the library; `url` is the library's result."""
    path, mark, rest = re.split(r"([?#]|$)", text.strip(_EDGES).translate(_REMOVED), maxsplit=1)
    above = None
    if base is not None:
        above = _base(base)
        if _keeps_drive(known := str(above)):
            site = len(site_of(known))
            directory, query, after = known[site:].partition("?")
            above = _parse(known[:site] + _DRIVE.sub(rf"\g<0>{_HIDDEN}", directory) + query + after)
    for spared in (0, 1):  # the first may be a host without a port: "//c:/x"
        found = iter(range(len(path)))
        hidden = _DRIVE.sub(
            lambda one, spared=spared, n=found: one[0] if next(n) < spared else one[0] + _HIDDEN, path
        )
        try:
            again = str(
                _parse(hidden + mark + rest) if above is None else _parse(hidden + mark + rest, above)
            )
        except (URLError, ValueError):
            continue
        again = again.replace(_HIDDEN, "")
        if site_of(again) == site_of(url):
            return again
    return url


def schemes_from(url: str, schemes: frozenset[str] = SCHEMES) -> frozenset[str]:
    """Those of `schemes` to which an answer for `url` may lead: only a file may lead to files of this machine.

    Every redirect and every link is resolved within these, so that a stranger's page can never name a file.
    """
    return schemes if url.startswith("file:") else schemes - {"file"}


def canonicalise(
    text: str,
    base: str | None = None,
    rules: Rules = NO_RULES,
    schemes: frozenset[str] = SCHEMES,
) -> str | None:
    """The canonical form of `text`, resolved against `base`; None if it has none. Never raises."""
    try:
        if len(text) > MAX_URL:
            text = _cut(text)
        url = str(_parse(text) if base is None else _parse(text, _base(base)))
    except (URLError, ValueError):
        again = _second_try(text, base)
        if again is None:
            return None
        url = again
    if (url.find(":/", 7) > 0 or "|/" in url) and _keeps_drive(url):
        url = _without_drive(_scalars(text), base, url)
    if "#" in url:  # the serialisation escapes every other one
        url = url[: url.index("#")]
    if "@" in url or "^" in url or not url.startswith(("https://", "http://")):
        tidy = _tidy(url)
        if tidy is None:
            return None
        url = tidy
    if len(url) > MAX_URL or url[: url.index(":")] not in schemes:
        return None
    if rules.steps and url.startswith(("https://", "http://")):
        return _apply(url, rules)
    return url


def _cut(text: str) -> str:
    """Text that is too long, without what does not count; `ValueError` if it still is."""
    text, mark, _ = text.strip(_EDGES).partition("#")
    if len(text) > MAX_URL:
        raise ValueError
    return text + mark  # without the mark a space before it would be one at the end, and be cut


def _second_try(text: str, base: str | None) -> str | None:
    """Parse a text that the library refuses but the standard does not: see the module's docstring."""
    if len(text) > MAX_URL:
        return None
    text = _scalars(text)
    try:
        above = None if base is None else _base(base)
        if above is not None and above.scheme in ("http", "https") and _SLASHES.match(text):
            text = _EXTRA.sub("//", text, count=1)
        return str(_parse(text) if above is None else _parse(text, above))
    except (URLError, ValueError):
        return None


def _scalars(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced, as browsers take it."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _tidy(url: str) -> str | None:
    """The rarer cases: no authority, credentials, no path, a caret in the path."""
    scheme, mark, rest = url.partition("://")
    if not mark or ":" in scheme:
        return None
    end = _AUTHORITY.match(rest).end()  # type: ignore[union-attr]  # it matches everything
    authority, rest = rest[:end].rpartition("@")[2], rest[end:]
    if not authority and scheme != "file":
        return None
    if not rest.startswith("/"):
        rest = "/" + rest
    if "^" in rest:
        path, question, query = rest.partition("?")
        rest = path.replace("^", "%5E") + question + query
    return f"{scheme}://{authority}{rest}"


def _apply(url: str, rules: Rules) -> str | None:
    """Apply the rules until they change nothing."""
    for _ in range(_ROUNDS):
        new = url
        for step in rules.steps:
            new = step(new)
        if new == url:
            return url
        parsed = canonicalise(new)
        if parsed is None:
            return None
        url = parsed
    return None
