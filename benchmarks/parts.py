"""The costs of the parts of a crawl by themselves: a fetch, an exchange in the archive, a record in the log.

    python benchmarks/parts.py PAGES                    a directory of HTML files: half a minute
    python benchmarks/parts.py PAGES --beside TREE      the same parts of another working tree, in turn
    python benchmarks/parts.py PAGES --only fetch --count 500 --rounds 1     for a profiler, or `valgrind`

Each part runs in a separate process over the pages in turn, and its CPU time (user and system, all threads) is
given per page: the median of the rounds, and the least. With `--beside`, the trees take turns.

    fetch       of the pages from a server in another process, 16 hosts, each over one kept connection; the bare
                floor is the same transfers by libcurl with nothing stored and no Python called
    archive     request and response framed, digested, compressed and appended, synced every 500
    log         a `Fetched` with 43 links encoded, appended, and committed every 500
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import multiprocessing
import os
import resource
import select
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from crawl_site import pin

PARTS = ("fetch", "floor of fetch", "archive", "log")
HOSTS = 16
EVERY = 500
REQUEST = (
    b"GET /%d HTTP/1.1\r\nHost: 127.0.0.1:8400\r\nUser-Agent: lycosa/0.2 (+https://example.org/bot)\r\n"
    b"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
    b"Accept-Encoding: gzip, deflate, br, zstd\r\n\r\n"
)
HEAD = (
    "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Thu, 19 Nov 2026 12:00:00 GMT\r\nContent-Type: text/html\r\n"
    "Content-Length: {}\r\nLast-Modified: Sat, 01 Feb 2025 10:00:00 GMT\r\nConnection: keep-alive\r\n"
    'ETag: "679df{}-5a00"\r\nAccept-Ranges: bytes\r\n\r\n'
)


def read_pages(place: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(place.rglob("*.html")) if path.is_file()]


def head_of(page: bytes) -> bytes:
    return HEAD.format(len(page), len(page)).encode()


def serve(place: Path, pipe: Connection) -> None:
    """Answer `/N` with page N until the pipe is closed."""
    pin(cores()[1])
    answers = [head_of(page) + page for page in read_pages(place)]
    listening = socket.create_server(("0.0.0.0", 0), backlog=64)
    listening.setblocking(False)
    pipe.send(listening.getsockname()[1])
    epoll = select.epoll()
    epoll.register(listening, select.EPOLLIN)
    epoll.register(pipe.fileno(), select.EPOLLIN)
    open_: dict[int, socket.socket] = {}
    while True:
        for fd, _ in epoll.poll():
            if fd == pipe.fileno():
                return
            if fd == listening.fileno():
                made, _ = listening.accept()
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                open_[made.fileno()] = made
                epoll.register(made, select.EPOLLIN)
                continue
            asked = open_[fd].recv(65536)
            if not asked:
                epoll.unregister(fd)
                open_.pop(fd).close()
                continue
            number = int(asked[5 : asked.index(b" ", 5)])
            open_[fd].sendall(answers[number % len(answers)])


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cores() -> tuple[int | None, int | None]:
    """The core for the measured process, and the server's."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    return 0, (os.cpu_count() or 1) - 1


class Serving:
    """The server, in a separate process."""

    def __init__(self, place: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=serve, args=(place, other), daemon=True)
        self._process.start()
        self.port = self._pipe.recv()

    def end(self) -> None:
        self._pipe.close()
        self._process.terminate()
        self._process.join()


async def fetch(port: int, count: int) -> None:
    from lycosa.clock import SystemClock
    from lycosa.fetch.guard import AddressGuard
    from lycosa.fetch.http import HttpFetcher
    from lycosa.fetch.protocol import FetchOptions, Request, Response
    from lycosa.meters import Meters

    fetcher = HttpFetcher(FetchOptions(), SystemClock(), Meters(), AddressGuard(("127.0.0.0/8",)))
    numbers = itertools.count()

    async def one_host(host: str) -> None:
        reuse = False
        while (number := next(numbers)) < count:
            got = await fetcher.fetch(
                Request(f"http://{host}:{port}/{number}", host, reuse=reuse, may_send=lambda: True)
            )
            assert isinstance(got, Response), got
            reuse = True

    await asyncio.gather(*(one_host(f"127.0.0.{n + 1}") for n in range(HOSTS)))
    await fetcher.close()


