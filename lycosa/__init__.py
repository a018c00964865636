"""Lycosa: a web crawler that never loses its place.

import lycosa

async for page in lycosa.crawl(["https://example.org/"], into="crawls/example", ...):
    print(page.url, page.status, page.title)
"""

from __future__ import annotations

import importlib
from typing import Any

from lycosa.version import VERSION

__version__ = VERSION
__all__ = ["Crawl", "crawl"]


def __getattr__(name: str) -> Any:
    # Imported at first use: the small tools of the command line need none of it.
    if name == "crawl":
        return importlib.import_module("lycosa.crawl")
    if name == "Crawl":
        return importlib.import_module("lycosa.cluster.api").Crawl
    raise AttributeError(f"module 'lycosa' has no attribute {name!r}")
