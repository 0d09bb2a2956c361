"""Time. All instants are aware and UTC; metering and billing count whole seconds."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils import timezone

from gpuaas.core.errors import Invalid

TO_THE_MINUTE = "%Y-%m-%d %H:%M"
# of what is planned; the first and the last days that Python knows overflow in another zone
FIRST_YEAR, LAST_YEAR = 2000, 2999


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


def year_require(at: datetime, *, field: str) -> datetime:
    """The time itself. Raises Invalid on `field` for one that no page could show in the zone of each reader."""
    if at.year > LAST_YEAR:
        raise Invalid.field(field, f"choose a time no later than {LAST_YEAR}")
    if at.year < FIRST_YEAR:
        raise Invalid.field(field, f"choose a time no earlier than {FIRST_YEAR}")
    return at
