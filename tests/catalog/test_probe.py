"""Looking at a site: what is found, and what is said when it does not answer."""

import uuid
from typing import Any

import pytest
import time_machine
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from frontend.presenters.operator.sites import site_shown
from gpuaas.catalog.models import GpuPool, GpuType, Node, Site
from gpuaas.catalog.services import site_probe, site_update
from gpuaas.catalog.services.inventory import inventory_apply
from gpuaas.catalog.tasks import probe, probe_due
from gpuaas.core import claims, clock
from gpuaas.core.conditions import Condition, Status, conditions_read
from gpuaas.core.crypto import encrypt_json
from gpuaas.providers.sandbox.dials import dials_set, failure_plan
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.fleet import node_set
from gpuaas.providers.sandbox.models import SandboxNode
from quotas.models import SiteCapacity
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tests.factories.catalog import SiteFactory


def condition(site: Site, kind: str) -> Condition:
    site.refresh_from_db()
    return next(row for row in conditions_read(site.conditions) if row.type == kind)


def test_gpu_types_appear_by_themselves_as_drafts(attached: Site) -> None:
    assert site_probe(attached.pk)
    types = {row.slug: (row.state, row.memory_gib) for row in GpuType.objects.all()}
    assert types["h100-sxm-80gb"] == ("draft", 80)
    assert len(types) == 4
    pool = GpuPool.objects.get(gpu_type__slug="h100-sxm-80gb")
    assert (pool.capacity, pool.healthy, pool.unallocated, pool.largest_block) == (16, 16, 16, 8)
    assert Node.objects.filter(site=attached).count() == 8
    attached.refresh_from_db()
    assert (attached.server_version, attached.attempts) == ("sandbox 1", 0)
    assert attached.answer_ms is not None
    assert condition(attached, "Reachable").status == Status.TRUE


def test_credentials_with_which_nobody_can_be_asked_say_nothing_of_the_site(db: None) -> None:
    """As an earlier release took them."""
    for driver in ("kubernetes", "bare-metal", "openstack"):
        sealed = encrypt_json({"kubeconfig": "hello: world"})
        site: Site = SiteFactory.create(driver=driver, credentials=sealed)
        assert not site_probe(site.pk)
        reachable, authorized = condition(site, "Reachable"), condition(site, "Authorized")
        assert (reachable.status, authorized.status) == (Status.UNKNOWN, Status.FALSE)
        assert "Not checked" in reachable.message
        assert authorized.remedy == "Give the site new credentials."
        assert site.reached_at is None
        assert site_shown(site, nodes=0, gpus=0).word == "Never reached"


def test_a_site_begins_when_it_answers_for_the_first_time(attached: Site) -> None:
    dials_set(attached.pk, down=True)
    site_probe(attached.pk)
    attached.refresh_from_db()
    assert attached.reached_at is None
    dials_set(attached.pk, down=False)
    with time_machine.travel("2026-12-02T10:00:00Z", tick=False):
        site_probe(attached.pk)
    with time_machine.travel("2026-12-03T10:00:00Z", tick=False):
        site_probe(attached.pk)
    attached.refresh_from_db()
    assert f"{attached.reached_at:%d} {attached.answered_at:%d}" == "02 03"


def test_probing_again_changes_nothing_and_tells_nobody(attached: Site) -> None:
    site_probe(attached.pk)
    version = Site.objects.get().version
    GpuType.objects.filter(slug="l40s-48gb").update(name="Our L40S", state="active")
    site_probe(attached.pk)
    assert Site.objects.get().version == version
    assert GpuType.objects.get(slug="l40s-48gb").name == "Our L40S"
    assert (GpuPool.objects.count(), Node.objects.count()) == (4, 8)


def test_unwell_and_cordoned_nodes_are_not_sellable(attached: Site) -> None:
    site_probe(attached.pk)
    version = Site.objects.get().version
    node_set(attached.pk, name="h100-01", cordoned=True)
    node_set(attached.pk, name="l40s-01", ready=False, reason="Xid 79")
    site_probe(attached.pk)
    assert Site.objects.get().version == version + 1
    pool = GpuPool.objects.get(gpu_type__slug="h100-sxm-80gb")
    assert (pool.capacity, pool.healthy, pool.unallocated) == (16, 8, 8)
    assert Node.objects.get(name="l40s-01").reason == "Xid 79"


def test_what_is_gone_from_the_site_is_empty(attached: Site) -> None:
    site_probe(attached.pk)
    SandboxNode.objects.filter(name__startswith="h100").delete()
    site_probe(attached.pk)
    pool = GpuPool.objects.get(gpu_type__slug="h100-sxm-80gb")
    assert (pool.capacity, pool.unallocated, pool.largest_block) == (0, 0, 0)
    assert not Node.objects.filter(name__startswith="h100").exists()


