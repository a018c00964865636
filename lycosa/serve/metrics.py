"""The status of a crawl for Prometheus: the text format, version 0.0.4.

Everything comes from the crawl's own status, which its process writes every second; nothing is counted here. Labels
have few values: the class of a status, the reasons and kinds of errors that the program knows.

    lycosa_up                                 1 while the crawl's process runs
    lycosa_pages_total, ..._fetches_total, ..._body_bytes_total, ..._links_total, ..._duplicates_total
    lycosa_answers_total{class}               by hundreds: 2xx, 3xx, ...
    lycosa_skipped_total{reason}, lycosa_failures_total{kind}
    lycosa_urls_pending, lycosa_records_left_behind, lycosa_urls_deferred, lycosa_visits, lycosa_hosts
    lycosa_resident_memory_bytes, lycosa_memory_limit_bytes, and of the frontier and the seen URLs
    lycosa_{frontier,seen}_memory_bytes, lycosa_{frontier,seen}_memory_limit_bytes
    lycosa_paused, lycosa_page_limit_pages
    lycosa_run_seconds, lycosa_status_timestamp_seconds

Totals are those of the crawl, over all of its runs, so they continue after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.ask.standing import Standing

TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(standing: Standing) -> str:
    """The whole answer."""
    page = _Page()
    running = standing.state == "running"
    page.one("lycosa_up", "gauge", "Whether the crawl's process runs.", int(running))
    status = standing.status
    if status is None:
        return page.text()
    page.one("lycosa_pages_total", "counter", "URLs that were fetched.", status.pages)
    page.one(
        "lycosa_fetches_total", "counter", "Fetches; more than pages if some came again.", status.fetches
    )
    page.one("lycosa_body_bytes_total", "counter", "Bytes of bodies as sent.", status.bytes)
    page.one("lycosa_links_total", "counter", "Links found.", status.links)
    page.one("lycosa_duplicates_total", "counter", "Pages whose content was known.", status.duplicates)
    page.many("lycosa_answers_total", "Answers by class of their status.", "class", status.statuses)
    page.many("lycosa_skipped_total", "URLs skipped, by reason.", "reason", status.skipped)
    page.many("lycosa_failures_total", "Attempts that failed, by kind.", "kind", status.errors)
    page.one("lycosa_urls_pending", "gauge", "URLs in the frontier.", status.pending)
    page.one(
        "lycosa_records_left_behind", "gauge", "Records whose links wait in the log.", status.left_behind
    )
    page.one("lycosa_urls_deferred", "gauge", "URLs that wait for a time.", status.deferred)
    page.one("lycosa_visits", "gauge", "Visits under way.", status.visits if running else 0)
    page.one("lycosa_hosts", "gauge", "Hosts with URLs pending.", status.hosts)
    page.one("lycosa_resident_memory_bytes", "gauge", "Memory of the process.", status.rss if running else 0)
    page.one("lycosa_memory_limit_bytes", "gauge", "Memory that it may have.", status.memory_limit)
    for name, meter, limit in (
        ("frontier", "frontier.used", "frontier.limit"),
        ("seen", "seen.bytes", "seen.limit"),
    ):
        used, most = status.meters.get(meter, 0.0), status.meters.get(limit, 0.0)
        page.one(f"lycosa_{name}_memory_bytes", "gauge", f"Memory of the {name} part.", used)
        page.one(f"lycosa_{name}_memory_limit_bytes", "gauge", f"Memory that the {name} part may have.", most)
    page.one(
        "lycosa_paused", "gauge", "Whether an operator has paused the crawl.", int(running and status.paused)
    )
    page.one(
        "lycosa_page_limit_pages", "gauge", "Pages that the crawl may have; 0: any number.", status.page_limit
    )
    page.one("lycosa_run_seconds", "gauge", "How long the run has lasted.", round(status.elapsed, 3))
    page.one("lycosa_status_timestamp_seconds", "gauge", "When the process said this.", round(status.at, 3))
    return page.text()


class _Page:
    def __init__(self) -> None:
        self._lines: list[str] = []

    def one(self, name: str, kind: str, help_: str, value: float) -> None:
        self._lines += [f"# HELP {name} {help_}", f"# TYPE {name} {kind}", f"{name} {value}"]

    def many(self, name: str, help_: str, label: str, values: Mapping[str, int]) -> None:
        self._lines += [f"# HELP {name} {help_}", f"# TYPE {name} counter"]
        self._lines += [
            f'{name}{{{label}="{_escaped(key)}"}} {value}' for key, value in sorted(values.items())
        ]

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
