"""Credentials of a cluster ended early: one's own or, for who manages the project, anybody's; the site is asked until it confirms."""

from collections.abc import Callable
from datetime import timedelta

import pytest
import yaml

from gpuaas.catalog.models import Site
from gpuaas.clusters import tasks
from gpuaas.clusters.models import Cluster, ClusterGrant, ClusterTemplate
from gpuaas.clusters.selectors import grants_lost
from gpuaas.clusters.services import access as revocations
from gpuaas.clusters.services import (
    cluster_credential,
    cluster_delete,
    credentials_revoke,
)
from gpuaas.core.errors import Conflict, Forbidden, NotFound, Unauthorized
from gpuaas.core.ids import uuid7
from gpuaas.lifecycle.grants import GrantStanding
from gpuaas.providers.base import Access, ClusterRef
from gpuaas.providers.sandbox.clusters.driver import SandboxClusterDriver
from gpuaas.providers.sandbox.clusters.entrance import token_subject
from gpuaas.providers.sandbox.dials import dials_set
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tenants.services import (
    organization_member_set,
    project_member_remove,
    project_member_set,
    user_deactivate,
    user_platform_role_set,
)
from tests.clusters.stage import revocations_made, settle
from tests.factories.catalog import SiteFactory

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)


def let_in(cluster: Cluster, access: Access) -> bool:
    token = yaml.safe_load(access.document)["users"][0]["user"]["token"]
    try:
        token_subject(ClusterRef(cluster.pk, cluster.external_name), token)
    except Unauthorized:
        return False
    return True


def standings(cluster: Cluster) -> list[GrantStanding]:
    """The oldest first."""
    return [grant.standing for grant in cluster.grants.order_by("pk")]


def test_all_of_one_persons_end_and_another_can_be_taken(
    as_alice: Actor, as_bob: Actor, alice: User, cluster: Cluster
) -> None:
    mine = [cluster_credential(actor=as_alice, cluster=cluster, lifetime=HOUR) for _ in range(2)]
    bobs = cluster_credential(actor=as_bob, cluster=cluster, lifetime=HOUR)
    assert credentials_revoke(actor=as_alice, cluster=cluster, user=alice) == 2
    assert credentials_revoke(actor=as_alice, cluster=cluster, user=alice) == 0, "asked once"
    with pytest.raises(Conflict, match="being ended"):
        cluster_credential(actor=as_alice, cluster=cluster, lifetime=HOUR)
    assert revocations_made() == 2
    assert revocations_made() == 0
    assert [let_in(cluster, access) for access in (*mine, bobs)] == [False, False, True]
    assert standings(cluster) == [GrantStanding.REVOKED, GrantStanding.REVOKED, GrantStanding.VALID]
    assert let_in(cluster, cluster_credential(actor=as_alice, cluster=cluster, lifetime=HOUR))
    entry = AuditEntry.objects.get(action="cluster.access_revoke")
    assert entry.after == {"username": "alice", "credentials": 2}


def test_whose_they_are_decides(
    as_alice: Actor, as_bob: Actor, as_charlie: Actor, alice: User, bob: User, cluster: Cluster
) -> None:
    hers = cluster_credential(actor=as_alice, cluster=cluster, lifetime=HOUR)
    his = cluster_credential(actor=as_bob, cluster=cluster, lifetime=HOUR)
    with pytest.raises(Forbidden):
        credentials_revoke(actor=as_bob, cluster=cluster, user=alice)
    with pytest.raises(NotFound):
        credentials_revoke(actor=as_charlie, cluster=cluster, user=bob)
    assert credentials_revoke(actor=as_alice, cluster=cluster, user=bob) == 1
    assert revocations_made() == 1
    assert (let_in(cluster, hers), let_in(cluster, his)) == (True, False)


def removed(olga: Actor, project: Project, bob: User) -> None:
    project_member_remove(actor=olga, project=project, user=bob)


def lowered(olga: Actor, project: Project, bob: User) -> None:
    project_member_set(actor=olga, project=project, user=bob, role="viewer")


def disabled(olga: Actor, project: Project, bob: User) -> None:
    user_deactivate(actor=olga, user=bob)


@pytest.mark.parametrize("lost", [removed, lowered, disabled])
def test_who_may_not_enter_any_more_is_shut_out(
    as_alice: Actor,
    as_bob: Actor,
    as_olga: Actor,
    bob: User,
    cluster: Cluster,
    lost: Callable[[Actor, Project, User], None],
) -> None:
    hers = cluster_credential(actor=as_alice, cluster=cluster, lifetime=HOUR)
    his = cluster_credential(actor=as_bob, cluster=cluster, lifetime=HOUR)
    assert revocations_made() == 0
    lost(as_olga, cluster.project, bob)
    assert revocations_made() == 1
    assert revocations_made() == 0
    assert (let_in(cluster, hers), let_in(cluster, his)) == (True, False)
    entry = AuditEntry.objects.get(action="cluster.access_revoke")
    assert (entry.actor, entry.after) == ("portal", {"username": "bob", "credentials": 1})


