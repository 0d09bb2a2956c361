"""How long a machine beyond the limit keeps its devices on the OpenStack lab: from the second at which Nova began to build it to the
call that puts it away, against the ten seconds that are allowed."""

import statistics
import uuid

from deploy.lab.openstack import Lab
from gpuaas.providers.base import Connection
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.workspaces.models import Eviction
from tests.bench.table import Measured
from tests.factories.tenants import ProjectFactory, UserFactory
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import STATE_DIR
from tests.providers.openstack.conftest import provision, take_away
from tests.providers.openstack.metered import A100, Tenant, meter_running, stage, two_sizes

ROUNDS, ALLOWED_SECONDS = 10, 10.0


def measure() -> list[Measured]:
    lab = Lab(state_dir=STATE_DIR)
    lab.up()
    credentials = {"clouds_yaml": lab.clouds.read_text(), "cloud": "lab"}
    options = {"external_network": "public", "aliases": {A100: "a100"}}
    driver = OpenStackDriver(Connection(uuid.uuid4(), "bench", "", credentials, options))
    spec = two_sizes()
    try:
        provision(driver, spec)
        tenant = Tenant(driver, spec, Cloud(credentials))
        workspace = stage(
            driver, spec, ProjectFactory.create(slug="warden"), UserFactory.create(username="warden")
        )
        for name in ("first", "second"):
            tenant.to(tenant.boot(name), "ACTIVE")
        tenant.limit(4)
        with meter_running(workspace.site):
            took = [_round(tenant, f"beyond-{number}") for number in range(ROUNDS)]
    finally:
        take_away(driver, spec)
    note = f"median {statistics.median(took):.1f} s, worst {max(took):.1f} s of {ROUNDS}"
    what = "a machine beyond the limit is put away, worst"
    floor_is = "the seconds allowed"
    return [Measured(what, "s", max(took), ALLOWED_SECONDS, floor_is, higher_is_better=False, note=note)]


def _round(tenant: Tenant, name: str) -> float:
    """Seconds. The machine is gone afterwards."""
    machine = tenant.boot(name)
    row = until(
        Eviction.objects.filter(consumer_name=name, removed_at__isnull=False).first, f"{name} is put away"
    )
    assert row.removed_at is not None
    tenant.to(machine, "SHELVED_OFFLOADED", "DELETED")
    tenant.alice.delete("compute", f"/servers/{machine}")
    until(lambda: tenant.machine(machine)["status"] == "DELETED", f"{name} is gone")
    return (row.removed_at - row.started_at).total_seconds()
