"""`lycosa fetch URL`: one URL through every step that a crawl takes, each shown with its time.

    url     the canonical form
    dns     the host's addresses
    guard   may that address be asked?
    robots  the site's robots.txt, and the rule that decides
    http    the fetch itself

The first step that fails ends it, with one line on standard error; `--no-robots` shows the rules but ignores them.
Steps go to standard output, or to standard error if `--body` or `--head` puts the answer there.

Whatever a site sent is printed with its control characters replaced: a terminal obeys some of them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from lycosa.ask.json_form import safe
from lycosa.cli.streams import printable, write_found
from lycosa.clock import SystemClock, milliseconds
from lycosa.errors import ConfigError
from lycosa.fetch.dns import DnsFailure, DnsKind, DnsOptions, Resolver
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.protocol import Failure, FailureKind, Fetcher, FetchOptions, Kind, Request, Response
from lycosa.fetch.registry import FetchContext, Fetchers, make_resolver
from lycosa.fetch.robots import RobotsRules
from lycosa.fetch.robots_policy import Act, Outcome, decide, outcome_of
from lycosa.meters import Meters
from lycosa.url.canonical import canonicalise
from lycosa.url.parts import host_of, site_of

HELP = "fetch one URL and show every step: DNS, guard, robots, HTTP"
EPILOG = """\
examples:
  lycosa fetch https://example.org/
  lycosa fetch --body https://example.org/ > page.html
  lycosa fetch --json https://example.org/ | jq .response.status
  lycosa fetch --resolve site.test:127.0.0.1 --allow private http://site.test:8000/

