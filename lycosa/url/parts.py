"""Parts of a canonical URL, by slicing: no parsing, since the form is known (see `lycosa.url.canonical`).

Given something that is not canonical these functions still return, but the result is meaningless.

A *host* is what stands between `//` and the port: a name, a dotted IPv4 address, or an IPv6 address **with
its brackets**, so that `scheme://host:port` can be put together again. It is empty for `file` URLs.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21, "ws": 80, "wss": 443}


class Parts(NamedTuple):
    """The parts of a canonical URL."""

    scheme: str
    host: str
    port: int
    """The scheme's default if the URL names none; 0 if there is no default either."""
    path_and_query: str
    """From the first slash of the path to the end: what HTTP calls the request target."""


def site_of(url: str) -> str:
    """`scheme://host[:port]`."""
    return url[: url.find("/", url.find("://") + 3)]


def host_of(url: str) -> str:
    """The host: the name alone."""
    start = url.find("://") + 3
    host = url[start : url.find("/", start)]
    if ":" in host:
        return host[: host.find("]") + 1] if host[0] == "[" else host[: host.index(":")]
    return host


def path_of(url: str) -> str:
    """Path and query, from the first slash."""
    return url[url.find("/", url.find("://") + 3) :]


def directory_of(url: str) -> str:
    """The URL up to the last slash of its path: all that relative links are resolved against."""
    mark = url.find("?")
    return url[: (url.rfind("/") if mark < 0 else url.rfind("/", 0, mark)) + 1]


def split(url: str) -> Parts:
    """All parts at once."""
    mark = url.find("://")
    start = mark + 3
    end = url.find("/", start)
    scheme, host, port = url[:mark], url[start:end], ""
    if ":" in host:
        cut = host.find("]") + 1 if host[0] == "[" else host.index(":")
        host, port = host[:cut], host[cut + 1 :]
    number = int(port) if port.isdecimal() else DEFAULT_PORTS.get(scheme, 0)
    return Parts(scheme, host, number, url[end:])


def is_address(host: str) -> bool:
    """Is the host of a canonical URL an IP address? (A name's last label is never a number.)"""
    return host[:1] == "[" or (host[-1:].isdigit() and host.replace(".", "").isdigit() and "." in host)


# The keys of CDX indexes. What follows is the behaviour of the Internet Archive's `surt` package (its default
# canonicaliser), which pywb calls for both the index and the query: a key that differs is a page not found.

_UNESCAPE_ROUNDS = 8  # the package has no bound; only URLs built to be escaped deeper differ
_SAFE = "!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_WWW = re.compile(r"www\d*\.")
_QUERY_SESSIONS = [
    re.compile(r"(.*)" + expression + r"(?:&|\Z)", re.IGNORECASE)
    for expression in (
        r"jsessionid=[0-9a-z]{32}",
        r"phpsessid=[0-9a-z]{32}",
        r"sid=[0-9a-z]{32}",
        r"aspsessionid[a-z]{8}=[a-z]{24}",
        r"cfid=(?:(?!cfid=[^&])[^&])++&cftoken=[^&]++",  # no cfid within: the last one is tried first
    )
]
_PATH_SESSIONS = [
    re.compile(r"(.*/)" + expression + r"/(?=[^?]+\.aspx)")
    for expression in (r"\((?:[a-z]\([0-9a-z]{24}\))+\)", r"\([0-9a-z]{24}\)")
]


def surt(url: str) -> str:
    """The key under which a CDXJ index sorts the URL: `com,example)/path?query`.

    Coarser than the URL: lower case throughout, `www.` and the scheme gone, query sorted, session ids and
    the trailing slash dropped, escapes normalised.
    """
    scheme, host, _, rest = split(url)
    path, _, query = rest.partition("?")
    path = _escaped(path)
    if host:
        path = _collapsed(path)
    path = path.lower()
    for pattern in _PATH_SESSIONS:
        path = _without_last(pattern, path)
    if len(path) > 1 and path.endswith("/"):
        path = path[:-1]
    if query:
        query = _escaped(query)
        for pattern in _QUERY_SESSIONS:
            query = _without_last(pattern, query)
        query = "&".join(sorted(query.lower().split("&"), key=_name_and_value))
    tail = f"{path}?{query}" if query else path
    if not host:
        return f"{scheme}:{tail}"
    port = url[url.find("://") + 3 + len(host) : -len(rest)]
    name = _escaped(host.strip("[]")).replace("..", ".").strip(".").lower()
    name = name[found.end() :] if (found := _WWW.match(name)) else name
    return f"{','.join(name.split('.')[::-1])}{'' if port == ':0' else port}){tail}"


def _escaped(text: str) -> str:
    if "%" not in text and " " not in text:
        return text
    data = text.encode("utf-8", "surrogatepass")
    for _ in range(_UNESCAPE_ROUNDS):
        plain = unquote_to_bytes(data)
        if plain == data:
            break
        data = plain
    return quote_from_bytes(data, _SAFE)


def _collapsed(path: str) -> str:
    """Dot segments resolved (escaping may have hidden some), empty segments dropped."""
    if "//" not in path and "/." not in path:
        return path or "/"
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == ".":
            continue
        if segment == ".." and kept:
            kept.pop()
        else:
            kept.append(segment)
    return "/" + "".join(s + "/" for s in kept[:-1] if s) + "".join(kept[-1:])


def _without_last(pattern: re.Pattern[str], text: str) -> str:
    """The text with its last match reduced to the first group."""
    found = pattern.match(text)
    return text if found is None else found[1] + text[found.end() :]


def _name_and_value(field: str) -> tuple[str, ...]:
    return tuple(field.split("=", 1))
