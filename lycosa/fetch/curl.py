"""libcurl's multi interface on the asyncio loop: many transfers, a pool of handles, one future each.

A `Transfer` is a reusable easy handle: settings that never change (limits, TLS, callbacks) are made once, when it
is created; each request sets its URL, its address, and its header lines if they differ from the last ones.
`Transfers` drives them: libcurl asks for sockets and a timer (`socket_action`), which a `Poller` and the loop
provide.

The address. `CONNECT_TO` names the address to connect to. It is part of a connection's identity in libcurl, so a
kept connection to one address is never used for a request pinned to another, and, being an address, it bypasses
the name cache. In addition, a socket is opened only to the pinned address and only if the guard permits it
(`OPENSOCKETFUNCTION`), and an answer counts only if it came from there.

A request is sent once. libcurl would repeat it, at once and on a new connection, when a kept connection turns out
to be dead; whether to repeat it is for the caller to decide (politeness), so the second socket is refused
("stale"). So is the first socket of a request that must use the connection of the request before it (`reuse`).

Besides libcurl's own work, callbacks are the cost of a transfer. So header lines are collected by a function in C
and read once, at the end (libcurl bounds them, trailers included: 300 KB and 5,000 lines). For a request over a
kept connection, which libcurl sends at once, `PREREQFUNCTION` is not set: whether it may be sent is asked before
libcurl is called.

Connections. `Outcome.kept` says whether libcurl still has the connection after the answer, whatever the reason
(HTTP/1.0, `Connection: close` in any spelling, HTTP/2's GOAWAY). A kept connection stays until `let_go` ends it.
libcurl has no call for that, so its socket is shut down. libcurl looks for dead connections once a second; until
then it may choose the ended one, and the request reaches nobody: `was_ended` says whether a stale connection may be
of that kind.

Shortage. If this machine cannot open or connect a socket for lack of descriptors, memory or ports, the transfer
ends as "shortage": see `lycosa.fetch.shortage`.

Time. libcurl's own timers limit connecting and the whole transfer; it has none for the first byte. Transfers are
kept in the order of their starts (hence of their deadlines: every transfer has the same limit), and one timer
watches the first.

Nothing here interprets HTTP: an `Outcome` is a head, pieces of body and an error code.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from ipaddress import ip_address
from math import inf
from typing import Any, NamedTuple

import pycurl

from lycosa.errors import LocalError
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.poller import Poller, best_poller
from lycosa.fetch.shortage import descriptors_left, is_connect_shortage, is_shortage
from lycosa.records import Timing
from lycosa.url.parts import host_of

_BATCH = 64  # sockets served before the loop gets its turn: some 5 ms
_SMALL = 2048  # pieces of body below this are joined as they come: the object costs more than its bytes
_REMEMBERED = 10_000
_OK = 0
_NO_CONNECTION = 7
_OPERATION_TIMEDOUT = 28
_MAY_BE_OURS = frozenset((5, 6, _NO_CONNECTION, 35, 77))
"""libcurl's codes (name, connection, handshake, certificates) that a lack of descriptors can cause, too."""


class Outcome(NamedTuple):
    """How a transfer ended: libcurl's code, and what was received until then."""

    code: int
    message: str
    head: bytes  # the final one
    status: int  # 0: the head is not whole
    parts: list[bytes | bytearray]
    size: int
    stopped: str
    """Why *we* ended it, "" if we did not: "head", "body", "first-byte", "address", "shortage", "stale", "late",
    "closed"."""
    timing: Timing
    address: str
    kept: bool  # the connection is still there


