"""What was written off of usage without a price."""

from datetime import date

from django.db.models import QuerySet

from billing.models import UsageWriteOff
from tenants.actors import Actor
from tenants.selectors import platform_require


def usage_write_offs_for(*, actor: Actor, month: date | None = None) -> QuerySet[UsageWriteOff]:
    """For operators and auditors, newest first; of one month where it is named."""
    platform_require(actor=actor)
    rows = UsageWriteOff.objects.select_related("card", "flavor")
    return rows.filter(month=month.replace(day=1)) if month else rows
