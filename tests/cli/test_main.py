"""The front door: verbs, codes, and errors as one line."""

from __future__ import annotations

import errno
import importlib
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from lycosa.cli import main as front
from lycosa.cli.main import main, verbs
from lycosa.crawl import manifest as manifests
from lycosa.errors import ConfigError, LocalError, LycosaError, RemoteError, StorageError
from lycosa.files import DiskFiles
from lycosa.version import VERSION
from tests.cli.test_status import leave
from tests.crawl.made import small

Capture = pytest.CaptureFixture[str]


def test_every_verb_has_one_line_of_help(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out.splitlines()
    for verb in verbs():
        (line,) = [line for line in shown if line.split()[:1] == [verb]]
        assert line.split(maxsplit=1)[1] == importlib.import_module(f"lycosa.cli.{verb}").HELP


def test_it_is_a_module_of_python_too() -> None:
    command = [sys.executable, "-m", "lycosa", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, f"lycosa {VERSION}")


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_explains_itself(verb: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main([verb, "--help"])
    assert caught.value.code == 0
    assert f"lycosa {verb}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["log"], ["duplicates"], ["index"], ["extract", "json:loads", "--to", "rows.jsonl"]]
)
def test_a_follower_waits_for_a_crawl_to_begin(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        manifests.create(DiskFiles(tmp_path / "crawl"), 1, 1, hash_seed=5)

    monkeypatch.chdir(tmp_path)
    assert main([words[0], "crawl", *words[1:]]) == 2
    monkeypatch.setattr("time.sleep", pause)
    assert main([words[0], "crawl", *words[1:], "--follow"]) == 0
    assert len(pauses) == 1


def test_nothing_said_is_a_mistake_that_shows_the_verbs(capsys: Capture) -> None:
    assert main([]) == 2
    assert "first steps: lycosa demo" in capsys.readouterr().out


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"lycosa {VERSION}\n"


@pytest.mark.parametrize(
    ("verb", "words"), [("crwal", "did you mean 'crawl'?"), ("zzzz", "lycosa --help lists the verbs")]
)
def test_an_unknown_verb_names_the_nearest(verb: str, words: str, capsys: Capture) -> None:
    assert main([verb]) == 2
    error = capsys.readouterr().err
    assert words in error and len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("change it"), 2),
        (StorageError("see to the disk"), 3),
        (RemoteError("ask later"), 4),
        (LocalError("our fault"), 5),
        (LycosaError("something"), 5),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_become_codes(
    error: BaseException, code: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_: object) -> int:
        raise error

    monkeypatch.setattr("lycosa.cli.url.run", run)
    assert main(["url"]) == code
    said = capsys.readouterr().err
    assert said == (f"lycosa url: {error}\n" if isinstance(error, LycosaError) else "")


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("lycosa.cli.url.run", run)
    with pytest.raises(ZeroDivisionError):
        main(["url"])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_what_the_system_refuses_is_one_line(
    number: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it strikes; other errors of the system are bugs."""

    def run(_: object) -> int:
        raise OSError(number, os.strerror(number), "/some/file")

    monkeypatch.setattr("lycosa.cli.url.run", run)
    assert main(["url"]) == 3
    assert capsys.readouterr().err == f"lycosa url: /some/file: {os.strerror(number)}\n"


def test_a_reader_that_has_had_enough() -> None:
    """`lycosa url ... | head -1` ends without a word."""
    command = [sys.executable, "-m", "lycosa.cli.main", "url"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin and process.stdout and process.stderr
    stdin = process.stdin

    def feed() -> None:
        with suppress(OSError), stdin:
            stdin.write(b"http://example.org/\n" * 200_000)

    feeder = threading.Thread(target=feed)
    feeder.start()
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(240) == 0
    feeder.join(170)


def modules_of(*argv: str) -> set[str]:
    """What a process has imported when it has run those words."""
    code = (
        "import json, sys; from lycosa.cli.main import main; main(json.loads(sys.argv[1]));"
        "sys.stderr.write(json.dumps(sorted(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, json.dumps(argv)],
        capture_output=True,
        text=True,
        timeout=170,
        check=True,
    )
    return set(json.loads(ran.stderr))


@pytest.mark.parametrize("verb", ["status", "log"])
def test_questions_about_a_crawl_load_neither_compiler_nor_network(verb: str, tmp_path: Path) -> None:
    small(tmp_path)
    leave(tmp_path)
    heavy = {"numba", "llvmlite", "pycurl", "pycares", "nats", "turbohtml", "lycosa.crawl.agent"}
    found = modules_of(verb, str(tmp_path))
    assert not found & heavy
    if verb == "status":
        assert "numpy" not in found, "that would be half of its time"


def test_a_small_verb_does_not_load_the_crawl() -> None:
    """The small tools start fast because they import nothing that they do not use."""
    code = (
        "import sys, io; sys.stdin = io.TextIOWrapper(io.BytesIO(b''));"
        "from lycosa.cli.main import main; main(['url']);"
        "print([name for name in sys.modules if name in ('numba', 'pycurl', 'lycosa.crawl.agent')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=170)
    assert ran.stdout.splitlines()[-1] == "[]", ran.stdout + ran.stderr


def test_help_is_read_without_importing_the_verbs() -> None:
    code = (
        "import sys; from lycosa.cli.main import main; main(['--help']);"
        "print(sorted(name for name in sys.modules if name.startswith('lycosa.cli.')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=170)
    assert ran.stdout.splitlines()[-1] == "['lycosa.cli.main', 'lycosa.cli.streams']", ran.stdout


def test_modules_that_are_no_verbs_are_named() -> None:
    assert {"crawl", "demo", "fetch", "report", "url"} <= set(verbs())
    assert not set(verbs()) & front._NOT_VERBS


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["log", "--nonsense"], "lycosa log: unknown option --nonsense; lycosa log --help lists the options"),
        (["crawl", "--ordr", "x"], "lycosa crawl: unknown option --ordr; did you mean --order?"),
        (["log"], "lycosa log: missing: DIR ("),
        (["control"], "lycosa control: missing: DIR, ACT ("),
        (["status", "a", "b"], "lycosa status: too many arguments: b ("),
        (["crawl", "--max-pages", "x"], "lycosa crawl: --max-pages: 'x' is not a whole number ("),
        (["crawl", "--max-pages"], "lycosa crawl: --max-pages needs a value ("),
        (["crawl", "--order", "x"], "lycosa crawl: --order: 'x' is not one of 'depth', "),
        (["cluster", "status", "web", "--nonsense"], "lycosa cluster status: unknown option --nonsense; "),
    ],
)
def test_a_mistake_in_the_arguments_is_one_line(args: list[str], words: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(args)
    err = capsys.readouterr().err
    assert caught.value.code == 2
    assert err.startswith(words) and err.count("\n") == 1
