"""Publishing one message, and everything that may come of it.

An acknowledged message is on the disks of a majority. A message without acknowledgement may or may not be
there, now or later: `Unavailable`. With `expected`, the sequence that the stream's (or, for keys, the
subject's) last message must have, publishing again is harmless: at most one of the copies is taken.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import nats.errors
import nats.js.errors
from nats.js import JetStreamContext, api

from lycosa.cluster.engine.outcomes import Full, Unavailable

_WRONG_LAST = (10071, 10164)
_FULL = (10077, 10023, 10047, 10028)
_AT = re.compile(r"wrong last sequence: (\d+)")


class WrongLast(NamedTuple):
    """The message was not taken: the last sequence is another."""

    last: int | None


async def publish(
    js: JetStreamContext,
    subject: str,
    payload: bytes,
    *,
    headers: dict[str, str] | None = None,
    expected: int | None = None,
    per_subject: bool = False,
    timeout: float = 5.0,
) -> int | WrongLast:
    """The sequence that the message got, or why it got none."""
    if expected is not None:
        header = (
            api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE if per_subject else api.Header.EXPECTED_LAST_SEQUENCE
        )
        headers = {**(headers or {}), str(header.value): str(expected)}
    try:
        ack = await js.publish(subject, payload, timeout=timeout, headers=headers)
    except nats.js.errors.APIError as error:
        if error.err_code in _WRONG_LAST:
            found = _AT.search(error.description or "")
            return WrongLast(int(found.group(1)) if found else None)
        if error.err_code in _FULL or "maximum" in (error.description or ""):
            raise Full(f"{subject} is full: {error.description}") from None
        raise Unavailable(f"{subject}: {error.description}") from None
    except (nats.errors.Error, TimeoutError, OSError) as error:
        raise Unavailable(f"{subject}: {error or error.__class__.__name__}") from None
    return int(ack.seq)
