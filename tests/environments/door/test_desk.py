"""What the desk answers by keys, and what guessing costs: without an Envoy, and with a database that counts."""

import asyncio
import json
import secrets
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest

from gpuaas.environments.door.app import asked_of
from gpuaas.environments.door.desk import BY_KEY, ENTER, PASS, TRIES, WAY, Asked, Desk
from gpuaas.environments.door.pages import Answer, Asleep
from gpuaas.environments.door.passes import Admission, Verdict
from gpuaas.environments.services.access import hashed

WAITS = Asleep("starting", "Starting", "It <starts>.", 10)
LABEL, PAGE = "1" * 32, {"accept": "text/html", "sec-fetch-mode": "navigate"}
HERE, THERE = {"x-forwarded-for": "192.0.2.1"}, {"x-forwarded-for": "192.0.2.2"}


def key_new() -> str:
    return f"gpk_{secrets.token_hex(6)}_{'k' * 43}"


@dataclass
class Base:
    """known: what each secret is worth, by its hash. tickets: the cookie for each. cookie: for a key."""

    known: dict[str, Admission] = field(default_factory=dict)
    tickets: dict[str, str] = field(default_factory=dict)
    cookie: str = "c" * 43
    asked: int = 0
    woken: int = 0
    why: Asleep = WAITS
    away: bool = False

    def knows(self, secret: str, verdict: Verdict = Verdict.ADMITTED, key: str = "ci", user: str = "") -> str:
        found = Admission(hashed(secret), LABEL, uuid4(), verdict, user, key)
        self.known[hashed(secret)] = found
        return secret

    async def find(self, label: str, secret: str, by_key: bool, client: str | None) -> Admission | None:
        self.asked += 1
        if self.away:
            raise OSError("the database is away")
        found = self.known.get(secret)
        return found if found and found.label == label else None

    async def exchange(self, label: str, ticket: str, browser: str, client: str | None) -> str | None:
        self.asked += 1
        if self.away:
            raise OSError("the database is away")
        return self.tickets.get(ticket)

    async def by_key(self, label: str, key: str, client: str | None) -> str | None:
        self.asked += 1
        return self.cookie if hashed(key) in self.known else None

    async def wake(self, found: Admission, client: str | None) -> Asleep:
        self.woken += 1
        await asyncio.sleep(0)
        return self.why

    async def good(self) -> set[tuple[str, str]]:
        self.asked += 1
        return {(each.label, each.secret) for each in self.known.values() if each.key and each.is_good}

    def desk(self) -> Desk:
        asked = self.find, self.exchange, self.by_key, self.wake, self.good
        return Desk("apps.test", "https://portal.test", *asked)


def ask(
    desk: Desk,
    path: str = "/api",
    method: str = "GET",
    headers: dict[str, str] | None = None,
    *,
    own: bool = False,
    posted: str = "",
) -> Answer:
    plain, _, query = path.partition("?")
    host, sent = f"{LABEL}.apps.test", {**HERE, **(headers or {})}
    asked = Asked(method, host, plain, query, sent, for_page=own, posted=posted)
    return asyncio.run(desk.answer(asked))


def shown(desk: Desk, secret: str, **more: str) -> Answer:
    """A request with a pass."""
    return ask(desk, headers={"cookie": f"{PASS}={secret}", **more})


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def enter(desk: Desk, ticket: str, client: dict[str, str]) -> Answer:
    way = {"cookie": f"{WAY}={'b' * 43}.Lw=="}
    return ask(desk, f"{ENTER}?ticket={ticket}", headers={**way, **client}, own=True)


def guess(desk: Desk, kind: str, client: dict[str, str]) -> Answer:
    secret = secrets.token_urlsafe(32)
    if kind == "pass":
        return shown(desk, secret, **client)
    if kind == "key":
        return ask(desk, headers={**bearer(key_new()), **client})
    if kind == "form":
        return ask(desk, BY_KEY, "POST", client, own=True, posted=f"key={key_new()}")
    return enter(desk, secret, client)


