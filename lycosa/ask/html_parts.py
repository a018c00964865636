"""The pieces of HTML that pages about a crawl are made of: tables, bars, plots as SVG, texts.

Text that came from a site (titles, URLs, types, link texts, details) passes through `text`: it is escaped, and
invisible characters are shown as marks. Only http and https URLs become links, and those send no referrer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape

_LONGEST = 160
_BARS = 12

Cell = tuple[str, str]  # class, HTML


def table(heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table; columns whose heads begin with # hold numbers."""
    head = "".join(f'<th class="n">{h[1:]}</th>' if h.startswith("#") else f"<th>{h}</th>" for h in heads)
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{kind}">{html}</td>' if kind else f"<td>{html}</td>" for kind, html in row)
        + "</tr>"
        for row in rows
    )
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def bars(title: str, rows: Sequence[tuple[str, int]], colour: Callable[[str], str] | None = None) -> str:
    """Counts by name as bars; of many rows the first, and the rest summed up in one."""
    total = sum(count for _, count in rows) or 1
    shown, rest = list(rows[:_BARS]), rows[_BARS:]
    if rest:
        shown.append((f"{len(rest)} more", sum(count for _, count in rest)))
    most = max((count for _, count in shown), default=1) or 1
    lines = "".join(
        f'<div class="bar"><span class="name" title="{text(name)}">{text(short(name, 60))}</span>'
        f'<svg class="track" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{colour(name) if colour else ""}" width="{100 * count / most:.1f}" height="1"/></svg>'
        f'<span class="count">{count:,} <small>{_percent(count, total)}</small></span></div>'
        for name, count in shown
    )
    narrow = ' class="narrow"' if all(len(name) <= 6 for name, _ in shown) else ""
    return f"<figure{narrow}><figcaption>{title}</figcaption>{lines}</figure>"


def _percent(count: int, total: int) -> str:
    share = 100 * count / total
    return "100%" if share == 100 else f"{share:.1f}%" if share >= 0.05 or not count else "< 0.1%"


# -- plots

_W, _H, _LEFT, _RIGHT, _TOP, _BOTTOM = 520, 190, 66, 10, 10, 24


def plot(
    title: str,
    span: tuple[float, float],
    times: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    show: Callable[[float], str],
    limit: float = 0.0,
) -> str:
    """Curves over time by name, as SVG: the first one filled, others only if not all zero; and a limit."""
    low, high = span[0], max(span[1], span[0] + 1e-3)
    shown = {name: curve for n, (name, curve) in enumerate(curves.items()) if not n or any(curve)}
    most = _round_up(max((max(curve) for curve in shown.values()), default=0.0))
    most = max(most, _round_up(limit) if limit else 0.0)
    width, height = _W - _LEFT - _RIGHT, _H - _TOP - _BOTTOM

    def x(at: float) -> float:
        return _LEFT + width * (at - low) / (high - low)

    def y(value: float) -> float:
        return _TOP + height * (1 - value / most)

    parts = []
    for step in range(5):
        value = most * step / 4
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_W - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        )
        if step % 2 == 0:
            parts.append(
                f'<text x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{text(_brief(show(value)))}</text>'
            )
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        at = low + (high - low) * share
        parts.append(
            f'<text x="{x(at):.1f}" y="{_H - 6}" text-anchor="{anchor}">{clock(at, high - low)}</text>'
        )
    for number, curve in enumerate(shown.values()):
        points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in zip(times, curve, strict=True))
        if number == 0:
            base = f"{_TOP + height:.1f}"
            parts.append(
                f'<polygon class="area" points="{x(times[0]):.1f},{base} {points} {x(times[-1]):.1f},{base}"/>'
            )
        parts.append(f'<polyline class="curve c{number}" points="{points}"/>')
    if limit:
        end = _W - _RIGHT
        parts.append(f'<line class="limit" x1="{_LEFT}" x2="{end}" y1="{y(limit):.1f}" y2="{y(limit):.1f}"/>')
        words = f"{text(show(limit))} allowed"
        parts.append(f'<text x="{end - 4}" y="{y(limit) + 13:.1f}" text-anchor="end">{words}</text>')
    drawing = f'<svg viewBox="0 0 {_W} {_H}" role="img" aria-label="{title}">{"".join(parts)}</svg>'
    keys = "".join(f'<span class="key c{n}">{name}</span>' for n, name in enumerate(shown) if name)
    return f"<figure><figcaption>{title}{keys}</figcaption>{drawing}</figure>"


def _brief(label: str) -> str:
    """A label that fits beside an axis."""
    thousands = label.count(",")
    return label if thousands < 2 else f"{label.split(',')[0]} {'MGTP'[min(thousands - 2, 3)]}"


def _round_up(value: float) -> float:
    """The next number that is 1, 2, 4 or 8 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** len(str(int(value)))
    while power / 10 >= value:
        power /= 10
    return next((power * part for part in (0.1, 0.2, 0.4, 0.8, 1.0) if power * part >= value), power)


def clock(at: float, span: float) -> str:
    when = datetime.fromtimestamp(at, UTC)
    if span < 600:
        return when.strftime("%H:%M:%SZ")
    return when.strftime("%H:%MZ" if span < 86_400 else "%b %d %H:%MZ")


# -- texts


def text(text: str) -> str:
    """Escaped text; invisible characters (control and direction characters) become a mark."""
    if not text.isprintable():
        text = "".join(
            "\ufffd" if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn") else char
            for char in text
        )
    return escape(text, quote=True)


def short(text: str, most: int = _LONGEST) -> str:
    """Text shortened in its middle if it is too long."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[-most // 4 :]}"


def link(url: str) -> str:
    shown = text(short(url))
    if not url.startswith(("http://", "https://")):
        return shown
    return f'<a href="{text(url)}" rel="noreferrer nofollow noopener">{shown}</a>'


def family(status: str) -> str:
    return status[0] if status[:1] in ("2", "3", "4", "5") and len(status) == 3 else "0"


def tag(status: int) -> str:
    return f'<span class="tag t{family(str(status))}">{status or "no answer"}</span>'


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def moment(at: str | None) -> str:
    return datetime.fromisoformat(at).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC") if at else "never"


def ms(value: int) -> str:
    return f"{value:,} ms" if value < 10_000 else f"{value / 1000:,.1f} s"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count == int(count) else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
