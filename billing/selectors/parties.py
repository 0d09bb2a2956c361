"""The recipients of documents."""

import uuid
from collections.abc import Sequence

from django.conf import settings

from billing.issuing import Party
from billing.models import BillingAccount
from tenants.models import Organization


def parties_of(*, organizations: Sequence[uuid.UUID]) -> list[Party]:
    """Two queries. An organization without an account has the portal's currency, no tax and no address."""
    accounts = BillingAccount.objects.in_bulk(list(organizations))
    made = []
    for row in Organization.objects.filter(pk__in=organizations).order_by("slug"):
        account = accounts.get(row.pk) or BillingAccount(organization=row, currency=settings.CURRENCY)
        made.append(
            Party(
                organization_id=row.pk,
                slug=row.slug,
                currency=account.currency,
                tax_rate_bp=account.tax_rate_bp,
                tax_label=account.tax_label,
                name=row.name,
                address=account.address,
                reference=account.invoice_reference,
            )
        )
    return made
