"""Whether a page says anything new."""

from __future__ import annotations

import numpy as np

from lycosa.content.news import Memory, Said, names_of

SITE = "http://a.test"
BODY = "<p>The spiders of the meadow hunt by day, and they carry their young upon their backs for weeks.</p>"
OTHER = "<p>Quite another text, about the weather in the hills and what the sheep there think of rain and wind.</p>"


def said(body: str, path: str = "/x", media: tuple[str, ...] = ()) -> Said:
    return Said.by_text(f"<html><body>{body}</body></html>".encode(), "utf-8", SITE + path, media)


def test_the_same_text_is_news_once() -> None:
    memory = Memory()
    assert memory.is_news(said(BODY), SITE)
    assert not memory.is_news(said(BODY), SITE)
    assert memory.is_news(said(BODY), "http://b.test"), "another place knows nothing of it"
    assert memory.is_news(said(OTHER), SITE)


def test_a_page_that_echoes_its_address_is_no_news() -> None:
    memory = Memory()
    for number, path in enumerate(("/no/such/thing", "/quite/different", "/and/again")):
        page = f"<p>Sorry, the page {path} could not be found here. Perhaps you would like to look at others.</p>"
        assert memory.is_news(said(page, path), SITE) == (number == 0)


def test_words_of_the_address_are_left_out_however_often_they_stand_there() -> None:
    """Of a path that grows an address is long, and is echoed whole. Parts of longer words stay."""
    memory = Memory()
    for depth in (1, 5, 30, 31):
        path = "/menu" * depth + "/x"
        page = (
            f"<p>There is nothing at {path} but the submenu of our restaurant and a list of other dishes.</p>"
        )
        assert memory.is_news(said(page, path), SITE) == (depth == 1)


def test_what_an_address_says_in_escapes_is_echoed_as_words() -> None:
    memory = Memory()
    body = "<p>Nothing was found for {} in our catalogue of books; perhaps you would like one of those below.</p>"
    for number, (path, word) in enumerate(
        (("caf%C3%A9%20noir", "caf\u00e9 noir"), ("3.5", "3.5"), ("a-b", "a-b"))
    ):
        assert memory.is_news(said(body.format(word), f"/find?what={path}"), SITE) == (number == 0)


def test_a_table_of_names_has_room_for_any_address() -> None:
    path = "/" + "/".join(f"word{n}" for n in range(3000))
    assert 0 < np.count_nonzero(names_of(SITE + path)) <= 128


def test_known_parts_in_another_order_are_no_news() -> None:
    memory = Memory()
    memory.meet(said(BODY), SITE)
    memory.meet(said(OTHER), SITE)
    assert not memory.is_news(said(OTHER + BODY, "/list?sort=x"), SITE)
    assert memory.is_news(said(BODY + OTHER.replace("sheep", "goats"), "/list?sort=y"), SITE)


def test_words_of_the_address_do_not_hide_what_is_known() -> None:
    """The text names what the address chose: without those words it would differ from page to page."""
    memory = Memory()
    memory.meet(said(BODY + OTHER, "/find"), SITE)
    assert not memory.is_news(said(BODY + OTHER, "/find?what=spiders"), SITE)
    assert not memory.is_news(said(BODY + OTHER, "/find?what=sheep"), SITE)


def test_dates_and_pictures() -> None:
    memory = Memory()
    event = (
        "<p>There are no events on this day. Choose another one from the calendar beside, if you like. {}</p>"
    )
    assert memory.is_news(said(event.format("2024-05-01")), SITE)
    assert not memory.is_news(said(event.format("2024-06-01")), SITE)
    assert memory.is_news(said("<p>Photo</p>", media=("http://a.test/1.jpg",)), SITE)
    assert memory.is_news(said("<p>Photo</p>", media=("http://a.test/2.jpg",)), SITE)
    assert not memory.is_news(said("<p>Photo</p>", media=("http://a.test/1.jpg",)), SITE)


def test_a_page_with_next_to_no_text_tells_nothing() -> None:
    assert not said("").is_telling
    assert not said("<p>Loading, please wait ...</p>").is_telling
    assert said(BODY).is_telling
    assert Said.by_digest(1).is_telling


def test_other_files_are_known_by_their_bytes() -> None:
    memory = Memory()
    assert memory.is_news(Said.by_digest(7), SITE)
    assert not memory.is_news(Said.by_digest(7), SITE)
