"""Time. All instants are aware and UTC; metering and billing count whole seconds."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils import timezone

TO_THE_MINUTE = "%Y-%m-%d %H:%M"


def now() -> datetime:
    return timezone.now()


def billing_zone() -> ZoneInfo:
    """In which the days and months of charges begin."""
    return ZoneInfo(settings.BILLING_TIME_ZONE)


def billing_day(at: datetime) -> date:
    return at.astimezone(billing_zone()).date()


def whole_second(value: datetime) -> datetime:
    """Truncated to the second, in UTC: intervals are [start, end) in whole seconds, so neighbors still touch."""
    return value.astimezone(UTC).replace(microsecond=0)
