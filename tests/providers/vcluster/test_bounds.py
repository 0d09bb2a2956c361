"""What a virtual cluster cannot do, at the real API server: take more than its pools, or act beside them."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import yaml

from deploy.lab.kubernetes import Lab
from gpuaas.core.errors import Permanent, Unauthorized
from gpuaas.providers.base import Change, Member
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubeapi.names import NAMESPACES
from gpuaas.providers.vcluster import names, site
from gpuaas.providers.vcluster.tenancy import gpus_in
from tests.contracts.clusters.rigs import ALICE, carry_out, counts
from tests.contracts.clusters.vcluster_rig import CLOSED, H100, MIG, VirtualRig
from tests.lab.fixtures import LabSite, until
from tests.providers.vcluster.conftest import Virtual, whole

BOB = Member("u-b0b5ees", "bob", "view")  # others let a bob do more: one API server is inside of all clusters

FUTURE = "2099-01-01T00:00:00Z"
STATUSES: dict[str, dict[str, Any]] = {
    "its end": {"phase": "Succeeded"},
    "its beginning": {
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": FUTURE}]
    },
    "no beginning": {"conditions": []},
    "ends of containers": {
        "containerStatuses": [
            {
                "name": "main",
                "image": "registry.example/train",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": {"exitCode": 0, "finishedAt": "2020-01-01T00:00:00Z"}},
            }
        ]
    },
}


def pod(resource: str, gpus: int, **more: Any) -> dict[str, Any]:
    limits = {resource: str(gpus)} if gpus else {}
    asked = {"limits": limits, "requests": {"cpu": "1", "memory": "1Gi", **limits}}
    box = {"name": "main", "image": "registry.example/train", "resources": asked}
    return {"metadata": {"generateName": "p-"}, "spec": {"containers": [box], **more}}


def has_node(virtual: Virtual, name: str) -> bool:
    return bool(virtual.host.get(f"{virtual.space}/pods/{name}")["spec"].get("nodeName"))


@pytest.fixture(scope="module")
def shared(lab: LabSite, virtual_lab: Lab) -> Iterator[Virtual]:
    """For tests that change nothing in it."""
    rig = VirtualRig(lab, virtual_lab)
    yield whole(rig)
    rig.close()


def refusal(virtual: Virtual, body: dict[str, Any]) -> str:
    with pytest.raises((Permanent, Unauthorized)) as caught:
        virtual.syncer.create(f"{virtual.space}/pods", body)
    return caught.value.message


def test_one_gpu_more_than_the_pools_is_refused_by_the_site(virtual: Virtual) -> None:
    for _ in range(4):
        virtual.syncer.create(f"{virtual.space}/pods", pod(H100, 1))
    assert "exceeded quota" in refusal(virtual, pod(H100, 1))
    for closed in CLOSED:
        assert refusal(virtual, pod(closed, 1))
    assert "exceeded quota" in refusal(virtual, pod(MIG, 3))


def test_pods_of_the_cluster_are_on_the_nodes_of_its_flavors(shared: Virtual) -> None:
    made = shared.syncer.create(f"{shared.space}/pods", pod(H100, 1), dryRun="All")
    assert made["spec"]["nodeSelector"] == {"gpuaas.io/pool": "h100-sxm-80gb"}
    elsewhere = pod(H100, 1, nodeSelector={"gpuaas.io/pool": "a100-40gb-mig"})
    assert "nodeSelector" in refusal(shared, elsewhere)


def test_what_is_inside_is_bound_as_a_workspace_is(shared: Virtual) -> None:
    assert "hostNetwork" in refusal(shared, pod(H100, 0, hostNetwork=True))
    box = {"name": "main", "image": "i", "securityContext": {"privileged": True}}
    assert "privileged" in refusal(shared, {**pod(H100, 0), "spec": {"containers": [box]}})
    marked = pod(H100, 0)
    marked["metadata"]["labels"] = {names.CONTROL: shared.spec.external_name}
    assert "belong to the portal" in refusal(shared, marked)
    service = {"metadata": {"name": "out"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    with pytest.raises((Permanent, Unauthorized)):
        shared.syncer.create(f"{shared.space}/services", service)


@pytest.mark.parametrize("part", ["", "/status", "/ephemeralcontainers"])
def test_no_label_of_the_portal_is_put_on_a_pod_later(shared: Virtual, part: str) -> None:
    """By that of the control plane a pod would get to the site's API server."""
    made = shared.syncer.create(f"{shared.space}/pods", pod(H100, 0))["metadata"]["name"]
    path, marked = f"{shared.space}/pods/{made}", {names.CONTROL: shared.spec.external_name}
    with contextlib.suppress(Permanent):
        shared.syncer.merge(path + part, {"metadata": {"labels": marked}})
    assert names.CONTROL not in (shared.host.get(path)["metadata"].get("labels") or {})


@pytest.mark.parametrize("change", STATUSES, ids=STATUSES)
def test_what_is_metered_of_a_pod_is_not_the_syncers_to_say(shared: Virtual, change: str) -> None:
    made = shared.syncer.create(f"{shared.space}/pods", pod(H100, 0))["metadata"]["name"]
    path = f"{shared.space}/pods/{made}"
    until(lambda: shared.host.get(path)["status"]["phase"] == "Running", f"{made} runs")
    with pytest.raises(Permanent, match="set by its node"):
        shared.syncer.merge(f"{path}/status", {"status": STATUSES[change]})
    gate = {"type": "example.com/ready", "status": "True", "lastTransitionTime": FUTURE}
    held = shared.syncer.get(path)["status"].get("conditions") or []
    shared.syncer.merge(f"{path}/status", {"status": {"conditions": [*held, gate]}})


