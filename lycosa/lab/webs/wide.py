"""A wide web: a million small pages with long lists of links, computed from their numbers.

It is made to fill frontiers. The synthetic web of `lycosa.lab.webs.web` has every oddity and costs its server
150 us per page; this one has none and costs 20, so that server and crawler can share two cores. There is no table
of pages: page, links and truth are functions of the options, and a server of a million pages takes as much
memory as one of a thousand.

    number      0 <= number < pages; host = number % hosts, place = number // hosts
    host        h003.wide007.test: host 3, in domain 7 = 3 % domains; a registered domain each, so shards spread
    path        place 0: "/"; else "/" FOLDER "/" FILE, with FOLDER = place // 64 and FILE = place % 64 in
                base 36, no leading zeros
    links       of page (host, place), in this order:
                  home and parent; the children, places 16 * place + 1 ... 16 * place + 16 of the host;
                  the next 12 places of the host, in a ring;
                  random places of the host, as many as make `links` in all;
                  6 random pages of random hosts, as absolute URLs;
                  and from a home page the homes of hosts 16 * host + 1 ... 16 * host + 16

Every page is reached from the home of host 0, by children alone, and has some `links` in-links. A breadth-first
crawl finds nearly all pages after a few percent of them: its queue peaks at nine tenths of the web (`peak`).
All links but 6 stay on their host, most of them rooted, those to the page's own folder relative. robots.txt
allows everything; every other URL is a 404 and linked from nowhere.

The server is raw asyncio with requests pipelined or not, GET and HEAD, and keeps no record of accesses.
Differences from `server.WebServer`: no cache, no faults, no access log, no bodies of requests (they are refused).
"""

from __future__ import annotations

import asyncio
import hashlib
import struct
from array import array
from collections.abc import Iterable, Iterator
from email.utils import formatdate
from typing import NamedTuple

import msgspec

from lycosa.clock import Clock, SystemClock
from lycosa.errors import ConfigError
from lycosa.lab.webs.server import BACKLOG, MAX_HEAD, bind, field
from lycosa.lab.webs.words import Words

CHILDREN = 16
RING = 12
CROSS = 6
FOLDER = 64
LEAST_LINKS = 2 + CHILDREN + RING + CROSS
ADDRESSES = 500
"""Limit of loopback addresses; with more hosts some share one."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_EXAMPLES = 5

_PAGE = b"<!doctype html><html><head><title>page %d of %s</title></head><body><p>%s</p>\n"
_END = b"</body></html>\n"
_ROBOTS = b"User-agent: *\nDisallow:\n"
_MISSING = b"no such page\n"


class WideOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One wide web; equal options give equal bytes."""

    pages: int = 1_000_000
    hosts: int = 256
    domains: int = 64
    links: int = 80
    """Links of a page (home pages have up to 16 more)."""
    seed: int = 1
    port: int = 0
    single: bool = False
    """All hosts at 127.0.0.1, as needed on systems other than Linux."""

    def __post_init__(self) -> None:
        if not 1 <= self.pages < 1 << 32:
            raise ConfigError(f"a wide web has 1 to {(1 << 32) - 1} pages, not {self.pages}")
        if not 1 <= self.hosts <= 200_000:
            raise ConfigError(f"hosts must be between 1 and 200000, not {self.hosts}")
        if self.pages < self.hosts:
            raise ConfigError(
                f"pages ({self.pages}) must be at least hosts ({self.hosts}): each has a home page"
            )
        if not 1 <= self.domains <= self.hosts:
            raise ConfigError(
                f"domains must be between 1 and hosts ({self.hosts}): each has one, not {self.domains}"
            )
        if not LEAST_LINKS <= self.links <= 1000:
            raise ConfigError(f"a wide web has {LEAST_LINKS} to 1000 links a page, not {self.links}")
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port must be between 0 and 65535, not {self.port}")


class Coverage(NamedTuple):
    """What a crawl fetched, compared with the truth."""

    pages: int
    """Pages of the web."""
    fetched: int
    """Pages that were fetched at least once."""
    repeated: int
    """Fetches of pages that had been fetched before."""
    foreign: int
    """Fetches of URLs that are not pages of this web."""
    examples: list[str]
    """A few of the missing or foreign URLs."""

    @property
    def exact(self) -> bool:
        """Whether every page was fetched once, and nothing else."""
        return self.fetched == self.pages and not self.repeated and not self.foreign