def test_silence_is_said_with_since_and_capacity_stays(attached: Site) -> None:
    with time_machine.travel("2027-11-21T10:00:00Z", tick=False) as travel:
        site_probe(attached.pk)
        travel.shift(20)
        down_at = clock.now()
        dials_set(attached.pk, down=True)
        for _ in range(3):
            assert not site_probe(attached.pk)
            travel.shift(20)
        reachable = condition(attached, "Reachable")
        assert (reachable.status, reachable.reason, reachable.since) == (
            Status.FALSE,
            "NoAnswer",
            down_at,
        )
        assert reachable.remedy
        assert condition(attached, "Authorized").status == Status.UNKNOWN
        assert attached.attempts == 3
        assert GpuPool.objects.get(gpu_type__slug="h100-sxm-80gb").healthy == 16
        dials_set(attached.pk, down=False)
        assert site_probe(attached.pk)
        assert condition(attached, "Reachable").status == Status.TRUE
        assert attached.attempts == 0


def test_refused_credentials_are_another_matter(attached: Site) -> None:
    failure_plan(attached.pk, verb="probe", error="unauthorized")
    site_probe(attached.pk)
    assert condition(attached, "Reachable").status == Status.TRUE
    assert condition(attached, "Authorized").status == Status.FALSE
    assert "new credentials" in condition(attached, "Authorized").remedy


def test_a_driver_that_breaks_is_a_condition_too(attached: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: SandboxDriver) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(SandboxDriver, "probe", broken)
    assert not site_probe(attached.pk)
    assert "KeyError" in condition(attached, "Reachable").message
    assert attached.claim_token is None


def test_an_answer_that_cannot_be_written_is_a_failed_look(
    attached: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused by the database in the middle of writing: nothing of it stays, the page says so, and the next look goes on."""
    site_probe(attached.pk)
    before = Site.objects.get(pk=attached.pk)

    def refused(**given: Any) -> bool:
        inventory_apply(**given)
        with connection.cursor() as cursor:
            cursor.execute("SELECT nothing_of_that_name")
        return True

    monkeypatch.setattr("gpuaas.catalog.services.probe.inventory_apply", refused)
    node_set(attached.pk, name="h100-01", cordoned=True)
    assert not site_probe(attached.pk)
    reachable = condition(attached, "Reachable")
    assert (reachable.status, reachable.reason) == (Status.FALSE, "Failed")
    assert "ProgrammingError" in reachable.message
    assert (attached.claim_token, attached.attempts) == (None, 1)
    assert (attached.answered_at, attached.probed_at) != (before.answered_at, before.probed_at)
    assert attached.answered_at == before.answered_at
    assert not Node.objects.filter(site=attached, cordoned=True).exists()
    monkeypatch.setattr("gpuaas.catalog.services.probe.inventory_apply", inventory_apply)
    assert site_probe(attached.pk)
    assert condition(attached, "Reachable").status == Status.TRUE
    assert Node.objects.filter(site=attached, cordoned=True).exists()


def test_one_look_at_a_time(attached: Site) -> None:
    assert claims.claim(Site, attached.pk, now=clock.now(), seconds=60)
    assert not site_probe(attached.pk)
    assert not GpuPool.objects.exists()


def test_answer_that_comes_after_the_claim_is_dropped(
    attached: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = SandboxDriver.probe

    def overtaken(self: SandboxDriver) -> object:
        Site.objects.update(claim_token=uuid.uuid4())
        return honest(self)

    monkeypatch.setattr(SandboxDriver, "probe", overtaken)
    assert not site_probe(attached.pk)
    assert not GpuPool.objects.exists()


def test_sweep_finds_what_is_due_and_leaves_the_rest(attached: Site, as_olga: Actor) -> None:
    assert probe_due() == 1
    assert probe(str(attached.pk))
    assert probe_due() == 0, "the next look is some seconds away"
    attached.refresh_from_db()
    assert attached.due_at is not None
    site_update(actor=as_olga, site=attached, enabled=False)
    assert not site_probe(attached.pk)
    assert probe_due() == 0


def test_size_does_not_cost_statements(
    attached: Site, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    site_probe(attached.pk)
    SandboxNode.objects.bulk_create(
        SandboxNode(site_id=attached.pk, name=f"cpu-{number:04}", vcpus=64) for number in range(10, 410)
    )
    with django_assert_max_num_queries(41):
        site_probe(attached.pk)
    assert Node.objects.count() == 408


def test_sellable_capacity_follows(attached: Site, as_olga: Actor) -> None:
    site_probe(attached.pk)
    site_update(actor=as_olga, site=attached, oversubscription_percent=150)
    capacity_sync(str(attached.pk))
    hard = dict(SiteCapacity.objects.values_list("resource", "hard"))
    assert hard["gpu:h100-sxm-80gb"] == 24
    assert hard["vcpu"] == (2 * 208 + 2 * 128 + 2 * 96 + 64 + 64) * 150 // 100
    assert hard["storage"] is None
