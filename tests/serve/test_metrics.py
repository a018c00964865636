"""The crawl for Prometheus."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
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


def test_the_parser_of_prometheus_reads_it(made: MadeCrawl) -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed")
    (made.directory / STATUS).write_bytes(msgspec.json.encode(status()))
    families = {
        row.name: row for row in parser.text_string_to_metric_families(exposition(Standing(made.reader())))
    }
    assert families["lycosa_pages"].type == "counter" and families["lycosa_pages"].samples[0].value == 7
    assert all(row.documentation for row in families.values())
    (odd,) = families["lycosa_failures"].samples
    assert odd.labels == {"kind": 'odd "kind"\n\\'}


def test_the_dashboard_asks_for_what_there_is(made: MadeCrawl) -> None:
    (made.directory / STATUS).write_bytes(msgspec.json.encode(status()))
    text = exposition(Standing(made.reader()))
    dashboard = (Path(__file__).parents[2] / "deploy" / "grafana.json").read_text()
    names = set(re.findall(r"lycosa_[a-z_]+", dashboard))
    assert len(names) > 12
    assert not {name for name in names if f"# TYPE {name} " not in text}
    labels = set(re.findall(r"sum by \((\w+)\)", dashboard))
    assert all(f'{{{label}="' in text for label in labels)


def test_promtool_has_nothing_to_say(made: MadeCrawl) -> None:
    """The check of the ecosystem itself, where it is installed (Debian: prometheus)."""
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed")
    (made.directory / STATUS).write_bytes(msgspec.json.encode(status()))
    text = exposition(Standing(made.reader()))
    done = subprocess.run([tool, "check", "metrics"], input=text.encode(), capture_output=True, timeout=170)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
