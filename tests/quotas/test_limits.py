"""Setting and showing limits, and the proof of the counters."""

import pytest
from pytest_django.fixtures import DjangoAssertNumQueries

from gpuaas.catalog.models import Site
from gpuaas.core.errors import Forbidden, Invalid, NotFound, StaleVersion
from quotas.matrix import limits_matrix, limits_owners, limits_rows, limits_totals
from quotas.models import Limit, SiteCapacity
from quotas.selectors import counters_mismatches, limits_for_project
from quotas.services import limit_set
from quotas.tasks import counters_check
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tests.factories.quotas import limits_give
from tests.factories.tenants import ProjectFactory

pytestmark = pytest.mark.django_db
H100 = "gpu:h100-sxm-80gb"


def test_an_operator_sets_and_the_log_remembers(as_olga: Actor, project: Project, site: Site) -> None:
    first = limit_set(actor=as_olga, project=project, resource=H100, hard=8, expected_version=0)
    second = limit_set(actor=as_olga, project=project, resource=H100, hard=None, expected_version=1)

    assert (first.pk, second.version, second.hard) == (second.pk, 2, None)
    entries = AuditEntry.objects.filter(action="limit.set").order_by("pk")
    assert [(entry.before, entry.after) for entry in entries] == [
        (None, {"resource": H100, "hard": 8}),
        ({"hard": 8}, {"resource": H100, "hard": None}),
    ]


def test_two_operators_do_not_overwrite_each_other(as_olga: Actor, project: Project, site: Site) -> None:
    limit_set(actor=as_olga, project=project, resource=H100, hard=8)

    with pytest.raises(StaleVersion) as stale:
        limit_set(actor=as_olga, project=project, resource=H100, hard=9, expected_version=0)

    assert stale.value.detail == {"version": 1}
    assert Limit.objects.get().hard == 8


def test_tenants_see_but_do_not_set(as_alice: Actor, as_charlie: Actor, project: Project, site: Site) -> None:
    with pytest.raises(Forbidden):
        limit_set(actor=as_alice, project=project, resource=H100, hard=8)
    with pytest.raises(Forbidden):
        limit_set(actor=as_alice, organization=project.organization, resource=H100, hard=8)
    with pytest.raises(NotFound):
        limit_set(actor=as_charlie, project=project, resource=H100, hard=8)
    with pytest.raises(NotFound):
        limit_set(actor=as_charlie, organization=project.organization, resource=H100, hard=8)
    assert not Limit.objects.exists()


@pytest.mark.parametrize("resource", ["gpu:none-such", "apples", "", "gpu:", "gpu:ü", "x" * 300])
def test_unknown_resources_are_refused(as_olga: Actor, project: Project, site: Site, resource: str) -> None:
    with pytest.raises(Invalid) as invalid:
        limit_set(actor=as_olga, project=project, resource=resource, hard=1)
    assert "resource" in invalid.value.fields


@pytest.mark.parametrize("hard", [-1, True, 1.5, "8", 2**63])
def test_a_limit_is_a_whole_number(as_olga: Actor, project: Project, site: Site, hard: int) -> None:
    with pytest.raises(Invalid) as invalid:
        limit_set(actor=as_olga, project=project, resource="vcpu", hard=hard)
    assert "hard" in invalid.value.fields


def test_a_project_sees_its_own_limit_beside_the_shared_one(project: Project, site: Site) -> None:
    limits_give(project, {H100: 4})
    Limit.objects.filter(organization=project.organization, resource=H100).update(hard=10, used=8)

    lines = limits_for_project(project=project)

    assert [line.resource for line in lines] == [H100, "gpu:l40s-48gb", "vcpu", "memory", "storage"]
    assert (lines[0].limit, lines[0].organization_limit, lines[0].left) == (4, 10, 2)


