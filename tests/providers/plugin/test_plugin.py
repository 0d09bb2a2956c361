"""A driver that comes by an entry point: attached by page, REST and command, and at work, with no file of ours changed."""

import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.checks import drivers_usable
from gpuaas.catalog.models import GpuPool, Site
from gpuaas.catalog.services import pool_publish, site_create, site_probe
from gpuaas.core.conditions import Status, conditions_read
from gpuaas.core.crypto import decrypt_json
from gpuaas.providers.registry import driver_names, known
from gpuaas.workspaces.services import workspace_delete, workspace_request
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Caller
from tests.factories.quotas import limits_give
from tests.providers.plugin.conftest import SOURCE, Install
from tests.workspaces.stage import settle

NEW = "/operator/sites/new/"
TOKEN = "a-long-secret"
FORM = {"slug": "shelf-1", "name": "Shelf", "driver": "shelf", "oversubscription_percent": "100"}


@pytest.fixture
def olga_at(olga: User) -> Client:
    client = Client()
    client.force_login(olga)
    return client


@pytest.fixture
def attached(shelf: Path, as_olga: Actor) -> Site:
    return site_create(
        actor=as_olga, slug="shelf-1", name="Shelf", driver="shelf", credentials={"api_token": TOKEN}
    )


def test_it_is_a_driver_like_ours(shelf: Path) -> None:
    assert "shelf" in driver_names()
    assert known().broken == {}
    assert drivers_usable(None) == []


def test_the_page_has_its_fields_and_says_what_it_is(shelf: Path, olga_at: Client) -> None:
    page = olga_at.get(f"{NEW}?driver=shelf").content.decode()
    for said in (
        "Shelf (experimental)",
        "It forgets everything when the process ends.",
        "Eight GPUs on a shelf.",
        "API token",
        "where the shelf stands",
    ):
        assert said in page, said
    assert "kubeconfig" not in page.lower()
    assert 'name="endpoint"' not in page


def test_it_is_attached_by_the_page(shelf: Path, olga_at: Client) -> None:
    given = {"api_token": TOKEN, "room": "B 12", "height": "3", "labels": "owner = hpc"}
    answer = olga_at.post(NEW, {**FORM, **given})
    assert answer["Location"] == "/operator/sites/at/shelf-1/"
    site = Site.objects.get()
    assert decrypt_json(site.credentials) == {"api_token": TOKEN}
    assert site.options == {"room": "B 12", "height": 3, "labels": {"owner": "hpc"}}
    page = olga_at.get(answer["Location"]).content.decode()
    assert TOKEN not in page
    assert "B 12" in page
    changed = olga_at.post("/operator/sites/at/shelf-1/options/", {"room": "C 3"})
    assert changed.status_code == 302
    assert Site.objects.get().options == {"room": "C 3"}


@pytest.mark.parametrize(
    ("given", "beside", "said"),
    [
        ({}, "api_token", "This is required."),
        ({"api_token": "short"}, "api_token", "A token has at least 8 characters."),
        ({"api_token": TOKEN, "person": "p" * 21}, "person", "at most 20 characters"),
        ({"api_token": TOKEN, "height": "10"}, "height", "Enter 9 or less"),
        ({"api_token": TOKEN, "labels": "hpc"}, "labels", "One entry per line"),
    ],
)
def test_the_page_refuses_beside_the_field(
    shelf: Path, olga_at: Client, given: dict[str, str], beside: str, said: str
) -> None:
    answer = olga_at.post(NEW, {**FORM, **given})
    assert answer.status_code == 422
    errors = answer.context["form"].errors
    assert any(said in error for error in errors[beside]), errors
    assert TOKEN not in answer.content.decode()
    assert not Site.objects.exists()


def test_it_is_attached_by_rest(shelf: Path, olga: User) -> None:
    caller = Caller(olga)
    listed = {row["name"]: row for row in caller.get("/platform/drivers").json["results"]}["shelf"]
    assert (listed["provisions"], listed["attaches"]) == (["workspaces"], True)
    assert listed["experimental"] == "It forgets everything when the process ends."
    assert listed["credentials"]["properties"]["api_token"]["writeOnly"] is True
    body = {"slug": "shelf-1", "name": "Shelf", "driver": "shelf"}
    for credentials, field in (
        ({}, "credentials.api_token"),
        ({"api_token": "short"}, "credentials.api_token"),
        ({"api_token": TOKEN, "person": 7}, "credentials.person"),
        ({"api_token": TOKEN, "kubeconfig": "x"}, "credentials"),
    ):
        refused = caller.post("/platform/sites", {**body, "credentials": credentials})
        assert (refused.status, list(refused.error["fields"])) == (400, [field])
    given = {"credentials": {"api_token": TOKEN}, "options": {"height": 12}}
    refused = caller.post("/platform/sites", {**body, **given})
    assert list(refused.error["fields"]) == ["options.height"]
    made = caller.post("/platform/sites", {**body, **given, "options": {"height": 2}})
    assert made.status == 201, made.json
    assert TOKEN not in made.content.decode()


