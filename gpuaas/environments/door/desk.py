"""What Envoy is answered about each request: go on to the pod, or an answer in its place. And the door's own pages.

The answer about a pass is remembered for SECONDS. Whatever is not known to be allowed is refused.
"""

import asyncio
import base64
import binascii
import math
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from posixpath import normpath
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlencode

from gpuaas.core.rate import Rate
from gpuaas.core.request import RequestInfo
from gpuaas.environments.door import pages
from gpuaas.environments.door.envoy import OWN
from gpuaas.environments.door.pages import ASLEEP, MOMENT, SILENT, Answer, Asleep, asleep, nowhere, page
from gpuaas.environments.door.passes import Admission, Verdict
from gpuaas.environments.services.access import KEY_FORM, hashed

SECONDS: Final = 2.0
LABEL: Final = re.compile(r"[0-9a-f]{32}")
SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")
BEARER: Final = re.compile(r"(?i:bearer) +(\S+)")
# __Host-: bound to one host by the browser, which lets no other host set or read it
PREFIX: Final = "__Host-gpuaas-"
PASS, WAY = f"{PREFIX}pass", f"{PREFIX}way"
ENTRANCE: Final = "/open/{label}/"  # of the portal
ENTER, BY_KEY = f"{OWN}/enter", f"{OWN}/key"
WAY_SECONDS, PATH_MOST = 600, 1500
# secrets that are not known here, of one kind and from one network, for which the database is asked in a minute
TRIES = 60
READS: Final = frozenset({"GET", "HEAD"})
FRAMES: Final = frozenset({"iframe", "frame", "object", "embed", "fencedframe"})


@dataclass(frozen=True)
class Asked:
    """headers: by their name in lower case, of one that came twice the values with commas, of cookies with semicolons.
    for_page: not whether it may go on, but what is answered. posted: the form, at an address of the door."""

    method: str
    host: str
    path: str
    query: str
    headers: Mapping[str, str]
    for_page: bool = False
    posted: str = ""

    @property
    def cookies(self) -> list[str]:
        return [each.strip() for each in self.headers.get("cookie", "").split(";") if each.strip()]

    def cookie(self, name: str) -> str:
        """The first, "" without."""
        return next((each.partition("=")[2] for each in self.cookies if each.partition("=")[0] == name), "")

    @property
    def key(self) -> str:
        """The one that it shows, "" without."""
        found = BEARER.fullmatch(self.headers.get("authorization", ""))
        return found[1] if found and KEY_FORM.fullmatch(found[1]) else ""

    @property
    def network(self) -> str:
        """Of the client, as Envoy sees it."""
        return RequestInfo(ip=self.address).network

    @property
    def address(self) -> str | None:
        """What the client says by that name is dropped before; behind the first Envoy adds itself where it asks."""
        return self.headers.get("x-forwarded-for", "").partition(",")[0].strip() or None

    @property
    def is_socket(self) -> bool:
        return "sec-websocket-version" in self.headers

    @property
    def is_page(self) -> bool:
        """Whether a person looks at the answer, in a window of the browser."""
        accepted = "text/html" in self.headers.get("accept", "")
        return self.method in READS and not self.is_socket and accepted

    @property
    def looks_ahead(self) -> bool:
        """Whether the browser asks before somebody wants to go there."""
        return "prefetch" in self.headers.get("sec-purpose", "")

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

    @property
    def is_worker_of_all(self) -> bool:
        """Whether a browser fetches a service worker that would serve this whole host, the door's own pages among it: one serves the
        folder of its script (https://www.w3.org/TR/service-workers/#service-worker-script-request)."""
        return self.headers.get("service-worker") == "script" and self.path.rfind("/") < 1


class TooOften(Exception):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


Find = Callable[[str, str, bool, str | None], Awaitable[Admission | None]]
Exchange = Callable[[str, str, str, str | None], Awaitable[str | None]]
ByKey = Callable[[str, str, str | None], Awaitable[str | None]]
Wake = Callable[[Admission, str | None], Coroutine[Any, Any, Asleep]]
Good = Callable[[], Coroutine[Any, Any, Collection[tuple[str, str]]]]


