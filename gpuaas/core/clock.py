"""Time. All instants are aware and UTC; metering and billing count whole seconds."""

from datetime import UTC, datetime

from django.utils import timezone

TO_THE_MINUTE = "%Y-%m-%d %H:%M"


def now() -> datetime:
    return timezone.now()


def whole_second(value: datetime) -> datetime:
    """Truncated to the second, in UTC: intervals are [start, end) in whole seconds, so neighbors still touch."""
    return value.astimezone(UTC).replace(microsecond=0)
