"""The web itself: the same everywhere, of the right shape, reachable, and honest about its changes."""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from publicsuffixlist import PublicSuffixList

from lycosa.errors import ConfigError
from lycosa.lab.webs import KINDS, PRESETS, Answer, Request, Web, WebOptions, preset
from lycosa.lab.webs.changes import EPOCH, Changes
from lycosa.lab.webs.dice import chance, roll, rolls, shorts, unit
from lycosa.page.html import HtmlParser
from lycosa.url.canonical import canonicalise

TINY = msgspec.structs.replace(preset("tiny"), port=8123, traps=True)
LARGE = WebOptions(hosts=200, pages=20_000, kinds=(), port=8123)
NOW = 1_750_000_000.0


def ask(web: Web, url: str, **given_: object) -> Answer:
    host = web.host(url.partition("://")[2].partition("/")[0].partition(":")[0])
    assert host is not None
    path = "/" + url.partition("://")[2].partition("/")[2]
    return web.respond(host, Request(path=path, **({"at": NOW} | given_)))  # type: ignore[arg-type]


def fingerprint(options: WebOptions) -> str:
    """A digest of every answer of a web."""
    web = Web(options)
    digest = hashlib.sha256()
    for row in web.expected():
        if web.host(row.url.partition("://")[2].partition(":")[0]) is not None:
            digest.update(repr(ask(web, row.url, accept="gzip, br, zstd, deflate")).encode())
    return digest.hexdigest()


def test_the_same_seed_gives_the_same_bytes_in_every_process() -> None:
    program = (
        "import sys, msgspec\n"
        "from tests.lab.test_webs import fingerprint\n"
        "from lycosa.lab.webs import WebOptions\n"
        "print(fingerprint(msgspec.json.decode(sys.argv[1], type=WebOptions)))\n"
    )
    options = msgspec.json.encode(TINY).decode()
    digests = {fingerprint(TINY)}
    for hash_seed in ("1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", program, options], capture_output=True, check=True, env=environment
        )
        digests.add(done.stdout.decode().strip())
    assert len(digests) == 1
    assert fingerprint(msgspec.structs.replace(TINY, seed=2)) not in digests


def test_dice_never_change() -> None:
    """Pinned: other numbers would silently make every recorded experiment another one."""
    assert roll(1, "a", 2) == 12784010243624836397
    assert rolls(3, 1, "a", 2)[0] == roll(1, "a", 2)
    assert shorts(2, 1, "a") == (12432, 49287)
    assert 0 <= unit((1 << 64) - 1) < 1
    assert chance(0, 0.1)
    assert not chance((1 << 64) - 1, 0.999)


