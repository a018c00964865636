"""Pages that kill or stall their reader, with the command itself: tried once more, then skipped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lycosa.ask.reading import CrawlReader
from lycosa.crawl.underway import Underway
from lycosa.records import Deferred, Fetched, Skipped

PARSER = """
import os, re, signal
import lycosa.crawl.watchdog as watchdog
from lycosa.page.protocol import Page

watchdog.NOTICE, watchdog.LIMIT = 1, 2

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def spin():
    while True:
        pass

def hold():
    re.match("(a+)+$", "a" * 60 + "b")  # holds the interpreter: no thread runs

class Poison:
    def __init__(self, limits):
        pass

    def parse(self, body, url, media, charset):
        globals()[body.decode().split()[0]]()
        return Page(type=media)
"""


class Site(BaseHTTPRequestHandler):
    """A home page that links a good page and a bad one."""

    poison = b""

    def do_GET(self) -> None:
        body, media, status = b"no", "text/plain", 404
        if self.path == "/":
            body, media, status = b"<a href=/bad></a><a href=/good></a>", "text/html", 200
        elif self.path == "/good":
            body, media, status = b"<title>good</title>", "text/html", 200
        elif self.path == "/bad":
            body, media, status = self.poison, "application/x-poison", 200
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def plugged(tmp_path: Path) -> dict[str, str]:
    """An environment in which the parser is installed."""
    about = tmp_path / "lib" / "poison-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: poison\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[lycosa.parsers]\napplication/x-poison = poison_parser:Poison\n")
    (tmp_path / "lib" / "poison_parser.py").write_text(PARSER)
    paths = [str(tmp_path / "lib"), str(Path(__file__).parents[2])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def command(site: str, into: Path, agents: int) -> list[str]:
    return [
        sys.executable, "-m", "lycosa.cli.main", "crawl", site + "/", "--into", str(into), "--agents", str(agents),
        "--private", "--allow", "127.0.0.0/8", "--set", "politeness.wait=0.05",
        "--set", "politeness.address_wait=0.01", "--set", "politeness.factor=0",
    ]  # fmt: skip


def run(args: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(args, env=env, capture_output=True, text=True, timeout=170)


def fate(into: Path, url: str) -> list[str]:
    rows = [record for _, _, record in CrawlReader(into).records()]
    return [
        "fetched" if isinstance(record, Fetched) else f"{type(record).__name__}({record.why})"
        for record in rows
        if isinstance(record, Fetched | Skipped | Deferred) and record.url == url
    ]


def one_line(said: str) -> str:
    """Without the breaks of a narrow screen."""
    return " ".join(said.split())


def patient(place: Path) -> None:
    """The watchdog must not end a process that only has no turn on a busy machine."""
    lib = place / "lib" / "poison_parser.py"
    lib.write_text(lib.read_text().replace("LIMIT = 1, 2", "LIMIT = 3, 600"))


@pytest.mark.parametrize(
    "poison",
    ["kill", pytest.param("spin", marks=pytest.mark.slow), pytest.param("hold", marks=pytest.mark.slow)],
)
def test_one_agent(site: str, plugged: dict[str, str], tmp_path: Path, poison: str) -> None:
    Site.poison = poison.encode()
    into = tmp_path / "crawl"
    args = command(site, into, 1)
    if poison == "kill":
        patient(tmp_path)
    first, second = run(args, plugged), run(args, plugged)
    code = {"kill": -signal.SIGKILL, "spin": 5, "hold": -signal.SIGPROF}[poison]
    assert (first.returncode, second.returncode) == (code, code), first.stderr + second.stderr
    if poison == "spin":
        assert f"nothing has moved for 1 s, reading {site}/bad: lycosa.page.registry.read" in first.stderr
        assert (
            f"reading {site}/bad has taken 2 s, in lycosa.page.registry.read: the process ends"
            in first.stderr
        )
    assert f"{site}/bad: the page is tried once more" in one_line(second.stderr)
    third = run(args, plugged)
    assert third.returncode == 0 and f"{site}/bad: the page is skipped" in one_line(third.stderr)
    assert fate(into, f"{site}/bad") == ["Deferred(poison)", "Skipped(poison)"]
    assert fate(into, f"{site}/good") == ["fetched"]
    assert not list(Underway(into / "reading").left())
    explained = run([*args[:3], "explain", str(into), f"{site}/bad"], plugged)
    assert "poison" in explained.stdout and "its reader was killed or stood still, twice" in explained.stdout


@pytest.mark.slow
def test_several_agents(site: str, plugged: dict[str, str], tmp_path: Path) -> None:
    Site.poison = b"kill"
    into = tmp_path / "crawl"
    done = run(command(site, into, 2), plugged)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("died (signal 9): it is started again") == 2
    assert fate(into, f"{site}/bad") == ["Deferred(poison)", "Skipped(poison)"]
    assert fate(into, f"{site}/good") == ["fetched"]


@pytest.mark.slow
def test_another_number_of_agents(site: str, plugged: dict[str, str], tmp_path: Path) -> None:
    Site.poison = b"kill"
    into = tmp_path / "crawl"
    for _ in range(2):
        assert run(command(site, into, 1), plugged).returncode == -signal.SIGKILL
    done = run(command(site, into, 2), plugged)
    assert done.returncode == 0, done.stderr
    assert fate(into, f"{site}/bad") == ["Deferred(poison)", "Skipped(poison)"]


@pytest.mark.slow
def test_a_large_page_in_a_thread(site: str, plugged: dict[str, str], tmp_path: Path) -> None:
    Site.poison = b"spin" + b" " * (1 << 19)
    into = tmp_path / "crawl"
    done = run(command(site, into, 1), plugged)
    assert done.returncode == 5 and "has taken 2 s, in lycosa.page.registry.read" in done.stderr, done.stderr
    assert fate(into, f"{site}/") == ["fetched"], "commits went on"


def test_ctrl_c_while_a_page_stalls(site: str, plugged: dict[str, str], tmp_path: Path) -> None:
    Site.poison = b"spin"
    patient(tmp_path)
    process = subprocess.Popen(
        command(site, tmp_path / "crawl", 1),
        env=plugged,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "nothing has moved" in line:
            break
    process.send_signal(signal.SIGINT)
    said = process.stderr.read()
    assert process.wait(240) == 130 and "ended at once" in said
