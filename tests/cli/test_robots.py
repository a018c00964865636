"""The robots verb, run as its users run it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROBOTS = "User-agent: *\nDisallow: /private\nAllow: /private/open\n\nUser-agent: bad\nDisallow: /\n"


@pytest.fixture
def robots(tmp_path: Path) -> str:
    path = tmp_path / "robots.txt"
    path.write_text(ROBOTS)
    return str(path)


def _run(*args: str, given: str | bytes = b"") -> subprocess.CompletedProcess[str]:
    data = given.encode() if isinstance(given, str) else given
    done = subprocess.run(
        [sys.executable, "-m", "lycosa.cli.main", "robots", *args],
        input=data,
        capture_output=True,
        timeout=170,
    )
    return subprocess.CompletedProcess(args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_plain(robots: str) -> None:
    done = _run(robots, "https://h/x", "https://h/private/open/y")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "allowed     https://h/x  (no rule applies)",
        "allowed     https://h/private/open/y  (line 3: Allow: /private/open)",
    ]
    done = _run(robots, "https://h/x", "https://h/private/z")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1] == "disallowed  https://h/private/z  (line 2: Disallow: /private)"


def test_agent_and_file_from_standard_input() -> None:
    assert _run("-", "https://h/x", "--agent", "Bad/1.0", given=ROBOTS).returncode == 1
    assert _run("-", "-a", "good", "https://h/x", given=ROBOTS).returncode == 0


def test_urls_from_standard_input_as_json(robots: str) -> None:
    done = _run(robots, "--json", given="https://h/x\n\n  https://h/private/z\r\n")
    assert done.returncode == 1
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"url": "https://h/x", "allowed": True, "line": 0, "rule": "", "group": "*"},
        {
            "url": "https://h/private/z",
            "allowed": False,
            "line": 2,
            "rule": "Disallow: /private",
            "group": "*",
        },
    ]


def test_json_questions() -> None:
    asked = [
        {"robots": ROBOTS, "agent": "bad", "url": "https://h/x"},
        {"robots": ROBOTS, "agent": "good", "url": "https://h/private/open"},
        {"robots": "", "agent": "good", "url": "https://h/"},
    ]
    done = _run(given="\n".join(json.dumps(question) for question in asked))
    assert done.returncode == 0
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"allowed": False, "rule": "Disallow: /", "line": 6, "group": "bad"},
        {"allowed": True, "rule": "Allow: /private/open", "line": 3, "group": "*"},
        {"allowed": True, "rule": "", "line": 0, "group": ""},
    ]


def test_a_bad_question_is_answered_in_its_place() -> None:
    good = json.dumps({"robots": ROBOTS, "agent": "x", "url": "/x"}).encode()
    lone = b'{"robots": "", "agent": "x", "url": "/\\ud800"}'
    done = _run(given=b"\n".join([good, b"{", b'{"robots": ""}', b"\xff\xfe", lone, good]))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [("error" in answer) for answer in answers][:4] == [False, True, True, True]
    assert len(answers) == 6
    assert answers[-1] == answers[0]
    assert answers[1]["error"].startswith("line 2: ")
    assert done.returncode == 2


def test_answers_come_at_once(robots: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "lycosa.cli.main", "robots", robots],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(3):
            process.stdin.write("https://h/x\n")
            process.stdin.flush()
            assert process.stdout.readline().startswith("allowed")
        process.stdin.close()
        assert process.wait(240) == 0


def test_mistakes_get_one_line(tmp_path: Path) -> None:
    for args, word in [
        ([str(tmp_path / "none"), "/x"], "there is no file"),
        ([str(tmp_path), "/x"], "is a directory"),
        (["-"], "give the URLs as arguments"),
    ]:
        done = _run(*args)
        assert done.returncode == 2
        assert done.stdout == ""
        assert word in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_any_bytes_as_url(robots: str) -> None:
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"lycosa.cli.main", b"robots", robots.encode(), b"--json", b"/\xff"],
        capture_output=True,
        timeout=170,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["allowed"] is True
