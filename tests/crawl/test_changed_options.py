"""Options that change between two runs of a crawl: what they had kept out comes back, nothing is lost."""

from __future__ import annotations

import pytest

from lycosa.crawl.agent import End
from lycosa.errors import ConfigError
from lycosa.frontier.packed import freezing
from lycosa.lab.faults import FaultyFiles
from lycosa.records import Skipped, Why
from tests.crawl.scripted import crawl, expected
from tests.crawl.test_crash import fetched


def skipped(files: FaultyFiles, run_agent: object) -> list[Skipped]:
    return [
        record
        for shard in run_agent.shards  # type: ignore[attr-defined]
        for _, record in shard.log.reader.scan()
        if isinstance(record, Skipped)
    ]


def test_an_address_that_was_refused_is_asked_once_it_is_allowed() -> None:
    files = FaultyFiles()
    first = crawl(files, allow=[])
    rows = skipped(files, first.agent)
    assert [row.why for row in rows] == [Why.ADDRESS]
    assert "--allow" in rows[0].detail and not first.requests
    second = crawl(files, start=first.until)
    assert second.end is End.FINISHED
    assert expected() <= set(fetched(files))


@pytest.mark.parametrize(
    "stores", [("memory", "auto"), ("auto", "veuniq"), ("veuniq", "memory"), ("drum", "auto")]
)
def test_another_store_reads_the_log_anew(stores: tuple[str, str]) -> None:
    files = FaultyFiles()
    first = crawl(files, seen={"store": stores[0]}, limits={"pages": 12})
    assert first.end is End.LIMIT
    second = crawl(files, start=first.until, seen={"store": stores[1]})
    assert second.end is End.FINISHED
    counts = fetched(files)
    assert expected() <= set(counts) and max(counts.values()) == 1
    again = {url for _, _, url in first.requests} & {url for _, _, url in second.requests}
    assert {
        url for url in again if "robots.txt" not in url and "flaky" not in url and "busy" not in url
    } == set()


def test_a_snapshot_of_an_earlier_version_is_passed_over_and_the_log_read_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = FaultyFiles()
    with monkeypatch.context() as earlier:
        earlier.setattr(freezing, "VERSION", freezing.VERSION - 1)
        first = crawl(files, limits={"pages": 12})
    assert first.end is End.LIMIT
    assert crawl(files, start=first.until).end is End.FINISHED
    counts = fetched(files)
    assert expected() <= set(counts) and max(counts.values()) == 1


@pytest.mark.parametrize("store", ["memory", "veuniq", "drum", "mercator"])
def test_every_store_crawls_the_same(store: str) -> None:
    files = FaultyFiles()
    assert crawl(files, seen={"store": store, "cache": 0}).end is End.FINISHED
    assert expected() <= set(fetched(files))


def test_a_seed_out_of_scope_is_told_and_logged() -> None:
    files = FaultyFiles()
    scope = {"mode": "any", "exclude_hosts": ["b.test"]}
    run = crawl(files, seeds=["http://a.test/", "http://b.test/x"], scope=scope)
    assert run.agent.refused_seeds == [("http://b.test/x", "host b.test is in exclude_hosts")]
    assert ("http://b.test/x", Why.SCOPE) in [(row.url, row.why) for row in skipped(files, run.agent)]


def test_the_number_of_shards_never_changes() -> None:
    from lycosa.crawl import manifest as manifests

    files = FaultyFiles()
    made = manifests.create(files, 0, 4)
    manifests.check_shards(made, None)
    manifests.check_shards(made, 4)
    with pytest.raises(ConfigError, match="4 shards, which cannot be changed"):
        manifests.check_shards(made, 8)
