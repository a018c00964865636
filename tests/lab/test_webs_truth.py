"""The truth against a crawler that knows nothing of it."""

from __future__ import annotations

import msgspec
import pytest

from lycosa.lab.webs import Bound, Only, Policy, Truth, Verdict, Web, WebOptions, preset
from lycosa.lab.webs.plan import ROBOTS_ROLES, SECTIONS
from lycosa.lab.webs.truth import judge, lines, site_of
from lycosa.url.canonical import canonicalise
from tests.lab.reference import Reference


def with_(options: WebOptions, **changes: object) -> WebOptions:
    return msgspec.structs.replace(options, **changes)


TINY = with_(preset("tiny"), port=8123)


def crawled(web: Web, policy: Policy, everything: bool = False, accept: str = "gzip, br") -> Reference:
    reference = Reference(web, policy, accept)
    reference.run(web.seeds(everything))
    return reference


POLICIES = {
    "default": Policy(),
    "other agent": Policy(agent="somebody"),
    "no robots": Policy(robots=False),
    "nofollow ignored": Policy(nofollow=False),
    "no sitemaps": Policy(sitemaps=False),
    "requisites": Policy(requisites=True),
    "few redirects": Policy(redirects=3),
    "no redirects": Policy(redirects=0),
    "one attempt": Policy(attempts=1),
}


@pytest.mark.parametrize("name", POLICIES)
def test_truth_equals_a_plain_crawl(name: str) -> None:
    web, policy = Web(TINY), POLICIES[name]
    truth = web.truth(policy)
    reference = crawled(web, policy)
    assert truth.compare(reference.statuses) == []
    for url, location in reference.locations.items():
        assert truth.expected[url].location == location
    assert truth.must <= reference.statuses.keys()


def test_other_seeds_and_other_starts_change_nothing() -> None:
    for seed in (2, 3):
        web = Web(with_(TINY, seed=seed))
        assert web.truth().compare(crawled(web, Policy(), everything=True, accept="").statuses) == []


def test_demo_and_single_address_and_flat_webs() -> None:
    for options in (
        with_(preset("demo"), port=80, pages=600),
        with_(TINY, addresses="single"),
        with_(TINY, flat=True),
        with_(TINY, scheme="https", port=443),
        WebOptions(hosts=1, pages=40, port=8123),
        WebOptions(hosts=4, pages=9, port=8123),
    ):
        web = Web(options)
        assert web.truth().compare(crawled(web, Policy()).statuses) == []


def test_a_plain_web_is_all_must() -> None:
    web = Web(WebOptions(hosts=30, pages=2000, kinds=(), port=8123))
    truth = web.truth()
    ordinary = {web.url(host, page) for host in web.hosts for page in range(host.size)}
    directory = {url for url in truth.must if "/directory/" in url}
    assert len(ordinary) == 2000
    assert truth.must == ordinary | directory
    assert truth.compare(crawled(web, Policy()).statuses) == []


def test_every_url_is_canonical_and_has_one_verdict() -> None:
    for options in (TINY, with_(TINY, traps=True, outside=True)):
        truth = Web(options).truth()
        for url in truth.expected:
            assert canonicalise(url) == url
            assert (url in truth.must) + (url in truth.must_not) + (url in truth.may) == 1
            assert truth.verdict(url) is not None


def test_tiny_has_every_kind() -> None:
    web = Web(with_(TINY, traps=True))
    assert web.left_out == ()
    assert {*ROBOTS_ROLES, "mirror", "slow", "reset", "hang-up", "dead"} <= {host.role for host in web.hosts}
    assert {name for host in web.hosts for name in host.sections} == set(SECTIONS)
    only = {row.only for row in web.expected()} | {row.whole_site for row in web.expected()}
    assert only == set(Only) - {Only.OUTSIDE, Only.RENDERED}  # those are asked for


