from __future__ import annotations

from lycosa.clock import ManualClock
from lycosa.frontier.orders import Order
from lycosa.frontier.packed import PackedFrontier
from lycosa.frontier.protocol import Frontier
from tests.frontier.contract import SEED, FrontierContract


class TestPacked(FrontierContract):
    def make(self, clock: ManualClock, order: Order | None = None) -> Frontier:
        return PackedFrontier(clock, order, SEED)
