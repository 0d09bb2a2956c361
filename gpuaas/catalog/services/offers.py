"""What is sold, made at sites where it has to be there before anybody can ask for it (flavors of Nova), and taken away again."""

import uuid

from django.db import transaction

from gpuaas.catalog.models import Flavor, Site, SiteRound
from gpuaas.catalog.services.rounds import in_our_words, round_claim, round_driver, round_release, round_retry
from gpuaas.catalog.states import OfferState, RoundKind
from gpuaas.core import clock
from gpuaas.core.conditions import Status, condition_set
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import FlavorAmount, OfferCapability

OFFERED = "FlavorsOffered"


def site_offers(site_id: uuid.UUID) -> bool:
    """True where the site has what is sold. Drafts are not made; a retired one goes when nobody holds it any more."""
    row = round_claim(site_id, RoundKind.OFFERS)
    if row is None:
        return False
    try:
        driver = round_driver(row, OfferCapability)  # type: ignore[type-abstract]  # asked for, not made
        if driver is None:
            return False
        sold, retired = _offers_of(row.site)
        driver.offers_set(sold, retired)
    except Exception as error:  # noqa: BLE001  whatever it is, it is told where the operator looks
        _failure_write(row, in_our_words(error, what="flavors", site=row.site))
        return False
    return _done_write(row, len(sold))


def _offers_of(site: Site) -> tuple[tuple[FlavorAmount, ...], tuple[str, ...]]:
    rows = Flavor.objects.filter(pool__site=site).select_related("pool").order_by("slug")
    sold = tuple(
        FlavorAmount(
            slug=row.slug,
            count=0,
            gpus=row.gpus,
            vcpus=row.vcpus,
            memory_gib=row.memory_gib,
            disk_gib=row.disk_gib,
            resource_name=row.pool.resource_name,
            selector=row.pool.selector,
        )
        for row in rows
        if row.state == OfferState.ACTIVE
    )
    return sold, tuple(row.slug for row in rows if row.state == OfferState.RETIRED)


@transaction.atomic
def _done_write(row: SiteRound, count: int) -> bool:
    if not round_release(row):
        return False
    _condition_write(
        row, Status.TRUE, "Offered", f"{count} {'flavor is' if count == 1 else 'flavors are'} there."
    )
    return True


@transaction.atomic
def _failure_write(row: SiteRound, error: GpuaasError) -> None:
    if round_retry(row):
        remedy = "Retire the flavor or set its part at the site right; it is tried again by itself."
        _condition_write(row, Status.FALSE, "NotOffered", f"{error.message.rstrip('.')}.", remedy)


def _condition_write(row: SiteRound, status: Status, reason: str, message: str, remedy: str = "") -> None:
    site = Site.objects.select_for_update().only("conditions").get(pk=row.site_id)
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
        Site.objects.filter(pk=row.site_id).update(conditions=conditions)
