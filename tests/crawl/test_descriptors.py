"""A crawl of many hosts with few descriptors: all are fetched, none is given up."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

from lycosa.crawl import descriptors
from tests.crawl.counted import counted, page

HOSTS = 320
LIMIT = 150


def limited(soft: int, hard: int, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python under a limit of open files."""
    shell = f'ulimit -S -n {soft} && ulimit -H -n {hard} && exec "$@"'
    return subprocess.run(
        ["sh", "-c", shell, "sh", sys.executable, *command], capture_output=True, text=True, timeout=280
    )


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    code = "from lycosa.crawl.descriptors import raise_limit as r; print(r(), r())"
    assert limited(100, 300, "-c", code).stdout.split() == ["300", "300"]
    assert limited(300, 300, "-c", code).stdout.split() == ["300", "300"]


def test_visits_fit_the_limit() -> None:
    taken = sum(1 for _ in Path("/dev/fd").iterdir())
    assert descriptors.fitting(256, 16, 65_536) == 256
    assert descriptors.fitting(256, 16, 1024 + taken) == 256, "the usual limit is enough for the usual visits"
    few = descriptors.fitting(256, 16, 200 + taken)
    assert 10 <= few < 60
    assert descriptors.fitting(256, 16, taken) == 1, "never none"
    assert descriptors.connections(few) + few + taken < 200 + taken


def test_more_hosts_than_descriptors(tmp_path: Path) -> None:
    names = {f"h{n}.test": f"127.0.{n // 250 + 1}.{n % 250 + 1}" for n in range(HOSTS)}
    (tmp_path / "hosts").write_text("".join(f"{at} {name}\n" for name, at in names.items()))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft > HOSTS, "this test's own server needs more than the crawl gets"
    with counted(
        lambda path, head: (
            page(b"", b"X: y", status=b"404 No" if path == "/robots.txt" else b"200 OK"),
            True,
        )
    ) as site:
        (tmp_path / "seeds").write_text("".join(f"http://{name}:{site.port}/\n" for name in names))
        ran = limited(
            LIMIT, LIMIT, "-m", "lycosa.cli.main", "crawl", "--seeds", str(tmp_path / "seeds"),
            "--resolve-file", str(tmp_path / "hosts"), "--into", str(tmp_path / "crawl"), "--private",
            "--allow", "private", "--agents", "1", "--json", "--wait", "0", "--set", "politeness.factor=0",
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    last = json.loads(ran.stdout.splitlines()[-1])
    assert last["pages"] == HOSTS and not last["skipped"] and not last["deferred"], last
    assert f"limit of {LIMIT} open files leaves room for" in ran.stdout
    assert set(site.most.values()) == {1}
