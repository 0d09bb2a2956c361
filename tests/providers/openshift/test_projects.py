"""Projects are asked for, so that the site's template is honored, and deleted as projects."""

from dataclasses import replace

import pytest

from gpuaas.core.errors import Permanent, Unavailable
from gpuaas.providers.base import Change, WorkspaceSpec
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.openshift.driver import OpenShiftDriver
from tests.contracts.rigs import ensure_step, ref, release_step
from tests.lab.fixtures import LabSite
from tests.providers.kubernetes.conftest import kubeconfig, make_spec, provision
from tests.providers.openshift.conftest import Make
from tests.providers.openshift.site import TEMPLATE, UID_RANGE, ProjectApi

pytestmark = pytest.mark.lab


def namespace(api: Api, spec: WorkspaceSpec) -> Object:
    found: Object = api.get(f"/api/v1/namespaces/{spec.external_name}")["metadata"]
    return found


def test_the_template_is_honored_and_its_marks_stay(
    projects: ProjectApi, driver: OpenShiftDriver, api: Api, make: Make
) -> None:
    spec = make()
    provision(driver, spec)
    provision(driver, spec)
    assert projects.requests == [spec.external_name]
    found = namespace(api, spec)
    assert (
        found["labels"].items()
        >= {
            **TEMPLATE,
            "gpuaas.io/workspace": str(spec.id),
            "pod-security.kubernetes.io/enforce": "baseline",
            "security.openshift.io/scc.podSecurityLabelSync": "false",
        }.items()
    )
    assert found["annotations"].items() >= UID_RANGE.items()
    assert driver.drift(spec) == ()


@pytest.mark.usefixtures("projects")
def test_the_number_of_routes_is_bounded(openshift_lab: LabSite, make: Make) -> None:
    options = {"object_bounds": {"routes": 10}}
    driver, spec = OpenShiftDriver(replace(openshift_lab.connection(), options=options)), make()
    provision(driver, spec)
    alice = Api(kubeconfig(driver, spec))
    routes = f"/apis/route.openshift.io/v1/namespaces/{spec.external_name}/routes"
    body = {"apiVersion": "route.openshift.io/v1", "kind": "Route", "metadata": {"generateName": "web-"}}
    for _ in range(10):
        alice.create(routes, body)
    with pytest.raises(Permanent, match="exceeded quota"):
        alice.create(routes, body)
    bound = next(each for each in driver.observe(ref(spec)).bounds if each.name == "routes")
    assert (bound.used, bound.most) == (10, 10)
    assert driver.drift(spec) == ()


def test_marks_that_openshift_sets_later_are_not_ours_to_take(
    projects: ProjectApi, driver: OpenShiftDriver, api: Api, make: Make
) -> None:
    spec = make()
    provision(driver, spec)
    later = {"openshift.io/sa.scc.supplemental-groups": "1000690000/10000"}
    api.merge(f"/api/v1/namespaces/{spec.external_name}", {"metadata": {"annotations": later}})
    provision(driver, spec)
    assert namespace(api, spec)["annotations"].items() >= {**UID_RANGE, **later}.items()
    assert driver.drift(spec) == ()


def test_where_nobody_may_ask_a_namespace_does(
    projects: ProjectApi, driver: OpenShiftDriver, api: Api, make: Make
) -> None:
    projects.forbidden = True
    spec = make()
    provision(driver, spec)
    assert projects.requests == []
    assert namespace(api, spec)["labels"]["gpuaas.io/workspace"] == str(spec.id)


def test_a_lost_answer_is_found_again(projects: ProjectApi, driver: OpenShiftDriver, make: Make) -> None:
    projects.lost = True
    spec = make()
    with pytest.raises(Unavailable):
        driver.perform(Change.CREATE, spec, "namespace")
    ensure_step(driver, spec, "namespace")
    assert projects.requests == [spec.external_name]


def test_a_template_that_names_nobody_works_too(
    projects: ProjectApi, driver: OpenShiftDriver, api: Api, make: Make
) -> None:
    projects.silent = True
    spec = make()
    ensure_step(driver, spec, "namespace")
    assert namespace(api, spec)["labels"]["gpuaas.io/workspace"] == str(spec.id)


def test_a_project_that_somebody_else_asked_for_is_left_alone(
    projects: ProjectApi, driver: OpenShiftDriver, api: Api
) -> None:
    spec = make_spec()
    metadata = {"name": spec.external_name, "annotations": {"openshift.io/requester": "mallory"}}
    api.create("/api/v1/namespaces", {"metadata": metadata})
    with pytest.raises(Permanent):
        driver.perform(Change.CREATE, spec, "namespace")
    assert all(driver.perform(Change.DELETE, spec, step.key).done for step in driver.steps(Change.DELETE))
    assert "gpuaas.io/workspace" not in namespace(api, spec)["labels"]
    api.delete(f"/api/v1/namespaces/{spec.external_name}")


def test_it_is_deleted_as_a_project(projects: ProjectApi, driver: OpenShiftDriver, make: Make) -> None:
    spec = make()
    provision(driver, spec)
    for step in driver.steps(Change.DELETE):
        release_step(driver, spec, step.key)
    assert projects.deleted == [spec.external_name]


def test_one_that_was_asked_for_and_never_marked_is_taken_away(
    projects: ProjectApi, driver: OpenShiftDriver, api: Api, make: Make
) -> None:
    projects.lost = True
    spec = make()
    with pytest.raises(Unavailable):
        driver.perform(Change.CREATE, spec, "namespace")
    for step in driver.steps(Change.DELETE):
        release_step(driver, spec, step.key)
    assert api.find(f"/api/v1/namespaces/{spec.external_name}") is None
