"""What Envoy is answered about each request: go on to the pod, or an answer in its place. And the door's own pages.

The answer about a pass is remembered for SECONDS. Whatever is not known to be allowed is refused.
"""

import base64
import binascii
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from posixpath import normpath
from typing import Final
from urllib.parse import quote, unquote, urlencode

from gpuaas.environments.door.envoy import OWN
from gpuaas.environments.door.passes import Admission, Verdict, hashed

SECONDS: Final = 2.0
LABEL: Final = re.compile(r"[0-9a-f]{32}")
SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")
# __Host-: bound to one host by the browser, which lets no other host set or read it
PREFIX: Final = "__Host-gpuaas-"
PASS, WAY = f"{PREFIX}pass", f"{PREFIX}way"
ENTRANCE: Final = "/open/{label}/"  # of the portal
WAY_SECONDS, PATH_MOST = 600, 1500
READS: Final = frozenset({"GET", "HEAD"})
FRAMES: Final = frozenset({"iframe", "frame", "object", "embed", "fencedframe"})
Headers = list[tuple[str, str]]


@dataclass(frozen=True)
class Asked:
    """headers: by their name in lower case, of one that came twice the values with commas, of cookies with semicolons.
    for_page: not whether it may go on, but what is answered."""

    method: str
    host: str
    path: str
    query: str
    headers: Mapping[str, str]
    for_page: bool = False

    @property
    def cookies(self) -> list[str]:
        return [each.strip() for each in self.headers.get("cookie", "").split(";") if each.strip()]

    def cookie(self, name: str) -> str:
        """The first, "" without."""
        return next((each.partition("=")[2] for each in self.cookies if each.partition("=")[0] == name), "")

    @property
    def is_socket(self) -> bool:
        return "sec-websocket-version" in self.headers

    @property
    def is_page(self) -> bool:
        """Whether a person looks at the answer, in a window of the browser."""
        accepted = "text/html" in self.headers.get("accept", "")
        return self.method in READS and not self.is_socket and accepted

    @property
    def is_foreign(self) -> bool:
        """Whether another site's page makes the browser ask, for anything but to go here. Hosts of other environments are
        the same site to a browser, which sends this one's cookies along."""
        said = self.headers.get("sec-fetch-site", "")
        if said in {"", "same-origin", "none"}:
            origin = self.headers.get("origin")
            changes = self.method not in READS or self.is_socket
            return changes and origin is not None and origin != f"https://{self.host}"
        goes = self.headers.get("sec-fetch-mode") == "navigate" and self.method in READS
        return not goes or self.headers.get("sec-fetch-dest") in FRAMES


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Headers = field(default_factory=list)
    body: str = ""


Find = Callable[[str, str], Awaitable[Admission | None]]
Exchange = Callable[[str, str, str], Awaitable[str | None]]


