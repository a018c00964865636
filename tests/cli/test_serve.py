"""`lycosa serve`: the real command, over a real socket."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from lycosa.cli.main import dispatch
from lycosa.errors import ConfigError
from tests.crawl.made import MadeCrawl
from tests.crawl.recorded import FLAGS, chain, serving


@pytest.fixture
def made(tmp_path: Path) -> MadeCrawl:
    made = MadeCrawl(tmp_path / "crawl")
    made.configure()
    made.fetch("http://a.test/")
    made.close()
    return made


def test_the_link_opens_the_token_is_kept_and_ctrl_c_ends_it(made: MadeCrawl, tmp_path: Path) -> None:
    token = tmp_path / "token"
    command = [
        sys.executable,
        "-m",
        "lycosa.cli.main",
        "serve",
        str(made.directory),
        "--token-file",
        str(token),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        assert link.endswith(f"/?token={token.read_text().strip()}") and token.stat().st_mode & 0o777 == 0o600
        with urllib.request.urlopen(link, timeout=170) as answer:
            assert b"Go on" in answer.read()
        base = link.partition("/?")[0]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{base}/api/status", timeout=170)
        asked = urllib.request.Request(
            f"{base}/api/sites", headers={"Authorization": f"Bearer {token.read_text().strip()}"}
        )
        with urllib.request.urlopen(asked, timeout=170) as answer:
            assert [row["site"] for row in json.load(answer)["sites"]] == ["http://a.test"]
        events = urllib.request.Request(
            f"{base}/events", headers={"Authorization": f"Bearer {token.read_text().strip()}"}
        )
        with urllib.request.urlopen(events, timeout=170) as answer:
            words = json.loads(answer.readline().removeprefix(b"data: "))
            assert (words["state"], words["pages"]) == ("unknown", "1")
    finally:
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=170)
    assert "Traceback" not in told
    assert process.returncode in (0, 130)


def refused(*args: str) -> str:
    with pytest.raises(ConfigError) as error:
        from lycosa.cli import main

        module = __import__("lycosa.cli.serve", fromlist=["run"])
        module.run(main.parse("serve", list(args)))
    return str(error.value)


def test_mistakes_are_one_line_each(made: MadeCrawl, tmp_path: Path) -> None:
    where = str(made.directory)
    assert "--public" in refused(where, "--host", "0.0.0.0")
    assert "is not the directory of a crawl" in refused(str(tmp_path))
    assert "nats://127.0.0.1:4222/NAME" in refused("nats://127.0.0.1:4222")
    assert "--into DIR" in refused("nats://127.0.0.1:4222/web")
    assert "for a crawl of a cluster" in refused(where, "--into", str(tmp_path))
    assert "is not available" in refused(where, "--port", "99999")
    short = tmp_path / "short"
    short.write_text("abc")
    assert "holds no token" in refused(where, "--token-file", str(short))
    for place in (tmp_path / "nowhere" / "token", tmp_path):
        assert "cannot use the token file" in refused(where, "--token-file", str(place))
    assert dispatch(["serve", str(tmp_path / "nothing")]) == 2


def test_without_its_libraries_it_says_what_to_install(made: MadeCrawl) -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from lycosa.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "serve", str(made.directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 2 and "pip install 'lycosa[serve]'" in done.stderr


def test_a_crawl_is_served_while_it_runs_and_no_longer(tmp_path: Path) -> None:
    into = tmp_path / "crawl"
    with serving(chain(5_000)) as site:
        words = ["crawl", site.url(), "--into", str(into), *FLAGS, "--agents", "1", "--serve"]
        words += ["--set", "politeness.wait=0.05", "--set", "politeness.pages_per_visit=1"]
        process = subprocess.Popen(
            [sys.executable, "-m", "lycosa.cli.main", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if b"http://127.0.0.1" in line and b"token=" in line)
            base, token = line.decode().strip().split(" ")[-1].split("/?token=")
            asked = urllib.request.Request(f"{base}/api/status", headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(asked, timeout=170) as answer:
                assert json.load(answer)["process"] == process.pid
            process.kill()  # not even this leaves it behind
            process.communicate()
            gone = False
            while not gone:
                try:
                    urllib.request.urlopen(f"{base}/health", timeout=170).close()
                except (OSError, http.client.HTTPException) as error:
                    # A connection that breaks off is a server that is ending; only one that is refused has ended.
                    gone = isinstance(getattr(error, "reason", error), ConnectionRefusedError)
        finally:
            process.kill()
            process.communicate()
