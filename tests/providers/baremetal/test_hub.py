"""The driver at a hub whose controllers are played on a real API server: what it wipes, whom it approves, what it says."""

import base64
from collections.abc import Iterator

import pytest
import yaml

from gpuaas.core.errors import Invalid, Permanent
from gpuaas.providers.baremetal.artifacts import agent_config, install_config
from gpuaas.providers.baremetal.hosts import host_cleaned, hosts_of
from gpuaas.providers.baremetal.hub import AGENT, KINDS
from gpuaas.providers.baremetal.models import CertificateApproval, Host, HostState
from gpuaas.providers.baremetal.plan import INFRA_ENV, INSTALL, MACHINE
from gpuaas.providers.baremetal.settings import settings_read
from gpuaas.providers.base import Change, ClusterSpec
from gpuaas.providers.kubeapi.client import Api, Object
from tests.contracts.clusters.baremetal_rig import BareMetalRig
from tests.contracts.clusters.rigs import carry_out, counts, step_do, step_finish
from tests.lab.fixtures import LabSite, until
from tests.providers.baremetal.kubelets import Asker, condition

pytestmark = pytest.mark.lab
C = Change


@pytest.fixture
def yard(bare_metal_lab: LabSite, db: None) -> Iterator[BareMetalRig]:
    rig = BareMetalRig(bare_metal_lab)
    yield rig
    rig.close()


@pytest.fixture
def ready(yard: BareMetalRig) -> ClusterSpec:
    spec = yard.spec(workers=1)
    carry_out(yard.driver, C.CREATE, spec)
    return spec


def machines(yard: BareMetalRig, kind: str = MACHINE) -> list[Object]:
    return yard.api.items(KINDS[kind].within(yard.namespace))


def test_the_hub_is_told_what_to_install(yard: BareMetalRig, ready: ClusterSpec) -> None:
    install = machines(yard, INSTALL)[0]["spec"]
    assert install["provisionRequirements"] == {"controlPlaneAgents": 1, "workerAgents": 2}
    assert install["manifestsConfigMapRefs"] == [{"name": f"{ready.external_name}-addon-gpu-operator"}]
    host = hosts_of(ready.id).get(slot="gpu-1")
    machine = next(one for one in machines(yard) if one["metadata"]["name"].endswith("-gpu-1"))
    assert machine["spec"]["bmc"]["address"] == host.bmc_address
    assert machine["spec"]["bmc"]["credentialsName"] == host.bmc_secret
    assert machine["spec"]["rootDeviceHints"] == host.root_device
    artifacts = yard.api.get(
        f"/api/v1/namespaces/{yard.namespace}/configmaps/{ready.external_name}-artifacts"
    )
    assert artifacts["data"]["ipxe"].endswith("/ipxe-script")
    assert artifacts["data"]["iso"].endswith("/full.iso")


def test_a_machine_that_nobody_bound_is_never_approved(yard: BareMetalRig, ready: ClusterSpec) -> None:
    """It booted the cluster's image all the same: the link has leaked, or a cable is in the wrong port."""
    image = machines(yard, INFRA_ENV)[0]
    path = KINDS[AGENT].within(yard.namespace)
    yard.hub.stop()
    body = {
        "apiVersion": KINDS[AGENT].version,
        "kind": AGENT,
        "metadata": {"name": "stranger", "labels": image["spec"]["agentLabels"]},
        "spec": {"approved": False, "role": "auto-assign"},
    }
    yard.api.create(path, body)
    port = {"name": "eno1", "macAddress": "02:ff:ff:ff:ff:ff"}
    yard.api.merge(f"{path}/stranger/status", {"status": {"inventory": {"interfaces": [port]}}})
    for step in yard.driver.plan(C.CREATE, ready).steps:
        step_do(yard.driver, C.CREATE, ready, step.key)
    stranger = yard.api.get(f"{path}/stranger")["spec"]
    assert stranger == {"approved": False, "role": "auto-assign"}
    bound = [one["spec"] for one in machines(yard, AGENT) if one["metadata"]["name"] != "stranger"]
    assert {one["clusterDeploymentName"]["name"] for one in bound} == {ready.external_name}
    assert {one["hostname"] for one in bound} == {host.name for host in hosts_of(ready.id)}


def test_a_host_that_is_not_wiped_is_not_free(yard: BareMetalRig, ready: ClusterSpec) -> None:
    """And the cluster is not gone: whoever gets the host next must not read what lies there."""
    stuck = hosts_of(ready.id).get(slot="gpu-1")
    yard.hub.stuck.add(f"{ready.external_name}-gpu-1")
    step_finish(yard.driver, C.DELETE, ready, "definition")
    until(lambda: "BMC" in step_do(yard.driver, C.DELETE, ready, "workers").detail, "the BMC is told of")
    assert Host.objects.get(pk=stuck.pk).state == HostState.WIPING
    assert yard.driver.observe(ready.ref).exists
    yard.hub.stuck.clear()
    carry_out(yard.driver, C.DELETE, ready)
    assert Host.objects.get(pk=stuck.pk).state == HostState.FREE


