"""Imports of usage by REST: previewed, refused with every row, taken in once, listed, taken back."""

import pytest

from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import UsageImport, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.api.caller import Caller
from tests.billing.stage import utc, workspace_make
from tests.billing.test_files import USAGE
from tests.billing.test_import import row
from tests.billing.test_import_batches import TWICE
from tests.lasting import lasting

EARLY = "which is more than a year ago and would be the first month to close"
HOME = "/platform/usage-imports"


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


def text(*rows: str) -> str:
    return "\n".join([USAGE, *rows]) + "\n"


def test_a_refusal_names_its_first_row(olgas: Caller, workspace: Workspace) -> None:
    refused = olgas.post(HOME, {"usage": text(row("a", project="nobody"), row("b", project="none"))})
    assert refused.error["message"] == (
        "2 rows are refused; the first is usage.csv:2: there is no project nobody"
    )


def test_an_import_from_the_preview_to_its_end(olgas: Caller, alices: Caller, workspace: Workspace) -> None:
    asked: dict[str, object] = {
        "usage": text(row("a", **of_2025("01")), row("b", **of_2025("01"))),
        "name": "old portal",
    }
    refused = olgas.post(HOME, asked)
    assert (refused.status, refused.error["code"]) == (400, "invalid")
    assert refused.error["fields"]["usage"] == [
        f"usage.csv:2: 2 rows from here on start in January 2025, {EARLY}",
        f"usage.csv:3: {TWICE}line 2: from 2025-01-05 10:00:00 to 2025-01-05 12:00:00 UTC",
    ]
    assert refused.error["detail"]["overlaps"] == refused.error["detail"]["early_months"] == 1
    asked |= {"overlaps": ["file"], "reopen": True}
    preview = olgas.post(f"{HOME}/preview", asked)
    assert preview.status == 200
    assert not UsageImport.objects.exists()
    made = olgas.post(HOME, asked, Idempotency_Key="once")
    assert olgas.post(HOME, asked, Idempotency_Key="once").json == made.json
    assert (made.status, made.json["written"], made.json["batch"]["name"]) == (201, 2, "old portal")
    assert made.json["sums"] == preview.json["sums"]
    again = olgas.post(HOME, asked)
    assert (again.status, again.json["rows"], again.json["written"], again.json["batch"]) == (201, 2, 0, None)
    address = f"{HOME}/{made.json['batch']['id']}"
    assert olgas.get(HOME).json["results"] == [olgas.get(address).json] == [made.json["batch"]]
    assert olgas.get(f"{address}/sums").json["results"] == [
        {
            "month": "2025-01",
            "project": "weather-lm",
            "meter": "gpu_held",
            "intervals": 2,
            "unit_seconds": 4 * 7200,
            "besides_unit_seconds": 0,
        }
    ]
    assert alices.post(f"{address}/take-back").status == 404
    back = olgas.post(f"{address}/take-back")
    assert (back.status, back.json["taken_back_by"]) == (200, "olga")
    assert olgas.post(f"{address}/take-back").json == back.json
    assert not UsageInterval.objects.exists()


def of_2025(month: str) -> dict[str, str]:
    return {"start": f"2025-{month}-05T10:00:00Z", "end": f"2025-{month}-05T12:00:00Z"}


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        ({}, ["usage"]),
        ({"usage": ""}, ["usage"]),
        ({"usage": "x" * 60_001}, ["usage"]),
        ({"usage": "no header"}, ["usage"]),
        ({"usage": text(row(1)), "name": "x" * 101}, ["name"]),
        ({"usage": text(row(1)), "name": "two\nlines", "reopen": True}, ["name"]),
        ({"usage": text(row(1)), "overlaps": ["all"]}, ["overlaps"]),
        ({"usage": text(row(1)), "reopen": "yes"}, ["reopen"]),
        ({"usage": text(row(1)), "check": True}, ["check"]),
    ],
)
def test_what_is_wrong_is_named(
    olgas: Caller,
    workspace: Workspace,
    asked: dict[str, object],
    fields: list[str],
) -> None:
    for address in (HOME, f"{HOME}/preview"):
        answer = olgas.post(address, asked)
        assert (answer.status, [name.partition(".")[0] for name in answer.error["fields"]]) == (400, fields)
    assert not UsageImport.objects.exists()


def test_a_batch_that_is_too_large_for_a_request_is_left_to_the_command(
    olgas: Caller, workspace: Workspace
) -> None:
    batch = UsageImport.objects.create(
        name="all",
        file="usage.csv",
        imported_at=utc("2026-11-01"),
        imported_by="olga",
        rows=100_001,
        intervals=100_001,
        starts_at=utc("2026-10-01"),
        ends_at=utc("2026-11-01"),
    )
    answer = olgas.post(f"{HOME}/{batch.pk}/take-back")
    assert (answer.status, answer.error["code"]) == (409, "conflict")
    assert "gpuaas-portal usage_import --take-back" in answer.error["message"]
