"""Lycosa: a web crawler that never loses its place.

import lycosa

async for page in lycosa.crawl(["https://example.org/"], into="crawls/example", ...):
    print(page.url, page.status, page.title)

for page in lycosa.open("crawls/example").pages():
    print(page.url, page.text)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lycosa.version import VERSION

if TYPE_CHECKING:
    from lycosa.ask.saved import SavedCrawl, SavedPage
    from lycosa.ask.saved import SavedCrawl as open  # noqa: A004, N813
    from lycosa.cluster.api import Crawl
    from lycosa.cluster.api import Crawl as crawl  # noqa: N813 - it is called, as a function is
    from lycosa.crawl.agent import End
    from lycosa.crawl.pages import FetchedPage
    from lycosa.crawl.steering import Steering
    from lycosa.crawl.steering import Steering as steer  # noqa: N813
    from lycosa.errors import ConfigError, LocalError, LycosaError, StorageError

__version__ = VERSION
__all__ = [
    "ConfigError",
    "Crawl",
    "End",
    "FetchedPage",
    "LocalError",
    "LycosaError",
    "SavedCrawl",
    "SavedPage",
    "Steering",
    "StorageError",
    "crawl",
    "open",
    "steer",
]

_PLACES = {
    "ConfigError": "lycosa.errors",
    "Crawl": "lycosa.cluster.api",
    "End": "lycosa.crawl.agent",
    "FetchedPage": "lycosa.crawl.api",
    "LocalError": "lycosa.errors",
    "LycosaError": "lycosa.errors",
    "SavedCrawl": "lycosa.ask.saved",
    "SavedPage": "lycosa.ask.saved",
    "Steering": "lycosa.crawl.steering",
    "StorageError": "lycosa.errors",
}


def __getattr__(name: str) -> Any:
    # Imported at first use: the small tools of the command line need none of it.
    if name == "crawl":
        return importlib.import_module("lycosa.crawl")
    if name == "open":
        return importlib.import_module("lycosa.ask.saved").SavedCrawl
    if name == "steer":
        return importlib.import_module("lycosa.crawl.steering").Steering
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'lycosa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
