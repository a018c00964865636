"""What a shard's folds make of records: live and after a restart the same."""

from __future__ import annotations

import pytest

from lycosa.clock import ManualClock
from lycosa.lab.faults import FaultyFiles
from lycosa.records import Deferred, Links, Record, Robots, Skipped, Why
from tests.crawl.scripted import make_agent

URL, SITE = "http://a.test/page", "http://a.test"


@pytest.mark.parametrize(
    ("record", "failures"),
    [
        (Robots(2, SITE, 200, b"", 10**15), 0),
        (Robots(2, SITE, 0, b"", 10**15, Links(), None, "the connection was refused"), 0),
        (Skipped(2, URL, 0, Why.FAILED, "connect: refused"), 0),
        (Deferred(2, URL, SITE, 0, 0, 1, Why.RETRY, 10**15), 0),
        (Skipped(2, URL, 0, Why.DNS, "no such name"), 2),
        (Skipped(2, URL, 0, Why.SCOPE, "a rule"), 2),
    ],
)
def test_failures_of_dns_are_over_with_a_record_of_a_host_that_was_found(
    record: Record, failures: int
) -> None:
    """Whoever finds an address says so by what it logs next: no fold changes without a record."""
    files = FaultyFiles()
    agent, _ = make_agent(files, ManualClock(), seeds=[])
    shard = agent.shards.of_url(URL)
    assert shard is not None
    shard.append(Deferred(1, "", SITE, 0, 0, 2, Why.DNS, 10**15, "a server that failed"))
    assert shard.sites.get("a.test").dns_failures == 2
    shard.append(record)
    assert shard.sites.get("a.test").dns_failures == failures
    for each in agent.shards:
        each.log.commit()
        each.log.close()
    again = make_agent(files, ManualClock(), seeds=[])[0].shards.of_url(URL)
    assert again is not None and again.sites.get("a.test").dns_failures == failures
