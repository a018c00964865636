"""`lycosa cluster` and `lycosa agent`: what they say, above all when something is wrong, in one line."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.cli import cluster
from lycosa.cli.main import main
from lycosa.engine.protocol import Unavailable
from lycosa.lab.nats_servers import Servers, free_ports
from tests.servers import demand_binary

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    demand_binary()
    with Servers(tmp_path_factory.mktemp("nats")) as servers:
        yield servers.urls[0]


def wrong(capsys: Capture, *args: str, code: int = 2) -> str:
    assert main(list(args)) == code
    text = capsys.readouterr().err
    assert text.count("\n") == 1 and "Traceback" not in text, text
    return text


def test_where_is_the_cluster(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LYCOSA_CLUSTER", raising=False)
    assert "--cluster nats://" in wrong(capsys, "cluster", "status", "web")
    assert "not the address" in wrong(capsys, "cluster", "status", "web", "--cluster", "http://x")
    port = free_ports(1)[0]
    monkeypatch.setenv("LYCOSA_CLUSTER", f"nats://127.0.0.1:{port}")
    assert "there is no NATS server" in wrong(capsys, "cluster", "status", "web")
    assert "there is no NATS server" in wrong(
        capsys, "agent", "--crawl", "web", "--work", str(tmp_path / "w")
    )
    config = tmp_path / "c.toml"
    config.write_text('[cluster]\nservers = ["nats://127.0.0.1:1"]\ncas = "x"\n')
    assert "did you mean 'ca'" in wrong(capsys, "cluster", "status", "web", "--cluster-config", str(config))
    config.write_text("[cluster")
    assert "not valid TOML" in wrong(capsys, "cluster", "status", "web", "--cluster-config", str(config))
    missing = str(tmp_path / "none.toml")
    assert "cannot read" in wrong(capsys, "cluster", "status", "web", "--cluster-config", missing)


def test_what_cannot_be_done(capsys: Capture, url: str, tmp_path: Path) -> None:
    to = ("--cluster", url)
    shared = ("--shared", str(tmp_path))
    seed = "http://a.test/"
    assert "there is no crawl none" in wrong(capsys, "cluster", "status", "none", *to)
    assert "there is no crawl none" in wrong(capsys, "cluster", "start", "none", *to)
    assert "there is no crawl none" in wrong(
        capsys, "agent", "--crawl", "none", "--work", str(tmp_path / "w"), *to
    )
    assert "cannot name a crawl" in wrong(capsys, "cluster", "status", "a.b", *to)
    assert "--shared DIR" in wrong(capsys, "cluster", "create", "web", seed, *to, "--private")
    gone = ("--shared", str(tmp_path / "gone"))
    assert "no shared directory" in wrong(capsys, "cluster", "create", "web", seed, *to, *gone, "--private")
    assert "say who runs it" in wrong(capsys, "cluster", "create", "web", seed, *to, *shared)
    assert "one by one" in wrong(
        capsys, "cluster", "create", "web", seed, *to, *shared, "--private", "--agents", "3"
    )
    small = ("--log-bytes", "1MB")
    assert "at least 8MiB" in wrong(
        capsys, "cluster", "create", "web", seed, *to, *shared, "--private", *small
    )
    assert "3 copies" in wrong(
        capsys, "cluster", "create", "three", seed, *to, *shared, "--private", "--replicas", "3"
    )
    assert "not a URL" in wrong(capsys, "cluster", "create", "web", "x y", *to, *shared, "--private")
    for args in (
        ("start", "web", seed),
        ("start", "web", "--max-pages", "9"),
        ("stop", "web", "--json"),
        ("status", "web", "--shared", "x"),
        ("seed", "web", seed, "--wait", "1s"),
        ("list", "web"),
        ("fetch", "web", "--yes"),
        ("strat", "web"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["cluster", *args, *to])
        assert ended.value.code == 2 and "Traceback" not in capsys.readouterr().err


def test_each_action_has_a_help_of_its_own(capsys: Capture) -> None:
    for action in ("create", "start", "pause", "stop", "seed", "status", "list", "fetch", "remove"):
        with pytest.raises(SystemExit):
            main(["cluster", action, "--help"])
        text = capsys.readouterr().out
        assert text.startswith(f"usage: lycosa cluster {action} ") and "--cluster" in text
        assert ("--max-pages" in text) == (action == "create")
    with pytest.raises(SystemExit):
        main(["cluster", "--help"])
    assert "fetch NAME --into DIR" in capsys.readouterr().out


def test_the_files_of_an_earlier_crawl_are_not_written_over(
    capsys: Capture, url: str, tmp_path: Path
) -> None:
    to, shared = ("--cluster", url), ("--shared", str(tmp_path), "--private", "--shards", "2")
    assert main(["cluster", "create", "twice", "http://a.test/", *to, *shared]) == 0
    assert main(["cluster", "remove", "twice", "--yes", *to]) == 0
    before = (tmp_path / "twice/crawl.json").read_bytes()
    capsys.readouterr()
    text = wrong(capsys, "cluster", "create", "twice", "http://a.test/", *to, *shared)
    assert "files of an earlier crawl twice" in text and "choose another name" in text
    assert (tmp_path / "twice/crawl.json").read_bytes() == before
    (tmp_path / "twice/crawl.json").unlink()
    (tmp_path / "twice/archive").mkdir()
    (tmp_path / "twice/archive/x.warc.gz").write_bytes(b"")
    assert "earlier crawl" in wrong(capsys, "cluster", "create", "twice", "http://a.test/", *to, *shared)
    assert "there is no crawl twice" in wrong(capsys, "cluster", "status", "twice", *to)
    (tmp_path / "crawl.json").write_bytes(b"{}")
    text = wrong(capsys, "cluster", "create", "other", "http://a.test/", *to, *shared)
    assert "is the directory of a crawl itself" in text and not (tmp_path / "other").exists()


def test_the_crawls_are_listed(capsys: Capture, tmp_path: Path) -> None:
    demand_binary()
    with Servers(tmp_path / "nats") as servers:
        to = ("--cluster", servers.urls[0])
        assert main(["cluster", "list", *to]) == 0
        assert "there are no crawls" in capsys.readouterr().out
        shared = ("--shared", str(tmp_path), "--private", "--shards", "2")
        for name in ("one", "two"):
            assert main(["cluster", "create", name, "http://a.test/", *to, *shared]) == 0
        assert main(["cluster", "start", "two", *to]) == 0
        capsys.readouterr()
        assert main(["cluster", "list", *to]) == 0
        rows = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
        assert rows == [["crawl", "state", "pages"], ["one", "created", "0"], ["two", "running", "0"]]
        assert main(["cluster", "list", "--json", *to]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [(row["crawl"], row["state"], row["agents"]) for row in found] == [
            ("one", "created", 0),
            ("two", "running", 0),
        ]


def test_the_life_of_a_crawl_without_agents(capsys: Capture, url: str, tmp_path: Path) -> None:
    to = ("--cluster", url)
    args = ("--shared", str(tmp_path), "--private", "--shards", "3", "--lease", "2s")
    assert main(["cluster", "create", "life", "http://a.test/", *to, *args]) == 0
    assert "created life" in capsys.readouterr().out
    assert "already" in wrong(capsys, "cluster", "create", "life", "http://a.test/", *to, *args)

    def status() -> dict[str, object]:
        capsys.readouterr()
        assert main(["cluster", "status", "life", "--json", *to]) == 0
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    found = status()
    assert found["state"] == "created" and found["replicas"] == 1 and found["backlog"] == 1
    assert found["agents"] == [] and len(found["shards"]) == 3  # type: ignore[arg-type]
    for action, state in (("start", "running"), ("pause", "paused"), ("start", "running")):
        assert main(["cluster", action, "life", *to]) == 0
        assert status()["state"] == state
    capsys.readouterr()
    assert main(["cluster", "seed", "life", "http://b.test/x", "http://c.test/", *to]) == 0
    assert "2 seeds" in capsys.readouterr().out
    assert main(["cluster", "seed", "life", "http://c.test/y", *to]) == 0
    assert "1 seed given to life" in capsys.readouterr().out
    found = status()
    assert found["backlog"] in (3, 4) and found["round"] == 2
    assert main(["cluster", "stop", "life", *to]) == 0
    assert main(["cluster", "status", "life", "--watch", *to]) == 0, "it has ended: nothing to wait for"
    assert "life: stopped, 0 agents, 3 shards (0 held), 1 copy, shared" in capsys.readouterr().out
    assert "give a new directory" in wrong(capsys, "cluster", "fetch", "life", *to)
    assert main(["cluster", "fetch", "life", *to, "--into", str(tmp_path / "home")]) == 0
    assert "0 records of 3 shards" in capsys.readouterr().out
    assert main(["log", str(tmp_path / "home")]) == 0
    other = tmp_path / "w"
    other.mkdir()
    (other / "crawl.json").write_text('{"crawl": "other", "hash_seed": 1, "created": 1}')
    assert "another crawl" in wrong(capsys, "agent", "--crawl", "life", "--work", str(other), *to)
    apart = tmp_path / "apart"
    apart.mkdir()
    more = ("--work", str(tmp_path / "w2"), "--shared", str(apart))
    assert "not the shared storage" in wrong(capsys, "agent", "--crawl", "life", *more, *to)
    assert "--yes" in wrong(capsys, "cluster", "remove", "life", *to)
    assert main(["cluster", "remove", "life", "--yes", *to]) == 0
    capsys.readouterr()
    assert "there is no crawl life" in wrong(capsys, "cluster", "status", "life", *to)


def test_watching_goes_on_while_a_server_is_away(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[str, object] | Exception] = [
        {"state": "running", "agents": ["a"]},
        Unavailable("cannot list report.*: nats: timeout"),
        Unavailable("cannot list report.*: nats: timeout"),
        {"state": "finished", "agents": []},
    ]

    class Asked:
        async def status(self) -> dict[str, object]:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    async def at_once(seconds: float) -> None: ...

    monkeypatch.setattr("lycosa.cli.cluster.asyncio.sleep", at_once)
    args = argparse.Namespace(watch=True, json=True)
    assert asyncio.run(cluster._status(Asked(), args)) == 0  # type: ignore[arg-type]
    told = capsys.readouterr()
    assert [json.loads(line)["state"] for line in told.out.splitlines()] == ["running", "finished"]
    assert told.err.count("trying again") == 1 and not answers
    answers.append(Unavailable("nobody answers"))
    with pytest.raises(Unavailable):  # from the beginning: that is for the operator to know
        asyncio.run(cluster._status(Asked(), args))  # type: ignore[arg-type]