@dataclass
class Desk:
    """find: a pass by label and hash of its cookie. exchange: label, ticket and the browser's secret for a cookie."""

    domain: str
    portal: str
    find: Find
    exchange: Exchange
    # by the hash of the cookie: what was found, and when
    seen: dict[str, tuple[Admission, float]] = field(default_factory=dict)

    async def answer(self, asked: Asked) -> Answer:
        label = self.label_of(asked.host)
        if label is None:
            return _nowhere()
        if is_own(asked.path):
            return await self._own(label, asked) if asked.for_page else _nowhere()
        if asked.is_foreign:
            return _page(403, "Refused", "Another site asked for this in your name.")
        found = await self._found(label, asked.cookie(PASS))
        verdict = found.verdict if found is not None else Verdict.ENDED
        if found is None or verdict is Verdict.ENDED:
            return self._sign_in(label, asked)
        if verdict is Verdict.OUTSIDER:
            return _nowhere()
        if verdict is Verdict.ASLEEP:
            return (
                self._sign_in(label, asked)
                if asked.is_page
                else _page(503, "Not running", "Start the environment first.")
            )
        if asked.for_page:
            # it is ready, and Envoy is about to be told
            answer = _page(503, "One moment", "The environment is about to answer.")
            return Answer(503, [*answer.headers, ("refresh", "1"), ("retry-after", "1")], answer.body)
        return _onward(asked, found)

    def label_of(self, host: str) -> str | None:
        label, _, domain = host.partition(".")
        ours = domain.lower().partition(":")[0] == self.domain.partition(":")[0]
        return label if ours and LABEL.fullmatch(label) else None

    def remember(self, cookie: str, found: Admission) -> None:
        """By the hash of the cookie. One that no longer admits is forgotten, so that the next request asks anew."""
        if found.verdict is Verdict.ADMITTED:
            self.seen[cookie] = found, time.monotonic()
        else:
            self.seen.pop(cookie, None)

    async def _found(self, label: str, cookie: str) -> Admission | None:
        if not SECRET.fullmatch(cookie):
            return None
        key = hashed(cookie)
        known, since = self.seen.get(key, (None, 0.0))
        if known is None or time.monotonic() - since >= SECONDS:
            known = await self.find(label, key)
            if known is None:
                self.seen.pop(key, None)
                return None
            self.remember(key, known)
        return known if known.label == label else None

    async def _own(self, label: str, asked: Asked) -> Answer:
        """The way back from the portal, with a ticket."""
        if asked.path != f"{OWN}/enter" or asked.method not in READS:
            return _nowhere()
        browser, path = _way_read(asked.cookie(WAY))
        ticket = asked.query.removeprefix("ticket=")
        cookie = await self.exchange(label, ticket, browser) if browser and SECRET.fullmatch(ticket) else None
        if cookie is None:
            words = 'This way in was used already, or is too old. <a href="/">Open the environment again.</a>'
            return _page(403, "Not opened", words)
        return Answer(303, [_set(PASS, cookie), ("location", path), *SILENT])

    def _sign_in(self, label: str, asked: Asked) -> Answer:
        """To the portal and back to the path that was asked for. A program is told that it has to."""
        if not asked.is_page:
            return _page(401, "Not signed in", "Open the environment in a browser first.")
        browser, _ = _way_read(asked.cookie(WAY))  # kept, so that two windows may be on their way at once
        browser = browser or secrets.token_urlsafe(32)
        path = f"{asked.path}?{asked.query}" if asked.query else asked.path
        way = f"{browser}.{base64.urlsafe_b64encode(path[:PATH_MOST].encode()).decode()}"
        entrance = ENTRANCE.format(label=label)
        there = f"{self.portal.rstrip('/')}{entrance}?{urlencode({'browser': hashed(browser)})}"
        return Answer(303, [_set(WAY, way, f"; Max-Age={WAY_SECONDS}"), ("location", there), *SILENT])


# what the door itself says stays in no cache, and tells nobody where it was said
SILENT: Headers = [("cache-control", "no-store"), ("referrer-policy", "no-referrer")]


def is_own(path: str) -> bool:
    """However it is written: a pod must not be asked for it by another spelling."""
    plain = normpath("/" + unquote(unquote(path)).replace("\\", "/").lstrip("/")).lower()
    return f"{plain}/".startswith(f"{OWN}/")


def _onward(asked: Asked, found: Admission) -> Answer:
    """Without the door's cookies; `x-envoy-…` takes the header away where nothing else is in it."""
    others = [each for each in asked.cookies if PREFIX not in each]
    headers = [("x-gpuaas-user", quote(found.user, safe="@.+-_"))]
    if others:
        headers.append(("cookie", "; ".join(others)))
    else:
        headers.append(("x-envoy-auth-headers-to-remove", "cookie"))
    return Answer(200, headers)


def _way_read(value: str) -> tuple[str, str]:
    """The browser's secret, "" where there is none; and the path to go on to, which is one of this host."""
    browser, _, packed = value.partition(".")
    if not SECRET.fullmatch(browser):
        return "", "/"
    try:
        path = base64.b64decode(packed, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return browser, "/"
    fits = (
        path.startswith("/")
        and path.isprintable()
        and not re.match(r"/[/\\]|.*[\s\\]", path)
        and not is_own(path)
    )
    return browser, path if fits else "/"


def _set(name: str, value: str, more: str = "") -> tuple[str, str]:
    return "set-cookie", f"{name}={value}; Path=/; Secure; HttpOnly; SameSite=Lax{more}"


def _nowhere() -> Answer:
    return _page(404, "Not found", "There is nothing here, or nothing for you.")


def _page(status: int, title: str, words: str) -> Answer:
    """words: HTML."""
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
    style = "<style>body{font:1rem system-ui;margin:4rem auto;max-width:32rem;padding:0 1rem;color-scheme:light dark}</style>"
    body = f"{head}{style}<h1>{escape(title)}</h1><p>{words}</p></html>"
    return Answer(status, [("content-type", "text/html; charset=utf-8"), *SILENT], body)
