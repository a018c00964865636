"""Options: read strictly, refused in one line that names the thing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa import options
from lycosa.crawl import flag_names
from lycosa.crawl.config import Options, decode_options, encode_options, read_options, with_seeds
from lycosa.errors import ConfigError


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    wait: float = 1.0
    names: tuple[str, ...] = ()


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    visits: int = 3
    inner: Inner = Inner()
    free: dict[str, str] = {}
    maybe: int | None = None


def test_what_is_given_and_what_is_not() -> None:
    read = options.read(Outer, {"inner": {"names": ["a", "b"]}, "free": {"any": "name"}})
    assert read == Outer(inner=Inner(names=("a", "b")), free={"any": "name"})
    assert options.read(Outer, {}) == Outer()


def test_text_that_is_a_number_is_one() -> None:
    """--set and environments give text; TOML gives whole numbers for times."""
    assert options.read(Outer, {"visits": "7", "inner": {"wait": 2}}) == Outer(
        visits=7, inner=Inner(wait=2.0)
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"vists": 1}, "unknown option 'vists'; did you mean 'visits'?"),
        ({"inner": {"wiat": 1}}, "unknown option 'inner.wiat'; did you mean 'wait'?"),
        ({"zzz": 1}, "known: free, inner, maybe, visits"),
        ({"fixed": 1}, "known: free, inner, maybe, visits"),
        ({"name": ["a"]}, "unknown option 'name'; did you mean 'inner.names'?"),
        ({"inner": {"visit": 1}}, "unknown option 'inner.visit'; did you mean 'visits'?"),
        ({"inner": 5}, "option 'inner' is a table of options, not 5"),
        ({"visits": "many"}, "visits"),
        ({"visits": None}, "visits"),
        ({"inner": {"names": "a"}}, "inner.names"),
        ({"inner": {"names": [1]}}, "inner.names"),
        ({"maybe": []}, "maybe"),
    ],
)
def test_mistakes_are_named(given: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        options.read(Outer, given)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value) and "$" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"private": True}, "unknown option 'private'; did you mean 'public = false'?"),
        ({"max_pgs": 3}, "unknown option 'max_pgs'; did you mean 'limits.pages'?"),
        ({"max-pages": 3}, "did you mean 'limits.pages'?"),
        ({"fetch": {"insecure": True}}, "did you mean 'fetch.verify_tls = false'?"),
        ({"negative_tll": 3}, "did you mean 'dns.negative_ttl'?"),
        ({"attempts": 3}, "did you mean 'dns.attempts' or 'robots.attempts' or 'retry.attempts'?"),
        ({"quuux": 3}, "known: allow, archive, "),
    ],
)
def test_an_option_of_a_crawl_is_found_by_any_of_its_names(given: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_options({"public": False, **given})
    assert words in str(caught.value)


def test_every_flag_is_named_with_its_option() -> None:
    for option in flag_names.OPTIONS.values():
        place: Any = Options()
        for name in option.split("."):
            place = getattr(place, name)


def test_where_goes_before_the_name() -> None:
    with pytest.raises(ConfigError, match=r"'crawl\.inner\.wiat'"):
        options.read(Outer, {"inner": {"wiat": 1}}, "crawl")
    with pytest.raises(ConfigError, match=r"^crawl\.visits: "):
        options.read(Outer, {"visits": "x"}, "crawl")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(sorted(Options.__struct_fields__)) | st.text(max_size=8), anything, max_size=3
    )
)
def test_any_table_gives_options_or_one_line(table: dict[str, object]) -> None:
    try:
        read = read_options({"public": False, **table})
    except ConfigError as error:
        assert len(str(error)) < 2000
    else:
        assert decode_options(encode_options(read)) == read


def test_the_log_may_have_options_of_a_newer_version() -> None:
    encoded = encode_options(read_options({"public": False, "visits": 9}))
    newer = encoded[:-1] + b',"unheard":{"of":1}}'
    assert decode_options(newer) == read_options({"public": False, "visits": 9})


# -- the contact of a public crawl


@pytest.mark.parametrize("agent", ["mybot/1.0 (+https://example.org/bot)", "mybot (me@example.org)"])
def test_a_contact_is_a_url_or_an_address(agent: str) -> None:
    assert read_options({"fetch": {"user_agent": agent}}).public


@pytest.mark.parametrize("agent", ["mybot/1.0", "", "Mozilla/5.0 (X11)"])
def test_a_public_crawl_without_one_is_refused_with_the_reason(agent: str) -> None:
    with pytest.raises(ConfigError, match="so that site owners can reach you"):
        read_options({"fetch": {"user_agent": agent}})
    with pytest.raises(ConfigError, match="public=False") as told:
        read_options({})
    assert "--private" in told.value.flags, "what the command line says"


# -- the seeds that scope is relative to


def near(mode: str, *seeds: str, before: Options | None = None, **scope: object) -> tuple[str, ...]:
    given = read_options({"public": False, "scope": {"mode": mode, **scope}})
    return with_seeds(given, before, seeds).near


def test_one_seed_a_site_is_kept() -> None:
    seeds = ["http://a.test/", "http://a.test/x", "http://b.test/y", "https://a.test/"]
    assert near("host", *seeds) == ("http://a.test/", "http://b.test/y", "https://a.test/")
    assert near("any", *seeds) == ("http://a.test/", "https://a.test/"), "schemes alone matter"


def test_include_rules_need_them_all() -> None:
    seeds = ["http://a.test/", "http://a.test/x"]
    assert near("host", *seeds, include_paths=["/docs"]) == tuple(seeds)
    assert near("any", *seeds, include_patterns=["docs"]) == tuple(seeds)


def test_seeds_of_earlier_runs_stay() -> None:
    before = with_seeds(read_options({"public": False}), None, ["http://a.test/"])
    assert near("host", "http://b.test/", before=before) == ("http://a.test/", "http://b.test/")
    assert near("host", before=before) == ("http://a.test/",)
