"""`lycosa url`, run as users run it."""

from __future__ import annotations

import json
import subprocess
import sys

from lycosa.url.key import Keyer


def lycosa(*args: str | bytes, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "lycosa.cli.main", "url", *args]
    return subprocess.run(command, input=given, capture_output=True, timeout=170)


def test_arguments() -> None:
    done = lycosa("HTTP://Example.com:80/a/../b#c", "https://[::1]:8443/")
    first, second = ("http://example.com/b", "https://[::1]:8443/")
    assert done.stdout.decode().splitlines() == [
        f"{first}\thttp://example.com\t{Keyer(0).key(first):016x}",
        f"{second}\thttps://[::1]:8443\t{Keyer(0).key(second):016x}",
    ]
    assert (done.returncode, done.stderr) == (0, b"")


def test_lines_base_rules_and_seed() -> None:
    given = b"b?z=1&a=2&utm_source=x\r\n//other.example\n\n/last"
    done = lycosa("--base", "http://e.test/d/", "--rules", "tracking, sorted", "--seed", "0x2a", given=given)
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert [row[0] for row in rows] == [
        "http://e.test/d/b?a=2&z=1",
        "http://other.example/",
        "http://e.test/d/",
        "http://e.test/last",
    ]
    assert rows[3][2] == f"{Keyer(42).key('http://e.test/last'):016x}"
    assert done.returncode == 0


def test_what_is_no_url() -> None:
    done = lycosa(
        given=b"nonsense\nhttp://ok.test/\nmailto:a@b\n" + b"http://ok.test/" + b"x" * 3_000_000 + b"\n"
    )
    rows = [line.split("\t")[0] for line in done.stdout.decode().splitlines()]
    assert rows == ["-", "http://ok.test/", "-", "-"]
    assert done.stdout.startswith(b"-\t-\t-\n")
    assert (done.returncode, done.stderr) == (1, b"")


def test_json_and_bytes_that_are_not_utf_8() -> None:
    done = lycosa("--json", given=b"http://ok.test/\xff\xfe\n\xff\n")
    good, bad = [json.loads(line) for line in done.stdout.splitlines()]
    assert good["url"] == "http://ok.test/%EF%BF%BD%EF%BF%BD"
    assert good["site"] == "http://ok.test"
    assert good["key"] == f"{Keyer(0).key(good['url']):016x}"
    assert bad == {"input": "\ufffd", "url": None, "site": None, "key": None}
    assert done.returncode == 1
    done = lycosa("--json", b"http://ok.test/\xff")
    assert json.loads(done.stdout)["url"] == "http://ok.test/%EF%BF%BD"


def test_no_input() -> None:
    done = lycosa()
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_reader_that_leaves() -> None:
    command = f"yes http://ok.test/ | {sys.executable} -m lycosa.cli.main url | head -n 2"
    done = subprocess.run(command, shell=True, capture_output=True, timeout=170)
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == b""


def test_mistakes() -> None:
    for args, message in (
        (("--rules", "trackin"), b"unknown URL rule 'trackin'; did you mean 'tracking'?"),
        (("--base", "example.com"), b"--base example.com: not a URL"),
        (("--seed", "x"), b"--seed x: give a whole number"),
    ):
        done = lycosa(*args, given=b"http://ok.test/\n")
        assert done.returncode == 2
        assert done.stdout == b""
        assert message in done.stderr
        assert done.stderr.count(b"\n") == 1
