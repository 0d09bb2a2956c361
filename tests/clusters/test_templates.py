"""Templates are made by operators, seen by those they are for, and stay what they were ordered as."""

from typing import Any

import pytest
from django.db import DatabaseError, transaction

from gpuaas.catalog.models import GpuPool, Site
from gpuaas.clusters.models import ClusterTemplate, TemplateVersion
from gpuaas.clusters.selectors import (
    definition_of,
    template_get_for,
    template_version_get,
    templates_all,
    templates_for,
)
from gpuaas.clusters.services import (
    template_create,
    template_grant,
    template_update,
    template_version_add,
    template_version_deprecate,
)
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, StaleVersion
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tests.clusters.stage import document


def test_only_operators_make_templates(as_alice: Actor, as_olga: Actor, site: Site) -> None:
    words = {"slug": "k8s", "name": "Kubernetes", "kind": "kubernetes", "driver": "sandbox"}
    with pytest.raises(NotFound):
        template_create(actor=as_alice, site=site, **words)
    made = template_create(actor=as_olga, site=site, **words)
    assert made.state == "draft"
    with pytest.raises(Conflict):
        template_create(actor=as_olga, site=site, **words)
    assert AuditEntry.objects.filter(action="cluster_template.create").count() == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"slug": "K8S"}, "slug"),
        ({"name": " "}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"kind": "nomad"}, "kind"),
        ({"driver": "kubernetes"}, "driver"),
    ],
)
def test_bad_words_are_refused_beside_their_field(
    as_olga: Actor, site: Site, change: dict[str, str], field: str
) -> None:
    words = {"slug": "k8s", "name": "Kubernetes", "kind": "kubernetes", "driver": "sandbox"}
    with pytest.raises(Invalid) as caught:
        template_create(actor=as_olga, site=site, **{**words, **change})
    assert list(caught.value.fields) == [field]


def test_a_template_without_a_version_is_not_offered(as_olga: Actor, site: Site) -> None:
    made = template_create(
        actor=as_olga, slug="k8s", name="Kubernetes", kind="kubernetes", site=site, driver="sandbox"
    )
    with pytest.raises(Invalid):
        template_update(actor=as_olga, template=made, state="active")


def test_who_sees_a_template(
    as_olga: Actor,
    as_alice: Actor,
    as_charlie: Actor,
    project: Project,
    other_project: Project,
    template: ClusterTemplate,
) -> None:
    def seen() -> tuple[int, int]:
        return (
            templates_for(actor=as_alice, project=project).count(),
            templates_for(actor=as_charlie, project=other_project).count(),
        )

    assert seen() == (1, 1)
    template_update(actor=as_olga, template=template, public=False)
    assert seen() == (0, 0)
    for _ in range(2):
        template_grant(actor=as_olga, template=template, organization=project.organization, granted=True)
    assert seen() == (1, 0)
    with pytest.raises(NotFound):
        template_get_for(actor=as_charlie, project=other_project, slug="k8s")
    with pytest.raises(NotFound):
        templates_for(actor=as_charlie, project=project)
    with pytest.raises(NotFound):
        templates_all(actor=as_alice)
    template_update(actor=as_olga, template=template, state="retired")
    assert seen() == (0, 0)
    assert AuditEntry.objects.filter(action="cluster_template.grant").count() == 1


