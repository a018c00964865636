"""Secrets: values that options only refer to, by the place where the operator keeps them.

    place  = "env:" name      a variable of this process, whose name begins with LYCOSA_SECRET_
           | "file:" name     a file in the directory $LYCOSA_SECRETS, or else in systemd's $CREDENTIALS_DIRECTORY

Options are in the crawl's log and are displayed; a place reveals nothing. A secret is read when it is used. Only
variables and files meant as secrets can be named: options in a crawl directory from somebody else must not make the
crawl send other variables or files of yours.
"""

from __future__ import annotations

import os
from pathlib import Path

from lycosa.errors import ConfigError

PREFIX = "LYCOSA_SECRET_"
_DIRECTORIES = ("LYCOSA_SECRETS", "CREDENTIALS_DIRECTORY")
_LARGEST = 64 << 10


def is_place(text: str) -> bool:
    """Whether a value is the place of a secret."""
    return text.startswith(("env:", "file:"))


def checked(text: str, what: str) -> str:
    """The place of a secret; a `ConfigError` if it is none. `what` names the option."""
    kind, _, name = text.partition(":")
    if kind == "env" and name.startswith(PREFIX):
        return text
    if kind == "file" and name and "/" not in name and name not in (".", ".."):
        return text
    raise ConfigError(
        f"{what}: a secret is env:{PREFIX}... (a variable of the environment) or file:NAME"
        f" (a file in the directory ${_DIRECTORIES[0]})"
    )


def revealed(text: str, what: str) -> str:
    """The secret at a place; any other text is returned as it is."""
    if not is_place(text):
        return text
    kind, _, name = checked(text, what).partition(":")
    if kind == "env":
        value = os.environ.get(name)
        if not value:
            raise ConfigError(f"{what}: the environment has no {name}")
        return value
    directory = next(filter(None, map(os.environ.get, _DIRECTORIES)), None)
    if directory is None:
        raise ConfigError(f"{what}: ${_DIRECTORIES[0]} names no directory, in which to look for {name}")
    try:
        with (Path(directory) / name).open("rb") as file:
            value = file.read(_LARGEST).decode("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{what}: the secret {name} in ${_DIRECTORIES[0]} cannot be read: {why}") from None
    return value
