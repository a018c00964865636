"""Acts from pages and programs: the functions of `lycosa control`, over HTTP.

    GET  /control       the acts as forms, what acts have set, and who did what recently
    POST /act           a form: what, words (or one field per word: word), csrf, back; redirects to `back`,
                        which shows the result
    POST /api/act       {"what": ..., "words": [...]} -> {"said": ...}; 400 and {"error": ...} if it cannot be done
    GET  /api/control   paused, instructions for sites, quarantined patterns, what acts have set, the last acts

The guard has checked that the request has the token and comes from one of our pages, or from a program. A form
must also have the word that only our pages contain (`csrf`): so a request that some browser lets through without
an origin does nothing. Forms work without scripts. Acts are handed to the crawl in the usual way
(`crawl.steering`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lycosa.ask.alive import process_of
from lycosa.ask.explain import Explanation
from lycosa.ask.html_parts import Cell, moment, short, table, text
from lycosa.ask.json_form import iso
from lycosa.ask.reading import CrawlReader
from lycosa.crawl.acts import LIVE
from lycosa.crawl.config import Options
from lycosa.crawl.site_options import SiteOptions
from lycosa.crawl.steering import Steering, whoami
from lycosa.errors import ConfigError
from lycosa.serve.guard import OURS, Guard
from lycosa.serve.responses import Json
from lycosa.serve.sites import Quarantined

_LARGEST = 4 << 20
"""Limit of bytes of a request: some fifty thousand seeds."""
_PATIENCE = 15.0
_SAID = 200
_USUAL = {
    "limits.pages": "pages at most, of all runs; 0: any number",
    "limits.seconds": "how long this run may last; 0: any time",
    "politeness.wait": "seconds between two visits of a host",
    "visits": "hosts visited at a time",
    "scope.max_depth": "links from a seed, at most",
    "scope.exclude_hosts": 'hosts never to ask, as ["a.example"]',
}
"""Options that are shown with their values for editing, and their descriptions."""
_ORDERS = {
    "hold": "no visit begins",
    "block": "none of its URLs is fetched",
    "boost": "it comes first",
    "budget": "it has so many pages at most",
    "release": "none of these",
}

Handler = Callable[[Request], Awaitable[Response]]


class MakePage(Protocol):
    """Makes one of our pages."""

    def __call__(self, title: str, body: str, here: str, status: int = 200) -> Response: ...


class _Wanted(msgspec.Struct):
    what: str
    words: list[str] = []


class Acting:
    """Performs acts, and remembers their results until they are shown."""

    def __init__(self, directory: Path, reader: CrawlReader, guard: Guard, *, allowed: bool) -> None:
        """`allowed`: whether anything may be changed."""
        self._directory = directory
        self._reader = reader
        self._guard = guard
        self.allowed = allowed
        self._said: OrderedDict[str, str] = OrderedDict()

    def act(self, what: str, words: Sequence[str]) -> str:
        """Perform an act; called in a thread, since it waits for the crawl."""
        if not self.allowed:
            raise ConfigError("nothing can be changed from here: lycosa serve was started with --read-only")
        steering = Steering(self._directory, who=f"{whoami()} (page)", patience=_PATIENCE)
        return steering.act(what, *words)

    def is_running(self) -> bool:
        return process_of(self._directory) is not None

    def options(self) -> Options | None:
        return self._reader.options()

    def note(self, said: str) -> str:
        """Keep a text to be shown; returns the name under which it is found."""
        name = f"{len(self._said)}-{abs(hash(said)) % 10**8}"
        self._said[name] = said
        while len(self._said) > _SAID:
            self._said.popitem(last=False)
        return name

    def said(self, request: Request) -> str:
        """The result of the act that led to this page, as HTML; empty if none did."""
        words = self._said.get(request.query_params.get("act", ""))
        return f'<p class="said" role="status">{text(words)}</p>' if words else ""

    def button(self, label: str, what: str, *words: str, back: str, kind: str = "") -> str:
        """A form with one button; empty if nothing may be changed."""
        if not self.allowed:
            return ""
        return (
            f'<form class="act" method="post" action="/act">{self.hidden(what, back)}'
            + "".join(f'<input type="hidden" name="word" value="{text(word)}">' for word in words)
            + f'<button class="{kind}">{text(label)}</button></form>'
        )

    def field(
        self,
        label: str,
        name: str,
        what: str,
        *words: str,
        back: str,
        does: str,
        value: str = "",
        many: bool = False,
    ) -> str:
        """A form with one field, whose lines are further words after those given; `does`: the button's label."""
        if not self.allowed:
            return ""
        fixed = "".join(f'<input type="hidden" name="word" value="{text(word)}">' for word in words)
        inner = (
            f'<textarea id="{name}" name="words" rows="3" spellcheck="false">{text(value)}</textarea>'
            if many
            else f'<input id="{name}" name="words" value="{text(value)}" spellcheck="false" autocomplete="off">'
        )
        return (
            f'<form class="ask" method="post" action="/act">{self.hidden(what, back)}{fixed}'
            f'<label for="{name}">{text(label)}</label>{inner}<button>{does}</button></form>'
        )

    def hidden(self, what: str, back: str) -> str:
        """The hidden fields of every form of an act."""
        rows = {"csrf": self._guard.csrf, "what": what, "back": back}
        return "".join(f'<input type="hidden" name="{name}" value="{text(v)}">' for name, v in rows.items())

    # -- parts of pages

    def bar(self, *, running: bool, paused: bool) -> str:
        """The buttons of the first page."""
        if not running:
            return ""
        turn = ("Go on", "go-on") if paused else ("Pause", "pause")
        stop = self.button("Stop", "stop", back="/", kind="grave")
        return f'<div class="acts">{self.button(*turn, back="/")}{stop}</div>'

    def url_bar(self, found: Explanation) -> str:
        """Actions on a URL: one that is skipped as a trap can be fetched after all."""
        held = [row.subject for row in found.learned if row.what == "trap" and row.holds]
        if not held or not found.state.startswith("skipped"):
            return ""
        back = f"/url?u={quote(found.url, safe='')}"
        return f'<div class="acts">{self.button("Release the pattern", "release", held[-1], back=back)}</div>'

    def site_bar(self, site: str, host: str) -> str:
        """Actions on a site's host, and those in force."""
        options = self.options()
        if options is None:
            return ""
        said, back = options.site.get(host, SiteOptions()), f"/site?s={quote(site, safe='')}"
        blocked = host in options.scope.exclude_hosts
        told = [
            word
            for word, holds in (("held", said.hold), ("blocked", blocked), ("first", said.first))
            if holds
        ]
        told += [f"at most {said.pages:,} pages a site"] if said.pages else []
        state = f"<p>By the operator: {text(host)} is {', '.join(told)}.</p>" if told else ""
        buttons = [
            self.button(label, "site", host, order, back=back)
            for label, order, offered in (
                ("Hold", "hold", not said.hold),
                ("Block", "block", not blocked),
                ("Boost", "boost", not said.first),
                ("Release", "release", bool(said.hold or blocked or said.first)),
            )
            if offered
        ]
        budget = self.field(
            "Pages at most (0: any number)",
            "budget",
            "site",
            host,
            "budget",
            back=back,
            does="Set",
            value=str(said.pages or 0),
        )
        return (
            f'<h2>Steer it</h2>{state}<div class="acts">{"".join(buttons)}</div>{budget}'
            if self.allowed
            else state
        )


