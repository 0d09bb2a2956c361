"""What a page shows can be done: every link is followed and every form sent, as each kind of reader; none is refused.

A service may still say that it cannot be done now (409, 422); that somebody may not (403), or that there is no such thing
(404), is a fault of the page.
"""

from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse

from gpuaas.clusters.models import Cluster
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.pages.conftest import signed_in
from tests.frontend.pages.test_outsiders import NAMED, POSTED, SCOPED

READERS = ("alice", "bob", "dora", "pia", "bill", "olga", "ada")
REFUSED = {403, 404}
# the way out of the portal, and pages of another room
ELSEWHERE = ("/accounts/", "/api/", "/static/")


class Shown(HTMLParser):
    """Links and forms of a page: (method, address, what a form posts)."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.forms: list[tuple[str, str, dict[str, str]]] = []
        self._open: tuple[str, str, dict[str, str]] | None = None
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        at = {name: value or "" for name, value in attrs}
        if tag == "a" and at.get("href", "").startswith(("/", "?")):
            self.links.add(at["href"])
        if "hx-get" in at:
            self.links.add(at["hx-get"])
        if tag == "form":
            self._open = (at.get("method", "get").lower(), at.get("action", ""), {})
            self.forms.append(self._open)
        if "hx-post" in at:
            self.forms.append(("post", at["hx-post"], self._open[2] if self._open else {}))
        if self._open:
            self._fill(tag, at)

    def _fill(self, tag: str, at: dict[str, str]) -> None:
        values = self._open[2] if self._open else {}
        if tag == "select":
            self._select = at.get("name", "")
        elif tag == "option" and self._select and ("selected" in at or self._select not in values):
            values[self._select] = at.get("value", "")
        elif tag in {"input", "button"} and at.get("name") and _is_sent(at):
            values.setdefault(at["name"], at.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None
        elif tag == "select":
            self._select = ""


def _is_sent(at: dict[str, str]) -> bool:
    return at.get("type") not in {"checkbox", "radio"} or "checked" in at


def addresses(known: dict[str, object]) -> Iterator[str]:
    """Every page of the project and its organization that is looked at."""
    yield reverse("frontend:account")
    yield reverse("frontend:keys")
    for name in SCOPED:
        if name in POSTED or name.endswith(("_csv", "_pdf")):
            continue
        if known.keys() >= NAMED[name]:
            yield reverse(f"frontend:{name}", kwargs={key: known[key] for key in NAMED[name]})


def is_ours(url: str) -> bool:
    return not url.startswith(ELSEWHERE)


class Swept:
    """What is refused of all that `pages` show, as `page: METHOD address`, and how many of them open. Nothing that is sent stays, so
    each address is asked for once."""

    def __init__(self, client: Client, pages: list[str]) -> None:
        self.client = client
        self.refused: list[str] = []
        self._got: dict[str, tuple[int, str]] = {}
        self._sent: set[str] = set()
        for page in pages:
            self._sweep(page)
        self.open = sum(self._get(page)[0] == 200 for page in pages)

    def _get(self, url: str) -> tuple[int, str]:
        if url not in self._got:
            answer = self.client.get(url)
            is_page = answer.status_code == 200 and not answer.streaming
            self._got[url] = answer.status_code, answer.content.decode(errors="replace") if is_page else ""
        return self._got[url]

    def _sweep(self, page: str) -> None:
        shown, path = Shown(), urlsplit(page).path
        shown.feed(self._get(page)[1])
        for link in sorted(shown.links):
            url = f"{path}{link}" if link.startswith("?") else link
            if is_ours(url) and self._get(url)[0] in REFUSED:
                self.refused.append(f"{path}: GET {url}")
        for method, action, values in shown.forms:
            url = action or path
            if url in self._sent or method != "post" or not is_ours(url):
                continue
            self._sent.add(url)
            with transaction.atomic():
                if self.client.post(url, values).status_code in REFUSED:
                    self.refused.append(f"{path}: POST {url}")
                transaction.set_rollback(True)


@pytest.mark.parametrize("reader", READERS)
def test_nothing_is_shown_that_is_then_refused(
    reader: str, people: dict[str, User], known: dict[str, object]
) -> None:
    client = signed_in(people[reader])
    client.raise_request_exception = False
    found = Swept(client, list(addresses(known)))
    assert found.open > 5
    assert found.refused == []


@pytest.mark.parametrize("state", ["requested", "suspended", "failed", "deleting"])
@pytest.mark.parametrize("reader", ["bob", "olga", "ada"])
def test_nor_in_another_state(
    state: str, reader: str, people: dict[str, User], known: dict[str, object]
) -> None:
    Workspace.objects.update(state=state)
    Cluster.objects.update(state=state)
    client = signed_in(people[reader])
    client.raise_request_exception = False
    inside = [page for page in addresses(known) if "/workspaces/" in page or "/clusters/" in page]
    assert Swept(client, inside).refused == []
