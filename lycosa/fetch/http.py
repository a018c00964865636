"""`http:` and `https:` by libcurl: requests composed, answers judged.

A `Request` becomes a transfer of `lycosa.fetch.curl`; its outcome is judged by one rule: *a complete head is an
answer*. If the transfer ends early after the head (our limits, the site, the network), the result is a `Response`
with what was received and the reason in `truncated`; if before, a `Failure`. Content codings are undone by
`lycosa.fetch.decode`, small bodies at once, large ones in a thread.

Deliberate differences from a browser: no redirects, no cookies but those of the request and the operator's, no
cache, no HTTP/0.9, no HTTP/3 or Alt-Svc (both would leave the checked address), no credentials in the Host line:
`user:password@` in a URL is sent as Basic authentication.

Certificates are read once: libcurl keeps the parsed store for all transfers of a multi handle for a day, and
TLS sessions are resumed from the cache of the same handle.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from zlib import crc32

import pycurl

from lycosa.clock import Clock
from lycosa.errors import ConfigError
from lycosa.fetch import head as heads
from lycosa.fetch import secrets
from lycosa.fetch.cookies import CookieJar
from lycosa.fetch.curl import Outcome, Transfer, Transfers
from lycosa.fetch.decode import Decoding
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.poller import Poller, best_poller
from lycosa.fetch.protocol import (
    Failure,
    FailureKind,
    FetchOptions,
    Kind,
    Request,
    Response,
    find_header,
)
from lycosa.fetch.throttle import Throttle
from lycosa.meters import Meters
from lycosa.url.canonical import canonicalise
from lycosa.url.parts import host_of, site_of

_DECODERS = 2  # threads for large bodies
_SUPPRESS_CONNECT_HEADERS = 265  # libcurl's number; pycurl has no name for it
_INLINE = 1 << 20  # up to so many bytes are decoded on the event loop: some 2 ms

# Where systems keep their certificates, when Python's own ssl does not say.
_CA_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/opt/homebrew/etc/ca-certificates/cert.pem",
    "/usr/local/etc/openssl/cert.pem",
)

# libcurl's codes: kind, transient, and our words where its own would not help a reader.
_KINDS: dict[int, tuple[FailureKind, bool]] = {
    1: (FailureKind.PROTOCOL, False),  # HTTP/0.9 among them
    3: (FailureKind.REQUEST, False),
    5: (FailureKind.PROXY, True),
    6: (FailureKind.CONNECT, True),
    7: (FailureKind.CONNECT, True),
    8: (FailureKind.PROTOCOL, False),
    16: (FailureKind.PROTOCOL, True),
    18: (FailureKind.DISCONNECT, True),
    27: (FailureKind.LOCAL, True),
    28: (FailureKind.TIMEOUT, True),
    35: (FailureKind.TLS, True),
    43: (FailureKind.REQUEST, False),
    52: (FailureKind.EMPTY, True),
    53: (FailureKind.TLS, False),
    54: (FailureKind.TLS, False),
    55: (FailureKind.DISCONNECT, True),
    56: (FailureKind.DISCONNECT, True),
    58: (FailureKind.TLS, False),
    59: (FailureKind.TLS, False),
    60: (FailureKind.TLS, False),
    61: (FailureKind.PROTOCOL, False),
    66: (FailureKind.TLS, False),
    77: (FailureKind.LOCAL, False),
    80: (FailureKind.TLS, True),
    83: (FailureKind.TLS, False),
    90: (FailureKind.TLS, False),
    91: (FailureKind.TLS, False),
    92: (FailureKind.PROTOCOL, True),
    97: (FailureKind.PROXY, True),
    98: (FailureKind.TLS, False),
    100: (FailureKind.HEADER_TOO_LARGE, False),
}


def ca_bundle() -> str:
    """The system's certificate file; the one that libcurl was built to look for may not be there."""
    paths = ssl.get_default_verify_paths()
    for path in (paths.cafile, paths.openssl_cafile, *_CA_FILES):
        if path and Path(path).is_file():
            return path
    return ""


