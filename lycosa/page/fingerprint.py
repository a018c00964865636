"""The exact digest of content. (Near duplicates are found by `lycosa.content.sketches`.)

64 bits of XXH3 over the decoded body. Two pages with one digest are the same page; it is never zero
for a body that is not empty, since zero says "empty" in the log. It has no seed: digests of different crawls can be
compared. XXH3 is not a cryptographic hash: a site can craft two bodies with one digest. It gains only that one of
its pages counts as a duplicate of the other. A duplicate is read and its links are followed as those of any page.
"""

from __future__ import annotations

from xxhash import xxh3_64_intdigest


def digest(body: bytes) -> int:
    """64-bit digest of a body: 0 if it is empty, and only then."""
    if not body:
        return 0
    return int(xxh3_64_intdigest(body)) or 1
