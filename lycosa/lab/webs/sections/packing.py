"""Packing: content codings, transfer codings, and bodies that end too early or too late.

Everything is below /packed/. A page in a coding that the crawler did not offer is sent uncoded, as
RFC 9110 requires, except for `unasked`, which is always gzip. Pages link to one page that
nothing else links to, so a crawler that fetches it was able to unpack. Bodies broken beyond use link
nowhere.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import brotli
import zstandard

from lycosa.lab.webs.answers import Answer, Only, Request, Sending, html, leaf
from lycosa.lab.webs.sheet import Sheet

_HTML = ("Content-Type", "text/html; charset=utf-8")


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, 6, mtime=0)


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def _brotli(data: bytes) -> bytes:
    return bytes(brotli.compress(data, quality=4))


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(data)


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": _gzip,
    "deflate": zlib.compress,
    "br": _brotli,
    "zstd": _zstd,
}


def accepts(accept: str, coding: str) -> bool:
    """Whether an Accept-Encoding takes this coding."""
    for item in accept.lower().split(","):
        name, _, weight = item.partition(";")
        if name.strip() in (coding, "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0")
    return False


def pack(answer: Answer, coding: str, accept: str) -> Answer:
    """The answer in that coding, if the client accepts it and there is something to pack."""
    if coding == "chunked":
        return Answer(
            answer.status, answer.headers, answer.body, Sending.CHUNKED, answer.delay, lasting=answer.lasting
        )
    if coding not in CODINGS or not answer.body or not accepts(accept, coding):
        return answer
    return Answer(
        answer.status,
        (*answer.headers, ("Content-Encoding", coding), ("Vary", "Accept-Encoding")),
        CODINGS[coding](answer.body),
        answer.sending,
        answer.delay,
        lasting=answer.lasting,
    )


def write(sheet: Sheet) -> None:
    """Add the section."""
    text = "Something long enough to be worth the packing. " * 40

    def page(name: str, linked: bool = True) -> bytes:
        behind = (sheet.child(f"/packed/behind-{name}.html"),) if linked else ()
        return leaf(f"packed {name}", *behind, text=text).encode()

    for coding in CODINGS:
        plain = html(page(coding))

        def maker(request: Request, plain: Answer = plain, coding: str = coding) -> Answer:
            return pack(plain, coding, request.accept)

        sheet.put(f"/packed/{coding}.html", maker, entry=True)

    def put(name: str, body: bytes, sending: Sending, coding: str = "", cut: bool = False) -> None:
        headers = (_HTML, ("Content-Encoding", coding)) if coding else (_HTML,)
        answer = Answer(200, headers, body, sending, lasting=True)
        sheet.put(f"/packed/{name}.html", answer, entry=True, truncated=cut)

    put("unasked", _gzip(page("unasked")), Sending.WHOLE, "gzip")
    put("x-gzip", _gzip(page("x-gzip")), Sending.CHUNKED, "x-gzip")
    put("raw-deflate", _raw_deflate(page("raw-deflate")), Sending.WHOLE, "deflate")
    put("chunked", page("chunked"), Sending.CHUNKED)
    put("until-close", page("until-close"), Sending.CLOSE)
    put("dribble", page("dribble"), Sending.DRIBBLE)
    # Half of it is sent; the link is in that half.
    early = sheet.child("/packed/behind-cut.html")
    cut = leaf("cut", early, text="x").encode() + b"<p>" + text.encode() * 4
    put("cut", cut, Sending.CUT, cut=True)
    early = sheet.child("/packed/behind-cut-chunked.html")
    cut = leaf("cut chunked", early, text="x").encode() + b"<p>" + text.encode() * 4
    put("cut-chunked", cut, Sending.CUT_CHUNKED, cut=True)
    # The page ends where the length says; what follows is ignored.
    put("spill", page("spill"), Sending.SPILL)
    sheet.unserved(sheet.place.origin + "/spilled.html", Only.NOT_A_LINK)
    # Packed streams that are invalid, or become so. An answer came; how much of it can be read is up to
    # the crawler, so no page is linked from them.
    whole = _gzip(page("broken", linked=False))
    put("broken-gzip", whole[: len(whole) // 2] + b"\x00\xff" * 40, Sending.WHOLE, "gzip")
    put("half-gzip", whole[: len(whole) // 2], Sending.WHOLE, "gzip")
    put("not-gzip", page("not-gzip", linked=False), Sending.WHOLE, "gzip")
    put("unknown", page("unknown", linked=False), Sending.WHOLE, "x-secret")
    sheet.put("/packed/empty.html", Answer(200, (_HTML,), lasting=True), entry=True)
    garbage = Answer(0, body=b"SSH-2.0-OpenSSH_9.2\r\nnot a web server\r\n", sending=Sending.GARBAGE)
    sheet.put("/packed/garbage", garbage, entry=True, statuses=(0,))
    hung = Answer(0, sending=Sending.HANG_UP)
    sheet.put("/packed/hang-up", hung, entry=True, statuses=(0,))
    if bomb := sheet.place.options.bomb_bytes:
        zeros = leaf("bomb").encode() + b"<!--" + bytes(bomb)
        put("bomb", _gzip(zeros), Sending.WHOLE, "gzip", cut=True)