def control_handlers(
    acting: Acting, page: MakePage, guard: Guard, trapped: Callable[[], list[Quarantined]]
) -> dict[str, tuple[str, Handler]]:
    """Paths with their method and handler. `trapped`: the patterns that are quarantined."""

    def known() -> tuple[Options | None, list[Quarantined]]:
        options = acting.options()
        given_up = () if options is None else options.traps.release
        return options, [row for row in trapped() if row.pattern not in given_up]

    async def control(request: Request) -> Response:
        options, held = await asyncio.to_thread(known)
        return page("Control", acting.said(request) + _control(acting, options, held), "/control")

    async def act(request: Request) -> Response:
        body = await _body(request)
        given = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True) if body is not None else []
        fields = dict(given)
        if not guard.is_csrf(fields.get("csrf", "")):
            return page(
                "Refused", "<h1>Refused</h1><p>This form is not one of ours: open the page anew.</p>", "", 403
            )
        words = [value for name, value in given if name == "word" and value]
        if "key" in fields:
            words.append(f"{fields['key']}={fields.get('value', '').strip()}")
        lines = [line.strip() for name, value in given if name == "words" for line in value.splitlines()]
        words += [line for line in lines if line]
        what = fields.get("what", "")
        try:
            said = (
                f"{what} {' '.join(words[:3])}".strip()
                + ": "
                + await asyncio.to_thread(acting.act, what, words)
            )
        except ConfigError as error:
            said = f"Not done: {error}"
        back = fields.get("back", "/")
        back = back if back.startswith("/") and not back.startswith(("//", "/\\")) else "/"
        join = "&" if "?" in back else "?"
        return RedirectResponse(f"{back}{join}act={acting.note(said)}", 303, headers=OURS)

    async def api_act(request: Request) -> Response:
        try:
            wanted = msgspec.json.decode(await _body(request) or b"", type=_Wanted)
            return Json(
                {"said": await asyncio.to_thread(acting.act, wanted.what, wanted.words)}, headers=OURS
            )
        except (msgspec.MsgspecError, RecursionError, ConfigError) as error:
            return Json({"error": str(error)}, 400, headers=OURS)

    async def api_control(_: Request) -> Response:
        options, held = await asyncio.to_thread(known)
        return Json(as_plain(options or Options(), held), headers=OURS)

    return {
        "/control": ("GET", control),
        "/act": ("POST", act),
        "/api/act": ("POST", api_act),
        "/api/control": ("GET", api_control),
    }


