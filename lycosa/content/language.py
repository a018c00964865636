"""The language of a text: a two-letter code (ISO 639-1), or three letters where there is no such; empty if unknown.

The declared language (`lang` of the root element) is right except where it comes from a template, and is then
nearly always `en`. So a declared language other than English is accepted without a look at the text, unless the
text is in a script that the language is never written in. Otherwise py3langid (naive Bayes over byte n-grams, 97
languages, a model of 4.5 MB in its wheel, nothing is ever downloaded) decides by the text, if it has at least
`SHORT` letters; with fewer, detectors guess. Declared English is overruled only by a result that is sure, or, if
the text has more function words of other languages than English ones, likely.

Plain English is recognised without the detector, at a twentieth of its cost: at least the share `PLAIN` of the
sample's words are function words that are frequent in English and missing in other languages, "the" among them. A
smaller share is enough if they are more than twice those of other languages, and nearly all letters are ASCII:
`DECLARED` if the page declares English, `LESS` if it declares nothing and has many words. (How often that is wrong:
docs/benchmarks/search.md.)

The first `READ` characters decide: more of them change few answers and cost time in proportion.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import cache
from typing import Any, Final

SHORT: Final = 24
READ: Final = 1_200
SURE: Final = 0.9
LIKELY: Final = 0.4
PLAIN: Final = 0.2
LESS: Final = 0.1
DECLARED: Final = 0.05
_LITTLE = "the and of to that with this from for are be which have not you by it as if can"
_ENGLISH = frozenset(_LITTLE.split())
_LITTLE_OTHERS = """
    het een van niet dat zijn voor met aan worden yang dan dengan untuk tidak ini pada dari itu adalah dalam il che
    della gli sono una nel anche piu los las que por para como le les des une dans qui sur pas uma com nao mais der
    und nicht mit ein von auf dem och att det som inte og til ikke av paa nie jest sie oraz si este cu din care az
    egy hogy nem ja ei oli kun ve bir bu icin ang ng mga na ya wa kwa eta dhe te ne nga za su od kao ki waa oo iyo
    ku ah u ke ka ho ba wo mo
"""
_OTHERS = frozenset(_LITTLE_OTHERS.split())
"""Function words of other languages written in Latin letters, without those that are frequent in programs."""
_BEYOND = re.compile(r"[^\x00-\x7f]")
_FOREIGN = 0.005
"""The largest share of letters beyond ASCII in English."""
_FEW_WORDS = 20
_MANY_WORDS = 60

_CODE = re.compile(r"\s*([A-Za-z]{2,3})(?:[-_].*)?\s*\Z", re.DOTALL)
_OLD = "iw:he in:id ji:yi nb:no nn:no tl:fil mo:ro sh:sr cmn:zh"
_LONG = (
    "eng:en deu:de ger:de fra:fr fre:fr spa:es ita:it por:pt rus:ru jpn:ja zho:zh chi:zh kor:ko ara:ar nld:nl "
    "dut:nl pol:pl tur:tr swe:sv dan:da fin:fi nor:no ces:cs cze:cs"
)
_SAME = dict(each.split(":") for each in _OLD.split())
_THREE = dict(each.split(":") for each in _LONG.split())
_SCRIPTS = {
    "CJK": {"zh", "ja", "yue", "wuu", "ko"},
    "HIRAGANA": {"ja"},
    "KATAKANA": {"ja"},
    "HANGUL": {"ko"},
    "CYRILLIC": {
        "ru",
        "uk",
        "bg",
        "sr",
        "mk",
        "be",
        "kk",
        "ky",
        "mn",
        "tg",
        "uz",
        "tt",
        "ba",
        "cv",
        "az",
        "bs",
        "ro",
    },
    "ARABIC": {"ar", "fa", "ur", "ps", "ug", "ku", "sd", "ckb", "az", "kk", "ms"},
    "HEBREW": {"he", "yi"},
    "GREEK": {"el"},
    "THAI": {"th"},
    "DEVANAGARI": {"hi", "mr", "ne", "sa", "mai", "bho", "sd", "ks"},
}
_NOT_LATIN = {
    "zh",
    "ja",
    "ko",
    "ru",
    "uk",
    "bg",
    "mk",
    "be",
    "ar",
    "fa",
    "ur",
    "ps",
    "he",
    "yi",
    "el",
    "th",
    "hi",
    "mr",
    "ne",
}
_lock = threading.Lock()


def declared_language(said: str) -> str:
    """The code in a `lang` attribute; empty if there is none."""
    found = _CODE.match(said)
    if found is None:
        return ""
    code = found[1].lower()
    code = _THREE.get(code, code)
    return "" if code in ("und", "mul", "zxx", "xx") else _SAME.get(code, code)


@cache
def _detector() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def detect(text: str) -> tuple[str, float]:
    """The language that a text looks like, and how sure that is (0 to 1); empty and 0 without enough letters."""
    sample = text[:READ]
    if _is_english(sample, PLAIN):
        return "en", 1.0
    if sum(map(str.isalpha, sample)) < SHORT and not _many(sample):
        return "", 0.0
    with _lock:  # its model is read at the first call
        detector = _detector()
    code, sure = detector.classify(sample)
    return _SAME.get(code, code), float(sure)


def _is_english(sample: str, least: float) -> bool:
    words = sample.lower().split()
    if len(words) < _FEW_WORDS or "the" not in words:
        return False
    return sum(map(_ENGLISH.__contains__, words)) >= least * len(words)


def _little_words(sample: str) -> tuple[float, float, int]:
    """The shares of the words that are function words of English, and of other languages; and how many words."""
    words = sample.lower().split() or [""]
    english, others = (sum(map(known.__contains__, words)) for known in (_ENGLISH, _OTHERS))
    return english / len(words), others / len(words), len(words)


def _plain_letters(sample: str) -> bool:
    return sample.isascii() or sum(map(str.isalpha, _BEYOND.findall(sample))) <= _FOREIGN * len(sample)


def language(text: str, declared: str = "") -> str:
    """The language of a text whose page declares `declared`."""
    said = declared_language(declared)
    if said and said != "en" and _possible(text, said):
        return said
    sample, enough = text[:READ], LIKELY
    english, others, words = _little_words(sample)
    least = DECLARED if said == "en" else LESS if words >= _MANY_WORDS else 1.0
    if english >= least and english > 2 * others and _plain_letters(sample):
        return "en"
    if said == "en" and english >= others and _possible(text, said):
        enough = SURE
    found, sure = detect(text)
    return found if found and (sure >= enough or found == said) else said


def _script(text: str) -> str:
    """The script of most letters of the beginning of a text; empty without letters."""
    counts: dict[str, int] = {}
    for letter in text[:200]:
        if letter.isalpha():
            name = "LATIN" if letter < "\u0250" else unicodedata.name(letter, "").partition(" ")[0]
            counts[name] = counts.get(name, 0) + 1
    if counts.get("HIRAGANA", 0) + counts.get("KATAKANA", 0) > 3:
        return "HIRAGANA"
    return max(counts, key=lambda name: counts[name]) if counts else ""


def _many(text: str) -> bool:
    """Whether a text of few characters without spaces is still long enough for a sentence."""
    return _script(text) in ("CJK", "HIRAGANA", "HANGUL", "THAI") and len(text) >= SHORT // 4


def _possible(text: str, code: str) -> bool:
    """Whether a language is ever written in the script of a text."""
    script = _script(text)
    if script == "LATIN":
        return code not in _NOT_LATIN
    allowed = _SCRIPTS.get(script)
    return allowed is None or code in allowed
