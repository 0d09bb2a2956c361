"""A session that ends and addresses that only buttons ask for: nobody is left before an empty page."""

import re
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.urls import get_resolver, resolve, reverse
from django.urls.exceptions import Resolver404

from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in

pytestmark = pytest.mark.django_db


def console_paths() -> Iterator[str]:
    """Every address of the console, with parameters of the right form that name nothing."""
    for name, found in get_resolver().namespace_dict["frontend"][1].reverse_dict.lists():
        if not isinstance(name, str):
            continue
        for possibilities, _, _, converters in found:
            template, parameters = possibilities[0]
            for value in ("x", "1", str(uuid.UUID(int=7)), "2026-11", "retire", "h100.1"):
                given = {key: fitting(converters[key], value) for key in parameters}
                path = f"/{template % given}"
                try:
                    resolve(path)
                except Resolver404:
                    continue
                yield path
                break


def fitting(converter: object, value: str) -> str:
    """`value` where the converter takes it, else what a UUID, a number or a word of its choice looks like."""
    pattern = re.compile(getattr(converter, "regex", ".*"))
    for sample in (value, str(uuid.UUID(int=7)), "1", "2026-11", "x"):
        if pattern.fullmatch(sample):
            return sample
    return value


@pytest.mark.parametrize("name", ["alice", "olga"])
def test_no_address_of_a_button_is_a_dead_end(
    name: str, alice: User, olga: User, workspace: Workspace
) -> None:
    browser = signed_in({"alice": alice, "olga": olga}[name])
    browser.raise_request_exception = False
    led = 0
    for path in sorted(set(console_paths())):
        said = browser.get(path)
        assert said.status_code != 405, path
        while said.status_code == 302 and path.startswith(above := urlsplit(said["Location"]).path):
            led += 1
            said = browser.get(above)
        assert said.status_code in {200, 302, 400, 403, 404, 409}, path
    assert led > 40


def test_a_button_of_a_workspace_leads_to_its_page(alice_at: Client, workspace: Workspace) -> None:
    page = reverse("frontend:workspace", args=["weather-lm", workspace.pk])
    for name in ("extend", "delete", "retry", "suspend", "members"):
        for headers in ({}, {"HX-Request": "true"}):  # also a part of a page that a refusal has drawn there
            said = alice_at.get(
                reverse(f"frontend:workspace_{name}", args=["weather-lm", workspace.pk]), headers=headers
            )
            assert (said.status_code, said["Location"]) == (302, page)
    person = reverse("frontend:workspace_member_remove", args=["weather-lm", workspace.pk, uuid.uuid4()])
    said = alice_at.get(person, follow=True)
    assert said.redirect_chain[-1][0] == page
    assert b"<html" in said.content


def next_of(address: str) -> str:
    assert urlsplit(address).path == "/accounts/login/"
    return parse_qs(urlsplit(address).query)["next"][0]


def test_a_piece_sends_the_whole_page_to_the_sign_in(client: Client, workspace: Workspace) -> None:
    page = reverse("frontend:workspace", args=["weather-lm", workspace.pk])
    effect = reverse("frontend:workspace_effect", args=["weather-lm", workspace.pk])
    by_htmx = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{page}?tab=1"}
    for method, path in (("get", page), ("get", effect), ("post", f"{page}retry/")):
        said = getattr(client, method)(path, headers=by_htmx)
        assert (said.status_code, said.content) == (401, b"")
        assert next_of(said["HX-Redirect"]) == f"{page}?tab=1"
    by_fetch = {"Sec-Fetch-Mode": "cors", "Referer": f"http://testserver{page}"}
    assert next_of(client.get(effect, headers=by_fetch)["HX-Redirect"]) == page
    elsewhere = {"HX-Request": "true", "HX-Current-URL": "https://evil.example.org/p/weather-lm/"}
    assert next_of(client.get(page, headers=elsewhere)["HX-Redirect"]) == "/"


def test_a_window_comes_back_to_the_page_of_the_button(client: Client, workspace: Workspace) -> None:
    page = reverse("frontend:workspace", args=["weather-lm", workspace.pk])
    said = client.post(f"{page}resize/", headers={"Referer": f"http://testserver{page}"})
    assert (said.status_code, next_of(said["Location"])) == (302, page)
    assert next_of(client.get(f"{page}resize/")["Location"]) == f"{page}resize/"
    strict = Client(enforce_csrf_checks=True)
    said = strict.post(f"{page}extend/", headers={"Referer": f"http://testserver{page}"})
    assert (said.status_code, next_of(said["Location"])) == (302, page)


@pytest.mark.parametrize("start", ["//", "/\\", "///", "/\t/", "\\/"])
def test_no_path_of_a_page_leads_to_another_host(client: Client, alice: User, start: str) -> None:
    """A path with two slashes at its start names another host to a browser, to which a backslash is one, too."""
    address = f"http://testserver{start}evil.example.org/x"
    said = client.get("/account/", headers={"HX-Request": "true", "HX-Current-URL": address})
    assert next_of(said["HX-Redirect"]) in {"/evil.example.org/x", "/"}
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice)
    older = browser.post("/account/", {"csrfmiddlewaretoken": "x" * 64}, headers={"Referer": address})
    assert older["Location"] in {"/evil.example.org/x", "/"}