def test_the_syncer_has_no_rights_but_in_its_namespace_and_none_over_its_bounds(shared: Virtual) -> None:
    quota = f"{shared.space}/resourcequotas/gpuaas"
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{names.space(shared.spec.external_name)}"
    for verb in (
        lambda: shared.syncer.get(quota),
        lambda: shared.syncer.merge(quota, {"spec": {"hard": {f"requests.{H100}": "16"}}}),
        lambda: shared.syncer.items("/api/v1/pods"),
        lambda: shared.syncer.items("/api/v1/nodes"),
        lambda: shared.syncer.items(NAMESPACES),
        lambda: shared.syncer.items(f"{NAMESPACES}/kube-system/secrets"),
        lambda: shared.syncer.items(f"{rbac}/rolebindings"),
        lambda: shared.syncer.create(f"{shared.space}/serviceaccounts/default/token", {}),
        lambda: shared.syncer.delete(shared.space),
    ):
        with pytest.raises(Unauthorized):
            verb()


def test_another_tenants_cluster_can_read_nothing_of_it(shared: Virtual) -> None:
    """charlie's syncer has the same role, bound in another namespace; his credentials are another cluster's."""
    theirs = shared.rig.spec(workers=1)
    carry_out(shared.rig.driver, Change.CREATE, theirs)
    charlie = shared.rig.played.syncer(theirs.external_name)
    assert charlie.items(f"{NAMESPACES}/{names.space(theirs.external_name)}/pods")
    for kind in ("pods", "secrets", "configmaps", "services"):
        with pytest.raises(Unauthorized):
            charlie.items(f"{shared.space}/{kind}")


def test_a_member_who_sees_may_not_change(shared: Virtual) -> None:
    driver, hour = shared.rig.lossy, timedelta(hours=1)
    bob = Api(driver.access(shared.spec, BOB, lifetime=hour).document)
    alice = Api(driver.access(shared.spec, ALICE, lifetime=hour).document)
    body = {"metadata": {"generateName": "mine-"}}
    assert alice.create(f"{NAMESPACES}/default/configmaps", body)
    bob.items(f"{NAMESPACES}/default/configmaps")
    with pytest.raises(Unauthorized):
        bob.create(f"{NAMESPACES}/default/configmaps", body)


def test_the_administrators_credential_stays_with_the_portal(shared: Virtual) -> None:
    hour = timedelta(hours=1)
    given = yaml.safe_load(shared.rig.lossy.access(shared.spec, ALICE, lifetime=hour).document)
    assert set(given["users"][0]["user"]) == {"token"}
    kept = yaml.safe_load(site.admin_kubeconfig(shared.host, shared.spec.ref))
    assert set(kept["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}


def test_a_smaller_cluster_ends_the_newest_that_no_longer_fit(virtual: Virtual) -> None:
    """As in a workspace: nobody keeps what was given back."""
    for _ in range(3):
        name = virtual.syncer.create(f"{virtual.space}/pods", pod(H100, 1))["metadata"]["name"]
        until(partial(has_node, virtual, name), f"{name} has a node")
    fewer = counts(virtual.spec, gpu=1)
    carry_out(virtual.rig.driver, Change.SCALE, fewer, virtual.spec)
    assert gpus_in(site.enforced(virtual.host, fewer.external_name), H100) == 2
    assert len(virtual.host.items(f"{virtual.space}/pods", labelSelector=f"!{names.CONTROL}")) == 2


def test_growth_patches_the_one_quota_in_place(virtual: Virtual) -> None:
    before = virtual.host.items(f"{virtual.space}/resourcequotas")
    more = counts(virtual.spec, gpu=3)
    carry_out(virtual.rig.driver, Change.SCALE, more, virtual.spec)
    after = virtual.host.items(f"{virtual.space}/resourcequotas")
    assert [one["metadata"]["uid"] for one in after] == [one["metadata"]["uid"] for one in before]
    assert gpus_in(after[0]["status"]["hard"], H100) == 6


def test_a_release_too_far_from_the_sites_is_refused_with_what_to_do(shared: Virtual) -> None:
    far = replace(shared.spec, release="1.20.0")
    with pytest.raises(Permanent) as caught:
        shared.rig.driver.perform(Change.UPGRADE, far, "control-plane")
    assert "minor versions away" in caught.value.message
    assert caught.value.detail["evidence"]
    assert caught.value.detail["next"]


def test_asleep_nothing_comes_back_until_it_wakes(virtual: Virtual) -> None:
    spec = virtual.spec
    virtual.rig.played.pod(spec, "train", H100, 1)
    label = f"{names.SYNCED}={spec.external_name}"

    def copies() -> list[Any]:
        return virtual.host.items(f"{virtual.space}/pods", labelSelector=label)

    until(lambda: [one for one in copies() if one["spec"].get("nodeName")], "it runs at the site")
    asleep = counts(spec, gpu=0, other=0)
    carry_out(virtual.rig.driver, Change.SUSPEND, asleep, spec)
    assert copies() == []
    assert refusal(virtual, pod(H100, 1))
    carry_out(virtual.rig.driver, Change.RESUME, spec, asleep)
    assert virtual.syncer.create(f"{virtual.space}/pods", pod(H100, 1))
