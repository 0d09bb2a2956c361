"""The portal sells a volume type of a real cloud: bought, used, listed with its price, given back."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from decimal import Decimal

import pytest

from billing.months import month_of, month_span
from billing.quotes import prices_of
from billing.services import rate_set
from deploy.lab.openstack import Lab
from frontend.views.volumes import rows_of
from gpuaas.catalog.models import Site, StorageClass
from gpuaas.catalog.services import storage_class_sell
from gpuaas.catalog.services.storage import storage_classes_write
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from gpuaas.providers.openstack.client import Cloud
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import (
    credential_issue,
    workspace_delete,
    workspace_request,
    workspace_resize,
)
from gpuaas.workspaces.spec import spec_of
from gpuaas.workspaces.tasks import site_changed
from gpuaas.workspaces.volumes import volumes_for
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import limits_give
from tests.lab.fixtures import until
from tests.providers.openstack.conftest import take_away
from tests.providers.openstack.portal import driver_at, flavor_of, reach, site_make, visit
from tests.providers.openstack.test_volumes import project_of, status
from tests.providers.openstack.volume_types.conftest import (
    PLAIN,
    Types,
    cleared,
    is_given,
    limits_of,
    made,
    type_deleted,
    type_made,
)
from tests.workspaces.test_storage_classes import held

pytestmark = [pytest.mark.openstack, pytest.mark.django_db]


@pytest.fixture
def site(openstack_lab: Lab, types: Types, as_olga: Actor) -> Site:
    """Plain storage is of the default type; the fast one is sold as `quick`."""
    site = site_make(openstack_lab)
    looked(site, openstack_lab)
    row = StorageClass.objects.get(site=site, name=types.fast)
    sold = storage_class_sell(actor=as_olga, storage_class=row, slug="quick")
    for resource, price in (("", "0.001"), (sold.resource, "0.02")):
        rate_set(actor=as_olga, flavor=None, resource=resource, meter=Meter.STORAGE_HELD, price=price)
    return site


def looked(site: Site, lab: Lab) -> None:
    found = driver_at(site, lab).probe().storage_classes
    assert found is not None
    storage_classes_write(site=site, found=found, at=clock.now())


@pytest.fixture
def workspace(as_alice: Actor, project: Project, site: Site, openstack_lab: Lab) -> Iterator[Workspace]:
    """3 GiB of plain storage and 2 of the fast type."""
    limits_give(project)
    asked = workspace_request(
        actor=as_alice,
        project=project,
        name="data",
        items=[(flavor_of(site).slug, 1)],
        storage_gib=3,
        storage_classes=[("quick", 2)],
    )
    yield reach(asked, "ready")
    take_away(driver_at(site, openstack_lab), spec_of(asked))


@pytest.fixture
def own(workspace: Workspace, as_alice: Actor) -> Iterator[Cloud]:
    access = credential_issue(actor=as_alice, workspace=workspace, lifetime=timedelta(hours=1))
    with closing(Cloud({"clouds_yaml": access.document})) as cloud:
        yield cloud


def test_a_type_is_held_listed_with_its_price_and_given_back_when_it_is_empty(
    workspace: Workspace, own: Cloud, types: Types, project: Project, as_alice: Actor, admin: Cloud
) -> None:
    quick, plain = made(own, 2, types.fast), made(own)
    assert not is_given(own, types.archive)
    visit(workspace)
    assert held(workspace) == {"storage_held": 3, "storage:quick": 2}
    prices = prices_of(project.organization, clock.now(), None)
    rows = {row.volume.name: row for row in rows_of(volumes_for(actor=as_alice, project=project), prices)}
    assert (rows[quick].volume.storage_class, rows[quick].volume.sold_as) == (types.fast, "quick")
    assert (rows[plain].volume.storage_class, rows[plain].volume.sold_as) == (PLAIN, "")
    hours = Decimal(month_span(month_of(clock.now())).seconds) / 3600
    assert rows[quick].per_month == round(2 * Decimal("0.02") * hours, 2)
    assert rows[plain].per_month == round(Decimal("0.001") * hours, 2)

    items = [(flavor_of(workspace.site).slug, 1)]
    workspace_resize(actor=as_alice, workspace=workspace, items=items, storage_classes=[])
    waiting = until(lambda: "in use" in _says(visit(workspace)), "it waits for what is stored")
    assert waiting
    assert f"2 of storage:{types.fast} are in use; only 0 may be" in _says(visit(workspace))
    assert not is_given(own, types.fast)
    assert held(workspace)["storage:quick"] == 2
    own.delete("volume", f"/volumes/{quick}")
    until(lambda: not status(own, quick), "it is gone")
    reach(workspace, "ready")
    assert held(workspace) == {"storage_held": 3}
    assert limits_of(admin, project_of(admin, spec_of(workspace))["id"], types.fast) == (0, 0, 0)

    workspace_delete(actor=as_alice, workspace=workspace)
    reach(workspace, "deleted")
    assert status(admin, plain) == ""
    assert held(workspace) == {}


def _says(row: Workspace) -> str:
    return str(row.conditions.get("Progressing", {}).get("message", ""))


def test_a_type_that_comes_later_is_closed_by_the_next_look_and_its_volumes_stay(
    workspace: Workspace, own: Cloud, admin: Cloud, openstack_lab: Lab
) -> None:
    late = f"late-{workspace.pk.hex[:6]}"
    key = type_made(admin, late)
    try:
        disk = made(own, 1, late)
        looked(workspace.site, openstack_lab)
        site_changed(str(workspace.site_id))
        assert visit(workspace).state == "ready"
        assert visit(workspace).conditions["InSync"]["status"] == "True"
        assert not is_given(own, late)
        assert status(own, disk) == "available"
        cleared(own)
        visit(workspace)
        assert limits_of(admin, project_of(admin, spec_of(workspace))["id"], late) == (0, 0, 0)
        type_deleted(admin, key)
        assert visit(workspace).conditions["InSync"]["status"] == "True"
    finally:
        if admin.find("volume", f"/types/{key}"):
            cleared(own)
            type_deleted(admin, key)


def test_what_is_deleted_of_a_type_that_was_never_bought_is_no_drift(
    workspace: Workspace, own: Cloud, admin: Cloud, openstack_lab: Lab, project: Project, as_alice: Actor
) -> None:
    """Nor does a name that PostgreSQL does not keep stop the look, or one that is given twice hide a volume."""
    late = f"late-{workspace.pk.hex[:6]}"
    key = type_made(admin, late)
    try:
        disks = [made(own, 1, late, name="a\x00b") for _ in range(3)]
        looked(workspace.site, openstack_lab)
        site_changed(str(workspace.site_id))
        visit(workspace)
        named = {each.name for each in volumes_for(actor=as_alice, project=project)}
        assert named == {f"ab ({disk})" for disk in disks}
        for disk in disks:
            own.delete("volume", f"/volumes/{disk}")
            until(lambda disk=disk: not status(own, disk), "it is gone")  # type: ignore[misc]
            assert visit(workspace).conditions["QuotaInSync"]["status"] == "True"
        assert limits_of(admin, project_of(admin, spec_of(workspace))["id"], late) == (0, 0, 0)
        assert not workspace.drifts.exists()
    finally:
        cleared(own)
        type_deleted(admin, key)