def test_versions_follow_each_other_and_stay(as_olga: Actor, template: ClusterTemplate) -> None:
    first = template_version_get(template=template)
    second = template_version_add(
        actor=as_olga, template=template, document=document(releases=["1.36.3"]), note="one release"
    )
    assert (first.number, second.number) == (1, 2)
    assert template_version_get(template=template) == second
    assert template_version_get(template=template, number=1) == first
    assert definition_of(first).releases == ("1.34.9", "1.35.6", "1.36.3"), "from the oldest to the newest"
    wanted: list[dict[str, Any]] = [{"document": {}}, {"number": 7}]
    for changes in wanted:
        with pytest.raises(DatabaseError, match="never changed"), transaction.atomic():
            TemplateVersion.objects.filter(pk=first.pk).update(**changes)
    assert template_version_deprecate(actor=as_olga, version=first).deprecated_at


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"releases": []}, "releases"),
        ({"releases": ["latest"]}, "releases"),
        ({"releases": ["1.36.3", "1.36.3"]}, "releases"),
        (
            {"control_plane": {"vcpus": 4, "memory_gib": 8, "disk_gib": 40, "counts": [2]}},
            "control_plane.counts",
        ),
        ({"control_plane": {"vcpus": 0, "memory_gib": 8, "disk_gib": 40}}, "control_plane.vcpus"),
        ({"control_plane": None}, "control_plane"),
        ({"pools": []}, "pools"),
        ({"pools": [{"name": "control", "flavors": ["h100.2"], "min": 0, "max": 1}]}, "pools.0.name"),
        ({"pools": [{"name": "A", "flavors": ["h100.2"], "min": 0, "max": 1}]}, "pools.0.name"),
        ({"pools": [{"name": "a", "flavors": ["h100.2"], "min": 2, "max": 1}]}, "pools.0.max"),
        ({"pools": [{"name": "a", "flavors": ["none.1"], "min": 0, "max": 1}]}, "pools"),
        ({"pools": [{"name": "a", "flavors": [], "min": 0, "max": 1}]}, "pools.0.flavors"),
        ({"addons": [{"name": "x", "required": "yes"}]}, "addons.0"),
        ({"parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}, "parameters.a"),
        ({"parameters": {"type": "boolean"}}, "parameters"),
        ({"settings": []}, "settings"),
        ({"nodes": []}, ""),
    ],
)
def test_a_wrong_document_says_where(
    as_olga: Actor, template: ClusterTemplate, change: dict[str, Any], where: str
) -> None:
    with pytest.raises(Invalid) as caught:
        template_version_add(actor=as_olga, template=template, document=document(**change))
    (words,) = caught.value.fields["document"]
    assert words.startswith(f"{where}: " if where else "unknown property 'nodes'")


@pytest.mark.parametrize(("counts", "is_taken"), [([1], True), (None, True), ([3], False), ([1, 3], False)])
def test_slurm_has_one_head(
    as_olga: Actor, template: ClusterTemplate, counts: list[int] | None, is_taken: bool
) -> None:
    slurm = template_create(
        actor=as_olga, slug="slurm", name="Slurm", kind="slurm", site=template.site, driver="sandbox"
    )
    control = {"vcpus": 4, "memory_gib": 8, "disk_gib": 40, **({"counts": counts} if counts else {})}
    wanted = document(releases=["25.05.3"], control_plane=control)
    if is_taken:
        assert template_version_add(actor=as_olga, template=slurm, document=wanted).number == 1
        return
    with pytest.raises(Invalid) as caught:
        template_version_add(actor=as_olga, template=slurm, document=wanted)
    assert "one head" in str(caught.value)


@pytest.mark.parametrize("kind", ["slurm", "kubernetes"])
@pytest.mark.parametrize(
    ("counted", "is_taken"),
    [
        ("CUSTOM_PCI_10DE_2330", True),
        ("VGPU", True),
        ("CUSTOM_GPU_H100", True),
        ("CUSTOM_PCI_1002_74A1", False),
    ],
)
def test_cards_that_the_machines_cannot_use_are_refused(
    as_olga: Actor, template: ClusterTemplate, kind: str, counted: str, is_taken: bool
) -> None:
    GpuPool.objects.filter(flavors__slug="h100.2").update(resource_name=counted)
    made = template_create(
        actor=as_olga, slug="own", name="Own", kind=kind, site=template.site, driver="openstack"
    )
    pools = [{"name": "gpu", "flavors": ["h100.2"], "min": 0, "max": 4}]
    control = {"vcpus": 4, "memory_gib": 8, "disk_gib": 40}
    releases = ["25.05.3"] if kind == "slurm" else ["1.35.6"]
    wanted = document(
        releases=releases, pools=pools, control_plane=control, settings={"image": "debian"}, addons=[]
    )
    if is_taken:
        assert template_version_add(actor=as_olga, template=made, document=wanted).number == 1
        return
    with pytest.raises(Invalid) as caught:
        template_version_add(actor=as_olga, template=made, document=wanted)
    assert "h100.2 (CUSTOM_PCI_1002_74A1) are not NVIDIA's" in str(caught.value)


def test_of_two_changes_at_once_one_is_told(
    as_olga: Actor, as_alice: Actor, template: ClusterTemplate
) -> None:
    template_update(actor=as_olga, template=template, name="Kubernetes 1", expected_version=template.version)
    with pytest.raises(StaleVersion):
        template_update(
            actor=as_olga, template=template, name="Kubernetes 2", expected_version=template.version
        )
    with pytest.raises((NotFound, Forbidden)):
        template_update(actor=as_alice, template=template, public=True)
