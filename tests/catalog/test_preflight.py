"""Is the site fit to be sold: looked at by itself and when asked, told as conditions, and what follows from it."""

import uuid

import pytest
import time_machine

from gpuaas.catalog.models import Flavor, Site, SiteRound
from gpuaas.catalog.selectors import flavors_for, site_checks
from gpuaas.catalog.services import (
    pool_publish,
    site_preflight,
    site_preflight_request,
    site_probe,
    site_update,
)
from gpuaas.catalog.states import RoundKind
from gpuaas.catalog.tasks import preflight, rounds_due
from gpuaas.core import claims, clock
from gpuaas.core.conditions import Condition, Status
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.providers.sandbox.dials import ALWAYS, dials_set, failure_plan, fault_set
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.workspaces.services.validation import items_resolve
from tenants.actors import Actor
from tenants.models import AuditEntry, User
from tenants.selectors import actor_for


@pytest.fixture
def probed(attached: Site) -> Site:
    assert site_probe(attached.pk)
    attached.refresh_from_db()
    return attached


@pytest.fixture
def sold(probed: Site, as_olga: Actor) -> Flavor:
    pool = probed.pools.select_related("site", "gpu_type").get(gpu_type__slug="h100-sxm-80gb")
    return pool_publish(actor=as_olga, pool=pool)


def found(site: Site, kind: str) -> Condition:
    site.refresh_from_db()
    return next(row for row in site_checks(site=site) if row.type == kind)


def round_of(site: Site) -> SiteRound:
    return SiteRound.objects.get(site=site, kind=RoundKind.PREFLIGHT)


def test_a_new_site_is_checked_once_it_has_answered(probed: Site) -> None:
    assert rounds_due() == len(RoundKind)
    assert preflight(str(probed.pk))
    assert found(probed, "QuotaController").status == Status.TRUE
    assert found(probed, "Sellable").status == Status.TRUE
    assert found(probed, "Checked").status == Status.TRUE
    assert probed.fit
    assert probed.preflight_at is not None


def test_a_site_from_before_is_checked_too(probed: Site) -> None:
    SiteRound.objects.all().delete()
    assert rounds_due() == len(RoundKind)


def test_it_comes_again_every_ten_minutes(probed: Site) -> None:
    with time_machine.travel("2027-11-21T10:00:00Z", tick=False) as travel:
        assert site_preflight(probed.pk)
        travel.shift(599)
        due = claims.due_ids(SiteRound, now=clock.now(), limit=10)
        assert round_of(probed).pk not in due
        travel.shift(2)
        assert round_of(probed).pk in claims.due_ids(SiteRound, now=clock.now(), limit=10)


def test_what_keeps_it_from_being_sold_is_looked_at_every_minute(probed: Site, as_olga: Actor) -> None:
    def seconds() -> float:
        assert site_preflight(probed.pk)
        due = round_of(probed).due_at
        return (due - clock.now()).total_seconds() if due is not None else 0

    with time_machine.travel("2027-11-21T10:00:00Z", tick=False):
        fault_set(probed.pk, area="checks", name="Guards", found="False")
        assert seconds() == 60
        site_update(actor=as_olga, site=probed, sell_unfit=True)
        assert seconds() == 600, "an operator knows of it, and sells all the same"
        fault_set(probed.pk, area="checks", name="Guards")
        assert seconds() == 600


def test_since_moves_with_the_status_only_and_only_news_is_told(probed: Site) -> None:
    with time_machine.travel("2027-11-21T10:00:00Z", tick=False) as travel:
        site_preflight(probed.pk)
        since, version = found(probed, "Metrics").since, probed.version
        travel.shift(600)
        site_preflight(probed.pk)
        assert (found(probed, "Metrics").since, probed.version) == (since, version)
        fault_set(probed.pk, area="checks", name="Metrics", found="Unknown")
        travel.shift(600)
        site_preflight(probed.pk)
        metrics = found(probed, "Metrics")
        assert (metrics.since, probed.version) == (clock.now(), version + 1)
        assert metrics.remedy
        assert site_checks(site=probed)[0].type == "Metrics", "what is not well comes first"


def test_what_blocks_is_not_sold_until_it_is_well_again(probed: Site, sold: Flavor, as_alice: Actor) -> None:
    site_preflight(probed.pk)
    assert sold in flavors_for(actor=as_alice)
    fault_set(probed.pk, area="checks", name="Guards", found="False")
    site_preflight(probed.pk)
    assert found(probed, "Sellable").status == Status.FALSE
    assert "Guards" in found(probed, "Sellable").message
    assert sold not in flavors_for(actor=as_alice)
    with pytest.raises(Invalid, match="accepts no new requests"):
        items_resolve([(sold.slug, 1)])
    fault_set(probed.pk, area="checks", name="Guards")
    site_preflight(probed.pk)
    assert sold in flavors_for(actor=as_alice)
    assert items_resolve([(sold.slug, 1)])


