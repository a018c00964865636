"""The results of the benchmark of bounded memory: a table with targets, a page, a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Found = dict[str, Any]
Row = tuple[str, str, str]
_QUEUE_SHARE = 0.4
"""An unbounded queue should peak above this share of the web (400,000 of a million)."""


def _met(met: bool, target: str) -> str:
    return f"{target}: {'met' if met else 'NOT met'}"


def _most(samples: list[dict[str, float]], name: str) -> float:
    return max((sample.get(name, 0) for sample in samples), default=0)


def _at_pages(samples: list[dict[str, float]], pages: float) -> dict[str, float] | None:
    return next((sample for sample in samples if sample.get("pages", 0) >= pages), None)


def table(found: Found, limit: int) -> list[Row]:
    """Rows of: measure, value, target."""
    rows: list[Row] = [("the web", f"{found['pages']:,} pages on {found['hosts']:,} hosts", "")]
    if "queue" in found:
        least = int(_QUEUE_SHARE * found["pages"])
        target = _met(found["queue"] > least, f"above {least:,}")
        rows.append(("longest queue of an unbounded breadth-first crawl", f"{found['queue']:,} URLs", target))
    for name in ("lycosa", "unbounded"):
        if found.get(name):
            rows += _lycosa(found, found[name], limit, name)
    if found.get("scrapy"):
        rows += _scrapy(found, found["scrapy"])
    return rows


def _lycosa(found: Found, got: Found, limit: int, name: str) -> list[Row]:
    samples = got["samples"]
    peak = _most(samples, "peak")
    bounded = name == "lycosa"
    who = "lycosa" if bounded else "lycosa, 1 GB for the frontier"
    exact = got["exact"] and got["state"] == "finished"
    coverage = f"{got['fetched']:,} of {found['pages']:,}"
    pages = max(got["fetched"], 1)
    rows = [
        (f"{who}: pages fetched, by its log", coverage, _met(exact, "every page once")),
        (f"{who}: peak of resident memory", f"{peak / 1e6:,.0f} MB", ""),
        (f"{who}: time", f"{got['seconds']:,.0f} s, {pages / got['seconds']:,.0f} pages/s", ""),
        (f"{who}: frontier's memory at most", f"{_most(samples, 'frontier') / 1e6:.2f} MB", ""),
        (f"{who}: pending at most", f"{_most(samples, 'pending'):,.0f} URLs", ""),
        (f"{who}: left behind at most", f"{_most(samples, 'left_behind'):,.0f} records", ""),
        (
            f"{who}: archive",
            f"{got.get('archive_bytes', 0) / 1e6:,.0f} MB" if found["archive"] else "off",
            "",
        ),
        (f"{who}: files of what was left behind", f"{got.get('left_bytes', 0) / 1e6:,.2f} MB at the end", ""),
        (f"{who}: log", f"{got.get('log_bytes', 0) / 1e6:,.0f} MB", ""),
    ]
    if bounded:
        met = _met(peak <= limit and not got["code"], f"at most {limit / 1e6:,.0f} MB")
        rows[1] = (*rows[1][:2], met)
        held = _most(samples, "frontier") <= got["memory"]
        rows[3] = (*rows[3][:2], _met(held, f"at most {got['memory'] / 1e6:.2f} MB"))
        if got["group"]:
            group = got["group"]
            charged = f"{group['peak'] / 1e6:,.0f} MB, page cache and all"
            rows.insert(2, (f"{who}: charged to its control group", charged, f"killed: {group['killed']}"))
    return rows


def _scrapy(found: Found, got: Found) -> list[Row]:
    samples = got["samples"]
    last = samples[-1]
    why = {"time": f"stopped after {found['minutes']:g} minutes", "memory": "stopped for its memory"}
    rows = [
        ("scrapy: pages fetched", f"{last['pages']:,.0f}", why.get(got["end"], str(got["state"]))),
        ("scrapy: peak of resident memory", f"{_most(samples, 'peak') / 1e6:,.0f} MB", ""),
        ("scrapy: speed", f"{last['pages'] / max(last['at'], 1e-9):,.0f} pages/s", ""),
        ("scrapy: requests in its queue at most", f"{_most(samples, 'pending'):,.0f}", ""),
    ]
    if found.get("lycosa") and (same := _at_pages(found["lycosa"]["samples"], last["pages"])):
        rows.append(("lycosa: memory at as many pages", f"{same['rss'] / 1e6:,.0f} MB", ""))
    return rows


NOTES = """\
- The memory is the process's resident memory (VmRSS), sampled every second; its peak is the kernel's own. Lycosa's
  was held {held}. A control group is charged for what its
  process is the first to touch: the pages of libraries that lay in the page cache before count as resident, but
  are not charged, so its figure can be the lower one.
