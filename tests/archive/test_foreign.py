"""WARC and CDX of other programs, in every form that they come in."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lycosa.archive.foreign import Capture, captures, records
from lycosa.errors import ConfigError, StorageError


def record(kind: str, url: str, block: bytes, **more: str) -> bytes:
    fields = {
        "WARC-Type": kind,
        "WARC-Target-URI": url,
        "WARC-Date": "2024-05-01T12:00:00Z",
        "Content-Length": str(len(block)),
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return b"WARC/1.0\r\n" + head.encode() + b"\r\n" + block + b"\r\n\r\n"


ROWS = [
    record("warcinfo", "", b"software: other"),
    record("response", "http://a/", b"HTTP/1.1 200 OK\r\n\r\nx" * 9),
]


@pytest.mark.parametrize(
    "data", [b"".join(ROWS), gzip.compress(b"".join(ROWS)), b"".join(map(gzip.compress, ROWS))]
)
def test_warc_in_every_packing(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(data)
    found = list(records(path))
    assert [row.kind for row in found] == ["warcinfo", "response"]
    assert found[1].url == "http://a/" and found[1].at == 1714564800000
    assert found[1].block == b"HTTP/1.1 200 OK\r\n\r\nx" * 9


def test_a_file_that_is_cut_short_gives_what_came_before(tmp_path: Path) -> None:
    for number, data in enumerate(
        (b"".join(ROWS)[:-30], gzip.compress(ROWS[0]) + gzip.compress(ROWS[1])[:-30])
    ):
        path = tmp_path / f"{number}.warc"
        path.write_bytes(data)
        found = records(path)
        assert next(found).kind == "warcinfo"
        with pytest.raises(StorageError, match="cannot be read"):
            next(found)
    (tmp_path / "text").write_bytes(b"hello\n")
    with pytest.raises(StorageError, match="does not begin with WARC/"):
        list(records(tmp_path / "text"))
    with pytest.raises(ConfigError, match="No such file"):
        list(records(tmp_path / "nowhere"))


def test_a_header_without_measure_is_not_gathered(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    for line in (b" more\r\n", b"a: b\r\n"):
        path.write_bytes(b"WARC/1.0\r\na: b\r\n" + line * (2 * (1 << 20) // len(line)) + b"\r\n")
        with pytest.raises(StorageError, match="header is larger than"):
            list(records(path))


def test_lines_that_are_too_long_or_too_deep_are_none(tmp_path: Path) -> None:
    path = tmp_path / "index"
    good = b'{"url": "http://a.com/"}\n'
    deep = b'{"url": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001 + b"\n"
    long = b"x" * (3 << 20) + good
    path.write_bytes(deep + long + good + b"y" * (2 << 20) + b"\n" + good.strip())
    assert list(captures(path)) == [Capture("http://a.com/", 0, 0, "")] * 2


def test_lines_of_indexes(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(
        b" CDX N b a m s k r M S V g\n"
        b"com,a)/ 20240501120000 http://a.com/ text/html 200 AAAA - - 100 0 f.warc.gz\n"
        b"com,a)/b 20240501120000 http://a.com/b warc/revisit - AAAA - - 100 0 f.warc.gz\n"
        b"a line of nothing\n"
        b'com,a)/c 20240501120000 {"url": "https://a.com/c", "mime": "text/plain", "status": "404"}\n'
        b'{"url": "https://a.com/d", "timestamp": "20240501", "status": "301"}\n'
        b"{broken}\n"
    )
    noon = 1714564800000
    assert list(captures(path)) == [
        Capture("http://a.com/", noon, 200, "text/html"),
        Capture("http://a.com/b", noon, 0, ""),
        Capture("https://a.com/c", noon, 404, "text/plain"),
        Capture("https://a.com/d", noon - 12 * 3_600_000, 301, ""),
    ]
