"""What the engine may answer besides *done*: outcomes more than errors, and named so.

Each says what its caller must do.

- `Fenced`: another holder has the shard; stop all work on it, and let it go.
- `Full`: the stream has reached its limit (`discard: new`); wait, and make room if it is ours to make.
- `Unavailable`: no answer in time; whether the request took effect is not known. Ask again.
- `Damaged`: a key holds what is no value of its; nobody can go on from it until it is written anew. Ask again.
- `Conflict`: a key changed since it was read; read it again and decide anew.
"""

from __future__ import annotations

from lycosa.errors import LocalError


class Fenced(LocalError):  # noqa: N818
    """Another holder has taken over."""


class Full(LocalError):  # noqa: N818
    """The stream takes no more for now."""


class Unavailable(LocalError):  # noqa: N818
    """The servers did not answer; the outcome is unknown."""


class Damaged(Unavailable):
    """A key's value cannot be read."""


class Conflict(LocalError):  # noqa: N818
    """Somebody else changed the key first."""
