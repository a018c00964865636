"""The language of texts: declared, detected, and when one is believed over the other."""

from __future__ import annotations

import socket

import pytest

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
