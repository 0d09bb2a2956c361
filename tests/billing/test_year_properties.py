"""A random year of two organizations: usage metered, late and from files that are taken back again, tiers and discounts in two
currencies, money in advance, notes, months below zero. Every line, credit and open amount is what the oracle says.

The deep tier closes twelve months of each year, the fast one the first two.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import time_machine
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.models import BillingAccount
from gpuaas.catalog.models import Flavor
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.oracle import Books
from tests.billing.stage import workspace_make
from tests.billing.year import BEFORE_S, ENDS, Payer, Year
from tests.examples import MANY
from tests.factories.tenants import ProjectFactory

# 0 most often: the month that is about to be closed, or a late one
months_ago = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 11])
places = st.tuples(st.integers(0, 3), st.integers(0, 1))  # workspace, flavor
used = st.tuples(
    places, months_ago, st.integers(-BEFORE_S, BEFORE_S - 1), st.integers(1, 400), st.integers(1, 90)
)
files = st.lists(used, min_size=1, max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("meter"), used),
        st.tuples(st.just("bring"), files, st.booleans(), st.booleans()),
        st.tuples(st.just("bring_again"), st.integers(0, 20), st.booleans(), st.booleans()),
        st.tuples(st.just("take_back"), st.integers(0, 20)),
        st.tuples(st.just("pay"), st.integers(0, 1), st.integers(1, 3000)),
        st.tuples(
            st.just("note"),
            st.integers(0, 1),
            st.integers(0, 20),
            st.integers(0, 20),
            st.integers(1, 1000),
            st.booleans(),
        ),
    ),
    max_size=5,
)
tiers = st.lists(
    st.tuples(st.integers(1, 12), st.integers(0, 9_999_999)), min_size=1, max_size=2, unique_by=lambda t: t[0]
).map(sorted)
terms = st.tuples(
    st.integers(0, 9_999_999),
    st.sampled_from(["", "graduated", "volume", "volume"]),
    tiers,
    st.sampled_from([(1, 0), (60, 90)]),
)
# of each currency and flavor: terms, those that follow, and around the end of which month they do
prices = st.tuples(terms, terms, st.integers(0, 11), st.integers(-BEFORE_S, BEFORE_S - 1))
discounts = st.tuples(st.integers(0, 11), st.integers(-BEFORE_S, BEFORE_S - 1), st.integers(1, 10_000))


def years(months: int) -> st.SearchStrategy[Any]:
    """What happens before each close, the first usage, prices by payer and flavor, discounts and taxes by payer."""
    taxes = st.integers(0, 3000)
    return st.tuples(
        st.lists(steps, min_size=months, max_size=months),
        used,
        st.lists(prices, min_size=4, max_size=4),
        st.tuples(discounts, discounts),
        st.tuples(taxes, taxes),
    )


@given(data=st.data())
@settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_year_is_what_the_oracle_says(
    examples: int,
    project: Project,
    other_project: Project,
    h100: Flavor,
    l40s: Flavor,
    alice: User,
    as_olga: Actor,
    tmp_path: Path,
    data: st.DataObject,
) -> None:
    months = 12 if examples == MANY else 2
    year, first, drawn, lowered, taxes = data.draw(years(months))
    with transaction.atomic():
        stage = staged([project, other_project], [h100, l40s], alice, as_olga, tmp_path, taxes)
        for payer, prices, less in zip(stage.payers, (drawn[:2], drawn[2:]), lowered, strict=True):
            stage.sell(payer, prices, less)
        place, _, at, lasts, quantity = first
        stage.meter((place, 0, min(at, -1), lasts, quantity))  # months are closed from the first usage on
        for number, todo in enumerate(year):
            stage.now = ENDS[number] + timedelta(days=3)
            with time_machine.travel(stage.now - timedelta(hours=1), tick=False) as clock:
                for what, *given in todo:
                    clock.shift(timedelta(minutes=1))
                    getattr(stage, what)(*given)
                stage.agree()
            stage.close()
            stage.agree()
        transaction.set_rollback(True)


def staged(
    projects: list[Project],
    flavors: list[Flavor],
    maker: User,
    actor: Actor,
    folder: Path,
    taxes: tuple[int, int],
) -> Year:
    """One organization pays in EUR for two projects, the other in JPY for one."""
    project, other = projects
    second = ProjectFactory.create(organization=project.organization, slug="second")
    payers = [
        Payer(project.organization, "EUR", [project, second], Books(taxes[0])),
        Payer(other.organization, "JPY", [other], Books(taxes[1])),
    ]
    for payer, basis_points in zip(payers, taxes, strict=True):
        BillingAccount.objects.create(
            organization=payer.organization,
            currency=payer.currency,
            tax_rate_bp=basis_points,
            tax_label="VAT",
        )
    workspaces = [
        workspace_make(each, flavors[0], maker, name=f"train-{number}")
        for number, each in enumerate((project, project, second, other))
    ]
    return Year(actor, folder, payers, workspaces, flavors)