class WideWeb:
    """The web as a function of its options; `at(port)` is the same web on another port."""

    def __init__(self, options: WideOptions) -> None:
        self.options = options
        self._hosts, self._count = options.hosts, options.pages
        self.names = [f"h{host:03d}.wide{host % options.domains:03d}.test" for host in range(options.hosts)]
        self._by_name = {name: host for host, name in enumerate(self.names)}
        suffix = "" if options.port == 80 else f":{options.port}"
        self.origins = [f"http://{name}{suffix}" for name in self.names]
        words = Words(options.seed)
        folders = (self.size(0) - 1) // FOLDER + 1
        self._folder_names = [_base36(folder) for folder in range(folders)]
        self._folder_numbers = {name: folder for folder, name in enumerate(self._folder_names)}
        file_names = [_base36(file) for file in range(FOLDER)]
        self._file_numbers = {name: file for file, name in enumerate(file_names)}
        # The pieces from which pages are assembled. A link's text is a word of its file's.
        self._files = [f"{name}>{words.words[file]}</a>\n".encode() for file, name in enumerate(file_names)]
        self._relative = [b"<a href=" + file for file in self._files]
        self._rooted = [f"<a href=/{name}/".encode() for name in self._folder_names]
        self._absolute = [f"<a href={origin}/".encode() for origin in self.origins]
        self._folders = [f"{name}/".encode() for name in self._folder_names]
        self._encoded_names = [name.encode() for name in self.names]
        self._sentences = [sentence.encode() for sentence in words.sentences]
        self._home = b"<a href=/>home</a>\n"
        # Random numbers: two sentences, the random links of this host, a host and a place for each link across.
        self._random = options.links - LEAST_LINKS + CHILDREN
        self._unpack = struct.Struct(f"<{2 + self._random + 2 * CROSS}I").unpack
        self._salt = b"%d:" % options.seed

    def at(self, port: int) -> WideWeb:
        """The same web, served on another port."""
        return WideWeb(msgspec.structs.replace(self.options, port=port))

    # -- names

    def size(self, host: int) -> int:
        """Pages of a host."""
        return (self._count - host - 1) // self._hosts + 1

    def path(self, place: int) -> str:
        """The path of a page of any host."""
        if not place:
            return "/"
        return f"/{self._folder_names[place // FOLDER]}/{_base36(place % FOLDER)}"

    def url(self, number: int) -> str:
        """The URL of a page, in canonical form."""
        return self.origins[number % self._hosts] + self.path(number // self._hosts)

    def place(self, host: int, path: str) -> int:
        """The place of a path on a host, or -1 if there is no such page."""
        if path == "/":
            return 0
        root, _, rest = path.partition("/")
        folder, slash, file = rest.partition("/")
        try:
            place = self._folder_numbers[folder] * FOLDER + self._file_numbers[file]
        except KeyError:
            return -1
        return place if not root and slash and 0 < place < self.size(host) else -1

    def number(self, url: str) -> int:
        """The number of a page by its URL, or -1 if it is not a page of this web."""
        scheme, _, rest = url.partition("://")
        name, slash, path = rest.partition("/")
        host = self._by_name.get(name.partition(":")[0], -1)
        if scheme != "http" or host < 0 or not slash or f"http://{name}" != self.origins[host]:
            return -1
        place = self.place(host, "/" + path)
        return -1 if place < 0 else place * self._hosts + host

    def host(self, name: str) -> int:
        """The number of a host by its name (in lower case, without port), or -1."""
        return self._by_name.get(name, -1)

    def seeds(self, every: bool = False) -> list[str]:
        """The page from which all others are reached; or every home page."""
        return [origin + "/" for origin in (self.origins if every else self.origins[:1])]

    @property
    def addresses(self) -> tuple[str, ...]:
        """The loopback addresses of the hosts, each once."""
        if self.options.single:
            return ("127.0.0.1",)
        return tuple(f"127.0.{1 + n // 250}.{1 + n % 250}" for n in range(min(self._hosts, ADDRESSES)))

    def resolve(self) -> dict[str, str]:
        """Host to address."""
        addresses = self.addresses
        return {name: addresses[host % len(addresses)] for host, name in enumerate(self.names)}

    # -- pages

    def _dice(self, number: int) -> tuple[int, ...]:
        """The random numbers of a page, 32 bits each."""
        name = self._salt + b"%d" % number
        return self._unpack(hashlib.shake_128(name).digest(4 * (2 + self._random + 2 * CROSS)))

    def _places(self, host: int, place: int, dice: tuple[int, ...]) -> list[int]:
        """The places of the host that a page links, after home."""
        size = self.size(host)
        first = CHILDREN * place + 1
        found = [(place - 1) // CHILDREN if place else 0]
        found += range(first, min(first + CHILDREN, size))
        ring = range(place + 1, place + RING + 1)
        found += ring if place + RING < size else [other % size for other in ring]
        missing = CHILDREN - max(0, min(size - first, CHILDREN))
        found += [die * size >> 32 for die in dice[2 : 2 + self._random - CHILDREN + missing]]
        return found

    def _across(self, dice: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """Host and place of the links to other hosts."""
        at = 2 + self._random
        for die, other in zip(dice[at : at + CROSS], dice[at + CROSS :], strict=True):
            host = die * self._hosts >> 32
            yield host, other * self.size(host) >> 32

    def _homes(self, host: int) -> range:
        return range(CHILDREN * host + 1, min(CHILDREN * host + CHILDREN + 1, self._hosts))

    def links(self, number: int) -> list[int]:
        """The pages that a page links, as often and in the order that it does."""
        place, host = divmod(number, self._hosts)
        dice = self._dice(number)
        found = [host]
        found += [other * self._hosts + host for other in self._places(host, place, dice)]
        found += [there * self._hosts + other for other, there in self._across(dice)]
        if not place:
            found += self._homes(host)
        return found

    def page(self, host: int, place: int) -> bytes:
        """The HTML of a page. The server's hot path."""
        dice = self._dice(place * self._hosts + host)
        files, rooted, home = self._files, self._rooted, self._home
        here = place // FOLDER if place else -1
        sentences = self._sentences
        text = sentences[dice[0] % len(sentences)] + b" " + sentences[dice[1] % len(sentences)]
        parts = [_PAGE % (place, self._encoded_names[host], text), home]
        add = parts.append
        for other in self._places(host, place, dice):
            folder = other >> 6
            if folder == here and other:
                add(self._relative[other & 63])
            elif other:
                add(rooted[folder])
                add(files[other & 63])
            else:
                add(home)
        for there, other in self._across(dice):
            add(self._absolute[there])
            if other:
                add(self._folders[other >> 6])
                add(files[other & 63])
            else:
                add(b">home</a>\n")
        if not place:
            parts += [self._absolute[there] + b">a host</a>\n" for there in self._homes(host)]
        add(_END)
        return b"".join(parts)

    # -- the truth

    def urls(self) -> Iterator[str]:
        """Every page that a complete crawl fetches, and nothing else."""
        return map(self.url, range(self._count))

    def check(self, fetched: Iterable[str]) -> Coverage:
        """Compare the URLs that a crawl fetched, in any order, with the truth; takes one byte per page."""
        seen = bytearray(self._count)
        repeated = foreign = 0
        examples: list[str] = []
        for url in fetched:
            number = self.number(url)
            if number < 0:
                foreign += 1
                if len(examples) < _EXAMPLES:
                    examples.append(url)
            elif seen[number]:
                repeated += 1
            else:
                seen[number] = 1
        missing = seen.find(0)
        while missing >= 0 and len(examples) < 2 * _EXAMPLES:
            examples.append(self.url(missing))
            missing = seen.find(0, missing + 1)
        return Coverage(self._count, seen.count(1), repeated, foreign, examples)

    def peak(self) -> int:
        """The longest queue of an unbounded breadth-first crawl from the seed; some 30 s for a million pages."""
        seen = bytearray(self._count)
        seen[0] = 1
        level, peak, found = array("I", [0]), 1, 1
        taken = 0
        while level:
            below = array("I")
            for number in level:
                taken += 1
                for other in self.links(number):
                    if not seen[other]:
                        seen[other] = 1
                        below.append(other)
                        found += 1
                peak = max(peak, found - taken)
            level = below
        return peak


def _base36(number: int) -> str:
    digits = _DIGITS[number % 36]
    while number := number // 36:
        digits = _DIGITS[number % 36] + digits
    return digits


# -- the server


class WideServer:
    """Serves a wide web in the running event loop; with port 0 it chooses one, and `web` is then on that."""

    def __init__(self, web: WideWeb, *, clock: Clock | None = None) -> None:
        self.web = web
        self.requests = 0
        self.connections = 0
        self._clock = clock or SystemClock()
        self._servers: list[asyncio.Server] = []
        self._open: set[_Connection] = set()
        self._tick: asyncio.TimerHandle | None = None
        self.head = b""

    async def __aenter__(self) -> WideServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Listen. Raises `ConfigError` if an address or the port is not available."""
        sockets = bind(self.web.addresses, self.web.options.port)
        port = sockets[0].getsockname()[1]
        if port != self.web.options.port:
            self.web = self.web.at(port)
        self._hosts = {name.encode(): host for host, name in enumerate(self.web.names)}
        self._hosts |= {
            origin.partition("://")[2].encode(): host for host, origin in enumerate(self.web.origins)
        }
        self._set_date()
        loop = asyncio.get_running_loop()
        for sock in sockets:
            server = await loop.create_server(lambda: _Connection(self), sock=sock, backlog=BACKLOG)
            self._servers.append(server)

    async def close(self) -> None:
        """Stop listening and close every connection."""
        if self._tick is not None:
            self._tick.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self._open):
            connection.transport.close()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    def _set_date(self) -> None:
        date = formatdate(self._clock.wall(), usegmt=True)
        self.head = f"Date: {date}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: ".encode()
        self._tick = asyncio.get_running_loop().call_later(1.0, self._set_date)

    # for connections

    def joined(self, connection: _Connection) -> None:
        self.connections += 1
        self._open.add(connection)

    def left(self, connection: _Connection) -> None:
        self._open.discard(connection)

    def answer(self, name: bytes, target: bytes) -> tuple[bytes, bytes]:
        """Status line and body for a GET."""
        self.requests += 1
        host = self._hosts.get(name)
        if host is None:
            host = self.web.host(name.decode("latin-1").lower().partition(":")[0])
        if host >= 0:
            place = self.web.place(host, target.decode("latin-1"))
            if place >= 0:
                return b"HTTP/1.1 200 OK\r\n", self.web.page(host, place)
            if target == b"/robots.txt":
                return b"HTTP/1.1 200 OK\r\n", _ROBOTS
        return b"HTTP/1.1 404 Not Found\r\n", _MISSING


class _Connection(asyncio.Protocol):
    """One connection. Answers are computed at once, so requests are answered in their order."""

    transport: asyncio.Transport

    def __init__(self, server: WideServer) -> None:
        self._server = server
        self._buffer = b""
        self._full = False  # the client does not read: no more requests are answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._server.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.left(self)

    def pause_writing(self) -> None:
        self._full = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self._full = False
        if not self.transport.is_closing():
            self.transport.resume_reading()
            self._requests()

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        self._requests()

    def _requests(self) -> None:
        while self._buffer and not self._full and not self.transport.is_closing():
            end = self._buffer.find(b"\r\n\r\n")
            if not 0 <= end <= MAX_HEAD:
                if end >= 0 or len(self._buffer) > MAX_HEAD:
                    self._refuse()
                return
            head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            self._request(head)

    def _refuse(self, status: bytes = b"400 Bad Request") -> None:
        self.transport.write(b"HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)
        self.transport.close()

    def _request(self, head: bytes) -> None:
        words = head.partition(b"\r\n")[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return self._refuse()
        method, target, version = words
        if method not in (b"GET", b"HEAD"):
            return self._refuse(b"405 Method Not Allowed")
        lower = head.lower()
        if b"\r\ncontent-length:" in lower or b"\r\ntransfer-encoding:" in lower:
            return self._refuse()  # what follows would be its body, not a request
        name = field(head, lower, b"host")
        if target[:4].lower() == b"http":  # as to a proxy
            name, _, rest = target.partition(b"://")[2].partition(b"/")
            target = b"/" + rest
        said = field(head, lower, b"connection").lower()
        keep = said != b"close" if version == b"HTTP/1.1" else said == b"keep-alive"
        status, body = self._server.answer(name, target)
        ending = b"\r\n\r\n" if keep else b"\r\nConnection: close\r\n\r\n"
        sent = b"" if method == b"HEAD" else body
        self.transport.write(b"".join((status, self._server.head, b"%d" % len(body), ending, sent)))
        if not keep:
            self.transport.close()
        return None
