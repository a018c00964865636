"""The search page: from an answer to HTML. No I/O; text from sites passes through `lycosa.ask.html_parts.text`.

The whole state of the page is in its address, so that it can be saved and sent, and works without scripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from lycosa.ask.html_parts import link, plural, short, text
from lycosa.index.reader import Totals
from lycosa.index.schema import type_name
from lycosa.index.search import Answer, Asked, Result
from lycosa.index.snippets import Snippet

_KEPT = ("q", "like", "site", "type", "lang", "after", "before", "per_host", "fold", "expand", "count")
"""Parameters that are kept while browsing the results."""


def address(given: Mapping[str, str], **changed: object) -> str:
    """The page's address with some of its parameters changed; empty ones are left out."""
    values = {name: given.get(name, "") for name in _KEPT} | {
        name: str(value) for name, value in changed.items()
    }
    return "/search?" + urlencode({name: value for name, value in values.items() if value})


def form(given: Mapping[str, str], kinds: Totals) -> str:
    """The search form: the query, and its filters."""
    used = any(given.get(name) for name in ("site", "type", "lang", "after", "before", "per_host", "expand"))
    return (
        '<h1>Search</h1><form class="search" action="/search" role="search">'
        '<div class="ask"><label class="away" for="q">Words</label>'
        f'<input id="q" name="q" type="search" value="{text(given.get("q", ""))}" list="words" autocomplete="off"'
        f' placeholder="words, &quot;a phrase&quot;, -without, intitle:word"{"" if given else " autofocus"}>'
        '<datalist id="words"></datalist><button>Search</button></div>'
        f'<details class="filters"{" open" if used else ""}><summary>Narrow</summary><div class="fields">'
        f"{_field('site', 'Site', given, 'example.org/docs/')}"
        f"{_choice('type', 'Type', given, kinds.types)}{_choice('lang', 'Language', given, kinds.languages)}"
        f"{_field('after', 'From', given, kind='date')}{_field('before', 'Before', given, kind='date')}"
        f"{_field('per_host', 'At most of a host', given, 'any number', kind='number')}"
        f"{_tick('expand', 'Add words of the best results', given)}"
        "</div></details></form>"
    )


def _field(name: str, label: str, given: Mapping[str, str], example: str = "", kind: str = "text") -> str:
    least = ' min="0" max="100"' if kind == "number" else ""
    return (
        f'<label>{label}<input name="{name}" type="{kind}" value="{text(given.get(name, ""))}"'
        f' placeholder="{text(example)}"{least}></label>'
    )


def _choice(name: str, label: str, given: Mapping[str, str], counts: Mapping[str, int]) -> str:
    here = given.get(name, "")
    names = sorted((value for value in counts if value), key=lambda value: (-counts[value], value))
    if here and here not in names:
        names.append(here)
    options = "".join(
        f'<option value="{text(value)}"{" selected" if value == here else ""}>{text(value)}'
        f"{f' ({counts[value]:,})' if value in counts else ''}</option>"
        for value in names
    )
    return f'<label>{label}<select name="{name}"><option value="">any</option>{options}</select></label>'


def _tick(name: str, label: str, given: Mapping[str, str]) -> str:
    checked = " checked" if given.get(name) == "1" else ""
    return f'<label class="tick"><input type="checkbox" name="{name}" value="1"{checked}>{label}</label>'


def trouble(words: str) -> str:
    """A message in place of an answer."""
    return f'<p class="bad" role="alert">{text(words)}</p>'


def absent(words: str) -> str:
    """A message that there is no index yet."""
    return f'<div class="empty" role="alert">{text(words[:1].upper() + words[1:])}.</div>'


def results(given: Mapping[str, str], asked: Asked, answer: Answer) -> str:
    """The answer."""
    parts = [f'<p class="soft">{_summary(given, asked, answer)}</p>']
    parts += [trouble(note) for note in answer.notes]
    if answer.missing:
        parts.append(trouble(_absent(answer.missing)))
    if answer.suggestion:
        meant = text(address(given, q=answer.suggestion))
        parts.append(f'<p class="meant">Did you mean <a href="{meant}">{text(answer.suggestion)}</a>?</p>')
    if answer.results:
        rows = "".join(_result(given, row) for row in answer.results)
        parts.append(f'<ol class="results" start="{asked.skip + 1}">{rows}</ol>')
    parts.append(_steps(given, asked, answer))
    return "".join(parts)


