"""Amounts as people write and read them: sizes (10GB), durations (1h30m), counts (1.2M)."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime

_SIZES = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def size(text: str) -> int:
    """Bytes: 4096, 64k, 10MB, 1.5GiB."""
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]i?)?b?\s*", text.lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write 500MB or 2GiB")
    return int(float(found[1]) * _SIZES[found[2] or ""])


def duration(text: str) -> float:
    """Seconds: 90, 1.5s, 10m, 1h30m, 2d."""
    plain = re.sub(r"\s", "", text.lower())
    parts = re.findall(r"([0-9]*\.?[0-9]+)(ms|[smhdw]?)", plain)
    whole = "".join(number + unit for number, unit in parts) == plain
    # A number without a unit means seconds, and must be the only part.
    if not parts or not whole or (len(parts) > 1 and not all(unit for _, unit in parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write 30s, 10m or 1h30m")
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))


def rate(text: str) -> float:
    """How many per day: 5000, 5000/d, 300/h, 2/s."""
    number, slash, unit = text.replace(" ", "").lower().partition("/")
    try:
        count = float(number)
    except ValueError:
        count = -1.0
    if not 0 <= count < float("inf") or (slash and unit not in ("s", "m", "h", "d", "w")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate; write 5000/d, 300/h or 2/s")
    return count * 86_400.0 / _SECONDS[unit or "d"]


def show_size(count: float) -> str:
    """1,234 -> 1.2 kB."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def show_count(count: float) -> str:
    """12345 -> 12,345."""
    return f"{count:,.0f}"


def show_time(seconds: float) -> str:
    """A time as 2026-05-01 12:30:00Z: in UTC, as in the log and in the archive."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "never"


def counted(count: int, one: str, many: str = "") -> str:
    """1 page, 1,234 pages."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def show_duration(seconds: float) -> str:
    """3725 -> 1h02m."""
    seconds = max(seconds, 0)
    if seconds < 10:
        return f"{seconds:.1f}s"
    if seconds < 60:
        return f"{seconds:.0f}s"
    if seconds < 3600:
        return f"{int(seconds // 60)}m{int(seconds % 60):02d}s"
    if seconds < 86400:
        return f"{int(seconds // 3600)}h{int(seconds % 3600 // 60):02d}m"
    return f"{int(seconds // 86400)}d{int(seconds % 86400 // 3600):02d}h"
