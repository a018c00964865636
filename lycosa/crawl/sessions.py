"""Sessions: the cookies of single sites, and logging in there by a form.

`[site."HOST"]` configures whether a host's cookies are kept, `cookies`: for this `run`, or `kept` for later ones,
too; and with `login` how to log in. A session belongs to one host: cookies set by one host are sent to no other.

    sessions/HOST.txt      cookies of a host, in Netscape's format, if they are kept

Logging in, at the first visit: the page is fetched, its form filled in (`lycosa.page.forms`) and posted, and
redirects on the host are followed, as by a browser, each request as polite as any other of the visit. Robots
rules are not applied to these: the operator has an account there. None of these exchanges is archived.

    in              the last answer has no such form
    out             it has one, or the form's answer was an error: the operator must resolve it, since trying again
                    with the same password locks accounts. The site's URLs are skipped (`login`).
    not reached     tried again at later visits, `attempts` times in all; then as above

A page that redirects to the login page, or answers 401, means that the session has ended: the login is repeated and
the page fetched again. If the answer is the same once more, the page is accepted as it is; after `attempts` such
repetitions in vain the login is not repeated any more in this run.

While a site has a login, URLs that look like a logout are skipped (`login`).

Secrets are stored where `lycosa.fetch.secrets` says, are read when a login begins, and are in no record, message or
archive; nor are the session's cookies: requests and answers are archived without their values.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum

import msgspec

from lycosa.clock import Clock
from lycosa.crawl.site_options import LoginOptions, Setting, SiteOptions
from lycosa.errors import ConfigError
from lycosa.fetch import secrets
from lycosa.fetch.cookies import HostCookies, hidden
from lycosa.fetch.protocol import Failure, Response
from lycosa.files import Files, write_whole
from lycosa.page.charset import charset_of
from lycosa.page.forms import asks_again, filled
from lycosa.page.sniff import declared
from lycosa.url.canonical import canonicalise
from lycosa.url.parts import host_of, path_of, site_of

_HOPS = 5
_MOST = 10_000
"""Hosts whose cookies are kept in memory."""
_PLACE = "sessions"
_AGAIN = (429, 500, 502, 503, 504)
_REDIRECTS = (301, 302, 303, 307, 308)
_LOGOUT = re.compile(r"(?:^|[/?&=_.-])(?:log|sign)[_-]?(?:out|off)(?:$|[/?&=_.;-])", re.IGNORECASE)

Ask = Callable[[str, bytes | None], Awaitable[Response | Failure | None]]
"""Fetches a URL of the session's host, or posts a form to it. None: not now, for a reason of ours."""


class _Unwell(str):
    """A problem that may be temporary."""


class Came(Enum):
    """The result of a login."""

    IN = "in"
    OUT = "out"
    LATER = "later"


