"""What is waited for is told and nothing else, and a socket that nobody waits for does not wake a loop for ever."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable

import pytest

from lycosa.fetch.poller import READ, WRITE, Poller, SelectorPoller, best_poller

both = pytest.mark.parametrize("make", [best_poller, SelectorPoller])


def wakes(poller: Poller) -> bool:
    return bool(select.select([poller.fileno()], [], [], 0)[0])


@both
def test_only_what_is_waited_for_is_told(make: Callable[[], Poller]) -> None:
    poller = make()
    one, other = socket.socketpair()
    with one, other:
        poller.watch(one.fileno(), READ)
        assert not wakes(poller) and poller.ready(8) == []
        poller.watch(one.fileno(), WRITE)
        assert poller.ready(8) == [(one.fileno(), WRITE)]
        poller.watch(one.fileno(), READ)
        other.send(b"x")
        assert wakes(poller) and poller.ready(8) == [(one.fileno(), READ)]
    poller.close()


@both
def test_a_forgotten_socket_is_not_told_and_can_be_waited_for_again(make: Callable[[], Poller]) -> None:
    poller = make()
    one, other = socket.socketpair()
    with one, other:
        for _ in range(3):
            poller.watch(one.fileno(), READ)
            poller.forget(one.fileno())
            other.send(b"x")
            assert poller.ready(8) == [] and not wakes(poller)
            poller.watch(one.fileno(), READ)
            assert poller.ready(8) == [(one.fileno(), READ)]
            one.recv(1)
            poller.forget(one.fileno())
    poller.close()


@both
def test_the_end_of_a_forgotten_connection_does_not_wake_for_ever(make: Callable[[], Poller]) -> None:
    poller = make()
    one, other = socket.socketpair()
    with one:
        poller.watch(one.fileno(), READ)
        poller.forget(one.fileno())
        other.close()
        assert poller.ready(8) == [] and not wakes(poller)
        poller.forget(one.fileno())
    poller.close()


@both
def test_a_number_that_is_another_socket_by_now(make: Callable[[], Poller]) -> None:
    poller = make()
    one, other = socket.socketpair()
    third, fourth = socket.socketpair()
    with other, third, fourth:
        number = one.fileno()
        poller.watch(number, READ)
        poller.forget(number)
        one.close()
        os.dup2(third.fileno(), number)
        try:
            poller.watch(number, READ)
            assert poller.ready(8) == []
            fourth.send(b"x")
            assert poller.ready(8) == [(number, READ)]
        finally:
            poller.forget(number)
            os.close(number)
    poller.close()