@pytest.mark.parametrize("way", ["owner", "operator"])
def test_who_still_may_enter_by_another_role_keeps_what_they_have(
    as_bob: Actor, as_olga: Actor, bob: User, cluster: Cluster, way: str
) -> None:
    his = cluster_credential(actor=as_bob, cluster=cluster, lifetime=HOUR)
    if way == "owner":
        organization_member_set(
            actor=as_olga, organization=cluster.project.organization, user=bob, role="owner"
        )
    else:
        user_platform_role_set(actor=as_olga, user=bob, platform_role="operator")
    project_member_remove(actor=as_olga, project=cluster.project, user=bob)
    assert revocations_made() == 0
    assert let_in(cluster, his)


def test_where_a_driver_cannot_end_them_nobody_says_so(
    as_bob: Actor, as_olga: Actor, bob: User, cluster: Cluster
) -> None:
    """Certificates of k3s: they stand as valid until their time, also of who has left."""
    cluster_credential(actor=as_bob, cluster=cluster, lifetime=HOUR)
    ClusterTemplate.objects.update(driver="openstack")
    with pytest.raises(Conflict, match="cannot be ended early"):
        credentials_revoke(actor=as_bob, cluster=cluster, user=bob)
    project_member_remove(actor=as_olga, project=cluster.project, user=bob)
    assert revocations_made() == 0
    assert standings(cluster) == [GrantStanding.VALID]
    assert [grant.user for grant in grants_lost()] == [bob]


def test_they_end_with_the_cluster(as_alice: Actor, cluster: Cluster) -> None:
    cluster_credential(actor=as_alice, cluster=cluster, lifetime=HOUR)
    cluster_delete(actor=as_alice, cluster=cluster)
    assert settle(cluster).state == "deleted"
    assert standings(cluster) == [GrantStanding.REVOKED]


def test_a_site_that_does_not_answer_is_asked_again(
    as_alice: Actor, alice: User, cluster: Cluster, site: Site
) -> None:
    access = cluster_credential(actor=as_alice, cluster=cluster, lifetime=HOUR)
    credentials_revoke(actor=as_alice, cluster=cluster, user=alice)
    dials_set(site.pk, down=True)
    assert revocations_made() == 0
    assert standings(cluster) == [GrantStanding.ENDING]
    dials_set(site.pk, down=False)
    assert revocations_made() == 1
    assert not let_in(cluster, access)


def test_one_site_that_does_not_answer_keeps_no_other_from_its_revocations(
    as_alice: Actor, alice: User, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cluster has a task of its own, and those of each site are taken in turn."""
    monkeypatch.setattr(revocations, "REVOCATIONS", 2)
    healthy = SiteFactory.create(slug="healthy")
    cluster_credential(actor=as_alice, cluster=cluster, lifetime=HOUR)
    credentials_revoke(actor=as_alice, cluster=cluster, user=alice)
    grant = cluster.grants.get()
    for number, site in enumerate((cluster.site, cluster.site, cluster.site, healthy)):
        other = Cluster.objects.get(pk=cluster.pk)
        other.pk, other.site, other.name, other._state.adding = uuid7(), site, f"c-{number}", True
        other.save()
        ClusterGrant.objects.create(
            cluster=other,
            user=alice,
            issued_at=grant.issued_at,
            expires_at=grant.expires_at,
            revoke_asked_at=grant.revoke_asked_at,
        )
    sent: list[tuple[str, ...]] = []
    monkeypatch.setattr(tasks, "poke", lambda *words: sent.append(words))
    dials_set(cluster.site_id, down=True)
    assert tasks.revoke() == 2
    assert {name for name, _ in sent} == {"clusters.revoke_at"}
    sites = [Cluster.objects.get(pk=pk).site.slug for _, pk in sent]
    assert sorted(sites) == sorted([cluster.site.slug, "healthy"])


def test_one_that_is_revoked_while_it_is_made_is_not_shown(
    as_alice: Actor, alice: User, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever revokes between our row and the site's answer ends what the site is about to give."""
    give, given = SandboxClusterDriver.access, []

    def meanwhile(self: SandboxClusterDriver, *args: object, **kwargs: object) -> Access:
        assert credentials_revoke(actor=as_alice, cluster=cluster, user=alice) == 1
        assert revocations_made() == 1
        given.append(give(self, *args, **kwargs))  # type: ignore[arg-type]  # handed through as they are
        return given[0]

    monkeypatch.setattr(SandboxClusterDriver, "access", meanwhile)
    with pytest.raises(Conflict, match="revoked at the same moment"):
        cluster_credential(actor=as_alice, cluster=cluster, lifetime=HOUR)
    assert revocations_made() == 1
    assert not let_in(cluster, given[0])
    assert ClusterGrant.objects.get().revoked_at is not None
