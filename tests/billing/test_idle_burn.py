"""What is idle of a reserved pool is in the burn per hour, and every number of the pages agrees with the rating."""

import re
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
import time_machine
from django.test import Client
from django.urls import reverse

from billing.months import month_span
from billing.rating import idle_at
from billing.selectors import burn_per_hour, cost_by_holder, revenue_by_project, statement
from billing.selectors.idle import idle_now
from billing.services import rate_card_ensure
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import NotFound
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from quotas.models import CapacityStretch, CapacityWatch, PoolReservation
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.stage import interval_make, rate_make, utc, workspace_make
from tests.factories.catalog import FlavorFactory
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
NOON = utc("2026-10-05 12:00:00")
HOUR = timedelta(hours=1)
# The rest of October in Berlin: clocks go back on the 25th
END = month_span(NOON.date()).ends_at


@pytest.fixture
@lasting
def reserved(h100: Flavor, project: Project) -> Flavor:
    """4 GPUs that were looked at a moment ago, reserved since the morning; idle ones cost 1.00, held ones 3.00."""
    own: Flavor = FlavorFactory.create(pool=h100.pool, slug="h100.own", price_class="reserved")
    CapacityStretch.objects.create(
        site=h100.pool.site, gpu_type=h100.pool.gpu_type, devices=4, starts_at=NOON - 6 * HOUR
    )
    CapacityWatch.objects.create(site=h100.pool.site, seen_at=NOON)
    PoolReservation.objects.create(
        pool=h100.pool, flavor=own, project=project, valid_from=NOON - 4 * HOUR, created_by="olga"
    )
    for meter, micro in ((Meter.GPU_IDLE, 1_000_000), (Meter.GPU_HELD, 3_000_000)):
        rate_make(rate_card_ensure(), own, micro, utc("2026-01-01"), meter=meter)
    return own


@pytest.fixture
@lasting
def workspace(reserved: Flavor, project: Project, alice: User) -> Workspace:
    """3 of the GPUs since 10:00, with a lease beyond the month."""
    found = workspace_make(project, reserved, alice)
    Workspace.objects.filter(pk=found.pk).update(
        lease_ends_at=END + timedelta(days=9), ready_at=NOON - 2 * HOUR, created_at=NOON - 2 * HOUR
    )
    WorkspaceFlavor.objects.create(workspace=found, flavor=reserved, count=3)
    interval_make(found, reserved, NOON - 2 * HOUR, None, quantity=3)
    return found


def test_the_burn_is_what_the_next_hour_adds(
    workspace: Workspace, project: Project, as_alice: Actor, as_charlie: Actor, as_olga: Actor
) -> None:
    with time_machine.travel(NOON, tick=False):
        burn = burn_per_hour(actor=as_alice, project=project)
        assert burn == Decimal("10.00")  # 3 held at 3.00 and 1 idle at 1.00
        later = statement(actor=as_alice, project=project, now=NOON + HOUR).total
        assert later - statement(actor=as_alice, project=project).total == burn
        (idle,) = idle_now(actor=as_alice, organization=project.organization)
        assert (idle.gpus, idle.per_hour, idle.until) == (1, Decimal("1.00"), None)
        assert burn_per_hour(actor=as_alice, organization=project.organization) == burn
        assert burn_per_hour(actor=as_alice, holder=workspace) == Decimal("9.00")
        assert [row.per_hour for row in revenue_by_project(actor=as_olga)] == [burn]
        with pytest.raises(NotFound):
            idle_now(actor=as_charlie, project=project)


def test_it_counts_only_what_is_known_to_be_idle_at_that_second(
    workspace: Workspace, reserved: Flavor, project: Project
) -> None:
    def idle(at: datetime) -> list[tuple[int, int | None]]:
        with time_machine.travel(at, tick=False):
            return [(row.gpus, row.price_micro) for row in idle_at(at=at, projects=[project.pk])]

    assert idle(NOON - 4 * HOUR - timedelta(seconds=1)) == []  # not reserved yet
    assert idle(NOON - 4 * HOUR) == [(4, 1_000_000)]
    assert idle(NOON - 2 * HOUR) == [(1, 1_000_000)]  # the very second in which three were taken
    assert idle(NOON + timedelta(minutes=1)) == [(1, 1_000_000)]
    assert idle(NOON + timedelta(minutes=5)) == []  # nobody has looked since
    CapacityWatch.objects.update(seen_at=NOON + timedelta(minutes=5))
    interval_make(workspace, reserved, NOON, None, quantity=9)
    assert idle(NOON + timedelta(minutes=5)) == []  # never less than nothing
    PoolReservation.objects.update(valid_to=NOON - HOUR)
    assert idle(NOON - HOUR) == []
    assert idle(NOON - HOUR - timedelta(seconds=1)) == [(1, 1_000_000)]


def shown(page: str, label: str) -> str:
    """The figure below a label at the head of a page."""
    text = re.sub(r"<[^>]+>|\s+", " ", page)
    found = re.search(rf"{re.escape(label)}\s+(€[\d,.]+)", text)
    assert found, (label, text[:3000])
    return found.group(1)


def test_the_pages_say_what_the_rating_says(
    workspace: Workspace, project: Project, alice: User, as_alice: Actor, olga: User
) -> None:
    with time_machine.travel(NOON, tick=False):
        sheet = statement(actor=as_alice, project=project)
        assert sheet.total == Decimal("28.00")  # 2 h of 4 idle, then 2 h of 10.00
        month = statement(actor=as_alice, project=project, month=NOON.date(), now=END)
        spent = cost_by_holder(actor=as_alice, project=project)
        assert {row.holder: row.amount for row in spent} == {
            workspace.name: Decimal("18.00"),
            "idle in a reserved pool": Decimal("10.00"),
        }
        client = Client()
        client.force_login(alice)
        pages = [
            client.get(reverse(f"frontend:{name}", args=[slug])).content.decode()
            for name, slug in (
                ("home", project.slug),
                ("costs", project.slug),
                ("organization_costs", project.organization.slug),
            )
        ]
        whole = f"€{month.total:,.2f}"
        for page in pages:
            figures = [shown(page, f"October {word}") for word in ("so far", "expected")]
            assert [*figures, shown(page, "Running now")] == ["€28.00", whole, "€10.00"]
        by_holder = client.get(reverse("frontend:costs", args=[project.slug]), {"by": "workspace"})
        rows = re.findall(r"€([\d.]+)</td>", by_holder.content.decode())
        assert sum(map(Decimal, rows)) % sheet.total == 0
        assert {"18.00", "10.00"} <= set(rows)
        client.force_login(olga)
        overview = client.get(reverse("frontend:operator")).content.decode()
        assert [shown(overview, label) for label in ("Earning now", "October so far")] == ["€10.00", "€28.00"]
        assert f"expected {whole}" in overview
