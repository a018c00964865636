"""The text of a PDF on standard input, on standard output: a program of its own, run by `documents`.

PDFium is a large C++ library, and PDFs from the web are hostile: a crash, an endless loop or a flood of memory
ends this process and no other. Its own limits come first (arguments: pages, bytes of text, seconds of CPU, bytes
of memory). The first line of the answer is the title; then the text, pages one after the other. It imports
nothing of ours.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys


def main(pages: int, most: int, seconds: int, memory: int) -> None:
    limit("RLIMIT_CORE", 0)
    limit("RLIMIT_CPU", seconds)
    if sys.platform == "linux":
        limit("RLIMIT_AS", memory)
    data = sys.stdin.buffer.read()
    import pypdfium2

    out = sys.stdout.buffer
    try:
        document = pypdfium2.PdfDocument(data)
        title = document.get_metadata_value("Title")
    except pypdfium2.PdfiumError:
        return
    out.write(" ".join(title.split()).encode("utf-8", "replace") + b"\n")
    for number in range(min(len(document), pages)):
        if most <= 0:
            break
        try:
            page = document[number]
            text = page.get_textpage().get_text_bounded(errors="replace")
        except (pypdfium2.PdfiumError, ctypes.ArgumentError):
            continue
        part = (text.replace("\r\n", "\n").replace("\r", "\n") + "\n").encode("utf-8", "replace")[:most]
        most -= len(part)
        out.write(part)
        out.flush()  # what was read before a crash is kept
        page.close()


def limit(name: str, most: int) -> None:
    """Have a limit, or the one that was inherited if that is lower; each by itself: where one cannot be had, the
    others hold."""
    with contextlib.suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        which = getattr(resource, name)
        _, inherited = resource.getrlimit(which)
        if inherited != resource.RLIM_INFINITY:
            most = min(most, inherited)
        resource.setrlimit(which, (most, most))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]))