def test_a_sign_in_and_its_next_lead_to_no_other_host(alice: User) -> None:
    sent = {"login": "alice", "password": "correct horse battery"}
    for there in (
        "//evil.example.org/x",
        "/\\evil.example.org/x",
        "http:///evil.example.org",
        "\\\\evil.example.org",
    ):
        said = Client().post("/accounts/login/", {**sent, "next": there})
        assert (said.status_code, said["Location"]) == (302, "/"), there
        stale = Client(enforce_csrf_checks=True)
        stale.get("/accounts/login/")
        said = stale.post("/accounts/login/", {**sent, "next": there})
        assert said.status_code == 403 or next_of(said["Location"]) == "/", there


def token_in(answer: Any) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', answer.content.decode())
    assert found
    return found[1]


def test_a_sign_in_that_was_drawn_before_another_tab_signed_in_leads_on(
    alice: User, workspace: Workspace
) -> None:
    browser = Client(enforce_csrf_checks=True)
    page = reverse("frontend:workspace", args=["weather-lm", workspace.pk])
    door = f"/accounts/login/?next={page}"
    old = token_in(browser.get(door))
    sent = {"login": "alice", "password": "correct horse battery", "next": page}
    assert browser.post(door, {**sent, "csrfmiddlewaretoken": old}).status_code == 302
    said = browser.post("/accounts/login/", {**sent, "csrfmiddlewaretoken": old}, follow=True)
    assert said.redirect_chain == [(page, 302)]
    assert said.status_code == 200


def test_a_button_of_a_page_that_is_older_than_the_sign_in(alice: User, workspace: Workspace) -> None:
    browser = Client(enforce_csrf_checks=True)
    sent = {"login": "alice", "password": "correct horse battery"}
    browser.post(
        "/accounts/login/", {**sent, "csrfmiddlewaretoken": token_in(browser.get("/accounts/login/"))}
    )
    page = reverse("frontend:account")
    stale = {"csrfmiddlewaretoken": "x" * 64, "time_zone": "Asia/Tokyo"}
    said = browser.post(page, stale, headers={"Referer": f"http://testserver{page}"}, follow=True)
    assert said.redirect_chain == [(page, 302)]
    assert "This page was older than your sign-in" in said.content.decode()
    alice.refresh_from_db()
    assert alice.time_zone == "Europe/Berlin"
    piece = browser.post(page, stale, headers={"HX-Request": "true"})
    assert (piece.status_code, piece.content) == (403, b"")
    assert "older than your sign-in" in piece["HX-Trigger"]
    elsewhere = browser.post(page, stale, headers={"Referer": "https://evil.example.org/"})
    assert elsewhere["Location"] == "/"


def test_a_sign_in_with_an_old_token_is_drawn_anew_and_leads_to_no_other_site(alice: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.get("/accounts/login/")
    sent = {"csrfmiddlewaretoken": "x" * 64, "next": "https://evil.example.org/"}
    assert browser.post("/accounts/login/", sent)["Location"] == "/accounts/login/?next=%2F"
    sent["next"] = "/p/weather-lm/"
    assert next_of(browser.post("/accounts/login/", sent)["Location"]) == "/p/weather-lm/"
    said = Client(enforce_csrf_checks=True).post("/accounts/login/", sent)
    assert said.status_code == 403
    assert "Your browser sent no cookie" in said.content.decode()


def test_a_link_of_a_mail_leads_there_from_wherever_one_is(
    workspace: Workspace, alice: User, charlie_at: Client
) -> None:
    """Signed out, by the sign-in; with another account one is told which, and how to get out of it."""
    link = f"/p/{workspace.project.slug}/budgets/"
    browser = Client()
    door = browser.get(link)["Location"]
    assert "next=" in door
    sent = {"login": alice.username, "password": "correct horse battery", "next": link}
    assert browser.post(door, sent)["Location"] == link
    lost = charlie_at.get(link)
    assert lost.status_code == 404
    page = words(lost)
    assert "You are signed in as charlie." in page
    assert f'href="{reverse("account_logout")}"' in page
    assert "You are signed in" not in words(Client().get("/no-such-page/"))


def test_what_a_list_shows_stays_on_the_way_back(alice_at: Client, workspace: Workspace) -> None:
    """A refused form draws its page at the address of the button, and the links of its lists with it."""
    page, button = (
        reverse(f"frontend:workspace{end}", args=["weather-lm", workspace.pk]) for end in ("", "_extend")
    )
    assert alice_at.get(f"{button}?state=failed&check=1")["Location"] == f"{page}?state=failed"
    assert alice_at.get(f"{button}?undone=1")["Location"] == page
