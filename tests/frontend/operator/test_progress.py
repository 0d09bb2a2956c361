"""Long work says which of its steps is under way, on whose account and since when, and says the same after a reload."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from gpuaas.catalog.models import NodeCheck, Site, SiteRound
from gpuaas.catalog.states import RoundKind
from gpuaas.clusters.models import ParametersImport, TemplateVersion
from gpuaas.core import clock
from gpuaas.core.claims import Claimable
from gpuaas.workspaces.models import Adoption, AdoptionScan, Workspace
from tenants.actors import SYSTEM
from tenants.models import User
from tests.api.cluster_stage import template_stage
from tests.frontend.markup import words
from tests.frontend.operator.adopting import plan_at, scan_at


def told(client: Client, url: str) -> str:
    """The same twice: nothing of it is lost with the message of the page that came first."""
    client.get(url)
    return words(client.get(url))


def follow(client: Client, url: str, row: Claimable) -> None:
    """As a worker takes it, fails, and another one is awaited."""
    rows = type(row)._default_manager.filter(pk=row.pk)
    page = told(client, url)
    assert "Step 2 of 3, since <time" in page
    assert "It waits for a free worker." in page
    assert page.count(": done</span>") >= 1
    assert "g-skeleton" not in page.partition("<main")[2]
    rows.update(claim_until=clock.now() + timedelta(minutes=1))
    assert "A worker is on it." in told(client, url)
    rows.update(claim_until=None, attempts=2, due_at=clock.now() + timedelta(seconds=30))
    assert "2 tries failed; the next one is <time" in told(client, url)


def test_the_import_of_a_class(olga_at: Client, workspace: Workspace) -> None:
    template = template_stage(SYSTEM, workspace.site)
    now = clock.now()
    row = ParametersImport.objects.create(
        base=TemplateVersion.objects.get(),
        template=template,
        requested_by="olga",
        requested_at=now,
        due_at=now,
    )
    url = reverse("frontend:operator_cluster_template_import", args=[template.slug])
    type(template)._default_manager.filter(pk=template.pk).update(driver="cluster-api")
    follow(olga_at, url, row)
    assert "compared with version 1" in words(olga_at.get(url))


def test_the_scan_of_a_site(olga_at: Client, site: Site) -> None:
    scan = scan_at(site)
    AdoptionScan.objects.filter(pk=scan.pk).update(taken_at=None, found=[], due_at=clock.now())
    url = reverse("frontend:operator_site_adoption", args=["ber-1"])
    follow(olga_at, url, scan)
    assert "scan in progress since <time" in words(olga_at.get(url))


@pytest.mark.parametrize(("state", "said"), [("planning", "is looked at"), ("confirmed", "done at the site")])
def test_a_plan(olga_at: Client, workspace: Workspace, bob: User, state: str, said: str) -> None:
    row = plan_at(workspace.site, workspace.project, bob)
    Adoption.objects.filter(pk=row.pk).update(state=state, steps=[], due_at=clock.now())
    url = reverse("frontend:operator_adoption", args=["ber-1", row.pk])
    follow(olga_at, url, row)
    assert said in words(olga_at.get(url))


def test_a_check_of_a_node(olga_at: Client, site: Site, nodes: None) -> None:
    url = reverse("frontend:operator_node", args=["ber-1", "h100-01"])
    now = clock.now()
    row = NodeCheck.objects.create(
        site=site, node="h100-01", requested_by="olga", requested_at=now, due_at=now
    )
    follow(olga_at, url, row)


def test_a_site_is_contacted_and_checked(olga_at: Client, site: Site) -> None:
    url = reverse("frontend:operator_site", args=["ber-1"])
    rest = clock.now() + timedelta(minutes=5)
    Site.objects.filter(pk=site.pk).update(due_at=rest)
    SiteRound.objects.update_or_create(site=site, kind=RoundKind.PREFLIGHT, defaults={"due_at": rest})
    assert "since" not in words(olga_at.get(url)).split('id="site-live"')[1].split("</p>")[0]
    olga_at.post(reverse("frontend:operator_site_probe", args=["ber-1"]))
    page = told(olga_at, url)
    assert "being contacted since <time" in page
    assert "being checked since" not in page
    assert "every 2s" in page
    olga_at.post(reverse("frontend:operator_site_preflight", args=["ber-1"]))
    assert "being checked since <time" in told(olga_at, url)
    Site.objects.filter(pk=site.pk).update(due_at=rest)
    SiteRound.objects.filter(site=site).update(due_at=rest)
    page = told(olga_at, url)
    assert "being" not in page.split('id="site-live"')[1].split("</ul>")[0]
    Site.objects.filter(pk=site.pk).update(enabled=False)
    said = words(olga_at.post(reverse("frontend:operator_site_probe", args=["ber-1"]), follow=True))
    assert "A disabled site is not contacted: enable it first" in said


def test_a_comparison_of_a_whole_site_is_counted(olga_at: Client, workspace: Workspace) -> None:
    url = reverse("frontend:operator_site_drift", args=["ber-1"])
    Workspace.objects.filter(pk=workspace.pk).update(state="ready")
    assert "compared since" not in words(olga_at.get(url))
    olga_at.post(reverse("frontend:operator_site_drift_check", args=["ber-1"]))
    assert "0 of 1 workspace compared since <time" in told(olga_at, url)
    Workspace.objects.filter(pk=workspace.pk).update(drift_due_at=timezone.now() + timedelta(hours=1))
    assert "compared since" not in told(olga_at, url)
