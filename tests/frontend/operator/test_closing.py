"""A close that is followed: how far it is, from the page and by REST, by two operators, and past the death of its worker."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import time_machine
from django.db import OperationalError, connection
from django.test import Client
from django.urls import reverse

from billing import issuing
from billing.models import CloseProgress, Invoice, InvoiceSeries, MonthClose
from billing.months import month_span
from billing.selectors.closing import QUIET
from billing.services import rate_set
from billing.services.closing import month_close_request, month_close_run
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tests.billing.closed import meters_prove
from tests.billing.stage import interval_make, utc, workspace_make
from tests.factories.billing import MONTH
from tests.factories.tenants import OrganizationFactory, ProjectFactory, UserFactory
from tests.frontend.markup import words
from tests.frontend.operator.conftest import signed_in

pytestmark = pytest.mark.django_db(transaction=True)
AFTER = month_span(MONTH).ends_at + timedelta(days=3)
PAGE = "/operator/closes/?month=2026-10"
STATE = "/api/v1/platform/closes/2026-10"
PATIENCE_S = 60.0


@pytest.fixture
def three(
    project: Project, other_project: Project, h100: Flavor, alice: User, as_olga: Actor, monkeypatch: Any
) -> None:
    """Three organizations with usage, each a batch of its own."""
    monkeypatch.setattr(issuing, "ORGANIZATIONS", 1)
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    third = ProjectFactory.create(organization=OrganizationFactory.create(slug="zoology"), slug="zebra")
    for each in (project, other_project, third):
        workspace = workspace_make(each, h100, alice)
        interval_make(workspace, h100, utc("2026-10-02 00:00:00"), utc("2026-10-02 10:00:00"))
    meters_prove(month_span(MONTH).ends_at)


class Worker:
    """Closes the month in a thread of its own, and stops before the second batch until it is told to go on or to die."""

    def __init__(self) -> None:
        self.stopped, self.on = threading.Event(), threading.Event()
        self.die = False
        self.failure: BaseException | None = None
        self.batches = 0
        self.thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        try:
            with connection.execute_wrapper(self._before):
                month_close_run(month=MONTH, now=AFTER)
        except OperationalError as error:
            self.failure = error
        finally:
            connection.close()

    def _before(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        if "TRUNCATE close_cell" in str(sql):
            self.batches += 1
            if self.batches == 2:
                self.stopped.set()
                assert self.on.wait(PATIENCE_S)
                if self.die:
                    with suppress(psycopg.OperationalError):
                        connection.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return execute(sql, params, many, context)


@contextmanager
def stopped_worker(*, die: bool = False) -> Iterator[Worker]:
    worker = Worker()
    worker.die = die
    worker.thread.start()
    try:
        assert worker.stopped.wait(PATIENCE_S)
        yield worker
    finally:
        worker.on.set()
        worker.thread.join(PATIENCE_S)
    assert not worker.thread.is_alive()


def test_two_operators_follow_one_close(three: None, olga: User) -> None:
    olga_at = signed_in(olga)
    oskar_at = signed_in(UserFactory.create(username="oskar", platform_role="operator"))
    confirm = reverse("frontend:operator_month_close", args=["2026-10"])
    body = {"month": "2026-10"}
    with time_machine.travel(AFTER, tick=False):
        before = olga_at.get(STATE).json()
        assert before["drafts"] == {
            "organizations": 3,
            "totals": [{"currency": "EUR", "amount": "72.00"}],
        }
        assert all(check["ok"] for check in before["checks"])
        assert olga_at.post(confirm)["Location"] == PAGE
        assert "Waiting for a worker" in words(olga_at.get(PAGE))
        asked = oskar_at.post("/api/v1/platform/closes", body, content_type="application/json")
        assert (asked.status_code, asked["Location"]) == (202, STATE)
        assert asked.json()["requested_by"] == "olga"
        with stopped_worker():
            _followed(olga_at, oskar_at, confirm)
            # another worker that finds the month leaves it to the one that has it
            assert month_close_run(month=MONTH, now=AFTER).state == "requested"
        assert "Closed" in words(oskar_at.get(PAGE))
        assert oskar_at.get(STATE).json()["close"]["state"] == "closed"
        assert oskar_at.post(confirm)["Location"] == PAGE
    assert [(row.number, row.organization.slug) for row in Invoice.objects.order_by("number")] == [
        ("INV-2026-0001", "biology"),
        ("INV-2026-0002", "climate"),
        ("INV-2026-0003", "zoology"),
    ]
    assert AuditEntry.objects.filter(action="month.close").count() == 1
    assert AuditEntry.objects.filter(action="month.closed").count() == 1


def _followed(olga_at: Client, oskar_at: Client, confirm: str) -> None:
    for client in (olga_at, oskar_at):
        shown = words(client.get(PAGE))
        assert "1 of 3 organizations" in shown
        assert "every 2s" in shown
        state = client.get(STATE).json()
        assert (state["close"]["state"], state["checks"], state["drafts"]) == ("requested", [], None)
        told = state["close"]["progress"]
        assert (told["attempts"], told["done"], told["organizations"]) == (1, 1, 3)
    second = oskar_at.post(confirm, follow=True)
    assert second.redirect_chain == [(PAGE, 302)]
    assert "olga has already requested" in words(second)
    assert not Invoice.objects.exists()


def test_a_worker_that_dies_is_succeeded(three: None, olga: User, as_olga: Actor) -> None:
    olga_at = signed_in(olga)
    month_close_request(actor=as_olga, month=MONTH, now=AFTER)
    with stopped_worker(die=True) as first:
        pass
    assert first.failure is not None
    assert MonthClose.objects.get().state == "requested"
    assert not Invoice.objects.exists()
    assert not InvoiceSeries.objects.exists()
    assert "1 of 3 organizations" in words(olga_at.get(PAGE))
    CloseProgress.objects.update(seen_at=clock.now() - QUIET - timedelta(seconds=1))
    assert "nothing is half done" in words(olga_at.get(PAGE))
    with stopped_worker() as second:
        shown = words(olga_at.get(PAGE))
        assert "Closing October 2026</span>" in shown
        assert "Attempt 2: the previous worker failed" in shown
        assert "1 of 3 organizations" in shown
    assert second.failure is None
    assert MonthClose.objects.get().state == "closed"
    closed = words(olga_at.get(PAGE))
    for said in ("October 2026 is closed</span>", "Usage priced", "Invoices and credit notes written"):
        assert said in closed
    assert "Close October 2026" not in closed
    assert sorted(Invoice.objects.values_list("number", "total_minor")) == [
        (f"INV-2026-000{number}", 2400) for number in (1, 2, 3)
    ]


def test_what_is_in_the_way_stands_on_the_confirmation(three: None, olga: User, charlie: User) -> None:
    """Silence is taken on one's word, beside the field; a tenant finds nothing."""
    confirm = reverse("frontend:operator_month_close", args=["2026-10"])
    olga_at = signed_in(olga)
    meters_prove(month_span(MONTH).ends_at - timedelta(hours=1))
    with time_machine.travel(AFTER, tick=False):
        page = olga_at.get(confirm)
        assert "What you need to accept" in words(page)
        refused = olga_at.post(confirm)
        assert refused.status_code == 422
        assert list(refused.context["form"].errors) == ["accept"]
        assert olga_at.post(confirm, {"accept": "the site is gone"})["Location"] == PAGE
        assert MonthClose.objects.get().accepted == "the site is gone"
        assert "the site is gone" in words(olga_at.get(PAGE))
    charlie_at = signed_in(charlie)
    assert [charlie_at.get(url).status_code for url in (STATE, PAGE, confirm)] == [404, 404, 404]
