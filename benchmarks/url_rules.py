"""Rules about variants of URLs on real pages: which would be learned, and how many URLs they would join wrongly.

    python benchmarks/url_rules.py DIR DIR ... [--seed 1]

Each DIR is a site, served directly from its files; its pages (`*.html`) come in a random order, as in a crawl. A
rule that is sure is *wrong* for a URL if another page of its form has another text.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import defaultdict
from functools import partial
from pathlib import Path
from urllib.parse import quote, urldefrag, urljoin

from lycosa.content.variants import Evidence, Page, form_of, parse

_HREF = re.compile(rb"<a\s[^>]*?href=[\"']?([^\"'> ]+)", re.I)


def pages_of(directory: Path) -> list[Page]:
    site = f"http://{directory.name}.test/"
    found = []
    for path in sorted(directory.rglob("*.html")):
        if not path.is_file():
            continue
        url = site + quote(str(path.relative_to(directory)))
        body = path.read_bytes()[: 1 << 18]
        raw = (each.decode("latin-1") for each in _HREF.findall(body))
        links = {urldefrag(urljoin(url, each)).url for each in set(raw) if not each.startswith("#")}
        found.append(Page(url, body, "utf-8", partial(_linked, links)).read())
    return found


def _linked(links: set[str]) -> tuple[list[str], list[str]]:
    return sorted(links), []


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sites", type=Path, nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    pages = [page for site in args.sites for page in pages_of(site)]
    random.Random(args.seed).shuffle(pages)
    evidence = Evidence(room=len(pages) + 1)
    learned: dict[str, int] = {}
    for number, page in enumerate(pages):
        for verdict in evidence.meet(page, list(learned)):
            if verdict.support.is_sure:
                learned.setdefault(verdict.rule, number)
    print(f"{len(pages)} pages of {len(args.sites)} sites; {len(learned)} rules were sure at some time")
    for text in learned:
        rule, support = parse(text), evidence.rules[text]
        forms: dict[str, set[int]] = defaultdict(set)
        for page in pages:
            form = form_of(rule, page.url)
            if form is not None:
                forms[form].add(page.content.text)
        joined = sum(1 for page in pages if (form := form_of(rule, page.url)) and form != page.url)
        wrong = [form for form, texts in forms.items() if len(texts) > 1]
        state = "holds" if support.is_sure else f"withdrawn after {support.disagreed} disagreement(s)"
        print(f"{text}: {state}; {support.agreed} agreed, {joined} URLs of it, {len(wrong)} forms wrong")
        for form in wrong[:3]:
            print(f"    {form}")


if __name__ == "__main__":
    main()
