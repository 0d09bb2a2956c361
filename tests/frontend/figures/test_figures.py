"""What stands in more than one place is the same everywhere, to the last decimal; and it is what the metering will charge."""

import csv
import io
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.core import mail
from django.test import Client, override_settings
from django.urls import reverse
from pytest_django import Settings

from billing.mails import alert_mails_send
from billing.models import BillingAccount
from billing.selectors import statement
from billing.selectors.running import rates_of, rest_of_month, running_now
from billing.services.budget_alerts import budgets_evaluate
from frontend import formats
from gpuaas.catalog.models import Flavor
from tenants.actors import Actor
from tenants.models import Organization, Project, User
from tests.billing.closed import month_close
from tests.billing.stage import utc
from tests.frontend.figures import reading
from tests.frontend.figures.places import Readers, page
from tests.frontend.figures.rates import rate_of
from tests.frontend.figures.scene import NOW, Scene, scene_make
from tests.frontend.figures.table import FIGURES
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
UNIT = Decimal("2.148125")  # 2.455 less 12.5%
SLICE, SHARE, BURST, SPOT = Decimal("0.30625"), Decimal("0.21875"), Decimal("1.75"), Decimal("0.84")
CPU = Decimal("0.00875")
STORAGE = 100 * Decimal("0.00012")


@pytest.fixture
@lasting
def at_noon(db: None) -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
@lasting
def told(
    at_noon: None,
    project: Project,
    other_project: Project,
    h100: Flavor,
    l40s: Flavor,
    alice: User,
    as_olga: Actor,
) -> tuple[Scene, list[Any]]:
    """The scene, and the mails that it has sent."""
    BillingAccount.objects.create(
        organization=project.organization, currency="EUR", tax_rate_bp=1900, tax_label="VAT"
    )
    scene = scene_make(project, other_project, h100, l40s, alice)
    month_close(as_olga, date(2026, 10, 1))
    User.objects.filter(pk=alice.pk).update(email="alice@example.org")
    mail.outbox.clear()
    with override_settings(MAILS_ENABLED=True):
        budgets_evaluate(now=NOW)
        alert_mails_send()
    return scene, mail.outbox[:]


@pytest.fixture
def scene(told: tuple[Scene, list[Any]], settings: Settings) -> Scene:
    settings.MAILS_ENABLED = True
    scene, mail.outbox[:] = told
    return scene


@pytest.fixture
def readers(
    scene: Scene, alice: User, olga: User, as_alice: Actor, as_olga: Actor, settings: Settings
) -> Readers:
    settings.METRICS_TOKEN = "a token for Prometheus alone"
    metrics = Client(headers={"Authorization": f"Bearer {settings.METRICS_TOKEN}"})
    browsers = Client(), Client()
    for browser, user in zip(browsers, (alice, olga), strict=True):
        browser.force_login(user)
    return Readers(*browsers, metrics, as_alice, as_olga)


class Once(Client):
    """Each of its pages is asked for once, as nothing is written and the time stands still."""

    def __init__(self, browser: Client) -> None:
        super().__init__()
        self.cookies, self.defaults = browser.cookies, browser.defaults
        self.answers: dict[tuple[str, str], Any] = {}

    def request(self, **request: Any) -> Any:
        key = request["PATH_INFO"], request.get("QUERY_STRING", "")
        if request["REQUEST_METHOD"] != "GET":
            return super().request(**request)
        if key not in self.answers:
            answer = super().request(**request)
            if answer.streaming:
                return answer
            self.answers[key] = answer
        return self.answers[key]


def test_every_figure_is_the_same_wherever_it_stands(scene: Scene, readers: Readers) -> None:
    wrong = {}
    browsers = {name: Once(getattr(readers, name)) for name in ("alice", "olga", "metrics")}
    readers = Readers(**browsers, as_alice=readers.as_alice, as_olga=readers.as_olga)
    for figure in FIGURES:
        found = figure.selector(readers, scene)
        for place in figure.places:
            try:
                stands = place.read(readers, scene)
            except (AssertionError, StopIteration, IndexError, KeyError) as error:
                stands = f"not there: {error}"
            meant = place.show(found)
            if stands != meant:
                wrong[figure.name, place.name] = (stands, meant)
    assert wrong == {}


def test_a_figure_of_the_table_stands_in_more_than_one_place() -> None:
    assert [figure.name for figure in FIGURES if len(figure.places) < 2] == []
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)


