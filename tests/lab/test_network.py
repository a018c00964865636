"""The scripted network answers like the real seams it stands for."""

from __future__ import annotations

import pytest

from lycosa.clock import ManualClock
from lycosa.fetch.dns import DnsFailure, DnsKind, Resolution
from lycosa.fetch.protocol import Failure, FailureKind, Request, Response
from lycosa.lab.network import Reply, ScriptedFetcher, ScriptedFetchers, ScriptedResolver

URL = "http://a.test/x?y=1"


async def test_an_answer_has_what_a_real_one_has() -> None:
    clock = ManualClock()
    reply = Reply(
        b"body", 302, (("Location", "/next"), ("X-Robots-Tag", "noindex"), ("X-Robots-Tag", "nofollow"))
    )
    fetcher = ScriptedFetcher(lambda request, before: reply, clock, latency=0.25)
    answer = await fetcher.fetch(Request(URL, "192.0.2.1"))
    assert isinstance(answer, Response)
    assert (answer.url, answer.status, answer.body, answer.decoded) == (URL, 302, b"body", b"body")
    assert answer.location == "/next"
    assert answer.headers("x-robots-tag") == ["noindex", "nofollow"]
    assert answer.address == "192.0.2.1"
    assert answer.timing.total == 250
    assert answer.request_head == b"GET /x?y=1 HTTP/1.1\r\n\r\n"
    assert answer.head.endswith(b"\r\n\r\n")
    assert fetcher.requests == [(0.0, 0.25, URL)]


async def test_retry_after_is_seconds() -> None:
    reply = Reply(b"", 503, (("retry-after", "7"),))
    answer = await ScriptedFetcher(lambda *_: reply, ManualClock()).fetch(Request(URL))
    assert isinstance(answer, Response) and answer.retry_after == 7.0


async def test_a_script_is_told_how_often_a_url_was_asked() -> None:
    told: list[tuple[str, int]] = []

    def script(request: Request, before: int) -> Reply | Failure:
        told.append((request.url, before))
        return Reply() if before else Failure(FailureKind.TIMEOUT, "not yet")

    fetcher = ScriptedFetcher(script, ManualClock())
    assert isinstance(await fetcher.fetch(Request(URL)), Failure)
    assert isinstance(await fetcher.fetch(Request(URL)), Response)
    await fetcher.fetch(Request("http://b.test/"))
    assert told == [(URL, 0), (URL, 1), ("http://b.test/", 0)]


async def test_http_and_https_and_nothing_else() -> None:
    fetcher = ScriptedFetcher(lambda *_: Reply(), ManualClock())
    table = ScriptedFetchers(fetcher)
    assert table.schemes == ["http", "https"]
    assert table.for_scheme("http") is table.for_scheme("https") is fetcher
    assert table.for_scheme("file") is None
    assert fetcher.needs_address
    await table.close()


@pytest.mark.parametrize("host", ["a.test", "b.test"])
async def test_names_are_in_the_table_or_do_not_exist(host: str) -> None:
    found = await ScriptedResolver({"a.test": "192.0.2.1"}).resolve(host)
    if host == "a.test":
        assert isinstance(found, Resolution) and found.addresses == ("192.0.2.1",)
    else:
        assert isinstance(found, DnsFailure) and found.kind is DnsKind.NXDOMAIN and found.final
