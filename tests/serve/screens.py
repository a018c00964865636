"""Pictures of every page, in a real Chromium: of a crawl that runs, and of the same crawl when it has ended.

    python -m tests.serve.screens OUT [--docs]

makes OUT/NAME-WHEN-WIDTH-SCHEME.png for each page, 400 and 1,600 pixels wide, light and dark; with `--docs` those
of docs/images, light and 1,000 wide. The crawl is of a synthetic web on loopback, served by this process; nothing
else is asked.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from lycosa.crawl.status import read_status
from lycosa.lab.webs import WebOptions, serving
from tests.crawl.served import options
from tests.crawl.test_kill import as_toml
from tests.serve.browser import Browser
from tests.serve.small_png import small

WEB = WebOptions(
    hosts=40,
    pages=4_000,
    page_bytes=3_000,
    links=20,
    local_share=0.6,
    kinds=("robots", "redirects", "copies", "statuses", "slow"),
    slow_ms=30,
    crawl_delay=0.5,
)
ENOUGH = 1_500
"""Pages after which the running crawl is looked at."""
DOCS = {"running": ("now", "site", "control"), "ended": ("url", "graph", "search")}
"""The pictures of docs/images."""
COMMAND = [sys.executable, "-m", "lycosa.cli.main"]
WAITS = [
    "--set",
    "politeness.wait=0.4",
    "--set",
    "politeness.factor=1",
    "--set",
    "politeness.address_wait=0.01",
]


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """`lycosa serve` of a crawl; its link."""
    process = subprocess.Popen(
        [*COMMAND, "serve", str(directory)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().decode().strip()
    finally:
        process.terminate()
        process.communicate()


def pages(seed: str) -> dict[str, str]:
    """The pages, by name."""
    site = seed.rstrip("/")
    return {
        "now": "/",
        "sites": "/sites",
        "site": f"/site?s={quote(site, safe='')}",
        "url": f"/url?u={quote(seed, safe='')}",
        "graph": "/graph",
        "lab": "/lab",
        "search": "/search?q=page",
        "report": "/report",
        "control": "/control",
    }


def take(browser: Browser, link: str, seed: str, out: Path, when: str, docs: bool) -> None:
    base = link.split("/?")[0]
    browser.enter(link)
    looks = ((1000, False),) if docs else ((400, False), (400, True), (1600, False), (1600, True))
    for name, path in pages(seed).items():
        if docs and name not in DOCS[when]:
            continue
        browser.open(base + path)
        for width, dark in looks:
            browser.look(width, dark=dark)
            scheme = "dark" if dark else "light"
            if docs:
                browser.shot(out / f"{name}.png", tall=900, scale=0.64)
                (out / f"{name}.png").write_bytes(small((out / f"{name}.png").read_bytes()))
            else:
                browser.shot(out / f"{name}-{when}-{width}-{scheme}.png")


def main(out: Path, docs: bool) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, serving(WEB) as served_web, Browser() as browser:
        into = Path(place) / "crawl"
        toml = Path(place) / "crawl.toml"
        toml.write_text(as_toml({"seeds": served_web.web.seeds(), **options(served_web.web)}))
        words = [*COMMAND, "crawl", "--config", str(toml), "--into", str(into), "--agents", "1", *WAITS]
        crawl = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while (status := read_status(into) if into.is_dir() else None) is None or status.pages < ENOUGH:
            if crawl.poll() is not None:
                break
            time.sleep(0.5)
        seed = served_web.web.seeds()[0]
        with served(into) as link:
            take(browser, link, seed, out, "running", docs)
        crawl.terminate()
        crawl.wait()
        for verb in (["graph", "build"], ["index"]):
            subprocess.run([*COMMAND, *verb, str(into)], check=True, stdout=subprocess.DEVNULL)
        with served(into) as link:
            take(browser, link, seed, out, "ended", docs)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--docs" in sys.argv[2:])
