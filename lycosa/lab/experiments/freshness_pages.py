"""Pages whose bytes change all the time and whose content hardly ever does: what a crawl must tell apart.

`page(number, version, look)` is HTML. Its article follows from its number and version: two successive versions
differ in one sentence. Everything that real pages change without saying anything new depends on `look`: a nonce, a
token in a form, the time of day and "minutes ago", counters of views and comments, a session id in links,
the order of a block of related pages, an advertisement, who is online.
"""

from __future__ import annotations

from random import Random

_TEXT = """
water river stone bridge winter market garden letter window mountain harbour engine paper village
summer teacher doctor journey silver copper forest island station kitchen evening morning question
answer measure history travel weather science machine language music painting colour shadow street
number family friend animal horse reading writing working building carries follows remains becomes
returns belongs contains explains describes because although between against without through towards
behind beyond during before after under over where
"""
_WORDS = _TEXT.split()
_MONTHS = ("January", "March", "May", "June", "August", "October", "December")


def _prose(random: Random, words: int) -> str:
    return " ".join(random.choice(_WORDS) for _ in range(words)).capitalize() + "."


def page(number: int, version: int, look: int) -> bytes:
    """The page as it is at a given look."""
    still = Random(number)
    title = _prose(still, 4)
    sentences = [_prose(still, 14) for _ in range(12)]
    if version:
        now = Random(number * 1_000_003 + version)
        sentences[now.randrange(12)] = _prose(now, 14)
    paragraphs = "".join(f"<p>{' '.join(sentences[at : at + 3])}</p>" for at in range(0, 12, 3))
    churn = Random(look * 7_919 + number)
    nonce, session = churn.getrandbits(64), churn.getrandbits(64)
    related = [f'<li><a href="/{n}?sid={session:016x}">{_WORDS[n % len(_WORDS)]}</a></li>' for n in range(6)]
    churn.shuffle(related)
    clock = f"{churn.randrange(24):02d}:{churn.randrange(60):02d}"
    day = f"{churn.randrange(1, 29)} {churn.choice(_MONTHS)} 2026"
    return (
        f"<!doctype html><html><head><title>{title}</title><script nonce='{nonce:016x}'>var t={look}</script>"
        f"</head><body><header><a href=/>Home</a> {day} {clock}</header><nav><a href=/a>A</a> <a href=/b>B</a>"
        f"</nav><main><article><h1>{title}</h1><p class=date>Updated {day}, {clock}</p>{paragraphs}"
        f"<p>{churn.randrange(10_000):,} views, {churn.randrange(99)} comments, {churn.randrange(59)} minutes ago"
        f"</p></article></main><aside class=related><ul>{''.join(related)}</ul></aside>"
        f"<div class=advertisement>{_prose(churn, 9)}</div>"
        f"<form><input type=hidden name=token value={nonce ^ session:016x}><button>Send</button></form>"
        f"<footer>{churn.randrange(500)} users online. Page made in {churn.randrange(900)} ms.</footer></body>"
    ).encode()
