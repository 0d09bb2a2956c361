"""Costs are bounded: what is listed, what is not listed but counted, and the bytes of an answer."""

from decimal import Decimal
from typing import Any

import pytest

from billing.services import rate_set
from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM
from tenants.models import Project, User
from tests.api.caller import Caller
from tests.billing.stage import interval_make, utc, workspace_make

COSTS = "/projects/weather-lm/costs"
OCTOBER = "month=2026-10"
LISTED = 100


def holders_make(project: Project, flavor: Flavor, user: User, numbers: range) -> None:
    """Each held a GPU for as many minutes as its number says."""
    for number in numbers:
        row: Workspace = workspace_make(project, flavor, user, name=f"room-{number:03}")
        interval_make(
            row,
            flavor,
            utc("2026-10-02 10:00:00"),
            utc(f"2026-10-02 {10 + number // 60}:{number % 60:02}:00"),
        )


@pytest.fixture
def many(project: Project, h100: Flavor, alice: User) -> Project:
    rate_set(actor=SYSTEM, flavor=h100, meter=Meter.GPU_HELD, price="2.41", valid_from=utc("2026-01-01"))
    holders_make(project, h100, alice, range(1, 131))
    return project


def test_the_dearest_are_listed_and_the_others_counted(many: Project, alices: Caller) -> None:
    found = alices.get(f"{COSTS}?{OCTOBER}").json
    assert [row["holder"] for row in found["by_holder"]] == [
        f"room-{number:03}" for number in range(130, 30, -1)
    ]
    assert len(found["by_holder"]) == LISTED
    assert found["others"]["count"] == 30
    assert amounts(found["by_holder"]) + Decimal(found["others"]["amount"]) == Decimal(found["total"])
    assert amounts(found["by_day"]) == Decimal(found["total"])
    left = alices.get(f"{COSTS}/breakdown?{OCTOBER}&offset=100").json["rows"]
    assert amounts(left) == Decimal(found["others"]["amount"])
    assert sum(row["gpu_seconds"] for row in left) == found["others"]["gpu_seconds"]


def test_pages_of_a_breakdown_say_what_all_of_it_is(many: Project, alices: Caller) -> None:
    whole = alices.get(f"{COSTS}/breakdown?{OCTOBER}&limit=1000").json
    assert (whole["count"], len(whole["rows"])) == (130, 130)
    assert amounts(whole["rows"]) == Decimal(whole["total"])
    for limit, offset in ((50, 0), (50, 120), (10, 130), (10, 10**6)):
        page = alices.get(f"{COSTS}/breakdown?{OCTOBER}&limit={limit}&offset={offset}").json
        assert page == {**whole, "rows": whole["rows"][offset : offset + limit]}


def test_bytes_do_not_grow_with_workspaces(many: Project, h100: Flavor, alice: User, alices: Caller) -> None:
    """But by the digits of sums."""
    urls = (f"{COSTS}?{OCTOBER}", f"{COSTS}/breakdown?{OCTOBER}")
    few = [size(alices, url) for url in urls]
    holders_make(many, h100, alice, range(131, 191))
    grown = [size(alices, url) - before for url, before in zip(urls, few, strict=True)]
    assert max(grown) < 100
    assert max(few) < 40_000


def size(caller: Caller, url: str) -> int:
    return len(caller.get(url).content)


def amounts(rows: list[dict[str, Any]]) -> Decimal:
    return sum((Decimal(row["amount"]) for row in rows), Decimal(0))
