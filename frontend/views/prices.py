"""What an organization pays: prices that hold now and those announced, its discounts, its credits, and pools that are its own."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from billing.selectors import accounts, balances
from billing.selectors.idle import idle_now
from billing.selectors.sheets import price_sheet
from frontend.lists import paged
from frontend.nav import Crumb
from frontend.place import OrganizationPlace, organization_page
from frontend.presenters.operator.reservations import reservation_rows
from frontend.presenters.rate_cards import percent_words, sheet_lines
from frontend.views.invoices import crumbs, grant_shown
from quotas.pools import pool_reservations_for
from tenants.roles import Permission

ROWS = 20


@organization_page(Permission.BILLING_VIEW)
def index(request: HttpRequest, here: OrganizationPlace) -> HttpResponse:
    sheet = price_sheet(now=here.now, **here.given)
    discounts = [
        row for row in accounts.discounts_for(**here.given) if row.valid_to is None or row.valid_to > here.now
    ]
    page = paged(request, balances.grants_for(**here.given), ROWS)
    lines = sheet_lines(sheet)
    context = {
        "organization": here.organization,
        "sheet": sheet,
        "lines": lines,
        "announced": sum(len(line.upcoming) for line in lines),
        "discounts": [(row, percent_words(row.basis_points), row.valid_from > here.now) for row in discounts],
        "balance": balances.balance_of(currency=sheet.currency, **here.given),
        "page": page,
        "grants": [grant_shown(row) for row in page],
        "crumbs": crumbs(here, Crumb("Prices and credits")),
    }
    return render(request, "billing/prices.html", context)


@organization_page(Permission.BILLING_VIEW)
def reserved_pools(request: HttpRequest, here: OrganizationPlace) -> HttpResponse:
    """Pools that nobody else gets GPUs of: from when until when, and what is idle of them now."""
    page = paged(request, pool_reservations_for(**here.given), ROWS)
    account = accounts.currencies_of(organizations=[here.organization.pk])
    idle = {each.reservation_id: each for each in idle_now(now=here.now, **here.given)}
    context = {
        "organization": here.organization,
        "page": page,
        "rows": reservation_rows(page, now=here.now, idle=idle, guests={}, currencies=account),
        "crumbs": crumbs(here, Crumb("Reserved pools")),
    }
    return render(request, "billing/reserved_pools.html", context)
