"""Heads of requests and answers: composing the former, reading the latter.

A request's whole head is composed here, so that the bytes in the archive are the bytes on the wire: libcurl is
given every line but the first two (request line and Host), which it derives from the URL; `split` derives them
in the same way. The tests compare the two.

    request  = "GET" SP target SP version CRLF "Host:" SP host CRLF *( line CRLF ) CRLF
    lines    = User-Agent, Accept, Accept-Language, Accept-Encoding, the operator's, Authorization, Cookie,
               If-None-Match, If-Modified-Since, the request's own

A line of the operator replaces ours of the same name. No line can hold a control character: a value that could
inject a line is refused (from the operator, with a `ConfigError`) or left out (validators, which came from a site).
"""

from __future__ import annotations

import base64
import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from lycosa.errors import ConfigError

ACCEPT_ENCODING = "gzip, deflate, br, zstd"

# Framing and routing are the transport's business; a wrong one of these would split requests.
_OURS = {"host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"}
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_URL = re.compile(r"(https?)://([!-.0->@-~]+)((?:[/?][!-\"$-~]*)?)(?:#.*)?", re.DOTALL)


class Target(NamedTuple):
    """The parts of an http(s) URL that a request is made of."""

    scheme: str
    host: str  # with port, as in the Host header
    path: str  # with query
    credentials: str  # "user:password" of the URL, still percent-encoded, or ""
    url: str  # without credentials and fragment


def split(url: str) -> Target | None:
    """The parts of a canonical http(s) URL; None if it cannot be sent as it is."""
    found = _URL.fullmatch(url)
    if found is None:
        return None
    scheme, authority, path = found.groups()
    if not path.startswith("/"):
        path = "/" + path
    if "@" not in authority:
        return Target(scheme, authority, path, "", f"{scheme}://{authority}{path}")
    credentials, _, host = authority.rpartition("@")
    if not host:
        return None
    return Target(scheme, host, path, credentials, f"{scheme}://{host}{path}")


def sendable(text: str) -> bool:
    """Whether a header can carry the text: Latin-1, no control character but tab."""
    if _CONTROLS.search(text):
        return False
    return text.isascii() or all(ord(letter) < 256 for letter in text)


def valid_line(name: str, value: str) -> bool:
    """Whether `name: value` is one valid header line that an operator may set."""
    return bool(_NAME.fullmatch(name)) and name.lower() not in _OURS and sendable(value)


def operator_lines(given: tuple[str, ...]) -> list[tuple[str, str]]:
    """The operator's `Name: value` lines, checked."""
    lines = []
    for text in given:
        name, colon, value = text.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not _NAME.fullmatch(name) or not sendable(value):
            raise ConfigError(f"{text!r} is not a header: write it as 'Name: value', on one line")
        if name.lower() in _OURS:
            raise ConfigError(f"header {name!r} is the fetcher's own: leave it out")
        lines.append((name, value))
    return lines


def common_lines(
    user_agent: str, accept: str, language: str, given: tuple[str, ...]
) -> list[tuple[str, str]]:
    """The lines of every request."""
    extra = operator_lines(given)
    replaced = {name.lower() for name, _ in extra}
    ours = [
        ("User-Agent", user_agent),
        ("Accept", accept),
        ("Accept-Language", language),
        ("Accept-Encoding", ACCEPT_ENCODING),
    ]
    for name, value in ours:
        if not sendable(value):
            raise ConfigError(f"{name} {value!r} has characters that a header cannot carry")
    return [line for line in ours if line[1] and line[0].lower() not in replaced] + extra


def basic(credentials: str) -> str:
    """The Authorization value for "user:password"."""
    return "Basic " + base64.b64encode(credentials.encode("utf-8")).decode("ascii")


def as_text(lines: list[tuple[str, str]]) -> str:
    """The lines as text of a head, each with its line end."""
    return "".join(f"{name}: {value}\r\n" if value else f"{name}:\r\n" for name, value in lines)


def as_curl(lines: list[tuple[str, str]]) -> list[bytes]:
    """Lines as libcurl takes them: `Name;` sends an empty value, where `Name:` would send nothing."""
    return [f"{name}: {value}".encode("latin-1") if value else f"{name};".encode() for name, value in lines]


def retry_after(value: str | None, wall: float) -> float | None:
    """Seconds to wait by a Retry-After value of either form (RFC 9110 §10.2.3); None if it is neither."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        when = parsedate_to_datetime(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return max(0.0, when.timestamp() - wall)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
