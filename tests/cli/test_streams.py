"""Outputs that go away or cannot be written, signals, and locales: with real processes."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from lycosa.cli.main import main, verbs
from lycosa.cli.streams import announced
from lycosa.files import DirectoryLock
from tests.crawl.recorded import FLAGS, Site, chain, fetched, page, pages, serving

COMMAND = [sys.executable, "-m", "lycosa.cli.main"]
LOUD = [flag for flag in FLAGS if flag != "--quiet"]


class Place(NamedTuple):
    """A crawl that is done, and its web."""

    directory: str
    seed: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    into = str(tmp_path_factory.mktemp("crawl") / "größe")
    web = {
        "/": page("Größe → ✓", "/2", extra="ein Text – mit „Zeichen“ und …"),
        "/2": page("zwei ✓", "/", "/gone"),
    }
    with serving(pages(web)) as site:
        assert main(["crawl", site.url(), "--into", into, *FLAGS]) == 0
        assert main(["graph", "build", into]) == main(["index", into]) == 0
        yield Place(into, site.url())


_PROGRESS = re.compile(rb"^lycosa [a-z]+: [^\n]*(?: \.\.\.| so far| records(?: \([\d,]+/s\))?)\n", re.M)
"""What a verb says while it works for longer than two seconds, as it may on a busy machine."""
VERBS = {
    "duplicates": "duplicates {directory}",
    "completion": "completion bash",
    "man": "man crawl",
    "control": "control {directory} set limits.pages=0",
    "explain": "explain {directory} {seed}",
    "export": "export {directory} pages",
    "extract": "extract {directory} {here}/code.py:row --url {seed}",
    "fetch": "fetch --resolve *.test:127.0.0.1 --allow-private {seed}",
    "graph-export": "graph export {directory} --to -",
    "graph-stats": "graph stats {directory}",
    "graph-top": "graph top {directory}",
    "help": "--help",
    "history": "history {directory} {seed}",
    "import": "import {here}/imported --urls {here}/urls.txt",
    "index": "index {directory}",
    "lab": "lab sydney {directory} --budget 100",
    "links": "links {here}/page.html --base http://a/",
    "log": "log {directory}",
    "repair": "repair {directory}",
    "report": "report {directory}",
    "report-json": "report {directory} --json",
    "robots": "robots {here}/robots.txt http://a/",
    "search": "search {directory} page",
    "status": "status {directory}",
    "text": "text {here}/page.html",
    "unique": "unique {here}/page.html",
    "url": "url http://a/ö",
    "verb-help": "lab --help",
    "web": "web --preset tiny --seeds-only",
}
"""A command of each verb that prints something and ends."""


def run(name: str, place: Place, out: int, tmp_path: Path, encoding: str = "utf-8") -> tuple[int, bytes]:
    """Run one of them in a process of its own that writes to this descriptor: its code, and its standard error.

    The process is a copy of this one: to start so many from nothing would take a minute.
    """
    (tmp_path / "page.html").write_text("<title>✓</title><p>ö</p><a href=/ö>→</a>", encoding="utf-8")
    (tmp_path / "code.py").write_text("def row(page): return {'said': 'ö'}", encoding="utf-8")
    (tmp_path / "urls.txt").write_text("http://a/ö\n", encoding="utf-8")
    (tmp_path / "robots.txt").write_text("User-agent: *\nDisallow: /ö", encoding="utf-8")
    words = [word.format(**place._asdict(), here=tmp_path) for word in VERBS[name].split()]
    with (tmp_path / "stderr").open("wb") as error:
        child = os.fork()
        if not child:
            code = 99
            try:
                os.dup2(out, 1)
                os.dup2(error.fileno(), 2)
                sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
                sys.stderr = open(2, "w", encoding=encoding, closefd=False)  # noqa: SIM115
                sys.argv = ["lycosa", *words]
                code = main()
            except SystemExit as end:
                code = int(end.code or 0)
            except BaseException:
                traceback.print_exc()
            finally:
                try:
                    sys.stdout.flush()  # as the interpreter does at its exit
                except BaseException:
                    code = 120
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, _PROGRESS.sub(b"", (tmp_path / "stderr").read_bytes())


def test_every_verb_that_prints_is_tried() -> None:
    """Crawl and demo have tests of their own below; those of a cluster print through the same streams; `serve` and
    `frontier` do not end."""
    assert {words.split()[0] for words in VERBS.values()} >= set(verbs()) - {
        "agent",
        "cluster",
        "crawl",
        "demo",
        "frontier",
        "serve",
    }


@contextmanager
def deserted() -> Iterator[int]:
    """A pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield writer
    finally:
        os.close(writer)


