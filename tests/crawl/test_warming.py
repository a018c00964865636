"""After warming a crawl compiles nothing and loads no kernel: its event loop never waits for that."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

import lycosa
from lycosa.crawl import api
from lycosa.crawl.agent import End
from lycosa.crawl.config import Options
from lycosa.errors import ConfigError, LycosaError
from lycosa.files import DirectoryLock
from tests.crawl.recorded import OPTIONS, chain, serving

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("which", ["all", "depth", "batch", "veuniq", "continuous", "leaf", "traps"])
def test_a_warmed_crawl_meets_no_new_kernel(which: str) -> None:
    """In a process of its own: in this one other tests have called every kernel already."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.crawl.warmed", which],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"never": [], "later": {}}


def test_a_crawl_loads_no_compiler(tmp_path: Path) -> None:
    """Its kernels come from the image that the process before it has left, if there was none."""
    code = (
        "import sys; from lycosa.cli.main import main; sys.argv[1:] = sys.argv[1].split(); assert main() == 0;"
        "print([name for name in ('numba', 'rich', 'nats', 'pyarrow', 'scipy') if name in sys.modules])"
    )
    with serving(chain(3)) as site:
        for number in range(2):
            into = tmp_path / str(number)
            here = "--private --allow 127.0.0.0/8 --own-site --set dns.resolve=['*:127.0.0.1']"
            words = f"crawl {site.url()} {here} --into {into}"
            done = subprocess.run(
                [sys.executable, "-c", code, words],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=280,
                check=False,
            )
            assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


async def test_no_temporary_directory_does_not_stop_a_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(chain(3)) as site, monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
        assert await lycosa.Crawl(site.url(), into=tmp_path / "c", **OPTIONS).wait() is End.FINISHED
    assert [row.message for row in caplog.records if "set TMPDIR" in row.message]


async def test_a_directory_that_cannot_be_had_is_refused_before_anything_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "warm", lambda options: pytest.fail("this may take a minute"))
    lock = DirectoryLock(tmp_path / "taken")
    for into in (tmp_path / "taken", Path("/proc/nowhere")):
        with pytest.raises(LycosaError):
            await lycosa.Crawl("http://a.test/", into=into, **OPTIONS).start()
    lock.release()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"frontier": {"scorer": "nowhere.py:score"}}, "there is no file nowhere.py"),
        ({"frontier": {"order": "optimal", "oracle": "/nowhere"}}, "cannot read /nowhere"),
        ({"agents": 20}, "20 agents are too many for 16 shards"),
        ({"agents": 3, "shards": 2}, "3 agents are too many for 2 shards"),
    ],
)
async def test_mistakes_are_told_before_anything_is_compiled(
    options: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "warm", lambda options: pytest.fail("this may take a minute"))
    with pytest.raises(ConfigError, match=words):
        await lycosa.Crawl("http://a.test/", into=tmp_path / "c", **{**OPTIONS, **options}).start()
    assert not (tmp_path / "c").exists()


async def test_the_library_warms_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop runs on meanwhile: what waits for it is what ends the warming."""
    turned = threading.Event()
    warmed: list[Options | None] = []

    def warm(options: Options | None = None) -> None:
        assert turned.wait(170), "the loop stands still"
        warmed.append(options)

    monkeypatch.setattr(api, "warm", warm)
    with serving(chain(3)) as site:
        crawl = lycosa.Crawl(site.url(), into=tmp_path, **OPTIONS)
        starting = asyncio.create_task(crawl.start())
        await asyncio.sleep(0.01)
        turned.set()
        await starting
        await crawl.wait()
    assert len(warmed) == 1 and warmed[0] is not None
