"""Publishing one message, with all its possible outcomes.

An acknowledged message is on the disks of a majority. A message without acknowledgement may or may not be
there, now or later: `Unavailable`. With `expected`, the sequence that the stream's (or, for keys, the
subject's) last message must have, publishing again is harmless: at most one of the copies is taken.
"""

from __future__ import annotations

from collections.abc import Mapping

import nats.errors
import nats.js.errors
from nats.js import JetStreamContext, api

from lycosa.engine.protocol import Conflict, Full, Unavailable

_WRONG_LAST = (10071, 10164)
_FULL = (10077, 10023, 10047, 10028)


async def publish(
    js: JetStreamContext,
    subject: str,
    payload: bytes,
    *,
    headers: Mapping[str, str] | None = None,
    expected: int | None = None,
    per_subject: bool = False,
    timeout: float = 5.0,
) -> int | Conflict | Full | Unavailable:
    """The sequence that the message got, or why it got none."""
    sent = dict(headers or {})
    if expected is not None:
        header = (
            api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE if per_subject else api.Header.EXPECTED_LAST_SEQUENCE
        )
        sent[str(header.value)] = str(expected)
    try:
        ack = await js.publish(subject, payload, timeout=timeout, headers=sent or None)
    except nats.js.errors.APIError as error:
        if error.err_code in _WRONG_LAST:
            return Conflict(f"{subject}: {error.description}")
        if error.err_code in _FULL or "maximum" in (error.description or ""):
            return Full(f"{subject} is full: {error.description}")
        return Unavailable(f"{subject}: {error.description}")
    except (nats.errors.Error, TimeoutError, OSError) as error:
        return Unavailable(f"{subject}: {error or error.__class__.__name__}")
    return int(ack.seq)
