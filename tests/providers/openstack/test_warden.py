"""Ways past the limit that Nova lets through: seen in Placement, and undone by the meter's warden."""

from collections.abc import Iterator

import pytest

from gpuaas.core.errors import Invalid
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.providers.openstack.warden import METADATA, Policy, evict
from gpuaas.workspaces.models import Eviction, Workspace
from tenants.models import Project, User
from tests.lab.fixtures import until
from tests.providers.openstack.conftest import provision, take_away
from tests.providers.openstack.metered import SLOW, Tenant, meter_running, stage, two_sizes


@pytest.fixture
def tenant(driver: OpenStackDriver) -> Iterator[Tenant]:
    spec = two_sizes()
    try:
        provision(driver, spec)
        yield Tenant(driver, spec, Cloud(driver.connection.credentials))
    finally:
        take_away(driver, spec)


@pytest.fixture
def workspace(driver: OpenStackDriver, tenant: Tenant, project: Project, alice: User) -> Workspace:
    return stage(driver, tenant.spec, project, alice)


@pytest.mark.openstack
@pytest.mark.timeout(1500)
@pytest.mark.django_db(transaction=True)
def test_the_newest_claim_goes_and_who_was_there_before_stays(tenant: Tenant, workspace: Workspace) -> None:
    """Of machines beyond the limit the newest is put away."""
    older, newer = tenant.boot("older"), tenant.boot("newer")
    for machine in (older, newer):
        tenant.to(machine, "ACTIVE")
    tenant.limit(4)
    with meter_running(workspace.site):
        third = tenant.boot("third")
        removed("third")
        tenant.to(third, "SHELVED_OFFLOADED", "DELETED")
    assert {tenant.machine(each)["status"] for each in (older, newer)} == {"ACTIVE"}
    # a machine that is put away goes through stretches, each of which may be told of
    assert set(Eviction.objects.values_list("consumer_name", flat=True)) == {"third"}


@pytest.mark.openstack
@pytest.mark.timeout(1500)
@pytest.mark.django_db(transaction=True)
def test_a_resize_that_nova_does_not_hold_to_the_limit_is_taken_back(
    tenant: Tenant, workspace: Workspace
) -> None:
    older, newer = tenant.boot("older"), tenant.boot("newer")
    for machine in (older, newer):
        tenant.to(machine, "ACTIVE")
    with meter_running(workspace.site):
        tenant.act(older, "resize", flavorRef=tenant.flavors["a100:2"])
        row = removed("older")
        assert (row.quantity, row.held, row.limit) == (2, 3, 2)
        tenant.to(older, "ACTIVE")
        assert tenant.machine(older)["flavor"]["extra_specs"]["pci_passthrough:alias"] == "a100:1"
        holds_two(tenant)
    assert {tenant.machine(each)["status"] for each in (older, newer)} == {"ACTIVE"}


def removed(name: str) -> Eviction:
    rows = Eviction.objects.filter(consumer_name=name, removed_at__isnull=False)
    return until(rows.first, f"{name} is removed", seconds=SLOW)


def shelved_images(tenant: Tenant) -> list[str]:
    """Their owners."""
    rows = tenant.admin.items("image", "/images", "images", name="train-shelved", visibility="all")
    return [row["owner"] for row in rows]


def holds_two(tenant: Tenant) -> None:
    until(lambda: tenant.held(tenant.project_id) == 2, "the devices are given back", seconds=SLOW)


@pytest.mark.openstack
@pytest.mark.timeout(1500)
def test_a_machine_is_put_away_with_its_disk_or_deleted_by_the_sites_policy(tenant: Tenant) -> None:
    machine = tenant.boot("train")
    tenant.to(machine, "ACTIVE")
    assert evict(tenant.admin, machine, reason="one too many", policy=Policy.SHELVE)
    tenant.to(machine, "SHELVED_OFFLOADED")
    assert tenant.machine(machine)["metadata"][METADATA] == "one too many"
    assert not evict(tenant.admin, machine, reason="one too many", policy=Policy.SHELVE)
    assert shelved_images(tenant) == [tenant.project_id], "the portal keeps nothing of it"
    tenant.run(machine, "unshelve", "ACTIVE")
    until(lambda: not shelved_images(tenant), "who brings it back has taken its image away")
    assert evict(tenant.admin, machine, reason="one too many", policy=Policy.DELETE)
    tenant.to(machine, "DELETED")
    assert not evict(tenant.admin, machine, reason="one too many", policy=Policy.DELETE)


@pytest.mark.parametrize(
    "options",
    [
        {"surplus_machines": "keep"},
        {"surplus_machines": 7},
        {"history_days": 0},
        {"history_days": "30"},
        {"history_days": True},
    ],
)
def test_options_that_mean_nothing_are_refused_beside_the_field(options: dict[str, object]) -> None:
    with pytest.raises(Invalid) as refused:
        OpenStackDriver.options_check(options)
    assert "options" in str(refused.value.detail or refused.value)


def test_options_of_the_warden_and_the_meter_are_taken() -> None:
    OpenStackDriver.options_check({"surplus_machines": "delete", "history_days": 7})