def test_redirect_limit_is_exact() -> None:
    """A URL to which ten redirects led is fetched; one to which eleven led is not."""
    truth = Web(TINY).truth()
    chain = {row.hops: url for url, row in truth.expected.items() if "/go/chain/" in url}
    assert len(chain) == 14
    assert all(chain[hops] in truth.must for hops in range(11))
    assert all(chain[hops] in truth.must_not for hops in range(11, 14))


def test_traps_are_bounded_by_site_limits() -> None:
    web = Web(with_(TINY, traps=True))
    largest = web.truth().largest_site
    policy = Policy(site_pages=largest + 20)
    truth = web.truth(policy)
    assert len(truth.bounds) == 3
    assert all(0 < bound.least < bound.most == largest + 20 for bound in truth.bounds)
    reference = crawled(web, policy)
    assert truth.compare(reference.statuses) == []
    trapped = [url for url in reference.statuses if "/shop/" in url or "/deep/" in url or "/calendar/" in url]
    assert len(trapped) > 100


def test_a_tight_site_limit_turns_sets_into_bounds() -> None:
    web = Web(with_(TINY, traps=True))
    policy = Policy(site_pages=40)
    truth = web.truth(policy)
    assert truth.compare(crawled(web, policy, everything=True).statuses) == []
    assert Bound(web.origins[0], 1, 40) in truth.bounds
    assert truth.must == set(), "with the root cut short, nothing else is promised"


def test_depth_bounds_traps() -> None:
    web = Web(with_(TINY, traps=True))
    policy = Policy(depth=6)
    truth = web.truth(policy)
    assert truth.compare(crawled(web, policy).statuses) == []
    deeper = next(web.origins[host.number] for host in web.hosts if host.role == "deeper")
    assert truth.verdict(deeper + "/deep/a/b/a/b/a/") is Verdict.MAY
    assert truth.verdict(deeper + "/deep/a/b/a/b/a/b/") is Verdict.MUST_NOT
    assert truth.verdict(deeper + "/deep/c/") is None


@pytest.fixture
def truth() -> Truth:
    return Web(TINY).truth()


def test_compare_finds_each_difference(truth: Truth) -> None:
    right = {url: truth.expected[url].statuses[0] for url in truth.must}
    assert truth.compare(right) == []
    assert truth.compare(list(right)) == []
    missing = next(iter(truth.must))
    assert truth.compare({u: s for u, s in right.items() if u != missing}) == [f"not fetched: {missing}"]
    forbidden = next(url for url in truth.must_not if truth.expected[url].only is Only.ROBOTS)
    assert truth.compare(right | {forbidden: 200}) == [f"must not be fetched (robots): {forbidden}"]
    beyond = next(url for url in truth.must_not if "/go/chain/12" in url)
    assert truth.compare(right | {beyond: 302}) == [f"must not be fetched (12 redirects): {beyond}"]
    invented = truth.seeds[0] + "invented.html"
    assert truth.compare(right | {invented: 404}) == [f"no such URL: {invented}"]
    assert truth.compare(right | {missing: 418}) == [
        f"status 418 instead of {' or '.join(map(str, truth.expected[missing].statuses))}: {missing}"
    ]


def test_lines_tell_all(truth: Truth) -> None:
    rows = [msgspec.json.decode(line) for line in lines(truth)]
    assert {row["url"] for row in rows if row["verdict"] == "must"} == truth.must
    assert {row["url"] for row in rows if row["verdict"] == "must-not"} == truth.must_not


def test_judgement_is_of_the_policy(truth: Truth) -> None:
    for row in truth.expected.values():
        lax = judge(row, Policy(robots=False, nofollow=False, requisites=True, redirects=99))
        if row.only in (Only.NOT_A_LINK, Only.OUTSIDE, Only.SITEMAPS):
            assert lax is Verdict.MUST_NOT
        elif row.only not in (Only.EITHER_WAY, Only.TRAP):
            assert lax is Verdict.MUST
    assert site_of("http://a.test:81/x/y") == "http://a.test:81"