class HttpFetcher:
    """Fetches http and https URLs; a `Fetcher`."""

    def __init__(
        self,
        options: FetchOptions,
        clock: Clock,
        meters: Meters,
        guard: AddressGuard | None = None,
        poller: Callable[[], Poller] = best_poller,
    ) -> None:
        self._options = options
        self._clock = clock
        self._common = heads.common_lines(
            options.user_agent, options.accept, options.accept_language, options.headers
        )
        self._common_text = heads.as_text(self._common)
        self._common_curl = self._for_curl(self._common)
        self._proxies = options.proxy.split()
        self._pairs = _cookie_pairs(options.cookies)
        self._jar = _cookie_jar(options.cookie_file)
        self._auth = {}
        self._secret: set[str] = set()
        """Values of headers that are not shown in `Response.request_head`."""
        for where, pair in options.auth.items():
            self._auth[password_site(where)] = line = heads.basic(secrets.revealed(pair, where))
            if secrets.is_place(pair):
                self._secret.add(line)
        self._same_for_all = not (self._pairs or self._auth or len(self._jar))
        self._throttle = Throttle(options.bandwidth, clock) if options.bandwidth > 0 else None
        spend = self._throttle.spend if self._throttle is not None else None
        curl_options = _curl_options(options)

        def make() -> Transfer:
            return Transfer(options.max_header_bytes, guard, bool(options.proxy), spend, curl_options)

        make().curl.close()  # report an option that libcurl refuses now, not at the first request
        self._transfers = Transfers(make, options.connections, options.first_byte_timeout, poller)
        self._requests = meters.counter("http.requests")
        self._bytes = meters.counter("http.bytes")
        self._failures = meters.counter("http.failures")
        meters.gauge("http.in_flight", lambda: self._transfers.in_flight)
        meters.gauge("http.connections", lambda: self._transfers.opened)
        # Threads of its own: bodies that take long to decode must not keep commits waiting.
        self._decoders = ThreadPoolExecutor(_DECODERS, "decoder")

    @property
    def needs_address(self) -> bool:
        return not self._options.proxy

    async def fetch(self, request: Request) -> Response | Failure:
        target = heads.split(request.url)
        if target is None:
            return Failure(
                FailureKind.REQUEST,
                f"not an http URL that can be sent: {request.url[:200]!r}",
                transient=False,
            )
        if not request.address and not self._options.proxy:
            return Failure(FailureKind.REFUSED_ADDRESS, "no checked address was given", transient=False)
        if (
            self._same_for_all
            and not request.headers
            and not request.cookie
            and not request.etag
            and not request.modified
            and not target.credentials
        ):
            text, lines = self._common_text, self._common_curl
        else:
            chosen = self._lines(request, target)
            if isinstance(chosen, Failure):
                return chosen
            text, lines = heads.as_text(self._shown(request, chosen)), self._for_curl(chosen)
        robots = request.kind is Kind.ROBOTS
        limit = self._options.max_robots_bytes if robots else self._options.max_body_bytes
        address = request.address if not self._options.proxy else ""

        proxy = self._proxy_of(target.host) if len(self._proxies) > 1 else ""
        if self._throttle is not None:
            await self._throttle.admit()
        self._requests.value += 1
        ask = (target.url, target.path, address, lines, limit)
        how = (request.reuse, request.may_send, request.body, proxy)
        try:
            outcome = await self._transfers.run(*ask, *how)
            if (
                outcome.stopped == "stale"
                and not request.reuse
                and self._transfers.was_ended(host_of(target.url))
            ):
                # Nothing was sent, and now libcurl has forgotten it.
                outcome = await self._transfers.run(*ask, *how)
        except MemoryError as error:
            self._failures.add()
            return Failure(FailureKind.LOCAL, f"out of memory: {error}")
        except pycurl.error as error:
            self._failures.add()
            if error.args[0] == pycurl.E_OUT_OF_MEMORY:
                return Failure(FailureKind.LOCAL, f"out of memory: {error}")
            return Failure(FailureKind.REQUEST, f"libcurl refuses the request: {error}", transient=False)
        self._bytes.value += outcome.size
        if outcome.stopped or not outcome.status:
            failure = self._failure(outcome)
            if failure is not None:
                self._failures.add()
                return failure
        return await self._response(request, target, text, outcome, limit, robots)

    def let_go(self, host: str) -> None:
        """End the connections that are kept for a host."""
        self._transfers.let_go(host)

    async def close(self) -> None:
        self._transfers.close()
        self._decoders.shutdown(wait=False, cancel_futures=True)

    # The request.

    def _proxy_of(self, host: str) -> str:
        """The proxy for a host: if there are several, always the same one."""
        return self._proxies[crc32(_without_port(host).lower().encode()) % len(self._proxies)]

    def _for_curl(self, lines: list[tuple[str, str]]) -> list[bytes]:
        prepared = heads.as_curl(lines)
        if not any(name.lower() == "accept" for name, _ in lines):
            prepared.append(b"Accept:")  # libcurl adds its own unless told not to
        return prepared

    def _lines(self, request: Request, target: heads.Target) -> list[tuple[str, str]] | Failure:
        """The lines of a request that differs from the common one."""
        lines = list(self._common)
        if target.credentials:
            lines.append(("Authorization", heads.basic(unquote(target.credentials))))
        elif self._auth:
            found = self._auth.get(f"{target.scheme}://{target.host.lower()}")
            if found:
                lines.append(("Authorization", found))
        cookies = [*self._pairs]
        if len(self._jar):
            secure = target.scheme == "https"
            mine = self._jar.header(_without_port(target.host), target.path, secure, self._clock.wall())
            if mine:
                cookies.append(mine)
        if request.cookie:
            cookies.append(request.cookie)
        if cookies:
            lines.append(("Cookie", "; ".join(cookies)))
        if request.etag and heads.sendable(request.etag):
            lines.append(("If-None-Match", request.etag))
        if request.modified and heads.sendable(request.modified):
            lines.append(("If-Modified-Since", request.modified))
        for name, value in request.headers:
            if not heads.valid_line(name, value):
                return Failure(FailureKind.REQUEST, f"header {name[:80]!r} cannot be sent", transient=False)
            lines.append((name, value))
        return lines

    def _shown(self, request: Request, lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The lines with secrets masked, for the archive."""
        if not request.cookie and not self._secret:
            return lines
        hidden = "cookie" if request.cookie else ""
        return [
            (name, "..." if name.lower() == hidden or value in self._secret else value)
            for name, value in lines
        ]

    # The answer.

    def _failure(self, outcome: Outcome) -> Failure | None:
        """Why the outcome is no answer; None if it is one."""
        stopped, code, timing = outcome.stopped, outcome.code, outcome.timing
        if stopped == "address":
            return Failure(FailureKind.REFUSED_ADDRESS, outcome.message, timing, transient=False)
        if stopped == "shortage":
            return Failure(FailureKind.LOCAL, outcome.message, timing)
        if stopped == "stale":
            return Failure(FailureKind.STALE, "the kept connection had ended", timing)
        if stopped == "late":
            return Failure(FailureKind.LATE, "the right to ask ended before the request was sent", timing)
        if stopped == "closed":
            return Failure(FailureKind.LOCAL, "the fetcher was closed", timing)
        if stopped == "head":
            detail = f"head larger than {self._options.max_header_bytes} bytes"
            return Failure(FailureKind.HEADER_TOO_LARGE, detail, timing, transient=False)
        if stopped == "first-byte":
            detail = f"no first byte within {self._options.first_byte_timeout:g} s"
            return Failure(FailureKind.TIMEOUT, detail, timing)
        if outcome.status:
            return None
        if code == 0:
            return Failure(FailureKind.PROTOCOL, "an answer without a complete head", timing)
        kind, transient = _KINDS.get(code, (FailureKind.PROTOCOL, True))
        if self._options.proxy and kind in (FailureKind.CONNECT, FailureKind.DISCONNECT):
            kind = FailureKind.PROXY
        return Failure(kind, _one_line(outcome.message) or f"libcurl error {code}", timing, transient)

    async def _response(
        self,
        request: Request,
        target: heads.Target,
        text: str,
        outcome: Outcome,
        limit: int,
        robots: bool,
    ) -> Response:
        head, status = outcome.head, outcome.status
        if not head.endswith(b"\r\n\r\n"):
            head = b"".join(line.rstrip(b"\r") + b"\r\n" for line in head.removesuffix(b"\n").split(b"\n"))
        version = sent = "HTTP/1.1"
        if not head.startswith(b"HTTP/1.1 "):
            version = head.split(None, 1)[0].decode("latin-1")
            sent = "HTTP/1.1" if version.startswith("HTTP/1") else version
        body = b"".join(outcome.parts)
        truncated = ""
        if outcome.stopped == "body":
            body, truncated = body[:limit], "length"
        elif outcome.code == 28:
            truncated = "time"
        elif outcome.code != 0 and not _ends_by_closing(outcome, head):
            truncated = "disconnect"
        encoding = find_header(head, "content-encoding") if body else None
        most = limit if robots else self._options.max_decoded_bytes
        decoded, problem = body, ""
        if encoding or len(body) > most:
            decoding = Decoding(body, encoding or "", most)
            if not decoding.advance(_INLINE):
                await asyncio.get_running_loop().run_in_executor(self._decoders, decoding.advance, 1 << 62)
            decoded, problem = decoding.data, decoding.problem
        location = retry_after = None
        if status >= 300:
            location = find_header(head, "location") if status < 400 else None
            retry_after = heads.retry_after(find_header(head, "retry-after"), self._clock.wall())
        method = "GET" if request.body is None else "POST"
        return Response(
            url=request.url,
            status=status,
            version=version,
            request_head=f"{method} {target.path} {sent}\r\nHost: {target.host}\r\n{text}\r\n".encode(
                "latin-1"
            ),
            head=head,
            body=body,
            decoded=decoded,
            timing=outcome.timing,
            address=outcome.address,
            truncated=truncated,
            problem=problem,
            location=location,
            retry_after=retry_after,
            closed=not outcome.kept,
        )


def _ends_by_closing(outcome: Outcome, head: bytes) -> bool:
    """Whether a body without a length ended with the connection, though without TLS's close_notify.

    Many servers leave close_notify out; every browser takes such a body as complete.
    """
    return (
        outcome.code == 56
        and "unexpected eof" in outcome.message
        and find_header(head, "content-length") is None
        and find_header(head, "transfer-encoding") is None
    )


def _one_line(message: str) -> str:
    return " ".join(message.split())[:300]


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def password_site(text: str) -> str:
    """The site that a password is for: `host` and `host:port` mean https; plain http needs `http://host`."""
    scheme, mark, authority = text.strip().rpartition("://")
    url = canonicalise(f"{scheme.lower() if mark else 'https'}://{authority}/")
    if url is None or not url.startswith(("http://", "https://")) or set(authority) & set("/?#@\\"):
        raise ConfigError(
            f"{text!r} is not a site that a password is for: write host or host:port (over https),"
            " or http://host to send it in the clear"
        )
    return site_of(url)


def _cookie_pairs(given: tuple[str, ...]) -> list[str]:
    for pair in given:
        name, equals, _ = pair.partition("=")
        if not name or not equals or not heads.sendable(pair) or not pair.isascii():
            raise ConfigError(f"{pair!r} is not a cookie: write it as name=value")
    return list(given)


def _cookie_jar(path: str) -> CookieJar:
    if not path:
        return CookieJar()
    try:
        jar = CookieJar(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read the cookie file {path}: {error.strerror}") from None
    if not len(jar):
        what = (
            f"line {jar.first_ignored} of {path} is not a cookie" if jar.ignored else f"{path} has no cookie"
        )
        raise ConfigError(
            f"{what}: in Netscape's format a line is domain, TRUE or FALSE for its subdomains, path, TRUE or FALSE"
            " for https only, time of expiry or 0, name and value, with tabs between"
        )
    return jar


def _curl_options(options: FetchOptions) -> list[tuple[int, Any]]:
    """The options that are set once on every handle."""
    chosen: list[tuple[int, Any]] = [
        (pycurl.NOSIGNAL, 1),
        (
            pycurl.HTTP_VERSION,
            pycurl.CURL_HTTP_VERSION_2TLS if options.http2 else pycurl.CURL_HTTP_VERSION_1_1,
        ),
        (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
        (pycurl.FOLLOWLOCATION, 0),
        (pycurl.HTTP09_ALLOWED, 0),
        (pycurl.HTTP_CONTENT_DECODING, 0),
        (pycurl.PATH_AS_IS, 1),
        (_SUPPRESS_CONNECT_HEADERS, 1),  # a proxy's own answer is not the site's
        (pycurl.BUFFERSIZE, 64 * 1024),
        (pycurl.CONNECTTIMEOUT_MS, max(1, int(options.connect_timeout * 1000))),
        (pycurl.TIMEOUT_MS, max(1, int(options.total_timeout * 1000))),
        # Set even when empty, or libcurl takes a proxy from the environment.
        (pycurl.PROXY, next(iter(options.proxy.split()), "")),
    ]
    if options.slow_bytes > 0 and options.slow_time > 0:
        chosen += [
            (pycurl.LOW_SPEED_LIMIT, options.slow_bytes),
            (pycurl.LOW_SPEED_TIME, max(1, round(options.slow_time))),
        ]
    if options.bandwidth > 0:
        chosen.append((pycurl.MAX_RECV_SPEED_LARGE, options.bandwidth))
    if options.verify_tls:
        bundle = options.ca_file or ca_bundle()
        if options.ca_file and not Path(options.ca_file).is_file():
            raise ConfigError(f"no certificate file {options.ca_file}: check ca_file")
        if bundle:
            chosen += [(pycurl.CAINFO, bundle), (pycurl.PROXY_CAINFO, bundle)]
    else:
        chosen += [
            (pycurl.SSL_VERIFYPEER, 0),
            (pycurl.SSL_VERIFYHOST, 0),
            (pycurl.PROXY_SSL_VERIFYPEER, 0),
            (pycurl.PROXY_SSL_VERIFYHOST, 0),
        ]
    return chosen
