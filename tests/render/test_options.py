"""Which pages are rendered: decisions, without a browser."""

from __future__ import annotations

import pytest

from lycosa.errors import ConfigError
from lycosa.render import browser
from lycosa.render.needs import has_scripts, text_length
from lycosa.render.options import LEAST_TEXT, RenderOptions, check_when, wanted

SHELL = (
    b"<title>A title</title><div id=app></div><noscript>Needs scripts</noscript><script src=a.js></script>"
)


def test_a_shell_says_nothing_and_an_article_does() -> None:
    assert text_length(SHELL) == 0
    assert text_length(b"<p>one two</p> three") == len("onetwothree")
    assert text_length(b"<p>" + b"word " * 500) == LEAST_TEXT
    assert text_length(b"<SCRIPT>" + b"x" * 5000 + b"</Script><p>a<!-- b > c -->d") == 2


@pytest.mark.parametrize("piece", [b"<script>", b"<!--", b"<p ", b"<", b"a ", b"</script", b"<style><"])
def test_reading_takes_linear_time(piece: bytes) -> None:
    # Quadratic, these would be some 10^11 steps; `timeout` of pytest would tell.
    assert text_length(piece * 400_000, 1 << 62) >= 0


def test_auto_takes_what_neither_says_nor_leads_anywhere() -> None:
    assert wanted("auto", "http://a/", True, 0, 0)
    assert not wanted("auto", "http://a/", False, 0, 0)  # no scripts: a browser shows the same
    assert not wanted("auto", "http://a/", True, 10, 0)
    assert not wanted("auto", "http://a/", True, 0, LEAST_TEXT)


def test_rules_take_what_they_name() -> None:
    assert wanted("always", "http://a/", True, 99, 9_999)
    assert not wanted("never", "http://a/", True, 0, 0)
    assert wanted("/app/", "http://a/app/x", True, 99, 9_999)
    assert not wanted("/app/", "http://a/x", True, 0, 0)


def test_what_is_no_rule_is_refused() -> None:
    for when in ("always", "auto", "never", "/app/", "^https://a[.]example/"):
        check_when(when)
    for when in ("sometimes", "", "(", "allways"):
        with pytest.raises(ValueError, match="none of never, auto, always"):
            RenderOptions(when=when)
    with pytest.raises(ValueError, match="tabs"):
        RenderOptions(tabs=0)


def test_a_missing_browser_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="--browser"):
        browser.find("/no/such/program")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ConfigError, match="apt install chromium"):
        browser.find()


def test_scripts_are_found_in_any_case() -> None:
    assert has_scripts(SHELL)
    assert has_scripts(b"<SCRIPT>")
    assert not has_scripts(b"<p>a script</p>")
