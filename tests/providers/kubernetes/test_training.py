"""JobSets and TrainJobs of members, without their controllers; the real ones are asked in tests/lab/trainer."""

from typing import cast

import pytest

from gpuaas.core.conditions import Status
from gpuaas.core.errors import GpuaasError, Permanent, Unavailable
from gpuaas.providers.kubeapi import bounds, manifests, training
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.guards.site import Site
from gpuaas.providers.kubeapi.guards.training import policies
from gpuaas.providers.kubernetes.preflight.training import jobset, trainer, version_of

ROUTES = "count/routes.route.openshift.io"
KEYS = {ROUTES, "count/jobsets.jobset.x-k8s.io", "count/trainjobs.trainer.kubeflow.org"}


class Played:
    """A site that serves these groups. answer: to who tries to make one of their kinds."""

    def __init__(self, *groups: str, answer: GpuaasError | None = None) -> None:
        self.groups, self.answer = groups, answer

    def find(self, path: str) -> Object | None:
        return {} if any(group in path for group in self.groups) else None

    def items(self, path: str, **query: str) -> list[Object]:
        images = ("a/jobset/jobset:v0.8.2", "a/trainer/trainer-controller-manager:v2.0.0-rc", "a/web:v1.0.0")
        containers = [{"image": image} for image in images]
        if "deployments" in path:
            return [{"spec": {"template": {"spec": {"containers": containers}}}}]
        return [{"metadata": {"name": "torch-distributed"}}]

    def create(self, path: str, body: Object, **query: str) -> Object:
        assert query == {"dryRun": "All"}
        if self.answer:
            raise self.answer
        return body


def api(*groups: str, answer: GpuaasError | None = None) -> Api:
    return cast("Api", Played(*groups, answer=answer))


def test_what_the_site_cannot_count_is_no_key_of_the_quota() -> None:
    openings = manifests.Openings.read({})
    assert training.unserved({"apps/v1"}) == KEYS
    assert openings.objects.keys() >= KEYS
    assert not KEYS & openings.without(KEYS).objects.keys()
    jobsets, trainjobs = f"{training.JOBSET_GROUP}/v1alpha2", f"{training.TRAINER_GROUP}/v1alpha1"
    assert training.unserved({"apps/v1", jobsets}) == KEYS - {"count/jobsets.jobset.x-k8s.io"}
    assert training.unserved({jobsets, trainjobs}) == {ROUTES}
    assert training.unserved({jobsets, trainjobs, "route.openshift.io/v1"}) == frozenset()
    assert not KEYS & bounds.usual().keys()


def test_kinds_that_a_site_does_not_serve_are_not_asked_for() -> None:
    """An account without rights to them is refused (403), and not answered that they are unknown: no deletion would ever end."""
    assert training.makers({"apps/v1", f"{training.JOBSET_GROUP}/v1"}) == ()
    jobsets, trainjobs = f"{training.JOBSET_GROUP}/v1alpha2", f"{training.TRAINER_GROUP}/v1alpha1"
    assert training.makers({jobsets}) == training.MAKERS[1:]
    assert training.makers({trainjobs, jobsets}) == training.MAKERS


def test_a_site_without_them_is_good_as_it_is() -> None:
    for check in (jobset(api()), trainer(api())):
        assert (check.reason, check.status, check.blocking) == ("NotServed", Status.TRUE, False)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "Serves"),
        (
            Permanent("the site refuses (403): admission webhook denied the request: no such runtime"),
            "Serves",
        ),
        (Unavailable("failed calling webhook", retry_after=1), "DoesNotAnswer"),
        (Permanent("Internal error: failed calling webhook"), "DoesNotAnswer"),
    ],
)
def test_a_refusal_is_an_answer(answer: GpuaasError | None, reason: str) -> None:
    found = trainer(api(training.TRAINER_GROUP, answer=answer))
    assert (found.reason, found.blocking) == (reason, False)
    assert "Trainer 2.0.0" in found.message
    assert jobset(api(training.JOBSET_GROUP, answer=answer)).reason == reason


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.0.0", (2, 0, 0)),
        ("registry.example.com:5000/a/trainer-controller-manager:v10.11.12@sha256:0", (10, 11, 12)),
        ("registry.example.com/trainer-controller-manager:latest", None),
        ("registry.k8s.io/jobset/jobset:v0.8.2", None),
    ],
)
def test_versions_are_read_from_images(image: str, found: tuple[int, ...] | None) -> None:
    deployment = {"spec": {"template": {"spec": {"containers": [{"image": image}, {}]}}}}
    assert version_of([deployment], "trainer-controller-manager") == found


def test_each_template_is_judged_by_the_rules_for_templates() -> None:
    """No variable of one template is left, which would be none of a JobSet's."""
    policy, _ = policies(Site(portals=("portal",)))
    known = {each["name"] for each in policy["spec"]["variables"]}
    texts = [each["expression"] for each in policy["spec"]["validations"]]
    assert sum("variables.templates.all(made" in text for text in texts) > 20
    for text in texts:
        for part in text.split("variables.")[1:]:
            assert part.split(".")[0].split(")")[0].split(" ")[0].split(",")[0].split("[")[0] in known
