"""The stores on disk under the contract, and what is promised of each alone."""

from __future__ import annotations

from lycosa.seen.auto import AutoSeen
from lycosa.seen.drum import DrumSeen
from lycosa.seen.mercator import MercatorSeen
from lycosa.seen.veuniq import VeuniqSeen
from tests.seen.contract import Contract

SMALL = 64 << 10


class TestMercator(Contract):
    factory = staticmethod(lambda files: MercatorSeen(files, memory=SMALL))
    examples = 25


class TestDrum(Contract):
    factory = staticmethod(lambda files: DrumSeen(files, memory=SMALL, buckets=8, bucket_bytes=1 << 14))
    examples = 25


class TestVeuniq(Contract):
    factory = staticmethod(lambda files: VeuniqSeen(files, memory=SMALL, split=700))
    examples = 40


class TestVeuniqByTurns(Contract):
    factory = staticmethod(lambda files: VeuniqSeen(files, memory=SMALL, repositories=5, turns=True))
    examples = 25


class TestAuto(Contract):
    factory = staticmethod(lambda files: AutoSeen(files, memory=SMALL, split=500))
    examples = 40


class TestAutoMoving(Contract):
    """Small enough to begin the move at the first offers."""

    factory = staticmethod(lambda files: AutoSeen(files, memory=1 << 10, split=64))
    examples = 40