def bare(port: int, count: int) -> None:
    """The same transfers with libcurl alone: bodies into a C function, `perform` in a loop."""
    import pycurl

    multi = pycurl.CurlMulti()
    numbers = iter(range(count))

    def begin(curl: pycurl.Curl, host: str) -> bool:
        number = next(numbers, None)
        if number is not None:
            curl.setopt(pycurl.URL, f"http://{host}:{port}/{number}")
            multi.add_handle(curl)
        return number is not None

    hosts = {}
    for n in range(HOSTS):
        curl = pycurl.Curl()
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.BUFFERSIZE, 65536)
        curl.setopt(pycurl.WRITEFUNCTION, len)
        hosts[curl] = f"127.0.0.{n + 1}"
        begin(curl, hosts[curl])
    running = 1
    while running:
        multi.select(1.0)
        _, running = multi.perform()
        for curl in multi.info_read()[1]:
            multi.remove_handle(curl)
            running |= begin(curl, hosts[curl])


def archive(pages: list[bytes], count: int, into: Path) -> None:
    from lycosa.archive.writer import Archive, ArchiveOptions
    from lycosa.clock import SystemClock
    from lycosa.files import DiskFiles

    kept = Archive(DiskFiles(into), ArchiveOptions(), SystemClock(), crawl="bench")
    for number in range(count):
        page = pages[number % len(pages)]
        kept.store(
            url=f"http://127.0.0.1:8400/doc/{number}.html",
            at=1_763_500_000_000 + number,
            request_head=REQUEST % number,
            head=head_of(page),
            body=page,
            address="127.0.0.1",
        )
        if number % EVERY == EVERY - 1:
            kept.sync()
    kept.close()


def log(count: int, into: Path) -> None:
    from lycosa.files import DiskFiles
    from lycosa.log.log import Log
    from lycosa.records import Fetched, Links, Stored, Timing

    urls = [f"http://127.0.0.1:8400/doc/{n * 7919 % 5000}.html" for n in range(43)]
    links = Links("\n".join(urls).encode(), bytes([1]) * 43, "\n".join(urls).encode())
    kept = Log(DiskFiles(into))
    for number in range(count):
        url = f"http://127.0.0.1:8400/doc/{number}.html"
        stored = Stored("lycosa-20261119120000-00001-bench.warc.gz", number * 5000, 5000, 500)
        kept.append(
            Fetched(
                *(1_763_500_000_000 + number, url, 3, 0, 0, 200, "text/html", "utf-8", 20000, 20000),
                *(number * 0x9E3779B97F4A7C15 & (1 << 63) - 1, Timing(0, 0, 1, 2), "127.0.0.1", links),
                stored=stored,
                title="A page",
                etag='"679df-5a00"',
                modified="Sat, 01 Feb 2025 10:00:00 GMT",
            )
        )
        if number % EVERY == EVERY - 1:
            kept.commit()
    kept.commit()
    kept.close()


def run(part: str, place: Path, count: int) -> float:
    """CPU seconds of one part over so many pages, after a few to warm up."""
    pages = read_pages(place)
    pin(cores()[0])
    with tempfile.TemporaryDirectory() as into:
        served = Serving(place) if "fetch" in part else None
        port = served.port if served is not None else 0
        work: dict[str, Callable[[int, str], None]] = {
            "fetch": lambda count, _: asyncio.run(fetch(port, count)),
            "floor of fetch": lambda count, _: bare(port, count),
            "archive": lambda count, name: archive(pages, count, Path(into) / name),
            "log": lambda count, name: log(count, Path(into) / name),
        }
        try:
            work[part](64, "warm")
            gc.collect()
            before = cpu()
            work[part](count, "run")
            return cpu() - before
        finally:
            if served is not None:
                served.end()


def turns(args: argparse.Namespace) -> Iterator[tuple[str, Path, float]]:
    """The time of each part in each tree, in turn."""
    trees = [Path(__file__).resolve().parent.parent, *args.beside]
    for _ in range(args.rounds):
        for part in args.only or PARTS:
            for tree in trees:
                command = [
                    sys.executable,
                    __file__,
                    str(args.pages),
                    "--run",
                    part,
                    "--count",
                    str(args.count),
                ]
                done = subprocess.run(
                    command,
                    env={**os.environ, "PYTHONPATH": str(tree)},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                yield part, tree, json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pages", type=Path, help="a directory of HTML files")
    parser.add_argument("--count", type=int, default=3000, help="pages of a run (3000)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--beside", type=Path, action="append", default=[], metavar="TREE")
    parser.add_argument("--run", choices=PARTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        print(json.dumps(run(args.run, args.pages, args.count) / args.count * 1e6))
        return
    taken: dict[tuple[str, str], list[float]] = {}
    for part, tree, spent in turns(args):
        taken.setdefault((part, tree.name), []).append(spent)
    for (part, name), spent in sorted(taken.items()):
        print(f"{part:16} {name:16} {statistics.median(spent):7.1f} µs a page, least {min(spent):.1f}")


if __name__ == "__main__":
    main()
