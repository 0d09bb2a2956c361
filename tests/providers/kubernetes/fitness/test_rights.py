"""The contract by an account that has only what `manage.py site_role` prints; and nothing is printed that is not used."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from gpuaas.core.conditions import Status
from gpuaas.providers.base import WorkspaceSpec
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubernetes.preflight.rights import RIGHTS
from tests.contracts import conftest
from tests.contracts.rigs import ALICE, KubernetesRig, ref
from tests.lab.fixtures import until
from tests.providers.kubernetes.fitness.conftest import Asked, PortalSite

pytestmark = pytest.mark.lab
# needs nodes and device classes that this control plane has not
LEFT_OUT = {"test_counting"}
# the contract itself: its tests and fixtures run here once more, with the rig below
CONTRACT = [conftest] + [
    import_module(f"tests.contracts.{path.stem}")
    for path in sorted(Path(conftest.__file__).parent.glob("test_*.py"))
    if path.stem not in LEFT_OUT
]
for module in CONTRACT:
    globals().update({name: value for name, value in vars(module).items() if not name.startswith("__")})
# it would run each test once for every driver, all of them on this one rig
del globals()["pytest_generate_tests"]
# granted, and not met by the contract: why they are needed all the same
HELD_UP = "a tenant's finalizer holds up a namespace that goes"
TAKEN_OVER = "who has rights in a namespace before it is taken over"
OPENSHIFT = "only OpenShift serves it"
ASLEEP = "put to sleep as Deployments are, which the contract does"
QUEUED = "a site has Kueue: tests/lab/kueue, by the same account"
TRAINED = "a site has JobSet and Trainer: tests/lab/trainer, by the same account"
CARRIED = "the door carries connections to an environment: tests/lab/node/test_environments.py"
RARE: dict[Asked, str] = {
    **{
        ("", kind, "list"): HELD_UP
        for kind in ("configmaps", "persistentvolumeclaims", "secrets", "services")
    },
    **{
        ("", kind, "patch"): HELD_UP
        for kind in ("configmaps", "persistentvolumeclaims", "secrets", "services")
    },
    ("", "pods", "patch"): HELD_UP,
    ("apps", "daemonsets", "patch"): HELD_UP,
    ("autoscaling", "horizontalpodautoscalers", "list"): HELD_UP,
    ("autoscaling", "horizontalpodautoscalers", "patch"): HELD_UP,
    ("policy", "poddisruptionbudgets", "list"): HELD_UP,
    ("policy", "poddisruptionbudgets", "patch"): HELD_UP,
    ("coordination.k8s.io", "leases", "patch"): HELD_UP,
    ("resource.k8s.io", "resourceclaimtemplates", "patch"): HELD_UP,
    **{("route.openshift.io", "routes", verb): HELD_UP for verb in ("list", "patch")},
    ("", "replicationcontrollers", "patch"): ASLEEP,
    ("apps", "statefulsets", "patch"): ASLEEP,
    ("batch", "cronjobs", "patch"): ASLEEP,
    **{
        ("kueue.x-k8s.io", plural, verb): QUEUED
        for plural, verbs in (
            ("clusterqueues", ("get", "watch", "create", "patch", "delete")),
            ("localqueues", ("get", "watch", "create", "patch", "delete")),
            ("resourceflavors", ("get", "create", "patch", "delete")),
            ("workloadpriorityclasses", ("get", "create", "patch")),
            ("workloads", ("list", "patch")),
        )
        for verb in verbs
    },
    **{
        (group, plural, verb): TRAINED
        for group, plural in (("jobset.x-k8s.io", "jobsets"), ("trainer.kubeflow.org", "trainjobs"))
        for verb in ("create", "list", "patch", "deletecollection")
    },
    ("trainer.kubeflow.org", "clustertrainingruntimes", "list"): TRAINED,
    ("jobset.x-k8s.io", "jobsets", "get"): TRAINED,
    **{("trainer.kubeflow.org", "trainjobs", verb): TRAINED for verb in ("get", "delete")},
    **{
        ("trainer.kubeflow.org", "trainingruntimes", verb): TRAINED
        for verb in ("get", "list", "create", "patch", "delete")
    },
    **{("", f"pods/{way}", verb): CARRIED for way in ("exec", "portforward") for verb in ("get", "create")},
    ("", "pods/proxy", "get"): "a site has exporters: test_exporter.py",
    ("rbac.authorization.k8s.io", "roles", "get"): TAKEN_OVER,
    ("rbac.authorization.k8s.io", "clusterrolebindings", "list"): TAKEN_OVER,
    ("project.openshift.io", "projectrequests", "create"): OPENSHIFT,
    **{("project.openshift.io", "projects", verb): OPENSHIFT for verb in ("get", "delete")},
    **{
        ("quota.openshift.io", "clusterresourcequotas", verb): OPENSHIFT
        for verb in ("get", "list", "create", "update", "delete")
    },
    ("apiregistration.k8s.io", "apiservices", "list"): "to name the API that holds up a namespace that goes",
    ("networking.k8s.io", "networkpolicies", "delete"): "an operator takes egress_cidrs back",
    (
        "resource.k8s.io",
        "devicetaintrules",
        "list",
    ): "alpha, served where an administrator has switched it on",
}


@pytest.fixture
def kind() -> str:
    return "kubernetes"


@pytest.fixture
def lasting(portal: PortalSite) -> Callable[[], KubernetesRig]:
    return partial(KubernetesRig, portal)


@pytest.fixture
def rig(portal: PortalSite, db: None) -> Iterator[KubernetesRig]:
    made = KubernetesRig(portal)
    yield made
    made.clean_up()


def granted() -> set[Asked]:
    return {
        (right.group, resource, verb)
        for right in RIGHTS
        for resource in right.resources.split()
        for verb in right.verbs.split()
        if verb not in ("bind", "escalate")  # checked by the API server while a role is written or bound
    }


def test_no_test_of_the_contract_hides_another() -> None:
    names = [name for module in CONTRACT for name in vars(module) if name.startswith("test_")]
    assert len(names) == len(set(names))


def test_the_check_finds_them_enough(portal: PortalSite) -> None:
    checks = {check.type: check for check in portal.driver().preflight()}
    assert checks["Permissions"].status == Status.TRUE
    assert checks["Permissions"].reason == "Enough"


def test_drift_the_warden_and_a_revocation(rig: KubernetesRig, ready: WorkspaceSpec) -> None:
    driver = rig.driver
    assert driver.drift(ready) == ()
    lent = {each.object for each in driver.drift(replace(ready, notice_seconds=60))}
    assert f"PriorityClass/{names.SPOT}" in lent
    driver.site_repair()
    list(driver.watch_changes("", seconds=3))
    rig.start(ready, "surplus")
    pods = until(lambda: driver.observe(ref(ready)).consumers, "the pod is seen")
    assert driver.evict(ready.external_name, pods[0], reason="more than was bought")
    driver.revoke_access(ref(ready), ALICE)


def test_a_check_of_a_device_that_is_claimed(rig: KubernetesRig) -> None:
    check = uuid.uuid4()
    rig.driver.node_check_start("h200-dra-1", check)
    until(lambda: rig.driver.node_check_result(check).done, "the check is done")
    rig.driver.node_check_end(check)


def test_zz_what_is_granted_is_what_is_used(sent: set[Asked], request: pytest.FixtureRequest) -> None:
    """Last of the module: the contract above has been through all of it."""
    if request.session.testscollected < 40:
        pytest.skip("only after the whole contract")
    unused = granted() - sent - RARE.keys()
    assert not unused, f"nobody asks for {sorted(unused)}"
    assert not RARE.keys() - granted()
    assert sent - granted() == set()
