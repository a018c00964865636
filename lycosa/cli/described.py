"""The command line as a table: every verb with its flags and words, taken from its own parser.

Shell completion and man pages are generated from it, so that neither can differ from the command itself.
"""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from lycosa.cli.main import verbs


class Flag(NamedTuple):
    """One option."""

    names: tuple[str, ...]
    takes: str
    """The name of its value; empty if it takes none."""
    choices: tuple[str, ...]
    about: str


class Word(NamedTuple):
    """One positional word."""

    name: str
    about: str
    choices: tuple[str, ...]


class Described(NamedTuple):
    """One verb, or one action of a verb."""

    name: str
    about: str
    usage: str
    words: tuple[Word, ...]
    flags: tuple[Flag, ...]
    notes: str
    """Examples and other epilogue text."""
    actions: tuple[Described, ...] = ()


def describe(verb: str) -> Described:
    """Describes one verb."""
    module = importlib.import_module(f"lycosa.cli.{verb}")
    actions: tuple[Described, ...] = ()
    parser = argparse.ArgumentParser(prog=f"lycosa {verb}", description=module.HELP)
    if hasattr(module, "choose"):
        parser, _ = module.choose(parser, [])
        names: Sequence[str] = next(row.choices for row in parser._actions if row.dest == "action") or ()
        for name in names:
            chosen, _ = module.choose(argparse.ArgumentParser(), [name])
            actions += (_of(name, chosen.description or "", chosen, ""),)
    else:
        module.configure(parser)
    return _of(verb, module.HELP, parser, getattr(module, "EPILOG", ""))._replace(actions=actions)


def described() -> list[Described]:
    """Describes all verbs."""
    return [describe(verb) for verb in verbs()]


def _of(name: str, about: str, parser: argparse.ArgumentParser, notes: str) -> Described:
    flags, words = [], []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        told = (action.help or "").replace("%%", "%")
        called = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        choices = tuple(map(str, action.choices or ()))
        if action.option_strings:
            takes = "" if action.nargs == 0 else ("|".join(choices) or called)
            flags.append(Flag(tuple(action.option_strings), takes, choices, told))
        else:
            words.append(Word(called, told, choices))
    usage = re.sub(r"\s+", " ", parser.format_usage().removeprefix("usage: ")).strip()
    return Described(name, about, usage, tuple(words), tuple(flags), notes)