def as_plain(options: Options, held: Sequence[Quarantined]) -> dict[str, Any]:
    """The effects of acts, for programs."""
    steered = options.steered
    return {
        "paused": steered.paused,
        "sites": {
            host: {"hold": said.hold, "first": said.first, "pages": said.pages or 0}
            for host, said in options.site.items()
        },
        "blocked": list(options.scope.exclude_hosts),
        "quarantined": [
            {"pattern": row.pattern, "since": iso(row.since), "why": row.why, "skipped": row.skipped}
            for row in held
        ],
        "set": {name: msgspec.json.decode(now) for name, (_, now) in sorted(steered.values.items())},
        "acts": [{"at": iso(row.at), "who": row.who, "what": row.text} for row in reversed(steered.did)],
    }


async def _body(request: Request) -> bytes | None:
    """The body of a request; None if it is too large."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > _LARGEST:
            return None
        parts.append(part)
    return b"".join(parts)


def _control(acting: Acting, options: Options | None, held: Sequence[Quarantined]) -> str:
    if options is None:
        return "<h1>Control</h1><p>The crawl has not begun yet.</p>"
    paused, running = options.steered.paused, acting.is_running()
    forms = ""
    if acting.allowed:
        turn = ("Go on", "go-on") if paused else ("Pause", "pause")
        stop = acting.button("Stop the run", "stop", back="/control", kind="grave")
        live = ", ".join(f"<code>{name}</code>" for name in LIVE)
        forms = (
            f'<div class="acts">{acting.button(*turn, back="/control")}{stop if running else ""}</div>'
            + "<h2>Seeds</h2>"
            + acting.field("URLs, one a line", "seeds", "seed", back="/control", does="Add", many=True)
            + f"<h2>Options</h2><p class=soft>Taken up at once: {live}. Values as in TOML.</p>"
            + _values(acting, options)
            + acting.field("Another one, as KEY=VALUE", "setting", "set", back="/control", does="Set")
            + "<h2>A site</h2><p class=soft>Every site's own page has buttons for this.</p>"
            + _order(acting)
        )
    state = "paused" if paused else "not paused"
    now = "" if running else " No process crawls now: what you ask for is kept for the next start."
    lead = f"<p>The crawl is {state}. Every act is in its log, with who did it.{now}</p>"
    return f"<h1>Control</h1>{lead}{forms}{_trapped(acting, held)}{_told(options)}"


def _trapped(acting: Acting, held: Sequence[Quarantined]) -> str:
    """The quarantined patterns, with buttons to release them."""
    rows: list[list[Cell]] = [
        [
            ("u", f"<code>{text(row.pattern)}</code><small>{text(row.why)}</small>"),
            ("n", f"{row.skipped:,}"),
            ("", acting.button("Release", "release", row.pattern, back="/control")),
        ]
        for row in held
    ]
    lead = "<p class=soft>Traps: patterns of URLs that gave nothing new, and are skipped but for tests.</p>"
    return f"<h2>Quarantined</h2>{lead}{table(('Pattern', '#URLs skipped', 'Act'), rows)}" if rows else ""


def _order(acting: Acting) -> str:
    """The form for instructions about a host."""
    orders = "".join(f'<option value="{name}">{name}: {what}</option>' for name, what in _ORDERS.items())
    return (
        f'<form class="act order" method="post" action="/act">{acting.hidden("site", "/control")}'
        '<label>Host<input id="host" name="word" placeholder="www.example.org" spellcheck="false" required></label>'
        f'<label>Order<select id="order" name="word">{orders}</select></label>'
        '<label>Pages, of a budget<input name="word" inputmode="numeric" pattern="[0-9]*"></label>'
        "<button>Do it</button></form>"
    )


def _values(acting: Acting, options: Options) -> str:
    document: Mapping[str, Any] = msgspec.to_builtins(options)
    rows: list[list[Cell]] = []
    for name in dict.fromkeys((*_USUAL, *sorted(options.steered.values))):
        head, _, last = name.partition(".")
        value = document[head].get(last) if last else document[head]
        before = options.steered.values.get(name, ("", ""))[0]
        shown = "" if value is None else msgspec.json.encode(value).decode()
        form = (
            f'<form class="act value" method="post" action="/act">{acting.hidden("set", "/control")}'
            f'<input type="hidden" name="key" value="{text(name)}">'
            f'<input name="value" value="{text(shown)}" aria-label="{text(name)}" placeholder="not set"'
            ' spellcheck="false" autocomplete="off"><button>Set</button></form>'
        )
        what = f"<small>{text(_USUAL[name])}</small>" if name in _USUAL else ""
        was = f"<small>before the acts: {text(short(before, 80))}</small>" if before else ""
        rows.append([("u", f"<code>{text(name)}</code>{what}"), ("u", form + was)])
    return table(("Option", "Value"), rows)


def _told(options: Options) -> str:
    rows: list[list[Cell]] = [
        [("w", moment(iso(row.at))), ("", text(short(row.who, 60))), ("u", text(row.text))]
        for row in reversed(options.steered.did)
    ]
    return f"<h2>Acts</h2>{table(('When', 'Who', 'What'), rows)}" if rows else ""
