"""Cookies: those the operator gives the crawl in a file in Netscape's format, and those of a session.

    file    = *line
    line    = domain TAB subdomains TAB path TAB secure TAB expires TAB name TAB value
            | "#HttpOnly_" line      as curl and browsers write it; no difference for a crawler
            | "#" anything | empty

`subdomains` and `secure` are TRUE or FALSE, `expires` is in seconds since the epoch, 0 for never. A domain
that starts with a dot includes its subdomains. A cookie is sent where RFC 6265 §5.4 would send it: domain
and path match, secure ones over https only, expired ones nowhere; longer paths first. Lines that do not match
this grammar, or whose name or value is not allowed in a header, are counted in `ignored` and left out;
`first_ignored` is the line number of the first of them.

A crawl keeps the cookies that a site sets only if the operator says so (`[site]`, `cookies`); otherwise each page
is fetched as by a first-time visitor. `HostCookies` are the cookies of one host, accepted and sent as in RFC 6265
§5.3 and §5.4, with one exception: a cookie for a whole domain is kept only for the host that set it.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import NamedTuple

from lycosa.fetch.head import sendable

_MOST_COOKIES = 100
_LONGEST = 4096
_SAME_TIME = 3600.0
"""Seconds by which an expiry may move without the cookie counting as changed."""
_FOREVER = 400 * 86_400.0
"""RFC 6265bis: no cookie lives longer."""


class Cookie(NamedTuple):
    path: str
    secure: bool
    subdomains: bool
    expires: float
    pair: str  # name=value


class CookieJar:
    """Cookies by domain."""

    def __init__(self, data: bytes = b"") -> None:
        self.ignored = 0
        self.first_ignored = 0
        self._domains: dict[str, list[Cookie]] = {}
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            line = line.removeprefix("#HttpOnly_").lstrip("\ufeff")
            if not line.strip() or line.startswith("#"):
                continue
            if not self._add(line.split("\t")):
                self.ignored += 1
                self.first_ignored = self.first_ignored or number
        for cookies in self._domains.values():
            cookies.sort(key=lambda cookie: -len(cookie.path))

    def _add(self, fields: list[str]) -> bool:
        """Add the cookie on a line; False if the line holds no cookie."""
        if len(fields) == 6:  # an empty value whose tab an editor has stripped
            fields.append("")
        if len(fields) != 7:
            return False
        domain, subdomains, path, secure, expires, name, value = fields
        pair = f"{name}={value}"
        bare = domain.lstrip(".").lower()
        try:
            until = float(expires or 0)
        except ValueError:
            until = -1.0
        if not bare or until < 0 or until != until or not path.startswith("/") or not _is_pair(pair):
            return False
        wide = subdomains.upper() == "TRUE" or domain.startswith(".")
        cookie = Cookie(path, secure.upper() == "TRUE", wide, until, pair)
        self._domains.setdefault(bare, []).append(cookie)
        return True

    def __len__(self) -> int:
        return sum(map(len, self._domains.values()))

    def header(self, host: str, path: str, secure: bool, now: float) -> str:
        """The value of the Cookie header for a request; empty if no cookie goes there."""
        found: list[Cookie] = []
        domain = host.lower().rstrip(".")
        exact = True
        while domain:
            found += [cookie for cookie in self._domains.get(domain, ()) if exact or cookie.subdomains]
            if domain[-1:].isdigit():  # an address has no subdomains
                break
            domain = domain.partition(".")[2]
            exact = False
        return _sent(found, path, secure, now)

    def of(self, domain: str) -> list[Cookie]:
        """The cookies of a domain."""
        return self._domains.get(domain, [])


class HostCookies:
    """The cookies that one host has set."""

    def __init__(self, host: str, data: bytes = b"") -> None:
        """`data`: as `dump` wrote it."""
        self._host = host
        self._cookies: dict[tuple[str, str], Cookie] = {}  # by path and name
        self.changed = False
        """Whether anything has changed since the last `dump`."""
        for cookie in CookieJar(data).of(host):
            self._cookies[cookie.path, cookie.pair.partition("=")[0]] = cookie

    def __len__(self) -> int:
        return len(self._cookies)

    def clear(self) -> None:
        self.changed |= bool(self._cookies)
        self._cookies.clear()

    def take(self, line: str, path: str, secure: bool, now: float) -> None:
        """Process a Set-Cookie line of an answer to a request for `path`; invalid ones are ignored."""
        first, *rest = line.split(";")
        name, equals, value = first.partition("=")
        pair = f"{name.strip()}={value.strip()}"
        given = {}
        for part in rest:
            key, _, text = part.partition("=")
            given[key.strip().lower()] = text.strip()
        if not equals or not _is_pair(pair) or len(line) > _LONGEST:
            return
        domain = given.get("domain", "").lstrip(".").lower()
        if domain and self._host != domain and not self._host.endswith("." + domain):
            return
        if "secure" in given and not secure:
            return
        where = given.get("path", "")
        if not where.startswith("/"):
            where = path.partition("?")[0].rpartition("/")[0] or "/"
        expires = _expiry(given, now)
        key_of = where, name.strip()
        if expires and expires <= now:
            self.changed |= self._cookies.pop(key_of, None) is not None
            return
        cookie = Cookie(where, "secure" in given, False, expires, pair)
        before = self._cookies.pop(key_of, None)
        self._cookies[key_of] = cookie
        same = before is not None and before._replace(expires=expires) == cookie
        if before is None or not same or abs(before.expires - expires) > _SAME_TIME:
            self.changed = True
        if len(self._cookies) > _MOST_COOKIES:
            del self._cookies[next(iter(self._cookies))]

    def header(self, path: str, secure: bool, now: float) -> str:
        """The value of the Cookie header for a request; empty if no cookie goes there."""
        return _sent(list(self._cookies.values()), path, secure, now)

    def dump(self) -> bytes:
        """All of them in Netscape's format."""
        self.changed = False
        rows = [
            "\t".join((self._host, "FALSE", path, str(secure).upper(), f"{expires:.0f}", *pair.split("=", 1)))
            for path, secure, _, expires, pair in self._cookies.values()
        ]
        return "\n".join(["# Netscape HTTP Cookie File", *rows, ""]).encode()


