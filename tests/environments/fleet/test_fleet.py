"""Two hundred environments on a real control plane: what is metered, shown and invoiced of them adds up with the pods that ran.

What is promised, and where: an environment has no charge of its own (decision 0102). Its workspace is charged by what it *holds*, from
the site's confirmation to the end of its last pod, or by what *ran*, where the price is one for allocated GPUs, and for spot always
(0005, 0118); a pod counts from PodScheduled to the end of its last container, to the second. So of pods all is exact: each interval, each
figure of a month's use, and each line that is charged by them. Of what is held the quantity is exact and the invoice is exactly the
holdings; when one begins and ends is the moment at which the portal's visit has seen that the site has the quota and that the last pod is
gone, for which `VISIT` is allowed.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from prometheus_client import CollectorRegistry

from billing.models import Invoice, InvoiceLine
from billing.months import month_span, months_between
from deploy.lab.kubernetes import Lab
from gpuaas.core import clock
from gpuaas.environments.models import Environment
from gpuaas.gpustats.selectors import month_figures
from gpuaas.metering.models import MeterGap, UsageInterval
from gpuaas.providers.kubeapi.client import Api
from gpuaas.workspaces.models import Eviction, Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.environments.fleet import stage
from tests.environments.fleet.crew import crew_at_work, metering
from tests.environments.fleet.life import SERVED, Models, all_end, all_run, lives
from tests.environments.fleet.reckoning import Line, Used, cents, parts_of, shares
from tests.environments.fleet.stage import (
    ALL,
    ALPHA,
    BETA,
    BORROWED,
    DELTA,
    GAMMA,
    OMEGA,
    PSI,
    STORAGE_GIB,
    Fleet,
)
from tests.environments.fleet.witness import Ran, Witness
from tests.environments.metered import Model, served
from tests.factories.tenants import ProjectFactory
from tests.lab.fixtures import PATIENCE

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]

# rounds that look for what is due begin every 3 seconds, and a visit takes as long as its machine is slow
VISIT = timedelta(seconds=3 * PATIENCE)
TYPES = {"a10-1": "A10 24 GB", "a10-2": "A10 24 GB", "l4-1": "L4 24 GB"}  # by node
Owners = dict[str, tuple[Actor, Project]]  # of each workspace, by its name


@pytest.fixture
def owners(as_alice: Actor, as_charlie: Actor, project: Project, other_project: Project) -> Owners:
    """alice's two projects of one organization, and charlie's of another one."""
    second = ProjectFactory.create(organization=project.organization, slug="ice-sheets")
    of_alice = {each.name: (as_alice, project) for each in (ALPHA, BETA, GAMMA)}
    of_alice |= {each.name: (as_alice, second) for each in (DELTA, BORROWED)}
    return {**of_alice, **{each.name: (as_charlie, other_project) for each in (OMEGA, PSI)}}


@pytest.fixture
def people(owners: Owners, alice: User, charlie: User) -> dict[str, User]:
    """Whose each project is, by its slug."""
    return {
        project.slug: charlie if project.slug == "protein-fold" else alice for _, project in owners.values()
    }


@pytest.fixture
def models() -> Iterator[Models]:
    """Servers that count as vLLM does, with their ports, by the number of their environment in `delta`."""
    with ExitStack() as stack:
        found = {}
        for number in SERVED:
            registry = CollectorRegistry()
            found[number] = Model(registry), stack.enter_context(served(registry, "wsgi"))
        yield found


def test_meter_and_invoice_add_up_with_the_pods_that_ran(
    own_lab: Lab,
    owners: Owners,
    people: dict[str, User],
    models: Models,
    as_olga: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kubeconfig = own_lab.kubeconfig.read_text()
    api, witness = Api(kubeconfig), Witness(Api(kubeconfig))
    with crew_at_work(monkeypatch) as crew, witness.watching():
        fleet = stage.fleet_stage(api, kubeconfig, as_olga, owners)
        stage.kinds_make(as_olga, {number: port for number, (_, port) in models.items()})
        stage.workspaces_settled(fleet.workspaces.values(), "ready")
        with metering() as meter:
            all_run(fleet, models)
            lives(fleet, meter, as_olga)
            all_end(fleet, witness)
            meter.caught_up()
        assert not crew.failures
    assert not witness.failures
    spaces = {row.external_name: name for name, row in fleet.workspaces.items()}
    ran = witness.ran(spaces)
    assert Environment.objects.count() == 200
    each_pod_is_metered_to_the_second(fleet, ran)
    what_is_held_begins_and_ends_with_the_site(fleet, ran, witness)
    months = months_between(ran[0].start, clock.now())
    pages_show_what_ran(ran, people, months)
    figures_of_months_are(fleet, ran, {project.slug: actor for actor, project in owners.values()}, months)
    invoices_are_exact(fleet, ran, months, as_olga)


# -- what is metered -----------------------------------------------------------------------------------------------


def each_pod_is_metered_to_the_second(fleet: Fleet, ran: list[Ran]) -> None:
    """No more, no less, none twice; what asked for no GPU holds none. Nothing was surplus, and nobody looked away."""
    rows = UsageInterval.objects.filter(meter="gpu_allocated").select_related("workspace")
    metered = Counter(
        (
            row.consumer_uid,
            row.consumer_name,
            row.workspace.external_name,
            row.node,
            row.quantity,
            row.started_at,
            row.ended_at,
        )
        for row in rows
        if row.workspace
    )
    told = Counter(
        (each.uid, each.name, each.namespace, each.node, each.gpus, each.start, each.end)
        for each in ran
        if each.gpus
    )
    assert metered == told
    assert set(rows.values_list("ended_by", "surplus")) == {("observed", False)}
    assert not Eviction.objects.exists()
    assert not MeterGap.objects.exists()


# -- what is held --------------------------------------------------------------------------------------------------


def what_is_held_begins_and_ends_with_the_site(fleet: Fleet, ran: list[Ran], witness: Witness) -> None:
    for wanted in ALL:
        workspace = fleet.workspaces[wanted.name]
        there = [each for each in ran if each.namespace == workspace.external_name]
        held = spans(workspace, "gpu_held")
        assert len(held) == {BORROWED: 0, BETA: 2}.get(wanted, 1), wanted
        for start, end, quantity in held:
            assert quantity == wanted.gpus
            told = [each.since for each in witness.allowed[workspace.external_name] if each.gpus == quantity]
            given = max(since for since in told if since <= start)
            last = max(each.end for each in there if start <= each.start < end)
            assert start - given <= VISIT, (wanted, start, given)
            assert last <= end <= last + VISIT, (wanted, end, last)
        if wanted is not BORROWED:
            assert all(
                any(start <= each.start and each.end <= end for start, end, _ in held) for each in there
            )
            assert most_at_once(there) <= wanted.gpus
        for meter in ("vcpu_held", "memory_held"):
            assert [each[:2] for each in spans(workspace, meter)] == [each[:2] for each in held]
        ((start, end, quantity),) = spans(workspace, "storage_held")
        assert quantity == STORAGE_GIB
        assert not held or (start, end) == (held[0][0], held[-1][1])


def spans(workspace: Workspace, meter: str) -> list[tuple[datetime, datetime, int]]:
    rows = UsageInterval.objects.filter(workspace=workspace, meter=meter, ended_at__isnull=False)
    assert UsageInterval.objects.filter(workspace=workspace, meter=meter).count() == len(rows)
    return sorted((row.started_at, row.ended_at, row.quantity) for row in rows if row.ended_at)


def most_at_once(there: list[Ran]) -> int:
    """GPUs; what ends in a second makes room for what begins in it."""
    changes = [(each.end, -each.gpus) for each in there] + [(each.start, each.gpus) for each in there]
    held = most = 0
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most


# -- what is shown -------------------------------------------------------------------------------------------------


def pages_show_what_ran(ran: list[Ran], people: dict[str, User], months: list[date]) -> None:
    """The file of intervals, for each environment, and the month's use, for each GPU type; nothing of it to the other owner."""
    by_name = Counter[str]()
    for pod in ran:
        by_name[pod.name] += pod.gpus * pod.seconds
    shown = Counter[str]()
    for slug, person in people.items():
        for month in months:
            for row in usage_file(slug, month, person):
                if row["meter"] == "gpu_allocated":
                    shown[row["consumer"]] += int(row["quantity"]) * seconds_in(row, month)
    for each in Environment.objects.all():
        assert sum(shown[name] for name in each.pods) == sum(by_name[name] for name in each.pods), each.name
    assert shown.total() == by_name.total()
    client = Client()
    client.force_login(people["protein-fold"])
    assert client.get(reverse("frontend:usage_csv", args=["weather-lm"])).status_code == 404


