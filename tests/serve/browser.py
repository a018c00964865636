"""A real Chromium, driven over its DevTools protocol through pipes: pages opened, looked at, clicked on, pictured.

Nothing but this machine is asked: everything else goes to a proxy that is not there.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-sync"),
    *("--proxy-server=http://127.0.0.1:9", "--proxy-bypass-list=127.0.0.1", "--remote-debugging-pipe"),
)
_SECONDS = 120.0


class Browser:
    """One Chromium with one tab."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        words = " ".join([CHROMIUM, *_FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"])
        self._process = subprocess.Popen(
            ["bash", "-c", f"exec {words} 3<&{theirs_in} 4>&{theirs_out}"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._left = b""
        self._last = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)
        self._process.terminate()
        self._process.wait()
        os.close(self._in)
        self._profile.cleanup()

    # -- the protocol

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask; the answer. Events that come meanwhile are kept."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == self._last:
                assert "error" not in heard, (method, heard)
                result: dict[str, Any] = heard["result"]
                return result
            self.events.append(heard)

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            data = os.read(self._in, 1 << 16)
            assert data, "Chromium is gone"
            self._left += data
        text, _, self._left = self._left.partition(b"\0")
        heard: dict[str, Any] = json.loads(text)
        return heard

    # -- pages

    def open(self, address: str) -> None:
        """Go to an address, and wait until it, or what it leads to, is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        self.settle()

    def settle(self) -> None:
        """Wait until a page of ours is there, whole."""
        self.until(lambda: self.js("document.readyState === 'complete' && !!document.querySelector('main')"))

    def enter(self, link: str) -> None:
        """Open the printed link; from then on the cookie is there."""
        self.open(link)
        assert "token" not in self.js("location.href")

    def js(self, code: str) -> Any:
        """What an expression of JavaScript comes to in the page."""
        found = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, holds: Callable[[], Any]) -> None:
        end = time.monotonic() + _SECONDS
        while True:
            try:
                if holds():
                    return
            except AssertionError:  # between two pages
                pass
            assert time.monotonic() < end, "it did not happen"
            time.sleep(0.05)

    def press(self, selector: str) -> None:
        """Click on something that leads to another page of ours."""
        self.js("window.leaving = true")
        self.js(f"document.querySelector({json.dumps(selector)}).click()")
        self.until(lambda: self.js("window.leaving === undefined"))
        self.settle()

    def look(self, width: int, *, dark: bool = False) -> None:
        """Be so wide, and light or dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.js("new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))")

    def shot(self, to: Path, *, tall: int = 3_000, scale: float = 1.0) -> None:
        """A picture of the whole page, at most so tall."""
        size = self.js("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        wide, high = size[0], min(size[1], tall)
        self.call(  # frames below the window's edge are not painted
            "Emulation.setDeviceMetricsOverride",
            width=wide,
            height=high,
            deviceScaleFactor=1,
            mobile=wide < 600,
        )
        self.js("new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))")
        clip = {"x": 0, "y": 0, "width": size[0], "height": min(size[1], tall), "scale": scale}
        found = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        to.write_bytes(base64.b64decode(found["data"]))

    def requests(self) -> set[str]:
        """Addresses that were asked for since the page was opened."""
        sent = [row for row in self.events if row.get("method") == "Network.requestWillBeSent"]
        return {row["params"]["request"]["url"] for row in sent}

    def complaints(self) -> list[str]:
        """What the page's console has of errors and refusals."""
        found = [row["params"]["entry"] for row in self.events if row.get("method") == "Log.entryAdded"]
        thrown = [row for row in self.events if row.get("method") == "Runtime.exceptionThrown"]
        return [row["text"] for row in found if row["level"] == "error"] + [str(row) for row in thrown]