exit code: 0 answered (whatever the status), 1 robots or the address guard says no, 2 usage,
4 the name, the site or the network failed, 5 this machine did."""

_REFUSED, _REMOTE, _LOCAL = 1, 4, 5
_CODES = {FailureKind.LOCAL: _LOCAL, FailureKind.REFUSED_ADDRESS: _REFUSED}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--body", action="store_true", help="write the body, decoded, to standard output")
    output.add_argument("--head", action="store_true", help="write the head, as sent, to standard output")
    output.add_argument("--json", action="store_true", help="all of it as one JSON object")
    parser.add_argument(
        "--user-agent", default=FetchOptions().user_agent, help="User-Agent to send (default: %(default)s)"
    )
    parser.add_argument("--no-robots", action="store_true", help="fetch even if robots.txt forbids it")
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="NETWORK",
        help="permit a private network; the word private: loopback and all private networks",
    )
    parser.add_argument(
        "--allow-private", action="append_const", dest="allow", const="private", help=argparse.SUPPRESS
    )
    parser.add_argument(
        "--only-network",
        action="append",
        default=[],
        metavar="NETWORK",
        help="connect to no address outside of it",
    )
    parser.add_argument(
        "--resolve",
        action="append",
        default=[],
        metavar="HOST:ADDRESS",
        help="use this address for a host (or *.DOMAIN) instead of DNS; may be repeated",
    )
    parser.add_argument("--nameserver", action="append", default=[], metavar="ADDRESS[:PORT]")
    parser.add_argument("-H", "--header", action="append", default=[], metavar="'NAME: VALUE'")
    parser.add_argument("--proxy", default="", metavar="URL")
    parser.add_argument("--insecure", action="store_true", help="do not verify TLS certificates")
    parser.add_argument("--http1", action="store_true", help="do not offer HTTP/2")
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="time limit per fetch (60)"
    )


def run(args: argparse.Namespace) -> int:
    if args.timeout <= 0:
        raise ConfigError("--timeout must be above zero")
    return asyncio.run(_walk(args))


async def _walk(args: argparse.Namespace) -> int:
    options = FetchOptions(
        user_agent=args.user_agent,
        headers=tuple(args.header),
        proxy=args.proxy,
        verify_tls=not args.insecure,
        http2=not args.http1,
        total_timeout=args.timeout,
        first_byte_timeout=args.timeout,
        connect_timeout=min(args.timeout, FetchOptions().connect_timeout),
    )
    clock, meters = SystemClock(), Meters()
    guard = AddressGuard(args.allow, args.only_network)
    # Somebody is waiting at the screen: fewer attempts than a crawl would make.
    names = DnsOptions(
        nameservers=tuple(args.nameserver), attempts=3, last_wait=8.0, resolve=tuple(args.resolve)
    )
    resolver = make_resolver(names, guard, clock, meters)
    fetchers = Fetchers(FetchContext(options, clock, meters, guard))
    walk = Walk(args, resolver, guard, fetchers)
    try:
        code = await walk.run(args.url)
    finally:
        await fetchers.close()
        await resolver.close()
    walk.finish()
    return code


class Walk:
    """The steps of one fetch, shown as they are taken."""

    def __init__(
        self, args: argparse.Namespace, resolver: Resolver, guard: AddressGuard, fetchers: Fetchers
    ) -> None:
        self._args = args
        self._resolver = resolver
        self._guard = guard
        self._fetchers = fetchers
        self._quiet = bool(args.json)
        self._console = Console(stderr=args.body or args.head, highlight=False, soft_wrap=True)
        self._seen: dict[str, Any] = {"url": args.url, "steps": []}
        self._at = time.perf_counter()

    async def run(self, given: str) -> int:
        url = canonicalise(given)
        if url is None and "://" not in given:
            url = canonicalise("http://" + given)
        if url is None:
            raise ConfigError(f"{given!r} is not a URL: write it like https://example.org/path")
        self._seen["url"] = url
        self._step("url", True, url)
        fetcher = self._fetcher(url)
        self._at = time.perf_counter()  # making a fetcher (certificates, libraries) counts for no step
        if fetcher is None:
            scheme = url.partition(":")[0]
            known = ", ".join(self._fetchers.schemes)
            raise ConfigError(f"no fetcher for {scheme!r} URLs; there are fetchers for {known}")
        address = await self._address(url, fetcher)
        if isinstance(address, int):
            return address
        if url.startswith(("http://", "https://")):
            code = await self._robots(url, fetcher, address)
            if code:
                return code
        return await self._fetch(url, fetcher, address)

    def _fetcher(self, url: str) -> Fetcher | None:
        return self._fetchers.of(url)

    async def _address(self, url: str, fetcher: Fetcher, whose: str = "") -> str | int:
        """The checked address of the URL's host, or the exit code."""
        if not fetcher.needs_address:
            why = "left to the proxy" if self._args.proxy else "not needed"
            self._step("dns", True, why, address="")
            return ""
        found = await self._resolver.resolve(host_of(url))
        if isinstance(found, DnsFailure):
            self._step("dns", False, f"{whose}{host_of(url)}: {found.kind.value}: {found.detail}")
            return _LOCAL if found.kind is DnsKind.LOCAL else _REMOTE
        self._step("dns", True, whose + ", ".join(found.addresses), addresses=list(found.addresses))
        refusals = []
        for address in found.addresses:
            why_not = self._guard.refuses(address)
            if why_not is None:
                self._step("guard", True, f"{whose}{address} may be asked", address=address)
                return address
            refusals.append(why_not)
        outside = any(map(self._guard.outside, found.addresses))
        hint = (
            ""
            if outside or "private" in self._args.allow
            else " (--allow private lets private addresses pass)"
        )
        self._step("guard", False, whose + "; ".join(refusals) + hint)
        return _REFUSED

    async def _robots(self, url: str, fetcher: Fetcher, address: str) -> int:
        """Check the site's robots.txt; the exit code if it ends the walk, else 0."""
        looks_only = bool(self._args.no_robots)
        where, hops = site_of(url) + "/robots.txt", 0
        at: Fetcher | None = fetcher
        while True:
            if at is None:
                outcome = Outcome(failure=f"no fetcher for {where}")
                answer: Response | Failure | None = None
            else:
                answer = await _asked(at, Request(where, address, kind=Kind.ROBOTS))
                outcome = outcome_of(answer, where, hops)
            decision = decide(outcome, milliseconds(SystemClock()))
            if decision.act is not Act.FOLLOW:
                break
            where, hops = decision.location, hops + 1
            at = self._fetcher(where)
            if at is None:
                continue
            found = await self._address(where, at, f"for {where}: ")
            if isinstance(found, int):
                return 0 if looks_only else found
            address = found
        if decision.act is Act.DENY:
            self._step(
                "robots", looks_only, f"robots.txt could not be fetched ({decision.detail}): not allowed"
            )
            return 0 if looks_only else _REMOTE
        if decision.act is Act.ALLOW or not isinstance(answer, Response):
            self._step("robots", True, f"allowed: no robots.txt ({decision.detail})", allowed=True)
            return 0
        rules = RobotsRules.parse(answer.decoded)
        judged = rules.judge(self._args.user_agent, url)
        delay = rules.crawl_delay(self._args.user_agent)
        text = "allowed" if judged.allowed else "not allowed"
        text += f" by line {judged.line}: {judged.rule.strip()}" if judged.line else ": no rule applies"
        if delay is not None:
            text += f"; Crawl-delay {delay:g} s"
        if not judged.allowed and looks_only:
            text += " (--no-robots: fetched all the same)"
        self._step(
            "robots",
            judged.allowed or looks_only,
            text,
            allowed=judged.allowed,
            line=judged.line,
            rule=judged.rule,
            group=judged.group,
            crawl_delay=delay,
            sitemaps=list(rules.sitemaps),
        )
        return 0 if judged.allowed or looks_only else _REFUSED

    async def _fetch(self, url: str, fetcher: Fetcher, address: str) -> int:
        answer = await _asked(fetcher, Request(url, address))
        name = url.partition(":")[0]
        if isinstance(answer, Failure):
            again = "" if answer.transient else " (asking again would not help)"
            self._step(name, False, f"{answer.kind.value}: {answer.detail}{again}", kind=answer.kind.value)
            return {FailureKind.LOCAL: _LOCAL, FailureKind.REFUSED_ADDRESS: _REFUSED}.get(
                answer.kind, _REMOTE
            )
        self._step(name, True, _summary(answer))
        if self._args.body:
            write_found(answer.decoded)
        elif self._args.head:
            write_found(answer.head)
        self._seen["response"] = _as_json(answer)
        return 0

    def _step(self, name: str, ok: bool, text: str, **more: Any) -> None:
        now = time.perf_counter()
        took, self._at = (now - self._at) * 1000, now
        self._seen["steps"].append({"step": name, "ok": ok, "ms": round(took, 3), "text": text, **more})
        text = printable(text)
        if self._quiet:
            if not ok:
                print(f"lycosa fetch: {name}: {text}", file=sys.stderr)
        elif ok:
            line = Text.assemble(("✓ ", "green"), (f"{name:<7}", "bold"), (f"{took:8.1f} ms  ", "dim"), text)
            self._console.print(line)
        else:
            print(f"lycosa fetch: {name}: {text}", file=sys.stderr)

    def finish(self) -> None:
        if self._args.json:
            sys.stdout.buffer.write(safe(msgspec.json.encode(self._seen)) + b"\n")
            sys.stdout.buffer.flush()


