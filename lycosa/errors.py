"""Errors, by who must act.

Expected outcomes of a crawl (a timeout, a 404, a robots refusal) are values, never exceptions. An exception says
that somebody has to act, and its class says who:

- `RemoteError`: the site; all we can do is ask later.
- `LocalError`: we; a bug or a limit of this program or machine.
- `StorageError`: whoever maintains the disk; it is full, failing, or holds bytes that are not ours.
- `ConfigError`: the operator; the message says in one line what to change.

The command line prints only the message, so each message must be self-contained: it names the thing
(the file, the option, the URL) and says what to do.
"""

from __future__ import annotations


class LycosaError(Exception):
    """Any error that this program raises on purpose."""


class RemoteError(LycosaError):
    """The site must act."""


class LocalError(LycosaError):
    """We must act."""


class StorageError(LycosaError):
    """The disk needs attention."""


class DiskFullError(StorageError):
    """There is no room left on the disk, or for this user."""


class ConfigError(LycosaError):
    """The operator must change what was asked for.

    The message names options as in Python and crawl.toml; `flags` is the same message with the names of the command
    line, where they differ.
    """

    def __init__(self, message: str, *, flags: str = "") -> None:
        super().__init__(message)
        self.flags = flags or message
