"""What an organization pays: prices that hold now and those announced, its discounts, its credits, and pools that are its own."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from billing.selectors import accounts, balances
from billing.selectors.idle import idle_now
from billing.selectors.sheets import price_sheet
from frontend.nav import Crumb
from frontend.presenters.operator.reservations import reservation_rows
from frontend.presenters.rate_cards import percent_words, sheet_lines
from frontend.views.invoices import crumbs, grant_shown, place
from gpuaas.core import clock
from quotas.pools import pool_reservations_for

ROWS = 20


@login_required
def index(request: HttpRequest, organization: str) -> HttpResponse:
    here, now = place(request, organization), clock.now()
    given: dict[str, Any] = {"actor": here.actor, "organization": here.organization}
    sheet = price_sheet(now=now, **given)
    discounts = [row for row in accounts.discounts_for(**given) if row.valid_to is None or row.valid_to > now]
    page = Paginator(balances.grants_for(**given), ROWS).get_page(request.GET.get("page"))
    lines = sheet_lines(sheet)
    context = {
        "place": here,
        "organization": here.organization,
        "sheet": sheet,
        "lines": lines,
        "announced": sum(len(line.upcoming) for line in lines),
        "discounts": [(row, percent_words(row.basis_points), row.valid_from > now) for row in discounts],
        "balance": balances.balance_of(currency=sheet.currency, **given),
        "page": page,
        "grants": [grant_shown(row) for row in page],
        "crumbs": crumbs(here, Crumb("Prices and credits")),
    }
    return render(request, "billing/prices.html", context)


@login_required
def reserved_pools(request: HttpRequest, organization: str) -> HttpResponse:
    """Pools that nobody else gets GPUs of: from when until when, and what is idle of them now."""
    here, now = place(request, organization), clock.now()
    given: dict[str, Any] = {"actor": here.actor, "organization": here.organization}
    page = Paginator(pool_reservations_for(**given), ROWS).get_page(request.GET.get("page"))
    account = accounts.currencies_of(organizations=[here.organization.pk])
    idle = {each.reservation_id: each for each in idle_now(now=now, **given)}
    context = {
        "place": here,
        "organization": here.organization,
        "page": page,
        "rows": reservation_rows(page, now=now, idle=idle, guests={}, currencies=account),
        "crumbs": crumbs(here, Crumb("Reserved pools")),
    }
    return render(request, "billing/reserved_pools.html", context)
