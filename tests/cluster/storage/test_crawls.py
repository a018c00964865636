"""Whole crawls on storage that is no directory: an agent dies with its disk, storage goes away, nothing is lost."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from lycosa.ask.reading import CrawlReader
from lycosa.ask.report import make_report
from lycosa.cli.main import main
from lycosa.lab.nats_servers import Servers
from lycosa.lab.webs import serving
from lycosa.records import Fetched, Lost
from tests.cluster.crawled import SMALL
from tests.cluster.members import Cluster, cluster, until
from tests.cluster.storage.s3_server import ENVIRON, KEY, SECRET, S3Server
from tests.cluster.test_supervisor import check

SLOW = {"wait": 0.15, "address_wait": 0.02, "factor": 0.0, "pages_per_visit": 2}
AWAY = "is saved when shared storage is back"


def take_away(made: Cluster, s3: S3Server) -> None:
    """The server of storage ends, and comes back when an agent has noticed."""
    s3.stop()
    until(lambda: any(AWAY in made.said(name) for name in made.agents))
    assert made.agents["b"].poll() is None, made.said("b")
    s3.start()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kind",
    ["s3", pytest.param("nats", marks=pytest.mark.slow)],  # test_permissions crawls with it in every run
)
def test_an_agent_dies_with_its_disk(kind: str, s3: S3Server, one: Servers, tmp_path: Path) -> None:
    web = msgspec.structs.replace(SMALL, pages=150)
    with serving(web) as served, cluster(tmp_path, one.urls, f"wiped-{kind}-{os.getpid()}") as made:
        made.environment |= ENVIRON
        made.shared = s3.place("crawls") if kind == "s3" else "nats"
        made.create(served.web, politeness=SLOW)
        made.command("start")
        made.join("a")
        made.join("b")
        made.pages(40)
        made.agents["a"].kill()
        made.agents["a"].wait()
        shutil.rmtree(tmp_path / "work-a")
        if kind == "s3":
            take_away(made, s3)
        made.wait()
        status = made.look()
        told = made.command("status") + repr(status)
        home = made.fetch()
    found = check(served, home, killed=True)
    reader = CrawlReader(home)
    lost = {r.url for log in reader.logs for _, r in log.scan() if isinstance(r, Lost)}
    assert lost <= {record.url for _, _, record in reader.records() if isinstance(record, Fetched)}
    assert status["pages"] == make_report(reader, at=0).pages == sum(1 for code in found.values() if code)
    assert status["shared"] == made.shared and str(made.shared) in told
    told += "".join(made.said(agent) for agent in made.agents)
    told += "".join(path.read_text() for path in home.glob("*.json"))
    assert KEY not in told and SECRET not in told
    assert not list((tmp_path / "shared").iterdir()), "nothing went where it was not meant to go"


def test_mistakes_at_the_creation_and_at_the_start(
    s3: S3Server,
    one: Servers,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is one line, and leaves nothing behind on the servers."""
    name, to = f"wrong-{os.getpid()}", ("--cluster", one.urls[0])

    def refused(*args: str, code: int = 2, **environ: str) -> str:
        for key, value in {**ENVIRON, **environ}.items():
            monkeypatch.setenv(key, value)
        capsys.readouterr()
        assert main([*args, *to]) == code
        text = capsys.readouterr().err
        assert text.count("\n") == 1 and SECRET not in text, text
        return text

    def create(shared: str, **environ: str) -> str:
        return refused(
            "cluster", "create", name, "http://a.test/", "--shared", shared, "--private", **environ
        )

    place = s3.place("wrong")
    assert "there is no such bucket" in create(place.replace(s3.bucket, "nobody"))
    assert "check AWS_SECRET_ACCESS_KEY" in create(place, AWS_SECRET_ACCESS_KEY="guess")
    assert "credentials do not belong in it" in create(f"s3://{KEY}:{SECRET}@{s3.bucket}/wrong")
    assert "not another URL" in create("gs://bucket/wrong")
    assert "there is no crawl" in refused("cluster", "status", name)
    for shared, what in ((place, "s3"), ("nats", "nats")):
        for key, value in ENVIRON.items():
            monkeypatch.setenv(key, value)
        assert (
            main(
                [
                    "cluster",
                    "create",
                    f"{name}-{what}",
                    "http://a.test/",
                    *to,
                    "--shared",
                    shared,
                    "--private",
                ]
            )
            == 0
        )
    agent = ("agent", "--crawl", f"{name}-s3", "--work", str(tmp_path / "w"))
    assert "check AWS_ACCESS_KEY_ID" in refused(*agent, AWS_ACCESS_KEY_ID="guess")
    assert "is not the shared storage of" in refused(*agent, "--shared", s3.place("elsewhere"))
    assert main(["cluster", "remove", f"{name}-nats", "--yes", *to]) == 0
    again = ("cluster", "create", f"{name}-nats", "http://a.test/", "--shared", "nats", "--private")
    assert "holds files of an earlier crawl" in refused(*again), "what is on storage is left"
