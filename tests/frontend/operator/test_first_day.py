"""The first day of a provider: the overview says what is still needed, where, and is silent once all is done."""

import re

from django.test import Client
from django.urls import reverse

from billing.services import rate_set
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from tenants.actors import SYSTEM
from tenants.models import Project
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, SiteFactory
from tests.factories.quotas import limits_give
from tests.factories.tenants import OrganizationFactory, ProjectFactory
from tests.frontend.markup import words

STEPS = 6


def steps(client: Client) -> list[tuple[str, str]]:
    """State and address of each."""
    shown = words(client.get(reverse("frontend:operator")))
    if 'id="first-steps-title"' not in shown:
        return []
    card = shown.split('id="first-steps-title"')[1].split("</ol>")[0]
    states = re.findall(r'visually-hidden">: (done|to do)<', card)
    return list(zip(states, re.findall(r'btn-sm" href="([^"]+)"', card), strict=True))


def done(client: Client) -> int:
    found = steps(client)
    assert len(found) == STEPS
    assert all(client.get(url).status_code == 200 for _, url in found)
    return sum(state == "done" for state, _ in found)


def test_the_first_day_is_led_step_by_step(olga_at: Client) -> None:
    assert done(olga_at) == 0
    site = SiteFactory.create(slug="ber-1")
    assert done(olga_at) == 1
    Site.objects.filter(pk=site.pk).update(preflight_at=clock.now(), fit=False)
    assert done(olga_at) == 1
    assert steps(olga_at)[1] == ("to do", "/operator/sites/at/ber-1/")
    Site.objects.filter(pk=site.pk).update(fit=True)
    assert done(olga_at) == 2
    flavor = FlavorFactory.create(pool=GpuPoolFactory.create(site=site, capacity=8))
    assert done(olga_at) == 2
    assert steps(olga_at)[2] == ("to do", reverse("frontend:operator_prices"))
    rate_set(actor=SYSTEM, flavor=flavor, meter=Meter.GPU_HELD, price="2.40")
    assert done(olga_at) == 3
    organization = OrganizationFactory.create(slug="newco")
    assert done(olga_at) == 4
    assert steps(olga_at)[4] == ("to do", reverse("frontend:operator_organization", args=["newco"]))
    project: Project = ProjectFactory.create(organization=organization)
    assert done(olga_at) == 5
    limits_give(project, organization=False)
    assert done(olga_at) == 5, "the organization can hold nothing yet"
    limits_give(project, {"gpu:h100-sxm-80gb": 8})
    assert steps(olga_at) == []
