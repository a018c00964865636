"""`lycosa completion`: a shell script that completes verbs, actions, flags and their choices.

It is generated from the verbs' own parsers (`described`) and contains their words: no lycosa process runs when a
key is pressed. Generate it again after an update.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lycosa.cli.described import Described

HELP = "print a completion script for a shell"
EPILOG = """\
examples:
  lycosa completion bash > ~/.local/share/bash-completion/completions/lycosa
  lycosa completion zsh > ~/.zfunc/_lycosa          (with ~/.zfunc in fpath)
  lycosa completion fish > ~/.config/fish/completions/lycosa.fish
"""
_SHELLS = ("bash", "zsh", "fish")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="the shell")


def run(args: argparse.Namespace) -> int:
    from lycosa.cli.described import described

    made: dict[str, Callable[[list[Described]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
    print(made[args.shell](described()), end="")
    return 0


def _names(verb: Described) -> str:
    """The words that may be completed where no value is expected: choices of positional words, and flags."""
    chosen = [choice for word in verb.words for choice in word.choices]
    return " ".join((*chosen, *(name for flag in verb.flags for name in flag.names)))


def bash(verbs: list[Described]) -> str:
    """The script for bash, with `complete -F`."""
    cases, values = [], []
    for verb in verbs:
        words = _names(verb)
        cases.append(f"    {verb.name}) words={shlex.quote(words)} ;;")
        cases += [
            f"    {shlex.quote(f'{verb.name} {action.name}')}) words={shlex.quote(_names(action))} ;;"
            for action in verb.actions
        ]
        for each in (verb, *verb.actions):
            for flag in (flag for flag in each.flags if flag.choices):
                for name in flag.names:
                    chosen = shlex.quote(" ".join(flag.choices))
                    values.append(f"    {shlex.quote(f'{verb.name} {name}')}) words={chosen} ;;")
    every = shlex.quote(" ".join(verb.name for verb in verbs))
    known = "\n".join(dict.fromkeys(cases))
    chosen = "\n".join(dict.fromkeys(values))
    return f"""\
# bash completion of lycosa, made by `lycosa completion bash`
_lycosa() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}} words=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W {every} -- "$word")); return
  fi
  case "$verb $before" in
{chosen}
  esac
  if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$word")); return; fi
  case "$verb ${{COMP_WORDS[2]}}" in
{known}
  esac
  if [ -z "$words" ]; then case "$verb" in
{known}
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _lycosa lycosa
"""


def _zsh_text(text: str) -> str:
    for char in "\\[]:'\"`$":
        text = text.replace(char, {"'": "’", '"': "”", "`": "’", "$": "", "\\": ""}.get(char, f"\\{char}"))
    return " ".join(text.split())


def zsh(verbs: list[Described]) -> str:
    """The script for zsh, with `_arguments`."""
    rows = "\n".join(f"    '{verb.name}:{_zsh_text(verb.about)}'" for verb in verbs)
    cases = []
    for verb in verbs:
        specs = []
        for flag in dict.fromkeys(flag for each in (verb, *verb.actions) for flag in each.flags):
            for name in flag.names:
                value = ""
                if flag.takes:
                    inner = f"({' '.join(flag.choices)})" if flag.choices else "_files"
                    value = f":{_zsh_text(flag.takes)}:{inner}"
                specs.append(f"        '{name}[{_zsh_text(flag.about)}]{value}'")
        specs += [
            f"        '{place}:{_zsh_text(word.name)}:({' '.join(word.choices)})'"
            for place, word in enumerate(verb.words, 1)
            if word.choices
        ]
        body = " \\\n".join(specs)
        cases.append(f"    {verb.name}) _arguments \\\n{body} \\\n        '*:file:_files' ;;")
    return f"""\
#compdef lycosa
# zsh completion of lycosa, made by `lycosa completion zsh`
_lycosa() {{
  local -a verbs
  verbs=(
{rows}
  )
  if (( CURRENT == 2 )); then _describe 'verb' verbs; return; fi
  local verb=$words[2]
  shift words; (( CURRENT-- ))
  case $verb in
{chr(10).join(cases)}
  esac
}}
_lycosa "$@"
"""


def fish(verbs: list[Described]) -> str:
    """The script for fish, with `complete -c`."""
    lines = ["# fish completion of lycosa, made by `lycosa completion fish`"]
    for verb in verbs:
        about = shlex.quote(verb.about)
        lines.append(f"complete -c lycosa -n __fish_use_subcommand -a {verb.name} -d {about}")
        within = f"-n '__fish_seen_subcommand_from {verb.name}'"
        lines += [
            f"complete -c lycosa {within} -a {action.name} -d {shlex.quote(action.about)}"
            for action in verb.actions
        ]
        acts = {action.name for action in verb.actions}
        lines += [
            f"complete -c lycosa {within} -a {choice} -d {shlex.quote(word.about)}"
            for word in verb.words
            for choice in word.choices
            if choice not in acts
        ]
        for flag in dict.fromkeys(flag for each in (verb, *verb.actions) for flag in each.flags):
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in flag.names)
            value = (
                f" -x -a {shlex.quote(' '.join(flag.choices))}"
                if flag.choices
                else " -r"
                if flag.takes
                else ""
            )
            lines.append(f"complete -c lycosa {within} {names}{value} -d {shlex.quote(flag.about)}")
    return "\n".join(lines) + "\n"