def named(answer: Answer, name: str) -> str:
    return dict(answer.headers).get(name, "")


def test_a_key_goes_on_without_itself() -> None:
    base = Base()
    desk, key = base.desk(), base.knows(key_new())
    for words in (f"Bearer {key}", f"bearer  {key}"):
        answer = ask(desk, headers={"authorization": words})
        assert (answer.status, named(answer, "x-gpuaas-key")) == (200, "ci")
        assert named(answer, "x-envoy-auth-headers-to-remove") == "authorization,cookie"
        assert not named(answer, "x-gpuaas-user")
        assert key not in str(answer)
    assert base.asked == 1
    for words in (f"Basic x, Bearer {key}", f"Bearer {key}x", f"Bearer {key}, Bearer {key}", f"Token {key}"):
        assert ask(desk, headers={"authorization": words}).status == 401, words
        passed = shown(desk, base.knows("q" * 43, key="", user="bob"), authorization=words)
        assert named(passed, "x-envoy-auth-headers-to-remove") == "authorization,cookie"
    mine = shown(desk, base.knows("p" * 43, key="", user="alice"), **bearer("mine"))
    assert (mine.status, named(mine, "x-envoy-auth-headers-to-remove")) == (200, "cookie")


@pytest.mark.parametrize(
    ("path", "status"), [("/sw.js", 403), ("/sw.js?v=2", 403), ("/", 403), ("/lab/sw.js", 200)]
)
def test_a_worker_of_a_pod_serves_no_page_of_the_door(path: str, status: int) -> None:
    """It would read tickets, and keys as people type them."""
    base = Base()
    desk, mine = base.desk(), base.knows("p" * 43, key="", user="alice")
    cookie = {"cookie": f"{PASS}={mine}"}
    assert ask(desk, path, headers={**cookie, "service-worker": "script"}).status == status
    assert ask(desk, path, headers=cookie).status == 200, "other requests for it go on"


def test_a_wrong_key_is_worth_nothing_beside_a_good_pass() -> None:
    base = Base()
    desk, good = base.desk(), base.knows("p" * 43, key="", user="alice")
    assert shown(desk, good).status == 200
    assert shown(desk, good, **bearer(key_new())).status == 401
    cookies = f"{PASS}={good}; theme=dark; copied={base.knows(key_new())}"
    assert named(ask(desk, headers={"cookie": cookies}), "cookie") == "theme=dark"


def test_a_key_in_an_address_is_refused_whatever_it_is() -> None:
    base = Base()
    desk, key = base.desk(), base.knows(key_new())
    for path in (
        f"/api?key={key}",
        f"/{key}",
        f"/api?key=%67{key[1:]}",
        f"{BY_KEY}?key={key}",
        f"{ENTER}?ticket={key}",
    ):
        answer = ask(desk, path, headers={**bearer(key), **PAGE}, own=path.startswith("/.gpuaas"))
        assert (answer.status, key in str(answer)) == (400, False), path
    assert base.asked == 0


def test_the_form_is_the_same_everywhere_and_gives_a_pass_once_sent() -> None:
    base = Base()
    desk, key = base.desk(), base.knows(key_new())
    form = ask(desk, BY_KEY, headers=PAGE, own=True)
    assert (form.status, "<form" in form.body) == (200, True)
    assert "script-src 'sha256-" in named(form, "content-security-policy")
    assert ask(desk, BY_KEY).status == 404  # asked for leave, and not for the page
    sent = ask(desk, BY_KEY, "POST", own=True, posted=f"key={key}")
    assert (sent.status, named(sent, "location")) == (303, "/")
    assert named(sent, "set-cookie") == f"{PASS}={'c' * 43}; Path=/; Secure; HttpOnly; SameSite=Lax"
    for wrong in (f"key={key_new()}", "key=", "", f"key={key}x", "key=%00", f"other={key}"):
        refused = ask(desk, BY_KEY, "POST", own=True, posted=wrong)
        assert (refused.status, named(refused, "set-cookie"), key in refused.body) == (403, "", False), wrong
    other = "https://2.apps.test"
    assert ask(desk, BY_KEY, "POST", {"origin": other}, own=True, posted=f"key={key}").status == 403
    framed = {**PAGE, "sec-fetch-site": "cross-site", "sec-fetch-dest": "iframe"}
    assert ask(desk, BY_KEY, headers=framed, own=True).status == 403


