"""The language of texts: declared, detected, and when one is believed over the other."""

from __future__ import annotations

import socket

import pytest

from lycosa.content import language as module
from lycosa.content.language import declared_language, detect, language

TEXTS = {
    "en": "The town has a market on Saturdays, where farmers sell vegetables, cheese and bread to everybody.",
    "de": "Auf dem Markt der Stadt verkaufen Bauern jeden Samstag Gemüse, Käse und Brot an alle, die kommen.",
    "fr": "Le marché de la ville se tient chaque samedi, et les paysans y vendent des légumes et du fromage.",
    "es": "El mercado de la ciudad se celebra los sábados y los campesinos venden verduras, queso y pan.",
    "ru": "По субботам в городе работает рынок, где крестьяне продают овощи, сыр и хлеб всем желающим.",
    "zh": "这个城市每个星期六都有集市，农民在那里向大家出售蔬菜、奶酪和面包。",
    "ja": "この町では毎週土曜日に市場が開かれ、農家の人々が野菜やチーズ、パンを売っています。",
    "ar": "يقام سوق المدينة كل يوم سبت، ويبيع فيه الفلاحون الخضروات والجبن والخبز للجميع.",
    "el": "Η αγορά της πόλης γίνεται κάθε Σάββατο και οι αγρότες πουλάνε λαχανικά, τυρί και ψωμί.",
}


@pytest.mark.parametrize("code", TEXTS)
def test_a_text_that_declares_nothing_or_english_is_read(code: str) -> None:
    assert detect(TEXTS[code])[0] == code
    assert language(TEXTS[code]) == code
    assert language(TEXTS[code], "en-US") == code
    assert language(TEXTS[code], f"{code}-XX") == code


def test_what_is_declared_is_believed_unless_its_script_says_otherwise() -> None:
    assert language("Hygge og brød", "da") == "da"
    assert language(TEXTS["de"], "nl") == "nl", "a declared language other than English is not doubted"
    assert language(TEXTS["ru"], "fr") == "ru"
    assert language(TEXTS["en"], "ja") == "en"


def test_short_texts_are_no_evidence() -> None:
    assert language("Home") == ""
    assert language("Home", "en") == "en"
    assert language("", "pt-BR") == "pt"
    assert language("12 34 56 78 90 12 34 56 78 90 12 34") == ""


def test_codes_are_of_one_kind() -> None:
    assert [declared_language(each) for each in ("DE-at", " zh_Hans ", "iw", "nb", "eng", "", "x", "und",
    "english")] == [
        "de", "zh", "he", "no", "en", "", "", "", ""
    ]  # fmt: skip


def test_nothing_is_asked_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert language(TEXTS["fr"]) == "fr"


def test_plain_english_is_told_without_the_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    def detector() -> None:
        raise AssertionError("it was asked")

    monkeypatch.setattr(module, "_detector", detector)
    prose = (
        "The spider waits at the mouth of its burrow, and it hunts by night for what passes by on the ground."
    )
    assert language(prose) == language(prose, "en") == language(prose, "en-GB") == "en"
    # A page of names with some prose is believed if it says that it is English; if not, it is looked at.
    names = "QString QWidget QObject QLabel setText the text property holds of type bool size width " * 3
    assert language(names, "en") == "en"
    with pytest.raises(AssertionError, match="it was asked"):
        language(names)
    assert language(f"{names} {prose} {prose}") == "en"
    # What quotes English is not English, whatever its template says.
    german = (
        "Der Artikel The Spider erschien in einer Zeitschrift und wurde dort von vielen gern gelesen " * 3
    )
    with pytest.raises(AssertionError, match="it was asked"):
        language(german, "en")


def test_english_that_a_template_declares_gives_way_to_little_words_of_others() -> None:
    """The detector is not sure which of Indonesian and Malay, or of Croatian and Bosnian, it is."""
    for text, answers in (
        (
            "Pasar kota ini buka setiap hari dan para petani menjual sayur dengan harga yang murah untuk semua"
            " orang dari desa yang datang ke pasar itu pada pagi hari.",
            ("id", "ms"),
        ),
        (
            "Gradska tržnica je otvorena svakog dana, a seljaci prodaju povrće koje su donijeli od kuće za sve"
            " ljude koji dolaze, kao i za goste od drugdje.",
            ("hr", "bs", "sr"),
        ),
    ):
        assert language(text, "en") in answers
    assert language("Serde de ser impl Trait for Vec u8 fn len self bool", "en") == "en"
