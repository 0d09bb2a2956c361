"""The second wall is always what the namespaces of a project come to, however many change at once."""

import threading
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from gpuaas.core.errors import Unavailable
from gpuaas.providers.base import Change, WorkspaceSpec
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.quantities import quantity
from gpuaas.providers.kubernetes.openshift import wall
from gpuaas.providers.kubernetes.openshift.driver import OpenShiftDriver
from tests.contracts.rigs import ensure_step, release_step
from tests.lab.fixtures import LabSite, until
from tests.providers.kubernetes.conftest import provision
from tests.providers.openshift.conftest import Make

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("projects")]

GPU = "requests.nvidia.com/gpu"


@pytest.fixture
def project() -> str:
    return f"weather-{uuid4().hex[:8]}"


def hard(api: Api, project: str) -> dict[str, str]:
    found = api.find(f"{wall.WALLS}/{wall.name_of(project)}")
    given: dict[str, str] = found["spec"]["quota"]["hard"] if found else {}
    return given


def sized(spec: WorkspaceSpec, gpus: int) -> WorkspaceSpec:
    return replace(spec, gpus=(replace(spec.gpus[0], count=gpus),))


def patiently(driver: OpenShiftDriver, spec: WorkspaceSpec) -> bool:
    """As the reconciler: who was overtaken too often comes again."""
    try:
        return driver.perform(Change.CREATE, spec, "quota").done
    except Unavailable:
        return False


def release(driver: OpenShiftDriver, spec: WorkspaceSpec) -> None:
    for step in driver.steps(Change.DELETE):
        release_step(driver, spec, step.key)


def test_it_is_the_sum_of_the_projects_workspaces(
    driver: OpenShiftDriver, api: Api, make: Make, project: str
) -> None:
    one, two = make(project_slug=project), make(project_slug=project, gpus=3)
    provision(driver, one)
    assert (hard(api, project)[GPU], hard(api, project)["requests.cpu"]) == ("2", "32")
    provision(driver, two)
    found = hard(api, project)
    assert (found[GPU], found["requests.cpu"], found["requests.memory"]) == ("5", "64", "256Gi")
    assert found["requests.nvidia.com/mig-1g.5gb"] == "0"
    ensure_step(driver, sized(one, 4), "quota")
    assert hard(api, project)[GPU] == "7"
    ensure_step(driver, sized(one, 1), "quota")
    assert hard(api, project)[GPU] == "4"
    release(driver, one)
    assert hard(api, project)[GPU] == "3"
    release(driver, two)
    assert api.find(f"{wall.WALLS}/{wall.name_of(project)}") is None


def test_asleep_a_workspace_has_no_share(driver: OpenShiftDriver, api: Api, make: Make, project: str) -> None:
    spec = make(project_slug=project)
    provision(driver, spec)
    asleep = replace(sized(spec, 0), vcpus=0, memory_gib=0, suspended=True)
    for step in driver.steps(Change.SUSPEND):
        driver.perform(Change.SUSPEND, asleep, step.key)
    assert (hard(api, project)[GPU], hard(api, project)["requests.cpu"]) == ("0", "0")
    for step in driver.steps(Change.RESUME):
        driver.perform(Change.RESUME, spec, step.key)
    assert hard(api, project)[GPU] == "2"


def test_others_projects_and_namespaces_do_not_count(
    driver: OpenShiftDriver, api: Api, make: Make, project: str
) -> None:
    mine, theirs = make(project_slug=project), make(project_slug=f"{project}-b", gpus=5)
    provision(driver, mine)
    provision(driver, theirs)
    assert (hard(api, project)[GPU], hard(api, f"{project}-b")[GPU]) == ("2", "5")
    chosen = api.get(f"{wall.WALLS}/{wall.name_of(project)}")["spec"]["selector"]["labels"]
    assert chosen["matchLabels"]["gpuaas.io/project"] == project
    assert chosen["matchExpressions"] == [{"key": "gpuaas.io/workspace", "operator": "Exists"}]


