"""`lycosa man`: the manual pages, generated from the verbs' own parsers (`described`).

`lycosa man VERB` prints one, in the format that `man -l -` reads; `--to DIR` writes all of them: lycosa.1, and
lycosa-VERB.1 for each verb.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.errors import ConfigError
from lycosa.version import VERSION

if TYPE_CHECKING:
    from lycosa.cli.described import Described

HELP = "print manual pages, or write them for man"
EPILOG = """\
examples:
  lycosa man crawl | man -l -
  lycosa man --to ~/.local/share/man/man1
"""
_CODES = (
    ("0", "done"),
    ("1", "done, and the answer is no"),
    ("2", "the operator must change something: usage, configuration"),
    ("3", "storage"),
    ("4", "the remote side"),
    ("5", "an internal limit or error"),
    ("130", "interrupted"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "verb", nargs="?", metavar="VERB", help="the verb to describe (default: lycosa itself)"
    )
    parser.add_argument("--to", type=Path, metavar="DIR", help="write all manual pages to this directory")


def run(args: argparse.Namespace) -> int:
    from lycosa.cli.described import describe, described
    from lycosa.cli.main import verbs

    if args.to is not None:
        if args.verb is not None:
            raise ConfigError("--to writes all pages: name no verb with it")
        found = described()
        args.to.mkdir(parents=True, exist_ok=True)
        (args.to / "lycosa.1").write_text(overview(found), encoding="utf-8")
        for verb in found:
            (args.to / f"lycosa-{verb.name}.1").write_text(page(verb), encoding="utf-8")
        print(f"{len(found) + 1} pages written to {args.to}")
        return 0
    if args.verb is None:
        print(overview(described()), end="")
        return 0
    if args.verb not in verbs():
        raise ConfigError(f"there is no verb {args.verb!r}: lycosa --help lists them")
    print(page(describe(args.verb)), end="")
    return 0


def _roff(text: str) -> str:
    """Text escaped for roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in text.split("\n"))


def _head(name: str, about: str) -> list[str]:
    return [
        f'.TH "{name.upper()}" "1" "" "lycosa {VERSION}" "Lycosa"',
        ".SH NAME",
        f"{_roff(name)} \\- {_roff(about)}",
    ]


def overview(verbs: list[Described]) -> str:
    """The page of lycosa itself."""
    lines = _head("lycosa", "a web crawler that never loses its place")
    lines += [".SH SYNOPSIS", ".B lycosa", "\\fIVERB\\fR ...", ".SH VERBS"]
    for verb in verbs:
        lines += [".TP", f".BR lycosa\\-{_roff(verb.name)} (1)", _roff(verb.about)]
    lines += [".SH EXIT STATUS"]
    for code, about in _CODES:
        lines += [".TP", f".B {code}", _roff(about)]
    return "\n".join(lines) + "\n"


def page(verb: Described) -> str:
    """The page of a verb."""
    lines = _head(f"lycosa-{verb.name}", verb.about)
    lines += [".SH SYNOPSIS", ".nf", _roff(verb.usage), ".fi"]
    lines += _options(verb, ".SH OPTIONS")
    for action in verb.actions:
        lines += [
            f'.SH "{action.name.upper()}"',
            _roff(action.about),
            ".PP",
            ".nf",
            _roff(action.usage),
            ".fi",
        ]
        lines += _options(action, '.SS "Options"')
    if verb.notes:
        lines += [".SH NOTES", ".nf", _roff(verb.notes.rstrip()), ".fi"]
    lines += [".SH SEE ALSO", ".BR lycosa (1)"]
    return "\n".join(lines) + "\n"


def _options(verb: Described, title: str) -> list[str]:
    lines = [title]
    for name, about, _ in verb.words:
        lines += [".TP", f"\\fI{_roff(name)}\\fR", _roff(about or name)]
    for flag in verb.flags:
        names = ", ".join(f"\\fB{_roff(name)}\\fR" for name in flag.names)
        lines += [".TP", names + (f" \\fI{_roff(flag.takes)}\\fR" if flag.takes else "")]
        lines.append(_roff(flag.about or flag.takes or "see the guide"))
    return lines
