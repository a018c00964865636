"""What this machine lacks is never a site's failure: each errno injected where it would come up."""

from __future__ import annotations

import errno
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lycosa.clock import SystemClock
from lycosa.fetch import curl as curls
from lycosa.fetch.curl import Transfer
from lycosa.fetch.dns import AresResolver, DnsFailure, DnsKind, DnsOptions, Resolution
from lycosa.fetch.protocol import FailureKind, Request
from lycosa.fetch.shortage import descriptors_left, is_connect_shortage, is_shortage
from lycosa.meters import Meters

from .servers import Answer, answering, name_server, serving
from .test_http import LOCAL, fail, fetching, get

SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)


def test_which_errors_are_shortages() -> None:
    assert all(map(is_shortage, SHORT))
    assert not any(map(is_shortage, (None, 0, errno.ECONNREFUSED, errno.EAFNOSUPPORT, errno.ENAMETOOLONG)))
    assert is_connect_shortage(errno.EADDRNOTAVAIL, "192.0.2.1")
    assert not is_connect_shortage(errno.EADDRNOTAVAIL, "2001:db8::1"), "a machine without IPv6"
    assert not is_connect_shortage(errno.ECONNREFUSED, "192.0.2.1")


def test_descriptors_are_looked_for_and_closed_again() -> None:
    before = list(Path("/dev/fd").iterdir())
    assert descriptors_left(20)
    assert len(list(Path("/dev/fd").iterdir())) == len(before)


def test_a_full_table_of_descriptors_is_noticed() -> None:
    code = """
import os, resource
from lycosa.fetch.shortage import descriptors_left
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
taken = []
while descriptors_left(1):
    taken.append(os.dup(0))
assert len(taken) > 20
os.close(taken.pop()), os.close(taken.pop())
assert descriptors_left(2) and not descriptors_left(3)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=170)


@pytest.mark.parametrize("number", SHORT)
async def test_a_socket_that_cannot_be_made_is_our_failure(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> socket.socket:
        raise OSError(number, os.strerror(number))

    async with serving(answering()) as site, fetching() as fetcher:
        with monkeypatch.context() as patched:
            patched.setattr(curls.socket, "socket", refuse)
            failure = await fail(fetcher, site.url())
        assert failure.kind is FailureKind.LOCAL and os.strerror(number) in failure.detail
        assert (await get(fetcher, site.url())).status == 200
        assert site.connections == 1


async def test_a_kind_of_address_that_the_machine_does_not_know_stays_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would never pass: a host that has IPv6 only is given up in the end."""

    def refuse(*_: Any) -> socket.socket:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    monkeypatch.setattr(curls.socket, "socket", refuse)
    async with fetching() as fetcher:
        failure = await fail(fetcher, "http://site.test/")
    assert failure.kind is FailureKind.CONNECT and os.strerror(errno.EAFNOSUPPORT) in failure.detail


async def test_a_socket_that_cannot_be_copied_is_our_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """pycurl duplicates the descriptor that it is handed, and says nothing if it cannot."""
    made = socket.socket

    def closed(*args: Any) -> socket.socket:
        found = made(*args)
        found.close()
        return found

    async with serving(answering()) as site, fetching() as fetcher:
        monkeypatch.setattr(curls.socket, "socket", closed)
        failure = await fail(fetcher, site.url())
    assert failure.kind is FailureKind.LOCAL, failure


async def test_no_port_left_is_our_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same two ends a second time: to the system that is the same as no free port."""
    made = socket.socket
    async with serving(answering()) as site, fetching() as fetcher:
        with made() as first:
            first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            first.bind((LOCAL, 0))
            first.connect((LOCAL, site.port))

            def again(*args: Any) -> socket.socket:
                found = made(*args)
                found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                found.bind(first.getsockname())
                return found

            monkeypatch.setattr(curls.socket, "socket", again)
            failure = await fail(fetcher, site.url())
    assert failure.kind is FailureKind.LOCAL, failure
    assert os.strerror(errno.EADDRNOTAVAIL) in failure.detail


@pytest.mark.parametrize("code", [5, 6, 7, 35, 77])
def test_libcurls_own_words_are_doubted_when_no_descriptor_is_left(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer = Transfer(1000, None, False, None, [])
    assert transfer.outcome(code, "", 0.0).stopped == ""
    monkeypatch.setattr(curls, "descriptors_left", lambda count: False)
    assert transfer.outcome(52, "", 0.0).stopped == "", "an empty answer is the site's"
    assert transfer.outcome(code, "", 0.0).stopped == "shortage"
    transfer.curl.close()


async def test_a_refused_connection_is_the_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(answering()) as site:
        port = site.port
    async with fetching() as fetcher:
        assert (await fail(fetcher, f"http://site.test:{port}/")).kind is FailureKind.CONNECT
        monkeypatch.setattr(curls, "descriptors_left", lambda count: False)
        assert (await fail(fetcher, f"http://site.test:{port}/")).kind is FailureKind.LOCAL


async def test_memory_that_libcurl_does_not_get_is_our_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise MemoryError

    async with fetching() as fetcher:
        monkeypatch.setattr(Transfer, "prepare", refuse)
        assert (await fail(fetcher, "http://site.test/")).kind is FailureKind.LOCAL


async def test_a_whole_fetch_without_descriptors() -> None:
    """Nothing injected: the limit itself, in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with serving(answering()) as site, fetching() as fetcher:
        await get(fetcher, site.url("/", "warm.test"))
        taken = [os.dup(0)]
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0], hard))  # what is open stays open
            failure = await fetcher.fetch(Request(site.url("/", "other.test"), LOCAL))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            os.close(taken[0])
        assert getattr(failure, "kind", None) is FailureKind.LOCAL, failure


# -- names


async def test_a_name_is_not_asked_for_without_descriptors_and_that_is_not_remembered() -> None:
    room = [False]
    async with name_server() as names:
        names.names["a.test"] = [Answer(("192.0.2.1",))]
        options = DnsOptions(nameservers=(f"127.0.0.1:{names.port}",))
        resolver = AresResolver(options, SystemClock(), Meters(), lambda count: room[0])
        try:
            failure = await resolver.resolve("a.test")
            assert isinstance(failure, DnsFailure) and failure.kind is DnsKind.LOCAL
            assert not failure.final and names.asked == []
            room[0] = True
            assert isinstance(await resolver.resolve("a.test"), Resolution)
        finally:
            await resolver.close()


async def test_a_question_that_failed_without_descriptors_is_no_answer() -> None:
    room = iter([True, False])  # before the question, and after it
    async with name_server() as names:
        names.names["a.test"] = [Answer(code=2)]
        options = DnsOptions(nameservers=(f"127.0.0.1:{names.port}",))
        resolver = AresResolver(options, SystemClock(), Meters(), lambda count: next(room))
        try:
            failure = await resolver.resolve("a.test")
        finally:
            await resolver.close()
    assert isinstance(failure, DnsFailure) and failure.kind is DnsKind.LOCAL


async def test_a_name_that_does_not_exist_does_not_whatever_the_machine_lacks() -> None:
    room = iter([True, False])
    async with name_server() as names:
        options = DnsOptions(nameservers=(f"127.0.0.1:{names.port}",))
        resolver = AresResolver(options, SystemClock(), Meters(), lambda count: next(room))
        try:
            failure = await resolver.resolve("no.test")
        finally:
            await resolver.close()
    assert isinstance(failure, DnsFailure) and failure.kind is DnsKind.NXDOMAIN
