"""The contract by an account that has only what `manage.py site_role` prints; and nothing is printed that is not used."""

from collections.abc import Iterator

import pytest

from gpuaas.core.conditions import Status
from gpuaas.providers.base import WorkspaceSpec
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from gpuaas.providers.kubernetes.preflight.rights import RIGHTS
from tests.contracts.conftest import *  # noqa: F403  its fixtures, but for `rig`
from tests.contracts.rigs import KubernetesRig, ref
from tests.contracts.test_health import *  # noqa: F403
from tests.contracts.test_node_checks import *  # noqa: F403
from tests.contracts.test_preflight import *  # noqa: F403
from tests.contracts.test_quota import *  # noqa: F403
from tests.contracts.test_steps import *  # noqa: F403
from tests.contracts.test_suspend import *  # noqa: F403
from tests.contracts.test_usage import *  # noqa: F403
from tests.lab.fixtures import until
from tests.providers.kubernetes.fitness.conftest import Asked, PortalSite

pytestmark = pytest.mark.lab
# granted, and not met by the contract: why they are needed all the same
RARE: dict[Asked, str] = {}


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


def test_the_check_finds_them_enough(portal: PortalSite) -> None:
    checks = {check.type: check for check in portal.driver().preflight()}
    assert checks["Permissions"].status == Status.TRUE
    assert checks["Permissions"].reason == "Enough"


def test_drift_the_warden_and_adoption(rig: KubernetesRig, ready: WorkspaceSpec) -> None:
    driver = rig.driver
    assert isinstance(driver, KubernetesDriver)
    assert driver.drift(ready) == ()
    driver.site_repair()
    list(driver.watch_changes("", seconds=1))
    rig.start(ready, "surplus")
    pods = until(lambda: driver.observe(ref(ready)).consumers, "the pod is seen")
    assert driver.evict(ready.external_name, pods[0], reason="more than was bought")


def test_zz_what_is_granted_is_what_is_used(sent: set[Asked], request: pytest.FixtureRequest) -> None:
    """Last of the module: the contract above has been through all of it."""
    if request.session.testscollected < 40:
        pytest.skip("only after the whole contract")
    unused = granted() - sent - RARE.keys()
    assert not unused, f"nobody asks for {sorted(unused)}"
    assert not RARE.keys() - granted()
    assert sent - granted() == set()
