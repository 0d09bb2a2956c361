"""Logins on Slurm clusters: given once, admitted as memberships are at each report, and named by the access of each person."""

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from gpuaas.clusters.models import Cluster, ClusterGrant, ClusterLogin, ClusterQueue, ClusterTemplate
from gpuaas.clusters.services import cluster_credential, queue_report
from gpuaas.clusters.services.logins import login_of, login_orders
from gpuaas.clusters.services.rows import driver_of
from gpuaas.clusters.spec import spec_of
from gpuaas.core.errors import Conflict
from gpuaas.providers.base import Access, ClusterAccessCapability, ClusterSpec, Member, queue_token
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, ProjectMembership, User
from tenants.services.members import project_member_remove, project_member_set
from tests.clusters.slurm_stage import reread
from tests.clusters.test_races import at_once
from tests.factories.tenants import ProjectMembershipFactory, UserFactory

pytestmark = pytest.mark.django_db
ADDRESS = "/api/v1/queue-reports"
HOUR = timedelta(hours=1)


@pytest.fixture
def cluster(slurm: Cluster) -> Cluster:
    return slurm


def report(cluster: Cluster, *names: str) -> dict[str, bool]:
    """As its head reports whom it lets in; who is to be let in."""
    token = queue_token(spec_of(cluster).boots.seed, cluster=cluster.pk)
    answer = queue_report(token=token, pools=None, logins=names)
    assert answer.logins is not None
    return {one.name: one.admitted for one in answer.logins.logins}


def member(project: Project, username: str, role: str = "member") -> User:
    user = UserFactory.create(username=username)
    ProjectMembershipFactory.create(project=project, user=user, role=role)
    return user


def test_members_are_admitted_and_others_are_not(cluster: Cluster, project: Project, charlie: User) -> None:
    """The owner of the organization may enter, and gets a login with the first credential; an outsider never does."""
    member(project, "vera", role="viewer")
    UserFactory.create(username="nobodys")
    away = member(project, "away")
    User.objects.filter(pk=away.pk).update(is_active=False)
    assert report(cluster) == {"bob": True}


def test_a_login_is_given_once_and_stays(
    cluster: Cluster, project: Project, as_alice: Actor, bob: User
) -> None:
    member(project, "Bob@elsewhere.example")
    member(project, "root")
    assert report(cluster) == {"bob": True, "bob-2": True, "u-root": True}
    uids = dict(ClusterLogin.objects.values_list("name", "uid"))
    assert uids == {"bob": 20_001, "bob-2": 20_002, "u-root": 20_003}
    User.objects.filter(pk=bob.pk).update(username="robert")
    project_member_remove(actor=as_alice, project=project, user=bob)
    assert report(cluster) == {"bob": False, "bob-2": True, "u-root": True}
    member(project, "bob")
    project_member_set(actor=as_alice, project=project, user=User.objects.get(pk=bob.pk), role="member")
    assert report(cluster) == {"bob": True, "bob-2": True, "u-root": True, "bob-3": True}
    assert dict(ClusterLogin.objects.exclude(name="bob-3").values_list("name", "uid")) == uids


@pytest.mark.parametrize("lost", ["removed", "viewer", "disabled"])
def test_who_may_not_enter_any_more_is_not_admitted_in_the_next_answer(
    cluster: Cluster, project: Project, as_alice: Actor, bob: User, lost: str
) -> None:
    assert report(cluster) == {"bob": True}
    if lost == "removed":
        project_member_remove(actor=as_alice, project=project, user=bob)
    elif lost == "viewer":
        project_member_set(actor=as_alice, project=project, user=bob, role="viewer")
    else:
        User.objects.filter(pk=bob.pk).update(is_active=False)
    assert report(cluster, "bob") == {"bob": False}


def test_projects_do_not_see_each_others_names(
    cluster: Cluster, project: Project, other_project: Project, bob: User
) -> None:
    twin = member(other_project, "bob@other.example")
    assert login_of(project=other_project, user_id=twin.pk).name == "bob"
    assert report(cluster) == {"bob": True}


def test_a_cluster_in_a_warm_pool_lets_nobody_in(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "is_waiting", property(lambda _: True))
    orders = login_orders(cluster)
    assert orders is not None
    assert (orders.account, orders.logins) == ("", ())
    assert not ClusterLogin.objects.exists()


