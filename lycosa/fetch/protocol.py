"""The interface between a crawl and its fetchers: one request in, one answer or one failure out.

A `Fetcher` turns a `Request` into a `Response` or a `Failure`. Nothing that a remote side does (or does not
do) raises: an answer of any status is a `Response`, everything else is a `Failure` whose kind says what went
wrong and whose `transient` says whether asking again later may help. Only a closed fetcher and a cancelled
task raise.

The address. A fetcher with `needs_address` is given the address to connect to: the caller resolved the name
and had the address checked by the guard, and the connection goes to that address and to no other, kept
connections included. Redirects are not followed: `Response.location` is a link like any other, and passes
all checks (scope, DNS, guard, robots) again.

The connection. `Response.closed` says that the connection did not outlive the answer. A request with `reuse`
goes over the connection that the answer before it left, or fails as `stale`; no other is opened for it. A fetcher
that keeps connections has `let_go(host)`, which ends those of a host.

Permission to fetch may end while a request waits for its connection (a lease runs out, the process was stopped for
a while). `Request.may_send` is therefore called before a connection is opened, and once more when it is open and
nothing has been sent; if it returns False, nothing is sent, and the failure is `late`.

Whose fault. `FailureKind.LOCAL` is this machine's: it lacks descriptors, memory or ports. It says nothing about
the site.

The bytes. `Response.body` is what the site sent with the transfer coding undone (chunks joined, frames
stripped) and the content coding kept, because the archive keeps what was sent; `decoded` is what parsers
read. `head` is the status line and the header block as received, up to and with the empty line; a head of
HTTP/2, which has no such text, is written in HTTP/1 form with `HTTP/2` in its status line. A head that says
`Transfer-Encoding: chunked` therefore comes with a body that is not chunked: an archive must correct that.

    truncated   ""            the body is whole
                "length"      cut at our limit on the body
                "time"        cut at our limit on time (total or lowest speed)
                "disconnect"  the site ended it before it was whole
    problem     ""            `decoded` is the whole body, decoded
                "capped"      decoding was stopped at the limit on decoded bytes
                "cut"         the coded stream ended before its end
                "corrupt"     the coded stream is broken; `decoded` is what came before
                "mislabelled" the body is not in the coding its head names: taken as it is
                "unknown"     a coding we do not know: taken as it is
                "stacked"     more codings than we undo: taken as it is
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

import msgspec

from lycosa.records import Timing
from lycosa.version import VERSION


class Kind(StrEnum):
    """What is asked for; robots files have limits of their own."""

    PAGE = "page"
    ROBOTS = "robots"


class Request(msgspec.Struct, frozen=True, gc=False):
    """One question to one site.

    `address` is the checked address to connect to ("" for fetchers that need none). `headers` are sent
    besides those of the options; `etag` and `modified` make the request conditional. `reuse`: only over the
    connection that the site's last answer left open. `may_send`: see the module. `cookie` is a session's, sent
    besides the operator's, and not shown in `Response.request_head`. `body`: a form's, to be posted; None: GET.
    """

    url: str
    address: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    kind: Kind = Kind.PAGE
    etag: str = ""
    modified: str = ""
    reuse: bool = False
    may_send: Callable[[], bool] | None = None
    cookie: str = ""
    body: bytes | None = None


class Response(msgspec.Struct, frozen=True, gc=False):
    """An answer of the site, whatever its status. See the module's docstring for the fields' meaning."""

    url: str
    status: int
    version: str
    request_head: bytes
    head: bytes
    body: bytes
    decoded: bytes
    timing: Timing
    address: str = ""
    truncated: str = ""
    problem: str = ""
    location: str | None = None  # of a 3xx, as sent
    retry_after: float | None = None  # seconds from now; never negative
    closed: bool = False  # the connection is gone: what is asked next needs another

    def header(self, name: str) -> str | None:
        """The value of the first header of that name, in any case; None if there is none."""
        return find_header(self.head, name)

    def headers(self, name: str) -> list[str]:
        """The values of all headers of that name, in order."""
        return find_headers(self.head, name)


class FailureKind(StrEnum):
    """Why there is no answer."""

    TIMEOUT = "timeout"  # no connection, first byte or complete head in time
    CONNECT = "connect"  # the address or the network refused the connection
    TLS = "tls"  # the handshake failed, or the certificate is not valid
    EMPTY = "empty"  # the connection closed without an answer
    DISCONNECT = "disconnect"  # ... or in the middle of the head
    STALE = "stale"  # a kept connection turned out to have ended: asking again opens a new one
    PROTOCOL = "protocol"  # what came is not HTTP
    HEADER_TOO_LARGE = "header-too-large"
    REFUSED_ADDRESS = "refused-address"  # the guard forbids it, or it is not the one that was checked
    PROXY = "proxy"
    REQUEST = "request"  # a URL or header that cannot be sent
    UNSUPPORTED = "unsupported"  # no such scheme here
    LATE = "late"  # it might not be sent any more (`Request.may_send`)
    LOCAL = "local"  # this machine's fault: no descriptors, memory or ports


class Failure(msgspec.Struct, frozen=True, gc=False):
    """No answer. `transient`: asking again later may help."""

    kind: FailureKind
    detail: str
    timing: Timing = Timing()
    transient: bool = True


class Fetcher(Protocol):
    """Fetches the URLs of some schemes; the module's docstring is its contract."""

    @property
    def needs_address(self) -> bool:
        """Whether a request must carry a checked address (not through a proxy, not for files)."""
        ...

    async def fetch(self, request: Request) -> Response | Failure:
        """Fetch. Cancelling the task ends the transfer and frees what it held."""
        ...

    async def close(self) -> None:
        """End every transfer and connection."""
        ...


class FetchOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to fetch. Times in seconds, sizes in bytes; 0 means no limit only where said."""

    user_agent: str = f"lycosa/{VERSION}"
    accept: str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    accept_language: str = ""  # "": not sent
    headers: tuple[str, ...] = ()  # "Name: value" lines, sent to every site
    cookies: tuple[str, ...] = ()  # "name=value", sent to every site
    cookie_file: str = ""  # in Netscape's format; sent where domain and path match
    auth: dict[
        str, str
    ] = {}  # host or host:port (https), or http://host -> "user:password" (HTTP Basic), or a secret's place
    proxy: str = (
        ""  # http://, https://, socks5h:// ..., or several with spaces; its end does the name lookups
    )
    http2: bool = True
    verify_tls: bool = True
    ca_file: str = ""  # "": the system's
    connections: int = 1000  # transfers at a time, and connections kept
    connect_timeout: float = 20.0
    first_byte_timeout: float = 30.0
    total_timeout: float = 120.0
    slow_bytes: int = 32  # a transfer slower than this (bytes per second) ...
    slow_time: float = 30.0  # ... for this long is ended; 0: never
    max_header_bytes: int = 64 * 1024
    max_body_bytes: int = 16 * 1024 * 1024
    max_decoded_bytes: int = 32 * 1024 * 1024
    max_robots_bytes: int = 500 * 1024  # body and decoded body of a robots file (RFC 9309 §2.5)
    bandwidth: int = 0  # bytes per second for the whole agent; 0: no limit
    file_root: str = ""  # `file:` URLs are served from below this directory only; "": any


def find_headers(head: bytes, name: str) -> list[str]:
    """All values of a header in a raw head: any case, outer white space dropped, Latin-1."""
    found: list[str] = []
    lowered, sought = _lowered(head), _sought(name)
    at = lowered.find(sought)
    while at >= 0:
        start = at + len(sought)
        end = head.find(b"\n", start)
        if end < 0:
            end = len(head)
        found.append(head[start:end].decode("latin-1").strip(" \t\r\n"))
        at = lowered.find(sought, end)
    return found


def find_header(head: bytes, name: str) -> str | None:
    """The first value of a header in a raw head."""
    sought = _sought(name)
    at = _lowered(head).find(sought)
    if at < 0:
        return None
    start = at + len(sought)
    end = head.find(b"\n", start)
    return head[start : end if end >= 0 else None].decode("latin-1").strip(" \t\r\n")


@lru_cache(4)
def _lowered(head: bytes) -> bytes:
    """The head in lower case, cached: some eight headers are looked up per page, one after the other."""
    return head.lower()


@lru_cache(256)
def _sought(name: str) -> bytes:
    return b"\n" + name.lower().encode("latin-1", "replace") + b":"
