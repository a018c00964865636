"""The judge of politeness, on logs made by hand: it must see each sin, and none where there is none."""

from __future__ import annotations

from lycosa.lab.webs import Access, AccessLog, Politeness, violations
from lycosa.lab.webs.accesses import Connection


def access(
    start: float,
    end: float,
    host: str = "a.test",
    path: str = "/",
    connection: int = 1,
    wait: float = 0.0,
    local: str = "127.0.1.1",
    status: int = 200,
) -> Access:
    return Access(start, end, host, path, status, connection, "127.0.0.1:5", local, wait)


def log(*accesses: Access, connections: tuple[Connection, ...] = ()) -> AccessLog:
    made = AccessLog()
    for each in accesses:
        made.add(each)
    for connection in connections:
        made.open(connection)
    return made


def rules(made: AccessLog, politeness: Politeness) -> list[str]:
    return [violation.rule for violation in violations(made, politeness)]


POLITE = Politeness(wait=1.0, pages=2, address_wait=0.5)


def test_a_polite_crawl_has_none() -> None:
    made = log(
        access(0.0, 0.1, path="/robots.txt"),
        access(0.1, 0.2),
        access(0.3, 0.4, path="/b"),
        access(1.5, 1.6, path="/c", connection=2),
        access(2.2, 2.3, host="b.test", connection=3),
        access(2.2, 2.3, host="c.test", connection=4, local="127.0.1.2"),
    )
    assert violations(made, POLITE) == []
    assert violations(log(), POLITE) == []


def test_two_requests_at_once() -> None:
    made = log(access(0, 2), access(1, 3, connection=2))
    assert "overlap" in rules(made, POLITE)


def test_a_visit_that_is_too_long() -> None:
    made = log(access(0, 0.1), access(0.2, 0.3), access(0.4, 0.5))
    assert rules(made, POLITE) == ["visit"]
    assert rules(made, POLITE._replace(pages=3)) == []


def test_a_wait_that_is_too_short() -> None:
    made = log(access(0, 0.1), access(1.05, 1.2, connection=2))
    assert rules(made, POLITE) == ["connection"]
    assert rules(made, POLITE._replace(wait=0.9)) == []
    assert rules(made, POLITE._replace(same_connection=False)) == []
    assert rules(made, POLITE._replace(pages=1)) == ["visit"]


def test_tolerance() -> None:
    made = log(access(0, 0.1), access(1.09, 1.2, connection=2))
    assert rules(made, POLITE) == []
    assert rules(made, POLITE._replace(tolerance=0.001)) == ["connection"]


def test_the_wait_counts_from_the_end_of_the_longest_request() -> None:
    made = log(access(0, 5), access(5.5, 5.6, connection=2))
    assert rules(made, POLITE) == ["connection"]


def test_crawl_delay_is_one_page_a_visit() -> None:
    delayed = POLITE._replace(delays={"a.test": 3.0})
    made = log(access(0, 0.1, path="/robots.txt"), access(0.2, 0.3), access(0.4, 0.5))
    assert rules(made, delayed) == ["visit"]
    made = log(access(0, 0.1), access(2.0, 2.1, connection=2))
    assert rules(made, delayed) == ["visit"]
    made = log(access(0, 0.1), access(3.2, 3.3, connection=2))
    assert rules(made, delayed) == []


def test_ten_times_the_last_answer() -> None:
    slow = POLITE._replace(factor=10.0, pages=1)
    made = log(access(0, 0.5), access(3, 3.1, connection=2))
    assert rules(made, slow) == ["visit"]
    assert rules(made, slow._replace(max_wait=2.0)) == []
    assert rules(log(access(0, 0.5), access(5.6, 5.7, connection=2)), slow) == []


def test_retry_after() -> None:
    made = log(access(0, 0.1, wait=5.0, status=503), access(2, 2.1, connection=2))
    assert rules(made, POLITE) == ["retry-after"]
    made = log(
        access(0, 0.1, wait=5.0, status=503), access(6, 6.1, connection=2), access(8, 8.1, connection=3)
    )
    assert rules(made, POLITE) == []
    # It binds the whole time, not only the next request.
    made = log(access(0, 0.1, wait=9.0), access(4, 4.1, connection=2), access(6, 6.1, connection=3))
    assert rules(made, POLITE) == ["retry-after", "retry-after"]


def test_hosts_of_one_address() -> None:
    made = log(access(0, 0.1), access(0.3, 0.4, host="b.test", connection=2))
    assert rules(made, POLITE) == ["address"]
    assert rules(made, POLITE._replace(address_wait=0.1)) == []
    elsewhere = log(access(0, 0.1), access(0.3, 0.4, host="b.test", connection=2, local="127.0.1.2"))
    assert rules(elsewhere, POLITE) == []


def test_two_connections_at_once() -> None:
    accesses = (access(0.1, 0.2), access(2.1, 2.2, connection=2))
    first = Connection(1, 0.0, 3.0, "", "127.0.1.1")
    second = Connection(2, 2.0, 4.0, "", "127.0.1.1")
    made = log(*accesses, connections=(first, second))
    assert rules(made, POLITE) == ["connections"]
    assert rules(made, POLITE._replace(connections=False)) == []
    closed = log(*accesses, connections=(first._replace(closed=1.5), second))
    assert rules(closed, POLITE) == []
    never = log(*accesses, connections=(first._replace(closed=0.0), second))
    assert rules(never, POLITE) == ["connections"]
    third = log(
        *accesses,
        access(9, 9.1, connection=3),
        connections=(
            first._replace(closed=20.0),
            second._replace(closed=2.5),
            Connection(3, 8.9, 9.2, "", ""),
        ),
    )
    assert rules(third, POLITE) == ["connections", "connections"], "both lie in the first one's time"


def test_repeats_count_only_after_an_answer() -> None:
    made = log(
        access(0, 1, path="/busy", status=503),
        access(2, 3, path="/busy", status=0),
        access(4, 5, path="/busy"),
        access(6, 7, path="/twice"),
        access(8, 9, path="/twice"),
        access(10, 11, path="/twice"),
    )
    assert made.repeated() == {("a.test", "/twice"): 3}
    assert made.counts()["a.test", "/busy"] == 3


def test_logs_go_through_lines_and_have_a_limit() -> None:
    made = log(access(0, 1), access(2, 3, path="/x"), connections=(Connection(1, 0.0, 3.0, "p", "l"),))
    again = AccessLog.read(made.lines())
    assert again.accesses == made.accesses
    assert again.connections == made.connections
    small = AccessLog(limit=1)
    small.add(access(0, 1))
    small.add(access(1, 2))
    assert (len(small.accesses), small.dropped) == (1, 1)
