"""What tenants ask for by REST while the portal breaks: again with the same key until it is answered, as a program should."""

import json
import random
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from http.client import HTTPException
from typing import Any

from tests.e2e.portal import wait_until
from tests.reliability.world import PROJECTS, SICK, SITES

AT_ONCE = 8
ANSWER_SECONDS = 15  # then the request is sent once more, to any of the web processes
GIVE_UP_SECONDS = 120  # one request, times PATIENCE
FOR_GOOD = {"quota_exceeded", "no_capacity"}
CLUSTERS, SLOW = 0.06, 0.06  # so much of all goes there
DELETED, SUSPENDED = 0.35, 0.15  # in the end


@dataclass(frozen=True)
class Wish:
    """One thing that is asked for, and what is to become of it. again: the request is sent once more after its answer."""

    number: int
    kind: str
    project: str
    site: str
    end: str
    count: int
    again: bool

    @property
    def name(self) -> str:
        return f"r-{self.number}"


def wishes(dice: random.Random, count: int) -> list[Wish]:
    return [_wish(dice, number) for number in range(count)]


def _wish(dice: random.Random, number: int) -> Wish:
    cluster = dice.random() < CLUSTERS
    sites = [SICK] if dice.random() < SLOW else sorted(set(SITES) - {SICK})
    site = "ber-1" if cluster else dice.choice(sites)
    fate = dice.random()
    end = "deleted" if fate < DELETED else "ready"
    if DELETED < fate < DELETED + SUSPENDED and not cluster and site != SICK:
        end = "suspended"
    project = dice.choice(sorted(PROJECTS))
    kind = "clusters" if cluster else "workspaces"
    return Wish(number, kind, project, site, end, dice.choice((1, 1, 1, 2)), dice.random() < 0.3)


@dataclass
class Load:
    """Sends every wish. accepted: what a 2xx answered; refused: how many were, by the error's code."""

    urls: Sequence[str]
    tokens: dict[str, str]
    flavors: dict[str, str]
    dice: random.Random
    accepted: list[dict[str, Any]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, wanted: Sequence[Wish]) -> None:
        """Asks for all, and for the end of those that are to be deleted, in whatever state they are."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._one, wanted))

    def suspend(self) -> None:
        """What is to be suspended, as soon as it is ready."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._suspend, [row for row in self.accepted if row["end"] == "suspended"]))

    def _one(self, wish: Wish) -> None:
        home = f"/projects/{wish.project}/{wish.kind}"
        key = f"make-{wish.number}"
        status, made = self._until_answered(wish.project, "POST", home, self._body(wish), key=key)
        if status >= 300:
            with self._lock:
                self.refused[made["error"]["code"]] += 1
            return
        if wish.again:
            _, same = self._until_answered(wish.project, "POST", home, self._body(wish), key=key)
            assert same["id"] == made["id"], "a repeated request has the same answer"
        with self._lock:
            self.accepted.append({"id": made["id"], "name": wish.name, **asdict(wish)})
        if wish.end == "deleted":
            place = f"{home}/{made['id']}"
            self._until_it_goes(wish.project, "DELETE", place, place, {"deleting", "deleted"})

    def _suspend(self, row: dict[str, Any]) -> None:
        place = f"/projects/{row['project']}/{row['kind']}/{row['id']}"
        states = {"suspending", "suspended"}
        self._until_it_goes(row["project"], "POST", f"{place}/suspend", place, states)

    def _until_it_goes(self, project: str, method: str, path: str, place: str, states: set[str]) -> None:
        """Asked again while the state does not allow it yet; a lost answer is read off the state."""
        body: object = {} if method == "POST" else None

        def goes() -> bool:
            status, _ = self._until_answered(project, method, path, body, key=str(uuid.uuid4()))
            if status < 300 or self._until_answered(project, "GET", place)[1]["state"] in states:
                return True
            time.sleep(1)  # the pace of a program that was told to come again
            return False

        wait_until(f"{method} {path}", goes, seconds=GIVE_UP_SECONDS)

    def _body(self, wish: Wish) -> dict[str, Any]:
        if wish.kind == "clusters":
            return {
                "template": "kubernetes",
                "name": wish.name,
                "document": {"pools": {"gpu": {"count": wish.count}}},
            }
        items = [{"flavor": self.flavors[wish.site], "count": wish.count}]
        return {"name": wish.name, "items": items, "storage_gib": 10}

    def _until_answered(
        self, project: str, method: str, path: str, body: object = None, *, key: str = ""
    ) -> tuple[int, Any]:
        """The first answer that says what became of the request: 2xx, or a refusal."""
        call = self._call(project, method, path, body, key)
        return wait_until(f"an answer to {method} {path}", call, seconds=GIVE_UP_SECONDS)

    def _call(
        self, project: str, method: str, path: str, body: object, key: str
    ) -> Callable[[], tuple[int, Any] | None]:
        headers = {"Authorization": f"Bearer {self.tokens[project]}", "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        data = None if body is None else json.dumps(body).encode()

        def once() -> tuple[int, Any] | None:
            url = f"{self.dice.choice(self.urls)}/api/v1{path}"
            try:
                request = urllib.request.Request(url, data, headers, method=method)
                with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:
                    return response.status, json.loads(response.read())
            except urllib.error.HTTPError as error:
                said = _said(error)
                if error.code < 500 and said["error"]["code"] not in {"idempotency_in_progress", "throttled"}:
                    return error.code, said
            except (OSError, HTTPException, ValueError):
                pass  # the process was killed, is paused or is not back yet
            with self._lock:
                self.repeated += 1
            return None

        return once


def _said(error: urllib.error.HTTPError) -> Any:
    try:
        return json.loads(error.read())
    except (OSError, HTTPException, ValueError):
        return {"error": {"code": "throttled"}}  # cut off in the middle: asked again
