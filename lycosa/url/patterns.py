"""Patterns that an operator gives: regular expressions searched in canonical URLs.

Python's engine backtracks, and sites choose the URLs: a pattern such as `(a+)+$` would let one link stop the
crawl. Three guards: a pattern with an unbounded repetition inside another is refused, which is what takes
exponential time; so is one with more than `MAX_REPETITIONS` unbounded repetitions in all, since each may
multiply the time by the length of the URL; and a URL is searched only if it is within the scope's limit of
length. They do not make every pattern fast: `.*a.*b.*c` still takes cubic time on a URL made for it. Write
`[^/]*` or a literal where you can.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import Any

from lycosa.errors import ConfigError

MAX_REPETITIONS = 4
MAX_PATTERN = 2000


def compile_pattern(pattern: str, where: str) -> re.Pattern[str]:
    """The compiled pattern; a `ConfigError` names a bad one and the option it is in."""
    if len(pattern) > MAX_PATTERN:
        raise ConfigError(
            f"{where}: a pattern of {len(pattern)} characters; the limit is {MAX_PATTERN}: split it"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled = re.compile(pattern, re.ASCII)
            outer, nested = _repetitions(_tree(pattern))
    except (re.error, Warning, OverflowError, RecursionError) as error:
        raise ConfigError(f"{where}: {pattern!r} is not a regular expression: {error}") from None
    if nested:
        raise ConfigError(
            f"{where}: {pattern!r} repeats a repetition, which can take forever on some URLs: "
            "write it without the inner or the outer one"
        )
    if outer > MAX_REPETITIONS:
        raise ConfigError(
            f"{where}: {pattern!r} has {outer} unbounded repetitions; the limit is {MAX_REPETITIONS}: "
            "split it into several patterns"
        )
    return compiled


def _tree(pattern: str) -> Any:
    # The parser of `re` is not a public interface, but there is no other exact parser of the syntax; it has
    # had this name since Python 3.11.
    from re import _parser  # type: ignore[attr-defined]

    return _parser.parse(pattern, re.ASCII)


def _repetitions(tree: Any) -> tuple[int, bool]:
    """How many unbounded repetitions the tree has, and whether one is inside another."""
    from re import _constants  # type: ignore[attr-defined]

    count, nested = 0, False
    for operation, argument in tree:
        within, deeper = 0, False
        for child in _children(argument):
            n, d = _repetitions(child)
            within += n
            deeper |= d
        most = argument[1] if operation in (_constants.MAX_REPEAT, _constants.MIN_REPEAT) else 1
        # Many copies of a repetition, as in (a*){30}, are as bad as an unbounded number of them.
        nested |= deeper or (within > 0 and most > MAX_REPETITIONS)
        count += within * min(most, MAX_REPETITIONS) + (most is _constants.MAXREPEAT)
    return count, nested


def _children(argument: Any) -> Iterable[Any]:
    """The sub-trees among an operation's arguments, wherever they stand."""
    from re import _parser  # type: ignore[attr-defined]

    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, (tuple, list)):
        for part in argument:
            yield from _children(part)
