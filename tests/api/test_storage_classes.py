"""Storage by class over REST: an operator sells it, a tenant orders, previews and resizes it."""

from typing import Any

import pytest

from billing.services import rate_set
from gpuaas.catalog.models import Site, StorageClass
from gpuaas.catalog.services.storage import storage_classes_write
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from gpuaas.providers.sandbox.inventory import STORAGE_CLASSES
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Caller
from tests.factories.quotas import limits_give
from tests.workspaces.stage import fast, settle

pytestmark = pytest.mark.django_db

HOME = "/projects/weather-lm/workspaces"
ITEMS = [{"flavor": "h100.1", "count": 1}]


@pytest.fixture(autouse=True)
def found(site: Site, project: Project) -> None:
    fast(site)
    limits_give(project)
    storage_classes_write(site=site, found=STORAGE_CLASSES, at=clock.now())


def row(name: str) -> StorageClass:
    return StorageClass.objects.get(name=name)


def sell(olga: User, **body: Any) -> Any:
    address = f"/platform/sites/ber-1/storage-classes/{row('fast').pk}"
    return Caller(olga).patch(address, {"state": "active", "slug": "fast-ber-1", **body})


def test_an_operator_sells_retires_and_chooses(olga: User) -> None:
    rows = Caller(olga).get("/platform/sites/ber-1/storage-classes").json["results"]
    assert [(each["name"], each["plain"], each["state"]) for each in rows] == [
        ("fast", False, "draft"),
        ("standard", True, "draft"),
    ]
    assert sell(olga).json["slug"] == "fast-ber-1"
    assert sell(olga, slug="other").status == 400
    address = f"/platform/sites/ber-1/storage-classes/{row('fast').pk}"
    assert Caller(olga).patch(address, {"plain": True}).status == 409
    assert Caller(olga).patch(address, {"state": "retired"}).json["state"] == "retired"
    assert Caller(olga).patch(address, {"plain": True}).json["chosen"]
    assert Caller(olga).patch(address, {}).status == 400
    assert Caller(olga).patch(address, {"plain": True, "state": "active"}).status == 400


def test_a_tenant_sees_what_is_on_offer_with_its_price(olga: User, alice: User, as_olga: Actor) -> None:
    assert Caller(alice).get("/storage-classes").json["results"] == []
    sell(olga)
    rate_set(actor=as_olga, flavor=None, meter=Meter.STORAGE_HELD, price="0.001")
    offer = Caller(alice).get("/storage-classes").json["results"][0]
    assert (offer["slug"], offer["site"], offer["name"]) == ("fast-ber-1", "ber-1", "fast")
    assert float(offer["price_per_hour"]) == 0.001
    rate_set(
        actor=as_olga, flavor=None, resource=row("fast").resource, meter=Meter.STORAGE_HELD, price="0.02"
    )
    assert float(Caller(alice).get("/storage-classes").json["results"][0]["price_per_hour"]) == 0.02


def test_an_order_a_preview_a_quote_and_a_resize_name_it(olga: User, alice: User, as_olga: Actor) -> None:
    sell(olga)
    rate_set(
        actor=as_olga, flavor=None, resource=row("fast").resource, meter=Meter.STORAGE_HELD, price="0.02"
    )
    wanted = [{"storage_class": "fast-ber-1", "gib": 50}]
    asked = {"items": ITEMS, "storage_gib": 10, "storage_classes": wanted}
    preview = Caller(alice).post(f"{HOME}/preview", asked).json
    lines = {line["label"]: line["per_hour"] for line in preview["quote"]["lines"]}
    assert float(lines["Storage fast-ber-1 (GiB)"]) == 1
    storage = [check for check in preview["checks"] if check["resource"] == "storage"]
    assert {check["asked"] for check in storage} == {60}

    made = Caller(alice).post(HOME, {"name": "data", **asked})
    assert made.status == 202
    assert made.json["storage_classes"] == [{"storage_class": "fast-ber-1", "gib": 50, "confirmed": 0}]
    workspace = settle(Workspace.objects.get())
    address = f"{HOME}/{workspace.pk}"
    quoted = Caller(alice).post(f"{address}/quote", {"storage_classes": [{**wanted[0], "gib": 80}]}).json
    assert float(quoted["then"]["per_hour"]) >= 1.6
    changed = Caller(alice).patch(address, {"storage_classes": []})
    assert changed.status == 202
    assert changed.json["items"][0]["count"] == 1
    assert changed.json["storage_gib"] == 10
    settle(workspace)
    assert Caller(alice).get(address).json["storage_classes"] == []


@pytest.mark.parametrize(
    "wanted",
    [
        [{"storage_class": "made-up", "gib": 5}],
        [{"storage_class": "fast-ber-1", "gib": 0}],
        [{"storage_class": "fast-ber-1", "gib": "many"}],
        [{"storage_class": "fast-ber-1"}],
        [{"storage_class": "fast-ber-1", "gib": 1}, {"storage_class": "fast-ber-1", "gib": 2}],
        "fast-ber-1",
        [{"class": "fast-ber-1", "gib": 1}],
    ],
)
def test_bad_amounts_are_refused_by_their_field(olga: User, alice: User, wanted: Any) -> None:
    sell(olga)
    answer = Caller(alice).post(HOME, {"name": "data", "items": ITEMS, "storage_classes": wanted})
    assert answer.status == 400
    assert "storage_classes" in str(answer.error)
    assert not Workspace.objects.exists()
