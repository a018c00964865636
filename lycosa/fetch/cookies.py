"""Cookies that the operator hands to the crawl, from a file in Netscape's format.

    file    = *line
    line    = domain TAB subdomains TAB path TAB secure TAB expires TAB name TAB value
            | "#HttpOnly_" line      as curl and browsers write it; no difference for a crawler
            | "#" anything | empty

`subdomains` and `secure` are TRUE or FALSE, `expires` is in seconds since the epoch, 0 for never. A domain
that starts with a dot means its subdomains too. A cookie is sent where RFC 6265 §5.4 would send it: domain
and path match, secure ones over https only, expired ones nowhere; longer paths first. Lines that are none of
the above, or whose name or value could not stand in a header, are counted in `ignored` and left out; the number
of the first of them is `first_ignored`.

A crawl never keeps what sites set: each page is fetched as by a first-time visitor with these cookies.
"""

from __future__ import annotations

from typing import NamedTuple

from lycosa.fetch.head import sendable


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
        """Take the cookie of a line; False if it is none."""
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
            found += [
                cookie
                for cookie in self._domains.get(domain, ())
                if (exact or cookie.subdomains)
                and (secure or not cookie.secure)
                and (not cookie.expires or cookie.expires > now)
                and _path_matches(path, cookie.path)
            ]
            if domain[-1:].isdigit():  # an address has no subdomains
                break
            domain = domain.partition(".")[2]
            exact = False
        found.sort(key=lambda cookie: -len(cookie.path))
        return "; ".join(cookie.pair for cookie in found)


def _is_pair(pair: str) -> bool:
    return pair.isascii() and ";" not in pair and not pair.startswith("=") and sendable(pair)


def _path_matches(path: str, prefix: str) -> bool:
    """RFC 6265 §5.1.4; `path` may have a query."""
    path = path.partition("?")[0] or "/"
    if path == prefix:
        return True
    return path.startswith(prefix) and (prefix.endswith("/") or path[len(prefix)] == "/")
