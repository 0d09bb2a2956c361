"""Usage is added up in two ways, by pieces of time and price by price: random terms, the same cells to the cent and the second."""

from typing import Any

import pytest
from hypothesis import given

from billing import rating
from billing.months import month_days
from billing.rating import Slots, rate_usage
from gpuaas.catalog.models import Flavor
from tenants.models import Project, User
from tests.billing.test_terms_properties import (
    BOUNDED,
    NOVEMBER,
    NOW,
    OCTOBER,
    Stage,
    any_mode,
    discounts,
    sessions,
    terms_of,
    used,
)


@given(usage=used, terms=terms_of(sessions, any_mode), lowered=discounts)
@BOUNDED
def test_by_pieces_is_price_by_price(
    project: Project, h100: Flavor, alice: User, usage: list[Any], terms: list[Any], lowered: list[Any]
) -> None:
    stage = Stage(project, h100, alice)
    stage.price(terms, lowered)
    stage.use(usage)
    days = [(month, day) for month in (OCTOBER, NOVEMBER) for day in month_days(month)]
    slots = Slots([month for month, _ in days], [day for _, day in days])
    found = []
    for few in (rating.FEW, -1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rating, "FEW", few)
            found.append(rate_usage(slots=slots, now=NOW, projects=[project.pk], by_holder=True))
    assert found[0] == found[1]
