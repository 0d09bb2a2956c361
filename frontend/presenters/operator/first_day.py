"""What a new portal still needs before somebody can use a GPU, in the order in which it is done."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef
from django.urls import reverse

from billing.models import Rate
from frontend.presenters.operator.sites import SiteShown
from gpuaas.catalog.models import Flavor
from gpuaas.catalog.states import OfferState
from gpuaas.workspaces.models import Workspace
from quotas.models import Limit
from tenants.models import Organization, Project


@dataclass(frozen=True)
class FirstStep:
    """`text` is how it stands or what to do, `url` where that is done."""

    name: str
    done: bool
    text: str
    url: str
    label: str


def first_day(sites: Sequence[SiteShown]) -> tuple[FirstStep, ...]:
    """Empty once all is done, or somebody has a workspace: what fails later is no first step.

    A later step means the earlier ones: a limit is of a project, a price of a flavor.
    """
    if Workspace.objects.exists():
        return ()
    limit = _limited()
    priced = Rate.objects.filter(flavor__state=OfferState.ACTIVE).exists()
    ready = any(row.site.preflight_at and row.site.takes_new for row in sites)
    if limit and priced and ready:
        return ()
    offered = priced or Flavor.objects.filter(state=OfferState.ACTIVE).exists()
    organization = Organization.objects.order_by("created_at").first()
    project = limit or Project.objects.exists()
    return (
        *_supply(sites, ready=ready, offered=offered, priced=priced),
        *_demand(organization, project=project, limit=limit),
    )


def _limited() -> bool:
    """Whether a project may hold GPUs, and its organization too: both limits hold."""
    gpus = Limit.objects.filter(resource__startswith="gpu:").exclude(hard=0)
    above = gpus.filter(organization=OuterRef("project__organization"), resource=OuterRef("resource"))
    return gpus.filter(Exists(above), project__isnull=False).exists()


def _supply(
    sites: Sequence[SiteShown], *, ready: bool, offered: bool, priced: bool
) -> tuple[FirstStep, FirstStep, FirstStep]:
    """What there is to sell."""
    slug = sites[0].site.slug if sites else ""
    checks, checked = _checks(sites, ready=ready)
    return (
        FirstStep(
            "Add a site",
            bool(sites),
            f"{len(sites)} site{'' if len(sites) == 1 else 's'}" if sites else "Enter its credentials.",
            reverse("frontend:operator_site_new"),
            "Add a site",
        ),
        FirstStep(
            "Pass its checks",
            ready,
            checks,
            reverse("frontend:operator_site", args=[slug]) if checked else reverse("frontend:operator_sites"),
            "Readiness" if checked else "Sites",
        ),
        FirstStep(
            "Publish a flavor and set its price",
            priced,
            "A flavor is on offer with a price."
            if priced
            else "A flavor is on offer and has no price: what it uses is not charged."
            if offered
            else "Choose what is sold of the GPUs that the site has.",
            reverse("frontend:operator_prices" if offered else "frontend:operator_flavors"),
            "Prices" if offered else "Flavors",
        ),
    )


def _demand(
    organization: Organization | None, *, project: bool, limit: bool
) -> tuple[FirstStep, FirstStep, FirstStep]:
    """Whom it is sold to, and how much of it."""
    return (
        FirstStep(
            "Create an organization",
            organization is not None,
            "It is who pays." if organization is None else f"{organization.name} is the first.",
            reverse("frontend:operator_organizations"),
            "Organizations",
        ),
        FirstStep(
            "Create a project in it",
            project,
            "People work in projects." if not project else "There is a project.",
            reverse("frontend:operator_organization", args=[organization.slug])
            if organization
            else reverse("frontend:operator_organizations"),
            "Projects",
        ),
        FirstStep(
            "Set limits of the organization and the project",
            limit,
            "A project and its organization have limits."
            if limit
            else "Both need limits of GPUs, vCPU, memory and storage: without one nothing can be held.",
            reverse("frontend:operator_limits"),
            "Limits",
        ),
    )


def _checks(sites: Sequence[SiteShown], *, ready: bool) -> tuple[str, bool]:
    """How the checks of the first sites stand, and whether a site's own page says more."""
    if ready:
        return "A site is ready to be sold.", True
    if not sites:
        return "They begin as soon as there is a site.", False
    if not any(row.site.preflight_at for row in sites):
        return "They are running; results appear on the page of the site.", True
    return "A check has failed; the page of the site says how to repair it.", True