def usage_file(slug: str, month: date, person: User) -> list[dict[str, str]]:
    client = Client()
    client.force_login(person)
    answer = client.get(f"{reverse('frontend:usage_csv', args=[slug])}?month={month:%Y-%m}")
    assert answer.status_code == 200
    return list(csv.DictReader(io.StringIO(answer.getvalue().decode())))


def seconds_in(row: dict[str, str], month: date) -> int:
    span = month_span(month)
    start, end = (datetime.fromisoformat(row[name]) for name in ("started_at", "ended_at"))
    return int((min(end, span.ends_at) - max(start, span.starts_at)).total_seconds())


def figures_of_months_are(fleet: Fleet, ran: list[Ran], actors: dict[str, Actor], months: list[date]) -> None:
    """GPU-hours with pods, by project and type, of what was bought: what is lent is in no share of what is held."""
    names = {row.external_name: row for row in fleet.workspaces.values()}
    told, shown = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for each in ran:
        if names[each.namespace].name != BORROWED.name:
            told[names[each.namespace].project.slug, TYPES[each.node]] += each.gpus * each.seconds
    for project in {row.project for row in names.values()}:
        for month in months:
            span = month_span(month)
            asked = {"starts_at": span.starts_at, "ends_at": span.ends_at}
            for row in month_figures(actor=actors[project.slug], project=project, **asked):
                shown[project.slug, row.gpu_type] += round(row.allocated_hours * 3600)
    assert shown == told