- Lycosa keeps a durable log and obeys robots.txt, and its archive was {archive}; Scrapy stores nothing and asks for
  no robots.txt. Scrapy's queue is in memory, which is its default. It can be kept on disk (JOBDIR); the set of
  URLs that it has seen stays in memory then as well.
- Scrapy's queue counts requests, of which each URL has one; Lycosa's pending URLs are those in its frontier, and a
  record left behind stands for all its links that have not been taken up yet.
- What the frontier holds, its own count of bytes, is sampled once a second as well, from status.json.
- Sizes are decimal: 1 MB is 1,000,000 bytes; the frontier's budget is 1 MiB."""


def markdown(found: Found, rows: list[Row]) -> str:
    """For docs/benchmarks/bounded.md."""
    about = [f"{found['machine']}, Python {found['python']}"]
    if (found.get("scrapy") or {}).get("version"):
        about.append(f"Scrapy {found['scrapy']['version']}")
    about.append(found["date"])
    notes = NOTES.format(held=found.get("held", "by nothing"), archive="on" if found["archive"] else "off")
    warning = [f"A RUN OF {found['pages']:,} PAGES ONLY", ""] if found["pages"] < 1_000_000 else []
    lines = [
        "# A crawl in bounded memory",
        "",
        "Written by `benchmarks/bounded.py --write`; [how to run it](../../benchmarks/README.md).",
        "",
        "; ".join(about),
        "",
        *warning,
        "![resident memory over time and over pages](bounded.png)",
        "",
        "| | measured | target |",
        "|---|---:|---|",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        "## Notes",
        "",
        notes,
        "",
    ]
    return "\n".join(lines)


_LOOKS = {"lycosa": ("#2f6f73", "-"), "unbounded": ("#7a9fb5", "--"), "scrapy": ("#b9812b", "-")}


def _label(name: str, got: Found) -> str:
    return "Scrapy" if name == "scrapy" else f"Lycosa, frontier of {got['memory'] / (1 << 20):,.0f} MB"


def plot(found: Found, limit: int, out: Path) -> None:
    """Memory over time and over pages, and the queues."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 4.2))
    over_time, over_pages, queues = figure.subplots(1, 3)
    for name, (colour, line) in _LOOKS.items():
        if not found.get(name):
            continue
        label = _label(name, found[name])
        samples = found[name]["samples"]
        rss = [sample["rss"] / 1e6 for sample in samples]
        look = {"label": label, "color": colour, "linestyle": line, "linewidth": 1.5}
        over_time.plot([sample["at"] / 60 for sample in samples], rss, **look)
        pages = [sample.get("pages", 0) / 1000 for sample in samples]
        over_pages.plot(pages, rss, **look)
        waiting = [sample.get("pending", 0) / 1000 for sample in samples]
        queues.plot(pages, waiting, **look)
        if any(sample.get("left_behind") for sample in samples):
            left = [sample["left_behind"] / 1000 for sample in samples]
            queues.plot(
                pages,
                left,
                color=colour,
                linestyle=":",
                label=f"{label}: records left behind",
            )
    for axes in (over_time, over_pages):
        axes.axhline(
            limit / 1e6, color="#b2493f", linewidth=1, linestyle="--", label=f"{limit / 1e6:,.0f} MB"
        )
        axes.set(ylabel="resident memory, MB", ylim=(0, None))
    if "queue" in found:
        queues.axhline(
            found["queue"] / 1000,
            color="#8a8f94",
            linewidth=1,
            linestyle="--",
            label="unbounded, breadth first",
        )
    over_time.set(xlabel="minutes", title="memory over time", xlim=(0, None))
    over_pages.set(xlabel="thousand pages", title="memory over pages", xlim=(0, None))
    queues.set(
        xlabel="thousand pages",
        ylabel="thousand waiting",
        title="URLs waiting",
        xlim=(0, None),
        ylim=(0, None),
    )
    for axes in (over_time, over_pages, queues):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(out, dpi=120)
