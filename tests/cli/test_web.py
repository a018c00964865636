"""`lycosa web`, as a user runs it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from lycosa.cli.main import main
from lycosa.crawl.config import read_options, read_toml
from lycosa.lab.webs import AccessLog, Web, for_this_machine, preset
from lycosa.lab.webs.wide import WideOptions, WideWeb


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The verb in a process; with what it said until it was ready."""
    command = [sys.executable, "-m", "lycosa.cli.main", "web", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line.rstrip("\n"))
            if line.startswith("Ctrl-C"):
                break
        try:
            yield process, said
        finally:
            if process.poll() is None:
                process.kill()


def test_serves_until_interrupted(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("web.toml", "hosts", "truth", "log")}
    with running(
        "--small",
        "--port=0",
        f"--write-config={files['web.toml']}",
        f"--write-resolve={files['hosts']}",
        f"--truth={files['truth']}",
        f"--log={files['log']}",
    ) as (process, said):
        given, (seed,) = read_toml(files["web.toml"])
        config = read_options(given)
        assert f"  {seed}" in said
        port = int(seed.rpartition(":")[2].rstrip("/"))
        web = Web(for_this_machine(preset("tiny"))).at(port)
        assert set(config.dns.resolve) == {f"{host.name}:{host.address}" for host in web.hosts}
        assert config.scope.mode == "any"
        assert (config.public, config.allow) == (False, ("127.0.0.0/8",))
        lines = [line.split() for line in files["hosts"].read_text().splitlines()]
        assert {name: address for address, name in lines} == web.resolve()
        rows = [msgspec.json.decode(line) for line in files["truth"].read_bytes().splitlines()]
        assert {row["url"] for row in rows if row["verdict"] == "must"} == web.truth().must
        with socket.create_connection((web.addresses[0], port), 5) as sock:
            sock.sendall(b"GET / HTTP/1.0\r\nHost: site0.test\r\n\r\n")
            assert sock.recv(100).startswith(b"HTTP/1.1 200 OK")
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=240)
        assert (process.returncode, errors) == (0, "")
        assert "1 request over 1 connection" in rest
        log = AccessLog.read(files["log"].read_bytes().splitlines())
        assert [access.path for access in log.accesses] == ["/"]


def test_a_wide_web(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("web.toml", "hosts", "truth")}
    with running(
        "--wide=900",
        "--hosts=10",
        "--domains=5",
        "--links=50",
        "--port=0",
        f"--write-config={files['web.toml']}",
        f"--write-resolve={files['hosts']}",
        f"--truth={files['truth']}",
    ) as (process, said):
        given, (seed,) = read_toml(files["web.toml"])
        config = read_options(given)
        assert f"  {seed}" in said
        assert said[0] == "10 hosts, 900 pages of 50 links each; no oddities"
        port = int(seed.rpartition(":")[2].rstrip("/"))
        web = WideWeb(WideOptions(pages=900, hosts=10, domains=5, links=50, port=port))
        assert set(config.dns.resolve) == {f"{host}:{address}" for host, address in web.resolve().items()}
        assert (config.politeness.wait, config.politeness.address_wait) == (0.0, 0.0)
        rows = [msgspec.json.decode(line) for line in files["truth"].read_bytes().splitlines()]
        assert [row["url"] for row in rows] == list(web.urls())
        assert {row["verdict"] for row in rows} == {"must"}
        lines = [line.split() for line in files["hosts"].read_text().splitlines()]
        assert {name: address for address, name in lines} == web.resolve()
        with socket.create_connection((web.addresses[3], port), 5) as sock:
            sock.sendall(b"GET /0/4 HTTP/1.0\r\nHost: h003.wide003.test\r\n\r\n")
            assert sock.recv(100).startswith(b"HTTP/1.1 200 OK")
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=240)
        assert (process.returncode, errors) == (0, "")
        assert "1 request over 1 connection" in rest


def test_the_seeds_of_a_wide_web(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", "--wide=100", "--seeds-only", "--port=80", "--all-seeds"]) == 0
    out = capsys.readouterr().out.split()
    assert (len(out), out[65]) == (100, "http://h065.wide001.test/")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--wide=0"], "pages"),
        (["--wide=100", "--hosts=200"], "home page"),
        (["--wide=100", "--traps"], "--traps means nothing with --wide"),
        (["--wide=100", "--page-bytes=9"], "--page-bytes means nothing with --wide"),
        (["--wide=100", "--preset=demo"], "--preset means nothing with --wide"),
        (["--domains=3"], "--domains is for a wide web"),
        (["--wide=100", "--seeds-only", "--port=0"], "need a port"),
    ],
)
def test_mistakes_about_a_wide_web(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["web", *arguments]) == 2
    errors = capsys.readouterr().err
    assert says in errors
    assert errors.count("\n") == 1


def test_seeds_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", "--seeds-only"]) == 0
    assert capsys.readouterr().out == "http://site0.test:8123/\n"
    assert main(["web", "--seeds-only", "--all-seeds", "--hosts=12", "--pages=99", "--port=80"]) == 0
    out = capsys.readouterr().out.split()
    assert len(out) == 12
    assert out[0] == "http://site0.test/"


def test_flat_seeds_need_no_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", "--seeds-only", "--flat", "--hosts=1", "--pages=50"]) == 0
    assert capsys.readouterr().out.startswith("http://127.0.")


def test_oddities_can_be_chosen(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    truth = tmp_path / "truth"
    common = ["web", "--seeds-only", "--small", f"--truth={truth}"]
    assert main([*common, "--no-faults"]) == 0
    assert b"must-not" in truth.read_bytes(), "what pages embed"
    assert b"/go/" not in truth.read_bytes()
    assert main([*common, "--without=redirects"]) == 0
    assert b"/go/" not in truth.read_bytes()
    assert b"/packed/" in truth.read_bytes()
    assert main([*common, "--traps"]) == 0
    assert b"/calendar/" in truth.read_bytes()
    assert main([*common, "--preset=million", "--pages=2000", "--faults", "--seed=4"]) == 0
    assert b"/go/" in truth.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--without=robot"], 2, "no kind 'robot'"),
        (["--hosts=10", "--pages=5"], 2, "home page"),
        (["--seeds-only", "--port=0"], 2, "need a port"),
        (["--seeds-only", "--truth=/no/such/place"], 3, "cannot write /no/such/place"),
        (["--port=0", "--truth=/no/such/place"], 3, "cannot write /no/such/place"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["web", "--small", *arguments]) == code
    errors = capsys.readouterr().err
    assert says in errors
    assert errors.count("\n") == 1


def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    address = Web(for_this_machine(preset("tiny"))).addresses[0]
    with socket.socket() as taken:
        taken.bind((address, 0))
        taken.listen()
        assert main(["web", "--small", f"--port={taken.getsockname()[1]}"]) == 2
    assert "in use" in capsys.readouterr().err
