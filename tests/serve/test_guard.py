"""Who may look."""

from __future__ import annotations

import pytest

from lycosa.serve.guard import ARCHIVED, OURS, Asked, Guard, Verdict, new_token, without_token

TOKEN = "right-token-0123456789"
HOST = "127.0.0.1:8020"


def judged(method: str = "GET", query: str = "", **headers: str) -> Verdict:
    named = {"host": HOST} | {name.replace("_", "-"): value for name, value in headers.items()}
    return Guard(TOKEN, frozenset({HOST, "localhost:8020"})).judge(Asked(method, query, named))


def test_a_token_is_needed_and_is_taken_from_three_places() -> None:
    assert judged() is Verdict.ASK
    assert judged(authorization=f"Bearer {TOKEN}") is Verdict.PASS
    assert judged(authorization=f"bearer  {TOKEN}") is Verdict.PASS
    assert judged(cookie=f"a=b; lycosa={TOKEN}") is Verdict.PASS
    assert judged(query=f"x=1&token={TOKEN}") is Verdict.ENTER


@pytest.mark.parametrize("wrong", ["", "x", TOKEN[:-1], TOKEN + "x", "\u00e9" * 22, "\ud800"])
def test_a_wrong_token_is_none(wrong: str) -> None:
    assert judged(authorization=f"Bearer {wrong}") is Verdict.ASK
    assert judged(cookie=f"lycosa={wrong}") is Verdict.ASK
    assert judged(query=f"token={wrong}") is Verdict.ASK


def test_a_wrong_header_is_not_made_good_by_a_cookie() -> None:
    assert judged(authorization="Bearer wrong", cookie=f"lycosa={TOKEN}") is Verdict.ASK


def test_a_name_that_was_made_to_point_here_is_refused() -> None:
    assert judged(host="evil.test:8020", cookie=f"lycosa={TOKEN}") is Verdict.ELSEWHERE
    assert judged(host="", cookie=f"lycosa={TOKEN}") is Verdict.ELSEWHERE
    assert judged(host="LOCALHOST:8020", cookie=f"lycosa={TOKEN}") is Verdict.PASS


def test_what_changes_something_must_come_from_a_page_of_ours() -> None:
    cookie = f"lycosa={TOKEN}"
    assert judged("POST", cookie=cookie) is Verdict.FOREIGN
    assert judged("POST", cookie=cookie, origin="http://evil.test") is Verdict.FOREIGN
    assert judged("POST", cookie=cookie, origin="null") is Verdict.FOREIGN
    assert judged("POST", cookie=cookie, origin="http://[", sec_fetch_site="same-origin") is Verdict.FOREIGN
    assert judged("POST", cookie=cookie, origin=f"http://{HOST}") is Verdict.PASS
    assert judged("POST", cookie=cookie, sec_fetch_site="same-origin") is Verdict.PASS
    assert judged("POST", authorization=f"Bearer {TOKEN}") is Verdict.PASS
    assert judged("POST", authorization="Bearer wrong", origin=f"http://{HOST}") is Verdict.ASK
    assert judged("POST", query=f"token={TOKEN}", origin=f"http://{HOST}") is Verdict.ASK, (
        "a link changes nothing"
    )


@pytest.mark.parametrize(
    ("path", "query", "address"),
    [
        ("/", f"token={TOKEN}", "/"),
        ("/url", f"u=a%26b&token={TOKEN}&x=1", "/url?u=a%26b&x=1"),
        ("//evil.test/", "token=x", "/evil.test/"),
        ("/\\evil.test", "", "/evil.test"),
    ],
)
def test_the_address_without_its_token_stays_here(path: str, query: str, address: str) -> None:
    assert without_token(path, query) == address


def test_tokens_are_not_alike() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert min(len(new_token()) for _ in range(100)) >= 32


def test_an_archived_page_can_do_nothing() -> None:
    policy = ARCHIVED["Content-Security-Policy"]
    assert policy.startswith("sandbox; default-src 'none';")
    assert "script-src" not in policy and "allow-scripts" not in policy
    assert "'unsafe-inline'" not in OURS["Content-Security-Policy"]
