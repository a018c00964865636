"""The guide's reference of options is complete: every option, its default, and every flag of `lycosa crawl`."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from lycosa.cli import crawl
from lycosa.crawl.config import Options
from lycosa.version import VERSION

GUIDE = Path(__file__).parent.parent / "docs" / "guide.md"
ROW = re.compile(r"\| `([a-z0-9_.]+)` \| (`[^|]*`|none) \| (`--[a-z-]+`)? ?\| ([^|]+) \|")


def shown(value: Any) -> str:
    """A default as the guide shows it: as TOML would have it."""
    if value is None:
        return "none"
    if isinstance(value, int) and not isinstance(value, bool) and value >= 10_000:
        return f"`{value:_}`"
    text = json.dumps(list(value) if isinstance(value, tuple) else value)
    return f"`{text.replace(VERSION, 'VERSION')}`"


def options(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every option with its default, tables opened."""
    made = kind()
    for field in msgspec.structs.fields(kind):
        value = getattr(made, field.name)
        if isinstance(value, msgspec.Struct):
            yield from options(type(value), f"{prefix}{field.encode_name}.")
        else:
            yield f"{prefix}{field.encode_name}", shown(value)


def rows() -> dict[str, tuple[str, str]]:
    """The rows of the reference: option -> default and flag."""
    text = GUIDE.read_text(encoding="utf-8")
    section = text.partition("\n## All options\n")[2].partition("\n## ")[0]
    return {found[1]: (found[2], found[3] or "") for found in ROW.finditer(section)}


def flags() -> set[str]:
    """The flags of `lycosa crawl`."""
    parser = argparse.ArgumentParser()
    crawl.configure(parser)
    return {name for action in parser._actions for name in action.option_strings if name.startswith("--")}


def test_every_option_is_in_the_guide_with_its_default() -> None:
    wanted = dict(options(Options))
    # Kept by the program, not the operator.
    wanted = {
        name: told
        for name, told in wanted.items()
        if name not in ("near", "near_files") and not name.startswith("steered.")
    }
    told = {name: default for name, (default, _) in rows().items()}
    assert told == wanted


def test_flags_in_the_reference_exist() -> None:
    told = {flag.strip("`") for _, flag in rows().values() if flag}
    assert told <= flags()


def test_every_flag_of_crawl_is_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    missing = [flag for flag in sorted(flags()) if f"`{flag}" not in text and f"{flag} " not in text]
    assert not missing
