"""Where no script runs, every dialog and menu is opened by a link, and nothing is shown that only a script would do."""

import re
from datetime import timedelta
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.urls import reverse

from billing.models import Rate
from billing.services import rate_draft_open
from frontend.operator_urls import urlpatterns
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from quotas.models import Limit
from tenants.actors import SYSTEM
from tenants.models import User
from tests.frontend.operator.test_doors import ACTIONS, QUERY, each, standing
from tests.frontend.operator.test_doors import address as operator_address
from tests.frontend.pages.conftest import signed_in
from tests.frontend.pages.test_shown import addresses

pytestmark = pytest.mark.django_db
# the page fetches its buttons anew when the state changes, and these dialogs wait for them
BY_STATE = {"suspend", "resume", "upgrade", "retry"}


class Openers(HTMLParser):
    """Of a page: its dialogs, the places that its links lead to, and what only a script would answer or write."""

    def __init__(self) -> None:
        super().__init__()
        self.dialogs: set[str] = set()
        self.shown: set[str] = set()  # a dialog that comes open with the page
        self.linked: set[str] = set()
        self.dead: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        at = {name: value or "" for name, value in attrs}
        if tag == "dialog" and at.get("class") == "g-dialog":
            (self.shown if "open" in at else self.dialogs).add(at["id"])
        if tag == "a" and at.get("href", "").startswith("#"):
            self.linked.add(at["href"][1:])
        opens = {name for name in at if name in {"data-dialog", "data-menu-open", "data-drawer-open"}}
        if (opens and tag != "a") or (tag == "a" and not at.get("href")):
            self.dead.append(self.get_starttag_text() or tag)
        if "data-live-words" in at and "data-scripted" not in at:
            self.dead.append(self.get_starttag_text() or tag)
        if tag == "button" and at.get("type") == "button" and not {"data-scripted", "disabled"} & set(at):
            self.dead.append(self.get_starttag_text() or tag)


def faults(client: Client, url: str) -> list[str]:
    response = client.get(url)
    if response.status_code != 200 or "html" not in response["Content-Type"]:
        return []
    page = Openers()
    page.feed(response.content.decode())
    path = urlsplit(url).path
    unopened = sorted(page.dialogs - page.linked - BY_STATE)
    return [f"{path}: nothing opens {each}" for each in unopened] + [f"{path}: {each}" for each in page.dead]


@pytest.mark.parametrize("reader", ["alice", "bob", "olga"])
@pytest.mark.parametrize("state", ["ready", "suspended", "failed"])
def test_every_dialog_of_a_project_has_a_link_that_opens_it(
    reader: str,
    state: str,
    people: dict[str, User],
    known: dict[str, object],
) -> None:
    Workspace.objects.update(state=state)
    client = signed_in(people[reader])
    assert [fault for url in addresses(known) for fault in faults(client, url)] == []


def test_every_dialog_of_the_platform_has_one(
    subtests: pytest.Subtests, olga: User, bob: User, workspace: Workspace
) -> None:
    client, found = signed_in(olga), standing(workspace, bob)

    def check(name: str) -> None:
        assert faults(client, operator_address(name, workspace, found)) == []

    each(subtests, sorted({str(pattern.name) for pattern in urlpatterns} - ACTIONS), check)


def test_a_limit_is_set_on_a_page_of_its_own(olga: User, workspace: Workspace) -> None:
    client = signed_in(olga)
    matrix = client.get(reverse("frontend:operator_limits")).content.decode()
    edit = reverse("frontend:operator_limit_edit")
    query = "kind=project&amp;owner=weather-lm&amp;resource=gpu%3Ah100-sxm-80gb"
    assert f'href="{edit}?{query}"' in matrix
    page = client.get(edit, QUERY)
    assert "<html" in page.content.decode()
    limit = Limit.objects.get(project__slug="weather-lm", resource="gpu:h100-sxm-80gb")
    save = reverse("frontend:operator_limit_save")
    refused = client.post(save, {**QUERY, "hard": "lots", "version": limit.version})
    assert refused.status_code == 422
    assert "<html" in refused.content.decode()
    said = client.post(save, {**QUERY, "version": limit.version}, follow=True)
    assert said.redirect_chain == [(reverse("frontend:operator_limits"), 302)]
    limit.refresh_from_db()
    assert limit.hard == 9
    undo = re.search(rf'action="({save}\?[^"]*undone[^"]*)"', said.content.decode())
    assert undo, "the message has a form that takes it back"
    assert client.post(undo[1].replace("&amp;", "&")).status_code == 302
    limit.refresh_from_db()
    assert limit.hard == 8


def test_a_draft_is_priced_looked_at_and_published(olga: User, workspace: Workspace) -> None:
    client = signed_in(olga)
    draft = rate_draft_open(actor=SYSTEM)
    line = draft.lines.get(flavor__slug="h100.1", meter=Meter.GPU_HELD)
    at = reverse("frontend:operator_rate_draft", args=[draft.pk])
    price = reverse("frontend:operator_rate_draft_price", args=[draft.pk, line.pk])
    assert f'action="{price}"' in client.get(at).content.decode()
    assert client.post(price, {"price": "3"})["Location"] == at
    assert "A price must be between" in client.post(price, {"price": "-3"}, follow=True).content.decode()
    line.refresh_from_db()
    assert str(line.price) == "3.00"
    assert 'href="?preview=1"' in client.get(at).content.decode()
    shown = client.get(at, {"preview": 1}).content.decode()
    mark = re.search(r'name="fingerprint" value="([^"]+)"', shown)
    assert mark
    sent = {"when": "now", "note": "by hand", "fingerprint": mark[1]}
    said = client.post(reverse("frontend:operator_rate_draft_publish", args=[draft.pk]), sent)
    assert said.status_code == 302
    draft.refresh_from_db()
    assert draft.published is not None
    newest = Rate.objects.filter(flavor__slug="h100.1").latest("valid_from")
    assert str(newest.price) == "3.00"


def test_the_costs_of_many_workspaces_are_asked_for(
    alice_at: Client, as_alice: object, workspace: Workspace
) -> None:
    Workspace.objects.bulk_create(
        Workspace(
            project=workspace.project,
            site=workspace.site,
            created_by=workspace.created_by,
            name=f"small-{number}",
            lease_ends_at=workspace.lease_ends_at + timedelta(days=number),
            state="ready",
            created_at=workspace.created_at,
        )
        for number in range(13)
    )
    at = reverse("frontend:home", args=["weather-lm"])
    assert 'href="?costs=1"' in alice_at.get(at).content.decode()
    asked = alice_at.get(at, {"costs": 1}).content.decode()
    assert "Loading" not in asked
