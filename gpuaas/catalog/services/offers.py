"""Objects of flavors at sites that need them before anybody can request them (Nova flavors), created and removed."""

import uuid

from django.db import transaction

from gpuaas.catalog.models import Flavor, Site, SiteRound
from gpuaas.catalog.services.rounds import round_release, round_retry, round_run, round_site
from gpuaas.catalog.spec import flavor_amount
from gpuaas.catalog.states import OfferState, RoundKind
from gpuaas.core import clock
from gpuaas.core.conditions import Status, condition_set
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import FlavorAmount, OfferCapability

OFFERED = "FlavorsOffered"


def site_offers(site_id: uuid.UUID) -> bool:
    """True if the site has what is sold. Drafts are not created; a retired flavor is removed when nobody holds it."""
    kind: type[OfferCapability] = OfferCapability  # type: ignore[type-abstract]  # asked for, not made
    return round_run(site_id, RoundKind.OFFERS, kind, ask=_set, failed=_failure_write)


def _set(row: SiteRound, driver: OfferCapability) -> bool:
    sold, retired = _offers_of(row.site)
    driver.offers_set(sold, retired)
    return _done_write(row, len(sold))


def _offers_of(site: Site) -> tuple[tuple[FlavorAmount, ...], tuple[str, ...]]:
    rows = Flavor.objects.filter(pool__site=site).select_related("pool").order_by("slug")
    sold = tuple(flavor_amount(row, 0) for row in rows if row.state == OfferState.ACTIVE)
    return sold, tuple(row.slug for row in rows if row.state == OfferState.RETIRED)


@transaction.atomic
def _done_write(row: SiteRound, count: int) -> bool:
    site = round_site(row)
    if not round_release(row):
        return False
    _condition_write(
        site,
        Status.TRUE,
        "Offered",
        f"{count} {'flavor exists' if count == 1 else 'flavors exist'} at the site.",
    )
    return True


def _failure_write(row: SiteRound, error: GpuaasError) -> None:
    site = round_site(row)
    if round_retry(row, error):
        remedy = "Retire the flavor, or repair its objects at the site; the portal tries again automatically."
        _condition_write(site, Status.FALSE, "NotOffered", f"{error.message.rstrip('.')}.", remedy)


def _condition_write(site: Site, status: Status, reason: str, message: str, remedy: str = "") -> None:
    conditions = condition_set(
        site.conditions,
        type=OFFERED,
        status=status,
        reason=reason,
        message=message,
        remedy=remedy,
        now=clock.now(),
    )
    if conditions != site.conditions:
        Site.objects.filter(pk=site.pk).update(conditions=conditions)
