"""msgspec crashes the process if two threads are the first to decode a struct at the same time: what it knows of
the struct is found half made. Shards recover in threads, so what recovery decodes has its decoder from the import.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lycosa

PARTS = (
    *(
        "crawl/shard.py",
        "crawl/totals.py",
        "crawl/budgets.py",
        "crawl/sites.py",
        "crawl/config.py",
        "crawl/status.py",
    ),
    *(
        "crawl/manifest.py",
        "frontier/packed/frontier.py",
        "frontier/sydney/left_packed.py",
        "frontier/waits/calendar.py",
    ),
    *("content/yields.py", "ask/reading.py"),
)


@pytest.mark.parametrize("part", PARTS)
def test_structs_that_threads_decode_have_decoders_of_their_module(part: str) -> None:
    text = Path(lycosa.__path__[0], part).read_text(encoding="utf-8")
    structs = set(re.findall(r"^class (\w+)\(msgspec\.Struct", text, re.M))
    late = [
        found
        for found in re.findall(r"msgspec\.(?:json|msgpack)\.decode\([^\n]*type=(\w+)", text)
        if found in structs
    ]
    assert not late
    assert "Decoder(" in text
