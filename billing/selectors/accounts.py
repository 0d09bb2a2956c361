"""The currency in which an organization pays."""

import uuid
from collections.abc import Collection

from django.conf import settings

from billing.models import BillingAccount


def currencies_of(*, organizations: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Of their accounts; an organization without one has the portal's. 1 query."""
    rows = BillingAccount.objects.filter(organization__in=organizations)
    known = dict(rows.values_list("organization_id", "currency"))
    return {pk: known.get(pk, str(settings.CURRENCY)) for pk in organizations}
