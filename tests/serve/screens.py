"""Pictures of every page, in a real Chromium: of a crawl that runs, and of the same crawl when it has ended.

    python -m tests.serve.screens OUT [--pages N] [--of DIR] [--docs]

makes OUT/NAME-WHEN-WIDTH-SCHEME.png for each page, 400 and 1,440 pixels wide, light and dark; with `--docs` those
of docs/images, light and 1,000 wide. The crawl is of a synthetic web of so many pages on loopback, served by this
process; nothing else is asked. `--of` takes the pictures of a crawl that is there already, as it stands; pictures
of docs/images are of one of 100,000 pages.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from lycosa.ask.reading import CrawlReader
from lycosa.crawl.status import read_status
from lycosa.lab.webs import WebOptions, serving
from lycosa.serve.sites import Sites
from tests.crawl.served import options
from tests.crawl.test_kill import as_toml
from tests.serve.browser import Browser
from tests.serve.small_png import small

ENOUGH = 0.4
"""The share of the pages after which the running crawl is looked at."""
_MADE = (
    "document.readyState === 'complete' && !!document.querySelector('main')"
    " && !document.querySelector('[data-waits]')"
)
_SHOW_FRAME = (
    "new Promise((there) => { const frame = document.querySelector('iframe'); if (!frame) return there();"
    " frame.addEventListener('load', () => { scrollTo(0, 0); there(); }); frame.loading = 'eager';"
    " frame.src = frame.src; })"
)
"""The archived page is loaded when it is seen; here it is to be in the picture."""
DOCS = {
    "running": ("now", "sites", "site", "control"),
    "ended": ("url", "graph", "search", "report", "lab"),
}
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
        "search": "/search?q=zushea",
        "report": "/report",
        "control": "/control",
    }


def web(pages: int) -> WebOptions:
    """A web of so many pages, of all kinds."""
    return WebOptions(
        hosts=max(pages // 40, 40),
        pages=pages,
        page_bytes=3_000,
        links=20,
        local_share=0.6,
        kinds=("robots", "redirects", "copies", "statuses", "slow"),
        slow_ms=30,
        crawl_delay=0.5,
    )


def busiest(into: Path) -> str:
    """The site with the most pages."""
    reader = CrawlReader(into)
    sites = Sites(reader, None)
    sites.catch_up()
    return sites.page()[0].site


def take(browser: Browser, link: str, url: str, out: Path, when: str, docs: bool) -> None:
    base = link.split("/?")[0]
    browser.enter(link)
    looks = ((1000, False),) if docs else ((400, False), (400, True), (1440, False), (1440, True))
    for name, path in pages(url).items():
        if docs and name not in DOCS[when]:
            continue
        for width, dark in looks:
            browser.look(width, dark=dark)
            browser.open(base + path)
            browser.until(lambda: browser.js(_MADE))
            browser.js(_SHOW_FRAME)
            scheme = "dark" if dark else "light"
            if docs:
                browser.shot(out / f"{name}.png", tall=900, scale=0.64)
                (out / f"{name}.png").write_bytes(small((out / f"{name}.png").read_bytes()))
            else:
                browser.shot(out / f"{name}-{when}-{width}-{scheme}.png")


def looked_at(into: Path, browser: Browser, out: Path, when: str, docs: bool) -> None:
    """Pictures of a crawl as it stands."""
    with served(into) as link:
        take(browser, link, busiest(into) + "/", out, when, docs)


def main(out: Path, amount: int, docs: bool) -> None:
    with tempfile.TemporaryDirectory() as place, serving(web(amount)) as served_web, Browser() as browser:
        into = Path(place) / "crawl"
        toml = Path(place) / "crawl.toml"
        toml.write_text(as_toml({"seeds": served_web.web.seeds(), **options(served_web.web)}))
        words = [*COMMAND, "crawl", "--config", str(toml), "--into", str(into), "--agents", "1", *WAITS]
        crawl = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while (
            status := read_status(into) if into.is_dir() else None
        ) is None or status.pages < ENOUGH * amount:
            if crawl.poll() is not None:
                break
            time.sleep(0.5)
        looked_at(into, browser, out, "running", docs)
        if not docs:
            crawl.terminate()
        crawl.wait()
        for verb in (["graph", "build"], ["index"]):
            subprocess.run([*COMMAND, *verb, str(into)], check=True, stdout=subprocess.DEVNULL)
        looked_at(into, browser, out, "ended", docs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--pages", type=int, default=4_000)
    parser.add_argument("--of", type=Path, help="a crawl that is there already")
    parser.add_argument("--docs", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.of is None:
        main(given.out, given.pages, given.docs)
    else:
        running = CrawlReader(given.of).is_running()
        with Browser() as one:
            looked_at(given.of, one, given.out, "running" if running else "ended", given.docs)
