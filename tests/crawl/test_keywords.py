"""The options as type checkers see them are those that there are, and a mistake is one to them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lycosa
from tests.crawl.write_keywords import PLACE, written

ROOT = Path(__file__).parent.parent.parent

RIGHT = """
import asyncio
import lycosa

async def main() -> None:
    crawl = lycosa.crawl(
        ["http://a.test/"], into="x", agents=1, shards=4, public=False, allow=["127.0.0.0/8"], visits=8,
        limits={"pages": 10, "seconds": 2}, scope={"mode": "any", "max_depth": None},
        frontier={"boosts": [{"pattern": "x", "levels": 3}]}, splitter={"by": "region", "regions": {"r": ["org"]}},
        fetch={"user_agent": "me", "auth": {"a.test": "u:p"}},
    )
    async for page in crawl:
        reveal_type(page.url)
        reveal_type(page.text)
    end: lycosa.End = await lycosa.Crawl("http://a.test/", into="x").wait()
    for saved in lycosa.open("x").pages(by_time=True):
        reveal_type(saved.body)

asyncio.run(main())
"""
WRONG = {
    "a misspelt table": 'lycosa.crawl("u", into="x", limit={"pages": 1})',
    "a misspelt option": 'lycosa.Crawl("u", into="x", limits={"page": 1})',
    "a wrong type": 'lycosa.Crawl("u", into="x", limits={"pages": "many"})',
    "a wrong word": 'lycosa.Crawl("u", into="x", scope={"mode": "all"})',
    "a string for a list": 'lycosa.Crawl("u", into="x", allow="127.0.0.0/8")',
    "no directory": 'lycosa.Crawl("u")',
    "no such method": 'lycosa.open("x").page()',
}


def test_keywords_are_the_options() -> None:
    """Names and types. After a change of options: python -m tests.crawl.write_keywords"""
    assert PLACE.read_text(encoding="utf-8") == written()


CONFIG = """
[mypy]
strict = true
[mypy-numpy.*,numba.*,rich.*,nats.*,cryptography.*]
follow_imports = skip
[mypy-lycosa.archive.*,lycosa.cluster.*,lycosa.content.*,lycosa.engine.*,lycosa.graph.*,lycosa.index.*,lycosa.log.*]
follow_imports = skip
[mypy-lycosa.fetch.*,lycosa.frontier.*,lycosa.page.*,lycosa.pages.*,lycosa.refresh.*,lycosa.seen.*]
follow_imports = skip
[mypy-lycosa.cluster.api]
follow_imports = normal
"""


def mypy(place: Path, code: str) -> str:
    """What mypy says; what takes it long and what the public names have nothing of is left out."""
    (place / "mypy.ini").write_text(CONFIG, encoding="utf-8")
    (place / "snippet.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "snippet.py"],
        cwd=place,
        env={"MYPYPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return done.stdout + done.stderr


def of_snippet(told: str) -> list[str]:
    """What is said of the snippet itself: without the package's own settings numba, say, has no types."""
    return [line for line in told.splitlines() if line.startswith("snippet.py")]


def test_a_type_checker_knows_the_library(tmp_path: Path) -> None:
    """One run of mypy for what is right and for all that is wrong: its time goes into the library."""
    first = RIGHT.count("\n") + 1
    told = mypy(tmp_path, RIGHT + "\n".join(WRONG.values()))
    lines = of_snippet(told)
    wrong = {int(line.split(":")[1]) for line in lines if ": error:" in line}
    assert min(wrong) >= first, told
    shown = [line.rpartition("type is ")[2] for line in lines if "Revealed type" in line]
    assert [text.strip('"').replace("builtins.", "") for text in shown] == ["str", "str", "bytes | None"], (
        shown
    )
    missed = [what for number, what in enumerate(WRONG, first) if number not in wrong]
    assert not missed, told


def test_what_is_public_is_there() -> None:
    for name in lycosa.__all__:
        assert getattr(lycosa, name) is not None
        assert name in dir(lycosa)
    assert lycosa.SavedCrawl is lycosa.open
    with pytest.raises(AttributeError, match="no attribute 'scrape'"):
        lycosa.scrape  # noqa: B018


def test_importing_the_library_loads_next_to_nothing() -> None:
    code = "import sys, lycosa; print(bool({'numpy', 'numba', 'asyncio', 'msgspec'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
