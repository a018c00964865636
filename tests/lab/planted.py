"""Defects of one line each, planted in the cluster's logic, to see whether the simulation finds them.

A defect is a piece of a function's source and what stands there instead. `planted` makes the function anew from the
changed source and puts it in the place of the right one, for a while.
"""

from __future__ import annotations
import __future__

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Defect(NamedTuple):
    """What is planted: in `where` (module:Class.function, or module:CONSTANT), `new` instead of `old`."""

    name: str
    where: str
    old: str
    new: str
    seed: int
    """One that finds it."""


DEFECTS = [
    Defect(
        "no fencing check at the tail",
        "lycosa.cluster.tail:Tail._send",
        "expected=self._last",
        "expected=None",
        22,
    ),
    Defect(
        "a renewal counts from its answer",
        "lycosa.cluster.leases:Leases.renew",
        "holding.renewed(got(revision), began)",
        "holding.renewed(got(revision), self._clock.monotonic())",
        96,
    ),
    Defect(
        "a renewal whose answer was lost counts as one, from when that is found out",
        "lycosa.cluster.leases:Leases.renew",
        "holding.revision = max(holding.revision, entry.revision)",
        "holding.renewed(entry.revision, self._clock.monotonic())",
        72,
    ),
    Defect(
        "the tail is purged, and its segments are not on storage",
        "lycosa.cluster.keeping:ShardKeeper.tidy",
        "if first < sealed and first not in self._stored:",
        "if False:",
        3,
    ),
    Defect(
        "the exchange is purged before what it held is committed",
        "lycosa.cluster.streaming:Incoming._purge",
        "safe = self._clock.monotonic(), self._safe",
        "safe = self._clock.monotonic(), self._taken",
        57,
    ),
    Defect(
        "links are sent, and their cursor with them, before they are committed",
        "lycosa.cluster.streaming:Outgoing._send_live",
        "committed = shard.log.committed",
        "committed = shard.log.end",
        29,
    ),
    Defect(
        "a frame that comes twice is applied twice",
        "lycosa.cluster.links:Inbox.take",
        "rows = [row for row in frame.rows() if row.at >= cursor]",
        "rows = frame.rows()",
        207,
    ),
    Defect(
        "a frame that was refused counts as sent",
        "lycosa.cluster.links:Sender.send",
        "if refused is not None:",
        "if False:",
        47,
    ),
    Defect(
        "a new holder's sender goes on from its own log, not from the exchange's end",
        "lycosa.cluster.streaming:Outgoing._resume",
        "self._unknown.discard(other)",
        "self._unknown.discard(other); way.sender.position = self._shard.log.committed",
        7,
    ),
    Defect(
        "an address's turn is given twice",
        "lycosa.cluster.turn_table:TurnTable.ask",
        "if now < free and holder != who:",
        "if now < free and not holder:",
        3,
    ),
    Defect(
        "a new owner of addresses grants turns at once",
        "lycosa.cluster.turn_table:TurnTable.__init__",
        "since + expiry if left is None else since",
        "since",
        124,
    ),
    Defect(
        "a request goes on though its address's turn could not be renewed",
        "lycosa.cluster.turns:TurnAddresses.cut",
        "turn.task.cancel()",
        "pass",
        16,
    ),
    Defect(
        "a host's turn is given twice",
        "lycosa.cluster.turn_table:HostTable.ask",
        "granted = self._hosts.claim(host, now)",
        "granted = self._hosts.claim(host, now) or True",
        2,
    ),
    Defect(
        "a page is granted twice",
        "lycosa.cluster.rations:Rations._get",
        "ration.granted = await",
        "ration.granted = 1 + await",
        20,
    ),
    Defect(
        "the end is seen in one look",
        "lycosa.cluster.control:Ending.look",
        "before = self._before\n",
        "return EndVerdict(True, round_)\n",
        108,
    ),
    Defect(
        "the end is seen without asking whether the exchange is read",
        "lycosa.cluster.control:Ending._quiet",
        "if report.sent < report.committed or report.received < ends.get(shard, 0):",
        "if False:",
        48,
    ),
    Defect(
        "sites are asked until the lease's very end, and nothing is cut",
        "lycosa.cluster.lease:STOP_AT",
        "",
        "1.0",
        1,
    ),
    Defect(
        "a lease is taken before its time",
        "lycosa.cluster.lease:decide",
        "now - seen.at >= lease.seconds",
        "now - seen.at >= 0.0",
        21,
    ),
    Defect(
        "a lease is released without waiting for visits",
        "lycosa.crawl.moving:Mover.leave",
        "await self._visits.end(number)",
        "pass",
        71,
    ),
    Defect(
        "silence of the tail counts as a commit",
        "lycosa.cluster.tail:Tail._send",
        "if isinstance(answer, Full):",
        "if isinstance(answer, Unavailable): return None\n        if isinstance(answer, Full):",
        17,
    ),
    Defect(
        "nobody looks whether the archive files of a shard's pages are still there",
        "lycosa.cluster.losses:lost_pages",
        "return found",
        "return []",
        38,
    ),
    Defect(
        "a checkpoint is saved before the archives are on storage",
        "lycosa.cluster.held:Holder.save",
        "await self._keeping.bring(self._agent.saver.commit)",
        "pass",
        7,
    ),
    Defect(
        "a new holder does not count hosts as asked",
        "lycosa.crawl.moving:Mover.adopt",
        "await asyncio.to_thread(shard.hold_all, self._shards.options.politeness)",
        "pass",
        165,
    ),
    Defect(
        "a file in doubt counts as had",
        "lycosa.cluster.courier:Courier.had",
        "(name not in self._doubtful and self._files.exists(name))",
        "self._files.exists(name)",
        146,
    ),
    Defect(
        "a visit goes on at an address that it lent to another host",
        "lycosa.crawl.visit:Visitor._judge",
        "if turn.lent or (",
        "if (",
        3,
    ),
    Defect(
        "an address does not rest after a turn",
        "lycosa.cluster.turn_table:TurnTable.give_back",
        "now + self._wait",
        "now",
        3,
    ),
    Defect(
        "the reader of the exchange begins one message too far",
        "lycosa.cluster.streaming:Incoming.__init__",
        "after=shard.received",
        "after=shard.received + 1",
        7,
    ),
    Defect(
        "a sender that catches up forgets what was found since the last commit",
        "lycosa.cluster.streaming:Outgoing._step",
        "way.until = shard.log.end",
        "way.until = shard.log.committed",
        277,
    ),
    Defect(
        "a new holder does not read the tail",
        "lycosa.cluster.tail:Tail._claim",
        "take(piece)",
        "pass",
        20,
    ),
    Defect(
        "turns are granted by whoever once held the shard",
        "lycosa.cluster.turns:TurnKeeper._answer",
        "if not may_grant():",
        "if False:",
        44,
    ),
]


