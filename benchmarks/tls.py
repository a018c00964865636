"""The cost of a TLS handshake in the fetcher, compared with the same handshake in bare OpenSSL.

    python benchmarks/tls.py                       a minute
    python benchmarks/tls.py --requests 500 --rounds 7

A server started for this (Python's `ssl`, another process) closes the connection after each answer. `fresh`: it
gives no tickets, so that every handshake is full; `resumed`: it gives them, and counts the handshakes that used
one. The client is Lycosa's fetcher (libcurl), or a socket with Python's `ssl`, which is OpenSSL with nothing
around it; both verify the certificate against one authority, read once. Reported is the CPU time (user and system)
of the client per request, medians of rounds that take turns, and what a handshake adds to the same request without
TLS.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import ssl
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from lycosa.clock import SystemClock
from lycosa.fetch.http import HttpFetcher
from lycosa.fetch.protocol import FetchOptions, Request, Response
from lycosa.meters import Meters

HOST = "127.0.0.1"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
WAYS = ("plain", "fresh", "resumed")


def serve(place: str, pipe: Connection) -> None:
    """Answer on three ports until told to stop; then report how many handshakes were resumed."""
    resumed = [0]

    def context(tickets: int) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(f"{place}/site.pem", f"{place}/site.key")
        made.num_tickets = tickets
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        return made

    def answer(listening: socket.socket, secure: ssl.SSLContext | None) -> None:
        while True:
            connection, _ = listening.accept()
            try:
                if secure is not None:
                    connection = secure.wrap_socket(connection, server_side=True)
                    resumed[0] += bool(connection.session_reused)
                connection.recv(65536)
                connection.sendall(ANSWER)
                if isinstance(connection, ssl.SSLSocket):
                    connection.unwrap().close()
            except OSError:
                pass
            finally:
                connection.close()

    ports = []
    for secure in (None, context(0), context(2)):
        listening = socket.create_server((HOST, 0), backlog=128)
        ports.append(listening.getsockname()[1])
        threading.Thread(target=answer, args=(listening, secure), daemon=True).start()
    pipe.send(ports)
    pipe.recv()
    pipe.send(resumed[0])


class Bare:
    """A socket with OpenSSL as wrapped by Python."""

    def __init__(self, ca_file: str) -> None:
        self._context = ssl.create_default_context(cafile=ca_file)
        self._session: ssl.SSLSession | None = None

    def ask(self, way: str, port: int, count: int) -> None:
        request = f"GET / HTTP/1.1\r\nHost: {HOST}:{port}\r\nUser-Agent: lycosa\r\n\r\n".encode("ascii")
        for _ in range(count):
            connection = socket.create_connection((HOST, port))
            if way != "plain":
                kept = self._session if way == "resumed" else None
                connection = self._context.wrap_socket(connection, server_hostname=HOST, session=kept)
            connection.sendall(request)
            answer = b""
            while len(answer) < len(ANSWER):
                answer += connection.recv(65536)
            if isinstance(connection, ssl.SSLSocket) and way == "resumed":
                self._session = connection.session
            connection.close()
            assert answer == ANSWER


class Ours:
    """Lycosa's fetcher, on an event loop of its own."""

    def __init__(self, ca_file: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._fetcher = HttpFetcher(FetchOptions(ca_file=ca_file), SystemClock(), Meters())

    def ask(self, way: str, port: int, count: int) -> None:
        url = f"{'http' if way == 'plain' else 'https'}://{HOST}:{port}/"

        async def go() -> None:
            for _ in range(count):
                answer = await self._fetcher.fetch(Request(url, address=HOST))
                assert isinstance(answer, Response) and answer.body == b"hello", answer

        self._loop.run_until_complete(go())


def spent(work: Callable[[], None], count: int) -> float:
    """Microseconds of CPU per request."""
    before = time.process_time()
    work()
    return (time.process_time() - before) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=300, help="in a row, of each kind")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    import trustme

    with tempfile.TemporaryDirectory() as place:
        authority = trustme.CA()
        certificate = authority.issue_cert(HOST)
        authority.cert_pem.write_to_path(f"{place}/ca.pem")
        Path(place, "site.pem").write_bytes(b"".join(b.bytes() for b in certificate.cert_chain_pems))
        certificate.private_key_pem.write_to_path(f"{place}/site.key")
        here, there = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(place, there), daemon=True)
        server.start()
        ports = dict(zip(WAYS, here.recv(), strict=True))
        clients = {"lycosa": Ours(f"{place}/ca.pem"), "openssl": Bare(f"{place}/ca.pem")}
        times: dict[tuple[str, str], list[float]] = {}
        for number in range(given.rounds + 1):
            for name, client in clients.items():
                for way in WAYS:
                    ask, port, count = client.ask, ports[way], given.requests if number else 5
                    took = spent(lambda a=ask, w=way, p=port, c=count: a(w, p, c), count)  # type: ignore[misc]
                    if number:
                        times.setdefault((name, way), []).append(took)
        here.send("end")
        asked = 2 * (given.rounds * given.requests + 5)
        print(f"resumed, of the handshakes that could be: {here.recv() / asked:.1%}\n")
        server.join(5)
    print(
        f"{'':10}" + "".join(f"{way:>10}" for way in WAYS) + f"{'a fresh handshake':>20}{'a resumed one':>16}"
    )
    added: dict[str, list[float]] = {}
    for name in clients:
        medians = [statistics.median(times[name, way]) for way in WAYS]
        added[name] = [medians[1] - medians[0], medians[2] - medians[0]]
        print(
            f"{name:10}"
            + "".join(f"{each:10.0f}" for each in medians)
            + f"{added[name][0]:20.0f}{added[name][1]:16.0f}"
        )
    print(
        "\nCPU µs per request; a handshake, lycosa : openssl "
        + " and ".join(
            f"{ours / bare:.2f} ({what})"
            for ours, bare, what in zip(added["lycosa"], added["openssl"], ("fresh", "resumed"), strict=True)
        )
    )


if __name__ == "__main__":
    main()
