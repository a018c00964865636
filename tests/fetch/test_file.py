"""Files as a site, and fetchers by scheme."""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from lycosa.clock import SystemClock
from lycosa.errors import ConfigError, LocalError
from lycosa.fetch.file import FileFetcher, file_path
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.http import HttpFetcher
from lycosa.fetch.protocol import Failure, FailureKind, Fetcher, FetchOptions, Request, Response
from lycosa.fetch.registry import FetchContext, Fetchers
from lycosa.meters import Meters


def fetcher(**options: Any) -> FileFetcher:
    return FileFetcher(FetchOptions(**options), SystemClock(), Meters())


async def get(some: FileFetcher, url: str, **more: Any) -> Response:
    answer = await some.fetch(Request(url, **more))
    assert isinstance(answer, Response), answer
    return answer


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "page one.html").write_text("<p>one")
    (tmp_path / "site" / "data.json.gz").write_bytes(b"\x1f\x8b")
    (tmp_path / "site" / ".hidden").write_text("x")
    (tmp_path / "site" / 'odd"<&%#?.txt').write_text("odd")
    (tmp_path / "site" / "below").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "site" / "out").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "site" / "in").symlink_to(tmp_path / "site" / "page one.html")
    os.mkfifo(tmp_path / "site" / "pipe")
    return tmp_path


async def test_a_file(tree: Path) -> None:
    answer = await get(fetcher(), f"file://{tree}/site/page%20one.html")
    assert (answer.status, answer.body, answer.decoded) == (200, b"<p>one", b"<p>one")
    assert answer.header("content-type") == "text/html"
    assert answer.header("content-length") == "6"
    assert answer.head.endswith(b"\r\n\r\n")
    packed = await get(fetcher(), f"file://localhost{tree}/site/data.json.gz")
    assert (packed.header("content-type"), packed.header("content-encoding")) == ("application/gzip", None)


async def test_a_directory_is_a_page_of_links(tree: Path) -> None:
    moved = await get(fetcher(), f"file://{tree}/site?x#y")
    assert (moved.status, moved.location) == (301, f"file://{tree}/site/")
    page = await get(fetcher(), f"file://{tree}/site/")
    assert page.status == 200
    text = page.body.decode()
    assert '<a href="./page%20one.html">' in text
    assert '<a href="./below/">' in text
    assert '<a href="./odd%22%3C%26%25%23%3F.txt">odd&quot;&lt;&amp;%#?.txt</a>' in text
    assert ".hidden" not in text
    odd = await get(fetcher(), f"file://{tree}/site/odd%22%3C%26%25%23%3F.txt")
    assert odd.body == b"odd"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 404),
        ("/site/page%20one.html/below", 404),
        ("/site/pipe", 403),
        ("/site/" + "x" * 5000, None),
    ],
)
async def test_what_is_not_there(tree: Path, path: str, status: int | None) -> None:
    answer = await fetcher().fetch(Request(f"file://{tree}{path}"))
    if status is None:
        assert isinstance(answer, Failure) and answer.kind is FailureKind.DISCONNECT
    else:
        assert isinstance(answer, Response) and answer.status == status


async def test_the_root_holds(tree: Path) -> None:
    some = fetcher(file_root=str(tree / "site"))
    assert (await get(some, f"file://{tree}/site/in")).status == 200
    assert (await get(some, f"file://{tree}/site/")).status == 200
    for path in (
        "/secret.txt",
        "/site/out",
        "/site/../secret.txt",
        "/site/%2e%2e/secret.txt",
        "/site%2F..%2Fsecret.txt",
    ):
        assert (await get(some, f"file://{tree}{path}")).status == 403, path
    assert (await get(some, "file:///etc/passwd")).status == 403
    sibling = tree / "site-other"
    sibling.write_text("x")
    assert (await get(some, f"file://{sibling}")).status == 403


