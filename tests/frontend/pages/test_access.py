"""Members of a workspace and holders of a cluster's credentials, where they are many: ten on its page, all on a page of their own."""

import csv
import io
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from gpuaas.clusters.models import Cluster
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.clusters.stage import offered, order
from tests.factories.quotas import limits_give
from tests.factories.tenants import UserFactory
from tests.frontend.markup import words
from tests.frontend.pages.scene import grant_of_cluster, grant_to, robot_of
from tests.lasting import lasting


def members_join(workspace: Workspace, count: int) -> list[User]:
    found = [UserFactory.create(username=f"m{workspace.members.count() + n:02}") for n in range(count)]
    for user in found:
        workspace.members.create(user=user, role="view")
        grant_to(workspace, user)
    return found


def access_url(row: Workspace | Cluster) -> str:
    noun = "workspace" if isinstance(row, Workspace) else "cluster"
    return reverse(f"frontend:{noun}_access", args=[row.project.slug, row.pk])


def queries(client: Client, address: str) -> int:
    client.get(address)  # the first page of a client also reads what stays in memory
    with CaptureQueriesContext(connection) as found:
        assert client.get(address).status_code == 200
    return len(found)


def file_of(client: Client, address: str) -> list[dict[str, str]]:
    answer: Any = client.get(address)
    return list(csv.DictReader(io.StringIO(answer.getvalue().decode())))


def test_the_page_shows_ten_members_and_leads_to_all(
    alice_at: Client, bob: User, workspace: Workspace
) -> None:
    members_join(workspace, 12)
    grant_to(workspace, bob)
    for number in range(11):
        robot_of(workspace, f"ci-{number:02}")
    text = words(alice_at.get(reverse("frontend:workspace", args=[workspace.project.slug, workspace.pk])))
    card = text[text.index('id="access-title"') :]
    assert card.index("no member now") < card.index("m01"), "who should have none is not cut off"
    assert "m08" in card
    assert "m09" not in card
    for rest in ("10 of 14 members", "10 of 11 service accounts"):
        assert rest in card
    assert access_url(workspace) in card
    assert "m12" in words(alice_at.get(access_url(workspace)))


def test_members_are_found_sorted_and_written_to_a_file(
    alice_at: Client, bob: User, workspace: Workspace
) -> None:
    members_join(workspace, 12)
    grant_to(workspace, bob)
    at = access_url(workspace)
    found = file_of(alice_at, f"{at}?csv=1&q=m0&role=view&sort=-name")
    assert [row["name"] for row in found] == [f"m{n:02}" for n in range(9, 0, -1)]
    assert list(found[0]) == ["name", "role", "credentials", "until"]
    former = file_of(alice_at, f"{at}?csv=1&role=no+member+now")
    assert [row["name"] for row in former] == ["bob"]
    nothing = words(alice_at.get(f"{at}?q=zzz&role=edit"))
    assert "No members match" in nothing
    assert "Without Name: 0" not in nothing


def test_who_may_not_manage_ends_only_their_own(
    bob_at: Client, dora_at: Client, bob: User, workspace: Workspace
) -> None:
    (other,) = members_join(workspace, 1)
    workspace.members.create(user=bob, role="edit")
    grant_to(workspace, bob)
    text = words(bob_at.get(access_url(workspace)))
    assert reverse("frontend:workspace_access_revoke", args=["weather-lm", workspace.pk, bob.pk]) in text
    assert str(other.pk) not in text
    hers = words(dora_at.get(access_url(workspace)))
    assert other.username in hers
    assert "/revoke/" not in hers
    assert "/remove/" not in hers


def test_more_members_ask_no_more(alice_at: Client, workspace: Workspace) -> None:
    members_join(workspace, 2)
    few = queries(alice_at, access_url(workspace))
    members_join(workspace, 12)
    assert queries(alice_at, access_url(workspace)) == few


@pytest.fixture
@lasting
def cluster(as_olga: Actor, as_alice: Actor, project: Project, site: Any) -> Cluster:
    limits_give(project)
    offered(as_olga, site)
    return order(as_alice, project)


def test_a_cluster_shows_ten_holders_and_leads_to_all(
    alice_at: Client, bob_at: Client, charlie_at: Client, bob: User, cluster: Cluster
) -> None:
    grant_of_cluster(cluster, bob)
    few = queries(alice_at, access_url(cluster))
    for number in range(11):
        grant_of_cluster(cluster, UserFactory.create(username=f"h{number:02}"))
    assert queries(alice_at, access_url(cluster)) == few
    text = words(alice_at.get(reverse("frontend:cluster", args=["weather-lm", cluster.pk])))
    assert "10 of 12 people with credentials" in text
    assert "h09" not in text
    assert access_url(cluster) in text
    assert len(file_of(alice_at, f"{access_url(cluster)}?csv=1")) == 12
    hers = words(bob_at.get(access_url(cluster)))
    assert hers.count("/revoke/") == 2, "her own alone: a link, and the address that a script fetches"
    for query in ("", "?csv=1", "?login-csv=1"):
        assert charlie_at.get(f"{access_url(cluster)}{query}").status_code == 404