def test_what_somebody_changes_is_set_right_with_the_next_quota(
    driver: OpenShiftDriver, api: Api, make: Make, project: str
) -> None:
    spec = make(project_slug=project)
    provision(driver, spec)
    path = f"{wall.WALLS}/{wall.name_of(project)}"
    api.merge(path, {"spec": {"quota": {"hard": {GPU: "64"}}}})
    ensure_step(driver, spec, "quota")
    assert hard(api, project)[GPU] == "2"
    api.delete(path)
    ensure_step(driver, spec, "quota")
    assert hard(api, project)[GPU] == "2"


def test_it_is_not_lowered_while_a_quota_is_missing(
    driver: OpenShiftDriver, api: Api, make: Make, project: str
) -> None:
    """A quota that somebody deleted comes back; until then the others' pods must not be refused for it."""
    one, two = make(project_slug=project), make(project_slug=project, gpus=3)
    provision(driver, one)
    provision(driver, two)
    api.delete(f"/api/v1/namespaces/{one.external_name}/resourcequotas/gpuaas")
    ensure_step(driver, two, "quota")
    assert hard(api, project)[GPU] == "5"
    ensure_step(driver, one, "quota")
    ensure_step(driver, sized(two, 1), "quota")
    assert hard(api, project)[GPU] == "3"


def test_of_two_that_settle_at_once_the_later_is_never_undone(
    api: Api, driver: OpenShiftDriver, make: Make, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has read everything; before it writes, the second is confirmed. The first has to look again."""
    one, two = make(project_slug=project), make(project_slug=project, gpus=3)
    for spec in (one, two):
        ensure_step(driver, spec, "namespace")
    ensure_step(driver, one, "quota")
    replace_ = Api.replace
    overtaken: list[str] = []

    def late(self: Api, path: str, body: Object) -> Object:
        if not overtaken:
            overtaken.append(path)
            ensure_step(driver, two, "quota")
            assert hard(api, project)[GPU] == "7"
        return replace_(self, path, body)

    monkeypatch.setattr(Api, "replace", late)
    ensure_step(driver, sized(one, 4), "quota")
    assert overtaken
    assert hard(api, project)[GPU] == "7"


def test_many_at_once_come_to_the_right_sum(
    openshift_lab: LabSite, api: Api, make: Make, project: str
) -> None:
    """Each thread makes one, resizes it up and down, and looks after each step whether its own share is in."""
    specs = [make(project_slug=project, gpus=1) for _ in range(6)]
    failures: list[Any] = []

    def work(spec: WorkspaceSpec) -> None:
        driver, own = OpenShiftDriver(openshift_lab.connection()), openshift_lab.api()
        try:
            ensure_step(driver, spec, "namespace")
            for gpus in (1, 5, 2, 4, 1):
                until(partial(patiently, driver, sized(spec, gpus)), "the quota and the wall")
                if int(hard(own, project)[GPU]) < gpus:
                    failures.append((spec.external_name, gpus, hard(own, project)[GPU]))
        except Exception as error:  # noqa: BLE001  told by the thread that waits
            failures.append(error)

    threads = [threading.Thread(target=work, args=(spec,)) for spec in specs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert hard(api, project)[GPU] == "6"


def test_the_last_one_out_and_the_first_one_in(
    api: Api, driver: OpenShiftDriver, make: Make, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wall of a project without namespaces is deleted; one that comes at this moment keeps its own."""
    last, first = make(project_slug=project), make(project_slug=project, gpus=3)
    provision(driver, last)
    for step in driver.steps(Change.DELETE)[:-1]:
        release_step(driver, last, step.key)
    delete = Api.delete
    overtaken: list[str] = []

    def late(self: Api, path: str, body: Object | None = None, **query: str) -> bool:
        if path.startswith(wall.WALLS) and not overtaken:
            overtaken.append(path)
            for key in ("namespace", "quota"):
                ensure_step(driver, first, key)
        return delete(self, path, body, **query)

    monkeypatch.setattr(Api, "delete", late)
    release_step(driver, last, driver.steps(Change.DELETE)[-1].key)
    assert overtaken
    assert hard(api, project)[GPU] == "3"


def test_its_numbers_are_whole() -> None:
    assert wall._text("requests.memory", quantity("1536Mi")) == "1536Mi"
    assert wall._text("requests.memory", quantity("2Gi") * 2) == "4Gi"
    assert wall._text("requests.cpu", quantity("1500m")) == "2"
