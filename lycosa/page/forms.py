"""Login forms: finding one in a page, filling it in, and recognising it in an answer.

    form = filled(body, charset, url, selector, values, secret_names)   a `Filled`, or the reason why there is none
    asks_again(body, charset, secret_names)                             whether the answer has such a form again

The form is the one that `selector` (CSS) names, else the only one with a password field. Its own fields (hidden
ones, above all tokens against forged requests) are sent as they are, with the operator's values in place of its
own, and its first named button. A form is only filled in if it is safe to send: by POST, to the page's own host,
and not from https to http; a password goes into a field of that type, and comes from a secret.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from lycosa.page.tree import tree_of
from lycosa.url.canonical import canonicalise
from lycosa.url.parts import host_of

if TYPE_CHECKING:
    from turbohtml import Element

_URLENCODED = "application/x-www-form-urlencoded"


class Filled(NamedTuple):
    """A form that can be sent."""

    action: str
    body: bytes


def filled(
    body: bytes, charset: str, url: str, selector: str, values: Mapping[str, str], secret: Collection[str]
) -> Filled | str:
    """The form of a page with these values in it. `secret`: the names of those that are secrets."""
    tree = tree_of(body, charset)
    form = _chosen(tree.select("form"), selector)
    if isinstance(form, str):
        return form
    if (form.attr("method") or "get").strip().lower() != "post":
        return "its form is not sent by POST: what is filled in would stand in a URL"
    if (form.attr("enctype") or _URLENCODED).strip().lower() != _URLENCODED:
        return f"its form is sent as {(form.attr('enctype') or '')[:60]!r}, and only {_URLENCODED} can be"
    base = tree.select_one("base[href]")
    root = url if base is None else canonicalise(base.attr("href") or "", url) or url
    action = canonicalise(form.attr("action") or "", root) if form.attr("action") else url
    if action is None or host_of(action) != host_of(url):
        return f"its form is sent to another host ({(form.attr('action') or '')[:120]!r})"
    if url.startswith("https:") and not action.startswith("https:"):
        return "its form is sent over plain http"
    passwords = {field.attr("name") or "" for field in form.select("input[type=password i]")}
    if open_ones := sorted(passwords & (values.keys() - set(secret))):
        return f"the field {open_ones[0]!r} is a password: give it under secrets, not under fields"
    pairs = [(name, value) for name, value in form.form_data() if name not in values]
    named = {field.attr("name") or "" for field in form.select("input, select, textarea, button")}
    if missing := sorted(values.keys() - named):
        has = ", ".join(sorted(named - {""})[:12])
        return f"its form has no field {missing[0]!r} (it has {has or 'none'})"
    button = form.select_one(
        "button[name]:not([type=button i]):not([type=reset i]), input[type=submit i][name]"
    )
    if button is not None and button.attr("name") not in values:
        pairs.append((button.attr("name") or "", button.attr("value") or ""))
    pairs += values.items()
    return Filled(action, _encoded(pairs, charset))


def asks_again(body: bytes, charset: str, secret: Collection[str]) -> bool:
    """Whether a page has a form with these password fields, hence is a page for those not logged in."""
    for field in tree_of(body, charset).select("form input[type=password i]"):
        if field.attr("name") in secret:
            return True
    return False


def _chosen(forms: list[Element], selector: str) -> Element | str:
    if selector:
        try:
            forms = [form for form in forms if form.matches(selector)]
        except ValueError as error:
            return f"{selector!r} is not a selector of CSS: {error}"[:200]
        if not forms:
            return f"it has no form {selector!r}"
        return forms[0]
    forms = [form for form in forms if form.select_one("input[type=password i]") is not None]
    if not forms:
        return "it has no form with a password (is it made by a script?)"
    if len(forms) > 1:
        return f"it has {len(forms)} forms with a password: say which by form = a CSS selector"
    return forms[0]


def _encoded(pairs: list[tuple[str, str]], charset: str) -> bytes:
    try:
        return urlencode(pairs, encoding=charset, errors="xmlcharrefreplace").encode("ascii")
    except LookupError:
        return urlencode(pairs).encode("ascii")
