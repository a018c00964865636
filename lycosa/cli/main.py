"""`lycosa`: finds the verb, runs it, and turns every expected error into one line.

A verb is a module of this package with `HELP` (one line), `configure(parser)` and `run(args) -> int`. Only
the module of the verb that was asked for is imported, so that small tools start fast.

Exit codes: 0 done; 1 done, and the answer is no; 2 the operator must change something (usage,
configuration); 3 storage; 4 the remote side; 5 an internal limit or error; 130 interrupted.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.cli import streams
from lycosa.errors import ConfigError, LocalError, LycosaError, RemoteError, StorageError
from lycosa.version import VERSION

if TYPE_CHECKING:
    import argparse

_HERE = Path(__file__).parent
_NOT_VERBS = {"amounts", "described", "ending", "main", "panel", "reaching", "screen", "streams", "usage"}
"""Modules that are not verbs; nor are those with an underscore in their names."""
_SURROUNDINGS = frozenset(
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EIO", "EROFS", "EACCES", "EPERM", "EMFILE", "ENFILE", "EFBIG")
)
"""System errors caused by the environment that no verb handles: reported in one line, too."""
_CODES: list[tuple[type[LycosaError], int]] = [
    (ConfigError, 2),
    (StorageError, 3),
    (RemoteError, 4),
    (LocalError, 5),
]


def verbs() -> list[str]:
    """The names of all verbs."""
    stems = (path.stem for path in _HERE.glob("*.py"))
    return sorted(stem for stem in stems if "_" not in stem and stem not in _NOT_VERBS)


def _help_of(verb: str) -> str:
    """The help line of a verb, read from its source: importing all verbs would take a second."""
    with (_HERE / f"{verb}.py").open(encoding="utf-8") as source:
        line = next((line for line in source if line.startswith("HELP = ")), "")
    return line.partition('"')[2].rstrip().removesuffix('"')


def _overview() -> str:
    rows = [f"  {verb:<11} {_help_of(verb)}" for verb in verbs()]
    return "\n".join(
        [
            f"lycosa {VERSION}: a web crawler that never loses its place",
            "",
            "usage: lycosa VERB ...      (lycosa VERB --help tells more)",
            "",
            *rows,
            "",
            "first steps: lycosa demo",
        ]
    )


def parse(verb: str, args: list[str]) -> argparse.Namespace:
    """Parse a verb's arguments; a verb with actions (`choose`) has a parser, and a help, for each."""
    import argparse

    from lycosa.cli.usage import Parser

    module = importlib.import_module(f"lycosa.cli.{verb}")
    parser: argparse.ArgumentParser = Parser(
        prog=f"lycosa {verb}",
        description=module.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=getattr(module, "EPILOG", None),
    )
    if hasattr(module, "choose"):
        parser, args = module.choose(parser, args)
    else:
        module.configure(parser)
    return parser.parse_intermixed_args(args)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    if argv is None:
        streams.own()
        streams.take_signals()
    try:
        try:
            code = dispatch(sys.argv[1:] if argv is None else argv)
        except SystemExit:  # raised by the parser: --help
            sys.stdout.flush()
            raise
        sys.stdout.flush()
        if argv is None and (compiled := sys.modules.get("lycosa.compiled")) is not None:
            compiled.keep()  # kernels of this verb that a crawl does not use
        return code
    except streams.OutputClosedError:
        return 0
    except streams.OutputFailedError as error:
        print(f"lycosa: {error}", file=sys.stderr)
        return 3
    except streams.Terminated as error:  # everything is cleaned up: now end by that signal
        signal.signal(error.number, signal.SIG_DFL)
        os.kill(os.getpid(), error.number)
        return 128 + error.number
    except KeyboardInterrupt:
        return 130
    finally:
        if (out := streams.outlet(sys.stdout)) is not None:
            out.mute()


def dispatch(args: list[str]) -> int:
    """Run a verb; the caller handles errors of standard output."""
    if not args or args[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if args else 2
    if args[0] in ("-V", "--version"):
        print(f"lycosa {VERSION}")
        return 0
    verb = args[0]
    if verb not in verbs():
        import difflib

        near = difflib.get_close_matches(verb, verbs(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "lycosa --help lists the verbs"
        print(f"lycosa: no verb {verb!r}; {hint}", file=sys.stderr)
        return 2
    try:
        module = importlib.import_module(f"lycosa.cli.{verb}")
        return int(module.run(parse(verb, args[1:])))
    except streams.OutputFailedError:
        raise
    except LycosaError as error:
        print(f"lycosa {verb}: {streams.printable(str(getattr(error, 'flags', error)))}", file=sys.stderr)
        return next((code for kind, code in _CODES if isinstance(error, kind)), 5)
    except OSError as error:
        if error.errno not in _SURROUNDINGS:
            raise
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"lycosa {verb}: {where}{error.strerror}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
