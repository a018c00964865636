"""Run in a process of its own by `test_warming`: warm, crawl in every way, and print what had to be loaded then.

{"never": [kernels that code calls and that warming did not], "later": {way: [kernels that a crawl met anew]}}
"""

from __future__ import annotations

import ast
import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import lycosa
from lycosa.compiled import Kernel
from lycosa.crawl.config import read_options
from lycosa.crawl.warming import warm
from lycosa.fetch.protocol import Failure, Request
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.network import Reply
from lycosa.url.parts import path_of
from tests.crawl.scripted import OPTIONS, crawl
from tests.crawl.test_admission import hub

ROOMS = ("url", "page", "log", "fetch", "archive", "content", "refresh", "seen", "frontier", "crawl", "pages")
NOT_OF_A_CRAWL = {"is_sound", "chain_probe", "chain_touch", "lru_probe", "min_hits"}
"""What the checking mode calls, and caches that only the laboratory compares."""
TIGHT = {"batch": 20, "memory": 1 << 14, "host_budget": 10, "domain_budget": 20}


def called() -> dict[str, Any]:
    """Kernels, by name, that a module of the crawl's rooms which has none of its own names."""
    found: dict[str, Any] = {}
    for room in ROOMS:
        for path in Path(lycosa.__path__[0], room).rglob("*.py"):
            if not path.name.endswith("kernels.py"):
                found.update(_named_in(ast.parse(path.read_text(encoding="utf-8"))))
    return found


def _named_in(tree: ast.AST) -> dict[str, Any]:
    modules: dict[str, str] = {}
    names: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if alias.name.endswith("kernels"):
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                elif node.module.endswith("kernels"):
                    names[alias.asname or alias.name] = (node.module, alias.name)
    uses = set(names.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            uses.add((modules[node.value.id], node.attr))
    found = {f"{at}.{name}": getattr(importlib.import_module(at), name) for at, name in uses}
    return {name: value for name, value in found.items() if isinstance(value, Kernel)}


def loaded() -> set[tuple[str, str]]:
    """Every kernel that there is, with the types it is ready for."""
    return {
        (f"{module}.{name}", str(types))
        for module, held in list(sys.modules.items())
        if module.startswith("lycosa.") and module.endswith("kernels")
        for name, kernel in vars(held).items()
        if isinstance(kernel, Kernel)
        for types in kernel.ready
    }


def ways(oracle: str) -> dict[str, dict[str, Any]]:
    """Options of crawls that use each order and each store."""
    orders = ("depth", "length", "batch", "partial", "optimal", "biased")
    made: dict[str, dict[str, Any]] = {
        order: {"frontier": {**TIGHT, "order": order, "oracle": oracle}} for order in orders
    }
    for store in ("memory", "veuniq", "drum", "mercator"):
        made[store] = {"seen": {"store": store, "memory": 1 << 20}}
    made["continuous"] = {"refresh": {"continuous": True, "per_page": 500.0}}
    made["leaf"] = {"duplicates": {"alike": "leaf"}}
    made["traps"] = {"traps": {"quarantine": True}}
    return made


def odd(request: Request, before: int) -> Reply | Failure:
    """The pages of `hub`, with links that no kernel reads, words of their own URL, and several charsets."""
    reply = hub(request, before)
    if not isinstance(reply, Reply) or reply.status != 200:
        return reply
    path = path_of(request.url)
    more = f"<img srcset='/x 2x'><p>This page is called {path} and \xe9, and says so in a paragraph of many words."
    charset = ("utf-8", "latin-1", "utf-16")[len(path) % 3]
    body = (reply.body.decode() + more).encode(charset)
    return Reply(body, headers=(("Content-Type", f"text/html; charset={charset}"),))


def main(which: str) -> None:
    """All that any crawl needs, or for one way only what its options ask for."""
    with tempfile.NamedTemporaryFile("w", suffix=".ranks") as oracle:
        oracle.write("\n".join(f"{page} http://a.test/p{page}" for page in range(1, 60)))
        oracle.flush()
        chosen = ways(oracle.name)
        never: list[str] = []
        if which == "all":
            kernels = called()
            warm()
            never = [
                n for n, k in kernels.items() if not k.ready and n.rpartition(".")[2] not in NOT_OF_A_CRAWL
            ]
        else:
            chosen = {which: chosen[which]}
            warm(read_options({**OPTIONS, **chosen[which]}))
        later: dict[str, list[str]] = {}
        before = loaded()
        for way, options in chosen.items():
            files = FaultyFiles()
            limits = (
                {"seconds": 1_200.0} if way == "continuous" else {}
            )  # each page twice; it has no end of its own
            first = crawl(files, answer=odd, limits={"pages": 60, **limits}, **options)
            crawl(files, first.until, answer=odd, limits=limits, **options)  # from its snapshot
            later[way] = sorted({name for name, _ in loaded() - before})
            before = loaded()
    print(
        json.dumps({"never": sorted(never), "later": {way: names for way, names in later.items() if names}})
    )


if __name__ == "__main__":
    main(sys.argv[1])
