"""The month that an address asks for."""

from datetime import date, datetime

from django.http import HttpRequest

from billing.months import month_of, month_parse
from gpuaas.core.errors import Invalid, NotFound


def month_asked(request: HttpRequest, now: datetime) -> date:
    """The month of the query; the running one where it says nothing, nonsense or the future."""
    try:
        return min(month_parse(request.GET.get("month", "")), month_of(now))
    except Invalid:
        return month_of(now)


def month_named(text: str) -> date:
    """The month in an address. Raises NotFound where there is none: what was not typed is not put right by hand."""
    try:
        return month_parse(text)
    except Invalid as error:
        raise NotFound(f"there is no month {text[:20]}") from error