@pytest.mark.parametrize("options", [LARGE, preset("demo")], ids=["large", "demo"])
def test_links_have_the_shape_of_the_web(options: WebOptions) -> None:
    web = Web(options)
    degrees, local, total = [], 0, 0
    inward: Counter[tuple[int, int]] = Counter()
    for host in web.hosts:
        for page in range(0, host.size, 1 if host.size < 100 else 7):
            own, away = web.pages.links(host, page)
            degrees.append(len(own) + len(away))
            local += len(own)
            total += len(own) + len(away)
            inward.update((host.number, target) for target in own)
            inward.update(away)
            assert all(0 <= target < host.size for target in own)
            assert all(number != host.content for number, _ in away)
    assert abs(local / total - 0.81) < 0.02
    assert statistics.median(degrees) >= 20
    assert max(degrees) > 12 * statistics.median(degrees), "a heavy tail"
    assert sorted(degrees)[len(degrees) // 100] >= 4
    counts = sorted(inward.values())
    assert counts[-1] > 50 * statistics.median(counts), "some pages are far more linked than others"


def test_neighbourhoods_are_copied() -> None:
    """A page shares far more links with its prototype than with a page of the same host at random."""
    web = Web(LARGE)
    host = web.hosts[0]
    with_prototype, with_other = [], []
    for page in range(1000, 1400):
        if page & 15 == 0:
            continue
        mine = set(web.pages.links(host, page)[1])
        if not mine:
            continue
        with_prototype.append(len(mine & set(web.pages.links(host, page & ~15)[1])) / len(mine))
        with_other.append(len(mine & set(web.pages.links(host, page + 900)[1])) / len(mine))
    assert statistics.mean(with_prototype) > 0.3
    assert statistics.mean(with_other) < 0.15


def test_every_ordinary_page_is_reachable() -> None:
    """By links alone, over the graph of ordinary pages and the root's directory."""
    web = Web(LARGE)
    reached = {(host.number, 0) for host in web.hosts}  # the directory lists all
    waiting = list(reached)
    while waiting:
        number, page = waiting.pop()
        own, away = web.pages.links(web.hosts[number], page)
        for there in [*((number, target) for target in own), *away]:
            if there not in reached:
                reached.add(there)
                waiting.append(there)
    assert len(reached) == LARGE.pages == sum(host.size for host in web.hosts)


def test_sizes_follow_a_power_law() -> None:
    sizes = [host.size for host in Web(LARGE).hosts]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 8 * sizes[19] > 40 * sizes[199]
    for name, options in PRESETS.items():
        assert sum(host.size for host in Web(options).hosts) == options.pages, name


def test_rendered_links_are_those_that_links_tells() -> None:
    web = Web(TINY)
    parser = HtmlParser()
    for host in web.hosts:
        for page in range(1, host.size):
            url = web.url(host, page)
            body = web.pages.render(host, page, web.changes.version(host.content, page, NOW))
            found = parser.parse(body, url, "text/html", "utf-8")
            anchors = [href for href, kind in zip(found.hrefs, found.kinds, strict=True) if kind == 0]
            assert sorted(canonicalise(href, url) or "" for href in anchors) == sorted(web.links(host, page))


def test_sizes_of_pages_have_the_wanted_mean() -> None:
    web = Web(msgspec.structs.replace(LARGE, page_bytes=12_000))
    sizes = [len(ask(web, web.url(web.hosts[0], page)).body) for page in range(300)]
    assert 10_000 < statistics.mean(sizes) < 14_000


@given(st.integers(0, 199), st.integers(0, 10**6))
@settings(max_examples=200)
def test_addresses_can_be_read_backwards(number: int, page: int) -> None:
    host = WEB.hosts[number]
    found = WEB.pages.page(host, WEB.pages.path(host, page))
    assert found == (page if page < host.size else None)


WEB = Web(LARGE)


@given(st.text(max_size=40))
def test_any_path_has_an_answer(path: str) -> None:
    for host in WEB.hosts[:3]:
        answer = WEB.respond(host, Request(path="/" + path, at=NOW, etag=path, since=path))
        assert answer.status in (200, 304, 404)


@pytest.mark.parametrize(
    "path", ["/x", "//", "/a/-", "/a/fffffffffffffffffffff-x.html", "/?", "/a.php?id=-1"]
)
def test_what_is_not_there_is_missing(path: str) -> None:
    assert {WEB.respond(host, Request(path=path)).status for host in WEB.hosts[:9]} == {404}


def test_hosts_have_domains_and_addresses_in_common() -> None:
    web = Web(preset("demo"))
    suffixes = PublicSuffixList()
    domains = Counter(suffixes.privatesuffix(host.name) for host in web.hosts)
    assert None not in domains
    assert 40 < len(domains) < 95
    assert max(domains.values()) >= 3
    resolve = web.resolve()
    assert len(resolve) == 100
    shared = Counter(resolve.values())
    assert 60 < len(shared) <= 82
    assert all(address.startswith("127.") for address in shared)
    assert max(shared.values()) > 1
    single = Web(msgspec.structs.replace(preset("demo"), addresses="single"))
    assert set(single.resolve().values()) == {"127.0.0.1"}
    many = Web(preset("broad"))
    assert len(many.addresses) == 256


def test_flat_hosts_are_called_by_their_address() -> None:
    web = Web(msgspec.structs.replace(TINY, flat=True))
    assert all(host.name == host.address for host in web.hosts)
    assert len({host.name for host in web.hosts}) == TINY.hosts
    assert web.seeds() == ["http://127.0.1.1:8123/"]


def test_mirrors_are_equal_byte_for_byte() -> None:
    web = Web(TINY)
    mirror = next(host for host in web.hosts if host.role == "mirror")
    original = web.hosts[mirror.content]
    assert mirror.size == original.size > 10
    for page in range(mirror.size):
        path = web.pages.path(original, page)
        assert web.pages.path(mirror, page) == path
        request = Request(path=path, at=NOW)
        assert web.respond(mirror, request) == web.respond(original, request)


def test_copies_are_the_same_and_nearly_the_same() -> None:
    web = Web(TINY)
    origin = next(web.origins[host.number] for host in web.hosts if "copies" in host.sections)
    same = {ask(web, f"{origin}/copies/same-{n}.html").body for n in range(5)}
    near = {ask(web, f"{origin}/copies/near-{n}.html").body for n in range(5)}
    assert (len(same), len(near)) == (1, 5)
    assert len({body[:3000] for body in near}) == 1


def test_kinds_can_be_left_out() -> None:
    for kind in KINDS:
        web = Web(msgspec.structs.replace(TINY, kinds=tuple(k for k in KINDS if k != kind)))
        assert kind not in {name for host in web.hosts for name in host.sections}
    none = Web(msgspec.structs.replace(TINY, kinds=(), traps=False))
    assert {host.role for host in none.hosts} == {""}
    assert all(ask(none, url).status == 200 for url in none.truth().must)


def test_small_webs_say_what_they_lack() -> None:
    web = Web(WebOptions(hosts=5, pages=20, port=8123))
    assert "dead" in web.left_out
    assert all(host.size >= 1 for host in web.hosts)
    assert sum(host.size for host in web.hosts) == 20
    assert set(Web(WebOptions(hosts=1, pages=1)).left_out) >= {"redirects", "broken"}


class TestChanges:
    options = WebOptions(hosts=5, pages=2000, change_share=1.0, change_rates=(1 / 600,), port=8123)

    def test_the_rate_is_the_promised_one(self) -> None:
        changes = Changes(self.options)
        counts = [len(changes.between(0, page, NOW, NOW + 6000)) for page in range(400)]
        assert abs(statistics.mean(counts) - 10) < 0.6
        assert 7 < statistics.variance(counts) < 13, "Poisson: the variance is the mean"

    def test_gaps_are_exponential(self) -> None:
        changes = Changes(self.options)
        gaps: list[float] = []
        for page in range(40):
            times = changes.between(0, page, NOW, NOW + 60_000)
            gaps += [b - a for a, b in pairwise(times)]
        assert abs(statistics.mean(gaps) - 600) < 40
        assert abs(sum(gap > 600 for gap in gaps) / len(gaps) - 0.368) < 0.03

    def test_versions_are_what_lies_between_changes(self) -> None:
        changes = Changes(self.options)
        times = changes.between(0, 7, NOW, NOW + 6000)
        for time in times:
            assert changes.version(0, 7, time).since == time
            assert changes.version(0, 7, time - 0.001).since < time
        tags = [changes.version(0, 7, time).tag for time in times]
        assert len(set(tags)) == len(tags)
        assert changes.version(0, 7, EPOCH - 5).tag == "0"

    def test_pages_answer_conditional_requests(self) -> None:
        web = Web(self.options)
        host = web.hosts[0]
        url = web.url(host, 9)
        first, second = web.changes.between(0, 9, NOW, NOW + 60_000)[:2]
        before = ask(web, url, at=first)
        headers = dict(before.headers)
        etag, since = headers["ETag"], headers["Last-Modified"]
        still = (first + second) / 2
        assert ask(web, url, at=still).body == before.body
        assert ask(web, url, at=still, etag=etag).status == 304
        assert ask(web, url, at=still, since=since).status == 304
        assert ask(web, url, at=still, etag='"other"', since=since).status == 200
        after = ask(web, url, at=second + 1, etag=etag)
        assert after.status == 200
        assert after.body != before.body
        assert ask(web, url, at=second + 1, since=since).status == 200

    def test_without_the_kind_nothing_changes(self) -> None:
        changes = Changes(msgspec.structs.replace(self.options, kinds=()))
        assert {changes.rate(0, page) for page in range(100)} == {0.0}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"hosts": 0}, "hosts"),
        ({"hosts": 10, "pages": 9}, "home page"),
        ({"local_share": 0}, "local_share"),
        ({"links": 0}, "links"),
        ({"port": 70000}, "port"),
        ({"max_addresses": 1000}, "max_addresses"),
        ({"slow_ms": -1}, "negative"),
        ({"change_rates": (0.0,)}, "change_rates"),
        ({"hosts": 300, "flat": True}, "one address per host"),
        ({"kinds": ("robot",)}, "no kind 'robot'"),
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        WebOptions(**wrong)  # type: ignore[arg-type]


def test_presets_are_named() -> None:
    assert preset("tiny").pages == 400
    with pytest.raises(ConfigError, match="tiny, demo, broad, million"):
        preset("huge")
