"""What the parts of a cluster may answer besides *done*, and besides what the engine answers.

- `Fenced`: another holder has the shard; stop all work on it, and let it go.
- `Damaged`: a key holds what is no value of its; nobody can go on from it until it is written anew. Ask again.
"""

from __future__ import annotations

from lycosa.engine.protocol import Unavailable
from lycosa.errors import LocalError


class Fenced(LocalError):  # noqa: N818
    """Another holder has taken over."""


class Damaged(Unavailable):
    """A key's value cannot be read."""
