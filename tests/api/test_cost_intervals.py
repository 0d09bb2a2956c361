"""The raw intervals behind costs, as pages and as one file: the same rows, filtered alike."""

import csv
import io
from datetime import timedelta
from typing import Any

import pytest

from billing.months import month_of, month_span
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.metering.models import UsageInterval
from gpuaas.metering.services import tokens_sync
from tenants.models import Project, User
from tests.api.caller import V1, Caller
from tests.billing.stage import cluster_make, interval_make, workspace_make
from tests.environments.stage import row_in
from tests.factories.tenants import ProjectFactory
from tests.metering.test_tokens import counted

pytestmark = pytest.mark.django_db
WHOLE, PROJECT = "/organizations/climate/costs/intervals", "/projects/weather-lm/costs/intervals"
HOURS = timedelta(hours=1)


@pytest.fixture
def spent(project: Project, h100: Flavor, l40s: Flavor, alice: User, bob: User) -> list[UsageInterval]:
    """Of this month: two of alice's in weather-lm, one of bob's in another project; one of alice's that ended before."""
    start = month_span(month_of(clock.now())).starts_at
    second = ProjectFactory.create(organization=project.organization, slug="second")
    mine = workspace_make(project, h100, alice, name="train")
    other = workspace_make(second, h100, bob, name="serve")
    interval_make(mine, h100, start - 3 * HOURS, start)
    return [
        interval_make(mine, h100, start - HOURS, start + 2 * HOURS),
        interval_make(mine, l40s, start, None),
        interval_make(other, h100, start, start + 3 * HOURS),
    ]


def ids(rows: list[Any]) -> set[str]:
    return {row["id"] for row in rows}


def sheet(caller: Caller, path: str) -> list[dict[str, str]]:
    response = caller.client.get(V1 + path, headers={**caller.headers, "Accept": "text/csv"})
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(response.getvalue().decode())))


def test_pages_and_file_have_the_same_rows(alices: Caller, spent: list[UsageInterval]) -> None:
    of_project, of_all = {str(row.pk) for row in spent[:2]}, {str(row.pk) for row in spent}
    for path, wanted in ((PROJECT, of_project), (WHOLE, of_all)):
        assert ids(alices.get(path).json["results"]) == wanted
        assert ids(sheet(alices, f"{path}.csv")) == wanted
    first = alices.get(f"{WHOLE}?page_size=2").json
    rest = alices.get(first["next"]).json
    assert [len(page["results"]) for page in (first, rest)] == [2, 1]
    assert ids(first["results"] + rest["results"]) == of_all


def test_an_interval_is_told_as_it_was_metered(alices: Caller, spent: list[UsageInterval]) -> None:
    """Not cut to the month; open without an end; in UTC whatever the reader's zone is."""
    rows = {row["id"]: row for row in sheet(alices, f"{PROJECT}.csv")}
    cut, still = rows[str(spent[0].pk)], rows[str(spent[1].pk)]
    assert cut["started_at"] == spent[0].started_at.strftime("%Y-%m-%dT%H:%M:%S+00:00")
    assert (still["ended_at"], still["ended_by"]) == ("", "")
    assert (cut["project"], cut["held_by"], cut["holder"], cut["flavor"]) == (
        "weather-lm",
        "workspace",
        "train",
        spent[0].flavor.slug if spent[0].flavor else "",
    )
    UsageInterval.objects.filter(pk=spent[0].pk).update(consumer_name="=cmd()")
    assert "'=cmd()" in {row["consumer"] for row in sheet(alices, f"{PROJECT}.csv")}


def test_who_kept_a_cluster_warm_does_not_learn_what_its_owner_calls_it(
    alices: Caller, project: Project, other_project: Project, h100: Flavor, charlie: User
) -> None:
    cluster = cluster_make(other_project, h100, charlie, name="secret-merger")
    start = month_span(month_of(clock.now())).starts_at
    row = interval_make(cluster, h100, start, start + HOURS)
    UsageInterval.objects.filter(pk=row.pk).update(project=project, consumer_name="warm-0a1b2c3d")
    for path in (PROJECT, WHOLE, "/projects/weather-lm/usage"):
        (told,) = alices.get(path).json["results"]
        assert (told["cluster_id"], told["cluster"]) == (str(cluster.pk), "warm-0a1b2c3d"), path
    assert [each["holder"] for each in sheet(alices, f"{PROJECT}.csv")] == ["warm-0a1b2c3d"]


def test_filters_hold_for_both(alices: Caller, l40s: Flavor, spent: list[UsageInterval]) -> None:
    day = month_of(clock.now())
    for query, wanted in (
        ("member=bob", spent[2:]),
        (f"project=weather-lm&day={day}", spent[:2]),
        (f"workspace={spent[2].workspace_id}", spent[2:]),
        (f"gpu_type={l40s.pool.gpu_type.slug}", spent[1:2]),
        ("gpu_type=none", []),
        ("month=2019-01", []),
    ):
        expected = {str(row.pk) for row in wanted}
        assert ids(alices.get(f"{WHOLE}?{query}").json["results"]) == expected, query
        assert ids(sheet(alices, f"{WHOLE}.csv?{query}")) == expected, query


def test_what_cannot_be_asked_is_refused_in_the_one_shape(alices: Caller, charlies: Caller) -> None:
    for path in (PROJECT, WHOLE, f"{PROJECT}.csv", f"{WHOLE}.csv"):
        assert alices.get(f"{path}?month=2026-13").status == 400
        assert "fields" in alices.get(f"{path}?color=red").error
        assert charlies.get(path).status == 404


def test_a_day_of_tokens_that_has_no_unit_of_its_own_counts_none(
    alices: Caller, spent: list[UsageInterval]
) -> None:
    """278 tokens are whole on the second day; then late ones of the first day make them whole there."""
    assert spent[0].workspace
    row = row_in(spent[0].workspace, "chat")
    first = month_of(clock.now())
    for number, tokens in ((0, 200), (1, 100), (0, 100)):
        counted(row, first + timedelta(days=number), tokens)
        tokens_sync()
    project = "/projects/weather-lm/usage?meter=tokens_in"
    for path in (f"{PROJECT}?", f"{WHOLE}?", project):
        rows = [each for each in alices.get(path).json["results"] if each["meter"] == "tokens_in"]
        assert sorted(each["quantity"] for each in rows) == [0, 1], path
    for path in (PROJECT, WHOLE):
        rows = [each for each in sheet(alices, f"{path}.csv") if each["meter"] == "tokens_in"]
        assert sorted(each["quantity"] for each in rows) == ["0", "1"], path
