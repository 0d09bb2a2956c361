"""Removing a site: its name stays for past usage; its credentials and offers are deleted."""

from django.db import transaction
from django.db.models import F

from gpuaas.catalog.models import Flavor, GpuPool, Node, Site, SiteRound
from gpuaas.catalog.services.contracts import pools_lock
from gpuaas.catalog.states import OfferState
from gpuaas.core import clock
from gpuaas.core.events import OPERATORS_GROUP, publish
from gpuaas.core.queue import poke
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require


@transaction.atomic
def site_detach(*, actor: Actor, site: Site) -> None:
    """Call it only after making sure that nothing of ours is left there (`billing.services.site_removal`). Does not
    call the site; the row stays, so that usage, invoices and the audit log keep its name."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    now = clock.now()
    Site.objects.filter(pk=site.pk).update(
        enabled=False,
        removed_at=now,
        credentials="",
        due_at=None,
        claim_token=None,  # of a probe under way, whose answer would bring its pools back
        claim_until=None,
        version=F("version") + 1,
    )
    pools_lock(site.pk)
    Flavor.objects.filter(pool__site=site).exclude(state=OfferState.RETIRED).update(state=OfferState.RETIRED)
    GpuPool.objects.filter(site=site).update(
        capacity=0, cards=0, healthy=0, allocated=0, others=0, largest_block=0, observed_at=now
    )
    Node.objects.filter(site=site).delete()
    SiteRound.objects.filter(site=site).delete()
    audit_record(actor=actor, action="site.remove", target=site, before={"slug": site.slug}, after=None)
    publish(kind="site", id=site.pk, groups=(OPERATORS_GROUP,))
    poke("quotas.capacity_sync", str(site.pk))
