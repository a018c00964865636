from __future__ import annotations

from lycosa.clock import ManualClock
from lycosa.frontier.orders.order import Order
from lycosa.frontier.plain import PlainFrontier
from lycosa.frontier.protocol import Frontier
from tests.frontier.contract import FrontierContract


class TestPlain(FrontierContract):
    def make(self, clock: ManualClock, order: Order | None = None, back_queues: int = 0) -> Frontier:
        return PlainFrontier(clock, order, back_queues=back_queues)
