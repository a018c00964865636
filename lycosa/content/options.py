"""Options for what a crawl learns from contents: variants, near duplicates, traps."""

from __future__ import annotations

from typing import Literal

import msgspec


class VariantOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Rules about URLs that lead to the same page: whether sure ones are applied."""

    apply: bool = False


class DuplicateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Near duplicates of other pages: whether their links are followed."""

    alike: Literal["expand", "leaf"] = "expand"


class TrapOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Patterns of URLs whose pages give nothing new: whether they are quarantined, and which never are."""

    quarantine: bool = False
    patience: int = (
        24  # pages in a row with nothing new; half of it for queries, a third for what looks like a trap
    )
    release: tuple[str, ...] = ()  # patterns that are never quarantined, as `lycosa report` writes them

    def __post_init__(self) -> None:
        if self.patience < 6:
            raise ValueError(f"patience must be at least 6, not {self.patience}")
