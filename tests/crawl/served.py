"""Crawls of the embedded web over real sockets, for end-to-end tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lycosa.ask.reading import CrawlReader
from lycosa.lab.webs import Web
from lycosa.records import Deferred, Fetched, Robots, Skipped, Why

POLITENESS = {"wait": 0.1, "address_wait": 0.02, "factor": 0.0}


def options(web: Web, **more: Any) -> dict[str, Any]:
    """Options that suit a web on loopback: short waits, and times to retry that a test can wait for."""
    return {
        "public": False,
        "allow": ["127.0.0.0/8"],
        "scope": {"mode": "any"},
        "dns": {"resolve": [f"{host}:{address}" for host, address in web.resolve().items()]},
        "politeness": POLITENESS,
        "retry": {"first": 0.4, "growth": 1.5, "most": 2.0},
        "robots": {"first_retry": 0.4},
        **more,
    }


def outcomes(directory: Path) -> dict[str, int]:
    """URL to final status; 0 for those asked in vain."""
    found: dict[str, int] = {}
    for _, _, record in CrawlReader(directory).records():
        if isinstance(record, Fetched):
            assert record.url not in found, f"{record.url} is in the log twice"
            found[record.url] = record.status
        elif isinstance(record, Skipped) and record.why is Why.FAILED:
            found[record.url] = 0
    return found


def kinds(directory: Path) -> set[str]:
    return {type(record).__name__ for _, _, record in CrawlReader(directory).records()}


__all__ = ["POLITENESS", "Deferred", "Robots", "kinds", "options", "outcomes"]