def test_a_host_that_the_hub_has_forgotten_waits_for_an_operator(
    yard: BareMetalRig, ready: ClusterSpec
) -> None:
    lost = hosts_of(ready.id).get(slot="gpu-1")
    yard.api.delete(f"{KINDS[MACHINE].within(yard.namespace)}/{ready.external_name}-gpu-1")
    step_finish(yard.driver, C.DELETE, ready, "definition")
    with pytest.raises(Permanent) as caught:
        step_do(yard.driver, C.DELETE, ready, "workers")
    assert "by hand" in caught.value.detail["next"]
    assert Host.objects.get(pk=lost.pk).state == HostState.WIPING
    host_cleaned(site_id=yard.connection.site_id, name=lost.name)
    carry_out(yard.driver, C.DELETE, ready)
    assert Host.objects.get(pk=lost.pk).state == HostState.FREE


def test_a_machine_that_went_quiet_is_not_ready_and_keeps_its_host(
    yard: BareMetalRig, ready: ClusterSpec
) -> None:
    """Nothing is wiped because a cable was pulled: only an operator takes a host out."""
    host = hosts_of(ready.id).get(slot="gpu-1")
    yard.hub.lost.add(f"{ready.external_name}-gpu-1")

    def reasons() -> list[str]:
        return [node.reason for node in yard.driver.observe(ready.ref).nodes if not node.ready]

    assert until(reasons, "the machine is not ready") == ["the hub has lost its connection to it"]
    assert not step_do(yard.driver, C.CREATE, ready, "pool:gpu").done
    assert hosts_of(ready.id).get(slot="gpu-1").pk == host.pk


def test_a_host_that_joins_later_gets_its_certificate(
    yard: BareMetalRig, ready: ClusterSpec, bare_metal_lab: LabSite, admin: Api, bootstrapper: Asker
) -> None:
    """While a pool grows, the driver looks at who asks for certificates at the cluster's own API; here the hub plays that too."""
    secret = {
        "metadata": {"name": "admin-kubeconfig"},
        "data": {"kubeconfig": base64.b64encode(bare_metal_lab.kubeconfig.encode()).decode()},
    }
    yard.api.create(f"/api/v1/namespaces/{yard.namespace}/secrets", secret)
    path = f"{KINDS[INSTALL].within(yard.namespace)}/{ready.external_name}"
    reference = {"clusterMetadata": {"adminKubeconfigSecretRef": {"name": "admin-kubeconfig"}}}
    yard.api.merge(path, {"spec": reference})
    yard.hub.stop()
    more = counts(ready, gpu=2)
    assert not step_do(yard.driver, C.SCALE, more, "pool:gpu").done
    joining = hosts_of(ready.id).get(slot="gpu-2")
    mine, stranger = bootstrapper.ask_client(joining.name), bootstrapper.ask_client("stranger")
    assert not step_do(yard.driver, C.SCALE, more, "pool:gpu").done
    assert condition(admin, mine) == ("Approved", "GpuaasExpectedHostClient")
    assert condition(admin, stranger) == ("Denied", "GpuaasUnexpectedHost")
    assert CertificateApproval.objects.filter(host=joining).count() == 1


def test_artifacts_for_whoever_installs_without_a_hub(yard: BareMetalRig, ready: ClusterSpec) -> None:
    settings = settings_read(ready.settings)
    rows = list(hosts_of(ready.id).order_by("slot"))
    bond = {
        "interfaces": [
            {
                "name": "bond0",
                "type": "bond",
                "state": "up",
                "ipv4": {"enabled": True, "address": [{"ip": "192.0.2.10", "prefix-length": 24}]},
                "link-aggregation": {"mode": "802.3ad", "port": ["eno1", "eno2"]},
            }
        ]
    }
    rows[-1].network = bond
    agent = yaml.safe_load(agent_config(ready, rows))
    assert [one["role"] for one in agent["hosts"]] == ["master", "worker", "worker"]
    assert agent["rendezvousIP"] == rows[0].addresses[0]
    assert agent["hosts"][-1]["networkConfig"] == bond
    assert agent["hosts"][0]["networkConfig"]["interfaces"][0]["ipv4"]["dhcp"] is True
    install = yaml.safe_load(install_config(ready, settings))
    assert install["compute"] == [{"name": "worker", "replicas": 2}]
    assert install["platform"] == {"none": {}}, "a control plane of one needs no addresses of its own"
    assert "Secret pull-secret" in install["pullSecret"]


@pytest.mark.parametrize(
    "change",
    [
        {"namespace": ""},
        {"namespace": "Not A Name"},
        {"images": {}},
        {"images": ["4.18"]},
        {"machine_networks": ["192.0.2.0/33"]},
        {"machine_networks": "192.0.2.0/24"},
        {"addons": {"gpu-operator": {}}},
        {"api_vip": "here"},
        {"pull_secret": {"auths": {}}},
        {"colour": "red"},
        {"drain_minutes": -1},
        {"drain_minutes": True},
        {"drain_minutes": "15"},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused_beside_their_field(
    yard: BareMetalRig, change: dict[str, object]
) -> None:
    spec = yard.spec()
    with pytest.raises(Invalid) as caught:
        yard.driver.settings_check(spec.kind, {**spec.settings, **change})
    assert "settings" in caught.value.fields