def test_a_kubernetes_cluster_has_no_logins(cluster: Cluster) -> None:
    token = queue_token(spec_of(cluster).boots.seed, cluster=cluster.pk)
    ClusterTemplate.objects.update(kind="kubernetes")
    assert queue_report(token=token, pools=[], logins=["bob"]).logins is None
    assert reread(cluster).logins is None
    assert not ClusterLogin.objects.exists()


def test_the_head_is_answered_over_http(cluster: Cluster) -> None:
    headers = {"Authorization": f"Bearer {queue_token(spec_of(cluster).boots.seed, cluster=cluster.pk)}"}

    def post(body: dict[str, Any]) -> dict[str, Any]:
        answer = Client().post(ADDRESS, json.dumps(body), content_type="application/json", headers=headers)
        assert answer.status_code in {201, 400}
        found: dict[str, Any] = answer.json()
        return found

    post({"logins": ["bob"]})
    assert reread(cluster).logins == [], "nobody is in before a login was given"
    answer = post({"logins": ["bob", "nobodys"]})
    assert answer["logins"] == {
        "account": "weather-lm",
        "logins": [{"name": "bob", "uid": 20001, "admitted": True}],
    }
    assert [one["machines"] for one in answer["pools"]] == [1]
    assert reread(cluster).logins == ["bob"], "names that were not given are not kept"
    assert not ClusterQueue.objects.exists(), "a head that could not ask Slurm says nothing of the queue"
    assert "logins.0" in post({"logins": ["x" * 33]})["error"]["fields"]


def test_the_access_of_a_person_names_their_login_once_the_head_has_it(
    cluster: Cluster, as_alice: Actor, as_bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    driver = driver_of(cluster)
    assert isinstance(driver, ClusterAccessCapability)
    real = driver.access

    def access(spec: ClusterSpec, member: Member, *, lifetime: timedelta) -> Access:
        seen.append(member.login)
        return real(spec, member, lifetime=lifetime)

    monkeypatch.setattr(type(driver), "access", staticmethod(access))
    cluster_credential(actor=as_bob, cluster=cluster, lifetime=HOUR)
    assert report(cluster) == {"bob": True}
    with pytest.raises(Conflict, match="your account bob is being made"):
        cluster_credential(actor=as_bob, cluster=cluster, lifetime=HOUR)
    with pytest.raises(Conflict, match="your account alice is being made"):
        cluster_credential(actor=as_alice, cluster=cluster, lifetime=HOUR)
    assert report(cluster, "bob") == {"bob": True, "alice": True}
    cluster_credential(actor=as_bob, cluster=cluster, lifetime=HOUR)
    assert seen == ["", "bob"], (
        "before the first report all share one account, as on heads of earlier releases"
    )


def test_credentials_of_who_left_end_when_the_head_has_shut_them_out(
    cluster: Cluster, project: Project, as_alice: Actor, as_bob: Actor, bob: User
) -> None:
    report(cluster)
    report(cluster, "bob")
    cluster_credential(actor=as_bob, cluster=cluster, lifetime=HOUR)
    project_member_remove(actor=as_alice, project=project, user=bob)
    report(cluster, "bob")
    assert ClusterGrant.objects.get().revoked_at is None, "the head still lets him in"
    report(cluster)
    assert ClusterGrant.objects.get().standing == "revoked"
    ended = AuditEntry.objects.filter(action__endswith="access_revoke")
    assert [entry.after for entry in ended] == [{"username": "bob", "credentials": 1}]
    report(cluster)
    assert ended.count() == 1


@pytest.mark.django_db(transaction=True)
def test_heads_that_report_at_once_give_each_person_one_login(cluster: Cluster, project: Project) -> None:
    people = [member(project, f"bob{number}@x.example") for number in range(6)]

    def work(number: int) -> object:
        return report(cluster) if number % 2 else login_of(project=project, user_id=people[0].pk)

    answers = at_once(8, work)
    assert answers == Counter({"done": 8})
    assert sorted(ClusterLogin.objects.values_list("uid", flat=True)) == list(range(20_001, 20_008))


@pytest.mark.django_db(transaction=True)
def test_who_is_removed_while_reports_are_answered_is_out_in_the_next(
    cluster: Cluster, project: Project, as_alice: Actor, bob: User
) -> None:
    """Each answer is either of before or of after; and what is asked after the removal is of after."""
    report(cluster)

    def work(number: int) -> object:
        if number == 0:
            return project_member_remove(actor=as_alice, project=project, user=bob)
        return report(cluster, "bob")

    assert at_once(6, work) == Counter({"done": 6})
    assert not ProjectMembership.objects.filter(user=bob).exists()
    assert report(cluster, "bob") == {"bob": False}