@pytest.mark.parametrize("kind", ["pass", "key", "form", "ticket"])
def test_guesses_cost_no_more_than_a_bounded_number_of_queries(kind: str) -> None:
    base = Base()
    desk = base.desk()
    answers = [guess(desk, kind, HERE) for _ in range(3 * TRIES)]
    assert TRIES <= base.asked <= TRIES + 10  # a little comes back meanwhile
    assert answers[-1].status == 429
    assert int(named(answers[-1], "retry-after")) >= 1
    before = base.asked
    assert guess(desk, kind, THERE).status in {401, 403}, "another network is not slowed"
    assert base.asked == before + 1
    assert ask(desk).status == 401  # who shows nothing asks nothing
    assert base.asked == before + 1


def test_slowed_people_sign_in_and_those_inside_go_on() -> None:
    base = Base()
    desk = base.desk()
    inside, late = (base.knows(letter * 43, key="", user="alice") for letter in "pq")
    assert shown(desk, inside).status == 200
    for _ in range(2 * TRIES):
        guess(desk, "pass", HERE)
    desk.seen = {secret: (found, 0.0) for secret, (found, _) in desk.seen.items()}  # to be asked for again
    assert shown(desk, inside).status == 200
    assert shown(desk, late).status == 429
    page = shown(desk, late, **PAGE)
    assert (page.status, named(page, "location").startswith("https://portal.test/open/")) == (303, True)


@pytest.mark.parametrize("verdict", [Verdict.ADMITTED, Verdict.ASLEEP])
def test_a_good_key_is_not_refused_for_what_others_try(verdict: Verdict) -> None:
    """Not by a door that does not have it in memory either: one that has just started, or whose look has forgotten what sleeps."""
    base = Base()
    desk, good, ended = base.desk(), base.knows(key_new(), verdict), base.knows(key_new(), Verdict.ENDED)
    for kind in ("key", "form"):
        for _ in range(2 * TRIES):
            guess(desk, kind, HERE)
    asked = {Verdict.ADMITTED: 200, Verdict.ASLEEP: 503}[verdict]
    assert ask(desk, "/v1/models", headers=bearer(good)).status == asked
    desk.seen.clear()
    assert ask(desk, "/v1/models", headers=bearer(good)).status == asked
    assert ask(desk, BY_KEY, "POST", HERE, own=True, posted=f"key={good}").status == 303
    for wrong in (ended, key_new()):
        assert ask(desk, headers=bearer(wrong)).status == 429
    before = base.asked
    assert [guess(desk, "key", HERE).status for _ in range(TRIES)] == [429] * TRIES
    assert base.asked <= before + 3, "a little comes back meanwhile"


def test_a_good_key_of_another_host_is_a_guess() -> None:
    base = Base()
    desk, good = base.desk(), base.knows(key_new())
    base.known[hashed(good)] = replace(base.known[hashed(good)], label="2" * 32)
    assert [ask(desk, headers=bearer(good)).status for _ in range(2 * TRIES)][-1] == 429


def test_what_is_right_or_cannot_be_asked_counts_nothing() -> None:
    base = Base()
    desk = base.desk()
    for _ in range(2 * TRIES):
        assert ask(desk, headers=bearer(base.knows(key_new()))).status == 200
    base.away = True
    for kind in ("pass", "ticket"):
        for _ in range(2 * TRIES):
            with pytest.raises(OSError, match="away"):
                guess(desk, kind, HERE)


