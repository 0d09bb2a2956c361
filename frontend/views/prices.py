"""What an organization pays: prices that hold now and those announced, its discounts, its credits, and pools that are its own."""

from django.http import HttpRequest, HttpResponseBase

from billing.selectors import accounts, balances
from billing.selectors.idle import idle_now
from billing.selectors.sheets import price_sheet
from frontend.lists import Column, Listing, find, list_page, named, saying
from frontend.nav import Crumb
from frontend.place import OrganizationPlace, organization_page
from frontend.presenters.operator.reservations import reservation_rows
from frontend.presenters.rate_cards import percent_words, sheet_lines
from frontend.views.invoices import crumbs, grants_shown
from quotas.pools import pool_reservations_for
from tenants.roles import Permission

ROWS = 20
LIST = Listing(
    "prices",
    columns=(
        Column("item", "Item", "what__name", "what.name"),
        Column("note", value="what.note"),
        Column("counted", "Counted", "what__counted", "what.counted"),
        Column("now", "Now", "row__now__price", "row.now.price", numeric=True),
        Column("terms", "More terms", value=lambda line: "; ".join(line.terms)),
        Column(
            "announced",
            "Announced",
            value=lambda line: "; ".join(
                f"{price.price} from {price.starts_at}" for price, _ in line.upcoming
            ),
        ),
    ),
    filters=(find("Find an item", "Item"),),
)
POOLS = Listing(
    "reservations",
    columns=(
        Column("pool", "Pool", "pool__gpu_type__name", "row.pool.gpu_type.name"),
        Column("site", value="row.pool.site.slug"),
        Column("state", "State", value="word"),
        Column("project", "Charged to", "project__slug", "row.project.slug"),
        Column("gpus", "GPUs", "pool__healthy", "row.pool.healthy", numeric=True),
        Column("valid_from", "From", "valid_from", "row.valid_from"),
        Column("valid_to", "Until", "valid_to", "row.valid_to"),
        Column("now", "Now", value="idle"),
    ),
    filters=(find("Find a pool or site", "Pool or site"),),
    size=ROWS,
)
RESERVED = ("pool__gpu_type__name", "pool__site__slug", "project__slug")


@organization_page(Permission.BILLING_VIEW)
def index(request: HttpRequest, here: OrganizationPlace) -> HttpResponseBase:
    sheet = price_sheet(now=here.now, **here.given)
    discounts = [
        row for row in accounts.discounts_for(**here.given) if row.valid_to is None or row.valid_to > here.now
    ]
    grants = grants_shown(request, here, here.organization)
    lines = sheet_lines(sheet)
    context = {
        "organization": here.organization,
        "sheet": sheet,
        "announced": sum(len(line.upcoming) for line in lines),
        "discounts": [(row, percent_words(row.basis_points), row.valid_from > here.now) for row in discounts],
        "balance": balances.balance_of(currency=sheet.currency, **here.given),
        "grants": grants,
        "crumbs": crumbs(here, Crumb("Prices and credits")),
    }
    found = LIST.of(
        request,
        lambda query: saying(
            lines, query["q"], lambda line: f"{line.what.name} {line.what.note} {line.what.counted}"
        ),
    )
    return list_page(request, "billing/prices.html", found, context, grants)


@organization_page(Permission.BILLING_VIEW)
def reserved_pools(request: HttpRequest, here: OrganizationPlace) -> HttpResponseBase:
    """Pools that nobody else gets GPUs of: from when until when, and what is idle of them now."""
    account = accounts.currencies_of(organizations=[here.organization.pk])
    idle = {each.reservation_id: each for each in idle_now(now=here.now, **here.given)}
    found = POOLS.of(
        request,
        lambda query: named(pool_reservations_for(**here.given), query["q"], *RESERVED),
        lambda rows: reservation_rows(rows, now=here.now, idle=idle, guests={}, currencies=account),
    )
    context = {"organization": here.organization, "crumbs": crumbs(here, Crumb("Reserved pools"))}
    return list_page(request, "billing/reserved_pools.html", found, context)
