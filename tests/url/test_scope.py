"""Scope: every rule, their order, and the fast path against the plain one."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa import options as reader
from lycosa.errors import ConfigError
from lycosa.records import Why
from lycosa.url import scope as module
from lycosa.url.canonical import canonicalise
from lycosa.url.domains import Domains
from lycosa.url.patterns import MAX_PATTERN, compile_pattern
from lycosa.url.scope import Scope, ScopeOptions, Verdict

DOMAINS = Domains(b"com\norg\nco.uk\ntest\n")
SEED = "https://www.example.com/docs/"


def scope(*seeds: str, **given: Any) -> Scope:
    return Scope(reader.read(ScopeOptions, given, "scope"), seeds or (SEED,), DOMAINS)


def judge(subject: Scope, url: str, depth: int = 1) -> Verdict:
    assert canonicalise(url) == url
    verdict = subject.judge(url, depth)
    assert subject.inside(url, depth) == verdict.inside
    return verdict


@pytest.mark.parametrize(
    ("mode", "inside", "outside"),
    [
        (
            "host",
            ["https://www.example.com/", "http://example.com:8080/x", "https://example.com/"],
            ["https://a.example.com/", "https://example.org/", "https://wwww.example.com/"],
        ),
        (
            "site",
            ["https://www.example.com/x"],
            ["http://www.example.com/", "https://example.com/", "https://www.example.com:8443/"],
        ),
        (
            "domain",
            ["https://example.com/", "http://a.b.example.com/"],
            ["https://example.org/", "https://notexample.com/"],
        ),
        ("any", ["http://example.org/", "http://127.0.0.1/"], ["file:///etc/passwd"]),
    ],
)
def test_modes(mode: str, inside: list[str], outside: list[str]) -> None:
    subject = scope(mode=mode)
    for url in inside:
        assert judge(subject, url).inside, url
    for url in outside:
        assert not judge(subject, url).inside, url
    assert judge(subject, SEED, 0).inside


@pytest.mark.parametrize(
    ("given", "url", "rule"),
    [
        ({"max_depth": 0}, SEED, "depth 1 is more than max_depth 0"),
        ({"max_url_length": 30}, "https://example.com/12345678901", "31 characters are more than"),
        ({"schemes": ["https"]}, "http://example.com/", "scheme http is not among https"),
        ({"blocklist": ["Example.com"]}, "http://example.com/", "host example.com is on the blocklist"),
        ({"blocklist": ["*.com"]}, "http://example.com/", "on the blocklist by .com"),
        ({"exclude_hosts": ["example.com"]}, "http://example.com/", "in exclude_hosts"),
        (
            {"mode": "domain", "exclude_domains": ["cdn.example.com"]},
            "http://a.cdn.example.com/",
            "host a.cdn.example.com is below cdn.example.com in exclude_domains",
        ),
        ({}, "http://example.org/", "mode host: example.org is no seed's"),
        (
            {"exclude_paths": ["/private/"]},
            "http://example.com/private/x",
            "begins with /private/ of exclude",
        ),
        ({"exclude_paths": ["/ü"]}, "http://example.com/%C3%BCx", "begins with /%C3%BC of exclude_paths"),
        (
            {"exclude_patterns": [r"\?.*sort="]},
            "http://example.com/?a&sort=1",
            "matches '\\\\?.*sort=' of exclude_patterns",
        ),
        ({"max_path_depth": 2}, "http://example.com/a/b/c", "3 path segments are more than max_path_depth 2"),
        (
            {},
            "http://example.com/a/b/a/b/a/b/a",
            "path segment 'a' 4 times is more than max_repeats 3",
        ),
        (
            {"include_paths": ["/docs/"]},
            "http://example.com/blog/",
            "none of include_paths and include_patterns",
        ),
        ({"include_patterns": [r"\.pdf$"]}, "http://example.com/a.html", "none of include_paths"),
    ],
)
def test_refusals(given: dict[str, Any], url: str, rule: str) -> None:
    verdict = judge(scope(**given), url)
    assert not verdict.inside
    assert rule in verdict.rule
    assert verdict.why is (Why.BLOCKED if "blocklist" in given else Why.SCOPE)


@pytest.mark.parametrize(
    ("given", "url", "rule"),
    [
        ({}, "http://example.com/", "mode host: example.com is a seed's"),
        ({"max_depth": 1}, SEED, "mode host"),
        ({"max_url_length": 30}, "https://example.com/1234567890", "mode host"),
        ({"mode": "any"}, "http://example.org/", "mode any"),
        ({"include_hosts": ["Bücher.test"]}, "http://xn--bcher-kva.test/", "in include_hosts"),
        (
            {"include_domains": ["example.org"]},
            "http://a.example.org/",
            "below example.org in include_domains",
        ),
        ({"include_domains": ["example.org"]}, "http://example.org/", "below example.org in include_domains"),
        ({"include_paths": ["/docs/"]}, "http://example.com/docs/x", "begins with /docs/ of include_paths"),
        ({"include_patterns": [r"\.pdf$"]}, "http://example.com/a.pdf", "of include_patterns"),
        ({"include_paths": ["/nowhere/"]}, SEED, "a seed"),
        ({"max_path_depth": 2}, "http://example.com/a/b?c/d/e", "mode host"),
        ({"max_path_depth": 2}, "http://example.com/a//b/", "mode host"),
        ({}, "http://example.com/a/b/a/b/a/b", "mode host"),
        ({}, "http://example.com/a/a/a/?/a/a/a/a", "mode host"),
        ({"max_repeats": None}, "http://example.com/" + "a/" * 30, "mode host"),
        ({"max_path_depth": None, "max_repeats": None}, "http://example.com/" + "a/" * 90, "mode host"),
        ({"blocklist": ["ample.com", ".w.example.com"]}, "http://example.com/", "mode host"),
    ],
)
def test_admissions(given: dict[str, Any], url: str, rule: str) -> None:
    verdict = judge(scope(**given), url)
    assert verdict.inside
    assert rule in verdict.rule


def test_the_first_refusal_decides() -> None:
    subject = scope(
        max_depth=1,
        blocklist=["example.com"],
        include_hosts=["example.com"],
        exclude_hosts=["example.com"],
        exclude_paths=["/"],
    )
    url = "http://example.com/a/a/a/a"
    assert "max_depth" in judge(subject, url, 2).rule
    assert "blocklist" in judge(subject, url, 1).rule
    assert "exclude_hosts" in judge(scope(exclude_hosts=["example.com"], exclude_paths=["/"]), url).rule
    assert "exclude_paths" in judge(scope(exclude_paths=["/"]), url).rule
    assert "exclude_paths" in judge(scope(exclude_paths=["/docs/"], include_paths=["/docs/"]), SEED).rule


def test_files_stay_below_their_seed() -> None:
    for mode in ("host", "site", "domain", "any"):
        subject = scope("file:///srv/site/index.html", "http://example.com/", mode=mode)
        assert judge(subject, "file:///srv/site/a/b.html").inside
        assert judge(subject, "http://example.com/x").inside
        assert judge(subject, "file:///etc/passwd").rule == "not below the directory of a file seed"
    assert not judge(scope(mode="any", schemes=["http", "file"]), "file:///etc/passwd").inside
    assert judge(scope("file:///"), "file:///etc/passwd").inside


def test_addresses_and_ports() -> None:
    subject = scope("http://127.0.0.1:8000/", "http://[::1]:8000/")
    assert judge(subject, "http://127.0.0.1:9000/").inside
    assert judge(subject, "http://[::1]/").inside
    assert not judge(subject, "http://127.0.0.2:8000/").inside
    assert not judge(scope("http://[::1]/", exclude_hosts=["::1"]), "http://[::1]:81/").inside


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"exclude_patterns": ["("]}, r"scope.exclude_patterns: '\(' is not a regular expression"),
        ({"include_patterns": ["(a+)+$"]}, r"scope.include_patterns: '\(a\+\)\+\$' repeats a repetition"),
        ({"include_patterns": ["a*b*c*d*e*"]}, "has 5 unbounded repetitions; the limit is 4"),
        (
            {"include_hosts": ["http://example.com"]},
            "scope.include_hosts: .* is not a host; give the name alone",
        ),
        ({"exclude_domains": ["example.com:80"]}, "scope.exclude_domains: 'example.com:80' is not a host"),
        ({"exclude_hosts": [""]}, "scope.exclude_hosts: '' is not a host"),
        ({"exclude_paths": ["docs/"]}, "scope.exclude_paths: 'docs/' is not a path; begin it with a slash"),
        ({"blocklist": ["a b"]}, "scope.blocklist: 'a b' is not a host"),
        ({"max_depth": -1}, "scope.max_depth is -1; leave it out for no limit"),
        ({"max_repeats": 0}, "scope.max_repeats is 0"),
        ({"max_url_length": 0}, "scope.max_url_length is 0"),
        ({"mode": "hosts"}, "scope.mode: Invalid enum value 'hosts'"),
        ({"max_dept": 1}, "unknown option 'scope.max_dept'; did you mean 'max_depth'"),
    ],
)
def test_mistakes(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scope(**given)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+",
        "(a*)*",
        "(?:a+|b)*",
        "((a+)b)*",
        "(a+){5,}",
        "(a*){30}",
        "(?=(a+)+)x",
        "(a{2,})+",
        "([^/]+/)*x",
    ],
)
def test_nested_repetitions_are_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="repeats a repetition"):
        compile_pattern(pattern, "x")


@pytest.mark.parametrize(
    "pattern",
    [
        r"^https?://[^/]+/(a|b)/.*\.(pdf|docx?)$",
        r"(\d+/){3}",
        r"(foo|bar)*",
        r"/\d{4}/\d{2}/",
        r"[?&](sort|order)=",
        "",
    ],
)
def test_reasonable_patterns_are_taken(pattern: str) -> None:
    assert compile_pattern(pattern, "x").pattern == pattern


def test_patterns_have_a_limit() -> None:
    compile_pattern("a" * MAX_PATTERN, "x")
    with pytest.raises(ConfigError, match="a pattern of 2001 characters"):
        compile_pattern("a" * (MAX_PATTERN + 1), "x")


@given(st.text(st.sampled_from("ab()[]*+?{}|\\^$.,1230-=!<>:P\u00e9\x00")))
def test_any_pattern_compiles_or_is_refused_in_one_line(pattern: str) -> None:
    try:
        compile_pattern(pattern, "x")
    except ConfigError as error:
        assert "\n" not in str(error)


def test_long_urls_never_reach_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    class Pattern:
        def search(self, url: str) -> None:
            searched.append(len(url))

    monkeypatch.setattr(module, "compile_pattern", lambda pattern, where: Pattern())
    subject = scope(mode="any", exclude_patterns=["x.*x.*y"])
    assert not subject.inside("http://example.com/" + "x" * 8000, 1)
    assert searched == []
    assert subject.inside("http://example.com/x", 1)
    assert searched == [20]


pieces = ["a", "b", "docs", "private", "x.pdf", "?q", "?sort=1", "ü", ""]
urls = st.builds(
    lambda scheme, host, path: canonicalise(f"{scheme}://{host}/{'/'.join(path)}"),
    st.sampled_from(["http", "https", "file"]),
    st.sampled_from(
        ["example.com", "www.example.com:81", "a.example.com", "example.org", "[::1]", "b.co.uk"]
    ),
    st.lists(st.sampled_from(pieces), max_size=12),
)
hosts = st.lists(st.sampled_from(["example.com", "a.example.com", "example.org", "::1"]), max_size=2)
paths = st.lists(st.sampled_from(["/docs", "/a/", "/private/"]), max_size=2)
patterns = st.lists(st.sampled_from([r"\.pdf$", "sort=", "/a/b"]), max_size=2)
limits = st.none() | st.integers(1, 6)
choices = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["host", "site", "domain", "any"]),
        "include_hosts": hosts,
        "include_domains": hosts,
        "exclude_hosts": hosts,
        "exclude_domains": hosts,
        "include_paths": paths,
        "exclude_paths": paths,
        "include_patterns": patterns,
        "exclude_patterns": patterns,
        "blocklist": hosts,
        "max_depth": limits,
        "max_path_depth": limits,
        "max_repeats": limits,
        "max_url_length": st.integers(20, 60),
    },
)


@settings(max_examples=500, deadline=None)
@given(choices, st.lists(urls, min_size=1, max_size=3), urls, st.integers(0, 5))
def test_fast_and_plain_agree(
    given: dict[str, Any], seeds: list[str | None], url: str | None, depth: int
) -> None:
    subject = scope(*[seed for seed in seeds if seed is not None], **given)
    if url is not None:
        verdict = subject.judge(url, depth)
        assert subject.inside(url, depth) == verdict.inside
        assert verdict.rule
    some = [each for each in (*seeds, url, *seeds) if each is not None]
    assert subject.all_inside(some, depth) == [subject.inside(each, depth) for each in some]


def test_what_is_remembered_of_a_directory_holds_for_all_in_it() -> None:
    subject = scope("http://a.test/", max_repeats=2, max_path_depth=3, max_url_length=60)
    names = ["x", "y", "a.test", "http:", "", "x?q=/x/x", "y" * 50]
    some = [f"http://a.test/{'/'.join(path)}" for n in range(1, 5) for path in product(names, repeat=n)]
    plain = [subject.inside(url, 1) for url in some]
    assert 100 < sum(plain) < len(plain) - 100
    for _ in range(2):
        assert subject.all_inside(some, 1) == plain
        assert subject.all_inside(some[::-1], 1) == plain[::-1]


@pytest.mark.parametrize("mode", ["host", "site", "domain"])
def test_what_is_remembered_of_a_site_outside_holds_for_all_of_it_and_for_no_other(mode: str) -> None:
    subject = scope("http://a.test/", mode=mode, exclude_hosts=["no.a.test"])
    sites = ["a.test", "a.tes", "a.test:81", "no.a.test", "a", "b", "ab.test", "www.a.test"]
    schemes = ["http", "https", "ftp", "file"]
    some = [
        f"{scheme}://{site}/{path}" for scheme, site, path in product(schemes, sites, ["", "x", "x/y", "a/"])
    ]
    plain = [subject.inside(url, 1) for url in some]
    assert 3 < sum(plain) < len(plain) - 50
    for _ in range(2):
        assert subject.all_inside(some, 1) == plain
        assert subject.all_inside(some[::-1], 1) == plain[::-1]


@given(st.text(), st.integers(0, 3))
def test_any_text_is_judged(text: str, depth: int) -> None:
    subject = scope(include_paths=["/a"], mode="any")
    assert subject.inside(text, depth) == subject.judge(text, depth).inside
    assert subject.all_inside([text], depth) == [subject.inside(text, depth)]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEMO", 10)
    subject = scope()
    for i in range(100):
        assert not subject.inside(f"http://{i}.test/", 1)
    assert subject._site.cache_info().currsize == 10


def test_options_survive_json() -> None:
    given = ScopeOptions(mode="domain", blocklist=("a.test", "b.test"), max_depth=2)
    assert msgspec.json.decode(msgspec.json.encode(given), type=ScopeOptions) == given