def command(*more: str) -> str:
    out = StringIO()
    call_command("site_attach", "--slug", "shelf-1", "--driver", "shelf", *more, stdout=out)
    return out.getvalue()


def test_it_is_attached_by_the_command(shelf: Path, db: None, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="this is required"):
        command()
    secret = tmp_path / "token"
    secret.write_text(f"{TOKEN}\n")
    own = ("--option", "room=B 12", "--option", "labels=a=1", "--option", "labels=b=2")
    assert "shelf-1: shelf 1" in command("--api-token", str(secret), *own)
    site = Site.objects.get()
    assert decrypt_json(site.credentials) == {"api_token": TOKEN}
    assert site.options == {"room": "B 12", "labels": {"a": "1", "b": "2"}}
    assert "8 of 8 not allocated" in command("--option", "height=4")
    assert Site.objects.get().options["height"] == 4
    with pytest.raises(CommandError, match="declares no option 'depth'"):
        command("--option", "depth=1")


def test_a_workspace_is_made_and_released(
    attached: Site, as_alice: Actor, as_olga: Actor, project: Project
) -> None:
    assert site_probe(attached.pk)
    pool = GpuPool.objects.select_related("gpu_type", "site").get(site=attached)
    flavor = pool_publish(actor=as_olga, pool=pool)
    capacity_sync(str(attached.pk))
    limits_give(project)
    asked = workspace_request(actor=as_alice, project=project, name="train", items=[(flavor.slug, 2)])
    workspace = settle(asked)
    assert workspace.state == "ready", workspace.failure
    held = sys.modules["gpuaas_shelf"].SHELVES[attached.pk]
    assert held.drawers[workspace.external_name]["shelf.example/gpu"] == 2
    assert held.open == {workspace.external_name}
    client = Client()
    client.force_login(User.objects.get(username="alice"))
    page = client.get(reverse("frontend:workspace", args=[project.slug, workspace.pk]))
    assert page.status_code == 200
    assert "drawer" in page.content.decode()
    workspace_delete(actor=as_alice, workspace=workspace)
    assert settle(workspace).state == "deleted"
    assert (held.drawers, held.open) == ({}, set())


@pytest.mark.parametrize(
    ("target", "source", "said"),
    [
        ("gpuaas_bad:KIND", "raise RuntimeError('half installed')", "RuntimeError: half installed"),
        ("gpuaas_bad:KIND", "", "KIND"),
        ("gpuaas_missing:KIND", "", "gpuaas_missing"),
        ("gpuaas_bad:KIND", "KIND = 7", "it names int, not one or several DriverKinds"),
        ("gpuaas_bad:KIND", SOURCE.read_text("utf-8").replace('"shelf"', '"kubernetes"'), "already"),
        ("gpuaas_bad:KIND", SOURCE.read_text("utf-8"), "gpuaas_shelf"),
        (
            "gpuaas_bad:KIND",
            SOURCE.read_text("utf-8").replace('"room": {"type": "string"', '"room": {"type": "number"'),
            "room: the type must be one of",
        ),
        (
            "gpuaas_bad:KIND",
            SOURCE.read_text("utf-8").replace('"person"', '"slug"'),
            "slug: the field is declared twice",
        ),
    ],
)
def test_one_that_cannot_be_used_is_said_and_holds_nothing_up(
    install: Install, olga_at: Client, target: str, source: str, said: str
) -> None:
    install("gpuaas_bad", target=target, source=source)
    (error,) = drivers_usable(None)
    assert error.id == "gpuaas.E008"
    assert said in str(error.msg)
    assert "gpuaas_bad" in str(error.msg)
    assert olga_at.get(NEW).status_code == 200
    assert call_command("site_attach", "--slug", "s", "--driver", "sandbox", stdout=StringIO()) is None


def test_a_site_whose_driver_is_gone_can_still_be_looked_at(
    attached: Site, uninstall: Callable[[], None], olga_at: Client, olga: User
) -> None:
    uninstall()
    assert "shelf" not in driver_names()
    for address in ("", "nodes/", "drift/", "metering/", "adoption/"):
        answer = olga_at.get(f"/operator/sites/at/shelf-1/{address}")
        assert answer.status_code == 200, address
    assert olga_at.get("/operator/sites/").status_code == 200
    assert Caller(olga).get("/platform/sites/shelf-1").status == 200
    assert not site_probe(attached.pk)
    attached.refresh_from_db()
    reachable: Any = next(row for row in conditions_read(attached.conditions) if row.type == "Reachable")
    assert reachable.status != Status.TRUE
    assert "there is no driver 'shelf'" in reachable.message