@pytest.mark.parametrize("kind", ["ticket", "form"])
def test_newcomers_get_in_however_many_they_are_and_whatever_others_guess(kind: str) -> None:
    base = Base()
    desk, key = base.desk(), base.knows(key_new())
    for _ in range(2 * TRIES):
        guess(desk, "pass", HERE)
    for _ in range(2 * TRIES):
        ticket, cookie = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        base.tickets[ticket] = base.cookie = base.knows(cookie, key="", user="alice")
        entered = (
            enter(desk, ticket, HERE)
            if kind == "ticket"
            else ask(desk, BY_KEY, "POST", own=True, posted=f"key={key}")
        )
        assert (entered.status, named(entered, "set-cookie").partition(";")[0]) == (303, f"{PASS}={cookie}")
        assert shown(desk, cookie, **PAGE).status == 200


@pytest.mark.parametrize("verdict", [Verdict.ENDED, Verdict.OUTSIDER, Verdict.ASLEEP])
def test_passes_that_no_longer_admit_are_bounded_too(verdict: Verdict) -> None:
    base = Base()
    desk, old = base.desk(), base.knows("p" * 43, verdict, key="", user="bob")
    answers = [shown(desk, old).status for _ in range(2 * TRIES)]
    assert answers[-1] == 429
    assert base.asked <= TRIES + 10


def test_a_key_wakes_what_sleeps_and_is_answered_as_openai_would() -> None:
    base = Base()
    desk, key = base.desk(), base.knows(key_new(), Verdict.ASLEEP)
    found = [ask(desk, "/v1/models", "POST", bearer(key), own=True) for _ in range(3 * TRIES)]
    assert {each.status for each in found} == {503}, "it is no guess"
    assert (base.asked, base.woken) == (1, 1)
    first = found[0]
    assert (named(first, "retry-after"), named(first, "x-should-retry")) == ("10", "")
    assert named(first, "content-type") == "application/json"
    error = {"message": "It <starts>.", "type": "service_unavailable", "param": None, "code": "starting"}
    assert json.loads(first.body) == {"error": error}
    desk.woken = {label: (task, 0.0) for label, (task, _) in desk.woken.items()}
    base.why = Asleep("stopped", "Not running", "Somebody has stopped it.")
    refused = ask(desk, headers=bearer(key))
    assert (named(refused, "retry-after"), named(refused, "x-should-retry")) == ("", "false")
    assert json.loads(refused.body)["error"]["code"] == "stopped"
    assert ask(desk, headers=bearer(key_new())).status == 401
    assert base.woken == 2
    base.knows(key)
    desk.seen = {}
    assert json.loads(ask(desk, headers=bearer(key), own=True).body)["error"]["code"] == "starting"
    assert (ask(desk, headers=bearer(key)).status, base.woken) == (200, 2)


def test_a_pass_for_a_key_wakes_by_pages_that_somebody_looks_at() -> None:
    base = Base()
    desk, mine = base.desk(), base.knows("p" * 43, Verdict.ASLEEP)
    assert shown(desk, mine).status == 503
    assert shown(desk, mine, **{**PAGE, "sec-purpose": "prefetch;prerender"}).status == 503
    assert base.woken == 0
    opened = shown(desk, mine, **PAGE)
    assert (opened.status, named(opened, "refresh"), base.woken) == (503, "10", 1)
    assert "It &lt;starts&gt;." in opened.body
    person = base.knows("q" * 43, Verdict.ASLEEP, key="", user="alice")
    assert shown(desk, person).status == 503
    assert shown(desk, person, **PAGE).status == 303, "the portal starts it for people"
    assert base.woken == 1


def test_the_client_is_who_envoy_says() -> None:
    """An IPv6 client is its /64. What Envoy adds about itself where it asks stands behind."""
    scope: dict[str, Any] = {"method": "GET", "raw_path": b"/", "query_string": b""}
    for said, network in (
        (b"192.0.2.1", "192.0.2.1"),
        (b"192.0.2.1,10.0.0.7", "192.0.2.1"),
        (b"2001:db8::1", "2001:db8::/64"),
        (b"", "-"),
    ):
        asked = asked_of({**scope, "headers": [(b"x-forwarded-for", said)]}, "")
        assert asked.network == network
