"""`file:` URLs: a directory tree crawled like a site, without a network.

A file answers as a plain web server would answer for it, so that nothing behind the fetcher has to know:

    regular file           200, its bytes, a type by its name, Last-Modified and an ETag
    the same, unchanged    304, if the request carries the validators
    directory, with "/"    200, a page of links to what is in it, sorted; hidden names left out
    directory, without     301 to the same with "/", so that relative links in it resolve
    missing                404
    not readable, not below the root, or neither file nor directory (devices, pipes, sockets)   403

Symbolic links are followed, but their targets must be below `file_root`, if one is set. A URL with a host other
than `localhost` is a `Failure`. Nothing is sent anywhere, so `request_head` is empty. Files are read in a thread:
the disk may be slow.
"""

from __future__ import annotations

import asyncio
import html
import mimetypes
import os
import stat
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from lycosa.clock import Clock
from lycosa.errors import LocalError
from lycosa.fetch.protocol import Failure, FailureKind, FetchOptions, Request, Response
from lycosa.fetch.shortage import is_shortage
from lycosa.meters import Meters
from lycosa.records import Timing

_REASONS = {200: "OK", 301: "Moved Permanently", 304: "Not Modified", 403: "Forbidden", 404: "Not Found"}
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class FileFetcher:
    """Fetches file URLs; a `Fetcher`."""

    needs_address = False

    def __init__(self, options: FetchOptions, clock: Clock, meters: Meters) -> None:
        self._root = os.fsencode(Path(options.file_root).resolve()) if options.file_root else b""
        self._limit = options.max_body_bytes
        self._most = options.max_decoded_bytes
        self._clock = clock
        self._requests = meters.counter("file.requests")
        self._bytes = meters.counter("file.bytes")
        self._failures = meters.counter("file.failures")
        self._closed = False

    async def fetch(self, request: Request) -> Response | Failure:
        if self._closed:
            raise LocalError("the fetcher is closed")
        self._requests.add()
        answer = await asyncio.to_thread(self._answer, request)
        if isinstance(answer, Failure):
            self._failures.add()
        else:
            self._bytes.add(len(answer.body))
        return answer

    async def close(self) -> None:
        self._closed = True

    def _answer(self, request: Request) -> Response | Failure:
        start = self._clock.monotonic()
        path = file_path(request.url)
        if path is None:
            return Failure(FailureKind.REQUEST, "not the URL of a file on this machine", transient=False)
        try:
            return self._read(request, path, start)
        except (*_MISSING, PermissionError) as error:
            missing = isinstance(error, _MISSING)
            return self._response(request, start, 404 if missing else 403, [])
        except OSError as error:
            ours = is_shortage(
                error.errno
            )  # else it is the file's: a disk that cannot be read, a loop of links
            kind = FailureKind.LOCAL if ours else FailureKind.DISCONNECT
            return Failure(kind, f"cannot read {os.fsdecode(path)}: {error.strerror}")
        except ValueError:  # a path that the system cannot even be asked for
            return self._response(request, start, 404, [])

    def _read(self, request: Request, path: bytes, start: float) -> Response:
        real = os.path.realpath(path, strict=True)
        if self._root and os.path.commonpath((real, self._root)) != self._root:
            return self._response(request, start, 403, [])
        found = Path(os.fsdecode(real)).stat()
        if stat.S_ISDIR(found.st_mode):
            if not path.endswith(b"/"):
                where = [("Location", request.url.partition("#")[0].partition("?")[0] + "/")]
                return self._response(request, start, 301, where)
            page = _listing(path, real)
            return self._response(request, start, 200, [("Content-Type", "text/html; charset=utf-8")], page)
        # Checked before opening, since opening a device can already do something, and again on what was
        # opened.
        if not stat.S_ISREG(found.st_mode):
            return self._response(request, start, 403, [])
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return self._response(request, start, 403, [])
            etag = f'"{found.st_mtime_ns:x}-{found.st_size:x}"'
            modified = formatdate(found.st_mtime, usegmt=True)
            lines = [("Last-Modified", modified), ("ETag", etag)]
            if request.etag == etag or (not request.etag and request.modified == modified):
                return self._response(request, start, 304, lines)
            body = file.read(self._limit + 1)
        return self._response(request, start, 200, [("Content-Type", _type(real)), *lines], body)

    def _response(
        self, request: Request, start: float, status: int, lines: list[tuple[str, str]], body: bytes = b""
    ) -> Response:
        truncated = ""
        if len(body) > self._limit:
            body, truncated = body[: self._limit], "length"
        if not truncated and status != 304:
            lines = [*lines, ("Content-Length", str(len(body)))]
        head = f"HTTP/1.1 {status} {_REASONS[status]}\r\n" + "".join(f"{n}: {v}\r\n" for n, v in lines)
        took = round((self._clock.monotonic() - start) * 1000)
        capped = len(body) > self._most
        return Response(
            url=request.url,
            status=status,
            version="HTTP/1.1",
            request_head=b"",
            head=head.encode("latin-1") + b"\r\n",
            body=body,
            decoded=body[: self._most] if capped else body,
            timing=Timing(0, 0, took, took),
            truncated=truncated,
            problem="capped" if capped else "",
            location=next((value for name, value in lines if name == "Location"), None),
        )


def file_path(url: str) -> bytes | None:
    """The path of a file URL, decoded; None if it has none on this machine."""
    scheme, colon, rest = url.partition("://")
    if not colon or scheme.lower() != "file":
        return None
    host, slash, path = rest.partition("#")[0].partition("?")[0].partition("/")
    if not slash or host.lower() not in ("", "localhost"):
        return None
    try:
        decoded = b"/" + unquote_to_bytes(path)
    except UnicodeError:
        return None
    return None if b"\0" in decoded else decoded


def _type(path: bytes) -> str:
    kind, coding = mimetypes.guess_type(os.fsdecode(path))
    if coding is not None:
        # page.html.gz is a gzip file, not a page sent compressed.
        return {"gzip": "application/gzip", "bzip2": "application/x-bzip2"}.get(
            coding, "application/octet-stream"
        )
    return kind or "application/octet-stream"


def _listing(path: bytes, real: bytes) -> bytes:
    """A page of links to what a directory holds; directories with their slash, to save a redirect."""
    with os.scandir(real) as entries:
        names = [
            entry.name + b"/" if entry.is_dir() else entry.name
            for entry in entries
            if not entry.name.startswith(b".")
        ]
    title = html.escape(path.decode("utf-8", "replace"))
    rows = "".join(
        f'<li><a href="./{quote(name)}">{html.escape(name.decode("utf-8", "replace"))}</a></li>\n'
        for name in sorted(names)
    )
    page = f"<!DOCTYPE html>\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n{rows}</ul>\n"
    return page.encode("utf-8")
