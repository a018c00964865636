"""What to do with the outcome of asking for a robots.txt (RFC 9309 §2.3.1 and §2.4). No I/O.

    outcome                                   act      until
    2xx                                       PARSE    expiry
    3xx with a Location, fewer than 5 hops    FOLLOW   now; across hosts too, for the first site, but only
                                                       to http and https
    3xx otherwise                             ALLOW    expiry ("unavailable": §2.3.1.2 lets us assume so)
    4xx but 429                               ALLOW    expiry ("unavailable", 401 and 403 included: §2.3.1.3)
    429, 5xx, any other status                DENY     retry ("unreachable": §2.3.1.4)
    no answer, or a body that broke off       DENY     retry
    ... for 30 days in a row                  ALLOW    expiry (§2.3.1.4 takes 30 days for an example)

- 429 is a 4xx, which RFC 9309 would let us treat as permission. It says "too many requests", so, as Google's
  crawlers do, we treat it as a server that cannot answer now.
- A body cut by our own limit on size is parsed: only its first 500 KiB count anyhow. One that broke off
  (time, disconnect) may lack the very rule that matters, and counts as no answer.
- Expiry is 24 hours (§2.4 asks for no more); a `Cache-Control: max-age` shortens it, to one hour at least.
- Retries come after 1, 2, 4 ... minutes, at most every 6 hours, never before a Retry-After (which is believed
  up to one day). `since` is when the series of failures began: the caller keeps it, and the number of attempts.
- A copy read before is not used while its renewal fails: "unreachable" denies, as §2.3.1.4 has it.

All times are whole milliseconds since the epoch, as in records.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

import msgspec

from lycosa.fetch.protocol import Failure, Response
from lycosa.url.canonical import NO_RULES, WEB, canonicalise

_SECOND = 1000
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,12})", re.I)
_NOT_KEPT = re.compile(r"(?:^|[\s,])(?:no-store|no-cache)(?:$|[\s,;=])", re.I)


class RobotsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long robots answers hold. Times in seconds."""

    expiry: float = 86_400.0  # how long rules hold
    least_expiry: float = 3_600.0  # ... whatever max-age says
    first_retry: float = 60.0  # after the first failure; doubled after each further one
    longest_retry: float = 21_600.0
    longest_retry_after: float = 86_400.0  # how much of a Retry-After is believed
    give_up: float = 30 * 86_400.0  # unreachable for this long counts as unavailable
    redirects: int = 5


class Act(StrEnum):
    """What to do with a site."""

    PARSE = "parse"  # read the body's rules
    ALLOW = "allow"  # there are no rules
    DENY = "deny"  # fetch nothing until then; ask again
    FOLLOW = "follow"  # ask at `location`


class Outcome(NamedTuple):
    """How one request for a robots.txt ended."""

    status: int = 0  # 0: no answer
    location: str = ""  # of a 3xx, absolute
    hops: int = 0  # redirects followed before this request
    failure: str = ""  # why there was no answer, or why the body is not whole
    cache_control: str = ""
    retry_after: float | None = None  # seconds


class Decision(NamedTuple):
    """What to do, until when, and a word for the record."""

    act: Act
    until: int
    location: str = ""
    detail: str = ""


_DEFAULT = RobotsOptions()


def outcome_of(answer: Response | Failure, url: str, hops: int) -> Outcome:
    """The outcome of requesting `url`. A Location that is not http(s) counts as none."""
    if isinstance(answer, Failure):
        return Outcome(hops=hops, failure=f"{answer.kind}: {answer.detail}")
    location = canonicalise(answer.location, url, NO_RULES, WEB) if answer.location else None
    broken = answer.truncated in ("time", "disconnect")
    return Outcome(
        status=answer.status,
        location=location or "",
        hops=hops,
        failure=f"the answer broke off ({answer.truncated})" if broken else "",
        cache_control=answer.header("cache-control") or "",
        retry_after=answer.retry_after,
    )


def decide(
    outcome: Outcome,
    now: int,
    *,
    attempt: int = 0,
    since: int | None = None,
    options: RobotsOptions = _DEFAULT,
) -> Decision:
    """Decide what to do. There were `attempt` failures in a row before, the first of them at `since`."""
    status = outcome.status
    expires = now + expiry(outcome.cache_control, options)
    if status and not outcome.failure:
        if 200 <= status < 300:
            return Decision(Act.PARSE, expires)
        if 300 <= status < 400:
            if not outcome.location:
                return Decision(Act.ALLOW, expires, detail=f"status {status} without a place to go")
            if outcome.hops >= options.redirects:
                return Decision(Act.ALLOW, expires, detail=f"more than {options.redirects} redirects")
            return Decision(Act.FOLLOW, now, outcome.location)
        if 400 <= status < 500 and status != 429:
            return Decision(Act.ALLOW, expires, detail=f"status {status}")
    what = outcome.failure or (f"status {status}" if status else "no answer")
    if since is not None and now - since >= options.give_up * _SECOND:
        days = (now - since) // (86_400 * _SECOND)
        return Decision(Act.ALLOW, now + int(options.expiry * _SECOND), detail=f"{what}, for {days} days")
    # 2**32 times any first wait is above any longest one; more would overflow a float.
    wait = min(options.first_retry * 2.0 ** min(max(attempt, 0), 32), options.longest_retry)
    if outcome.retry_after is not None:
        wait = max(wait, min(outcome.retry_after, options.longest_retry_after))
    return Decision(Act.DENY, now + int(wait * _SECOND), detail=what)


def expiry(cache_control: str, options: RobotsOptions = _DEFAULT) -> int:
    """How many milliseconds rules received with this Cache-Control ("" for none) are valid."""
    seconds = options.expiry
    if cache_control:
        if _NOT_KEPT.search(cache_control):
            seconds = options.least_expiry
        elif found := _MAX_AGE.search(cache_control):
            seconds = max(float(found.group(1)), options.least_expiry)
    return int(min(seconds, options.expiry) * _SECOND)
