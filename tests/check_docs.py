"""Check the documentation: `python tests/check_docs.py` prints one line per problem, and exits 1 if there is any.

- every relative link of every Markdown file leads to a file that exists, and its anchor to a heading there;
- fences: `toml` is TOML, and if it is a crawl.toml its options are known; `python` compiles; in `console`
  every `$ lycosa ...` is a verb with flags that its parser takes;
- no path of somebody's machine;
- every verb of the command line has a section in the guide;
- every file of docs/ is linked from another one, or from the README.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
GUIDE = "docs/guide.md"

_FENCE = re.compile(r"^([ \t]*)```([\w-]*)[^\n]*\n(.*?)^\1```[ \t]*$", re.M | re.S)
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.M)
_CODE = re.compile(r"`+[^`\n]*`+")
_MACHINE = re.compile(r"(?<![\w.:/])(?:/home/|/root/|/Users/|/work/|/tmp/|[A-Z]:\\)[\w.-]*")
_SHELL = {"|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "2>", "2>&1"}

Problem = tuple[str, int, str]


def files(root: Path) -> list[Path]:
    """The Markdown files of the project."""
    found = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "benchmarks").rglob("*.md")]
    return sorted(path for path in found if path.is_file())


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as forges make them."""
    made: dict[str, int] = {}
    names = set()
    for heading in _HEADING.findall(blanked(text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = made.get(name, 0)
        made[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return names


def blanked(text: str) -> str:
    """The text without its fences, lines kept."""
    return _FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)


def line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


class Checker:
    """Reads all pages once and looks for problems."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self.pages = {path: path.read_text(encoding="utf-8") for path in files(self._root)}
        self._linked: set[Path] = set()

    def run(self) -> list[str]:
        """All problems, one line each."""
        found: list[Problem] = []
        for path, text in self.pages.items():
            name = path.relative_to(self._root).as_posix()
            for problems in (self._links(path, text), self._fences(text), self._machines(text)):
                found += [(name, line, what) for line, what in problems]
        found += self._verbs()
        found += self._orphans()
        return [f"{name}:{line}: {what}" for name, line, what in sorted(found)]

    # -- links

    def _links(self, path: Path, text: str) -> Iterator[tuple[int, str]]:
        # Code in a line is blanked, but not the code within the text of a link.
        prose = blanked(text)
        code = [(found.start(), found.end()) for found in _CODE.finditer(prose)]
        for found in _LINK.finditer(prose):
            if any(start < found.start() and found.end() < end for start, end in code):
                continue
            target = found[1]
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            line = line_of(prose, found.start())
            place, _, anchor = target.partition("#")
            there = (path.parent / unquote(place)).resolve() if place else path
            if not there.is_relative_to(self._root):
                yield line, f"the link {target} leaves the project"
            elif not there.exists():
                yield line, f"the link {target} leads nowhere"
            else:
                if there != path:
                    self._linked.add(there)
                if anchor and there.suffix == ".md" and anchor not in anchors(self.pages.get(there, "")):
                    yield line, f"the link {target}: there is no heading #{anchor}"

    def _orphans(self) -> Iterator[Problem]:
        for path in self.pages:
            if path.is_relative_to(self._root / "docs") and path not in self._linked:
                yield path.relative_to(self._root).as_posix(), 1, "no other page links here"

    # -- code

    def _fences(self, text: str) -> Iterator[tuple[int, str]]:
        for found in _FENCE.finditer(text):
            language, code, line = found[2], found[3], line_of(text, found.start())
            if language == "toml":
                problem = toml_problem(code)
            elif language == "python":
                problem = python_problem(code)
            elif language == "console":
                problem = None
                for offset, command in commands(code):
                    wrong = command_problem(command)
                    if wrong is not None:
                        yield line + 1 + offset, wrong
            else:
                problem = None
            if problem is not None:
                yield line, problem
        if text.count("\n```") % 2 != text.startswith("```"):
            yield 1, "a fence is not closed"

    def _machines(self, text: str) -> Iterator[tuple[int, str]]:
        for found in _MACHINE.finditer(text):
            yield line_of(text, found.start()), f"a path of some machine: {found[0]}"

    # -- verbs

    def _verbs(self) -> Iterator[Problem]:
        from lycosa.cli.main import verbs

        guide = self.pages.get(self._root / GUIDE)
        if guide is None:
            yield GUIDE, 1, "there is no guide"
            return
        there = anchors(guide)
        for verb in verbs():
            if f"lycosa-{verb}" not in there:
                yield GUIDE, 1, f"no section `lycosa {verb}`"


def toml_problem(code: str) -> str | None:
    """What is wrong with a TOML fence; one with a [project] or [build-system] is no crawl.toml."""
    from lycosa.crawl.config import read_options
    from lycosa.errors import ConfigError

    try:
        given = tomllib.loads(code)
    except tomllib.TOMLDecodeError as error:
        return f"not TOML: {error}"
    if "project" in given or "build-system" in given:
        return None
    given.pop("seeds", None)
    given.pop("into", None)
    try:
        read_options({"public": False, **given})
    except ConfigError as error:
        return f"not a crawl.toml: {error}"
    return None


def python_problem(code: str) -> str | None:
    """Whether Python compiles; `await` outside of a function is allowed, as in snippets."""
    import ast

    try:
        compile(code, "fence", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        return f"not Python: {error.msg} (line {error.lineno} of the fence)"
    return None


def commands(code: str) -> Iterator[tuple[int, str]]:
    """The commands of a console fence (lines after `$ `, continued by a backslash), with their lines."""
    rows = code.split("\n")
    at = 0
    while at < len(rows):
        if rows[at].startswith("$ "):
            start, text = at, rows[at][2:]
            while text.endswith("\\") and at + 1 < len(rows):
                at += 1
                text = text[:-1] + rows[at]
            yield start, text
        at += 1


def command_problem(command: str) -> str | None:
    """What is wrong with the `lycosa ...` parts of a command line."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError as error:
        return f"not a command line: {error}"
    part: list[str] = []
    for word in [*words, ";"]:
        if word in _SHELL:
            if part[:1] == ["lycosa"] and (wrong := verb_problem(part[1:])) is not None:
                return wrong
            part = []
        else:
            part.append(word)
    return None


def verb_problem(args: list[str]) -> str | None:
    """Whether a verb exists and takes these arguments."""
    from lycosa.cli.main import parse, verbs

    if not args or args[0].startswith("-"):
        return None
    verb, rest = args[0], args[1:]
    if verb not in verbs():
        return f"lycosa has no verb {verb!r}"
    if "--help" in rest or "..." in rest:
        return None
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parse(verb, rest)
    except SystemExit:
        return said.getvalue().strip().rpartition("\n")[2] or f"lycosa {verb} does not take {rest}"
    return None


def main() -> int:
    # Run as a script, this directory comes first, and tests/url would hide the library of that name.
    sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != ROOT / "tests"]
    problems = Checker(ROOT).run()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
