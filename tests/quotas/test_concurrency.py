"""Many at once, on real connections: never more than there is, never less than fits, never a deadlock."""

import threading
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from gpuaas.catalog.models import Site
from gpuaas.core.errors import Conflict
from quotas.models import Limit, SiteCapacity
from quotas.services import (
    capacity_sync,
    reservation_grow,
    reservation_release,
    reservation_reserve,
    reservation_shrink,
)
from tenants.models import Project
from tests.factories.quotas import counters_must_match, limits_give
from tests.factories.tenants import ProjectFactory

pytestmark = pytest.mark.django_db(transaction=True)
H100 = "gpu:h100-sxm-80gb"
CLIENTS = 64


def at_once(count: int, work: Callable[[int], str]) -> Counter[str]:
    """Run `work(number)` in that many threads, all let go at the same moment."""
    gate = threading.Barrier(count)

    def one(number: int) -> str:
        try:
            connection.ensure_connection()
            gate.wait()
            return work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return Counter(pool.map(one, range(count)))


def take(project: Project, site: Site, amounts: dict[str, int]) -> str:
    try:
        reservation_reserve(
            holder_kind="workspace", holder_id=uuid.uuid4(), project=project, site=site, amounts=amounts
        )
    except Conflict as error:
        return error.code
    return "granted"


def test_64_clients_for_the_last_8(project: Project, site: Site) -> None:
    limits_give(project, {H100: 8})

    for _ in range(3):
        answers = at_once(CLIENTS, lambda _: take(project, site, {H100: 1, "vcpu": 16}))

        assert answers == {"granted": 8, "quota_exceeded": CLIENTS - 8}
        counters_must_match()
        for holder in set(project.reservations.filter(state="held").values_list("holder_id", flat=True)):
            reservation_release(holder_kind="workspace", holder_id=holder)
        assert Limit.objects.get(project=project, resource=H100).used == 0


def test_projects_compete_for_the_site(project: Project, site: Site) -> None:
    projects = [project, *(ProjectFactory.create() for _ in range(3))]
    for one in projects:
        limits_give(one, {H100: None})

    answers = at_once(32, lambda number: take(projects[number % 4], site, {H100: 1}))

    assert answers == {"granted": 16, "no_capacity": 16}
    assert SiteCapacity.objects.get(resource=H100).used == 16
    counters_must_match()


def test_everything_at_once_never_deadlocks(project: Project, site: Site) -> None:
    """Resources are named in different orders, resizes and releases cross, the site's capacity is synced meanwhile."""
    neighbor = ProjectFactory.create(organization=project.organization)
    limits_give(project)
    limits_give(neighbor)
    amounts = [{H100: 1, "vcpu": 4, "memory": 8}, {"memory": 8, "vcpu": 4, H100: 1}]

    def churn(number: int) -> str:
        if number == 0:
            for healthy in (16, 15, 14, 16):
                capacity_sync(
                    site=site, healthy={H100: healthy, "vcpu": 10_000}, oversubscription_percent=100
                )
            return "synced"
        owner = (project, neighbor)[number % 2]
        for turn in range(6):
            holder = uuid.uuid4()
            wanted = amounts[(number + turn) % 2]
            try:
                reservation_reserve(
                    holder_kind="workspace", holder_id=holder, project=owner, site=site, amounts=wanted
                )
                reservation_grow(holder_kind="workspace", holder_id=holder, amounts={**wanted, "vcpu": 9})
                reservation_shrink(holder_kind="workspace", holder_id=holder, amounts={"vcpu": 2, H100: 1})
            except Conflict:
                pass
            reservation_release(holder_kind="workspace", holder_id=holder)
        return "churned"

    assert at_once(24, churn) == {"synced": 1, "churned": 23}
    counters_must_match()
    assert set(Limit.objects.values_list("used", flat=True)) == {0}


def test_two_releases_at_the_same_moment_give_back_once(project: Project, site: Site) -> None:
    limits_give(project)
    holder = uuid.uuid4()
    reservation_reserve(
        holder_kind="workspace", holder_id=holder, project=project, site=site, amounts={H100: 2}
    )

    answers = at_once(8, lambda _: str(reservation_release(holder_kind="workspace", holder_id=holder)))

    assert answers == {"True": 1, "False": 7}
    counters_must_match()
