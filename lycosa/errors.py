"""Errors, by who must act.

Expected outcomes of a crawl (a timeout, a 404, a robots refusal) are values, never exceptions.
An exception says that somebody has to do something, and its class says who:

- `RemoteError`: the site; nothing we do helps but asking later.
- `LocalError`: we; a bug or a limit of this program or machine.
- `StorageError`: the disk; full, failing, or holding bytes that are not ours.
- `ConfigError`: the operator; the message says in one line what to change.

The command line prints the message alone, so each message must stand by itself: it names the thing
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
    """The disk must be seen to."""


class DiskFullError(StorageError):
    """There is no room left on the disk, or for this user."""


class ConfigError(LycosaError):
    """The operator must change what was asked for.

    The message speaks of options by their names in Python and in crawl.toml; `flags` is the same in the words of
    the command line, where that has others.
    """

    def __init__(self, message: str, *, flags: str = "") -> None:
        super().__init__(message)
        self.flags = flags or message
