"""No request of a page goes around the crawl: what it tries is handed to the crawl, or goes nowhere."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from lycosa.render.browser import Browser
from lycosa.render.options import RenderOptions
from lycosa.render.page import Answer, Shown, Wish
from tests.render.needed import chromium

pytestmark = [chromium, pytest.mark.timeout(180)]

HTML = [("content-type", "text/html; charset=utf-8")]
EVERYTHING = """<!DOCTYPE html><html><head><title>tries</title>
<link rel="dns-prefetch" href="http://{ear}/"><link rel="preconnect" href="http://{ear}/">
<link rel="prefetch" href="http://{ear}/prefetch"><link rel="prerender" href="http://{ear}/prerender">
<link rel="preload" as="fetch" href="http://{ear}/preload"><link rel="icon" href="http://{ear}/icon">
<link rel="stylesheet" href="http://{ear}/style"><link rel="manifest" href="http://{ear}/manifest">
<link rel="modulepreload" href="http://{ear}/modulepreload">
<script type="speculationrules">
  {{"prefetch": [{{"urls": ["http://{ear}/speculated"], "eagerness": "immediate"}}],
    "prerender": [{{"urls": ["/speculated-here"], "eagerness": "immediate"}}]}}</script>
<meta http-equiv="refresh" content="1;url=http://{ear}/refresh"></head><body>
<img src="http://{ear}/image"><video src="http://{ear}/video"></video><object data="http://{ear}/object"></object>
<iframe src="http://{ear}/frame"></iframe><iframe src="file:///etc/hostname"></iframe>
<iframe srcdoc="<script>fetch('http://{ear}/srcdoc')</script>"></iframe>
<a ping="http://{ear}/ping" href="#here" id="a">x</a>
<form id="form" method="post" action="http://{ear}/form"><input name="x"></form>
<script>
const dare = (what) => {{ try {{ const p = what(); if (p && p.catch) p.catch(() => 0) }} catch {{}} }};
dare(() => fetch("http://{ear}/fetch"));
dare(() => fetch("http://{ear}/posted", {{method: "POST", body: "x", mode: "no-cors", keepalive: true}}));
dare(() => fetch("http://{ear}/preflighted", {{headers: {{"X-Own": "1"}}}}));
dare(() => {{ const x = new XMLHttpRequest(); x.open("GET", "http://{ear}/xhr"); x.send() }});
dare(() => fetch("/hop"));
dare(() => fetch("/hop-inside"));
dare(() => navigator.sendBeacon("http://{ear}/beacon", "x"));
dare(() => new WebSocket("ws://{ear}/socket"));
dare(() => new EventSource("http://{ear}/events"));
dare(() => new Worker(URL.createObjectURL(new Blob(["fetch('http://{ear}/blob-worker');new WebSocket('ws://{ear}/w')"]))));
dare(() => new Worker("/worker.js"));
dare(() => new SharedWorker("/shared.js"));
dare(() => navigator.serviceWorker.register("/service.js"));
dare(() => new RTCPeerConnection({{iceServers: [{{urls: "stun:{stun}"}}]}}).createDataChannel("x"));
dare(() => {{
  const frame = document.createElement("iframe"); document.body.append(frame);
  const real = frame.contentWindow;
  const peer = new real.RTCPeerConnection({{iceServers: [{{urls: "stun:{stun}"}}]}});
  peer.createDataChannel("x"); peer.createOffer().then((o) => peer.setLocalDescription(o));
  new real.WebSocket("ws://{ear}/framed-socket");
}});
dare(() => new WebTransport("https://{ear}/transport"));
dare(() => window.open("http://{ear}/window"));
dare(() => document.getElementById("a").click());
dare(() => navigator.storage.getDirectory());
setTimeout(() => dare(() => document.getElementById("form").submit()), 500);
setTimeout(() => dare(() => {{ location.href = "http://{ear}/location" }}), 1500);
setTimeout(() => dare(() => {{ location.href = "file:///etc/passwd" }}), 2500);
setTimeout(() => document.body.append("it has " + "tried"), 3500);
</script></body></html>"""


class Ears:
    """Listens where a page is not to come, over TCP and UDP."""

    def __init__(self) -> None:
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        for each in (self._tcp, self._udp):
            each.setblocking(False)
        self.tcp = f"127.0.0.1:{self._tcp.getsockname()[1]}"
        self.udp = f"127.0.0.1:{self._udp.getsockname()[1]}"

    def heard(self) -> list[bytes]:
        """Whatever came: the kernel keeps it."""
        found = []
        try:
            while True:
                with closing(self._tcp.accept()[0]) as connection:
                    connection.settimeout(1)
                    found.append(connection.recv(200))
        except BlockingIOError:
            pass
        try:
            while True:
                found.append(self._udp.recv(200))
        except BlockingIOError:
            pass
        return found

    def close(self) -> None:
        self._tcp.close()
        self._udp.close()


@pytest.fixture
def ears() -> Iterator[Ears]:
    with closing(Ears()) as made:
        yield made


def test_nothing_goes_around_the_crawl(ears: Ears) -> None:
    asked: list[Wish] = []

    async def ask(wish: Wish) -> Answer | None:
        asked.append(wish)
        if wish.url.endswith(".js"):
            code = f"fetch('http://{ears.tcp}/in-worker'); importScripts('http://{ears.tcp}/imported')"
            return Answer(200, [("content-type", "text/javascript")], code.encode())
        if wish.url.endswith("/hop"):
            return Answer(302, [("location", f"http://{ears.tcp}/inside")], b"")
        if wish.url.endswith("/hop-inside"):
            return Answer(302, [("location", "http://other.test/redirected")], b"")
        return None

    async def go() -> Shown:
        browser = Browser(RenderOptions(page_seconds=4.0, seconds=100.0))
        try:
            page = EVERYTHING.format(ear=ears.tcp, stun=ears.udp).encode()
            return await browser.show("http://site.test/", Answer(200, HTML, page), ask)
        finally:
            await browser.close()

    shown = asyncio.run(go())
    assert shown.problem == ""
    assert "it has tried" in shown.html  # it is still there, and its clock ran on
    assert ears.heard() == []
    paths = {wish.url.rpartition("/")[2] for wish in asked}
    # It did try, and each that has an answer was handed over.
    wanted = {"fetch", "xhr", "frame", "srcdoc", "style", "image", "in-worker", "blob-worker"}
    assert paths >= wanted
    assert f"http://{ears.tcp}/location" in shown.moves or f"http://{ears.tcp}/refresh" in shown.moves
    assert not any(wish.url.startswith("file:") for wish in asked)
    assert "root:" not in shown.html


def test_the_listener_would_hear_it(ears: Ears) -> None:
    with socket.create_connection(("127.0.0.1", int(ears.tcp.rpartition(":")[2]))) as connection:
        connection.sendall(b"GET")
    assert ears.heard() == [b"GET"]