async def test_nothing_has_changed(tree: Path) -> None:
    url = f"file://{tree}/site/page%20one.html"
    first = await get(fetcher(), url)
    etag, modified = first.header("etag") or "", first.header("last-modified") or ""
    assert (await get(fetcher(), url, etag=etag)).status == 304
    assert (await get(fetcher(), url, modified=modified)).status == 304
    (tree / "site" / "page one.html").write_text("<p>two, longer")
    assert (await get(fetcher(), url, etag=etag)).status == 200


async def test_limits(tree: Path) -> None:
    answer = await get(fetcher(max_body_bytes=3), f"file://{tree}/secret.txt")
    assert (answer.body, answer.truncated) == (b"sec", "length")
    answer = await get(fetcher(max_body_bytes=6), f"file://{tree}/secret.txt")
    assert (answer.body, answer.truncated) == (b"secret", "")
    answer = await get(fetcher(max_decoded_bytes=2), f"file://{tree}/secret.txt")
    assert (answer.decoded, answer.problem) == (b"se", "capped")


@pytest.mark.parametrize(
    "url", ["file://host/x", "file:x", "http://a/", "file://", "file:///a%00b", "file:///\udcff"]
)
async def test_urls_that_are_no_file(url: str) -> None:
    assert file_path(url) is None
    answer = await fetcher().fetch(Request(url))
    assert isinstance(answer, Failure) and answer.kind is FailureKind.REQUEST


# Fetchers by scheme ----------------------------------------------------------------------------------------


def context() -> FetchContext:
    return FetchContext(FetchOptions(), SystemClock(), Meters(), AddressGuard())


class Echo:
    """A fetcher of another package."""

    needs_address = False

    def __init__(self, context: FetchContext) -> None:
        self.closed = False

    async def fetch(self, request: Request) -> Response | Failure:
        return Failure(FailureKind.UNSUPPORTED, request.url)

    async def close(self) -> None:
        self.closed = True


NOT_A_FACTORY = 7


async def test_ours_by_scheme() -> None:
    fetchers = Fetchers(context(), ())
    assert fetchers.schemes == ["file", "http", "https"]
    http = fetchers.of("http://a.test/")
    assert isinstance(http, HttpFetcher)
    assert fetchers.of("https://a.test/") is http
    assert isinstance(fetchers.of("file:///x"), FileFetcher)
    assert fetchers.of("ftp://a.test/") is None
    assert fetchers.of("nonsense") is None
    await fetchers.close()
    with pytest.raises(LocalError):
        await http.fetch(Request("http://a.test/", "127.0.0.1"))


async def test_entry_points_add_and_replace() -> None:
    plugins = [
        EntryPoint("echo", f"{__name__}:Echo", "lycosa.fetchers"),
        EntryPoint("file", f"{__name__}:Echo", "lycosa.fetchers"),
    ]
    fetchers = Fetchers(context(), plugins)
    echo = fetchers.of("echo:hello")
    assert isinstance(echo, Echo)
    assert fetchers.of("file:///x") is echo
    assert echo.needs_address is False
    await fetchers.close()
    assert echo.closed


@pytest.mark.parametrize(
    "value", ["no.such.module:Thing", f"{__name__}:Nothing", f"{__name__}:NOT_A_FACTORY"]
)
def test_a_broken_plugin_is_named(value: str) -> None:
    fetchers = Fetchers(context(), [EntryPoint("bad", value, "lycosa.fetchers")])
    with pytest.raises(ConfigError, match="bad"):
        fetchers.of("bad:x")
    assert fetchers.of("file:///x") is not None


def test_registering_from_python() -> None:
    fetchers = Fetchers(context(), ())
    made: list[Fetcher] = []

    def factory(given: FetchContext) -> Fetcher:
        made.append(Echo(given))
        return made[-1]

    fetchers.register("Mine", factory)
    assert fetchers.of("mine:x") is made[0]
    assert fetchers.of("mine:y") is made[0]
    assert len(made) == 1
