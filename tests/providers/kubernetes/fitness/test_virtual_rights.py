"""A virtual cluster's whole way by an account that has only what `manage.py site_role --virtual-clusters` prints; and nothing is printed
that is not used. The site's own API server stands in for the one inside: whoever acts there has the cluster's own credentials."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.core.errors import Permanent, Unauthorized
from gpuaas.providers.base import Change, ClusterSpec
from gpuaas.providers.kubeapi.names import NAMESPACES
from gpuaas.providers.kubeapi.rights import Right
from gpuaas.providers.kubernetes.preflight import rights as workspaces
from gpuaas.providers.vcluster import names, rights, site
from tests.contracts.clusters.rigs import ALICE, carry_out, counts, released
from tests.contracts.clusters.vcluster_rig import H100, VirtualRig
from tests.lab.fixtures import until
from tests.providers.kubernetes.fitness.conftest import (
    COLLECTIONS,
    Asked,
    PortalSite,
    account,
    control_plane,
    listening,
)
from tests.providers.vcluster.test_bounds import pod

pytestmark = pytest.mark.lab
C = Change


def granted(table: tuple[Right, ...]) -> set[Asked]:
    """Without what the API server itself checks while a role is written or bound."""
    return {
        (right.group, resource, verb)
        for right in table
        for resource in right.resources.split()
        for verb in right.verbs.split()
        if verb not in ("bind", "escalate")
    }


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A site's guards let nobody but the account that set them up touch the portal's namespaces: at this one none are set up."""
    with control_plane(tmp_path_factory.mktemp("virtual-fit-lab")) as lab:
        yield lab


@pytest.fixture(scope="module")
def narrow(unguarded: Lab) -> PortalSite:
    return account(unguarded, workspaces.site_role(rights.RIGHTS))


@pytest.fixture
def rig(narrow: PortalSite, unguarded: Lab, db: None) -> Iterator[VirtualRig]:
    made = VirtualRig(narrow, unguarded)
    yield made
    made.close()


def wanted(rig: VirtualRig) -> ClusterSpec:
    spec = rig.spec()
    host = rig.address.replace("127.0.0.1", "localhost")
    routed = {
        "host": host,
        "ingress_class": "nginx",
        "routers": {"kubernetes.io/metadata.name": "ingress-nginx"},
    }
    spec = replace(spec, settings={**spec.settings, **routed})
    rig.played.clusters[spec.external_name] = spec
    return spec


def started(rig: VirtualRig, spec: ClusterSpec) -> None:
    """By its syncer, on a node."""
    path = f"{NAMESPACES}/{names.space(spec.external_name)}/pods"
    made = rig.played.syncer(spec.external_name).create(path, pod(H100, 1))["metadata"]["name"]
    until(lambda: rig.api.get(f"{path}/{made}")["spec"].get("nodeName"), "it has a node")


def life(rig: VirtualRig, spec: ClusterSpec) -> None:
    driver = rig.lossy
    carry_out(driver, C.CREATE, spec)
    driver.access(spec, ALICE, lifetime=timedelta(hours=1))
    driver.signals(spec)
    driver.revoke(spec, ALICE)
    assert driver.observe(spec.ref).endpoint
    assert driver.inventory(spec.ref)
    assert driver.inventory()
    for _ in range(3):
        started(rig, spec)
    fewer, asleep = counts(spec, gpu=1), counts(spec, gpu=0, other=0)
    carry_out(driver, C.SCALE, fewer, spec)
    carry_out(driver, C.SUSPEND, asleep, fewer)
    carry_out(driver, C.RESUME, spec, asleep)
    carry_out(driver, C.UPGRADE, released(spec, rig.new, "gpu"), spec)
    carry_out(driver, C.DELETE, spec)
    assert driver.inventory(spec.ref) == ()


def test_what_is_granted_is_what_is_used(rig: VirtualRig, narrow: PortalSite) -> None:
    with listening(narrow.portal_kubeconfig) as sent:
        life(rig, wanted(rig))
    beside = granted(rights.RIGHTS)
    assert beside <= sent, f"nobody asks for {sorted(beside - sent)}"
    assert sent <= beside | granted(workspaces.RIGHTS)
    assert not beside & granted(workspaces.RIGHTS), "said once"


def test_without_any_of_them_it_is_refused(rig: VirtualRig, narrow: PortalSite) -> None:
    spec, role = wanted(rig), f"{COLLECTIONS['ClusterRole']}/{workspaces.ROLE}"
    carry_out(rig.driver, C.CREATE, spec)
    whole = rig.api.get(role)["rules"]
    for right in rights.RIGHTS:
        rig.api.merge(role, {"rules": [rule for rule in whole if rule != right.rule()]})
        until(partial(is_refused, rig, spec), f"without {right.verbs} {right.resources} it is refused")
    rig.api.merge(role, {"rules": whole})
    until(lambda: not is_refused(rig, spec), "with all of them it works again")


def is_refused(rig: VirtualRig, spec: ClusterSpec) -> bool:
    """Mending it, after somebody has taken its syncer's binding away."""
    bindings = site.path(spec.external_name, "rolebindings", "/apis/rbac.authorization.k8s.io/v1")
    rig.api.delete(f"{bindings}/{names.account(spec.external_name)}")
    try:
        carry_out(rig.driver, C.CREATE, spec)
    except (Unauthorized, Permanent):  # the second: it may not grant what it has not itself
        return True
    return False