def hidden(head: bytes) -> bytes:
    """The head with the values removed from its Set-Cookie lines."""
    lines = head.split(b"\n")
    for at, line in enumerate(lines):
        name, colon, value = line.partition(b":")
        if colon and name.strip().lower() == b"set-cookie":
            ends = b"\r" if line.endswith(b"\r") else b""
            lines[at] = name + b": " + value.partition(b"=")[0].strip() + b"=..." + ends
    return b"\n".join(lines)


def _expiry(given: dict[str, str], now: float) -> float:
    """When a cookie expires; 0: with the session."""
    age = given.get("max-age", "")
    if age.isascii() and age.removeprefix("-").isdigit():
        seconds = float(age[:12])
        return now + min(seconds, _FOREVER) if seconds > 0 else 1.0
    if "expires" in given:
        try:
            return min(max(parsedate_to_datetime(given["expires"]).timestamp(), 1.0), now + _FOREVER)
        except (TypeError, ValueError, IndexError, OverflowError):
            return 0.0
    return 0.0


def _sent(found: list[Cookie], path: str, secure: bool, now: float) -> str:
    """The Cookie header's value for a request, from the cookies of a host."""
    fit = [
        cookie
        for cookie in found
        if (secure or not cookie.secure)
        and (not cookie.expires or cookie.expires > now)
        and _path_matches(path, cookie.path)
    ]
    fit.sort(key=lambda cookie: -len(cookie.path))
    return "; ".join(cookie.pair for cookie in fit)


def _is_pair(pair: str) -> bool:
    return pair.isascii() and ";" not in pair and not pair.startswith("=") and sendable(pair)


def _path_matches(path: str, prefix: str) -> bool:
    """RFC 6265 §5.1.4; `path` may have a query."""
    path = path.partition("?")[0] or "/"
    if path == prefix:
        return True
    return path.startswith(prefix) and (prefix.endswith("/") or path[len(prefix)] == "/")