class Transfer:
    """One easy handle, and what its current transfer has received."""

    __slots__ = (
        "_guard",
        "_header_limit",
        "_lines_set",
        "_may_send",
        "_pin",
        "_posted",
        "_spend",
        "asks",
        "body_limit",
        "curl",
        "future",
        "handed",
        "lines",
        "message",
        "opened",
        "parts",
        "proxied",
        "reuse",
        "sent",
        "size",
        "started",
        "stopped",
    )

    def __init__(
        self,
        header_limit: int,
        guard: AddressGuard | None,
        proxied: bool,
        spend: Callable[[int], None] | None,
        options: list[tuple[int, Any]],
    ) -> None:
        self._header_limit = header_limit
        self._guard = guard
        self.proxied = proxied
        self._spend = spend
        self._pin = ""
        self._posted = False
        self.asks = True  # libcurl calls back before it sends
        self.reuse = False
        self._may_send: Callable[[], bool] | None = None
        self._lines_set: list[bytes] | None = None
        self.started = 0.0
        self.future: asyncio.Future[Outcome] | None = None
        self.lines: list[bytes] = []  # as they came, of all heads and of the trailers
        self.body_limit = 0
        self._clear()
        self.curl = curl = pycurl.Curl()
        for option, value in options:
            curl.setopt(option, value)
        curl.setopt(pycurl.HEADERFUNCTION, self.lines.append)
        curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        curl.setopt(pycurl.OPENSOCKETFUNCTION, self._on_open)
        curl.setopt(pycurl.PREREQFUNCTION, self._on_request)
        curl.setopt(pycurl.SOCKOPTFUNCTION, self._on_opened)

    def _clear(self) -> None:
        self.lines.clear()
        self.parts: list[bytes | bytearray] = []
        self.size = 0
        self.stopped = ""
        self.message = ""
        self.handed = 0  # sockets that were made for libcurl
        self.opened: list[int] = []  # libcurl's descriptors of these sockets
        self.sent = False

    def prepare(
        self,
        url: str,
        path: str,
        address: str,
        lines: list[bytes],
        body_limit: int,
        reuse: bool = False,
        may_send: Callable[[], bool] | None = None,
        form: bytes | None = None,
    ) -> None:
        """Set up the next transfer. `reuse`: only over a kept connection. `may_send`: asked right before sending.
        `form`: the body of a POST."""
        self.body_limit = body_limit
        self.reuse = reuse
        self._may_send = may_send
        curl = self.curl
        if self.asks is (reuse and not self.proxied):
            self.asks = not self.asks
            curl.setopt(pycurl.PREREQFUNCTION, self._on_request if self.asks else None)
        curl.setopt(pycurl.URL, url)
        if not self.proxied:
            # libcurl would write %2e as %2E; a proxy needs the whole URL here, so there it does.
            curl.setopt(pycurl.REQUEST_TARGET, path)
        if address != self._pin:
            self._pin = address
            if address:
                named = f"[{address}]" if ":" in address else address
                curl.setopt(pycurl.CONNECT_TO, [f"::{named}:"])
            else:
                curl.unsetopt(pycurl.CONNECT_TO)
        if lines is not self._lines_set:
            self._lines_set = lines
            curl.setopt(pycurl.HTTPHEADER, lines)
        if form is not None:
            curl.setopt(pycurl.POSTFIELDS, form)
            self._posted = True
        elif self._posted:
            curl.setopt(pycurl.POSTFIELDS, b"")
            curl.setopt(pycurl.HTTPGET, 1)
            self._posted = False

    def release(self) -> None:
        """Free what was received; the handle stays."""
        self.future = self._may_send = None
        self._clear()

    # libcurl's callbacks: they must not raise, and returning 0 for a non-empty piece ends the transfer.

    def _on_body(self, data: bytes) -> int | None:
        size, parts = len(data), self.parts
        self.size += size
        if not parts:
            if sum(map(len, self.lines)) > self._header_limit:
                self.stopped = "head"
                return 0
            parts.append(data)
        elif size >= _SMALL:
            parts.append(data)
        elif isinstance(last := parts[-1], bytearray):
            last += data
        elif len(last) < _SMALL:
            parts[-1] = bytearray(last) + data
        else:
            parts.append(data)
        if self._spend is not None:
            self._spend(size)
        if self.size > self.body_limit:
            self.stopped = "body"
            return 0
        return None

    def _on_request(self, *where: Any) -> int:
        if self.is_late():
            return int(pycurl.PREREQFUNC_ABORT)
        self.sent = True
        return int(pycurl.PREREQFUNC_OK)

    def is_late(self) -> bool:
        """Whether the request may no longer be sent; if so, stop it."""
        if self._may_send is None or self._may_send():
            return False
        self.stopped = "late"
        return True

    def _on_open(self, purpose: int, address: Any) -> Any:
        if (self.sent or self.reuse) and not self.proxied:
            # The kept connection was dead, and libcurl would open another one at once.
            self.stopped = "stale"
            return pycurl.SOCKET_BAD
        if self.is_late():
            return pycurl.SOCKET_BAD
        refused = self._refusal(str(address.addr[0]))
        if refused is not None:
            self.stopped, self.message = "address", refused
            return pycurl.SOCKET_BAD
        try:
            opened = socket.socket(address.family, address.socktype, address.protocol)
        except OSError as error:
            self.message = f"cannot open a socket: {error.strerror or error}"
            if is_shortage(error.errno):
                self.stopped = "shortage"
            return pycurl.SOCKET_BAD
        self.handed += 1
        return opened

    def _refusal(self, where: str) -> str | None:
        """Why no socket may be opened to an address; None if one may."""
        if self.proxied:
            return self._guard.outside(where) if self._guard is not None else None
        refused = self._guard.refuses(where) if self._guard is not None else None
        if refused is None and not same_address(where, self._pin):
            refused = f"{where} is not the address that was checked ({self._pin or 'none'})"
        return refused

    def _on_opened(self, fd: int, purpose: int) -> int:
        """Make the copy that pycurl makes of each socket it is given not inheritable by child processes."""
        self.opened.append(fd)
        try:
            os.set_inheritable(fd, False)
        except OSError:
            return int(pycurl.SOCKOPT_ERROR)
        return int(pycurl.SOCKOPT_OK)

    def _shortage(self, code: int) -> str:
        """What this machine lacked, if libcurl failed for that reason; else empty."""
        if code not in _MAY_BE_OURS:
            return ""
        number = int(self.curl.getinfo(pycurl.OS_ERRNO))
        if code == _NO_CONNECTION and is_connect_shortage(number, self._pin):
            return os.strerror(number)
        if self.handed > len(self.opened):  # a copy of the socket could not be made
            return os.strerror(errno.EMFILE)
        return os.strerror(errno.EMFILE) if not descriptors_left(2) else ""

    def outcome(self, code: int, message: str, loop: asyncio.AbstractEventLoop) -> Outcome:
        """The outcome of the ended transfer."""
        info = self.curl.getinfo
        connect, total = 0, info(pycurl.TOTAL_TIME_T)
        if not self.reuse:
            connect = info(pycurl.APPCONNECT_TIME_T) or info(pycurl.CONNECT_TIME_T)
        if self.stopped in ("first-byte", "closed"):
            total = int(
                (loop.time() - self.started) * 1_000_000
            )  # libcurl does not know yet that it has ended
        first_byte = info(pycurl.STARTTRANSFER_TIME_T)
        timing = Timing(0, (connect + 500) // 1000, (first_byte + 500) // 1000, (total + 500) // 1000)
        head, status = final_head(self.lines)
        if len(head) > self._header_limit:
            self.stopped = "head"
        if not head and not self.stopped and (short := self._shortage(code)):
            self.stopped, self.message = "shortage", f"cannot open a connection: {short}"
        address = info(pycurl.PRIMARY_IP) or ""
        if address != self._pin and head and self._pin and not same_address(address, self._pin):
            self.stopped = "address"
            self.message = f"{address} answered, not the address that was checked ({self._pin})"
        kept = self.proxied or int(info(pycurl.ACTIVESOCKET)) >= 0
        said = self.message or message
        return Outcome(code, said, head, status, self.parts, self.size, self.stopped, timing, address, kept)


def final_head(lines: list[bytes]) -> tuple[bytes, int]:
    """The final head among the lines received, and its status (0 if the head is incomplete). Heads of status 1xx
    are skipped; lines after the final head are trailers."""
    head = b"".join(lines)
    if head.find(b"\n\r\n") == len(head) - 3 and head.startswith(b"HTTP/1.1 ") and b"\n\n" not in head:
        code = head[9:12]
        if code.isdigit() and code >= b"200":
            return head, int(code)  # a single head: the usual case
    found: list[bytes] = []
    for line in lines:
        found.append(line)
        if line in (b"\r\n", b"\n"):
            words = found[0].split(None, 2)
            if len(words) > 1 and words[0].startswith(b"HTTP/") and words[1].isdigit():
                if len(words[1]) != 3 or not words[1].startswith(b"1"):
                    return b"".join(found), int(words[1][:3])
                found = []  # the answer is still to come
    return b"".join(found), 0


def same_address(one: str, other: str) -> bool:
    """Whether two texts are the same address in any spelling, IPv4-mapped forms included."""
    if one == other:
        return bool(one)
    try:
        pair = [ip_address(one), ip_address(other)]
    except ValueError:
        return False
    a, b = (getattr(each, "ipv4_mapped", None) or each for each in pair)
    return bool(a == b)


class Transfers:
    """All transfers of an agent, on the loop that is running when the first one starts."""

    def __init__(
        self,
        make: Callable[[], Transfer],
        connections: int,
        first_byte_timeout: float,
        poller: Callable[[], Poller] = best_poller,
    ) -> None:
        self._make = make
        self._limit = self._free = max(1, connections)
        self._first_byte_timeout = first_byte_timeout
        self._new_poller = poller
        self._idle: list[Transfer] = []
        self._active: dict[pycurl.Curl, Transfer] = {}
        self._begun: list[Transfer] = []
        """Transfers without `PREREQFUNCTION`: whether they may be sent is asked here, before libcurl is called."""
        self._queue: deque[asyncio.Future[None]] = deque()  # starts that wait for a free slot
        self._watch_timer: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._alarm = inf  # when the timer runs
        self._due: float | None = None
        self._kicked = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._running = 0
        self._kept: dict[str, dict[int, tuple[str, int]]] = {}
        """Kept connections by host: their descriptor and the other end."""
        self._ended: dict[str, None] = {}
        """Hosts (the last `_REMEMBERED`) for which libcurl may still have a connection that `let_go` ended."""
        self.opened = 0

    @property
    def in_flight(self) -> int:
        return len(self._active)

    async def run(
        self,
        url: str,
        path: str,
        address: str,
        lines: list[bytes],
        body_limit: int,
        reuse: bool,
        may_send: Callable[[], bool] | None,
        form: bytes | None,
        proxy: str,
    ) -> Outcome:
        """Run one transfer (`Transfer.prepare`; through `proxy`, unless it is ""); waits for a free slot first."""
        loop = self._loop
        if loop is None or self._closed:
            loop = self._open()
        if self._free > 0:
            self._free -= 1
        else:
            await self._wait_for_slot(loop)
        transfer = self._idle.pop() if self._idle else self._make()
        try:
            if proxy:
                transfer.curl.setopt(pycurl.PROXY, proxy)
            transfer.prepare(url, path, address, lines, body_limit, reuse, may_send, form)
            future = transfer.future = loop.create_future()
            try:
                self._multi.add_handle(transfer.curl)
            except pycurl.error as error:  # a multi handle's code, not an easy handle's
                raise MemoryError(f"libcurl cannot begin: {error}") from error
        except BaseException:
            transfer.curl.close()
            self._free_slot()
            raise
        transfer.started = loop.time()
        self._active[transfer.curl] = transfer
        if self._watch_timer is None and self._first_byte_timeout > 0:
            self._watch_timer = loop.call_at(transfer.started + self._first_byte_timeout, self._on_watch)
        if not transfer.asks:
            self._begun.append(transfer)
        try:
            outcome: Outcome = await future
            return outcome
        except asyncio.CancelledError:
            if transfer.future is future:
                self._retire(transfer)
            raise

    def _open(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise LocalError("the fetcher is closed")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._poller = self._new_poller()
            self._multi = multi = pycurl.CurlMulti()
            multi.setopt(pycurl.M_MAXCONNECTS, self._limit)
            multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
            multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
            self._loop.add_reader(self._poller.fileno(), self._on_ready)
        return self._loop

    # What libcurl waits for.

    def _on_socket(self, what: int, fd: int, multi: Any, data: Any) -> None:
        if what == pycurl.POLL_REMOVE:
            self._poller.forget(fd)
        else:
            self._poller.watch(fd, what & 3)

    def _on_timer(self, ms: int) -> None:
        """libcurl wants `socket_action(SOCKET_TIMEOUT)` in `ms`; -1: no longer. It must not be called from here."""
        loop = self._loop
        assert loop is not None
        if ms > 0:
            self._due = due = loop.time() + ms / 1000
            if due < self._alarm:
                self._arm(loop)
            return
        self._due = None
        if ms == 0 and not self._kicked:
            self._kicked = True
            loop.call_soon(self._on_due)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the timer to `_due`. A timer that is set to an earlier time stays: it will set itself again."""
        if self._due is None:
            return
        if self._alarm <= self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._alarm = self._due
        self._timer = loop.call_at(self._due, self._on_alarm)

    def _on_alarm(self) -> None:
        self._timer, self._alarm = None, inf
        loop = self._loop
        if loop is None or self._due is None:
            return
        if self._due > loop.time():
            self._arm(loop)
        else:
            self._on_due()

    def _on_due(self) -> None:
        self._kicked = False
        if self._closed:
            return
        self._due = None
        self._act(pycurl.SOCKET_TIMEOUT, 0)
        if self._due is None and not self._kicked and self._active:
            # If the timer ran slightly early, libcurl has not set a new one: ask for its timeout.
            ms = self._multi.timeout()
            if ms >= 0:
                self._on_timer(max(1, ms))
        self._collect()

    def _on_ready(self) -> None:
        for fd, what in self._poller.ready(_BATCH):
            self._act(fd, what)
        self._collect()

    def _act(self, fd: int, what: int) -> None:
        if self._begun:
            begun, self._begun = self._begun, []
            for transfer in begun:
                if transfer.future is not None and transfer.is_late():
                    self._settle(transfer.curl, _OK, "")
        self._running = self._multi.socket_action(fd, what)[1]

    def _collect(self) -> None:
        """Settle the transfers that have ended."""
        if self._running >= len(self._active):
            return
        more = 1
        while more:
            more, done, failed = self._multi.info_read()
            for curl in done:
                self._settle(curl, _OK, "")
            for curl, code, message in failed:
                self._settle(curl, code, message)

    def _settle(self, curl: pycurl.Curl, code: int, message: str) -> None:
        transfer = self._active.get(curl)
        if transfer is None:
            return
        assert self._loop is not None
        outcome = transfer.outcome(code, message, self._loop)
        if outcome.kept and not transfer.reuse and not transfer.proxied:  # else it is the proxy's
            self._note_socket(curl)
        future = transfer.future
        self._retire(transfer)
        if future is not None and not future.done():
            future.set_result(outcome)

    def _retire(self, transfer: Transfer) -> None:
        """Take the transfer out of libcurl and its handle back into the pool."""
        if transfer.opened:
            self.opened += len(transfer.opened)
        del self._active[transfer.curl]
        self._multi.remove_handle(transfer.curl)
        transfer.release()
        self._idle.append(transfer)
        if self._queue:
            self._free_slot()
        else:
            self._free += 1

    def _note_socket(self, curl: pycurl.Curl) -> None:
        fd = int(curl.getinfo(pycurl.ACTIVESOCKET))
        if fd >= 0:
            end = (str(curl.getinfo(pycurl.PRIMARY_IP)), int(curl.getinfo(pycurl.PRIMARY_PORT)))
            self._kept.setdefault(host_of(str(curl.getinfo(pycurl.EFFECTIVE_URL))), {})[fd] = end

    def let_go(self, host: str) -> int:
        """End the kept connections of a host that no transfer is using; returns how many."""
        kept = self._kept.pop(host, {})
        if not kept:
            return 0
        used = {fd for transfer in self._active.values() for fd in transfer.opened}
        count = sum(_shut_down(fd, end) for fd, end in kept.items() if fd not in used)
        if count:
            self._ended.pop(host, None)
            self._ended[host] = None
            if len(self._ended) > _REMEMBERED:
                del self._ended[next(iter(self._ended))]
        return count

    def was_ended(self, host: str) -> bool:
        """Whether a stale connection to the host may be one that `let_go` ended; asking clears the mark."""
        return self._ended.pop(host, False) is None

    async def _wait_for_slot(self, loop: asyncio.AbstractEventLoop) -> None:
        turn: asyncio.Future[None] = loop.create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._free_slot()  # it was handed over in the same turn of the loop
            raise
        self._open()  # the slot may be that of a closed fetcher

    def _free_slot(self) -> None:
        """Pass the slot to the start that has waited longest, so that no newcomer takes it; or leave it free."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    # The limit on the first byte.

    def _on_watch(self) -> None:
        """End the transfers that have waited too long for a first byte."""
        self._watch_timer = None
        loop = self._loop
        if loop is None or self._closed:
            return
        now = loop.time()
        for transfer in list(self._active.values()):
            due = transfer.started + self._first_byte_timeout
            if due > now:
                self._watch_timer = loop.call_at(due, self._on_watch)
                return
            if not transfer.size and not final_head(transfer.lines)[0]:
                transfer.stopped = "first-byte"
                self._settle(transfer.curl, _OPERATION_TIMEDOUT, "")

    def close(self) -> None:
        """End everything; transfers in flight end with `stopped` = "closed"."""
        if self._closed:
            return
        self._closed = True
        if self._loop is None:
            return
        for transfer in list(self._active.values()):
            transfer.stopped = "closed"
            self._settle(transfer.curl, _OPERATION_TIMEDOUT, "")
        while self._queue:
            self._free_slot()
        for timer in (self._timer, self._watch_timer):
            if timer is not None:
                timer.cancel()
        self._loop.remove_reader(self._poller.fileno())
        self._multi.close()
        for transfer in self._idle:
            transfer.curl.close()
        self._idle.clear()
        self._poller.close()


def _shut_down(fd: int, end: tuple[str, int]) -> bool:
    """Shut a connection down if it still leads to that end: the descriptor may be another socket's by now."""
    try:
        sock = socket.socket(fileno=fd)
    except OSError:
        return False
    try:
        if sock.type != socket.SOCK_STREAM or sock.getpeername()[:2] != end:
            return False
        sock.shutdown(socket.SHUT_RDWR)
    except (OSError, TypeError):
        return False
    finally:
        sock.detach()  # the descriptor is libcurl's
    return True