def test_what_is_not_known_or_does_not_block_is_sold(probed: Site, sold: Flavor, as_alice: Actor) -> None:
    fault_set(probed.pk, area="checks", name="Guards", found="Unknown")
    fault_set(probed.pk, area="checks", name="NetworkPolicy", found="False")
    site_preflight(probed.pk)
    assert found(probed, "NetworkPolicy").status == Status.FALSE
    assert sold in flavors_for(actor=as_alice)


def test_an_operator_may_sell_all_the_same(
    probed: Site, sold: Flavor, as_alice: Actor, as_olga: Actor
) -> None:
    fault_set(probed.pk, area="checks", name="Permissions", found="False")
    site_preflight(probed.pk)
    probed.refresh_from_db()
    site_update(actor=as_olga, site=probed, sell_unfit=True)
    assert AuditEntry.objects.get(action="site.update").after == {"sell_unfit": True}
    assert sold in flavors_for(actor=as_alice)
    assert items_resolve([(sold.slug, 1)])
    site_update(actor=as_olga, site=probed, enabled=False)
    assert sold not in flavors_for(actor=as_alice)


def test_silence_keeps_what_was_found_and_says_so(probed: Site) -> None:
    fault_set(probed.pk, area="checks", name="Guards", found="False")
    site_preflight(probed.pk)
    dials_set(probed.pk, down=True)
    assert not site_preflight(probed.pk)
    assert found(probed, "Checked").status == Status.FALSE
    assert found(probed, "Checked").reason == "NoAnswer"
    assert found(probed, "Guards").status == Status.FALSE
    assert not probed.fit
    assert round_of(probed).attempts == 1
    assert round_of(probed).claim_token is None


def test_a_site_that_is_back_is_checked_at_once(probed: Site) -> None:
    site_preflight(probed.pk)
    later = round_of(probed).due_at
    assert later is not None
    assert later > clock.now()
    dials_set(probed.pk, down=True)
    site_probe(probed.pk)
    dials_set(probed.pk, down=False)
    site_probe(probed.pk)
    due = round_of(probed).due_at
    assert due is not None
    assert due <= clock.now()


def test_a_driver_that_breaks_is_told_and_tried_again(probed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: SandboxDriver) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(SandboxDriver, "preflight", broken)
    assert not site_preflight(probed.pk)
    assert "KeyError" in found(probed, "Checked").message
    monkeypatch.undo()
    assert site_preflight(probed.pk)
    assert found(probed, "Checked").status == Status.TRUE


def test_refused_credentials_are_told(probed: Site) -> None:
    failure_plan(probed.pk, verb="preflight", error="unauthorized", times=ALWAYS)
    assert not site_preflight(probed.pk)
    assert "credentials" in found(probed, "Checked").message


def test_one_at_a_time_and_a_result_that_comes_too_late_is_dropped(
    probed: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = SandboxDriver.preflight

    def overtaken(self: SandboxDriver) -> object:
        assert not site_preflight(probed.pk), "somebody else looks already"
        SiteRound.objects.update(claim_token=uuid.uuid4())
        return honest(self)

    monkeypatch.setattr(SandboxDriver, "preflight", overtaken)
    assert not site_preflight(probed.pk)
    probed.refresh_from_db()
    assert probed.checks == {}


def test_who_asks_while_it_runs_gets_another(
    probed: Site, as_olga: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = SandboxDriver.preflight

    def asked_meanwhile(self: SandboxDriver) -> object:
        checks = honest(self)
        site_preflight_request(actor=as_olga, site=probed)
        return checks

    monkeypatch.setattr(SandboxDriver, "preflight", asked_meanwhile)
    assert site_preflight(probed.pk)
    due = round_of(probed).due_at
    assert due is not None
    assert due <= clock.now()


def test_operators_ask_others_do_not(probed: Site, as_olga: Actor, as_alice: Actor, olga: User) -> None:
    site_preflight(probed.pk)
    site_preflight_request(actor=as_olga, site=probed)
    assert AuditEntry.objects.filter(action="site.preflight", target_id=str(probed.pk)).count() == 1
    assert round_of(probed).pk in claims.due_ids(SiteRound, now=clock.now(), limit=10)
    with pytest.raises(NotFound):
        site_preflight_request(actor=as_alice, site=probed)
    olga.platform_role = "auditor"
    olga.save()
    with pytest.raises(Forbidden):
        site_preflight_request(actor=actor_for(user=olga), site=probed)


def test_a_disabled_site_is_left_alone(probed: Site, as_olga: Actor) -> None:
    site_update(actor=as_olga, site=probed, enabled=False)
    assert not site_preflight(probed.pk)
    assert round_of(probed).due_at is None
    with pytest.raises(Conflict):
        site_preflight_request(actor=as_olga, site=probed)
    site_update(actor=as_olga, site=probed, enabled=True)
    assert round_of(probed).due_at is not None
