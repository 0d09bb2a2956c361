"""What heads report of the use of people: the latest report of a day counts, and nothing is kept of who is not known."""

from datetime import date, timedelta

import pytest

from gpuaas.clusters.models import Cluster, ClusterLogin, ClusterTemplate, ClusterUse
from gpuaas.clusters.selectors import use_by_login
from gpuaas.clusters.services import Used
from gpuaas.clusters.services.use import use_record
from gpuaas.core.clock import now
from tenants.actors import Actor
from tenants.models import Project, User
from tests.clusters.stage import order
from tests.factories.quotas import limits_give
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.fixture
@lasting
def cluster(as_alice: Actor, project: Project, template: ClusterTemplate, alice: User, bob: User) -> Cluster:
    limits_give(project, {"gpu:h100-sxm-80gb": None})
    for number, user in enumerate((alice, bob)):
        ClusterLogin.objects.create(project=project, user=user, name=user.username, uid=20_001 + number)
    made = order(as_alice, project)
    Cluster.objects.filter(pk=made.pk).update(created_at=now() - 40 * DAY)
    return Cluster.objects.get(pk=made.pk)


def kept(cluster: Cluster) -> dict[tuple[date, str], int]:
    rows = ClusterUse.objects.filter(cluster=cluster).values_list("day", "login__name", "gpu_seconds")
    return {(day, name): seconds for day, name, seconds in rows}


def test_the_latest_report_of_a_day_counts(cluster: Cluster) -> None:
    today = now().date()
    use_record(cluster, [Used(today - DAY, "alice", 50), Used(today, "alice", 10), Used(today, "bob", 7)])
    use_record(cluster, [Used(today, "alice", 40)])
    use_record(cluster, [])
    assert kept(cluster) == {(today - DAY, "alice"): 50, (today, "alice"): 40, (today, "bob"): 7}
    summed = use_by_login(cluster=cluster, since=today - DAY, before=today + DAY)
    assert {login.name: seconds for login, seconds in summed.items()} == {"alice": 90, "bob": 7}
    of_yesterday = use_by_login(cluster=cluster, since=today - DAY, before=today)
    assert {login.name: seconds for login, seconds in of_yesterday.items()} == {"alice": 50}


def test_who_and_when_that_cannot_be_is_ignored(
    cluster: Cluster, other_project: Project, charlie: User
) -> None:
    """Users of the system, logins of another project, and days of a clock that is wrong."""
    ClusterLogin.objects.create(project=other_project, user=charlie, name="charlie", uid=20_001)
    today = now().date()
    impossible = [Used(today, "root", 1), Used(today, "charlie", 1)]
    impossible += [Used(today + 3 * DAY, "bob", 1), Used(today - 50 * DAY, "bob", 1)]
    use_record(cluster, impossible)
    assert kept(cluster) == {}


def test_a_report_that_says_nothing_new_writes_nothing(
    cluster: Cluster, django_assert_num_queries: object
) -> None:
    told = [Used(now().date(), "bob", 7)]
    use_record(cluster, told)
    with django_assert_num_queries(2):  # type: ignore[operator]
        use_record(cluster, told)
