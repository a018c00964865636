"""Records as JSON: the form in which `log`, `export` and `report` hand them to other programs.

    time       "2026-05-01T12:30:00.250Z", UTC, or null where the record has none (0)
    digest     16 hexadecimal digits (JSON's numbers do not hold 64 bits), or null for an empty body; the
               `digests` of Received are a list of them
    links      per `Shown`: their number; or a list of {"url", "kind", "nofollow", "text"}; or left out.
               Those of Received have "depth" and "hops" too.
    body       of Robots: the text, if its bytes are UTF-8; else "body_base64" instead
    options    of Configured: the object itself. Passwords, cookies and headers that the operator gave are
               replaced by "..." (logs get sent to others); the crawl's own files keep them.

Every other field has the same name and value as in `lycosa.records`.

All JSON that a verb writes passes through `safe`: much of its text was written by strangers, and a terminal may
show it. Control characters, those that change the direction of text, and all others of Unicode's categories Cc,
Cf, Cs, Zl and Zp are written as \\uXXXX. Decoded, the document is the same.
"""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from lycosa.records import (
    Configured,
    Deferred,
    Duplicates,
    Fetched,
    Learned,
    Links,
    Lost,
    Received,
    Record,
    Rendered,
    Reread,
    Robots,
    Seeded,
    Skipped,
    Stored,
    Timing,
)

_SECRET = "..."
_INNER = (Stored, Timing, Rendered)
"""Structs that are values of a record's fields."""
_USERINFO = re.compile(r"(?<=://)[^/@]*@")

_UNSAFE = re.compile(
    "[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\udfff\ufeff\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)

KINDS: dict[str, type[Record]] = {
    "configured": Configured,
    "seeded": Seeded,
    "received": Received,
    "fetched": Fetched,
    "skipped": Skipped,
    "deferred": Deferred,
    "robots": Robots,
    "duplicates": Duplicates,
    "lost": Lost,
    "reread": Reread,
    "learned": Learned,
}
"""Record types by their name on the command line and in JSON."""


class Shown(StrEnum):
    """How links are shown."""

    COUNT = "count"
    LIST = "list"
    NONE = "none"


def safe(document: bytes) -> bytes:
    """JSON without characters that control a terminal; those below U+0020 every encoder escapes."""
    if document.isascii() and b"\x7f" not in document:
        return document
    return safe_text(document.decode("utf-8", "surrogatepass")).encode("utf-8")


def safe_text(document: str) -> str:
    """`safe` for text."""
    return _UNSAFE.sub(_escape, document)


def _escape(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def iso(at: int) -> str | None:
    """Milliseconds since the epoch as text; None for 0 and for times outside the calendar."""
    if at <= 0:
        return None
    try:
        when = datetime.fromtimestamp(at // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return f"{when:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"


def digest_text(digest: int) -> str | None:
    return f"{digest:016x}" if digest else None


def plain(shard: int, position: int, record: Record, links: Shown = Shown.COUNT) -> dict[str, Any]:
    """A record as plain values for JSON."""
    row: dict[str, Any] = {
        "record": type(record).__name__.lower(),
        "shard": shard,
        "position": position,
        "at": iso(record.at),
    }
    for name in record.__struct_fields__[1:]:
        value = getattr(record, name)
        if isinstance(value, Links):
            if links is Shown.COUNT:
                row["links"] = len(value)
            elif links is Shown.LIST:
                row["links"] = link_rows(value)
        elif name in ("due", "expires"):
            row[name] = iso(value)
        elif name in ("digest", "content"):
            row[name] = digest_text(value)
        elif name == "digests":
            found = (value[at : at + 8] for at in range(0, len(value), 8))
            row[name] = [f"{int.from_bytes(each, 'little'):016x}" for each in found]
        elif name == "body" and isinstance(value, bytes):
            row.update(body_field(value))
        elif name not in ("options", "depths", "hops") or isinstance(record, Fetched | Deferred):
            row[name] = msgspec.structs.asdict(value) if isinstance(value, _INNER) else value
            if isinstance(value, Rendered) and value.stored is not None:
                row[name]["stored"] = msgspec.structs.asdict(value.stored)
    if isinstance(record, Configured):
        row["options"] = shown_options(record.options)
        row["acts"] = [{"id": i, "at": iso(at), "who": who, "what": what} for i, at, who, what in record.acts]
    elif isinstance(record, Received) and links is Shown.LIST:
        for link, depth, hops in zip(row["links"], record.depths, record.hops, strict=False):
            link["depth"], link["hops"] = depth, hops
    return row


def link_rows(links: Links) -> list[dict[str, Any]]:
    """Links as plain values."""
    return [
        {"url": link.url, "kind": link.kind.name.lower(), "nofollow": link.nofollow, "text": link.text}
        for link in links
    ]


def body_field(body: bytes) -> dict[str, str]:
    """Bytes under a name that tells their encoding."""
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode("ascii")}


def shown_options(encoded: bytes) -> Any:
    """The options of a crawl without the operator's secrets."""
    try:
        options = msgspec.json.decode(encoded)
    except msgspec.MsgspecError:
        return None
    for table in (options.get("site") or {}).values() if isinstance(options, dict) else ():
        if isinstance(table, dict) and isinstance(table.get("headers"), list):
            table["headers"] = [f"{str(row).partition(':')[0]}:{_SECRET}" for row in table["headers"]]
    fetch = options.get("fetch") if isinstance(options, dict) else None
    if not isinstance(fetch, dict):
        return options
    if isinstance(fetch.get("auth"), dict):
        fetch["auth"] = dict.fromkeys(fetch["auth"], _SECRET)
    for name, mark in (("cookies", "="), ("headers", ":")):
        if isinstance(fetch.get(name), list):
            fetch[name] = [f"{str(row).partition(mark)[0]}{mark}{_SECRET}" for row in fetch[name]]
    if isinstance(fetch.get("proxy"), str):
        fetch["proxy"] = _USERINFO.sub(f"{_SECRET}@", fetch["proxy"])
    return options
