"""Words on pages: numbers are grouped, what waits says for what, and what cannot be is not found, in a sentence."""

import pytest
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tests.api.cluster_stage import cluster_stage
from tests.frontend.markup import words
from tests.frontend.pages.test_request import answer
from tests.jobs.stage import row_in


@pytest.mark.parametrize("month", ["9999-12", "1999-12", "2026-13", "soon"])
def test_a_month_that_cannot_be_is_not_found(
    alice_at: Client, charlie_at: Client, workspace: Workspace, month: str
) -> None:
    slug, organization = workspace.project.slug, workspace.project.organization.slug
    for name, scope in (
        ("statement", slug),
        ("statement_csv", slug),
        ("organization_statement", organization),
    ):
        url = reverse(f"frontend:{name}", args=[scope, month])
        found = alice_at.get(url)
        assert found.status_code == 404
        assert "Page not found" in words(found)
        assert charlie_at.get(url).status_code == 404


def test_what_an_order_creates_has_its_digits_grouped(
    alice_at: Client, limited: Project, h100: Flavor
) -> None:
    Flavor.objects.filter(pk=h100.pk).update(vcpus=1089, memory_gib=8910)
    text = answer(alice_at, limited)
    assert "2 H100 SXM 80 GB, 2,178 vCPU, 17,820 GiB" in text
    assert "with 1,089 vCPU, 8,910 GiB" in words(
        alice_at.get(reverse("frontend:workspace_new", args=[limited.slug]))
    )


def test_it_is_suspended_since_only_once_it_is(
    alice_at: Client, as_alice: Actor, workspace: Workspace
) -> None:
    cluster_stage(olga=SYSTEM, alice=as_alice, project=workspace.project, site=workspace.site)
    for row, name in ((workspace, "workspace"), (Cluster.objects.get(), "cluster")):
        url = reverse(f"frontend:{name}", args=[row.project.slug, row.pk])
        for state, said in (("suspending", False), ("suspended", True)):
            type(row).objects.filter(pk=row.pk).update(state=state, suspended_at=clock.now())
            assert ("suspended since" in words(alice_at.get(url))) is said, (name, state)


def test_a_job_that_waits_says_for_what(alice_at: Client, workspace: Workspace) -> None:
    first = row_in(workspace, "first", gpus=0, vcpus=4, memory_gib=2048)
    second = row_in(workspace, "second")
    texts = [
        words(alice_at.get(reverse("frontend:job", args=[row.project.slug, row.pk])))
        for row in (first, second)
    ]
    assert f"It starts once 4 vCPU and 2,048 GiB are free in {workspace.name}." in texts[0]
    assert "Waits for the jobs before it." in texts[1]


def test_every_unknown_member_is_named_at_once(alice_at: Client, limited: Project, dora: User) -> None:
    """dora is only a viewer."""
    asked = {
        "flavor": "h100.1",
        "count": "1",
        "storage_gib": "10",
        "name": "ours",
        "lease": "7",
        "members": "nina, dora omar",
    }
    for name in ("workspace_new", "workspace_answer"):
        text = words(alice_at.post(reverse(f"frontend:{name}", args=[limited.slug]), asked))
        beside = text.partition('id="id_members-help"')[2].partition("</p>")[0]
        for sentence in (
            "User nina is not a member of the project weather-lm.",
            "User dora is only a viewer of the project weather-lm; change that role first.",
            "User omar is not a member of the project weather-lm.",
        ):
            assert sentence in beside, name
