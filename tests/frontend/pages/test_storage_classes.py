"""Storage by class on the pages of tenants: ordered, resized, priced, shown."""

import pytest
from django.test import Client
from django.urls import reverse

from billing.services import rate_set
from gpuaas.catalog.models import Site, StorageClass
from gpuaas.catalog.services import storage_class_sell
from gpuaas.catalog.services.storage import storage_classes_write
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from gpuaas.metering.services import held_sync
from gpuaas.providers.sandbox.inventory import STORAGE_CLASSES
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.factories.quotas import limits_give
from tests.frontend.markup import words
from tests.lasting import lasting
from tests.workspaces.stage import fast, settle

pytestmark = pytest.mark.django_db

ASKED = {"flavor": "h100.1", "count": "1", "storage_gib": "10", "name": "data", "lease": "28"}
CLASS = {"storage_class": "fast-ber-1", "class_gib": "50"}


@pytest.fixture
@lasting
def fast_class(site: Site, as_olga: Actor) -> StorageClass:
    storage_classes_write(site=site, found=STORAGE_CLASSES, at=clock.now())
    row = StorageClass.objects.get(site=site, name="fast")
    rate_set(actor=as_olga, flavor=None, meter=Meter.STORAGE_HELD, price="0.001")
    sold = storage_class_sell(actor=as_olga, storage_class=row, slug="fast-ber-1")
    rate_set(actor=as_olga, flavor=None, resource=sold.resource, meter=Meter.STORAGE_HELD, price="0.02")
    return sold


@pytest.fixture
def at(alice: User, project: Project, site: Site) -> Client:
    fast(site)
    limits_give(project)
    client = Client()
    client.force_login(alice)
    return client


def url(name: str, project: Project, *args: object) -> str:
    return reverse(f"frontend:{name}", args=[project.slug, *args])


def test_without_a_class_on_offer_nobody_is_asked_for_one(at: Client, project: Project) -> None:
    assert "Storage class" not in words(at.get(url("workspace_new", project)))


def test_an_order_names_the_class_and_sees_its_price(
    at: Client, project: Project, fast_class: StorageClass
) -> None:
    assert "fast-ber-1 at ber-1" in words(at.get(url("workspace_new", project)))
    answer = words(at.post(url("workspace_answer", project), ASKED | CLASS))
    assert "50 GiB storage fast-ber-1" in answer
    assert "volumes of fast-ber-1" in answer
    assert at.post(url("workspace_new", project), ASKED | CLASS).status_code == 302
    workspace = settle(Workspace.objects.get())
    assert [(row.storage_class.slug, row.confirmed) for row in workspace.storage.all()] == [
        ("fast-ber-1", 50)
    ]
    held_sync()
    page = words(at.get(url("workspace", project, workspace.pk)))
    assert "Storage fast-ber-1" in page
    assert "50 GiB storage fast-ber-1" in page, "the card of costs names it"
    assert "50 GiB fast-ber-1" in words(at.get(url("workspaces", project)))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"storage_class": "fast-ber-1", "class_gib": ""}, "Enter how many GiB of it"),
        ({"storage_class": "", "class_gib": "5"}, "Choose the class, or leave its amount empty"),
        ({"storage_class": "made-up", "class_gib": "5"}, "Choose one of the storage classes"),
        ({"storage_class": "fast-ber-1", "class_gib": "x"}, "Enter a whole number of GiB"),
        ({"storage_class": "fast-ber-1", "class_gib": "-5"}, "whole number of GiB from 1"),
        ({"storage_class": "fast-ber-1", "class_gib": "9999999"}, "whole number of GiB from 1"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(
    at: Client, project: Project, fast_class: StorageClass, changed: dict[str, str], sentence: str
) -> None:
    answer = at.post(url("workspace_new", project), ASKED | changed)
    assert answer.status_code == 422
    assert sentence in words(answer)
    assert not Workspace.objects.exists()
    assert at.post(url("workspace_answer", project), ASKED | changed).status_code == 200


def test_a_resize_changes_it_by_class(at: Client, project: Project, fast_class: StorageClass) -> None:
    at.post(url("workspace_new", project), ASKED | CLASS)
    workspace = settle(Workspace.objects.get())
    effect = url("workspace_effect", project, workspace.pk)
    size = {"count-h100.1": "1", "storage_gib": "10"}
    assert "No change yet" in words(at.post(effect, size | {"storage-fast-ber-1": "50"}))
    held_sync()
    assert "0.60" in words(at.post(effect, size | {"storage-fast-ber-1": "80"}))
    assert "No change yet" not in words(at.post(effect, size | {"storage-fast-ber-1": ""}))
    assert "Check your input" in words(at.post(effect, size | {"storage-fast-ber-1": "x"}))
    resize = url("workspace_resize", project, workspace.pk)
    assert "Storage fast-ber-1" in words(at.get(resize))
    assert at.post(resize, size | {"storage-fast-ber-1": "80"}).status_code == 302
    assert settle(workspace).storage.get().confirmed == 80
    answer = at.post(resize, size | {"storage-fast-ber-1": "-1"})
    assert answer.status_code == 422
    assert "whole number of GiB from 1" in words(answer)
    assert at.post(resize, size | {"storage-fast-ber-1": "0"}).status_code == 302
    assert settle(workspace).storage.get().confirmed == 0
