"""One page in the browser: opening it, answering its requests, waiting for it, reading it.

Each page has a browser context of its own (no cookies, storage or cache of others), which ends with it. Every
target in it (the page, frames on other sites, workers) waits until its requests are intercepted before it runs.
Requests go to the `Asker`; the request for the page itself is answered with what the crawl has fetched already.

    main frame, first document      the answer that the crawl has
    main frame, later documents     refused: a navigation away, whose target counts as a link (`Shown.moves`)
    other windows                   closed
    service and shared workers      refused
    anything else                   asked for, or refused, by the Asker

The page is quiet when its own clock has run for `page_seconds`: a virtual clock, which stands still while a request
is under way and leaps from timer to timer otherwise, so that a page that waits 3 s takes no time, and the result is
the same each time. Then the document is read as it is, by a script in an isolated world, which the page's scripts
cannot reach.

Nothing that a page does makes `show` raise: what went wrong is in `Shown.problem`. Only the end of the browser
raises (`BrowserGoneError`).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, NamedTuple

from lycosa.render.devtools import CallError, DevTools
from lycosa.render.options import RenderOptions

_ASKED_FIRST = ("page", "iframe", "worker")
_ROUNDS = 4
"""How many times the clock is run again because workers have made new requests."""
_MOVES = 50
"""Attempts to navigate away that are remembered."""
_GRACE = 5.0
"""Seconds that the browser may take to answer a call that normally takes milliseconds."""
_MOMENT = 0.25
"""Seconds in which a worker or a frame of another site, which has its own clock, processes an answer."""
_PREPARE = """
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport", "WebSocket", "SharedWorker"])
  try { delete window[name] } catch {}
try { delete Navigator.prototype.serviceWorker } catch {}
{
  const later = setTimeout, never = clearTimeout;
  window.requestAnimationFrame = (call) => later(() => call(performance.now()), 16);
  window.cancelAnimationFrame = (id) => never(id);
  window.requestIdleCallback = (call) => later(() => call({didTimeout: false, timeRemaining: () => 20}), 1);
  window.cancelIdleCallback = (id) => never(id);
}
"""
"""Hides features from the page that cannot be served by answers to its requests, and lets animation frames, which
would go by the machine's time, go by the page's clock."""
_READ = """(() => {
  const kind = document.doctype ? "<!DOCTYPE " + document.doctype.name + ">" : "";
  const whole = document.documentElement;
  const html = kind + (whole ? whole.outerHTML : "");
  return {html, base: document.baseURI, url: document.URL, loaded: document.readyState === "complete"};
})()"""


class Wish(NamedTuple):
    """A request of a page."""

    url: str
    method: str
    kind: str  # Script, XHR, Fetch, Stylesheet, Document ...
    headers: dict[str, str]


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


Asker = Callable[[Wish], Awaitable[Answer | None]]
"""Makes a request on a page's behalf; None: there is no answer."""


class Shown(NamedTuple):
    """A rendered page."""

    html: str = ""
    base: str = ""
    """The URL against which its links are resolved."""
    url: str = ""
    """Its URL as its scripts left it."""
    moves: tuple[str, ...] = ()
    """The targets of its attempts to navigate away."""
    problem: str = ""
    """"": it became quiet; "time": it did not; the document, if any, is as it was when its time was over; "crash";
    anything else: a description."""


