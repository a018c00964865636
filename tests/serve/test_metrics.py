"""The crawl for Prometheus."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import msgspec
import pytest

from lycosa.ask.standing import Standing
from lycosa.crawl.status import STATUS, Status
from lycosa.serve.metrics import exposition
from tests.crawl.made import MadeCrawl

LINE = re.compile(r'[a-z_]+(\{[a-z]+="(?:[^"\\\n]|\\.)*"\})? -?[0-9.e+]+')


@pytest.fixture
def made(tmp_path: Path) -> MadeCrawl:
    made = MadeCrawl(tmp_path)
    made.configure()
    made.close()
    return made


def status() -> Status:
    return Status(
        at=time.time(),
        pid=os.getpid(),
        state="running",
        elapsed=2.5,
        pages=7,
        pages_run=7,
        bytes=100,
        links=9,
        duplicates=1,
        statuses={"2xx": 6, "4xx": 1},
        skipped={"robots": 3},
        errors={'odd "kind"\n\\': 2},
        pending=11,
        left_behind=0,
        deferred=2,
        visits=4,
        hosts=5,
        rss=1 << 20,
        memory_limit=1 << 30,
        page_limit=0,
        meters={},
        fetches=8,
    )


def test_every_line_is_of_the_format_and_every_name_has_its_help(made: MadeCrawl) -> None:
    (made.directory / STATUS).write_bytes(msgspec.json.encode(status()))
    text = exposition(Standing(made.reader()))
    assert text.endswith("\n")
    names: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# "):
            names.add(line.split()[2])
        else:
            assert LINE.fullmatch(line), line
            assert re.match(r"[a-z_]+", line)[0] in names  # type: ignore[index]
    assert "lycosa_pages_total 7" in text and 'lycosa_answers_total{class="4xx"} 1' in text
    assert 'lycosa_failures_total{kind="odd \\"kind\\"\\n\\\\"} 2' in text
    assert "lycosa_up 0" in text and "lycosa_visits 0" in text, "nobody holds the lock: it was killed"


def test_a_crawl_that_left_no_status(made: MadeCrawl) -> None:
    assert exposition(Standing(made.reader())).splitlines()[-1] == "lycosa_up 0"
