"""Engines for the tests of a cluster's parts."""

from __future__ import annotations

from tests.servers import (  # noqa: F401
    client,
    crawl,
    engine,
    engine3,
    engines,
    names,
    nats_engine,
    one,
    other,
    three,
)