@pytest.mark.parametrize("name", VERBS)
def test_no_reader_and_no_room(name: str, place: Place, tmp_path: Path) -> None:
    """`| head -1`: not a word, code 0. `> /dev/full`: one line, code 3."""
    with deserted() as out:
        assert run(name, place, out, tmp_path) == (0, b"")
    with Path("/dev/full").open("wb") as full:
        line = b"lycosa: cannot write to standard output: No space left on device\n"
        assert run(name, place, full.fileno(), tmp_path) == (3, line)


WORDS_OF_THE_WEB = ("explain", "links", "log", "report", "search", "text")
"""Those that print what pages say."""


@pytest.mark.parametrize(
    ("name", "encoding"),
    [*((name, "ascii") for name in VERBS), *((name, "latin-1") for name in WORDS_OF_THE_WEB)],
)
def test_every_verb_in_a_locale_that_is_not_of_utf_8(
    name: str, encoding: str, place: Place, tmp_path: Path
) -> None:
    with (tmp_path / "stdout").open("w+b") as out:
        code, error = run(name, place, out.fileno(), tmp_path, encoding)
        written = out.seek(0) or out.read()
    assert code in (0, 1), error
    assert b"Traceback" not in error and error.isascii()
    if encoding == "ascii" and name not in (
        "export",
        "extract",
        "log",
        "report-json",
        "unique",
        "graph-export",
    ):
        assert written.isascii()  # those are of UTF-8 by their formats
    if name == "report":
        assert b"#####" in written and b"\\u258" not in written, "bars"


def test_a_real_process_in_the_locale_of_c(place: Place) -> None:
    surroundings = {
        key: value for key, value in os.environ.items() if not key.startswith(("LC_", "PYTHONIO"))
    }
    surroundings |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [*COMMAND, "report", place.directory]
    ran = subprocess.run(words, capture_output=True, timeout=170, env=surroundings, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.isascii() and b"#####" in ran.stdout


def test_a_real_process_without_a_reader() -> None:
    with deserted() as out:
        ran = subprocess.run(
            [*COMMAND, "crawl", "--help"], stdout=out, stderr=subprocess.PIPE, timeout=170, check=False
        )
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_stream_that_was_closed_from_the_start_leads_nowhere(closed: int, tmp_path: Path) -> None:
    """And no file that is opened takes its place."""
    words = [*COMMAND, "unique", "--store", "memory"]
    ran = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}{"<" if closed == 0 else ">"}&-', "sh", *words],
        input=b"a\nb\na\n",
        capture_output=True,
        timeout=170,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout == (b"a\nb\n" if closed == 2 else b"")


# -- a crawl whose output goes away


def slow(site: Site, into: Path, *more: str) -> list[str]:
    return [site.url(), "--into", str(into), *LOUD, "--wait", "50ms", "--pages-per-visit", "1", *more]


def ended_cleanly(into: Path) -> dict[str, object]:
    """Of a crawl that was cut short: as by SIGTERM. Its last word."""
    assert not (into / "running").exists()
    status: dict[str, object] = json.loads((into / "status.json").read_bytes())
    assert status["state"] == "stopped"
    DirectoryLock(into).release()
    return status


