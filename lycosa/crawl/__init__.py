"""Crawl: how do the rooms become one crawl?

The package is callable: `async for page in lycosa.crawl(seeds, into=...)` is the short form of
`lycosa.crawl.api.Crawl` (which see for the options).
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lycosa.crawl.api import Crawl


class _CallablePackage(ModuleType):
    """Lets `lycosa.crawl` be both this room and the function that crawls."""

    def __call__(self, seeds: Any = (), /, **options: Any) -> Crawl:
        from lycosa.crawl.api import Crawl

        return Crawl(seeds, **options)


sys.modules[__name__].__class__ = _CallablePackage
