"""Acts as changes of options: what each does, what is refused, and what a later start makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from lycosa.crawl.acts import Act, applied, latest, resumed
from lycosa.crawl.config import Options, decode_options, encode_options, read_options
from lycosa.crawl.steered import REMEMBERED
from lycosa.errors import ConfigError

PLAIN = read_options({"public": False})


def act(what: str, *words: str, number: int = 1) -> Act:
    return Act(id=f"{number:020d}-x", at=number, who="ann@here", what=what, words=words)


def done(options: Options, *acts: tuple[str, ...]) -> Options:
    for number, (what, *words) in enumerate(acts, 1):
        options = applied(options, act(what, *words, number=number))
    return options


def test_an_act_is_remembered_with_who_did_it_through_the_log() -> None:
    after = decode_options(encode_options(done(PLAIN, ("set", "limits.pages=20"))))
    (did,) = after.steered.did
    assert (did.who, did.text, after.limits.pages) == ("ann@here", "set limits.pages=20", 20)
    assert after.steered.has(did.id) and not after.steered.has("another")
    assert len(done(PLAIN, *[("pause",)] * (REMEMBERED + 5)).steered.did) == REMEMBERED


def test_seeds_are_told_as_the_crawl_knows_them_and_widen_its_scope() -> None:
    after = done(PLAIN, ("seed", "A.test", "http://a.test/#x", "https://b.test/y"))
    assert after.steered.did[0].text == "seed http://a.test/ https://b.test/y"
    assert set(after.near) == {"http://a.test/", "https://b.test/y"}


def test_what_is_done_with_a_site() -> None:
    after = done(PLAIN, ("site", "WWW.Example.org", "hold"), ("site", "www.example.org", "budget", "7"))
    assert after.site["www.example.org"].hold and after.site["www.example.org"].pages == 7
    after = done(after, ("site", "www.example.org", "block"), ("site", "www.example.org", "boost"))
    assert after.scope.exclude_hosts == ("www.example.org",) and after.site["www.example.org"].first
    after = done(after, ("site", "www.example.org", "release"))
    assert after.scope.exclude_hosts == () and after.site["www.example.org"].pages == 7
    assert not after.site["www.example.org"].hold and not after.site["www.example.org"].first
    assert done(after, ("site", "www.example.org", "budget", "0")).site == {}


def test_options_of_a_site_are_set_beside_what_holds_there() -> None:
    before = read_options({"public": False, "site": {"*.a.test": {"depth": 3}, "b.test": {"hold": True}}})
    after = done(before, ("set", 'site."www.A.test".wait=5', "site.b.test.pages=7", "limits.pages=9"))
    assert (after.site["www.a.test"].wait, after.site["www.a.test"].depth) == (5.0, 3)
    assert after.site["b.test"].hold and after.site["b.test"].pages == 7 and after.limits.pages == 9
    assert done(after, ("set", "site.*.a.test.depth=4")).site["*.a.test"].depth == 4
    for word, told in (
        ("site.b.test.wiat=5", "wait"),
        ("site.b test.wait=5", "b test"),
        ("site.wait=5", "a host in lower case"),
    ):
        with pytest.raises(ConfigError, match=told):
            done(before, ("set", word))


def test_what_is_released_stays_released() -> None:
    after = done(PLAIN, ("release", "http://a.test/c?d"), ("release", "http://b.test/", "http://a.test/c?d"))
    assert after.traps.release == ("http://a.test/c?d", "http://b.test/")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("fly",), "there is no act 'fly'"),
        (("pause", "now"), "takes nothing more"),
        (("seed",), "at least one URL"),
        (("seed", "mailto:a@b"), "not a URL"),
        (("set", "limits.pages"), "KEY=VALUE"),
        (("set", "limits.pagse=3"), "did you mean 'pages'"),
        (("set", "limits.pages=-1"), "at least 0"),
        (("set", "limits=3"), "table of options"),
        (("set", "fetch.user_agent=x"), "cannot be changed while a crawl runs"),
        (("set", "politeness.address_wait=1"), "cannot be changed while a crawl runs"),
        (("set", "scope.exclude_patterns=['(']"), "exclude_patterns"),
        (("release",), "release takes the patterns"),
        (("site", "a b", "hold"), "site takes HOST"),
        (("site", "a.test", "love"), "site takes HOST"),
        (("site", "a.test", "budget"), "site takes HOST"),
        (("site", "a.test", "budget", "many"), "number of pages"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(ConfigError, match=told.replace("(", "\\(")):
        applied(PLAIN, act(*words))


def test_the_same_command_again_keeps_what_acts_set_and_another_word_wins() -> None:
    def started(**more: Any) -> Options:
        return read_options({"public": False, "limits": {"pages": 10}, **more})

    before = done(
        started(), ("set", "limits.pages=20", "politeness.wait=3"), ("set", "limits.pages=30"), ("pause",)
    )
    again = resumed(started(), before)
    assert (again.limits.pages, again.politeness.wait, again.steered) == (30, 3.0, before.steered)
    assert resumed(before, before) == before  # a start that said nothing goes on with the log's options
    other = resumed(started(limits={"pages": 99}), before)
    assert (other.limits.pages, other.politeness.wait) == (99, 3.0)
    assert "limits.pages" not in other.steered.values
    assert resumed(started(), None) == started()


def test_of_two_shards_that_which_saw_the_last_act_knows() -> None:
    first, second = done(PLAIN, ("pause",)), done(PLAIN, ("pause",), ("go-on",))
    assert latest([first, second]) is latest([second, first]) is second
    assert latest([]) is None


def test_names_in_tables_by_host_are_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"site\.a\.test\.paces"):
        read_options({"public": False, "site": {"a.test": {"paces": 3}}})
    with pytest.raises(ConfigError, match="give a host"):
        read_options({"public": False, "site": {"A.test/": {"hold": True}}})


def test_a_host_that_is_held_keeps_the_settings_of_the_table_above_it() -> None:
    options = read_options({"public": False, "site": {"*.b.test": {"wait": 7.0}}})
    held = done(options, ("site", "www.b.test", "hold"))
    assert held.site["www.b.test"].hold and held.site["www.b.test"].wait == 7.0
    assert done(held, ("site", "www.b.test", "release")).site == options.site
