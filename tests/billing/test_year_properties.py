"""A random year of two organizations: usage metered, late and from files that are taken back again, tiers and discounts in two
currencies, money in advance, notes, months below zero. Every line, credit and open amount is what the oracle says.

A close takes a tenth of a second: the deep tier closes the twelve months of 200 years, the fast one two months of eight.
"""

from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.catalog.models import Flavor
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.year import year_make
from tests.examples import MANY
from tests.factories.tenants import ProjectFactory

BEFORE_S = 300  # usage lies around the ends of months, so that it is cut, and counted by seconds in no time

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
    min_size=2,
    max_size=7,
)
# often much cheaper, so that late usage brings a month below zero
tier_prices = st.integers(0, 99_999) | st.integers(0, 9_999_999)
tiers = st.lists(
    st.tuples(st.integers(1, 12), tier_prices), min_size=1, max_size=2, unique_by=lambda t: t[0]
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


@pytest.mark.timeout(3600)
@given(data=st.data())
@settings(
    max_examples=8,
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
    months, *drawn = data.draw(years(12 if examples == MANY else 2))
    with transaction.atomic():
        second = ProjectFactory.create(organization=project.organization, slug="second")
        projects = [project, second, other_project]
        year = year_make(as_olga, tmp_path, projects, [h100, l40s], alice, drawn)
        for todo in months:
            year.live(todo)
        transaction.set_rollback(True)
