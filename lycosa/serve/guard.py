"""Access control: every request is judged here, before anything else sees it. No I/O.

The token is made at start and is in the printed link. It is taken from, in this order:

    Authorization: Bearer TOKEN     programs
    the cookie                      browsers, once they have entered
    ?token=TOKEN                    the printed link, on GET: answered by a page that sets the cookie and goes
                                    on to the same address without the token, so that it stays in no history

A request must name a host that we serve (`Host`), or it is refused: a malicious page whose name was made to resolve
to us ("DNS rebinding") names another one. A request that changes something must come from one of our pages: by its
`Origin` (or `Sec-Fetch-Site`), and it must have the token of the cookie or the header; a form must also have
a word of its own (`csrf`). Tokens are compared in constant time.

The headers of every answer forbid what our pages do not need: scripts and styles of others, being framed,
forms to other sites, referrers. An archived page, which may hold anything, is answered with a policy that
puts it into an origin of its own and lets it run nothing and load nothing.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from enum import Enum, auto
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

_LONGEST_COOKIE = 2048
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
OURS = {
    **_ALWAYS,
    # With no-referrer a browser would send "Origin: null" with our own forms, too.
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
}
"""Headers of our own pages."""
LATER = {**OURS, "Retry-After": "1"}
"""Headers of an answer that is still being made."""
ARCHIVED = {
    **_ALWAYS,
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:;"
    " font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
}
"""Headers of an archived page."""


class Verdict(Enum):
    """How to handle a request."""

    PASS = auto()
    ENTER = auto()  # the token was in the address: set the cookie, and go on without it
    ASK = auto()  # no token, or a wrong one
    ELSEWHERE = auto()  # it names another host
    FOREIGN = auto()  # it would change something and does not come from one of our pages


class Asked(NamedTuple):
    """The parts of a request that are judged."""

    method: str
    query: str
    headers: Mapping[str, str]  # names in lower case


def new_token() -> str:
    """A token that cannot be guessed: 192 bits."""
    return secrets.token_urlsafe(24)


class Guard:
    """Knows the token and the names of this server."""

    def __init__(self, token: str, authorities: frozenset[str], cookie: str = "lycosa") -> None:
        """`authorities`: allowed values of `Host`, including ports, in lower case; empty: any."""
        self._token = token.encode()
        self._authorities = authorities
        self.cookie = cookie

    @property
    def csrf(self) -> str:
        """The word in our forms: only those who see our pages know it."""
        return hmac.new(self._token, b"forms of ours", "sha256").hexdigest()[:32]

    def is_csrf(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.csrf.encode())

    def judge(self, asked: Asked) -> Verdict:
        """Whether a request passes."""
        host = asked.headers.get("host", "").lower()
        if self._authorities and host not in self._authorities:
            return Verdict.ELSEWHERE
        if asked.method not in SAFE and not self._is_ours(asked, host):
            return Verdict.FOREIGN
        if self._has_token(asked.headers):
            return Verdict.PASS
        if asked.method == "GET" and any(
            name == "token" and self._is_token(value) for name, value in parse_qsl(asked.query)
        ):
            return Verdict.ENTER
        return Verdict.ASK

    def _has_token(self, headers: Mapping[str, str]) -> bool:
        kind, _, value = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._is_token(value.strip())
        # Only our cookie, and not if it is long: SimpleCookie takes quadratic time.
        rows = (part.strip() for part in headers.get("cookie", "").split(";"))
        mine = next((row for row in rows if row.startswith(f"{self.cookie}=")), "")
        try:
            crumb = SimpleCookie(mine[:_LONGEST_COOKIE]).get(self.cookie)
        except CookieError:
            return False
        return crumb is not None and self._is_token(crumb.value)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), self._token)

    def _is_ours(self, asked: Asked, host: str) -> bool:
        if asked.headers.get("authorization"):
            return True  # no browser adds it by itself
        if (origin := asked.headers.get("origin")) is not None:
            try:
                return urlsplit(origin).netloc.lower() == host
            except ValueError:
                return False
        return asked.headers.get("sec-fetch-site") == "same-origin"


def without_token(path: str, query: str) -> str:
    """The address to go on to: the same without the token. It always stays on this host."""
    kept = "&".join(part for part in query.split("&") if part and part.partition("=")[0] != "token")
    return "/" + path.lstrip("/\\") + (f"?{kept}" if kept else "")
