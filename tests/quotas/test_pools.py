"""A reserved pool is its organization's alone: from the moment the reservation is made, whatever happens at that moment."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from gpuaas.catalog.models import Flavor, Site
from gpuaas.catalog.services import flavor_publish, flavor_retire
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid, NoCapacity
from quotas.models import PoolReservation, Reservation, SiteCapacity
from quotas.pools import (
    Guest,
    pool_guests,
    pool_reservation_change,
    pool_reservation_end,
    pool_reservations_for,
    pool_reserve,
    pool_reserve_check,
)
from quotas.selectors import admission_preview
from quotas.services import reservation_grow, reservation_release, reservation_reserve, reservation_shrink
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.catalog import FlavorFactory
from tests.factories.quotas import counters_must_match, limits_give
from tests.factories.tenants import ProjectFactory

H100 = "gpu:h100-sxm-80gb"
L40S = "gpu:l40s-48gb"
KEPT = "All h100-sxm-80gb GPUs at ber-1 are reserved for another organization"


@pytest.fixture
def own(h100: Flavor, project: Project, other_project: Project) -> Flavor:
    """What the pool is reserved by. Both organizations have limits for everything."""
    limits_give(project)
    limits_give(other_project)
    return FlavorFactory.create(pool=h100.pool, slug="h100.own", price_class="reserved")


def take(project: Project, site: Site, amounts: dict[str, int] | None = None) -> uuid.UUID:
    holder = uuid.uuid4()
    reservation_reserve(
        holder_kind="workspace",
        holder_id=holder,
        project=project,
        site=site,
        amounts=amounts or {H100: 1, "vcpu": 16},
    )
    return holder


def refused(project: Project, site: Site) -> str:
    """By admission, and by what the forms say before it, in the same words."""
    with pytest.raises(NoCapacity) as caught:
        take(project, site)
    preview = admission_preview(project=project, site=site, amounts={H100: 1, "vcpu": 16})
    assert [check.message for check in preview.refusals] == [caught.value.message]
    assert caught.value.detail["left"] == 0
    counters_must_match()
    return caught.value.message


def guests_of(flavor: Flavor, project: Project, actor: Actor) -> list[Guest]:
    ((_, found),) = pool_guests(actor=actor, wanted=[(flavor.pool, project.organization_id)]).items()
    return found


@pytest.mark.django_db
def test_a_retired_flavor_reserves_no_pool(own: Flavor, project: Project, as_olga: Actor) -> None:
    """Nobody could get any of it, its organization neither, which would be charged for all of it as idle."""
    seen = Flavor.objects.select_related("pool__gpu_type", "pool__site").get(pk=own.pk)
    flavor_retire(actor=as_olga, flavor=own)
    for ask in (pool_reserve_check, pool_reserve):
        with pytest.raises(Invalid, match=r"h100\.own is retired") as caught:
            ask(actor=as_olga, flavor=seen, project=project)
        assert list(caught.value.fields) == ["flavor"]
    assert not PoolReservation.objects.exists()
    flavor_publish(actor=as_olga, flavor=own)
    pool_reserve(actor=as_olga, flavor=seen, project=project)


@pytest.mark.django_db
def test_others_get_nothing_of_it_and_its_organization_everything(
    own: Flavor, site: Site, project: Project, other_project: Project, as_olga: Actor
) -> None:
    neighbor = ProjectFactory.create(organization=project.organization)
    limits_give(neighbor)
    made = pool_reserve(actor=as_olga, flavor=own, project=project)
    assert refused(other_project, site) == f"{KEPT}. Choose another GPU type or site, or ask an operator."
    take(other_project, site, {L40S: 1, "vcpu": 4})
    take(project, site)
    take(neighbor, site)
    pool_reservation_end(actor=as_olga, reservation=made, at=clock.now() + timedelta(days=2))
    assert f"{KEPT} until " in refused(other_project, site)
    made.refresh_from_db()
    PoolReservation.objects.filter(pk=made.pk).update(
        valid_from=clock.now() - timedelta(days=1), valid_to=clock.now()
    )
    take(other_project, site)
    counters_must_match()


@pytest.mark.django_db
def test_another_end_is_refused_when_others_have_the_pool_then(
    own: Flavor, project: Project, other_project: Project, as_olga: Actor
) -> None:
    first, last = (clock.whole_second(clock.now()) + timedelta(days=days) for days in (10, 20))
    mine = pool_reserve(actor=as_olga, flavor=own, project=project, valid_to=first)
    pool_reserve(actor=as_olga, flavor=own, project=other_project, valid_from=first, valid_to=last)
    for end in (None, first + timedelta(seconds=1), last + timedelta(days=1)):
        with pytest.raises(Invalid) as caught:
            pool_reservation_change(actor=as_olga, reservation=mine, changes={"valid_to": end})
        assert list(caught.value.fields) == ["valid_to"]
    shorter = first - timedelta(days=1)
    for end in (first, shorter):
        changed = pool_reservation_change(actor=as_olga, reservation=mine, changes={"valid_to": end})
        assert changed.valid_to == end
    assert mine.valid_to != shorter, "it was read before"
    changed = pool_reservation_change(actor=as_olga, reservation=mine, changes={"note": "x"})
    assert (changed.valid_to, changed.note) == (shorter, "x"), (
        "what is not named stays as others have left it"
    )
    PoolReservation.objects.filter(pk=mine.pk).update(
        valid_from=first - timedelta(days=40), valid_to=first - timedelta(days=30)
    )
    with pytest.raises(Conflict, match="stays as it was"):
        pool_reservation_change(actor=as_olga, reservation=mine, changes={"note": "x", "valid_to": first})


@pytest.mark.django_db
def test_it_begins_at_once_only_where_nobody_else_is(
    own: Flavor, site: Site, project: Project, other_project: Project, as_olga: Actor
) -> None:
    theirs = take(other_project, site, {H100: 3, "vcpu": 16})
    take(other_project, site)
    take(project, site)
    with pytest.raises(Invalid) as caught:
        pool_reserve(actor=as_olga, flavor=own, project=project)
    assert "others hold 4 GPUs of H100 SXM 80 GB at ber-1: Protein Fold of Biology 4" in str(
        caught.value.fields["valid_from"]
    )
    assert guests_of(own, project, as_olga) == [
        Guest("biology", "protein-fold", "Biology", "Protein Fold", 2, 4)
    ]
    begins = clock.now() + timedelta(days=1)
    waits = pool_reserve_check(actor=as_olga, flavor=own, project=project, valid_from=begins)
    assert waits == guests_of(own, project, as_olga)
    for row in Reservation.objects.filter(project=other_project).exclude(holder_id=theirs):
        reservation_release(holder_kind="workspace", holder_id=row.holder_id)
    reservation_release(holder_kind="workspace", holder_id=theirs)
    pool_reserve(actor=as_olga, flavor=own, project=project)
    refused(other_project, site)


@pytest.mark.django_db
def test_one_that_begins_later_closes_the_pool_and_evicts_nobody(
    own: Flavor,
    site: Site,
    project: Project,
    other_project: Project,
    as_olga: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = take(other_project, site, {H100: 2, "vcpu": 16})
    begins = clock.whole_second(clock.now()) + timedelta(days=1)
    pool_reserve(actor=as_olga, flavor=own, project=project, valid_from=begins)
    refused(other_project, site)
    grow: dict[str, Any] = {"holder_kind": "workspace", "holder_id": theirs}
    with pytest.raises(NoCapacity, match="reserved for another"):
        reservation_grow(**grow, amounts={H100: 3, "vcpu": 16})
    reservation_grow(**grow, amounts={H100: 2, "vcpu": 20})  # it is the GPUs that are kept
    later(monkeypatch, begins + timedelta(hours=1))
    assert guests_of(own, project, as_olga)[0].amount == 2
    reservation_shrink(**grow, amounts={H100: 1, "vcpu": 20})
    with pytest.raises(NoCapacity):
        reservation_grow(**grow, amounts={H100: 2, "vcpu": 20})
    assert reservation_release(**grow)
    counters_must_match()


@pytest.mark.django_db
def test_of_two_the_first_has_it_until_it_is_over(
    own: Flavor,
    site: Site,
    project: Project,
    other_project: Project,
    as_olga: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change = clock.whole_second(clock.now()) + timedelta(days=1)
    pool_reserve(actor=as_olga, flavor=own, project=other_project, valid_from=change)
    refused(project, site)
    pool_reserve(actor=as_olga, flavor=own, project=project, valid_to=change)
    held = take(project, site)
    refused(other_project, site)
    later(monkeypatch, change)
    take(other_project, site)
    refused(project, site)
    assert Reservation.objects.filter(holder_id=held, state="held").exists()


@pytest.mark.django_db
def test_whom_it_is_told_to(
    own: Flavor,
    project: Project,
    other_project: Project,
    as_olga: Actor,
    as_alice: Actor,
    as_bob: Actor,
    as_charlie: Actor,
) -> None:
    made = pool_reserve(actor=as_olga, flavor=own, project=project)
    seen = [list(pool_reservations_for(actor=actor)) for actor in (as_olga, as_alice, as_bob, as_charlie)]
    assert seen == [[made], [made], [made], []]


def later(monkeypatch: pytest.MonkeyPatch, moment: datetime) -> None:
    monkeypatch.setattr(clock, "now", lambda: moment)


@pytest.mark.django_db(transaction=True)
def test_it_waits_for_the_request_under_way_and_then_sees_it(
    own: Flavor, site: Site, project: Project, other_project: Project, as_olga: Actor
) -> None:
    asked, told = threading.Event(), []

    def reserve() -> None:
        try:
            asked.wait(60)
            pool_reserve(actor=as_olga, flavor=own, project=project)
            told.append("made")
        except Invalid as error:
            told.append(error.fields["valid_from"][0][:18])
        finally:
            connection.close()

    thread = threading.Thread(target=reserve)
    thread.start()
    with transaction.atomic():
        take(other_project, site)
        asked.set()
        thread.join(0.5)
        assert told == []
    thread.join(60)
    assert told == ["others hold 1 GPUs"]


@pytest.mark.django_db(transaction=True)
def test_two_operators_and_two_tenants_each_at_once(
    own: Flavor, site: Site, project: Project, other_project: Project, as_olga: Actor
) -> None:
    """Whoever comes first: of two reservations one is made, and nobody else has a GPU of what begins at once."""
    gate = threading.Barrier(8)

    def one(number: int) -> str:
        whose = (project, other_project)[number % 2]
        try:
            gate.wait(60)
            if number < 4:
                pool_reserve(actor=as_olga, flavor=own, project=whose)
            else:
                take(whose, site)
        except (Conflict, Invalid) as error:
            return error.code
        else:
            return "reserved" if number < 4 else "taken"
        finally:
            connection.close()

    for _ in range(4):
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(one, range(8)))
        kept = [row.project.organization_id for row in PoolReservation.objects.select_related("project")]
        holding = Reservation.objects.filter(state="held").values_list("project__organization_id", flat=True)
        assert answers[:4].count("reserved") == len(kept) <= 1
        assert set(answers) <= {"reserved", "taken", "invalid", "no_capacity"}
        if kept:
            assert set(holding) <= set(kept)
        else:
            assert len(set(holding)) == 2  # both were there first
        counters_must_match()
        for holder in set(Reservation.objects.filter(state="held").values_list("holder_id", flat=True)):
            reservation_release(holder_kind="workspace", holder_id=holder)
        PoolReservation.objects.all().delete()
    assert SiteCapacity.objects.get(resource=H100).used == 0