@dataclass
class Desk:
    """find: by label and hash, of a pass's cookie or (true) of a key. exchange: label, ticket and the browser's secret for a
    cookie. by_key: label and key for one. wake: what is good and does not run, for why not. Each gets the client's address.
    good: labels and hashes of all keys that are."""

    domain: str
    portal: str
    find: Find
    exchange: Exchange
    by_key: ByKey
    wake: Wake
    good: Good
    # by the hash of what was shown: what was found, and when
    seen: dict[str, tuple[Admission, float]] = field(default_factory=dict)
    # labels by hashes of what was shown since somebody last took note of it: what is remembered asks no database
    used: dict[str, str] = field(default_factory=dict)
    # the same since connections to the label were last ended: nobody else can have one
    connected: dict[str, str] = field(default_factory=dict)
    # by label: why it does not run, as a key was last answered, and when it was asked
    woken: dict[str, tuple[asyncio.Task[Asleep], float]] = field(default_factory=dict)
    rate: Rate = field(default_factory=Rate)
    # what `good` answered, and when it was asked
    all_good: tuple[asyncio.Task[Collection[tuple[str, str]]] | None, float] = None, 0.0

    async def answer(self, asked: Asked) -> Answer:
        label = self.label_of(asked.host)
        if label is None:
            return nowhere()
        own = is_own(asked.path)
        if own and not asked.for_page:
            return nowhere()
        if asked.is_foreign and asked.path != ENTER:
            return page(403, "Refused", "Another site asked for this in your name.")
        if asked.is_worker_of_all:
            return page(
                403,
                "Refused",
                "A service worker at the root would see how people sign in: put it into a folder.",
            )
        if has_key(f"{asked.path}?{asked.query}"):
            return page(
                400, "Refused", "An address with a key in it stays in histories and logs. Revoke that key."
            )
        try:
            return await (self._own(label, asked) if own else self._passed(label, asked))
        except TooOften as error:
            if asked.is_page and not own and not asked.key:
                return self._sign_in(label, asked)
            return pages.later(math.ceil(error.seconds))

    async def _passed(self, label: str, asked: Asked) -> Answer:
        found = await self._found(label, asked)
        verdict = found.verdict if found is not None else Verdict.ENDED
        if found is None or verdict is Verdict.ENDED:
            return self._sign_in(label, asked)
        if verdict is Verdict.OUTSIDER:
            return nowhere()
        if verdict is Verdict.ASLEEP:
            if asked.is_page and not found.key:
                return self._sign_in(label, asked)
            return asleep(await self._why(found, asked), for_person=asked.is_page or not asked.key)
        if asked.for_page:
            return asleep(MOMENT, for_person=asked.is_page or not asked.key)
        return _onward(asked, found)

    async def _why(self, found: Admission, asked: Asked) -> Asleep:
        """One that was stopped for want of use starts by a key; where that was exchanged for a pass, by a page that somebody
        looks at. However many ask at once, the database is asked once."""
        if not (asked.key or (found.key and asked.is_page and not asked.looks_ahead)):
            return ASLEEP
        task, since = self.woken.get(found.label, (None, 0.0))
        if task is None or (task.done() and time.monotonic() - since >= SECONDS):
            task = asyncio.create_task(self.wake(found, asked.address))
            self.woken[found.label] = task, time.monotonic()
        return await asyncio.shield(task)

    def label_of(self, host: str) -> str | None:
        label, _, domain = host.partition(".")
        ours = domain.lower().partition(":")[0] == self.domain.partition(":")[0]
        return label if ours and LABEL.fullmatch(label) else None

    def remember(self, found: Admission) -> None:
        """One that is worth nothing is forgotten, so that the next request asks anew."""
        if found.is_good:
            self.seen[found.secret] = found, time.monotonic()
        else:
            self.seen.pop(found.secret, None)

    async def _counted(self, kind: str, asked: Asked, label: str, key: str = "") -> str:
        """A try, before the database is asked; by the name that takes it back, "" where it was not counted. key: the hash of one,
        which is not refused for what others try. Raises TooOften."""
        caller = f"{kind} {asked.network}"
        wait = self.rate.seconds_to_wait(caller, most=TRIES)
        if not wait:
            return caller
        if key and (label, key) in await self._all_good():
            return ""
        raise TooOften(wait)

    async def _all_good(self) -> Collection[tuple[str, str]]:
        """However many guess, the database is asked once in SECONDS."""
        task, since = self.all_good
        if task is None or (task.done() and time.monotonic() - since >= SECONDS):
            task = asyncio.create_task(self.good())
            self.all_good = task, time.monotonic()
        return await asyncio.shield(task)

    async def _found(self, label: str, asked: Asked) -> Admission | None:
        """By the key, where one is shown, else by the pass. Known ones are never slowed by somebody else's tries."""
        by_key, shown = bool(asked.key), asked.key or asked.cookie(PASS)
        if not by_key and not SECRET.fullmatch(shown):
            return None
        secret = hashed(shown)
        known, since = self.seen.get(secret, (None, 0.0))
        if known is None or time.monotonic() - since >= SECONDS:
            caller = ""
            if not known:
                caller = await self._counted(
                    "key" if by_key else "pass", asked, label, secret if by_key else ""
                )
            try:
                known = await self.find(label, secret, by_key, asked.address)
            except Exception:
                self.rate.take_back(caller)
                raise
            if known is None:
                self.seen.pop(secret, None)
                return None
            self.remember(known)
            if caller and known.is_good:
                self.rate.take_back(caller)
        if known.label != label:
            return None
        if known.verdict is Verdict.ADMITTED:
            self.used[secret] = self.connected[secret] = label
        return known

    async def _own(self, label: str, asked: Asked) -> Answer:
        """The way back from the portal, with a ticket; and the form for a key."""
        if asked.path == BY_KEY:
            return await self._by_key(label, asked)
        if asked.path != ENTER or asked.method not in READS:
            return nowhere()
        browser, path = _way_read(asked.cookie(WAY))
        ticket, cookie = asked.query.removeprefix("ticket="), None
        if browser and SECRET.fullmatch(ticket):
            trade = partial(self.exchange, label, ticket, browser, asked.address)
            cookie = await self._traded(label, asked, await self._counted("ticket", asked, label), trade)
        if cookie is None:
            words = 'This way in was used already, or is too old. <a href="/">Open the environment again.</a>'
            return page(403, "Not opened", words)
        return Answer(303, [_set(PASS, cookie), ("location", path), *SILENT])

    async def _by_key(self, label: str, asked: Asked) -> Answer:
        """The form is the same for every host, whether there is one or not."""
        if asked.method in READS:
            return pages.key_form()
        if asked.method != "POST":
            return nowhere()
        shown = parse_qs(asked.posted).get("key", [""])[0].strip()
        cookie = None
        if KEY_FORM.fullmatch(shown):
            trade = partial(self.by_key, label, shown, asked.address)
            caller = await self._counted("form", asked, label, hashed(shown))
            cookie = await self._traded(label, asked, caller, trade)
        if cookie is None:
            return pages.key_form("This key does not open this address.")
        return Answer(303, [_set(PASS, cookie), ("location", "/"), *SILENT])

    async def _traded(
        self, label: str, asked: Asked, caller: str, trade: Callable[[], Awaitable[str | None]]
    ) -> str | None:
        """The cookie for a ticket or for a key of the form. Its pass is known from then on: people whose network guesses would
        otherwise come back for another one without end."""
        try:
            cookie = await trade()
        except Exception:
            self.rate.take_back(caller)
            raise
        if cookie is None:
            return None
        self.rate.take_back(caller)
        if found := await self.find(label, hashed(cookie), False, asked.address):  # noqa: FBT003  as `Find`
            self.remember(found)
        return cookie

    def _sign_in(self, label: str, asked: Asked) -> Answer:
        """To the portal and back to the path that was asked for. A program is told that it has to."""
        if asked.key or not asked.is_page:
            return page(
                401, "Not signed in", "Open the environment in a browser first, or send a key that opens it."
            )
        browser, _ = _way_read(asked.cookie(WAY))  # kept, so that two windows may be on their way at once
        browser = browser or secrets.token_urlsafe(32)
        path = f"{asked.path}?{asked.query}" if asked.query else asked.path
        way = f"{browser}.{base64.urlsafe_b64encode(path[:PATH_MOST].encode()).decode()}"
        entrance = ENTRANCE.format(label=label)
        there = f"{self.portal.rstrip('/')}{entrance}?{urlencode({'browser': hashed(browser)})}"
        return Answer(303, [_set(WAY, way, f"; Max-Age={WAY_SECONDS}"), ("location", there), *SILENT])


def is_own(path: str) -> bool:
    """However it is written: a pod must not be asked for it by another spelling."""
    plain = normpath("/" + unquote(unquote(path)).replace("\\", "/").lstrip("/")).lower()
    return f"{plain}/".startswith(f"{OWN}/")


def has_key(text: str) -> bool:
    """Whether what may be one stands anywhere in it: right or wrong, it is for no pod and for no log."""
    return KEY_FORM.search(unquote(text)) is not None


def _onward(asked: Asked, found: Admission) -> Answer:
    """Without the door's cookies and keys; `x-envoy-…` takes a header away where nothing else is in it."""
    others = [each for each in asked.cookies if PREFIX not in each and not has_key(each)]
    name, whose = ("x-gpuaas-key", found.key) if found.key else ("x-gpuaas-user", found.user)
    headers, gone = (
        [(name, quote(whose, safe="@.+-_"))],
        ["authorization"] if has_key(asked.headers.get("authorization", "")) else [],
    )
    if others:
        headers.append(("cookie", "; ".join(others)))
    else:
        gone.append("cookie")
    if gone:
        headers.append(("x-envoy-auth-headers-to-remove", ",".join(gone)))
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
