"""The process in which the operator's function is called.

    python -m lycosa.ask.extract_child DIR FUNCTION SECONDS

It reads questions on standard input and answers, in order, on its original standard output:

    frame     := length, four bytes, big-endian; MessagePack
    question  := [shard, position, encoded record]
    answer    := ["rows", [row*]] | ["error", text, trace]           the first: ["ready"] | ["refused", text]

What the function prints goes to standard error. A row is a dict; values that MessagePack cannot hold become text,
an element of the page its own text.
The process ends when its standard input does; the parent kills it if an answer takes too long, and if the parent is
gone it ends by itself.
"""

from __future__ import annotations

import faulthandler
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, Protocol

import msgspec

from lycosa.ask.reading import CrawlReader
from lycosa.ask.saved import SavedPage
from lycosa.errors import ConfigError
from lycosa.plugins import load_function, told
from lycosa.records import Fetched, decode

Row = dict[str, Any]
_MOST = 64 << 20
"""Limit of bytes of the rows of one page."""
_GRACE = 5.0
"""Seconds after which the process ends by itself if the parent has not ended it."""


class Source(Protocol):
    """Where frames are read from: it returns fewer bytes than asked for only at the end."""

    def read(self, count: int, /) -> bytes: ...


def send(out: BinaryIO, message: Any) -> None:
    """Send one frame."""
    data = msgspec.msgpack.encode(message, enc_hook=_text)
    out.write(len(data).to_bytes(4, "big") + data)
    out.flush()


def receive(source: Source) -> Any:
    """The next frame; None at the end."""
    head = source.read(4)
    if len(head) < 4:
        return None
    data = source.read(int.from_bytes(head, "big"))
    return msgspec.msgpack.decode(data)


def _text(value: Any) -> str:
    """A value that MessagePack cannot hold, as text: of a selected element, its own text."""
    text = getattr(value, "text", None)
    return text if isinstance(text, str) else str(value)


def rows_of(function: Callable[[SavedPage], Any], page: SavedPage) -> list[Row]:
    """The rows that the function returned for a page: None, a row, or several."""
    made = function(page)
    if made is None:
        return []
    found: Iterable[Any] = (made,) if isinstance(made, dict) else made
    rows = []
    for row in found:
        if not isinstance(row, dict) or not all(isinstance(name, str) for name in row):
            raise TypeError(f"a row is a dict with names as keys, not {type(row).__name__}")
        rows.append({"url": page.url, **row})
    return rows


def main(directory: str, named: str, seconds: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    source = sys.stdin.buffer
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the function prints
    if isinstance(sys.stdout, io.TextIOWrapper):  # so that output printed before a kill is not lost
        sys.stdout.reconfigure(line_buffering=True)
    sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123
    sys.path.insert(0, os.path.dirname(os.path.abspath(named.rpartition(":")[0])))  # noqa: PTH100, PTH120
    try:
        function = load_function(named, "extract", page=None)
    except ConfigError as error:
        send(out, ["refused", str(error)])
        return
    crawl = CrawlReader(directory)
    send(out, ["ready"])
    while (question := receive(source)) is not None:
        shard, position, encoded = question
        record = decode(encoded)
        assert isinstance(record, Fetched)
        faulthandler.dump_traceback_later(seconds + _GRACE, exit=True)
        try:
            rows = rows_of(function, SavedPage(crawl, shard, position, record))
            if len(msgspec.msgpack.encode(rows, enc_hook=_text)) > _MOST:
                raise ValueError(f"the rows of one page are larger than {_MOST >> 20} MB")
            answer: list[Any] = ["rows", rows]
        except Exception as error:
            answer = ["error", told(error), traceback.format_exc()]
        faulthandler.cancel_dump_traceback_later()
        send(out, answer)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