def test_the_matrix_costs_the_same_for_many_projects(
    as_olga: Actor,
    as_alice: Actor,
    project: Project,
    site: Site,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    limits_give(project)
    for _ in range(10):
        limits_give(ProjectFactory.create(), organization=False)

    with django_assert_num_queries(4):
        matrix = limits_matrix(actor=as_olga)

    assert len(matrix.rows) == 22
    own = next(row for row in matrix.rows if row.project == project)
    assert own.cells[H100].limit == 16
    with pytest.raises(NotFound):
        limits_matrix(actor=as_alice)


def test_rows_of_the_matrix_are_found_by_name_and_totals_are_of_all(
    as_olga: Actor, as_alice: Actor, project: Project, other_project: Project, site: Site
) -> None:
    limits_give(project, {H100: 8, "vcpu": None})
    limits_give(other_project, {H100: 2})
    Limit.objects.filter(project=other_project, resource=H100).update(used=2)

    everyone = list(limits_owners(actor=as_olga))
    assert [(of, own) for of, own, *_ in everyone] == [
        ("biology", ""),
        ("biology", "protein-fold"),
        ("climate", ""),
        ("climate", "weather-lm"),
    ]
    assert [own for _, own, *_ in limits_owners(actor=as_olga, search="CLIMATE ph")] == ["", "weather-lm"]
    assert [own for _, own, *_ in limits_owners(actor=as_olga, search="fold")] == ["protein-fold"]
    assert [own for _, own, *_ in limits_owners(actor=as_olga, organization="biology")] == [
        "",
        "protein-fold",
    ]
    assert [own for _, own, *_ in limits_owners(actor=as_olga, tight=True)] == ["protein-fold"]

    totals = limits_totals()
    assert (totals[H100].limits, totals[H100].held) == (10, 2)
    assert totals["vcpu"].unlimited == 1
    whole = limits_matrix(actor=as_olga)
    assert limits_rows(owners=everyone, resources=totals) == list(whole.rows)
    assert tuple(totals) == whole.resources
    with pytest.raises(NotFound):
        limits_owners(actor=as_alice)


@pytest.mark.parametrize(
    ("sort", "rows"),
    [
        ("", ["biology", "protein-fold", "climate", "weather-lm"]),
        ("nonsense:gpu", ["biology", "protein-fold", "climate", "weather-lm"]),
        ("-name", ["climate", "weather-lm", "biology", "protein-fold"]),
        (f"-held:{H100}", ["protein-fold", "weather-lm", "biology", "climate"]),
        (f"held:{H100}", ["biology", "climate", "weather-lm", "protein-fold"]),
        (f"-limit:{H100}", ["climate", "weather-lm", "protein-fold", "biology"]),
        (f"limit:{H100}", ["biology", "protein-fold", "weather-lm", "climate"]),
    ],
)
def test_rows_of_the_matrix_come_in_the_order_that_is_asked_for(
    sort: str, rows: list[str], as_olga: Actor, project: Project, other_project: Project, site: Site
) -> None:
    """By name an organization stays above its projects; by a resource all stand by their number, no limit above every limit."""
    limits_give(project, {H100: 8}, organization=False)
    limits_give(other_project, {H100: 2}, organization=False)
    Limit.objects.create(organization=project.organization, resource=H100, hard=None)
    Limit.objects.filter(project=other_project).update(used=2)
    Limit.objects.filter(project=project).update(used=1)
    found = [own or of for of, own, *_ in limits_owners(actor=as_olga, sort=sort)]
    assert found == rows


def test_a_wrong_counter_is_told_and_left_alone(project: Project, site: Site) -> None:
    limits_give(project)
    Limit.objects.filter(project=project, resource="vcpu").update(used=5)
    SiteCapacity.objects.filter(resource="memory").update(used=7)

    found = {(one.scope.word, one.resource, one.counter, one.held) for one in counters_mismatches()}

    assert found == {("project", "vcpu", 5, 0), ("site", "memory", 7, 0)}
    assert counters_check() == 2
    assert Limit.objects.get(project=project, resource="vcpu").used == 5