@pytest.mark.parametrize("agents", ["1", "2"])
def test_a_crawl_stops_cleanly_when_nobody_reads_its_lines(agents: str, tmp_path: Path) -> None:
    into = tmp_path / "c"
    with serving(chain(400)) as site:
        args = slow(site, into, "--json", "--agents", agents)
        process = subprocess.Popen([*COMMAND, "crawl", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None and process.stderr is not None
        with process.stdout:
            for line in process.stdout:
                if b'"state":"running"' in line:
                    break
        assert (process.wait(170), process.stderr.read()) == (0, b"")
        process.stderr.close()
        ended_cleanly(into)
        before = len(fetched(into))
        assert main(["crawl", *args[:-3], "--max-pages", str(before + 5), "--agents", "1", "--quiet"]) == 0
        assert len(fetched(into)) == before + 5
        assert len(set(site.paths())) == len(site.paths()), "nothing twice"


def test_a_crawl_stops_cleanly_when_nobody_reads_its_progress(tmp_path: Path) -> None:
    """`lycosa crawl ... 2>&1 | head -1`."""
    into = tmp_path / "c"
    with serving(chain(400)) as site, deserted() as out:
        args = [*COMMAND, "crawl", *slow(site, into)]
        assert subprocess.run(args, stdout=out, stderr=out, timeout=170, check=False).returncode == 0
    ended_cleanly(into)


def test_a_crawl_stops_cleanly_when_its_lines_cannot_be_written(tmp_path: Path) -> None:
    into = tmp_path / "c"
    with serving(chain(400)) as site, Path("/dev/full").open("wb") as full:
        args = [*COMMAND, "crawl", *slow(site, into, "--json")]
        ran = subprocess.run(args, stdout=full, stderr=subprocess.PIPE, timeout=170, check=False)
    assert ran.returncode == 3
    assert ran.stderr == b"lycosa: cannot write to standard output: No space left on device\n"
    ended_cleanly(into)


def test_a_crawl_goes_on_when_only_its_progress_cannot_be_written(tmp_path: Path) -> None:
    with serving(chain(12)) as site, Path("/dev/full").open("wb") as full:
        args = [*COMMAND, "crawl", site.url(), "--into", str(tmp_path / "c"), *LOUD]
        ran = subprocess.run(args, stdout=subprocess.PIPE, stderr=full, timeout=170, check=False)
    assert ran.returncode == 0
    assert ran.stdout.startswith(b"finished: 12 pages")


@pytest.mark.parametrize("agents", ["1", "2"])
def test_a_crawl_stops_cleanly_when_its_terminal_goes_away(agents: str, tmp_path: Path) -> None:
    into = tmp_path / "c"
    with serving(chain(400)) as site:
        args = [*COMMAND, "crawl", *slow(site, into, "--agents", agents)]
        child, master = pty.fork()
        if not child:
            os.execv(args[0], args)
        shown = b""
        while b"pending" not in shown:
            shown += os.read(master, 1 << 12)
        os.close(master)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ended_cleanly(into)


def test_a_hangup_that_is_ignored_stays_ignored() -> None:
    """`nohup lycosa crawl ...`."""
    code = "from lycosa.cli.streams import *; take_signals(); print(*(int(n) for n in stop_signals()))"
    for before, want in (("", "2 15 1"), ("trap '' HUP;", "2 15")):
        ran = subprocess.run(
            ["/bin/sh", "-c", f'{before} exec "$@"', "sh", sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=170,
            check=True,
        )
        assert ran.stdout.strip() == want


def test_work_that_takes_long_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = threading.Event()

    class Said(io.StringIO):
        def flush(self) -> None:
            flushed.set()

    said = Said()
    monkeypatch.setattr(sys, "stderr", said)
    with announced("graph", "ranking", patience=60.0):
        pass
    assert said.getvalue() == ""
    with announced("graph", "ranking", patience=0.0):
        flushed.wait()
    assert said.getvalue() == "lycosa graph: ranking ...\n"


# -- other verbs that wait


def test_log_that_follows_ends_when_its_reader_has(place: Place) -> None:
    """Not only when the next record comes, which may be in an hour."""
    with closing_lock(place.directory):
        process = subprocess.Popen(
            [*COMMAND, "log", place.directory, "--follow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None and process.stderr is not None
        with process.stdout:
            assert process.stdout.readline().startswith(b'{"record":"configured"')
        assert (process.wait(170), process.stderr.read()) == (0, b"")
        process.stderr.close()


@contextmanager
def closing_lock(directory: str) -> Iterator[None]:
    """The directory as that of a running crawl."""
    lock = DirectoryLock(Path(directory))
    try:
        yield
    finally:
        lock.release()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_demo_that_is_ended_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "demo", "--web", "tiny"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None and process.stderr is not None
    with closing(process.stdout), closing(process.stderr):
        for line in process.stderr:
            if b"pending" in line:
                break
        assert list(tmp_path.glob("lycosa-demo-*/lock"))
        process.send_signal(number)
        rest = process.stderr.read()
    assert process.wait(170) == (130 if number == signal.SIGINT else -number)
    assert b"Traceback" not in rest
    assert list(tmp_path.iterdir()) == []


def test_a_draft_goes_when_its_writer_is_ended(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom lycosa.cli import main, streams, url\n"
        "def run(args):\n"
        "    with streams.replacing(Path(sys.argv[-1])) as draft:\n"
        "        draft.write_bytes(b'half')\n"
        "        print('here', flush=True)\n"
        "        time.sleep(600)\n"
        "url.run = run\n"
        "main.main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "url", str(tmp_path / "out")], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"here\n"
    process.terminate()
    assert process.wait(170) == -signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
