"""Retries: when a URL whose fetch failed is tried again, and when it is given up. Decisions only.

A URL has `attempts` attempts in all (three). After the n-th that failed it waits

    first x growth^(n-1)        two minutes, then an hour: a restart, then an outage

or as long as the site asked for with Retry-After, if that is longer, but never longer than `most`: a URL must not
be lost to a Retry-After of ten years. A site that meant it can say so again.

There is no random spread: the frontier asks a host for one URL at a time whatever falls due together.
"""

from __future__ import annotations

import math

import msgspec


class RetryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long failed fetches are tried again. Times in seconds."""

    attempts: int = 3
    first: float = 120.0
    growth: float = 30.0
    most: float = 86_400.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts}")
        if not (self.first >= 0 and self.growth >= 1 and 0 <= self.most < math.inf):
            raise ValueError("first and most are at least 0, growth at least 1")


def retry_due(
    options: RetryOptions, attempt: int, now_ms: int, retry_after: float | None = None
) -> int | None:
    """When to try again, in milliseconds since the epoch, after `attempt` attempts that failed.

    None: never again. `retry_after` is what the site asked for, in seconds; it does not add attempts.
    """
    if attempt >= options.attempts:
        return None
    # The exponent is bounded so that any number of attempts an operator asks for stays a finite wait.
    wait = min(options.first * options.growth ** min(max(attempt, 1) - 1, 64), options.most)
    if retry_after is not None and not math.isnan(retry_after):
        wait = min(max(wait, retry_after), options.most)
    return now_ms + int(wait * 1000)
