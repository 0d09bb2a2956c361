"""A refusal of one field stands beside it, while it is typed and after it was sent; without scripts too."""

import pytest
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.stage import offered, ready
from tests.frontend.markup import words
from tests.frontend.pages.test_request import answer, post

pytestmark = pytest.mark.django_db


def red(text: str, field: str) -> str:
    return text.partition(f'<p class="invalid-feedback" id="id_{field}-help"')[2].partition("</p>")[0]


@pytest.mark.parametrize("count", ["0", "11"])
def test_the_count_of_a_request(alice_at: Client, limited: Project, count: str) -> None:
    """Also where the page comes with it."""
    url = reverse("frontend:workspace_new", args=[limited.slug])
    shown = alice_at.get(url, {"flavor": "h100.1", "count": count})
    assert shown.status_code == 200
    assert red(answer(alice_at, limited, count=count), "count")
    for text in (words(shown), words(post(alice_at, limited, count=count))):
        field = text.partition('name="count"')[2].partition(">")[0]
        assert 'aria-invalid="true"' in field
        assert 'aria-describedby="id_count-help"' in field
        assert red(text, "count")


@pytest.mark.parametrize("count", ["99", "-1", "0"])
def test_the_workers_of_a_cluster(
    alice_at: Client, as_alice: Actor, as_olga: Actor, project: Project, site: Site, count: str
) -> None:
    offered(as_olga, site)
    at = f"/p/{project.slug}/clusters/{ready(as_alice, project).pk}/scale/"
    for url in (f"{at}effect/", at):
        text = words(alice_at.post(url, {"pools.gpu": count, "pools.small": "0"}))
        assert "A whole number from 1 to 8." in red(text, "pools.gpu")
        assert "Enter whole numbers." not in text
    assert Cluster.objects.get().pools.get(name="gpu").count > 0


def test_the_last_gpu_of_a_workspace(alice_at: Client, limited: Project, workspace: Workspace) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(state="ready")
    for name in ("workspace_effect", "workspace_resize"):
        url = reverse(f"frontend:{name}", args=[limited.slug, workspace.pk])
        text = words(alice_at.post(url, {"count-h100.1": "0", "storage_gib": "500"}))
        assert "Nothing would be left. To release everything, delete the workspace." in red(
            text, "count-h100.1"
        )


def test_a_new_end_of_a_lease(alice_at: Client, limited: Project, workspace: Workspace) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(state="ready")
    url = reverse("frontend:workspace_extend", args=[limited.slug, workspace.pk])
    dialog = (
        words(alice_at.post(url, {"until": "2020-01-01T00:00"}))
        .partition('id="extend"')[2]
        .partition("</dialog>")[0]
    )
    assert dialog.count("It must be after") == 2, "beside the field and at the button"
    assert "Nothing has changed yet." not in dialog
