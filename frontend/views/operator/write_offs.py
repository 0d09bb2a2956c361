"""Usage without a price that an operator decides not to charge."""

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from billing.months import month_parse
from billing.selectors.usage_write_offs import usage_write_offs_for
from billing.services.usage_write_offs import usage_write_off, usage_write_off_take_back
from frontend.forms.rates import ware_named
from frontend.frame import done, refusals_shown
from frontend.views.operator.common import OperatorPlace, operator_action
from gpuaas.catalog.selectors import flavors_for
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.rows import first_of


@operator_action
def write_off(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    asked = {name: request.POST.get(name, "") for name in ("month", "what", "meter", "currency", "reason")}
    ware = ware_named(asked["what"], flavors_for(actor=here.actor, drafts=True))
    back = _usage(asked["month"])
    with refusals_shown(request, Invalid):
        if ware is None:
            raise Invalid.field("what", "there is no such flavor")
        made = usage_write_off(
            actor=here.actor,
            month=month_parse(asked["month"]),
            meter=asked["meter"],
            reason=asked["reason"],
            currency=asked["currency"],
            **ware,
        )
        text = f"The usage of {made.what} in {made.month:%B %Y} that had no price is not charged."
        return done(request, text, back)
    return redirect(back)


@operator_action
def take_back(request: HttpRequest, here: OperatorPlace, written: uuid.UUID) -> HttpResponse:
    row = first_of(usage_write_offs_for(actor=here.actor).filter(pk=written), "write-off of usage")
    with refusals_shown(request, Conflict):
        usage_write_off_take_back(actor=here.actor, row=row)
        messages.success(request, f"The usage of {row.what} in {row.month:%B %Y} waits for a price again.")
    return redirect(_usage(f"{row.month:%Y-%m}"))


def _usage(month: str) -> str:
    """The page of the month; of this one where it is none."""
    try:
        return f"{reverse('frontend:operator_usage')}?month={month_parse(month):%Y-%m}"
    except Invalid:
        return reverse("frontend:operator_usage")
