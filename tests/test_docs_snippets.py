"""The Python of the guide runs: the crawl and its reading, and the package that extends the crawler."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.lab.webs import for_this_machine, preset, serving

GUIDE = Path(__file__).parent.parent / "docs" / "guide.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)

MENU = (
    "iHello\t\tnowhere\t70\r\n0About\t/about.txt\tgopher.test\t{port}\r\n"
    "1More\t/more\tgopher.test\t{port}\r\n.\r\n"
)
MORE = "0Last one\t/last.txt\tgopher.test\t{port}\r\n.\r\n"


def fences(section: str, language: str) -> list[str]:
    """The code of one language in a section of the guide."""
    text = GUIDE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = [code for name, code in FENCE.findall(text) if name == language]
    assert found, f"the section {section} has no {language}"
    return found


def run(code: str, directory: Path, *path: Path) -> str:
    """Run Python in a process of its own, as a reader would."""
    script = directory / "snippet.py"
    script.write_text(code, encoding="utf-8")
    before = f"import sys; sys.path[:0] = {[str(p) for p in path]!r}; "
    runner = before + "import runpy; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", runner, str(script)],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_crawling_from_python(tmp_path: Path) -> None:
    crawling, running, reading, filtering, counting, following = fences("From Python", "python")
    with serving(for_this_machine(preset("tiny"))) as served:
        port = served.web.options.port
        pages = run(crawling.replace(":8123/", f":{port}/"), tmp_path).splitlines()
        ran = run(running.replace(":8123/", f":{port}/"), tmp_path).splitlines()
    assert len(pages) == 10
    assert len(ran) == 6 and ran[-1] == "limit 0 []" and all("['" in line for line in ran[:-1])
    pages += [f"200 {line}" for line in ran[:-1]]
    assert pages[0].startswith(f"200 http://site0.test:{port}/ ")
    read = run(reading, tmp_path).splitlines()
    assert [line.split()[:2] for line in read] == [line.split()[:2] for line in pages]
    assert int(read[0].split()[2]) > 100, "the body's length"
    *found, fetch, table, links = run(filtering.replace(":8123/", f":{port}/"), tmp_path).splitlines()
    assert 5 < len(found) < 15 and all("/koquum/" in line for line in found)
    assert fetch.split()[1:4] == ["200", "1", "False"] and fetch.split()[4] == "text/html;"
    assert table == "15 ['shard', 'position', 'at', 'url']" and int(links) > 100
    assert run(counting, tmp_path).startswith("Counter({")
    followed = run(following, tmp_path).splitlines()
    assert sorted(line.split()[3] for line in followed) == sorted(line.split()[1] for line in pages)
    assert run(following, tmp_path) == "", "its place was kept"


@pytest.fixture
def burrow() -> Iterator[int]:
    """A gopher server, and its port."""
    ready = threading.Event()
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    port = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        selector = (await reader.readline()).strip().decode()
        text = {"": MENU, "/more": MORE}.get(selector, f"text of {selector}\r\n")
        writer.write(text.replace("{port}", str(port)).encode())
        await writer.drain()
        writer.close()

    async def serve() -> None:
        nonlocal port
        ended = asyncio.Event()
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            stop.append((asyncio.get_running_loop(), ended))
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(240)
    yield port
    loop, ended = stop[0]
    loop.call_soon_threadsafe(ended.set)
    thread.join(170)


CRAWL = """\
import asyncio, lycosa

async def main():
    crawl = lycosa.Crawl(["file://{directory}/index.html"], into="crawl", public=False, allow=["127.0.0.0/8"],
        scope={"mode": "any", "schemes": ["file", "gopher"]}, dns={"resolve": ["gopher.test:127.0.0.1"]},
        politeness={"wait": 0.0, "address_wait": 0.0, "factor": 0.0})
    async with crawl:
        async for page in crawl:
            print(page.type, page.url, [link.text for link in page.links])

asyncio.run(main())
"""


def test_a_package_adds_a_scheme_and_a_media_type(tmp_path: Path, burrow: int) -> None:
    (project,) = fences("Extending", "toml")
    (module,) = fences("Extending", "python")
    package = tmp_path / "package"
    package.mkdir()
    (package / "lycosa_gopher.py").write_text(module, encoding="utf-8")
    # What an installer makes of the project's table.
    installed = package / "lycosa_gopher-0.1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: lycosa-gopher\nVersion: 0.1\n")
    points = re.findall(r'entry-points\."([\w.]+)"\]\n"?([^"\s]+)"? = "([\w.:]+)"', project)
    assert [group for group, _, _ in points] == ["lycosa.fetchers", "lycosa.parsers"]
    text = "".join(f"[{group}]\n{name} = {value}\n" for group, name, value in points)
    (installed / "entry_points.txt").write_text(text)
    (tmp_path / "index.html").write_text(f'<a href="gopher://gopher.test:{burrow}/1">the burrow</a>')
    told = run(CRAWL.replace("{directory}", str(tmp_path)), tmp_path, package)
    root = f"gopher://gopher.test:{burrow}"
    assert sorted(told.splitlines()) == sorted(
        [
            f"text/html file://{tmp_path}/index.html ['the burrow']",
            f"text/x-gopher-menu {root}/1 ['About', 'More']",
            f"text/x-gopher-menu {root}/1/more ['Last one']",
            f"text/plain {root}/0/about.txt []",
            f"text/plain {root}/0/last.txt []",
        ]
    )
