"""Agents of a cluster crawl as one: the same pages as a plain crawl, whoever comes, leaves or dies meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

from lycosa.ask.explain import explain
from lycosa.ask.reading import CrawlReader
from lycosa.ask.report import make_report
from lycosa.lab.nats_servers import Access, Servers, Tls
from lycosa.lab.webs import serving
from lycosa.records import Fetched, Lost, Received
from tests.cluster.crawled import SMALL
from tests.cluster.members import cluster, until
from tests.cluster.test_supervisor import check
from tests.crawl.served import outcomes
from tests.crawl.test_poison import Site, fate, plugged, site  # noqa: F401
from tests.servers import demand_binary

SLOW = {"wait": 0.25, "address_wait": 0.02, "factor": 0.0, "pages_per_visit": 2}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    demand_binary()
    with Servers(tmp_path_factory.mktemp("nats")) as servers:
        yield servers


def fetching(status: dict[str, Any]) -> set[str]:
    """Agents with a shard that has pages."""
    return {row["holder"] for row in status["shards"] if row["holder"] and row["pages"]}


def test_three_agents_fetch_what_one_would(server: Servers, tmp_path: Path) -> None:
    with serving(SMALL) as served, cluster(tmp_path, server.urls, "three") as made:
        made.create(served.web, politeness=SLOW)
        for name in "abc":
            made.join(name)  # before it is started: they wait
        until(lambda: len(made.look()["agents"]) == 3)  # so each is given shards from the beginning
        made.command("start")
        until(lambda: len(fetching(made.look())) == 3)
        made.pages(40)
        made.command("stop")
        made.wait()
        stopped = made.look()
        assert stopped["state"] == "stopped" and not stopped["agents"] and not stopped["shards_held"]
        assert stopped["visits"] == 0 and stopped["rate"] == 0.0 and not stopped["silent"]
        made.command("start")
        made.join("d")
        made.pages(int(stopped["pages"]) + 1)
        early = make_report(CrawlReader(made.fetch()), at=0).pages  # while it runs
        made.wait()
        status = made.look()
        home = made.fetch()  # into the same directory: it has the rest now
    found = check(served, home)
    assert 0 < early <= status["pages"]
    pages = sum(1 for code in found.values() if code)
    assert status["state"] == "finished" and status["pages"] == pages
    assert status["pending"] == status["backlog"] == status["lost"] == 0
    assert status["shards_held"] == 0 and not status["agents"]
    reader = CrawlReader(home)
    agents = {record.stored.file.split(".")[1] for _, _, record in reader.records()
              if isinstance(record, Fetched) and record.stored is not None}  # fmt: skip
    assert {name.partition("_")[0] for name in agents} == set("abcd"), "each had its share"
    received = [record for _, _, record in reader.records() if isinstance(record, Received)]
    assert sum(len(record.links) for record in received) > 50 and all(r.sequence for r in received)
    # What works on a crawl's directory works on this one.
    report = make_report(reader, at=0)
    assert report.pages == pages
    assert explain(reader, next(url for url, code in found.items() if code)).state == "fetched"
    assert (tmp_path / "shared/three/archive").is_dir() and not list(tmp_path.glob("work-*/archive/*.gz"))


@pytest.mark.slow
def test_a_page_that_stalls_its_reader_is_skipped(
    server: Servers,
    site: str,  # noqa: F811
    plugged: dict[str, str],  # noqa: F811
    tmp_path: Path,
) -> None:
    """The watchdog ends the agent; one that comes to the same work directory knows why."""
    Site.poison = b"spin"
    with cluster(tmp_path, server.urls, "stalled") as made:
        made.environment = plugged
        made.command(
            "create", site + "/", "--shared", str(made.shared), "--shards", "2", "--lease", "3s", "--private",
            "--allow", "127.0.0.0/8", "--set", "politeness.wait=0.05", "--set", "politeness.factor=0",
        )  # fmt: skip
        made.command("start")
        for _ in range(2):
            assert made.join("a").wait(170) == 5, made.said("a")
        assert made.join("a").wait(170) == 0, made.said("a")
        home = made.fetch()
    assert f"reading {site}/bad has taken 2 s" in made.said("a")
    assert fate(home, f"{site}/bad") == ["Deferred(poison)", "Skipped(poison)"]
    assert fate(home, f"{site}/good") == ["fetched"]


@pytest.mark.slow  # the short storm of test_chaos does the same in every run
def test_one_dies_with_its_disk_another_leaves_a_third_comes(server: Servers, tmp_path: Path) -> None:
    web = msgspec.structs.replace(SMALL, pages=400)
    with serving(web) as served, cluster(tmp_path, server.urls, "storm") as made:
        # No checkpoint before the death: what the first agent fetched is lost for certain.
        made.create(
            served.web, lease=3.0, politeness=SLOW, snapshot={"seconds": 600.0, "archive_seconds": 600.0}
        )
        made.command("start")
        made.join("a")
        made.join("b")
        made.pages(90)
        made.agents["a"].kill()
        made.agents["a"].wait()
        shutil.rmtree(tmp_path / "work-a")
        made.join("c")
        made.pages(150)
        made.agents["b"].send_signal(signal.SIGTERM)
        assert made.agents["b"].wait(170) == 0, made.said("b")
        made.wait()
        status = made.look()
        home = made.fetch()
        dead = f"agent {status['silent'][0]['id']} has not been heard of for "
        assert dead in made.said("b") + made.said("c") and dead in made.command("status")
    found = check(served, home, killed=True)
    reader = CrawlReader(home)
    lost = [r for log in reader.logs for _, r in log.scan() if isinstance(r, Lost)]
    assert lost and len(lost) == status["lost"], "pages were fetched again, and the log says so"
    again = {record.url for _, _, record in reader.records() if isinstance(record, Fetched)}
    assert {record.url for record in lost} <= again
    assert status["pages"] == make_report(reader, at=0).pages == sum(1 for code in found.values() if code)
    assert "handed over" in made.said("b") and max(row["epoch"] for row in status["shards"]) > 1


def test_tls_a_password_a_limit_and_more_seeds(tmp_path: Path) -> None:
    demand_binary()
    authority = trustme.CA()
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.cert_pem.bytes())
    cert = authority.issue_cert("127.0.0.1")
    cert.private_key_pem.write_to_path(str(tmp_path / "server.key"))
    (tmp_path / "server.pem").write_bytes(b"".join(blob.bytes() for blob in cert.cert_chain_pems))
    tls = Tls(str(tmp_path / "server.pem"), str(tmp_path / "server.key"))
    access = Access("crawler", "open sesame")
    flags = ("--ca", str(ca), "--nats-user", "crawler")
    known = {"ca": str(ca), "user": "crawler", "password": "open sesame"}
    with (
        Servers(tmp_path / "nats", tls=tls, access=access) as servers,
        serving(SMALL) as served,
        cluster(tmp_path, servers.urls, "safe", *flags, **known) as made,
    ):
        made.environment = {**os.environ, "LYCOSA_CLUSTER_PASSWORD": "guess"}
        assert "refuses these credentials" in made.command("status", fails=True)
        made.environment["LYCOSA_CLUSTER_PASSWORD"] = "open sesame"
        made.create(served.web, limits={"pages": 60}, scope={"mode": "host"})
        made.command("start")
        made.join("a")
        made.join("b")
        made.wait()
        first = made.look()
        more = served.web.seeds()[0].replace("site0", "site1")
        made.command("seed", more)
        assert made.look()["state"] == "running"
        made.join("c")
        made.wait()
        last = made.look()
        home = made.fetch()
    assert first["state"] == "finished" and first["pages"] < 60, "one host has not so many"
    assert last["state"] == "limit" and last["pages"] == 60, "neither more nor less"
    found = outcomes(home)
    assert more in found and sum(1 for code in found.values() if code) == 60
