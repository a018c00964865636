"""pywb, in an environment of its own, serving an archive on loopback.

pywb cannot live beside the crawler's dependencies: it wants brotlipy, which installs the same module as
brotli, and an older cryptography. So it has a virtual environment inside the running one (`.venv/pywb`), made
from `pywb.txt` when it is first needed, once, whatever the number of test workers. That takes the
package index and some twenty seconds.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_PINS = Path(__file__).with_name("pywb.txt")


def environment() -> Path:
    """The directory of pywb's environment, made if need be."""
    home = Path(sys.prefix) / "pywb"
    wanted = hashlib.sha256(_PINS.read_bytes() + sys.version.encode()).hexdigest()
    stamp = home / ".installed"
    with home.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted:
            return home
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        subprocess.run(
            [home / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", _PINS],
            check=True,
            timeout=600,
        )
        stamp.write_text(wanted)
    return home


class Replayed(NamedTuple):
    status: int
    headers: dict[str, str]  # by lower-case name
    body: bytes


class Wayback:
    """A running pywb with one collection, `test`."""

    def __init__(self, port: int) -> None:
        self._root = f"http://127.0.0.1:{port}"
        self._open = urllib.request.build_opener(_NoRedirects(), urllib.request.ProxyHandler({})).open

    def get(self, url: str, timestamp: str = "2023", mode: str = "id_") -> Replayed:
        """Replay the capture of a URL nearest to the time; mode "id_" is as archived, "mp_" rewritten."""
        return self.fetch(f"/test/{timestamp}{mode}/{url}")

    def fetch(self, path: str) -> Replayed:
        asked = urllib.request.Request(self._root + path, headers={"Accept-Encoding": "identity"})
        try:
            answer = self._open(asked, timeout=240)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return Replayed(answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read())


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: object, **kwargs: object) -> None:
        return None


@contextmanager
def wayback(archive: Path, index: Path, scratch: Path) -> Iterator[Wayback]:
    """Serve the WARC files in `archive`, found by the CDXJ file `index`."""
    home = environment()
    collection = scratch / "collections" / "test"
    (collection / "indexes").mkdir(parents=True)
    (collection / "archive").symlink_to(archive.resolve())
    shutil.copy(index, collection / "indexes" / "index.cdxj")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    output = (scratch / "pywb.log").open("wb")
    server = subprocess.Popen(
        [home / "bin/python", "-c", _SERVE, "--bind", "127.0.0.1", "-p", str(port), "-d", str(scratch)],
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    try:
        deadline = time.monotonic() + 240
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(
                        "pywb did not start:\n" + (scratch / "pywb.log").read_text()
                    ) from None
                time.sleep(0.1)
        yield Wayback(port)
    finally:
        server.terminate()
        server.wait(240)
        output.close()


_SERVE = "import sys; sys.argv[0] = 'wayback'; from pywb.apps.cli import wayback; wayback()"
