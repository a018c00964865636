"""The browser process: finding it, starting it for the first page, watching and replacing it.

At most `tabs` pages are open at a time. After `pages_per_browser` pages, or when its processes together hold more
than `memory`, the browser is ended and the next page starts another; pages that were open in it are tried once
more, as are those of a browser that ended by itself, or that did not obey a call to close a page. If that happens a
second time, it counts as the page's fault: `Shown.problem` is "browser".

The browser has no network. Each target's requests are intercepted (`page`); in addition the browser's own session
intercepts and refuses any other request; names do not resolve, and the proxy for everything is an address at which
nothing listens. There is no QUIC, no prediction, no WebRTC but through that proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lycosa.errors import ConfigError, LocalError
from lycosa.render.devtools import BrowserGoneError, CallError, DevTools
from lycosa.render.options import RenderOptions
from lycosa.render.page import Answer, Asker, Shown, Tab

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_START = 60.0
"""Seconds that a browser may take to start, on a busy machine."""
_CLOSE = 10.0
_WATCH = 1.0
_PROFILE = "lycosa-browser-"
_FLAGS = (
    *(
        "--headless=new",
        "--remote-debugging-pipe",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--mute-audio",
    ),
    *("--no-first-run", "--no-default-browser-check", "--disable-extensions", "--disable-sync", "--no-pings"),
    *("--disable-background-networking", "--disable-component-update", "--disable-domain-reliability"),
    *("--disable-default-apps", "--disable-client-side-phishing-detection", "--metrics-recording-only"),
    *("--disable-breakpad", "--disable-crash-reporter", "--disable-quic", "--dns-prefetch-disable"),
    *("--password-store=basic", "--use-mock-keychain", "--disable-notifications", "--hide-scrollbars"),
    "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,AutofillServerCommunication,"
    "NetworkTimeServiceQuerying,InterestFeedContentSuggestions,CertificateTransparencyComponentUpdater,"
    "Prerender2,SpeculationRulesPrefetchFuture,PreconnectToSearch,LoadingPredictorPrefetch,DnsOverHttps,"
    "ServiceWorkerAutoPreload,LocalNetworkAccessChecks,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable",
    *("--proxy-server=http://127.0.0.1:9", "--proxy-bypass-list=<-loopback>"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp"),
    *("--disable-webrtc-hw-decoding", "--disable-popup-blocking", "--disable-hang-monitor"),
    *(
        "--disable-ipc-flooding-protection",
        "--disable-background-timer-throttling",
        "--window-size=1280,1024",
    ),
    *("--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows"),
)


def find(named: str = "") -> str:
    """The path of the browser; if there is none, a `ConfigError` that says what to do."""
    if named:
        found = shutil.which(named)
        if found is None:
            raise ConfigError(f"the browser {named!r} is not a program on this machine: see --browser")
        return found
    for name in NAMES:
        if (found := shutil.which(name)) is not None:
            return found
    raise ConfigError(
        "rendering needs a Chromium, and there is none on this machine: install it (Debian: apt install chromium),"
        " or name it with --browser PATH"
    )


class Browser:
    """Renders pages."""

    def __init__(
        self,
        options: RenderOptions,
        user_agent: str = "",
        told: Callable[[str], None] | None = None,
    ) -> None:
        """`told` is called with messages for the operator."""
        self._options = options
        self._program = find(options.browser)
        self._told = told or (lambda _: None)
        self._flags = [*_FLAGS]
        if user_agent:
            self._flags.append(f"--user-agent={user_agent}")
        if not options.sandbox or os.geteuid() == 0:
            self._flags.append("--no-sandbox")
            if options.sandbox:
                self._told(
                    "Chromium has no sandbox for root: what pages run is held in by nothing but the browser itself;"
                    " crawl as another user, or say --set render.sandbox=false if that is meant"
                )
        self._room = asyncio.Semaphore(options.tabs)
        self._starting = asyncio.Lock()
        self._tools: DevTools | None = None
        self._profile: tempfile.TemporaryDirectory[str] | None = None
        self._tabs: dict[str, Tab] = {}
        self._idle = asyncio.Event()  # no page is open
        self._idle.set()
        self._pages = 0  # pages that this browser has rendered
        self._watcher: asyncio.Task[None] | None = None
        self.started = 0
        """How many browsers were started so far."""

    @property
    def pid(self) -> int:
        """The id of the browser's process; 0 if there is none now."""
        return 0 if self._tools is None or self._tools.gone.is_set() else self._tools.pid

    async def show(self, url: str, first: Answer, ask: Asker) -> Shown:
        """Render a page that the crawl has fetched; `first` is its answer."""
        async with self._room:
            for _ in range(2):
                try:
                    return await self._once(url, first, ask)
                except (BrowserGoneError, CallError, TimeoutError) as error:
                    last = str(error) or type(error).__name__
                    if self._tools is not None and not isinstance(error, BrowserGoneError):
                        self._tools.kill()
            return Shown(problem=f"browser: it ended twice ({last})"[:300])

    async def close(self) -> None:
        """End the browser."""
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
        tools, self._tools = self._tools, None
        if tools is not None:
            await tools.close()
        if self._profile is not None:
            await asyncio.to_thread(self._profile.cleanup)
            self._profile = None

    async def _once(self, url: str, first: Answer, ask: Asker) -> Shown:
        tools = await self._running()
        async with asyncio.timeout(_START):
            made = await tools.call("Target.createBrowserContext", disposeOnDetach=True)
        context: str = made["browserContextId"]
        tab = self._tabs[context] = Tab(tools, context, url, first, ask, self._options)
        self._idle.clear()
        try:
            return await tab.show()
        finally:
            del self._tabs[context]
            if not self._tabs:
                self._idle.set()
            try:
                await asyncio.wait_for(asyncio.shield(tab.close()), _CLOSE)
            except (TimeoutError, BrowserGoneError, asyncio.CancelledError):
                tools.kill()  # it no longer answers calls

    async def _running(self) -> DevTools:
        async with self._starting:
            tools = self._tools
            if (
                tools is not None
                and not tools.gone.is_set()
                and self._pages >= self._options.pages_per_browser
            ):
                await self._idle.wait()  # others still use it
                tools.kill()
            if tools is None or tools.gone.is_set():
                await self.close()
                tools = self._tools = await self._start()
                self._pages = 0
            self._pages += 1
            return tools

    async def _start(self) -> DevTools:
        await asyncio.to_thread(_sweep)
        self._profile = tempfile.TemporaryDirectory(
            prefix=f"{_PROFILE}{os.getpid()}-", ignore_cleanup_errors=True
        )
        flags = [*self._flags, f"--user-data-dir={self._profile.name}", "about:blank"]
        try:
            tools = await DevTools.start([self._program, *flags])
        except OSError as error:
            raise LocalError(f"the browser {self._program} cannot be started: {error}") from None
        tools.listen("", self._event)
        try:
            async with asyncio.timeout(_START):
                await tools.call("Fetch.enable", patterns=[{"urlPattern": "*"}])
                await tools.call("Browser.setDownloadBehavior", behavior="deny")
                await tools.call(
                    "Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=True, flatten=True
                )
        except (BrowserGoneError, CallError, TimeoutError) as error:
            await tools.close()
            said = str(error) if isinstance(error, CallError) else tools.last_words()
            raise LocalError(f"the browser {self._program} does not start: {said}") from None
        self.started += 1
        self._watcher = asyncio.create_task(self._watch(tools))
        return tools

    def _event(self, method: str, params: dict[str, Any]) -> None:
        tools = self._tools
        if tools is None:
            return
        if method == "Target.attachedToTarget":
            info = params["targetInfo"]
            tab = self._tabs.get(info.get("browserContextId", ""))
            if tab is not None:
                tab.attach(params["sessionId"], info)
        elif method == "Fetch.requestPaused":
            # A request that no page intercepted: it is refused.
            tools.send("Fetch.failRequest", requestId=params["requestId"], errorReason="BlockedByClient")

    async def _watch(self, tools: DevTools) -> None:
        """Replace the browser when it holds too much."""
        while not tools.gone.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(tools.gone.wait(), _WATCH)
            if await asyncio.to_thread(held, tools.pid) > self._options.memory:
                self._told(f"the browser holds more than {self._options.memory >> 20} MB: it is replaced")
                tools.kill()


def held(session: int) -> int:
    """Bytes of private memory that the processes of a session hold together; 0 where the system does not tell.
    Mapped files and shared memory do not count: otherwise Chromium's code would count once per process."""
    total, page = 0, os.sysconf("SC_PAGE_SIZE")
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_bytes().rpartition(b")")[2].split()
            if len(fields) > 3 and int(fields[3]) == session:
                _, resident, shared, *_ = (place / "statm").read_bytes().split()
                total += (int(resident) - int(shared)) * page
        except OSError:
            continue
    return total


def _sweep() -> None:
    """Remove the profiles of browsers whose crawl was killed."""
    for place in Path(tempfile.gettempdir()).glob(f"{_PROFILE}*-*"):
        pid = place.name.removeprefix(_PROFILE).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists() and Path("/proc/self").exists():
            shutil.rmtree(place, ignore_errors=True)
