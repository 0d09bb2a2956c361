"""What an organization pays by: its account, cost centers, its card and discounts. Credits and invoices are linked."""

import uuid
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from billing import services
from billing.models import BillingAccount, Discount, ProjectCostCenter
from billing.money import amount_of
from billing.selectors import accounts, balances, cards
from frontend.forms.rates import AccountForm, CostCenterForm, DiscountForm
from frontend.frame import checked, done, refusals_on, refusals_shown, sent, undo_by
from frontend.lists import Column, Listing, find, list_page, named, saying
from frontend.presenters.rate_cards import percent_words
from frontend.views.operator.common import OperatorPlace, crumbs, organization_action, organization_page
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict, Invalid, StaleVersion
from tenants.models import Organization, Project

LIST = Listing(
    "discounts",
    columns=(
        Column("percent", "Discount", "basis_points", "1"),
        Column("flavor", value="0.flavor.slug"),
        Column("note", value="0.note"),
        Column("state", "State", value="3"),
        Column("valid_from", "From", "valid_from", "0.valid_from"),
        Column("valid_to", "Until", "valid_to", "0.valid_to"),
        Column("created_by", "By", "created_by", "0.created_by"),
        Column("end", "End", value=None, quiet=True),
    ),
    filters=(find("Find a flavor or note", "Flavor or note"),),
)
CENTERS = Listing(
    "projects",
    columns=(
        Column("project", "Project", "0", "0"),
        Column("cost_center", "Cost center", "1", "1"),
    ),
    filters=(find("Find a project or cost center", "Project or cost center"),),
    mark="center-",
)


def _page(request: HttpRequest, here: OperatorPlace, row: Organization, **forms: Any) -> HttpResponseBase:
    given: dict[str, Any] = {"actor": here.actor, "organization": row}
    account = accounts.account_get(**given)
    found = cards.rate_cards_for(actor=here.actor).filter(currency=account.currency)
    discounts = LIST.of(
        request,
        lambda query: named(accounts.discounts_for(**given), query["q"], "flavor__slug", "note"),
        lambda rows: [(discount, *_standing(discount, here.now)) for discount in rows],
        without=() if here.may_manage else {"end"},
    )
    known = accounts.cost_centers_of(**given)
    centers = CENTERS.of(
        request, lambda query: saying(known.items(), query["q"], lambda each: f"{each[0]} {each[1]}")
    )
    context = {
        "organization": row,
        "account": account,
        "balance": balances.balance_of(currency=account.currency, **given),
        "cost_centers": known,
        "centers": centers,
        "own_card": found.filter(organization=row).first(),
        "standard_card": found.filter(organization=None).first(),
        "account_form": AccountForm(initial=_first(account), auto_id="account_%s"),
        "discount_form": DiscountForm(flavors=_flavors(), auto_id="discount_%s"),
        "center_form": CostCenterForm(auto_id="center_%s"),
        "again": reverse("frontend:operator_billing", args=[row.slug]),
        "crumbs": crumbs(
            "Tenants", ("Organizations", "operator_organizations"), (f"{row.name}: billing", "")
        ),
        **forms,
    }
    return list_page(request, "operator/billing_account.html", discounts, context, centers)


show = organization_page(_page)


def _flavors() -> list[str]:
    return list(Flavor.objects.order_by("slug").values_list("slug", flat=True))


def _first(account: BillingAccount) -> dict[str, Any]:
    names = ("currency", "tax_label", "address", "invoice_reference", "version")
    found = {name: getattr(account, name) for name in names}
    return found | {"tax_rate": f"{amount_of(account.tax_rate_bp, 'EUR'):f}"}


def _standing(discount: Discount, now: datetime) -> tuple[str, str, str]:
    """Percent, tone and word."""
    percent = percent_words(discount.basis_points)
    if discount.valid_to is not None and discount.valid_to <= now:
        return percent, "off", "over"
    return (percent, "wait", "later") if discount.valid_from > now else (percent, "ok", "given")


@organization_action
@checked
def account(request: HttpRequest, here: OperatorPlace, row: Organization) -> HttpResponseBase:
    form = AccountForm(request.POST, auto_id="account_%s")
    if form.is_valid():
        asked = form.cleaned_data
        with refusals_on(form, Invalid, StaleVersion):
            terms = services.AccountTerms(
                currency=asked["currency"].strip().upper(),
                tax_rate_bp=services.tax_rate_parse(asked["tax_rate"].strip()),
                tax_label=asked["tax_label"],
                address=asked["address"],
                invoice_reference=asked["invoice_reference"],
            )
            services.account_update(
                actor=here.actor, organization=row, terms=terms, expected_version=asked["version"]
            )
            text = f"Account of {row.name} saved."
            return done(request, text, "frontend:operator_billing", row.slug)
    return _page(request, here, row, account_form=form)


@organization_action
@checked
def cost_center(request: HttpRequest, here: OperatorPlace, row: Organization) -> HttpResponseBase:
    form = CostCenterForm(sent(request), auto_id="center_%s")
    if form.is_valid():
        asked = form.cleaned_data
        project = Project.objects.filter(organization=row, slug=asked["project"]).first()
        if project is None:
            form.add_error("project", "There is no such project in this organization.")
        else:
            before = ProjectCostCenter.objects.filter(project=project).values_list("code", flat=True).first()
            given = {"project": project.slug, "cost_center": before or ""}
            with refusals_on(form, Invalid):
                services.cost_center_set(actor=here.actor, project=project, code=asked["cost_center"])
                back = undo_by("frontend:operator_cost_center", row.slug, **given)
                text = f"Cost center of {project.slug} saved."
                return done(request, text, "frontend:operator_billing", row.slug, undo=back)
    return _page(request, here, row, center_form=form)


@organization_action
@checked
def discount_new(request: HttpRequest, here: OperatorPlace, row: Organization) -> HttpResponseBase:
    form = DiscountForm(request.POST, flavors=_flavors(), auto_id="discount_%s")
    if form.is_valid():
        asked = form.cleaned_data
        flavor = Flavor.objects.filter(slug=asked["flavor"]).first() if asked["flavor"] else None
        with refusals_on(form, Invalid):
            services.discount_give(
                actor=here.actor,
                organization=row,
                percent=asked["percent"].strip(),
                flavor=flavor,
                valid_from=asked["valid_from"],
                valid_to=asked["valid_to"],
                note=asked["note"],
            )
            return done(request, f"Discount added for {row.name}.", "frontend:operator_billing", row.slug)
    return _page(request, here, row, discount_form=form)


@organization_action
def discount_stop(
    request: HttpRequest, here: OperatorPlace, row: Organization, discount: uuid.UUID
) -> HttpResponse:
    found = accounts.discount_get(actor=here.actor, organization=row, discount_id=discount)
    with refusals_shown(request, Conflict):
        services.discount_end(actor=here.actor, discount=found)
        messages.success(request, "Discount ended. Charges already discounted keep it.")
    return redirect("frontend:operator_billing", row.slug)
