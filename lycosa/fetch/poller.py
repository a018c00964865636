"""Which sockets libcurl waits for: a selector inside the event loop's selector.

libcurl says for each socket whether it waits to read or to write, and changes its mind several times per
transfer. Handing each change to asyncio costs some 6 µs (a handle and a selector key are made for each), so
the sockets are kept in a selector of our own whose one descriptor the loop watches for reading: a change is
one system call, and one wake-up of the loop serves many sockets. epoll and kqueue can be nested this way.

`EpollPoller` is the fast path on Linux. It leaves a socket that is no longer waited for in epoll, since most are
waited for again with the next request: one system call per request instead of two. If such a socket has an event
(its other end closed it), it is taken out. `SelectorPoller` uses the standard library's selector and runs
everywhere.
"""

from __future__ import annotations

import contextlib
import select
import selectors
import sys
from collections.abc import Callable
from typing import Protocol

READ, WRITE, ERROR = 1, 2, 4  # libcurl's CSELECT_IN, CSELECT_OUT, CSELECT_ERR


class Poller(Protocol):
    """The sockets being waited for, and what each is waited for."""

    def fileno(self) -> int:
        """A descriptor that is readable whenever `ready` would return sockets."""
        ...

    def watch(self, fd: int, what: int) -> None:
        """Wait for `what` (READ, WRITE or both) on the socket, and for nothing else on it."""
        ...

    def forget(self, fd: int) -> None:
        """Wait no longer; harmless for sockets that are unknown or closed."""
        ...

    def ready(self, most: int) -> list[tuple[int, int]]:
        """Up to `most` ready sockets, each with what it is ready for. Level-triggered; does not block."""
        ...

    def close(self) -> None: ...


class SelectorPoller:
    """On the standard library's selector."""

    def __init__(self) -> None:
        # Not every selector has a descriptor (select and poll have none), so take those that do.
        kind = getattr(selectors, "KqueueSelector", None) or selectors.EpollSelector
        self._selector = kind()

    def fileno(self) -> int:
        return int(self._selector.fileno())

    def watch(self, fd: int, what: int) -> None:
        events = (selectors.EVENT_READ if what & READ else 0) | (selectors.EVENT_WRITE if what & WRITE else 0)
        if fd in self._selector.get_map():
            self._selector.modify(fd, events)
        else:
            self._selector.register(fd, events)

    def forget(self, fd: int) -> None:
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def ready(self, most: int) -> list[tuple[int, int]]:
        found = self._selector.select(0)[:most]
        return [
            (
                key.fd,
                (READ if events & selectors.EVENT_READ else 0)
                | (WRITE if events & selectors.EVENT_WRITE else 0),
            )
            for key, events in found
        ]

    def close(self) -> None:
        self._selector.close()


_best: Callable[[], Poller] = SelectorPoller

if sys.platform == "linux":
    _IN = select.EPOLLIN | select.EPOLLHUP | select.EPOLLRDHUP
    _EVENTS = (
        0,
        select.EPOLLIN,
        select.EPOLLOUT,
        select.EPOLLIN | select.EPOLLOUT,
    )

    class EpollPoller:
        """On epoll, without the bookkeeping of the standard library's selector."""

        def __init__(self) -> None:
            self._epoll = select.epoll()
            self._known: set[int] = set()
            self._parked: set[int] = set()  # known sockets that are not waited for now

        def fileno(self) -> int:
            return self._epoll.fileno()

        def watch(self, fd: int, what: int) -> None:
            if fd in self._known:
                self._parked.discard(fd)
                try:
                    self._epoll.modify(fd, _EVENTS[what])
                    return
                except OSError:
                    pass  # the descriptor was closed and is another socket now: the system forgot it
            self._epoll.register(fd, _EVENTS[what])
            self._known.add(fd)

        def forget(self, fd: int) -> None:
            if fd in self._known:
                self._parked.add(fd)

        def ready(self, most: int) -> list[tuple[int, int]]:
            found = self._epoll.poll(0, most)
            for fd, _ in found:
                if fd in self._parked:
                    self._drop(fd)
            return [
                (
                    fd,
                    (READ if events & _IN else 0)
                    | (WRITE if events & select.EPOLLOUT else 0)
                    | (ERROR if events & select.EPOLLERR else 0),
                )
                for fd, events in found
                if fd in self._known
            ]

        def _drop(self, fd: int) -> None:
            self._parked.discard(fd)
            self._known.discard(fd)
            with contextlib.suppress(OSError):  # closed before
                self._epoll.unregister(fd)

        def close(self) -> None:
            self._epoll.close()

    _best = EpollPoller


def best_poller() -> Poller:
    """The fastest that this system has."""
    return _best()
