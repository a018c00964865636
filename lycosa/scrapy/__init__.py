"""Scrapy integration: a scheduler that keeps requests in a Lycosa log, and an archive of answers.

See `lycosa.scrapy.scheduler` and `lycosa.scrapy.archive`.

SCHEDULER = "lycosa.scrapy.Scheduler"
DOWNLOADER_MIDDLEWARES = {"lycosa.scrapy.Archive": 950}
LYCOSA_DIR = "crawls/quotes"
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from lycosa.scrapy.archive import Archive
    from lycosa.scrapy.scheduler import Scheduler

__all__ = ["Archive", "Scheduler"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'lycosa.scrapy' has no attribute {name!r}")
    try:
        if name == "Archive":
            from lycosa.scrapy.archive import Archive

            return Archive
        from lycosa.scrapy.scheduler import Scheduler
    except ModuleNotFoundError as error:
        raise ConfigError(f"Scrapy is not installed ({error}): pip install 'lycosa[scrapy]'") from None
    return Scheduler
