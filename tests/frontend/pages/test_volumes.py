"""The volumes of a project: what claims take, of which class, and what that costs in a month."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from billing.months import month_of, month_span
from billing.services import rate_set
from gpuaas.catalog.models import Site, StorageClass
from gpuaas.catalog.services import storage_class_sell
from gpuaas.catalog.services.storage import storage_classes_write
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from gpuaas.providers.sandbox.claims import claim_create
from gpuaas.providers.sandbox.inventory import STORAGE_CLASSES
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from gpuaas.workspaces.volumes import volumes_for
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Caller, token_for
from tests.factories.quotas import limits_give
from tests.frontend.markup import words
from tests.lasting import lasting
from tests.workspaces.stage import fast, run_now, settle

pytestmark = pytest.mark.django_db

URL = "/p/weather-lm/volumes/"
API = "/api/v1/projects/weather-lm/volumes"


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
@lasting
def workspace(site: Site, project: Project, as_alice: Actor, as_olga: Actor) -> Workspace:
    """10 GiB of plain storage at 0.001 and 50 GiB of the fast class at 0.02."""
    fast(site)
    limits_give(project)
    storage_classes_write(site=site, found=STORAGE_CLASSES, at=clock.now())
    row = StorageClass.objects.get(site=site, name="fast")
    sold = storage_class_sell(actor=as_olga, storage_class=row, slug="fast-ber-1")
    rate_set(actor=as_olga, flavor=None, meter=Meter.STORAGE_HELD, price="0.001")
    rate_set(actor=as_olga, flavor=None, resource=sold.resource, meter=Meter.STORAGE_HELD, price="0.02")
    made = workspace_request(
        actor=as_alice,
        project=project,
        name="data",
        items=[("h100.1", 1)],
        storage_gib=10,
        storage_classes=[("fast-ber-1", 50)],
    )
    return settle(made)


def claimed(workspace: Workspace) -> None:
    claim_create(workspace.site_id, workspace.external_name, "home", 8)
    claim_create(workspace.site_id, workspace.external_name, "scratch", 40, "fast")
    run_now(workspace)


def hours() -> int:
    return month_span(month_of(clock.now())).seconds // 3600


def test_without_volumes_the_page_says_what_they_are(workspace: Workspace, alice: User) -> None:
    assert "No volumes yet" in words(signed_in(alice).get(URL))


def test_volumes_of_one_name_have_keys_of_their_own(
    workspace: Workspace, project: Project, as_alice: Actor
) -> None:
    """Some sites let a name be given twice; lists are paged by the key."""
    claimed(workspace)
    workspace.refresh_from_db()
    home = workspace.observed["volumes"][0]
    workspace.observed["volumes"] = [{**home, "uid": uid} for uid in ("one", "two")]
    workspace.save(update_fields=["observed"])
    assert len({each.key for each in volumes_for(actor=as_alice, project=project)}) == 2


def test_each_claim_has_its_class_and_its_price(workspace: Workspace, alice: User) -> None:
    claimed(workspace)
    page = words(signed_in(alice).get(URL))
    assert f"{40 * 0.02 * hours():.2f}" in page
    assert "fast-ber-1" in page
    assert "8 GiB" in page
    narrowed = words(signed_in(alice).get(URL, {"of": "fast"}))
    assert "scratch" in narrowed
    assert "8 GiB" not in narrowed
    assert "No volumes yet" not in words(signed_in(alice).get(URL, {"state": "not bound"}))
    file = b"".join(signed_in(alice).get(URL, {"csv": "1"}).streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert file[0].startswith("name,workspace,site,gib,storage_class,sold_as,per_month,state")
    assert file[2].startswith("scratch,data,ber-1,40,fast,fast-ber-1,")


def test_what_was_never_bought_is_not_charged(workspace: Workspace, alice: User) -> None:
    seen = {"name": "old", "gib": 5, "storage_class": "archive", "bound": False}
    seen["created_at"] = clock.now().isoformat()
    StorageClass.objects.create(site=workspace.site, name="archive", observed_at=clock.now())
    workspace.refresh_from_db()
    Workspace.objects.filter(pk=workspace.pk).update(observed={**workspace.observed, "volumes": [seen]})
    page = words(signed_in(alice).get(URL))
    assert "not charged" in page
    assert "not bound" in page


def test_an_outsider_finds_nothing_and_a_token_without_money_no_prices(
    workspace: Workspace, project: Project, charlie: User, alice: User
) -> None:
    claimed(workspace)
    assert signed_in(charlie).get(URL).status_code == 404
    assert Caller(charlie).get(API).status == 404
    rows = Caller(token=token_for(alice, project, scopes=["workspace:view"])).get(API).json["results"]
    assert [(row["name"], row["price_per_month"]) for row in rows] == [("home", None), ("scratch", None)]


def test_rest_has_the_same(workspace: Workspace, alice: User) -> None:
    claimed(workspace)
    rows = signed_in(alice).get(API).json()["results"]
    assert [
        (row["name"], row["gib"], row["storage_class"], row["sold_as"], row["bound"]) for row in rows
    ] == [
        ("home", 8, "standard", "", True),
        ("scratch", 40, "fast", "fast-ber-1", True),
    ]
    assert float(rows[1]["price_per_month"]) == pytest.approx(40 * 0.02 * hours(), abs=0.005)


def test_the_number_of_queries_does_not_depend_on_the_volumes(workspace: Workspace, alice: User) -> None:
    client = signed_in(alice)
    claimed(workspace)
    counts = []
    for more in (0, 2):
        for number in range(more):
            claim_create(workspace.site_id, workspace.external_name, f"more-{number}", 1, "fast")
        run_now(workspace)
        client.get(URL)
        with CaptureQueriesContext(connection) as queries:
            client.get(URL)
        counts.append(len(queries))
    assert counts[0] == counts[1]
