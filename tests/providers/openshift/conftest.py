"""A control plane of its own, as near to OpenShift as CRDs and an aggregated API of projects bring it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from deploy.lab.kubernetes import Lab, LabError
from gpuaas.providers.base import Change, WorkspaceSpec
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubernetes.openshift.driver import OpenShiftDriver
from tests.contracts.rigs import ref, release_step
from tests.lab.fixtures import LabSite
from tests.providers.kubernetes.conftest import make_spec
from tests.providers.openshift.site import ProjectApi, crds_load

Make = Callable[..., WorkspaceSpec]


@pytest.fixture(scope="package")
def openshift_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSite]:
    """Plain Kubernetes still."""
    lab = Lab(state_dir=tmp_path_factory.mktemp("openshift"))
    try:
        lab.up()
    except LabError as error:
        lab.down(purge=True)
        pytest.fail(str(error), pytrace=False)
    yield LabSite(lab.kubeconfig)
    lab.down(purge=True)


@pytest.fixture(scope="package")
def openshift(openshift_lab: LabSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectApi]:
    crds_load(openshift_lab.api())
    site = ProjectApi(openshift_lab.api(), tmp_path_factory.mktemp("project-api"))
    site.register()
    yield site
    site.close()


@pytest.fixture
def projects(openshift: ProjectApi) -> ProjectApi:
    """The site's API of projects, as it is at first."""
    openshift.forbidden = openshift.silent = openshift.lost = False
    openshift.requests.clear()
    openshift.deleted.clear()
    return openshift


@pytest.fixture
def api(openshift_lab: LabSite) -> Api:
    return openshift_lab.api()


@pytest.fixture
def driver(openshift_lab: LabSite) -> OpenShiftDriver:
    return OpenShiftDriver(openshift_lab.connection())


@pytest.fixture
def make(driver: OpenShiftDriver) -> Iterator[Make]:
    """Specs of workspaces that are taken away after the test."""
    made: list[WorkspaceSpec] = []

    def one(*, gpus: int = 2, **changes: Any) -> WorkspaceSpec:
        spec = make_spec(**changes)
        spec = replace(spec, gpus=(replace(spec.gpus[0], count=gpus),))
        made.append(spec)
        return spec

    yield one
    for spec in made:
        for step in driver.steps(Change.DELETE):
            release_step(driver, spec, step.key)
        assert not driver.observe(ref(spec)).exists
