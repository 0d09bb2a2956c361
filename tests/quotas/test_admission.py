"""Admission: what fits is held, what does not is refused with its numbers, and nothing is ever half done."""

import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuaas.catalog.models import Site
from gpuaas.core.errors import Conflict, NoCapacity, QuotaRefused
from quotas.models import Limit, Reservation, SiteCapacity
from quotas.selectors import admission_preview, reservations_held
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

pytestmark = pytest.mark.django_db
H100 = "gpu:h100-sxm-80gb"


def reserve(project: Project, site: Site, **amounts: int) -> uuid.UUID:
    holder = uuid.uuid4()
    named = {name.replace("h100", H100): amount for name, amount in amounts.items()}
    reservation_reserve(holder_kind="workspace", holder_id=holder, project=project, site=site, amounts=named)
    return holder


def test_what_fits_is_held_everywhere(project: Project, site: Site) -> None:
    limits_give(project)
    holder = reserve(project, site, h100=2, vcpu=32)

    assert reservations_held(holder_kind="workspace", holder_id=holder) == {H100: 2, "vcpu": 32}
    assert list(Limit.objects.filter(resource=H100).values_list("used", flat=True)) == [2, 2]
    assert SiteCapacity.objects.get(resource=H100).used == 2
    counters_must_match()


def test_no_limit_is_zero(project: Project, site: Site) -> None:
    with pytest.raises(QuotaRefused) as refused:
        reserve(project, site, h100=1)

    assert refused.value.detail == {
        "scope": "project",
        "scope_name": "weather-lm",
        "resource": H100,
        "limit": 0,
        "used": 0,
        "asked": 1,
        "left": 0,
    }


def test_the_organization_bounds_its_projects_together(project: Project, site: Site) -> None:
    neighbor = ProjectFactory.create(organization=project.organization)
    limits_give(project)
    limits_give(neighbor, {H100: 16})
    Limit.objects.filter(organization=project.organization, resource=H100).update(hard=6)
    reserve(project, site, h100=4)

    with pytest.raises(QuotaRefused) as refused:
        reserve(neighbor, site, h100=3)

    assert refused.value.detail["scope"] == "organization"
    assert refused.value.detail["left"] == 2
    assert "Organization climate may hold at most 6 h100-sxm-80gb GPUs. Held: 4." in str(refused.value)
    assert Limit.objects.get(project=neighbor, resource=H100).used == 0
    counters_must_match()


def test_the_site_cannot_be_promised_twice(project: Project, site: Site) -> None:
    limits_give(project, {H100: None})
    reserve(project, site, h100=14)

    with pytest.raises(NoCapacity) as refused:
        reserve(project, site, h100=3)

    assert refused.value.detail["site"] == "ber-1"
    assert (refused.value.detail["limit"], refused.value.detail["left"]) == (16, 2)
    counters_must_match()


def test_a_refusal_on_the_last_resource_undoes_all(project: Project, site: Site) -> None:
    limits_give(project, {"vcpu": 8})

    with pytest.raises(QuotaRefused):
        reserve(project, site, h100=2, vcpu=32)

    assert not Reservation.objects.exists()
    assert set(Limit.objects.values_list("used", flat=True)) == {0}


def test_unlimited_is_counted_all_the_same(project: Project, site: Site) -> None:
    limits_give(project, {"storage": None})
    reserve(project, site, storage=5_000)

    assert Limit.objects.get(project=project, resource="storage").used == 5_000


def test_lowering_below_use_evicts_nobody_and_blocks_more(project: Project, site: Site) -> None:
    limits_give(project)
    reserve(project, site, h100=4)
    Limit.objects.filter(project=project, resource=H100).update(hard=2)

    with pytest.raises(QuotaRefused) as refused:
        reserve(project, site, h100=1)

    assert (refused.value.detail["used"], refused.value.detail["left"]) == (4, 0)
    assert Reservation.objects.filter(state="held").count() == 1


def test_release_gives_back_exactly_once(project: Project, site: Site) -> None:
    limits_give(project)
    holder = reserve(project, site, h100=2)

    assert reservation_release(holder_kind="workspace", holder_id=holder)
    assert not reservation_release(holder_kind="workspace", holder_id=holder)
    assert Limit.objects.get(project=project, resource=H100).used == 0
    counters_must_match()


