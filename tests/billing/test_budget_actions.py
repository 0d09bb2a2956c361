"""Budgets act: once under two evaluators, on what is asked for at that moment, on what runs, and by mail."""

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from smtplib import SMTPRecipientsRefused
from typing import Any

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.core.mail.backends import locmem
from django.db import connection

from billing.models import Budget, BudgetAlert
from billing.services import budget_alerts
from billing.services.budget_alerts import budgets_enforce, budgets_evaluate
from billing.services.budgets import BudgetTerms, budget_create, budget_update
from billing.services.rates import rate_set
from billing.tasks import budgets_evaluate as task
from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from gpuaas.core.errors import Invalid, NoCapacity, OnHold, QuotaRefused
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request, workspace_resume, workspace_suspend
from gpuaas.workspaces.states import WorkspaceState
from quotas.models import Hold
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tenants.selectors import actor_for
from tests.billing.stage import interval_make, utc, workspace_make
from tests.factories.quotas import counters_must_match, limits_give
from tests.workspaces.stage import ready, settle

JANUARY = utc("2026-01-01")


def spent(project: Project, flavor: Flavor, alice: User, olga: Actor) -> Workspace:
    """Some GPU-hours, all of them before now."""
    rate_set(actor=olga, flavor=flavor, meter=Meter.GPU_HELD, price="2", valid_from=JANUARY)
    row = workspace_make(project, flavor, alice, name="past")
    now = clock.whole_second(clock.now())
    interval_make(row, flavor, now - timedelta(minutes=20), now - timedelta(minutes=10), quantity=6)
    return row


def budget(actor: Actor, project: Project, *thresholds: tuple[int, str], amount: str = "1") -> Budget:
    given = BudgetTerms("autumn", "gpu_hours", amount, "quarter", list(thresholds))
    return budget_create(actor=actor, terms=given, project=project)


def at_once(count: int, work: Callable[[int], object]) -> list[object]:
    gate = threading.Barrier(count)

    def one(number: int) -> object:
        try:
            connection.ensure_connection()
            gate.wait()
            return work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.django_db(transaction=True)
def test_two_evaluators_at_once_fire_once(
    project: Project, h100: Flavor, alice: User, as_alice: Actor, as_olga: Actor
) -> None:
    row = budget(as_alice, project, (10, "notify"), (100, "block"))
    spent(project, h100, alice, as_olga)
    base = clock.now()

    at_once(6, lambda number: budgets_evaluate(now=base + timedelta(seconds=number % 3)))

    assert sorted(row.alerts.values_list("percent", flat=True)) == [10, 100]
    assert AuditEntry.objects.filter(action="budget.reached").count() == 2
    assert Hold.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_spent_budget_blocks_whoever_asks_at_that_moment(
    project: Project, h100: Flavor, alice: User, as_alice: Actor, as_olga: Actor, site: Site
) -> None:
    """Requests run until they are refused; none is accepted after the evaluation has returned."""
    limits_give(project, {"gpu:h100-sxm-80gb": None})
    budget(as_alice, project, (100, "block"))
    spent(project, h100, alice, as_olga)
    accepted_at_end: list[int] = []

    def work(number: int) -> str:
        if number == 0:
            budgets_evaluate(now=clock.now())
            accepted_at_end.append(Workspace.objects.filter(project=project).count())
            return "evaluated"
        until = time.monotonic() + 100
        while time.monotonic() < until:
            name = f"w-{uuid.uuid4().hex[:12]}"
            try:
                workspace_request(actor=as_alice, project=project, name=name, items=[("l40s.1", 1)])
            except (QuotaRefused, NoCapacity):
                continue  # all is taken; the hold is still to come
            except OnHold as error:
                return "refused" if "The budget autumn of project weather-lm" in error.message else str(error)
        return "never refused"

    assert sorted(map(str, at_once(5, work))) == ["evaluated", *["refused"] * 4]
    assert [Workspace.objects.filter(project=project).count()] == accepted_at_end
    counters_must_match()


@pytest.mark.django_db(transaction=True)
def test_suspending_puts_to_sleep_and_only_people_wake(
    project: Project, h100: Flavor, alice: User, as_alice: Actor, as_olga: Actor, site: Site
) -> None:
    limits_give(project)
    running = ready(as_alice, project, site)
    row = budget(as_alice, project, (100, "suspend"))
    spent(project, h100, alice, as_olga)

    assert budgets_evaluate(now=clock.now()) == 1
    assert budgets_enforce() == 1
    assert budgets_enforce() == 0
    running.refresh_from_db()
    assert running.state == WorkspaceState.SUSPENDING
    assert "the budget autumn is spent" in str(running.conditions)
    assert settle(running).state == WorkspaceState.SUSPENDED
    with pytest.raises(OnHold, match="Workspaces and clusters are suspended"):
        workspace_resume(actor=as_alice, workspace=running)

    more = BudgetTerms("autumn", "gpu_hours", "500", "quarter", [(100, "suspend")])
    budget_update(actor=as_alice, budget=row, terms=more)
    assert budgets_enforce() == 0
    running.refresh_from_db()
    assert running.state == WorkspaceState.SUSPENDED
    assert workspace_resume(actor=as_alice, workspace=running).state == WorkspaceState.RESUMING


