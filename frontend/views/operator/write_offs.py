"""Usage without a price that an operator decides not to charge."""

import uuid
from datetime import date

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from billing.months import month_of, month_parse
from billing.selectors.usage_write_offs import usage_write_offs_for
from billing.services.usage_write_offs import usage_write_off, usage_write_off_take_back
from frontend.forms.rates import ware_named
from frontend.frame import done, refusals_shown
from frontend.views.operator.common import OperatorPlace, operator_action
from frontend.views.operator.money import usage_of
from gpuaas.catalog.selectors import flavors_for
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.rows import first_of


@operator_action
def write_off(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    what, meter, currency = (request.POST.get(name, "") for name in ("what", "meter", "currency"))
    ware = ware_named(what, flavors_for(actor=here.actor, drafts=True))
    with refusals_shown(request, Invalid):
        month = month_parse(request.POST.get("month", ""))
        with refusals_shown(request, Invalid):
            if ware is None:
                raise Invalid.field("what", "there is no such flavor")
            made = usage_write_off(
                actor=here.actor,
                month=month,
                meter=meter,
                reason=request.POST.get("reason", ""),
                currency=currency,
                **ware,
            )
            text = f"The usage of {made.what} in {made.month:%B %Y} that had no price is not charged."
            return done(request, text, _usage(made.month))
        shown = min(month, month_of(here.now))
        return usage_of(request, here, shown, refused=(what, meter, currency))
    return redirect("frontend:operator_usage")


@operator_action
def take_back(request: HttpRequest, here: OperatorPlace, written: uuid.UUID) -> HttpResponse:
    row = first_of(usage_write_offs_for(actor=here.actor).filter(pk=written), "write-off of usage")
    with refusals_shown(request, Conflict):
        usage_write_off_take_back(actor=here.actor, row=row)
        messages.success(request, f"The usage of {row.what} in {row.month:%B %Y} waits for a price again.")
    return redirect(_usage(row.month))


def _usage(month: date) -> str:
    return f"{reverse('frontend:operator_usage')}?month={month:%Y-%m}"