def test_one_holder_reserves_once(project: Project, site: Site) -> None:
    limits_give(project)
    holder = reserve(project, site, h100=2)

    with pytest.raises(Conflict):
        reservation_reserve(
            holder_kind="workspace", holder_id=holder, project=project, site=site, amounts={H100: 1}
        )
    counters_must_match()


def test_a_resize_grows_first_and_shrinks_later(project: Project, site: Site) -> None:
    limits_give(project)
    holder = reserve(project, site, h100=4, storage=10)
    wanted = {H100: 6, "vcpu": 8}

    reservation_grow(holder_kind="workspace", holder_id=holder, amounts=wanted)
    assert reservations_held(holder_kind="workspace", holder_id=holder) == {
        H100: 6,
        "vcpu": 8,
        "storage": 10,
    }
    reservation_shrink(holder_kind="workspace", holder_id=holder, amounts=wanted)
    assert reservations_held(holder_kind="workspace", holder_id=holder) == wanted
    counters_must_match()


def test_growth_beyond_the_limit_is_refused_whole(project: Project, site: Site) -> None:
    limits_give(project, {H100: 4})
    holder = reserve(project, site, h100=4)

    with pytest.raises(QuotaRefused) as refused:
        reservation_grow(holder_kind="workspace", holder_id=holder, amounts={H100: 5, "vcpu": 1})

    assert refused.value.detail["asked"] == 1
    assert reservations_held(holder_kind="workspace", holder_id=holder) == {H100: 4}
    counters_must_match()


def test_the_preview_says_what_admission_will_say(project: Project, site: Site) -> None:
    limits_give(project, {H100: 3})
    reserve(project, site, h100=2)
    amounts = {H100: 2, "vcpu": 16}

    preview = admission_preview(project=project, site=site, amounts=amounts)

    assert not preview.fits
    assert [(check.scope.word, check.left) for check in preview.refusals] == [
        ("project", 1),
        ("organization", 1),
    ]
    tightest, capacity = preview.tightest(H100), preview.capacity(H100)
    assert tightest is not None
    assert (tightest.limit, tightest.used, tightest.left) == (3, 2, 1)
    assert capacity is not None
    assert capacity.left == 14
    with pytest.raises(QuotaRefused) as refused:
        reserve(project, site, h100=2, vcpu=16)
    assert preview.refusals[0].message == str(refused.value)


def test_capacity_follows_the_hardware_and_the_factor(project: Project, site: Site) -> None:
    limits_give(project)
    reserve(project, site, h100=8)

    capacity_sync(site=site, healthy={H100: 9, "vcpu": 100}, oversubscription_percent=150)

    rows = {row.resource: row for row in SiteCapacity.objects.filter(site=site)}
    assert (rows[H100].healthy, rows[H100].hard, rows[H100].used) == (9, 13, 8)
    assert rows["gpu:l40s-48gb"].hard == 0
    assert rows["vcpu"].hard == 150
    assert rows["storage"].hard is None
    assert rows["memory"].hard is None


def test_capacity_is_locked_in_the_order_of_admission(site: Site) -> None:
    """In the database's, as it sorts names otherwise than Python where its collation is that of a language."""
    with CaptureQueriesContext(connection) as asked:
        capacity_sync(site=site, healthy={H100: 3, "gpu:a-z": 1, "gpu:ab": 1}, oversubscription_percent=100)
    written = [each["sql"] for each in asked if "quotas_sitecapacity" in each["sql"]]
    (lock,) = [at for at, each in enumerate(written) if each.endswith("FOR NO KEY UPDATE")]
    (insert,) = [at for at, each in enumerate(written) if each.startswith("INSERT")]
    assert lock < insert
    assert 'ORDER BY "quotas_sitecapacity"."resource" ASC' in written[lock]


def test_amounts_that_make_no_sense_are_a_bug(project: Project, site: Site) -> None:
    with pytest.raises(ValueError, match="cannot be reserved"):
        reserve(project, site, vcpu=-1)
    with pytest.raises(ValueError, match="cannot be reserved"):
        reserve(project, site, apples=1)