@contextmanager
def planted(defect: Defect) -> Iterator[None]:
    """With a defect in its place."""
    module_name, _, path = defect.where.partition(":")
    module = importlib.import_module(module_name)
    if not defect.old:  # constants
        before = {name: getattr(module, name) for name in path.split(",")}
        for name in before:
            setattr(module, name, float(defect.new))
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(module, name, value)
        return
    *owners, name = path.split(".")
    owner: Any = module
    for each in owners:
        owner = getattr(owner, each)
    right = owner.__dict__[name]
    source = textwrap.dedent(inspect.getsource(right))
    assert source.count(defect.old) == 1, f"{defect.where} does not have {defect.old!r} once"
    flags = __future__.annotations.compiler_flag
    made: dict[str, Any] = {}
    code = compile(source.replace(defect.old, defect.new), inspect.getsourcefile(right) or "", "exec", flags)
    exec(code, module.__dict__, made)
    places = [owner, *_importers(right)] if not owners else [owner]
    for place in places:
        setattr(place, name, made[name])
    try:
        yield
    finally:
        for place in places:
            setattr(place, name, right)


def _importers(function: Any) -> list[Any]:
    """Modules that have a function by its name."""
    import sys

    name = function.__name__
    return [
        module
        for key, module in list(sys.modules.items())
        if key.startswith("lycosa.") and getattr(module, "__dict__", {}).get(name) is function
    ]
