"""Outcomes that the parts of a cluster may return besides *done* and besides the engine's outcomes.

- `Fenced`: another holder has the shard; stop all work on it, and let it go.
- `Damaged`: a key holds an invalid value; nobody can continue until it is rewritten. Ask again.
"""

from __future__ import annotations

from lycosa.engine.protocol import Unavailable
from lycosa.errors import LocalError


class Fenced(LocalError):  # noqa: N818
    """Another holder has taken over."""


class Damaged(Unavailable):
    """A key's value cannot be read."""
