"""Splitters: every host has one shard; the way is chosen once and kept in the manifest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lycosa.crawl import manifest as manifests
from lycosa.crawl.splitting import Splitter, SplitterOptions, check_splitter
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles
from lycosa.url.domains import Domains

DOMAINS = Domains(b"test\nde\nfr\nuk\nco.uk\n")
HOSTS = [f"www{n % 7}.site{n}.{tld}" for n in range(600) for tld in ("test", "de", "co.uk")]


def test_a_domain_has_one_owner_unless_hosts_are_split() -> None:
    by_domain, by_host = Splitter(16, DOMAINS), Splitter(16, DOMAINS, SplitterOptions(by="host"))
    names = [f"h{n}.big.test" for n in range(200)]
    assert len({by_domain.shard_of(name) for name in names}) == 1
    assert len({by_host.shard_of(name) for name in names}) == 16
    assert by_host.splits_domains and not by_domain.splits_domains
    assert {by_domain.shard_of(host) for host in HOSTS} == set(range(16))


def test_regions_have_shares_of_the_shards() -> None:
    regions = {"germany": ("de",), "news": ("bbc.co.uk", "site3.de")}
    splitter = Splitter(10, DOMAINS, SplitterOptions(by="region", regions=regions))
    germany, news, rest = range(3), range(3, 6), range(6, 10)
    counts = Counter(
        splitter.shard_of(host) for host in HOSTS if host.endswith(".de") and "site3." not in host
    )
    assert set(counts) == set(germany)
    assert splitter.shard_of("www.bbc.co.uk") in news
    assert splitter.shard_of("www3.site3.de") in news  # the longest suffix wins
    assert {splitter.shard_of(host) for host in HOSTS if host.endswith(".test")} == set(rest)
    assert splitter.shard_of("notbbc.co.uk") in rest
    assert splitter.shard_of("de") in germany


@pytest.mark.parametrize(
    ("options", "shards", "said"),
    [
        (SplitterOptions(by="hots"), 16, "no splitter 'hots'"),
        (SplitterOptions(by="region"), 16, "go together"),
        (SplitterOptions(regions={"a": ("de",)}), 16, "go together"),
        (SplitterOptions(by="region", regions={"a": ("de",), "b": ("fr",)}), 2, "at least 3 shards"),
        (SplitterOptions(by="region", regions={"a": ("de",), "b": ("de",)}), 16, "in two regions"),
        (SplitterOptions(by="region", regions={"a": (".DE",)}), 16, "not a domain or suffix"),
    ],
)
def test_what_cannot_be_split_by_is_said(options: SplitterOptions, shards: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_splitter(options, shards)


def test_the_way_of_splitting_never_changes(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    chosen = SplitterOptions(by="region", regions={"a": ("de", "fr")})
    made = manifests.open_or_create(files, 1, 8, splitter=chosen)
    assert made.splitter == chosen
    assert manifests.open_or_create(files, 1).splitter == chosen
    assert manifests.open_or_create(files, 1, splitter=chosen) == made
    with pytest.raises(ConfigError, match="split by region, which cannot be changed"):
        manifests.open_or_create(files, 1, splitter=SplitterOptions(by="host"))


def test_a_manifest_of_before_splits_by_domain(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    manifests.create(files, 1, 8)
    path = tmp_path / manifests.NAME
    text = path.read_text()
    import json

    read = json.loads(text)
    del read["splitter"]
    path.write_text(json.dumps(read))
    loaded = manifests.load(files)
    assert loaded is not None and loaded.splitter == SplitterOptions()