@pytest.mark.django_db
def test_one_that_cannot_be_suspended_is_told_and_the_others_sleep(
    project: Project,
    h100: Flavor,
    alice: User,
    as_alice: Actor,
    as_olga: Actor,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits_give(project)
    rows = [ready(as_alice, project, site, name=name, h100s=1) for name in ("first", "second")]
    budget(as_alice, project, (100, "suspend"))
    spent(project, h100, alice, as_olga)
    budgets_evaluate(now=clock.now())

    def breaks(*, workspace: Workspace, **asked: Any) -> Workspace:
        if workspace.name == "first":
            raise Invalid("the driver of the site is not installed")
        return workspace_suspend(workspace=workspace, **asked)

    monkeypatch.setattr(budget_alerts, "workspace_suspend", breaks)
    assert budgets_enforce() == 1
    for row in rows:
        row.refresh_from_db()
    assert [row.state for row in rows] == ["ready", "suspending"]
    assert "is not installed" in rows[0].conditions["Enforced"]["message"]
    assert budgets_enforce() == 0


@pytest.mark.django_db
def test_a_budget_of_a_workspace_stops_its_growth_and_nothing_else(
    project: Project, h100: Flavor, alice: User, as_alice: Actor, as_olga: Actor, site: Site
) -> None:
    limits_give(project)
    used = spent(project, h100, alice, as_olga)
    given = BudgetTerms("one", "gpu_hours", "1", "quarter", [(100, "block")])
    budget_create(actor=as_alice, terms=given, project=project, workspace=used)
    assert Hold.objects.get().holder_id == used.pk
    workspace_request(actor=as_alice, project=project, name="other", items=[("l40s.1", 1)])


@pytest.mark.django_db
def test_mails_go_once_to_those_who_may_set_budgets(
    project: Project, h100: Flavor, alice: User, bob: User, as_alice: Actor, as_olga: Actor
) -> None:
    spent(project, h100, alice, as_olga)
    row = budget(as_alice, project, (50, "notify"), (100, "block"))
    for _ in range(2):
        task()
    assert [message.bcc for message in mail.outbox] == [["alice@example.org"]] * 2
    assert [message.subject for message in mail.outbox] == ["autumn: 50% reached", "autumn: 100% reached"]
    assert f"/p/{project.slug}/budgets/" in str(mail.outbox[0].body)
    assert not BudgetAlert.objects.filter(budget=row, mailed_at__isnull=True).exists()


@pytest.mark.django_db
def test_a_server_that_refuses_is_asked_again(
    project: Project,
    h100: Flavor,
    alice: User,
    as_alice: Actor,
    as_olga: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spent(project, h100, alice, as_olga)
    budget(as_alice, project, (100, "block"))
    with monkeypatch.context() as broken:

        def refuse(*args: object, **kwargs: object) -> int:
            raise ConnectionRefusedError

        broken.setattr("django.core.mail.EmailMessage.send", refuse)
        task()
    assert not mail.outbox
    task()
    assert len(mail.outbox) == 1


@pytest.mark.django_db
def test_an_address_that_the_server_refuses_keeps_no_other_tenant_waiting(
    project: Project,
    other_project: Project,
    h100: Flavor,
    alice: User,
    charlie: User,
    as_alice: Actor,
    as_olga: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spent(project, h100, alice, as_olga)
    budget(as_alice, project, (10, "notify"), (50, "notify"), (100, "notify"))
    row = workspace_make(other_project, h100, charlie, name="past")
    end = clock.whole_second(clock.now()) - timedelta(minutes=10)
    interval_make(row, h100, end - timedelta(minutes=10), end, quantity=6)
    send, asked = locmem.EmailBackend.send_messages, list[str]()

    def judge(backend: locmem.EmailBackend, letters: list[EmailMessage]) -> int:
        asked.extend(letters[0].bcc)
        if letters[0].bcc == [alice.email]:
            raise SMTPRecipientsRefused({alice.email: (550, b"no such user")})
        return send(backend, letters)

    monkeypatch.setattr(locmem.EmailBackend, "send_messages", judge)
    monkeypatch.setattr("billing.mails.BATCH", 2)
    task()
    budget(actor_for(user=charlie), other_project, (100, "notify"))
    asked.clear()
    task()
    assert asked == [alice.email, charlie.email], "the server is asked about an address once a round"
    assert BudgetAlert.objects.filter(mailed_at=None).count() == 3, "the server may take them later"
