"""One page of saved results: claims, definitions, tables and figures in one HTML file; or in Markdown,
without the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from lycosa.lab.experiments.drawing import svg
from lycosa.lab.experiments.result import Result, table

_STYLE = """
body { font: 15px/1.45 sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto; }
th, td { padding: .2em .7em; border-bottom: 1px solid #ddd; }
td:first-child, td.n, td.verdict { white-space: nowrap; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } th { text-align: left; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2em 1em; }
dt { font-weight: bold; } dd { margin: 0; }
.figures { display: flex; flex-wrap: wrap; gap: 1em; }
svg { border: 1px solid #ddd; max-width: 100%; height: auto; }
.agrees, .holds { color: #1e7d34; } .differs, .not { color: #b03020; } .why { color: #666; min-width: 14em; }
"""


def page(results: Sequence[Result]) -> str:
    """The page."""
    made = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f"<title>Lycosa: the papers, run again</title><style>{_STYLE}</style></head><body>",
        "<h1>The papers, run again</h1>",
        "<ul>",
        *(
            f'<li><a href="#r{number}">{escape(_title(result))}</a></li>'
            for number, result in enumerate(results)
        ),
        "</ul>",
    ]
    for number, result in enumerate(results):
        made += _section(number, result)
    return "\n".join([*made, "</body></html>\n"])


def _title(result: Result) -> str:
    return f"{result.experiment}, on {result.web.get('name', 'a web')}"


def _section(number: int, result: Result) -> list[str]:
    made = [f'<h2 id="r{number}">{escape(_title(result))}</h2>']
    made.append(f"<p>{escape(result.paper)}</p><p><b>Claim.</b> {escape(result.claim)}</p>")
    made += _pairs("The web", result.web)
    made += _pairs("Definitions", result.definitions)
    made += _table(result)
    made.append('<div class="figures">')
    made += [svg(figure) for figure in result.figures]
    made.append("</div>")
    return made


def _pairs(title: str, pairs: object) -> list[str]:
    assert hasattr(pairs, "items")
    rows = [f"<dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd>" for name, value in pairs.items()]
    return [f"<details><summary>{title}</summary><dl>", *rows, "</dl></details>"]


def _table(result: Result) -> list[str]:
    head, *rows = table(result.lines)
    made = ["<table><tr>", *(f"<th>{escape(cell)}</th>" for cell in head), "<th>why</th></tr>"]
    for line, cells in zip(result.lines, rows, strict=True):
        numbers = "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells[2:5])
        kind = "not" if cells[5].startswith("does not") else cells[5].split()[0]
        made.append(
            f"<tr><td>{escape(cells[0])}</td><td>{escape(cells[1])}</td>{numbers}"
            f'<td class="verdict {kind}">{escape(cells[5])}</td><td class="why">{escape(line.why)}</td></tr>'
        )
    return [*made, "</table>"]


def markdown(results: Sequence[Result]) -> str:
    """The same without figures, as Markdown."""
    made: list[str] = []
    for result in results:
        web = ", ".join(f"{name} {value}" for name, value in result.web.items() if name != "name")
        made += [
            f"## {_title(result)}",
            "",
            result.paper,
            "",
            f"*Claim.* {result.claim}",
            "",
            f"The web: {web}.",
            "",
        ]
        made += [f"- {name}: {text}" for name, text in result.definitions.items()]
        head, *rows = table(result.lines)
        made += ["", "| | " + " | ".join(head[1:]) + " |", "|:--|:--|--:|--:|--:|:--|"]
        made += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        whys = dict.fromkeys(line.why for line in result.lines if line.why)
        made += ["", *(f"- {why}" for why in whys), ""]
    return "\n".join(made)