async def _asked(fetcher: Fetcher, request: Request) -> Response | Failure:
    """The answer; if a connection kept from the previous request has ended, another one is opened."""
    answer = await fetcher.fetch(request)
    if isinstance(answer, Failure) and answer.kind is FailureKind.STALE:
        answer = await fetcher.fetch(request)
    return answer


def _summary(answer: Response) -> str:
    timing = answer.timing
    parts = [f"{answer.version} {answer.status}", answer.header("content-type") or "no type"]
    coding = answer.header("content-encoding")
    size = f"{len(answer.body):,} bytes"
    parts.append(f"{size} ({coding}), {len(answer.decoded):,} decoded" if coding else size)
    if answer.address:
        parts.append(f"from {answer.address}")
    parts.append(f"connect {timing.connect} ms, first byte {timing.first_byte} ms, total {timing.total} ms")
    if answer.truncated:
        parts.append(f"cut: {answer.truncated}")
    if answer.problem:
        parts.append(f"decoding: {answer.problem}")
    if answer.location:
        parts.append(f"redirects to {canonicalise(answer.location, answer.url) or answer.location}")
    if answer.retry_after is not None:
        parts.append(f"retry after {answer.retry_after:g} s")
    return ", ".join(parts)


def _as_json(answer: Response) -> dict[str, Any]:
    lines = [line.partition(":") for line in answer.head.decode("latin-1").split("\r\n")[1:-2]]
    return {
        "status": answer.status,
        "version": answer.version,
        "address": answer.address,
        "headers": [[name.strip(), value.strip()] for name, _, value in lines],
        "size": len(answer.body),
        "decoded": len(answer.decoded),
        "truncated": answer.truncated,
        "problem": answer.problem,
        "location": answer.location,
        "retry_after": answer.retry_after,
        "timing": {
            "connect": answer.timing.connect,
            "first_byte": answer.timing.first_byte,
            "total": answer.timing.total,
        },
        "request": answer.request_head.decode("latin-1"),
    }
