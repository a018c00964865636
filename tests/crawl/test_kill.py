"""SIGKILL at random moments, again and again: the crawl ends as if nothing had happened.

The moments are counted in pages that were committed, not in seconds: a busy machine is only slower.

The crawl is the command itself, in a process of its own, over real sockets and a real disk.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lycosa.lab.webs import Politeness, Web, preset, serving, violations
from tests.crawl.served import options, outcomes
from tests.crawl.test_truth import check_archive, none

KILLS = 12
MOST = 8
"""Pages that a run is given, at most: so many kills leave something to do for the next."""
WAIT = 0.4


def command(web: Web, directory: Path) -> list[str]:
    toml = directory.parent / "crawl.toml"
    politeness = {"wait": WAIT, "address_wait": 0.02, "factor": 0.0, "pages_per_visit": 3}
    given = options(web, politeness=politeness, snapshot={"records": 150, "seconds": 600.0})
    given["archive"] = {"rotate_bytes": 200_000}
    toml.write_text(as_toml({"seeds": web.seeds(), **given}))
    return [
        sys.executable,
        "-m",
        "lycosa.cli.main",
        "crawl",
        "--config",
        str(toml),
        "--into",
        str(directory),
        "--json",
        "--agents",
        "1",
    ]


def as_toml(given: dict[str, Any]) -> str:
    """Plain values, then tables; JSON's scalars and lists are TOML's."""
    plain = [f"{name} = {json.dumps(value)}" for name, value in given.items() if not isinstance(value, dict)]
    for table, values in given.items():
        if isinstance(values, dict):
            plain.append(f"[{table}]")
            plain += [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    return "\n".join(plain)


def start(args: list[str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    for line in process.stdout:
        if b'"pages"' in line:  # it runs
            return process
    assert process.stderr is not None
    raise AssertionError(process.stderr.read().decode())


@pytest.mark.timeout(900)  # many starts of the command, on a machine that may be busy
@pytest.mark.parametrize("most", [6, pytest.param(KILLS, marks=pytest.mark.slow)])
def test_killed_at_random_moments_the_crawl_still_ends_whole(most: int, tmp_path: Path) -> None:
    random = Random(2026)
    directory = tmp_path / "crawl"
    committed: set[str] = set()
    with serving(preset("tiny")) as served:
        args = command(served.web, directory)
        kills = 0
        while kills < most:
            process = start(args)
            wanted = len(committed) + random.randrange(MOST)
            while process.poll() is None and len(outcomes(directory)) < wanted:
                time.sleep(0.02)
            time.sleep(random.uniform(0.0, 0.3))  # not always at a commit
            if process.poll() is not None:
                break  # it has come to its end, in spite of everything
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            now = set(outcomes(directory))
            assert committed <= now, "a logged fetch was lost"
            committed = now
        assert kills >= min(most, 5), "the crawl ended before it could be killed often: make it longer"
        done = subprocess.run(args, capture_output=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr.decode()
    found = outcomes(directory)
    none(served.web.truth().compare(found))
    check_archive(directory, found)
    rules = Politeness(
        wait=WAIT,
        pages=3,
        address_wait=0.02,
        factor=0.0,
        delays=served.web.delays(),
        same_connection=False,
    )
    none([str(row) for row in violations(served.log(), rules)])