class Session:
    """The session of one host."""

    def __init__(self, host: str, setting: Setting, cookies: HostCookies) -> None:
        self.host = host
        self.login: LoginOptions | None = setting.login
        self.cookies = cookies
        self.logged_in = bool(len(cookies))  # from an earlier run: the site will tell if they are too old
        self.problem = ""
        """Why logging in is impossible, for the operator."""
        self.failures = 0
        self._fresh = False
        self._in_vain = 0

    def sent(self, url: str, now: float) -> str:
        """The value of the Cookie header of a request."""
        return self.cookies.header(path_of(url), url.startswith("https:"), now)

    def took(self, answer: Response, now: float) -> Response:
        """Keep an answer's cookies; returns the answer as it may be archived."""
        lines = answer.headers("set-cookie")
        for line in lines:
            self.cookies.take(line, path_of(answer.url), answer.url.startswith("https:"), now)
        return msgspec.structs.replace(answer, head=hidden(answer.head)) if lines else answer

    def refuses(self, url: str) -> str:
        """The reason why a URL is not requested; empty if it may be."""
        if self.login is None:
            return ""
        if self.problem:
            return self.problem
        return "it looks like a logout, and the crawl is logged in" if looks_like_logout(url) else ""

    def ended(self, url: str, answer: Response) -> bool:
        """Whether an answer means that the session has ended, and a login may help."""
        if self.login is None:
            return False
        out = _same_page(url, self.login.page) is False and _says_out(url, answer, self.login.page)
        fresh, self._fresh = self._fresh, False
        if not out:
            self._in_vain = 0 if fresh else self._in_vain
            return False
        self._in_vain += fresh
        if fresh or self._in_vain >= self.login.attempts:
            return False
        self.logged_in = False
        return True

    async def log_in(self, ask: Ask) -> Came:
        """Log in; if that is given up, `problem` tells why."""
        assert self.login is not None
        self.cookies.clear()
        self.logged_in = False
        try:
            found = await self._log_in(self.login, ask)
        except ConfigError as error:
            found = str(error)
        if found is Came.LATER:
            return Came.LATER
        if isinstance(found, Failure):
            words = f"{found.kind}: {found.detail}"
            found = _Unwell(words) if found.transient else words
        if isinstance(found, _Unwell):
            self.failures += 1
            if self.failures < self.login.attempts:
                return Came.LATER
        if isinstance(found, str):
            self.problem = f"no login at {self.host}: {found}"[:300]
            return Came.OUT
        self.failures, self.logged_in, self._fresh = 0, True, True
        return Came.IN

    async def _log_in(self, login: LoginOptions, ask: Ask) -> Came | Failure | str:
        values = {**login.fields}
        for name, place in login.secrets.items():
            values[name] = secrets.revealed(place, f"site {self.host}: login.secrets.{name}")
        answer = await ask(login.page, None)
        if not isinstance(answer, Response):
            return Came.LATER if answer is None else answer
        if answer.status != 200:
            words = f"{login.page} answered with status {answer.status}"
            return _Unwell(words) if answer.status in _AGAIN else words
        form = filled(answer.decoded, _charset(answer), login.page, login.form, values, login.secrets)
        if isinstance(form, str):
            return f"{login.page}: {form}"
        answer = await ask(form.action, form.body)
        for _ in range(_HOPS):
            if not isinstance(answer, Response):
                return Came.LATER if answer is None else answer
            if answer.status >= 400:
                break
            target = _target(answer)
            if target is None or host_of(target) != self.host:
                break
            answer = await ask(target, None)
        assert isinstance(answer, Response)
        if answer.url == form.action and answer.status >= 400:
            return f"the form was answered with status {answer.status}: check its fields and secrets"
        if asks_again(answer.decoded, _charset(answer), login.secrets):
            return "the site asks for the password again: check fields and secrets"
        return Came.IN


class Sessions:
    """The sessions of an agent."""

    def __init__(self, files: Files | None, clock: Clock) -> None:
        self._files = None if files is None else files.within(_PLACE)
        self._clock = clock
        self._sessions: dict[str, Session] = {}

    def of(self, host: str, setting: Setting) -> Session | None:
        """The session of a host; None if it has none."""
        if setting.cookies == "none" and setting.login is None:
            return None
        found = self._sessions.get(host)
        if found is None or found.login != setting.login:
            if len(self._sessions) >= _MOST:
                del self._sessions[next(iter(self._sessions))]
            found = self._sessions[host] = Session(
                host, setting, HostCookies(host, self._kept(host, setting))
            )
        return found

    async def save(self, host: str, setting: Setting) -> None:
        """Save a host's cookies, if configured and anything has changed."""
        session = self._sessions.get(host)
        if session is None or not self._keeps(setting) or not session.cookies.changed:
            return
        assert self._files is not None
        await asyncio.to_thread(write_whole, self._files, f"{host}.txt", session.cookies.dump())

    def _keeps(self, setting: Setting) -> bool:
        return setting.cookies == "kept" and self._files is not None

    def _kept(self, host: str, setting: Setting) -> bytes:
        if not self._keeps(setting) or self._files is None or not self._files.exists(f"{host}.txt"):
            return b""
        return self._files.read(f"{host}.txt")


def demand_secrets(tables: Mapping[str, SiteOptions]) -> None:
    """Raise now any `ConfigError` that a login would raise later, while the crawl runs."""
    for host, table in tables.items():
        for name, place in table.login.secrets.items() if table.login is not None else ():
            secrets.revealed(place, f"site {host}: login.secrets.{name}")


def looks_like_logout(url: str) -> bool:
    """Whether a URL probably logs out, so that a logged-in client should not request it."""
    return _LOGOUT.search(path_of(url)) is not None


def _charset(answer: Response) -> str:
    return charset_of(answer.decoded, declared(answer.header("content-type")).charset, html=True)


def _target(answer: Response) -> str | None:
    if answer.status not in _REDIRECTS or not answer.location:
        return None
    return canonicalise(answer.location, answer.url)


def _same_page(url: str, page: str) -> bool:
    """Whether two URLs are equal except for their queries."""
    return site_of(url) == site_of(page) and path_of(url).partition("?")[0] == path_of(page).partition("?")[0]


def _says_out(url: str, answer: Response, page: str) -> bool:
    if answer.status == 401:
        return True
    target = _target(answer)
    return target is not None and _same_page(target, page)
