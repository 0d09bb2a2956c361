"""Reads of payers: an organization's account, the cost centers of its projects, its discounts."""

import uuid
from collections.abc import Collection

from django.conf import settings
from django.db.models import QuerySet

from billing.models import BillingAccount, Discount
from billing.selectors.balances import billing_require
from gpuaas.core.rows import first_of
from tenants.actors import Actor
from tenants.models import Organization, Project


def currencies_of(*, organizations: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Currencies of their accounts; an organization without one has the portal's. 1 query."""
    rows = BillingAccount.objects.filter(organization__in=organizations)
    known = dict(rows.values_list("organization_id", "currency"))
    return {pk: known.get(pk, str(settings.CURRENCY)) for pk in organizations}


def account_get(*, actor: Actor, organization: Organization) -> BillingAccount:
    """An unsaved one with the defaults if there is none yet."""
    billing_require(actor=actor, organization=organization)
    known = BillingAccount.objects.filter(organization=organization).first()
    return known or BillingAccount(organization=organization, currency=settings.CURRENCY)


def cost_centers_of(*, actor: Actor, organization: Organization) -> dict[str, str]:
    """By every project's slug; empty if none is set."""
    billing_require(actor=actor, organization=organization)
    rows = Project.objects.filter(organization=organization).order_by("slug")
    return {slug: code or "" for slug, code in rows.values_list("slug", "cost_center__code")}


def discounts_for(*, actor: Actor, organization: Organization) -> QuerySet[Discount]:
    """Past ones included, newest first."""
    billing_require(actor=actor, organization=organization)
    rows = Discount.objects.filter(organization=organization).select_related("flavor")
    return rows.order_by("-pk")


def discount_get(*, actor: Actor, organization: Organization, discount_id: uuid.UUID) -> Discount:
    return first_of(discounts_for(actor=actor, organization=organization).filter(pk=discount_id), "discount")