# -- what is invoiced ----------------------------------------------------------------------------------------------


def invoices_are_exact(fleet: Fleet, ran: list[Ran], months: list[date], olga: Actor) -> None:
    for month in months:
        month_close(olga, month)
    tokens_are_those_that_were_served(fleet)
    lines_are_exact(fleet, ran)
    for invoice in Invoice.objects.prefetch_related("lines"):
        net = sum(each.amount_minor or 0 for each in invoice.lines.all())
        assert (invoice.subtotal_minor, invoice.total_minor) == (net, net + invoice.tax_minor)
    assert Invoice.objects.count() == 2 * len(months)


def lines_are_exact(fleet: Fleet, ran: list[Ran]) -> None:
    expected = parts_of(used(fleet, ran), fleet.prices)
    lines = list(InvoiceLine.objects.prefetch_related("shares"))
    assert {each.status for each in lines} == {"billed", "included"}
    assert not any(each.surplus or each.estimated or each.corrects_id for each in lines)
    found = {line_of(each): (each.unit_seconds, each.amount_minor) for each in lines}
    assert found == {line: (parts.total(), cents(line, parts.total())) for line, parts in expected.items()}
    for each in lines:
        line = line_of(each)
        mine = {
            (one.day, one.workspace_id): (one.unit_seconds, one.amount_minor) for one in each.shares.all()
        }
        owed = shares(line, expected[line])
        assert mine == {part: (seconds, owed[part]) for part, seconds in expected[line].items()}, line


def line_of(row: InvoiceLine) -> Line:
    return Line(row.charge_month, row.project_slug, row.flavor_slug, row.meter, row.unit_price_micro)


def used(fleet: Fleet, ran: list[Ran]) -> list[Used]:
    """Of pods what the API server says; of all else what was found to be right before."""
    names, found = {row.external_name: row for row in fleet.workspaces.values()}, []
    flavors = {each.name: each.flavor for each in ALL}
    for each in ran:
        if each.gpus:
            row = names[each.namespace]
            whose = (row.pk, row.project.slug, flavors[row.name])
            found.append(Used(*whose, "gpu_allocated", each.gpus, each.start, each.end))
    others = UsageInterval.objects.exclude(meter="gpu_allocated").select_related("project", "flavor")
    for held in others:
        assert held.workspace_id
        assert held.ended_at
        whose = (held.workspace_id, held.project.slug, held.flavor.slug if held.flavor else "")
        found.append(Used(*whose, held.meter, held.quantity, held.started_at, held.ended_at))
    return found


def tokens_are_those_that_were_served(fleet: Fleet) -> None:
    """A million is 3600 unit-seconds, and what is less than one is left for later (rating.md, 18)."""
    for column, meter in enumerate(("tokens_in", "tokens_out")):
        served_of = [sum(each[column] for each in SERVED[number]) for number in SERVED]
        rows = UsageInterval.objects.filter(meter=meter, workspace=fleet.workspaces["delta"])
        assert sum(row.quantity for row in rows) == sum(3600 * tokens // 10**6 for tokens in served_of)