class Tab:
    """One open page."""

    def __init__(
        self, tools: DevTools, context: str, url: str, first: Answer, ask: Asker, options: RenderOptions
    ) -> None:
        self._tools = tools
        self._context = context
        self._url = url
        self._first: Answer | None = first
        self._ask = ask
        self._options = options
        self._session = ""
        self._frame = ""
        self._target = ""
        self._attached = asyncio.Event()
        self._over = asyncio.Event()
        self._problem = ""
        self._moves: dict[str, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sessions: list[str] = []
        self._asked = 0  # requests, so far
        self._workers = 0  # workers whose script was sent, and that have not attached yet
        self._came = asyncio.Event()
        self._asking = 0
        self._since = 0.0  # when the first of the requests that are under way began
        self._waited = 0.0  # seconds spent waiting for answers

    # -- targets

    def attach(self, session: str, info: dict[str, Any]) -> None:
        """Set up a new target of the page's context, which waits for that."""
        kind = info["type"]
        if (kind == "page" and self._session) or kind not in _ASKED_FIRST:
            if kind == "page":  # its opener waits for it to run; its requests are not answered
                self._tools.send("Fetch.enable", session, patterns=[{"urlPattern": "*"}])
                self._tools.send("Runtime.runIfWaitingForDebugger", session)
            self._tools.send("Target.closeTarget", targetId=info["targetId"])
            return
        self._sessions.append(session)
        if kind == "worker":
            self._workers = max(self._workers - 1, 0)
            self._came.set()
        self._tools.listen(session, lambda method, params: self._event(session, method, params))
        send = self._tools.send
        send("Fetch.enable", session, patterns=[{"urlPattern": "*"}])
        send("Target.setAutoAttach", session, autoAttach=True, waitForDebuggerOnStart=True, flatten=True)
        if kind != "worker":
            send("Page.enable", session)
            send("Page.addScriptToEvaluateOnNewDocument", session, source=_PREPARE)
        if kind == "page":
            self._session, self._target = session, info["targetId"]
            self._frame = info["targetId"]  # the main frame has its target's id
            send("Inspector.enable", session)
            self._attached.set()
        send("Runtime.runIfWaitingForDebugger", session)

    def _event(self, session: str, method: str, params: dict[str, Any]) -> None:
        if method == "Fetch.requestPaused":
            task = asyncio.create_task(self._paused(session, params))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif method == "Target.attachedToTarget":
            self.attach(params["sessionId"], params["targetInfo"])
        elif method == "Target.detachedFromTarget" and params["sessionId"] in self._sessions:
            self._sessions.remove(params["sessionId"])
        elif method == "Page.javascriptDialogOpening":
            self._tools.send("Page.handleJavaScriptDialog", session, accept=False)
        elif method == "Inspector.targetCrashed" and session == self._session:
            self._problem = "crash"
            self._over.set()
        elif method == "Emulation.virtualTimeBudgetExpired" and session == self._session:
            self._over.set()

    # -- requests

    async def _paused(self, session: str, params: dict[str, Any]) -> None:
        request, identity = params["request"], params["requestId"]
        url: str = request["url"] + request.get("urlFragment", "")
        kind: str = params.get("resourceType", "Other")
        answer: Answer | None = None
        refusal = "BlockedByClient"
        if kind == "Document" and params.get("frameId") == self._frame:
            answer, self._first = self._first, None
            refusal = "Aborted"  # any other reason would replace this page by an error page
            if answer is None and request["method"] == "GET" and len(self._moves) < _MOVES:
                self._moves[url] = None
        elif url.startswith(("data:", "blob:", "about:")):
            self._tools.send("Fetch.continueRequest", session, requestId=identity)
            return
        else:
            self._asked += 1
            self._asking += 1
            if self._asking == 1:
                self._since = monotonic()
            try:
                answer = await self._ask(Wish(url, request["method"], kind, request.get("headers", {})))
            finally:
                self._asking -= 1
                if not self._asking:
                    self._waited += monotonic() - self._since
            # Worker scripts are of kind Other; so are icons, but these get no answer.
            self._workers += kind == "Other" and answer is not None and answer.status == 200
        if answer is None:
            self._tools.send("Fetch.failRequest", session, requestId=identity, errorReason=refusal)
            return
        self._tools.send(
            "Fetch.fulfillRequest",
            session,
            requestId=identity,
            responseCode=answer.status,
            responseHeaders=[{"name": name, "value": value} for name, value in answer.headers],
            body=base64.b64encode(answer.body).decode("ascii"),
        )
        await self._tools.drain()

    # -- the page

    async def show(self) -> Shown:
        """Open the page, wait until it is quiet, read it."""
        tools, began = self._tools, monotonic()
        try:
            async with asyncio.timeout(_GRACE + self._options.seconds):
                await tools.call("Target.createTarget", url="about:blank", browserContextId=self._context)
                await self._attached.wait()
                # The clock stands still until the document is there, lest the empty page before it use it up.
                await tools.call("Emulation.setVirtualTimePolicy", self._session, policy="pause")
                went = await tools.call("Page.navigate", self._session, url=self._url)
            if word := went.get("errorText"):
                return Shown(moves=tuple(self._moves), problem=f"not opened: {word}")
            found: Shown | None = None
            rounds = 0
            while found is None:
                rounds, before = rounds + 1, self._asked
                self._over.clear()
                tools.send(
                    "Emulation.setVirtualTimePolicy",
                    self._session,
                    policy="pauseIfNetworkFetchesPending",
                    budget=self._options.page_seconds * 1000,
                    maxVirtualTimeTaskStarvationCount=10_000,
                )
                if not await self._quiet(began):
                    self._problem = self._problem or "time"
                if self._problem == "crash":
                    return Shown(problem="crash")
                if not self._problem and rounds < _ROUNDS and not await self._others_quiet(before):
                    continue  # what they do may change the page
                async with asyncio.timeout(_GRACE):
                    found = await self._read()
            return found
        except TimeoutError:
            return Shown(moves=tuple(self._moves), problem="time")
        except CallError as error:
            return Shown(moves=tuple(self._moves), problem=f"refused: {error}")
        finally:
            for session in self._sessions:
                tools.listen(session, None)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _quiet(self, began: float) -> bool:
        """Wait until the page's clock has run; False if the page's time was over before."""
        gone = asyncio.create_task(self._tools.gone.wait())
        over = asyncio.create_task(self._over.wait())
        try:
            while not over.done() and not gone.done():
                now = monotonic()
                waited = self._waited + (now - self._since if self._asking else 0.0)
                left = self._options.seconds - (now - began - waited)
                if left <= 0 or now - began > self._options.most_seconds:
                    return False
                await asyncio.wait((gone, over), timeout=min(left, 1.0), return_when="FIRST_COMPLETED")
            return True
        finally:
            gone.cancel()
            over.cancel()

    async def _others_quiet(self, before: int) -> bool:
        """Whether workers and frames of other sites, for which the clock does not wait, have nothing to do.

        `before`: how many requests there were when the clock began to run.
        """
        if self._workers:
            self._came.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._came.wait(), _GRACE)
            self._workers = 0
            return False
        if len(self._sessions) < 2 and not self._asking:
            return True
        for wait in (_MOMENT, 0.0):
            # A target that answers this call has done what it was about to do.
            calls = [
                self._tools.send("Runtime.evaluate", each, expression="0") for each in self._sessions[1:]
            ]
            if calls:
                await asyncio.wait(calls, timeout=_GRACE)
            await asyncio.sleep(wait)
        return not self._asking and before == self._asked

    async def _read(self) -> Shown | None:
        """Read the document; None if it is still being loaded, and has time left."""
        world = await self._tools.call(
            "Page.createIsolatedWorld", self._session, frameId=self._frame, worldName="lycosa"
        )
        found = await self._tools.call(
            "Runtime.evaluate",
            self._session,
            expression=_READ,
            contextId=world["executionContextId"],
            returnByValue=True,
            timeout=_GRACE * 1000,
        )
        value = found.get("result", {}).get("value")
        if not isinstance(value, dict):
            return Shown(moves=tuple(self._moves), problem=self._problem or "not read")
        if not (value["loaded"] or self._problem):
            return None
        return Shown(value["html"], value["base"], value["url"], tuple(self._moves), self._problem)

    async def close(self) -> None:
        """End the page with all that is its own."""
        with contextlib.suppress(CallError):
            await self._tools.call("Target.disposeBrowserContext", browserContextId=self._context)
