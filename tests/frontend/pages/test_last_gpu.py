"""The last free GPU of a site goes to exactly one of two tenants who press Create at once; the other reads why on the form."""

from typing import Any

import pytest
from django.test import Client

from gpuaas.catalog.models import Site
from gpuaas.workspaces.models import Workspace
from quotas.models import Limit, Reservation, SiteCapacity
from tenants.models import Project
from tests.factories.quotas import counters_must_match, limits_give
from tests.frontend.pages.test_request import post
from tests.workspaces.test_races import H100, at_once

ROUNDS = 5
WHY = (
    "Site ber-1 has 0 h100-sxm-80gb GPUs left. Requested: 1. The site can sell 1 in total. Request fewer, try again later, "
    "or choose another site or GPU type."
)


@pytest.mark.parametrize("driver", ["kubernetes", "openstack", "sandbox", "sandbox-cloud"])
@pytest.mark.django_db(transaction=True)
def test_one_of_two_tenants_has_it_and_the_other_reads_why(
    driver: str, alice_at: Client, charlie_at: Client, project: Project, other_project: Project, site: Site
) -> None:
    """The limits of both allow it: it is the site that has one left."""
    Site.objects.filter(pk=site.pk).update(driver=driver)
    SiteCapacity.objects.filter(site=site, resource=H100).update(hard=1)
    tenants = [(alice_at, project), (charlie_at, other_project)]
    for _, place in tenants:
        limits_give(place)

    for turn in range(ROUNDS):
        answers: dict[int, Any] = {}

        def ask(number: int, turn: int = turn, answers: dict[int, Any] = answers) -> None:
            client, place = tenants[number]
            form = {"count": "1", "storage_gib": "0", "name": f"last-{turn}", "token": f"press-{turn}"}
            answers[number] = post(client, place, **form)

        at_once(2, ask)

        assert sorted(answer.status_code for answer in answers.values()) == [302, 422]
        winner = next(number for number, answer in answers.items() if answer.status_code == 302)
        refused = answers[1 - winner]
        assert WHY in str(refused.context["form"].errors["count"])
        assert WHY in refused.content.decode()
        assert Workspace.objects.get().project == tenants[winner][1]
        assert Reservation.objects.get(resource=H100, state="held").amount == 1
        counters_must_match()
        give_back(site)


def give_back(site: Site) -> None:
    """As if nobody had asked."""
    Reservation.objects.all().delete()
    Workspace.objects.all().delete()
    SiteCapacity.objects.filter(site=site).update(used=0)
    Limit.objects.update(used=0)
