"""Parts of one cluster at two sites, on the real cloud: what is whose, and what becomes of addresses."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from deploy.lab.openstack import Lab
from gpuaas.core.errors import Permanent
from gpuaas.providers.base import Change, ClusterBurstCapability, ClusterSpec
from gpuaas.providers.openstack.clusters.driver import OpenStackClusterDriver
from tests.contracts.clusters import mesh
from tests.contracts.clusters.openstack_rig import OpenStackClusterRig
from tests.contracts.clusters.rigs import carry_out, counts, step_finish

pytestmark = [pytest.mark.openstack]
C = Change


@pytest.fixture
def rig(openstack_lab: Lab) -> Iterator[OpenStackClusterRig]:
    with closing(OpenStackClusterRig(openstack_lab)) as made:
        yield made


def far_of(home: ClusterSpec) -> ClusterSpec:
    return replace(home, control_plane=replace(home.control_plane, count=0), pools=home.pools[1:], addons=())


def grounded(rig: OpenStackClusterRig, *steps: str) -> ClusterSpec:
    home = replace(rig.spec(workers=1), spans=True)
    for step in ("project", *steps):
        step_finish(rig.driver, C.CREATE, home, step)
    return home


def test_what_is_in_another_domain_is_another_sites(rig: OpenStackClusterRig) -> None:
    home, there = grounded(rig, "network", "endpoint"), rig.elsewhere()
    far = far_of(home)
    kept = rig.driver.inventory(home.ref)
    for step in ("project", "network"):
        step_finish(there, C.CREATE, far, step)
    assert {(one.kind, one.name) for one in there.inventory(far.ref)} == {
        (one.kind, one.name) for step in there.plan(C.CREATE, far).steps[:2] for one in step.makes
    }
    mine = {one.uid for one in there.inventory() if one.cluster_id == home.id}
    assert mine
    assert not mine & {one.uid for one in rig.driver.inventory()}
    carry_out(there, C.DELETE, far)
    assert there.inventory(far.ref) == ()
    assert rig.driver.inventory(home.ref) == kept


def test_a_burst_site_in_the_same_domain_touches_nothing_of_the_clusters_own(
    rig: OpenStackClusterRig,
) -> None:
    home = grounded(rig)
    kept = rig.driver.inventory(home.ref)
    at = replace(rig.connection, site_id=uuid.uuid4(), site_slug="cloud-2")
    with pytest.raises(Permanent, match="its own domain"):
        OpenStackClusterDriver(at).perform(C.CREATE, far_of(home), "project")
    assert rig.driver.inventory(home.ref) == kept


def test_an_address_that_was_taken_away_is_mended_and_sleep_gives_all_back(rig: OpenStackClusterRig) -> None:
    home = replace(rig.spec(workers=1), spans=True)
    carry_out(rig.driver, C.CREATE, home)
    there = rig.elsewhere()
    assert isinstance(rig.driver, ClusterBurstCapability)
    far = replace(far_of(home), join=rig.driver.join(home))
    carry_out(there, C.CREATE, far)
    domain = there.connection.options["domain"]
    project = rig.project(far.ref, domain)
    assert project is not None

    (address,) = rig.admin.items("network", "/floatingips", "floatingips", project_id=project["id"])
    rig.admin.put("network", f"/floatingips/{address['id']}", {"floatingip": {"port_id": None}})
    (node,) = there.observe(far.ref).nodes
    assert (node.ready, node.reason) == (False, "its external address does not lead to it")
    carry_out(there, C.CREATE, far)
    mesh.holds(rig.admin, far, domain)
    rig.admin.delete("network", f"/floatingips/{address['id']}")
    assert not there.observe(far.ref).nodes[0].ready
    carry_out(there, C.CREATE, far)
    mesh.holds(rig.admin, far, domain)

    none = counts(far, other=0)
    carry_out(there, C.SUSPEND, none, far)
    mesh.holds(rig.admin, none, domain)
    asleep = counts(home, gpu=0, other=0)
    carry_out(rig.driver, C.SUSPEND, asleep, home)
    mesh.holds(rig.admin, asleep, "default")
    carry_out(there, C.RESUME, far, none)
    mesh.holds(rig.admin, far, domain)
