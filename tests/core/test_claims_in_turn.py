"""A sweep takes of each site in turn, so that one whose rows are always due keeps no other from it."""

from datetime import timedelta

import pytest

from gpuaas.catalog.models import NodeCheck, Site
from gpuaas.core import claims, clock
from tests.factories.catalog import SiteFactory

pytestmark = pytest.mark.django_db


def due(site: Site, minutes: int, node: str) -> NodeCheck:
    """Since so many minutes."""
    at = clock.now() - timedelta(minutes=minutes)
    return NodeCheck.objects.create(site=site, node=node, requested_by="olga", requested_at=at, due_at=at)


def test_the_oldest_of_each_site_comes_before_the_second_of_any() -> None:
    hangs, healthy = SiteFactory.create(slug="hangs"), SiteFactory.create(slug="healthy")
    stuck = [due(hangs, 60 - number, f"n-{number}") for number in range(4)]
    waits = [due(healthy, 5 - number, f"n-{number}") for number in range(2)]
    due(healthy, -5, "later")
    held = due(healthy, 90, "held")
    NodeCheck.objects.filter(pk=held.pk).update(claim_until=clock.now() + timedelta(minutes=1))
    found = claims.due_in_turn(NodeCheck, by="site", now=clock.now(), limit=3)
    assert found == [stuck[0].pk, waits[0].pk, stuck[1].pk]
    everything = claims.due_in_turn(NodeCheck, by="site", now=clock.now(), limit=10)
    assert everything == [row.pk for row in (stuck[0], waits[0], stuck[1], waits[1], *stuck[2:])]