def _absent(shards: Iterable[int]) -> str:
    named = ", ".join(map(str, shards))
    return f"Pages are missing here: shard {named} has no index. `lycosa index` makes it."


def _summary(given: Mapping[str, str], asked: Asked, answer: Answer) -> str:
    like = given.get("like", "")
    if like:
        return f"Pages like {link(like)}, of {plural(answer.pages, 'page')} ({answer.milliseconds:,.0f} ms)"
    if not answer.results:
        past = " there are no more results" if asked.skip else " nothing matches"
        return f"Of {plural(answer.pages, 'page')}{past} ({answer.milliseconds:,.0f} ms)."
    verb = "matches" if answer.total == 1 else "match"
    return f"{plural(answer.total, 'page')} of {answer.pages:,} {verb} ({answer.milliseconds:,.0f} ms)"


def _result(given: Mapping[str, str], row: Result) -> str:
    title = text(short(row.title, 200)) or text(short(row.url))
    heading = title
    if row.url.startswith(("http://", "https://")):
        heading = f'<a href="{text(row.url)}" rel="noreferrer nofollow noopener">{title}</a>'
    day = datetime.fromtimestamp(row.date / 1000, UTC).strftime("%Y-%m-%d")
    kind = type_name(row.type)
    facts = [day, row.language, "" if kind == "html" else kind, f"score {row.score:.2f}"]
    places = [
        ("archived", f"/archived?u={quote(row.url, safe='')}"),
        ("what happened", f"/url?u={quote(row.url, safe='')}"),
        ("more like this", address({}, like=row.url)),
        ("this host only", address(given, site=row.host) if given.get("site") != row.host else ""),
    ]
    links = "".join(f'<a href="{text(to)}">{name}</a>' for name, to in places if to)
    return (
        f'<li><h2>{heading}</h2><p class="where">{text(short(row.url))}</p>'
        f"<p>{marked(row.snippet)}</p>"
        f'<p class="facts">{" · ".join(text(fact) for fact in facts if fact)}{links}</p>{_others(row)}</li>'
    )


def marked(snippet: Snippet) -> str:
    """A snippet with the words of the query marked."""
    parts = []
    at = 0
    for start, end in snippet.marks:
        parts.append(f"{text(snippet.text[at:start])}<mark>{text(snippet.text[start:end])}</mark>")
        at = end
    return "".join([*parts, text(snippet.text[at:])])


def _others(row: Result) -> str:
    alike = f"{row.alike:,} pages are like it" if row.alike > 1 else "One page is like it"
    more = f'<p class="facts">{alike}</p>' if row.alike > len(row.others) else ""
    if not row.others:
        return more
    urls = "".join(f"<li>{link(url)}</li>" for url in row.others)
    words = "another URL" if len(row.others) == 1 else f"{len(row.others)} other URLs"
    return f"<details><summary>Also at {words}</summary><ul>{urls}</ul></details>{more}"


def _steps(given: Mapping[str, str], asked: Asked, answer: Answer) -> str:
    """Links to the previous and next results. How many there are after folding is known only by going there."""
    steps = []
    if asked.skip:
        before = text(address(given, skip=max(0, asked.skip - asked.count) or ""))
        steps.append(f'<a href="{before}" rel="prev">← before</a>')
    if answer.results:
        steps.append(f"{asked.skip + 1:,} to {asked.skip + len(answer.results):,}")
    if len(answer.results) == asked.count and asked.skip + asked.count < answer.total:
        after = text(address(given, skip=asked.skip + asked.count))
        steps.append(f'<a href="{after}" rel="next">after →</a>')
    return f'<p class="steps">{" ".join(steps)}</p>' if steps else ""
