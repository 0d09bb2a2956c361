"""On plain Kubernetes the OpenShift driver is the Kubernetes driver; this module runs before the APIs are loaded."""

import pytest

from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubernetes.openshift import projects, wall
from gpuaas.providers.kubernetes.openshift.driver import OpenShiftDriver
from tests.contracts.rigs import ref
from tests.providers.kubernetes.conftest import provision
from tests.providers.openshift.conftest import Make

pytestmark = pytest.mark.lab


def test_without_openshifts_apis_it_does_with_namespaces(
    driver: OpenShiftDriver, api: Api, make: Make
) -> None:
    if wall.is_served(api):
        pytest.fail("this module has to run before the others of its folder")
    spec = make()
    assert not projects.request(api, spec)
    assert not wall.settle(api, project=spec.project_slug, organization=spec.organization_slug)
    provision(driver, spec)
    assert driver.observe(ref(spec)).hard["nvidia.com/gpu"] == 2
