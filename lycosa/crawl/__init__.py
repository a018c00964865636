"""Crawl: how do the rooms become one crawl?

The package is callable: `async for page in lycosa.crawl(seeds, into=...)` is the short form of `lycosa.Crawl` (see
`lycosa.crawl.api`).
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """Makes `lycosa.crawl` both this package and the function that crawls."""

    def __call__(self, *seeds: Any, **options: Any) -> Any:
        # Imported by name: the class that can have several agents belongs to a room above this one.
        return importlib.import_module("lycosa.cluster.api").Crawl(*seeds, **options)


sys.modules[__name__].__class__ = _CallablePackage
