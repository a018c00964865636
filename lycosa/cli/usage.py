"""The parser of a verb's arguments: a mistake is one line that names it, with exit code 2.

argparse prints the whole usage before the error, and reports missing arguments before unknown flags, so that a
misspelt flag is reported as something else. Here unknown flags are reported first, with the nearest known one.

A verb that takes the words of a query sets the default `minus_words`: one that begins with a minus sign (-vacuum)
is then no flag. A space before it keeps argparse from taking it for one.
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence
from typing import Any, NoReturn

_SAID = [
    (re.compile(r"^argument ([^:]+): invalid int value: (.*)$", re.S), r"\1: \2 is not a whole number"),
    (re.compile(r"^argument ([^:]+): invalid float value: (.*)$", re.S), r"\1: \2 is not a number"),
    (
        re.compile(r"^argument ([^:]+): invalid choice: (.*) \(choose from (.*)\)$", re.S),
        r"\1: \2 is not one of \3",
    ),
    (re.compile(r"^argument ([^:]+): expected one argument$"), r"\1 needs a value"),
    (re.compile(r"^argument ([^:]+): expected at least one argument$"), r"\1 needs a value"),
    (re.compile(r"^argument ([^:]+): ", re.S), r"\1: "),
    (re.compile(r"^the following arguments are required: ", re.S), "missing: "),
    (re.compile(r"^unrecognized arguments: ", re.S), "too many arguments: "),
]


_MINUS = re.compile(r"-(?!h$)[^-]")


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line."""

    def parse_intermixed_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        for word in args or ():
            if word == "--":
                break
            self._check(word)
        if args is not None and self.get_default("minus_words"):
            args = [f" {word}" if _MINUS.match(word) else word for word in args]
        return super().parse_intermixed_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        for pattern, better in _SAID:
            if pattern.match(message):
                message = pattern.sub(better, message)
                break
        self.exit(2, f"{self.prog}: {' '.join(message.split())} ({self.prog} --help shows the usage)\n")

    def _check(self, word: str) -> None:
        """End with an error if a word looks like a flag and is not one."""
        name = word.partition("=")[0]
        if not name.startswith("--") or " " in word:
            return
        known = [flag for flag in self._option_string_actions if flag.startswith("--")]
        if any(flag.startswith(name) for flag in known):
            return
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"{self.prog} --help lists the options"
        self.exit(2, f"{self.prog}: unknown option {name}; {hint}\n")