def test_what_runs_is_what_is_metered(scene: Scene, as_alice: Actor) -> None:
    """Each by hand: by state, by what is charged of it, less the discount."""
    rates = {name: rate_of(actor=as_alice, holder=row).per_hour for name, row in scene.rooms.items()}
    assert rates == {
        "train": 2 * UNIT + 32 * CPU + STORAGE,
        "asleep": STORAGE,
        "pending": 0,
        "leaving": UNIT + 16 * CPU + STORAGE,
        "infer": Decimal("0.748125") + 32 * CPU + STORAGE,
        "tiny": 3 * SLICE + 48 * CPU + STORAGE,
        "share": 2 * SHARE + 32 * CPU + STORAGE,
        "borrows": 2 * SPOT + STORAGE,
    }
    whole = running_now(actor=as_alice, project=scene.project)
    assert whole.workspaces == sum(rates.values())
    assert whole.clusters == 3 * UNIT + BURST + 8 * CPU
    assert whole.idle == 4 * Decimal("0.972213")


def test_an_hour_later_it_has_cost_what_was_said(scene: Scene, as_alice: Actor) -> None:
    given: dict[str, Any] = {"actor": as_alice, "project": scene.project}
    rate = running_now(**given).total
    before, later = statement(now=NOW, **given).total, statement(now=NOW + timedelta(hours=1), **given).total
    assert abs(later - before - rate) < Decimal("0.05")  # lines are rounded, the rate is not


def test_the_rest_of_the_month_follows_leases_and_prices(scene: Scene, as_alice: Actor) -> None:
    """By hand: prices change 108.0 h from now, leases end after 198 h, the reservation of the pool after 144 h; the waiting cluster has
    no lease, what leaves is gone, what sleeps keeps its storage until the lease ends."""
    before, after, whole = 108, 198 - 108, 348
    new = Decimal("2.625")
    each = before * UNIT + after * new
    train = 2 * each + 198 * (32 * CPU + STORAGE)
    asleep = 198 * STORAGE
    infer = 198 * (Decimal("0.748125") + 32 * CPU + STORAGE)
    cut = 198 * (3 * SLICE + 48 * CPU + STORAGE + 2 * SHARE + 32 * CPU + STORAGE)
    borrows = 198 * (2 * SPOT + STORAGE)
    cluster = 2 * each + 198 * (BURST + 4 * CPU)
    warm = before * UNIT + (whole - before) * new + whole * 4 * CPU
    idle = 144 * 4 * Decimal("0.972213")
    meant = train + asleep + infer + cut + borrows + cluster + warm + idle
    assert rest_of_month(actor=as_alice, project=scene.project) == meant.quantize(Decimal("0.01"))


def test_a_list_of_rates_costs_the_same_few_queries(
    scene: Scene, as_alice: Actor, django_assert_num_queries: object
) -> None:
    keys = [row.pk for row in scene.rooms.values()]
    for some in (keys[:1], keys):
        with django_assert_num_queries(1):  # type: ignore[operator]
            rates_of(actor=as_alice, holders=some, project=scene.project)


@pytest.mark.parametrize("by", ["project", "workspace", "gpu_type", "member", "day"])
def test_columns_of_costs_have_names_of_their_own(scene: Scene, readers: Readers, by: str) -> None:
    owner = scene.project.organization.slug
    answer = readers.alice.get(reverse("frontend:organization_costs_csv", args=[owner]), {"by": by})
    head, *rows = csv.reader(io.StringIO(answer.getvalue().decode()))
    assert (head[:2], len(set(head))) == ([by, "name"], len(head))
    assert {len(row) for row in rows} == {len(head)}
    assert (
        sum(Decimal(row[head.index("amount")]) for row in rows)
        == statement(actor=readers.as_alice, organization=scene.project.organization).total
    )


def test_prices_have_all_their_decimals_and_amounts_those_of_their_currency() -> None:
    assert [formats.price(value) for value in ("0.855", "2.40", "3", "0.000137", "1234.5")] == [
        *("€0.855", "€2.40", "€3.00", "€0.000137", "€1,234.50")
    ]
    assert [formats.money(value) for value in ("0.855", "0.004", "2.4", "-1234.565")] == [
        *("€0.86", "€0.00", "€2.40", "\u2212€1,234.57")
    ]
    assert (formats.money("1234.5", "JPY"), formats.price("1234.5", "JPY"), formats.price("3", "JPY")) == (
        *("¥1,235", "¥1,234.5", "¥3"),
    )
    assert (formats.money("1.0005", "KWD"), formats.price("1.5", "KWD")) == ("KWD 1.001", "KWD 1.500")


def test_a_day_is_one_of_the_readers_zone(readers: Readers, scene: Scene, olga: User) -> None:
    """Made at half past eleven in the evening of the 15th in London, which is the 16th in Tokyo."""
    Organization.objects.update(created_at=utc("2026-11-15 23:30:00"))
    for zone, day in (("Europe/London", "15 Nov 2026"), ("Asia/Tokyo", "16 Nov 2026")):
        User.objects.filter(pk=olga.pk).update(time_zone=zone)
        assert day in reading.text(page(readers.olga, "operator_organizations"))
        slug = scene.project.organization.slug
        assert day in reading.text(page(readers.olga, "operator_organization", slug))
