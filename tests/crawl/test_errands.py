"""What a page's scripts may ask for, without a browser and without a network."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lycosa.clock import SystemClock
from lycosa.crawl.errands import Cache, Errands, answer_headers
from lycosa.fetch.protocol import Response
from lycosa.records import Timing
from lycosa.render.options import RenderOptions
from lycosa.render.page import Answer, Wish

HOST = "http://h.test"


def response(url: str, body: bytes = b"x", *lines: str, status: int = 200) -> Response:
    head = "\r\n".join([f"HTTP/1.1 {status} OK", *lines, "", ""]).encode()
    return Response(
        url=url, status=status, version="HTTP/1.1", request_head=b"", head=head, body=body, decoded=body,
        timing=Timing(), address="127.0.0.1",
    )  # fmt: skip


class Visits:
    """Answers everything, and writes down what it was asked."""

    def __init__(self, **answers: Response | str) -> None:
        self.answers = answers
        self.did: list[tuple[str, str]] = []

    async def errand(self, turn: Any, url: str, headers: Any) -> Response | str:
        self.did.append((turn.host, url))
        return self.answers.get(url.rpartition("/")[2]) or response(url)

    async def lodge(self, turn: Any, url: str, until: float) -> Any:
        host = url.split("/")[2]
        self.did.append(("lodge", host))
        return "turn (of its host)" if host == "busy.test" else SimpleNamespace(host=host)

    def leave(self, other: Any) -> None:
        self.did.append(("leave", other.host))


def errands(visits: Visits, cache: Cache | None = None, **options: Any) -> Errands:
    excludes = lambda host: SimpleNamespace(rule="by us") if host == "never.test" else None  # noqa: E731
    turn: Any = SimpleNamespace(
        host="h.test", shard=SimpleNamespace(scope=SimpleNamespace(excludes=excludes))
    )
    clock = SystemClock()
    chosen = RenderOptions(**options)
    return Errands(visits, turn, chosen, cache or Cache(chosen.cache, 60.0, clock), clock)  # type: ignore[arg-type]


def wish(url: str, kind: str = "XHR", method: str = "GET", **headers: str) -> Wish:
    return Wish(url, method, kind, headers)


async def test_only_what_can_be_read_is_asked_for() -> None:
    visits = Visits()
    made = errands(visits)
    for each in (
        wish(f"{HOST}/post", method="POST"),
        wish(f"{HOST}/head", method="HEAD"),
        wish("file:///etc/passwd"),
        wish("chrome://settings"),
        wish(f"{HOST}/a.png", "Image"),
        wish(f"{HOST}/favicon.ico", "Other", Accept="image/avif,*/*"),
        wish(f"{HOST}/next", "Document", **{"Sec-Purpose": "prefetch"}),
        wish("http://never.test/x"),
        wish("http://busy.test/x"),
    ):
        assert await made.ask(each) is None
    assert visits.did == [("lodge", "busy.test")]
    assert [each.partition(" ")[0] for each in made.refused] == [
        *("method", "method", "scheme", "scheme", "excluded", "turn"),
    ]
    assert await errands(visits, images=True).ask(wish(f"{HOST}/a.png", "Image")) is not None


async def test_a_page_has_so_many_requests_and_bytes() -> None:
    visits = Visits()
    few = errands(visits, requests=2)
    assert [await few.ask(wish(f"{HOST}/{n}")) is not None for n in range(3)] == [True, True, False]
    small = errands(Visits(large=response(f"{HOST}/large", b"x" * 100)), bytes=100)
    assert await small.ask(wish(f"{HOST}/large")) is not None
    assert await small.ask(wish(f"{HOST}/more")) is None
    assert small.refused == [f"limit {HOST}/more"]


async def test_what_was_had_a_moment_ago_is_not_asked_for_again() -> None:
    cache = Cache(1 << 20, 60.0, SystemClock())
    private = response(f"{HOST}/private", b"x", "Cache-Control: private, no-store")
    visits = Visits(private=private, missing=response(f"{HOST}/missing", status=404))
    first, second = errands(visits, cache), errands(visits, cache)
    for name in ("app.js", "private", "missing"):
        for made in (first, second):
            answer = await made.ask(wish(f"{HOST}/{name}#part"))
            assert answer is not None
    asked = [url.rpartition("/")[2] for _, url in visits.did]
    assert asked == ["app.js", "private", "private", "missing", "missing"]
    assert (len(first.parts), len(second.parts)) == (3, 2)  # each exchange is archived once


async def test_the_turn_of_another_host_is_kept_while_it_is_asked() -> None:
    visits = Visits()
    made = errands(visits)
    for url in ("http://cdn.test/a", "http://cdn.test/b", f"{HOST}/c", "http://other.test/d"):
        assert await made.ask(wish(url)) is not None
    await made.close()
    assert visits.did == [
        ("lodge", "cdn.test"),
        ("cdn.test", "http://cdn.test/a"),
        ("cdn.test", "http://cdn.test/b"),
        ("leave", "cdn.test"),
        ("h.test", f"{HOST}/c"),
        ("lodge", "other.test"),
        ("other.test", "http://other.test/d"),
        ("leave", "other.test"),
    ]


def test_the_cache_is_bounded_and_forgets_the_oldest() -> None:
    cache = Cache(100, 60.0, SystemClock())
    for number in range(10):
        cache.put("", f"{HOST}/{number}", Answer(200, [], b"x" * 20))
    cache.put("", f"{HOST}/huge", Answer(200, [], b"x" * 50))
    assert cache.nbytes == 100
    assert [cache.get("", f"{HOST}/{number}") is not None for number in range(10)] == [False] * 5 + [True] * 5
    assert cache.get("", f"{HOST}/huge") is None
    old = Cache(100, 0.0, SystemClock())
    old.put("", HOST, Answer(200, [], b"x"))
    assert old.get("", HOST) is None


def test_a_browser_is_not_told_how_a_body_was_sent() -> None:
    given = response(HOST, b"x", "Content-Encoding: br", "ETag: 1", "Alt-Svc: h3", "Link: </a>; rel=preload")
    assert answer_headers(given) == [("ETag", "1")]
