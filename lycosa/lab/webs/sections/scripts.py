"""Scripts: pages whose text and links are made by scripts, in the ways that are usual on sites.

Everything is below /scripts/. Each page that the home page links to is nearly empty as sent; the pages linked
from it are found only by crawlers that run its scripts. One script is on the root host, for all.

    inline      a script in the page writes the links
    external    a script file does, once for several pages
    shared      a script file on another host does
    module      an imported module does
    json        fetched data holds them
    timer       they come after two seconds
    worker      a worker has fetched them
    frames      requestAnimationFrame, a hundred in a row
    routes      one shell for many paths: its content depends on the path (client-side routing)
    pushed      history.pushState changes the page's URL, and so the base of its relative links
    moved       the script navigates elsewhere
    refused     data that robots.txt forbids: the page has a link that shows that it did not get them
"""

from __future__ import annotations

import json

from lycosa.lab.webs.answers import Answer, Only, html
from lycosa.lab.webs.sheet import Sheet

ROUTES = 4
SHARED = "/shared-script.js"
CLOSED = "/scripts/closed/"
"""The path that robots.txt forbids."""
_BUILD = """
function build(links) {
  const list = document.createElement("ul");
  for (const link of links) {
    const anchor = document.createElement("a");
    anchor.href = link;
    anchor.textContent = "made by a script: " + link;
    list.append(document.createElement("li"), anchor);
  }
  (document.getElementById("app") || document.body).append(list);
}
"""


def _shell(title: str, script: str = "", head: str = "") -> Answer:
    """A page as such sites send it, without its content."""
    inner = f"<script>{script}</script>" if script else ""
    return html(
        f'<!DOCTYPE html><html><head><title>{title}</title>{head}</head><body><div id="app"></div>'
        f"<noscript>This page needs JavaScript.</noscript>{inner}</body></html>"
    )


def _code(text: str) -> Answer:
    return Answer(200, (("Content-Type", "text/javascript"),), text.encode(), lasting=True)


def _data(text: str) -> Answer:
    return Answer(200, (("Content-Type", "application/json"),), text.encode(), lasting=True)


def write_shared(sheet: Sheet) -> None:
    """Add what the root host serves for all others."""
    sheet.put(
        SHARED,
        _code(f"{_BUILD}build([document.body.dataset.link || 'behind-shared.html']);"),
        only=Only.EITHER_WAY,
    )


def write(sheet: Sheet) -> None:
    """Add the section."""

    def behind(name: str) -> str:
        return json.dumps(sheet.child(f"/scripts/behind-{name}.html", Only.RENDERED))

    def page(name: str, script: str = "", head: str = "") -> None:
        sheet.put(f"/scripts/{name}", _shell(f"scripts {name}", script, head), entry=True)

    def file(name: str, answer: Answer) -> None:
        sheet.put(f"/scripts/{name}", answer, only=Only.EITHER_WAY)

    page("inline", f"{_BUILD}build([{behind('inline')}])")
    routes = [f"/scripts/route/{number}" for number in range(ROUTES)]
    file(
        "app.js",
        _code(
            f"{_BUILD}const routes = {json.dumps(routes)}, at = routes.indexOf(location.pathname);"
            f"if (at < 0) build([{behind('external')}, routes[0]]);"
            "else if (at + 1 < routes.length) build([routes[at + 1]]); else document.body.append('the last');"
        ),
    )
    page("external", head='<script defer src="app.js"></script>')
    for number, path in enumerate(routes):
        sheet.put(
            path,
            _shell(f"route {number}", head='<script defer src="/scripts/app.js"></script>'),
            only=Only.RENDERED,
        )
    sheet.child("/scripts/behind-shared.html", Only.RENDERED)
    page("shared", head=f'<script defer src="{sheet.place.root}{SHARED}"></script>')
    file("module.js", _code(f"export {_BUILD.strip()}"))
    page(
        "module",
        head=f'<script type="module">import {{build}} from "./module.js"; build([{behind("module")}])</script>',
    )
    file("data.json", _data(f"[{behind('json')}]"))
    page("json", f"{_BUILD}fetch('data.json').then((found) => found.json()).then(build)")
    page("timer", f"{_BUILD}setTimeout(() => build([{behind('timer')}]), 2000)")
    file("worker.js", _code("fetch('worker.json').then((found) => found.json()).then(postMessage)"))
    file("worker.json", _data(f"[{behind('worker')}]"))
    page("worker", f"{_BUILD}new Worker('worker.js').onmessage = (said) => build(said.data)")
    page(
        "frames",
        f"{_BUILD}let n = 0; const last = () => build([{behind('frames')}]);"
        "const next = () => ++n < 100 ? requestAnimationFrame(next) : last(); next()",
    )
    sheet.child("/scripts/deep/beside.html", Only.RENDERED)
    sheet.child("/scripts/deep/here", Only.RENDERED)
    page("pushed", f"{_BUILD}history.pushState(null, '', '/scripts/deep/here'); build(['beside.html'])")
    sheet.child("/scripts/moved-to.html", Only.RENDERED)
    page("moved", "location.href = 'moved-to.html'")
    sheet.unserved(f"{sheet.place.origin}/scripts/not-behind.html", Only.NOT_A_LINK)
    page(
        "refused",
        f"{_BUILD}fetch('closed/data.json').then(() => build(['not-behind.html']),"
        f" () => build([{behind('refused')}]))",
    )
    sheet.put(f"{CLOSED}data.json", _data("[]"), only=Only.ROBOTS)
