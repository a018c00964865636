"""SIGKILL in a continuous crawl: due times and histories are those of the log, after each.

The crawl is the command itself, in a process of its own, of a web whose pages change; the moments are counted in
fetches that were committed.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import time
from pathlib import Path
from random import Random

import pytest

from lycosa.ask.reading import CrawlReader
from lycosa.crawl.agent import build
from lycosa.files import DiskFiles
from lycosa.lab.webs import Web, WebOptions, serving
from lycosa.records import Before, Fetched
from tests.crawl.served import options
from tests.crawl.test_continuous import check_folds
from tests.crawl.test_kill import as_toml, start

WEB = WebOptions(
    hosts=4, pages=40, page_bytes=1500, kinds=("changes",), change_share=0.5, change_rates=(1.0, 0.05)
)
PATIENCE = 600.0


def command(web: Web, directory: Path) -> list[str]:
    toml = directory.parent / "crawl.toml"
    politeness = {"wait": 0.05, "address_wait": 0.0, "factor": 0.0, "pages_per_visit": 5}
    given = options(
        web, politeness=politeness, snapshot={"records": 60, "seconds": 600.0}, commit_seconds=0.2
    )
    given["refresh"] = {"continuous": True, "per_page": 200_000.0, "shortest": 0.2}
    toml.write_text(as_toml({"seeds": web.seeds(), **given}))
    words = ["crawl", "--config", str(toml), "--into", str(directory), "--json", "--agents", "1"]
    return [sys.executable, "-m", "lycosa.cli.main", *words]


def fetches(directory: Path) -> dict[tuple[int, int], Fetched]:
    rows = CrawlReader(directory).records()
    return {(shard, position): row for shard, position, row in rows if isinstance(row, Fetched)}


async def check(directory: Path, scratch: Path) -> None:
    """Recover a copy of what the killed process left, as the next one would."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(directory, scratch)
    given = CrawlReader(scratch).options()
    assert given is not None
    check_folds(build(DiskFiles(scratch), given))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_due_times_and_histories_outlive_kills(kills: int, tmp_path: Path) -> None:
    random = Random(kills)
    directory = tmp_path / "crawl"
    known: dict[tuple[int, int], Fetched] = {}
    with serving(WEB) as served:
        args = command(served.web, directory)
        for _ in range(kills):
            process = start(args)
            try:
                wanted, end = len(known) + random.randrange(10, 60), time.monotonic() + PATIENCE
                while len(fetches(directory)) < wanted:
                    assert process.poll() is None and time.monotonic() < end, "it should come back for ever"
                    time.sleep(0.05)
                time.sleep(random.uniform(0.0, 0.3))  # not always at a commit
            finally:
                process.send_signal(signal.SIGKILL)
                process.communicate()
            now = fetches(directory)
            assert {place: now.get(place) for place in known} == known, "a logged fetch was lost"
            known = now
            asyncio.run(check(directory, tmp_path / "copy"))
    again = [row for row in known.values() if row.before is Before.PAGE]
    assert len(again) > kills * 3, "it did come back"
