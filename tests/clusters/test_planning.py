"""The plan answers before the click: what it takes, whether it fits and why not, what would be made; it changes nothing."""

from typing import Any

import pytest

from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import Cluster, ClusterTemplate
from gpuaas.clusters.selectors import template_version_get
from gpuaas.clusters.services import cluster_plan, template_update, template_version_deprecate
from gpuaas.core.errors import Conflict, Invalid, NotFound
from quotas.models import Limit, Reservation
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import limits_give

GPUS = "gpu:h100-sxm-80gb"


def test_a_plan_says_what_it_takes_and_makes(
    as_alice: Actor, project: Project, template: ClusterTemplate
) -> None:
    limits_give(project)
    wanted = {"control_plane": 3, "pools": {"gpu": {"count": 2}}}
    plan = cluster_plan(actor=as_alice, project=project, template="k8s", document=wanted, name="train")
    assert plan.fits
    assert plan.usual is None, "nobody ever ordered one"
    assert plan.draft.amounts == {
        GPUS: 4,
        "vcpu": 2 * 32 + 3 * 4,
        "memory": 2 * 360 + 3 * 8,
        "storage": 3 * 40,
    }
    made = [one.kind for one in plan.draft.plan.objects]
    assert made.count("machine") == 5
    assert plan.draft.cluster.addons == ["gpu-operator", "monitoring"], "what is required is always there"
    assert not Cluster.objects.exists()
    assert not Reservation.objects.exists()


def test_every_deficit_is_told_at_once(as_alice: Actor, project: Project, template: ClusterTemplate) -> None:
    limits_give(project, {GPUS: 2, "vcpu": 40})
    wanted = {"pools": {"gpu": {"count": 8}}}
    plan = cluster_plan(actor=as_alice, project=project, template="k8s", document=wanted)
    assert not plan.fits
    refused = {(one.scope.word, one.resource) for one in plan.admission.refusals}
    assert {("project", GPUS), ("project", "vcpu")} <= refused
    assert all(one.message for one in plan.admission.refusals)


def test_the_site_may_have_less_than_the_limit(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    limits_give(project, {GPUS: None})
    site.sellable.filter(resource=GPUS).update(hard=3)
    plan = cluster_plan(
        actor=as_alice, project=project, template="k8s", document={"pools": {"gpu": {"count": 2}}}
    )
    assert [(one.scope.word, one.left) for one in plan.admission.refusals] == [("site", 3)]


def test_warnings(as_alice: Actor, as_olga: Actor, project: Project, template: ClusterTemplate) -> None:
    template_update(actor=as_olga, template=template, state="deprecated")
    template_version_deprecate(actor=as_olga, version=template_version_get(template=template))
    plan = cluster_plan(actor=as_alice, project=project, template="k8s", document={})
    said = " ".join(plan.warnings)
    assert "template k8s is deprecated" in said
    assert "Version 1" in said
    assert "One machine holds the control plane" in said


@pytest.mark.parametrize("given", [{"pools": {"gpu": {"flavor": "h100.2"}}}, {}])
def test_a_flavor_that_is_not_sold_is_refused_beside_its_pool(
    as_alice: Actor, project: Project, template: ClusterTemplate, given: dict[str, Any]
) -> None:
    Flavor.objects.filter(slug="h100.2").update(state="retired")
    with pytest.raises(Invalid) as caught:
        cluster_plan(actor=as_alice, project=project, template="k8s", document=given)
    assert list(caught.value.fields) == ["pools.gpu.flavor"]


def test_a_closed_site_takes_no_cluster(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    Site.objects.filter(pk=site.pk).update(enabled=False)
    with pytest.raises(Conflict):
        cluster_plan(actor=as_alice, project=project, template="k8s", document={})


@pytest.mark.parametrize("name", ["", "A", "1a", "a-", "a" * 21, "a b", "a\n", 3])
def test_names_are_those_that_sites_take(
    as_alice: Actor, project: Project, template: ClusterTemplate, name: Any
) -> None:
    with pytest.raises(Invalid) as caught:
        cluster_plan(actor=as_alice, project=project, template="k8s", document={}, name=name)
    assert list(caught.value.fields) == ["name"]


def test_an_outsider_finds_nothing(as_charlie: Actor, project: Project, template: ClusterTemplate) -> None:
    with pytest.raises(NotFound):
        cluster_plan(actor=as_charlie, project=project, template="k8s", document={})
    assert not Limit.objects.filter(used__gt=0).exists()
