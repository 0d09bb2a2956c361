"""A hold stops whatever would be reserved in its scope, and nothing else; once it is committed nothing slips through."""

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from gpuaas.catalog.models import Site
from gpuaas.core.errors import Conflict, OnHold
from quotas.holds import HoldScope, hold_lift, hold_set
from quotas.models import Hold, Reservation
from quotas.selectors import admission_preview
from quotas.services import reservation_grow, reservation_release, reservation_reserve, reservation_shrink
from tenants.models import Project
from tests.factories.quotas import counters_must_match, limits_give
from tests.factories.tenants import ProjectFactory

H100 = "gpu:h100-sxm-80gb"
SPENT = "The budget autumn is spent; raise it."


def take(project: Project, site: Site, holder: uuid.UUID | None = None) -> uuid.UUID:
    holder = holder or uuid.uuid4()
    reservation_reserve(
        holder_kind="workspace", holder_id=holder, project=project, site=site, amounts={H100: 1}
    )
    return holder


def refused(project: Project, site: Site) -> OnHold:
    with pytest.raises(OnHold) as caught:
        take(project, site)
    return caught.value


@pytest.fixture
def neighbor(project: Project) -> Project:
    found: Project = ProjectFactory.create(organization=project.organization)
    for one in (project, found):
        limits_give(one)
    return found


def scope(project: Project, *, whole: bool = False, holder: uuid.UUID | None = None) -> HoldScope:
    return HoldScope(project.organization_id, None if whole else project.pk, holder)


@pytest.mark.django_db
def test_a_project_on_hold_gets_nothing_and_its_neighbor_does(
    project: Project, neighbor: Project, site: Site
) -> None:
    hold_set(source="budget:1", scope=scope(project), reason=SPENT)
    error = refused(project, site)
    assert (error.code, error.message, error.status) == ("on_hold", SPENT, 409)
    assert error.detail == {"scope": "project", "scope_name": "weather-lm", "reason": SPENT}
    take(neighbor, site)
    assert hold_lift(source="budget:1")
    assert not hold_lift(source="budget:1")
    take(project, site)
    counters_must_match()


@pytest.mark.django_db
def test_an_organization_on_hold_covers_its_projects_and_no_other(
    project: Project, neighbor: Project, other_project: Project, site: Site
) -> None:
    limits_give(other_project)
    hold_set(source="budget:1", scope=scope(project, whole=True), reason=SPENT)
    assert refused(project, site).detail["scope"] == "organization"
    assert refused(neighbor, site).detail["scope_name"] == "climate"
    take(other_project, site)


@pytest.mark.django_db
def test_a_holder_on_hold_cannot_grow_but_shrinks_and_is_given_back(
    project: Project, neighbor: Project, site: Site
) -> None:
    held, free = take(project, site), take(project, site)
    hold_set(source="budget:1", scope=scope(project, holder=held), reason=SPENT)
    with pytest.raises(OnHold):
        reservation_grow(holder_kind="workspace", holder_id=held, amounts={H100: 2})
    reservation_grow(holder_kind="workspace", holder_id=held, amounts={H100: 1})
    reservation_grow(holder_kind="workspace", holder_id=free, amounts={H100: 2})
    reservation_shrink(holder_kind="workspace", holder_id=free, amounts={H100: 1})
    assert reservation_release(holder_kind="workspace", holder_id=held)
    take(project, site)
    counters_must_match()


@pytest.mark.django_db
def test_the_preview_says_what_admission_would(project: Project, neighbor: Project, site: Site) -> None:
    hold_set(source="budget:1", scope=scope(project), reason="older words")
    hold_set(source="budget:1", scope=scope(project), reason=SPENT)
    assert Hold.objects.count() == 1
    found = admission_preview(project=project, site=site, amounts={H100: 1})
    assert (found.fits, found.hold, found.refusals) == (False, SPENT, ())
    with pytest.raises(OnHold, match="autumn"):
        found.refuse()
    assert admission_preview(project=project, site=site, amounts={H100: 0}).fits
    assert admission_preview(project=neighbor, site=site, amounts={H100: 1}).fits


@pytest.mark.django_db(transaction=True)
def test_nothing_is_reserved_after_a_hold_was_committed(project: Project, site: Site) -> None:
    """Real threads: requests run until they are refused; what was granted is what was there when the hold was set."""
    limits_give(project, {H100: None})
    Hold.objects.all().delete()
    gate = threading.Barrier(9)
    at_commit: list[int] = []

    def ask(number: int) -> str:
        try:
            gate.wait()
            until = time.monotonic() + 100
            while time.monotonic() < until:
                try:
                    holder = take(project, site)
                    reservation_release(holder_kind="workspace", holder_id=holder)
                except OnHold:
                    return "held"
                except Conflict:
                    continue
            return "never held"
        finally:
            connection.close()

    def stop(_: int) -> str:
        try:
            gate.wait()
            with transaction.atomic():
                hold_set(source="budget:1", scope=scope(project), reason=SPENT)
                at_commit.append(Reservation.objects.filter(project=project).count())
            return "set"
        finally:
            connection.close()

    with ThreadPoolExecutor(9) as pool:
        answers = list(pool.map(lambda number: stop(number) if number == 8 else ask(number), range(9)))

    assert answers == ["held"] * 8 + ["set"]
    assert [Reservation.objects.filter(project=project).count()] == at_commit
    counters_must_match()


@pytest.mark.django_db(transaction=True)
def test_a_hold_waits_for_the_reservation_under_way(project: Project, site: Site) -> None:
    """It cannot be committed beside a reservation that has not seen it."""
    limits_give(project)
    reserved, done = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            reserved.wait(60)
            hold_set(source="budget:1", scope=scope(project), reason=SPENT)
            done.set()
        finally:
            connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    with transaction.atomic():
        take(project, site)
        reserved.set()
        assert not done.wait(0.5)
    assert done.wait(60)
    thread.join()
    refused(project, site)
